"""The answer of a response that marks none: bare, in a few words, or in the last sentence."""

import re

from verifiers.extraction.context.abroad import cut_off, described, gave_up
from verifiers.extraction.context.aftermath import overturned
from verifiers.extraction.context.hedges import BOUND, GAVE_UP, labelled
from verifiers.extraction.context.later_words import only_remarks
from verifiers.extraction.context.plain import speaks_of_it
from verifiers.extraction.context.standing import denied_after, denied_before, doubted
from verifiers.extraction.context.wording import Words, changed
from verifiers.extraction.later_values import only_remarked
from verifiers.extraction.layouts import first_line, from_json, last_row, misheaded, value_lines
from verifiers.extraction.readable import LONGEST_BARE, UNFINISHED, YES_OR_NO, is_value
from verifiers.extraction.response.passages import (
    BOLD,
    FENCED,
    LIST_ITEM,
    MARKED,
    SENTENCE_END,
    final_text,
    math_spans,
    sentences,
    tail_of,
)
from verifiers.extraction.sentence.bounds import bounds_stated
from verifiers.extraction.sentence.last_sentence import last_sentence, without_reason
from verifiers.extraction.sentence.prose import (
    CONTRAST,
    NUMBER,
    last_expression,
    only_value,
    stands,
    words_stated,
)
from verifiers.extraction.statements import LEAD
from verifiers.extraction.steps import TAIL, bare_answer, solved
from verifiers.grammar.normalize import as_date, choices
from verifiers.grammar.parts import as_list
from verifiers.grammar.spoken import counted_abroad, spoken
from verifiers.grammar.tables import gated, pattern, table
from verifiers.grammar.vocabulary import words

CHECK = pattern("unmarked", "check")
PARAGRAPH = re.compile(r"^.*?(?:\n\s*\n|\Z)", re.S)
FENCE = re.compile(r"```\w*")
CUT_OFF = re.compile(
    rf"(?:\n\d{{1,2}}[.)]|[({{\[]|[\w)}}]\s*[*/×÷·+=:：]|[a-z]\.{{3}}|{UNFINISHED})[\s$]*$"
)
BOLD_REMARK = 0.0
MOST_PARAGRAPHS = 3
NEAR_END = 400
MOST_CLOSING = 6
LONGEST_REMARKS = 3_000
LONGEST_READ = 30_000
TAG_LIKE = re.compile(r"</?[^\s<>=]{3,14}>")
CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
TERSE = re.compile(r"(?:[^\W\d_]['’\w-]*\s+){0,2}([^\W\d_]['’\w-]*)\s+(?=[-$]?\d)")
SPELLED = pattern("unmarked", "spelled")
PROSE = re.compile(r"(?<!\\)\b(?!and\b|or\b)[A-Za-z]{2,}")
CHECKED_LINES = re.compile(r"(?<=\d)(\D*)\n(?:[^\n]*=[^\n]*[✓✔✅☑]\s*)+\Z")
LAST_ASIDE = re.compile(
    r"(?<=[.!\n*])\s*\*?\((?:[A-ZÀ-ÞΑ-ΩА-ЯІЇЄ]|(?<=\n\()\d|\d+\s[a-z])[^()\n]*(?:\([^()\n]*\)[^()\n]*)*\.?\)[.*]?$|(?<=[。！\n*])\s*（[^（）\n]*）[。*]?$"
)
THERE_IT_IS = re.compile(
    r"\s{0,3}[—–,-]{1,3}\s{0,3}(?:and\s+)?(?:there|that)['’]s\s+(?:your|the|our)\s+answer\W*$", re.I
)
HEADING_LINE = re.compile(r"^####(?=[ \t]+[^\n]*[A-Za-z]{3}[^\n]*\n)", re.M)
NUMBERED = re.compile(r"^(?:\(?[a-e1-9]\)|[1-9]\.|•)\s+(?=\S)")
STATES = words(table("unmarked")["states"])
CONCLUDES = re.compile(r"[,;]\s+(?:so|hence|thus|therefore)\s")
# "3x4=12 apples. 12+5=17 apples."
STEPS = re.compile(r"\d[^.=]*=[^.=]*[.;]\s+\d[^.=]*=")
NEXT_SENTENCE = re.compile(r"[.!?]\s+[A-Z]")
CLOSING = Words(*table("unmarked")["closing"])
OWN_REMARK = pattern("unmarked", "own_remark")
LAST_PIECE = re.compile(r"[^\n](?=\n\s*\n)|(?<=[.!?*])[*)]?(?=\s+I['’ ])")
LAST_SENTENCE = re.compile(r"[.!?](?=\s+[A-ZÀ-ÝА-Я\u0900-\u097f])")
STATES_MORE = re.compile(r"[\d=$\\|`]|\*\*")
DIVIDER = re.compile(r"[-*_ ]{3,}")
NO_LIMIT = gated("unmarked", "no_limit")


def without_marks(text: str) -> str | None:
    """Return the text of a response that marks no answer and is not cut off, without remarks at
    its end."""
    whole = FENCED.sub(" ", text.strip()) if "```" in text else text.strip()
    marks = "box" in whole or "answer>" in whole or "####" in whole
    if marks and MARKED.search(HEADING_LINE.sub("", whole)):
        return None
    if not whole or TAG_LIKE.search(whole):
        return None
    whole = _without_remarks(whole)
    return None if _unfinished(whole) else tail_of(whole, LONGEST_READ)


def unmarked(whole: str) -> tuple[str, str] | None:
    """Return the answer of a text without mark and phrase, and how it was found: a short bare
    answer, or the last value of the last sentence."""
    bare = FENCE.sub("", whole).strip() if "```" in whole else whole
    if bare.startswith("{") and '":' in bare:
        return from_json(bare)
    if misheaded(whole) or speaks_of_it(last_sentence(whole)):
        return None
    if first := first_line(whole):
        return first, "first line"
    if found := solved(whole):
        return found, "last step"
    if listed := value_lines(whole):
        return listed, "several lines"
    if not NEXT_SENTENCE.search(whole) and (label := labelled(whole)):
        value, anothers = label
        if anothers:
            return None
        if not ("\n" in value and PROSE.search(value)) and is_value(value):
            return value, "whole response"
    if as_date(whole.rstrip(".")):
        return whole, "whole response"
    if parts := as_list(LEAD.sub("", whole, count=1)):
        return parts, "parts"
    if NO_LIMIT.search(whole, max(0, len(whole) - NEAR_END)):
        return "does not exist", "last sentence"
    if row := last_row(whole):
        return row, "table"
    if len(whole) <= LONGEST_BARE and "\n" not in whole and (short := _short(whole)):
        return None if _followed(whole, short) else (short, "whole response")
    if said := words_stated(whole) or bounds_stated(last_sentence(whole)):
        return said, "last sentence"
    last = last_expression(whole)
    return (last, "last expression") if last and not _followed(whole, last) else None


def _without_remarks(whole: str) -> str:
    """Return a text without the paragraph that checks or remarks on its answer, ticked lines and
    an aside at its end, unless they take the answer back."""
    check = CHECK.search(whole, max(1, len(whole) - LONGEST_REMARKS))
    if check and not overturned(whole, check.start(), ""):
        rest = PARAGRAPH.sub("", whole[check.end() :], count=1)
        whole = (whole[: check.start()] + rest).rstrip()
    if whole[-1:] in ("✓", "✔", "✅", "☑"):
        whole = CHECKED_LINES.sub(r"\1", whole)
    if whole.endswith(("answer.", "answer!", "answer")):
        whole = whole[:-NEAR_END] + THERE_IT_IS.sub("", whole[-NEAR_END:])
    aside = LAST_ASIDE.search(whole, 1) if whole[-1:] in (")", ".", "*", "）") else None
    if aside and not overturned(whole, aside.start(), ""):
        whole = whole[: aside.start()].rstrip()
    return whole


def without_closing(text: str) -> str:
    """Return a text without what offers help and states nothing, or says how it was done, at its
    end."""
    text = text.rstrip()
    for _ in range(MOST_CLOSING):
        at = _last_start(LAST_PIECE, text)
        last = text[at:].strip()
        closes = bool(_offers(last) or OWN_REMARK.search(last) or DIVIDER.fullmatch(last))
        if not closes:
            at = _last_start(LAST_SENTENCE, text)
            closes = _offers(text[at:])
        if not at or not closes or overturned(text, at, ""):
            break
        text = text[:at].rstrip()
    return text


def _last_start(piece: re.Pattern[str], text: str) -> int:
    """Return where the last piece of a text begins, if that is near its end; or else 0."""
    starts = [match.end() for match in piece.finditer(text, max(0, len(text) - NEAR_END))]
    return starts[-1] if starts else 0


def _offers(last: str) -> bool:
    """Return whether a piece offers help, or wishes well, and states nothing."""
    return CLOSING.search(last) and not STATES_MORE.search(last)


def _unfinished(whole: str) -> bool:
    """Return whether a text is cut off or says that it has no answer."""
    if CUT_OFF.search(whole, max(0, len(whole) - 40)) or cut_off(whole):
        return True
    near = max(0, len(whole) - NEAR_END)
    return gave_up(whole[near:]) or GAVE_UP.search(whole, near) is not None


def emphasized(written: str, text: str) -> str | None:
    """Return the only value in bold of a response's last sentence, if the sentence states it."""
    line = written.rstrip().rpartition("\n")[2].strip()
    bold = BOLD.findall(line)
    if len(bold) != 1 or BOLD.sub(r"\1", line) != text.rstrip().rpartition("\n")[2].strip():
        return None
    value = bold[0].strip(" .")
    if label := labelled(value):
        value = "" if label[1] else label[0]
    sentence = (sentences(text) or [""])[-1]
    if (
        value.endswith(":")
        or len(sentence) < len(value) + 4
        or value not in sentence
        or not is_value(value)
    ):
        return None
    plain = not speaks_of_it(sentence) and stands(sentence, value)
    return value if plain and not gave_up(sentence) else None


def emphasized_earlier(written: str) -> str | None:
    """Return the last value in bold, the only one of its line, if all sentences after its own, or
    one or two paragraphs, only remark."""
    bold = list(BOLD.finditer(written))
    ended = SENTENCE_END.search(written, bold[-1].end() - 3) if bold else None
    if ended is None:
        return None
    before, after = written[: ended.end()], written[ended.end() :]
    line = before.rstrip().rpartition("\n")[2]
    if not after.strip() or "**" in after or LIST_ITEM.match(line):
        return None
    value = emphasized(before, final_text(before))
    if value is None:
        return None
    paragraphs = after.split("\n\n")
    apart = not paragraphs[0].strip() and len(paragraphs) <= MOST_PARAGRAPHS
    if not (apart or only_remarks(sentences(after), value, BOLD_REMARK)):
        return None
    text = f"{value}.\n\n{after}"
    return value if only_remarked(text, len(value), value) else None


def _followed(text: str, value: str) -> bool:
    """Return whether a sentence that overturns a value follows it."""
    at = text.rfind(value)
    return at >= 0 and overturned(text, at + len(value.rstrip(" .")), value)


def _short(whole: str) -> str | None:
    """Return the answer of a line: a value, a value with its reason, or two or three words."""
    if terse := _tersely(whole):
        return terse
    if STEPS.search(whole):
        return None
    bare = CONTRAST.sub("", bare_answer(NUMBERED.sub("", whole, count=1)))
    if BOUND.match(bare):
        return bare
    if match := YES_OR_NO.match(bare + "."):
        return match[1]
    if (said := SPELLED.fullmatch(whole)) and (value := spoken(said[1])):
        part = any(" " in other for other in counted_abroad(whole))
        return value if not part and stands(whole, said[1]) else None
    if (is_value(bare) and not CONCLUDES.search(bare)) or spoken(bare):
        return bare
    value = without_reason(bare)
    one = not NEXT_SENTENCE.search(bare)
    if one and value != bare and (is_value(value) or choices(value)) and stands(bare, value):
        return value
    if len(whole.split()) <= 3 and not CJK.search(whole) and not math_spans(whole):
        return words_stated(whole) or only_value(whole) or _in_words(whole) or whole
    return None


def _in_words(text: str) -> str | None:
    """Return the only number that a few words of another language hold, if they state it."""
    found = counted_abroad(text)
    return found[0] if len(found) == 1 and stands(text, found[0]) else None


def _tersely(text: str) -> str | None:
    """Return the value of "I got 42" or "On obtient 7.": two or three words that state it."""
    lead = TERSE.match(text) if len(text.split()) <= 4 and "," not in text else None
    if lead is None or lead[1].casefold() not in STATES:
        return None
    value = TAIL.sub("", text[lead.end() :], count=1).rstrip(" .!")
    number = NUMBER.match(value)
    around = lead[0], value[number.end() :] if number else ""
    if (
        described(lead[0], around[1])
        or denied_before(lead[0])
        or doubted(lead[0])
        or denied_after(around[1])
        or changed(*around)
    ):
        return None
    if is_value(value):
        return value
    rest = around[1].strip()
    return number[0] if number and rest.isalpha() and not rest.isascii() else None
