r"""Where a response states its answer. These are all the rules; no other words are looked at.

**The final text** is what follows the last `</think>`; a thought that never closes has none. It
ends with the turn and, once it holds the mark that is asked for, before a line that begins another
problem ("Question:", "Q:").

**think_answer**: the response is exactly one `<think>…</think><answer>…</answer>`, with nothing but
white space around; the answer is the block, or what its boxes hold if it is nothing but boxes.

**boxed**: the answer is the last `\boxed{…}` (or `\fbox{…}`) of the final text. If that one never
closes, or holds nothing, there is no answer.

**any**: the answer is the first of these that the final text has. An answer block that is no value
is read like a response of its own.
  1. the answer block;
  2. the last box;
  3. the last line `#### …`: all of it if that is a value, else its only value;
  4. the last "the answer is …", "Answer: …": all that its sentence says if that is a value, else
     the value right after it; after a colon or a heading else the last value of the sentence;
  5. the whole text if it is a value, else the last value of the last sentence, questions aside,
     that has one;
  6. of the last sentence the yes or no that it begins with, before a comma or a stop, the choice
     that it names, (B), or the words after its last "is", all without one, if at most three.

**Read whole.** The answer is read to its last character by the grammar, or it is wrong: "7 or so"
is not 7.

**One list.** Boxes, formulas or numbers with only "and", "or", commas, list marks or names ("x =")
between them are one list, and all of it must be the gold's. So are all boxes of one value each,
where the gold lists as many values.

**Many marks.** More than five different boxes, `####` lines, statements or bare lines, with no
joiner between them, are guesses: no answer.

**Left undone.** A sum or product of plain numbers is no answer where one number is asked for; in
`think_answer` and `boxed` neither is a quotient, 48/2, where a whole number is.

**Cut off.** A response that was cut off states nothing but in a block or a box that closes, or in
a `####` or "the answer is" whose line has ended.

**Verdicts.** What is found and read is `correct` or `wrong`. "No answer" is `no_answer`, or
`truncated` where a response was cut off and nothing was found. What has not the form of
`think_answer` is `bad_format`, or `truncated` if it was cut off and what it has of the four tags,
be it none, is their beginning. `extracted` is the text of the answer, also of one left undone.
"""

import re
from typing import NamedTuple

from verifiers.equality.compare import members
from verifiers.extraction.marks import (
    BOX,
    END_OF_TURN,
    FORMAT,
    HASHES,
    OWN_TURN,
    STATEMENT,
    TAG,
    Piece,
    after_thought,
    boxes,
    check_format,
    own_problem,
)
from verifiers.extraction.prose import (
    EDGE,
    WORD,
    groups,
    is_joined,
    is_whole,
    listed,
    sentences,
    values,
)
from verifiers.grammar.literals import is_plain_number
from verifiers.types import Format

MOST_MARKS = 5
"""Different values that a response may mark: reasoning corrects itself, a list of guesses is long.
Of 18,000 right responses none marked more than three; one with parts may box each."""
MARKS_READ = 50
"""Of more marks the last ones are read."""
LONGEST_PROSE = 10_000
"""Characters at the end of a text that are read for prose."""
LONGEST_VALUE = 300
"""Characters of a sentence that may be a value as a whole."""
MOST_WORDS = 3
"""Words of an answer in words, as "does not exist"; "I do not know" is none."""

CLOSED_BLOCK = re.compile("</answer>")
CALCULATOR = re.compile(r"<<[^<>\n]{0,200}>>")
BOLD = re.compile(r"(?<![\w)\]}])\*\*|\*\*(?![\w(])")
HEADING = re.compile(r"[:：\n][\s*_=-]*$")
IS = re.compile(r"(?:\b(?:is|are|was|were|equals?|be)\b|[:=]|是|为|為)\s*(?:(?:an?|the)\s+)?", re.I)
YES_OR_NO = re.compile(r"\W{0,9}(yes|no|true|false)\s*[.,;:!—–]", re.I)
CHOICE = re.compile(
    r"\(([A-J])\)|(?<![A-Za-z.'’\\(])([B-HJ])(?=[).,:*\s。]|$)(?!['’])"
    r"|\b(?:option|choice|is|:)\s\**([A-J])\b"
)


class Extraction(NamedTuple):
    """The text of the answer, or None, and the place where it stands or why there is none."""

    text: str | None
    place: str


def extract(
    response: str,
    *,
    format: Format = "any",
    gold: str = "",
    think_open: bool = False,
    cut_off: bool = False,
) -> Extraction:
    """Find the answer of a response. The gold says only whether one value is asked for."""
    if format == "think_answer" and not check_format(response, think_open=think_open):
        return Extraction(None, "not <think>…</think> then <answer>…</answer>")
    text = after_thought(response, think_open=think_open)
    if text is None:
        return Extraction(None, "the thought never closes")
    if "<" in text:
        text = END_OF_TURN.split(OWN_TURN.sub("", text, count=1), maxsplit=1)[0]
    if format != "boxed" and "answer>" in text:
        tags = [tag for tag in TAG.findall(own_problem(text, CLOSED_BLOCK)) if "answer" in tag]
        if tags != FORMAT[2:]:
            return Extraction(None, "answer tags that repeat or do not close")
        inside = text.partition("<answer>")[2].partition("</answer>")[0]
        block = _of_block(inside)
        if format == "think_answer" or is_whole(block):
            return Extraction(block, "answer block")
        text, cut_off = inside, False
    text = own_problem(text, BOX)
    found, is_closed = boxes(text) if "box" in text else ([], True)
    if not is_closed:
        return Extraction(None, "the last box never closes")
    if found:
        return _of_boxes(text, found[-MARKS_READ:], gold)
    if format == "boxed":
        return Extraction(None, "no box")
    return _of_prose(text, cut_off=cut_off)


def boxed_answer(text: str, *, think_open: bool = False) -> str | None:
    """Return what the last box of a response or a written solution holds; None without one."""
    return extract(text, format="boxed", think_open=think_open).text


def _of_block(inside: str) -> str:
    """Return what an answer block states: all of it, or the boxes that make up all of it."""
    found, _ = boxes(inside)
    ends = [0, *(box.end for box in found)]
    starts = [*(box.start for box in found), len(inside)]
    if found and all(is_joined(inside, *gap) for gap in zip(ends, starts, strict=True)):
        return listed(inside, found)
    return inside.strip().strip("*`")


def _of_boxes(text: str, found: list[Piece], gold: str) -> Extraction:
    """Return the last box with those joined to it, or all boxes as the list that is asked for."""
    each = [box.content for box in found]
    if len(found) > 1 and members(gold) == len(found) and max(map(members, each)) == 1:
        return Extraction(", ".join(each), "all boxes")
    return _last([listed(text, run) for run in groups(text, found)], "last box")


def _last(stated: list[str], place: str) -> Extraction:
    """Return the last of several marked values, unless they are many."""
    if len({value.strip(" $.*") for value in stated}) > MOST_MARKS:
        return Extraction(None, f"{place}: more than {MOST_MARKS} different ones")
    return Extraction(stated[-1], place)


def _of_prose(text: str, *, cut_off: bool) -> Extraction:
    """Return what a text without a block or a box states."""
    if len(text) > LONGEST_PROSE:  # from the beginning of a line: no value is cut
        text = text[-LONGEST_PROSE:].partition("\n")[2]
    if cut_off:
        text = text.rpartition("\n")[0]
    text = CALCULATOR.sub("", text) if "<<" in text else text
    text = BOLD.sub("", text) if "**" in text else text
    if hashed := HASHES.findall(own_problem(text, HASHES)):
        return _last([_stated(line, "####") for line in hashed[-MARKS_READ:]], "last ####")
    own = own_problem(text, STATEMENT)
    marks = list(STATEMENT.finditer(own))[-MARKS_READ:]
    ends = [mark.start() for mark in marks[1:]] + [len(own)]
    stated = [
        _stated(rest[0], mark[0])
        for mark, end in zip(marks, ends, strict=False)
        if (rest := sentences(own[mark.end() : end]))
    ]
    if stated:
        return _last(stated, 'last "answer is"')
    if cut_off:
        return Extraction(None, "cut off before an answer was marked")
    whole = text.strip()
    if len(whole) <= LONGEST_VALUE and is_whole(whole):
        return Extraction(whole, "whole text")
    return _of_last_sentence(sentences(text))


def _stated(sentence: str, mark: str) -> str:
    """Return what a sentence states after its mark: all of it, or the value right there; after a
    colon or a heading its last value; after "####" its only one."""
    sentence = sentence.strip().strip("*_`").strip()
    if match := YES_OR_NO.match(sentence):
        return match[1]
    if len(sentence) > LONGEST_VALUE or is_whole(sentence):
        return sentence
    runs = groups(sentence, values(sentence))
    if not runs:
        choice = CHOICE.match(sentence)
        return choice[choice.lastindex or 0] if choice else sentence
    if mark != "####" and not WORD.search(sentence[: runs[0][0].start]):
        return listed(sentence, runs[0])
    has_one = HEADING.search(mark) or (len(runs) == 1 and mark == "####")
    return listed(sentence, runs[-1]) if has_one else sentence


def _of_last_sentence(said: list[str]) -> Extraction:
    """Return what the last sentence of a text states that states anything."""
    bare = {sentence for sentence in said if is_plain_number(sentence)}
    for sentence in reversed(said):
        if sentence.endswith("?") or not (found := values(sentence)):
            continue
        if sentence in bare and len(bare) > MOST_MARKS:
            return Extraction(None, f"last line: more than {MOST_MARKS} different ones")
        return Extraction(listed(sentence, groups(sentence, found)[-1]), "last value")
    if not said or len(said[-1]) > LONGEST_VALUE:
        return Extraction(None, "no answer found")
    if match := YES_OR_NO.match(said[-1]):
        return Extraction(match[1], "yes or no")
    if choices := list(CHOICE.finditer(said[-1])):
        return Extraction(choices[-1][choices[-1].lastindex or 0], "last choice")
    words = IS.split(said[-1])[-1].strip(EDGE)
    if len(words.split()) > MOST_WORDS:
        return Extraction(None, "no answer found")
    return Extraction(words, "last words")
