"""Find the answer that a response states. `verifiers/README.md` has the rules, under the names that
the functions here have: block, boxes, "####", statement, whole text, last sentence."""

import re
from functools import lru_cache
from typing import NamedTuple

from verifiers.equality.compare import members
from verifiers.extraction import containers, marks, prose
from verifiers.extraction.turns import final_text
from verifiers.grammar.literals import is_plain_number
from verifiers.grammar.normalize import choices, plain_digits
from verifiers.types import Format

MOST_MARKS = 5
"""Different values that a response may mark. Reasoning corrects itself, while a list of guesses is
long: of 18,000 right responses none marked more than three."""
MOST_MARKS_READ = 50
"""Marks that are read, from the last one back, so that a text full of marks costs little."""
LONGEST_PROSE = 10_000
"""Characters at the end of a text that are read as prose."""
LONGEST_VALUE = 300
"""Characters of a sentence that may be a value as a whole."""
MOST_WORDS = 3
"""Words of an answer in words: "does not exist" is one, "I do not know" is none."""

CLOSED_BLOCK = re.compile("</answer>")
CALCULATOR = re.compile(r"<<[^<>\n]{0,200}>>")
BOLD = re.compile(r"(?<![\w)\]}])\*\*|\*\*(?![\w(])")
HEADING = re.compile(r"[:：\n][\s*_=-]*$")
IS = re.compile(r"(?:\b(?:is|are|was|were|equals?|be)\b|[:=]|是|为|為)\s*(?:(?:an?|the)\s+)?", re.I)
# "The answer is correct." judges an answer and does not state one.
# A sentence in a box or in JSON. Its words may stand in \\text, which is taken off first.
SENTENCE = re.compile(r"[A-Z][a-z]*(?:\s+(?:\\\$)?[^\s={}<>\\]+){3,}\s*")
TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
CHECKED = re.compile(r"(?:indeed |also )?(?:correct|right|verified|confirmed|consistent)\W*", re.I)
YES_OR_NO = re.compile(r"\W{0,9}(yes|no|true|false)\s*[.,;:!—–]", re.I)
CHOICE_IN_PROSE = re.compile(
    r"\(([A-J])\)|(?<![A-Za-z.'’\\(])([B-HJ])(?=[).,:*\s。，；]|$)(?!['’])"
    r"|\b(?:option|choice|is|:)\s\**([A-J])\b"
)
_LETTER = r"(?:option |choice )?[*_(]{0,4}[A-J](?![\w'’])[*_)]{0,4}"
_LETTERS = rf"{_LETTER}(?:(?:\s*[,/&、]|\s*(?:and|n?or)\b|\s*[和或])+\s*{_LETTER})*"
JOINED_LETTERS = re.compile(rf"(?<![\w'’\\]){_LETTERS}")
# The letters after "is", or before "is correct".
STATED = re.compile(
    rf"(?:\b[Ii]s\b:?|(?:must|should|will|would|to) be\b|(?<!不)是)\s*(?:the )?({_LETTERS})"
    rf"|(?<![A-Za-z0-9_'’])({_LETTERS})\s*(?:\bis\b|是)\s*(?:indeed |also )?"
    r"(?:the )?(?:only )?(?:correct|right|best|true|answer|正确)"
)
letters_of = lru_cache(maxsize=4096)(choices)  # a gold is the same for many responses
LETTER = re.compile(r"(?<!\w)[A-J](?!\w)")
# It cannot be (B): a letter that does not follow right after the verb is not stated.
UNDECIDED = re.compile(r"\b(?:be|is|are|isn['’]t|aren['’]t)\b[^,.;]*$|不是[^，。；]*$")


class Extraction(NamedTuple):
    """Hold the text of the answer and its place, or None and the reason."""

    text: str | None
    place: str


def extract(
    response: str,
    *,
    format: Format = "any",
    gold: str = "",
    think_open: bool = False,
    cut_off: bool = False,
    is_any_text: bool = False,
) -> Extraction:
    """Return the answer of a response. The gold says only how many values are asked for, and
    whether a letter is. With `is_any_text` an answer block is the answer even if it is no value."""
    if format == "think_answer" and not marks.check_format(response, think_open=think_open):
        return Extraction(None, "not <think>…</think> then <answer>…</answer>")
    text = final_text(response, think_open=think_open)
    if text is None:
        return Extraction(None, "the thought never closes")
    if format != "boxed" and "answer>" in text:
        tags = marks.TAG.findall(marks.own_problem(text, CLOSED_BLOCK))
        if [tag for tag in tags if "answer" in tag] != marks.FORMAT[2:]:
            return Extraction(None, "answer tags that repeat or do not close")
        block_text = text.partition("<answer>")[2].partition("</answer>")[0]
        block = _block_answer(block_text)
        if format == "think_answer" or is_any_text or prose.is_whole(block):
            return Extraction(block, "answer block")
        text = block_text
        cut_off = False
    text = marks.own_problem(text, marks.BOX)
    spans, is_closed = marks.boxes(text)
    if not is_closed:
        return Extraction(None, "the last box never closes")
    if format != "boxed":
        in_json = containers.json_answers(text[spans[-1].end :] if spans else text)
        if in_json:
            in_json[-1] = _inside_sentence(in_json[-1], gold)
            return _last(in_json, "last JSON answer")
    is_letter = bool(letters_of(gold))
    if is_letter:  # to which a box that is no letter is no answer
        letters = [span for span in spans if _states(span.content, is_letter=True)]
        spans = letters if letters or format == "any" else spans
    if spans:
        return _boxed_answer(text, spans[-MOST_MARKS_READ:], gold)
    if format == "boxed":
        return Extraction(None, "no box")
    return _prose_answer(text, cut_off=cut_off, is_letter=is_letter)


def boxed_answer(text: str, *, think_open: bool = False) -> str | None:
    """Return what the last box of a response or a written solution holds, else None."""
    return extract(text, format="boxed", think_open=think_open).text


def _block_answer(block: str) -> str:
    """Return what an answer block states: all of it, or the boxes that make up all of it."""
    spans, _ = marks.boxes(block)
    ends = [0, *(span.end for span in spans)]
    starts = [*(span.start for span in spans), len(block)]
    if spans and all(prose.is_joined(block, *gap) for gap in zip(ends, starts, strict=True)):
        return prose.answer_text(block, spans)
    return block.strip().strip("*`")


def _boxed_answer(text: str, spans: list[marks.Span], gold: str) -> Extraction:
    """Return the last box with those joined to it, or all boxes as the list that is asked for."""
    contents = [span.content for span in spans]
    if len(spans) > 1 and members(gold) == len(spans) and max(map(members, contents)) == 1:
        return Extraction(", ".join(contents), "all boxes")
    answers = [prose.answer_text(text, group) for group in prose.groups(text, spans)]
    answers[-1] = _inside_sentence(answers[-1], gold)
    return _last(answers, "last box")


def _inside_sentence(answer: str, gold: str) -> str:
    """Return the only value of a sentence, unless the gold answer is one too. Return any other text
    unchanged."""
    sentence = SENTENCE.fullmatch(TEXT.sub(r"\1", answer))
    if sentence is None or SENTENCE.fullmatch(TEXT.sub(r"\1", gold)):
        return answer
    return _marked(sentence[0], "####")


def _last(answers: list[str], place: str) -> Extraction:
    """Return the last of the answers that are marked, unless they are many different ones."""
    if len({answer.strip(" $.*") for answer in answers}) > MOST_MARKS:
        return Extraction(None, f"{place}: more than {MOST_MARKS} different ones")
    return Extraction(answers[-1], place)


def _prose_answer(text: str, *, cut_off: bool, is_letter: bool) -> Extraction:
    """Return the answer of a text that has neither a block nor a box."""
    if len(text) > LONGEST_PROSE:  # from the beginning of a line, so that no value is cut in two
        text = text[-LONGEST_PROSE:].partition("\n")[2]
    text = plain_digits(text)
    if cut_off:
        text = text.rpartition("\n")[0]
    if "<<" in text:
        text = CALCULATOR.sub("", text)
    if "**" in text:
        text = BOLD.sub("", text)
    text = containers.FENCE.sub("", text)
    if ">" in text:
        text = containers.END_MARKS.sub("", text)
    if "####" in text:
        lines = marks.HASHES.findall(marks.own_problem(text, marks.HASHES))
        if lines:
            return _last([_marked(line, "####") for line in lines[-MOST_MARKS_READ:]], "last ####")
    problem_text = marks.own_problem(text, marks.STATEMENT)
    statements = list(marks.STATEMENT.finditer(problem_text))[-MOST_MARKS_READ:]
    ends = [*(statement.start() for statement in statements[1:]), len(problem_text)]
    answers = []
    unread = Extraction(None, "")
    for statement, end in zip(statements, ends, strict=False):
        following = prose.sentences(problem_text[statement.end() : end])
        if not following or CHECKED.fullmatch(following[0]):
            continue
        answer = _marked(following[0], statement[0])
        if is_letter and not _states(answer, is_letter=True):
            answer = _first_letters(following[0]) or answer
        if _states(answer, is_letter=is_letter):
            answers.append(answer)
        else:  # "Answer: Let's think step by step." states nothing
            unread = Extraction(answer, 'last "answer is"')
            text = "\n".join(following[1:])
    if answers:
        return _last(answers, 'last "answer is"')
    if cut_off:
        return unread if unread.text else Extraction(None, "cut off before an answer was marked")
    unmarked = _unmarked_answer(text, is_letter=is_letter)
    return unread if unread.text and unmarked.text is None else unmarked


def _first_letters(sentence: str) -> str | None:
    """Return the letters with which a sentence begins, C of "C (11 is prime, D is not)"."""
    letters = JOINED_LETTERS.match(sentence) if CHOICE_IN_PROSE.match(sentence) else None
    if letters is None or "=" in sentence[letters.end() : letters.end() + 2]:  # D = 5t
        return None
    return ", ".join(LETTER.findall(letters[0]))


def _states(answer: str, *, is_letter: bool) -> bool:
    """Return whether a text is a value, few words, or the letter that is asked for."""
    if is_letter:
        return bool(choices(answer, with_text=True, loose=True))
    return len(answer.split()) <= MOST_WORDS or prose.is_whole(answer)


def _unmarked_answer(text: str, *, is_letter: bool) -> Extraction:
    """Return the answer of a text without any mark."""
    stripped = text.strip()
    if len(stripped) <= LONGEST_VALUE and prose.is_whole(stripped):
        return Extraction(stripped, "whole text")
    last_line = stripped.rpartition("\n")[2].strip(prose.EDGE)
    if choices(last_line):
        return Extraction(last_line, "last line")
    first = containers.FIRST_CHOICE.match(stripped) if is_letter else None
    if first:
        return Extraction(first[1], "first choice")
    return _last_sentence_answer(prose.sentences(text), is_letter=is_letter)


def _marked(sentence: str, mark: str) -> str:
    """Return the answer in the sentence after a mark.

    It is the whole sentence if that is a value, else the value right after the mark. After a colon
    or a heading it is the last value, and after "####" the only one."""
    sentence = sentence.strip().strip("*_`").strip()
    yes_or_no = YES_OR_NO.match(sentence)
    if yes_or_no:
        return yes_or_no[1]
    if len(sentence) > LONGEST_VALUE or prose.is_whole(sentence):
        return sentence
    lists = prose.groups(sentence, prose.values(sentence))
    if not lists:
        choice = CHOICE_IN_PROSE.match(sentence)
        return choice[choice.lastindex or 0] if choice else sentence
    if mark == "####":
        return prose.answer_text(sentence, lists[0]) if len(lists) == 1 else sentence
    if not prose.WORD.search(sentence[: lists[0][0].start]):
        return prose.answer_text(sentence, lists[0])
    return prose.answer_text(sentence, lists[-1]) if HEADING.search(mark) else sentence


def _stated(sentence: str) -> str | None:
    """Return the letters of choices that a sentence states, or else its last one. Return None if it
    has none, and an empty text if it leaves that one open."""
    stated = STATED.search(sentence)
    if stated:
        return ", ".join(LETTER.findall(stated[stated.lastindex or 0]))
    named = list(CHOICE_IN_PROSE.finditer(sentence))
    if not named:
        return None
    last = named[-1]
    if UNDECIDED.search(sentence[: last.start()]):
        return ""
    end = last.end(last.lastindex or 0)
    for letters in JOINED_LETTERS.finditer(sentence):
        if letters.start() < end <= letters.end():
            return ", ".join(LETTER.findall(letters[0]))
    return last[last.lastindex or 0]


def _last_sentence_answer(all_sentences: list[str], *, is_letter: bool) -> Extraction:
    """Return the answer of the last sentence that has one."""
    numbers = {sentence for sentence in all_sentences if is_plain_number(sentence)}
    for sentence in reversed(all_sentences):
        spans = [] if is_letter or sentence.endswith("?") else prose.values(sentence)
        if not spans:
            continue
        if sentence in numbers and len(numbers) > MOST_MARKS:
            return Extraction(None, f"last line: more than {MOST_MARKS} different ones")
        return Extraction(
            prose.answer_text(sentence, prose.groups(sentence, spans)[-1]), "last value"
        )
    last = all_sentences[-1] if all_sentences else ""
    if not last or len(last) > LONGEST_VALUE:
        return Extraction(None, "no answer found")
    yes_or_no = YES_OR_NO.match(last)
    if yes_or_no:
        return Extraction(yes_or_no[1], "yes or no")
    letters = _stated(last)
    if letters is not None:
        return Extraction(letters or None, "last choice")
    words = IS.split(last)[-1].strip(prose.EDGE)
    if len(words.split()) > MOST_WORDS:
        return Extraction(None, "no answer found")
    return Extraction(words, "last words")
