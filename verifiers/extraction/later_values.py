"""Values that a response goes on to after its answer: concluded, asked for, computed from it."""

import re
from itertools import pairwise

from verifiers.extraction.context.abroad import names_answer
from verifiers.extraction.context.aftermath import asks_abroad, later_sentences, overturned
from verifiers.extraction.context.later_words import is_harmless
from verifiers.extraction.context.standing import sentence_after
from verifiers.extraction.readable import is_value
from verifiers.extraction.sentence.last_sentence import chosen
from verifiers.extraction.sentence.numbers import NUMBER
from verifiers.extraction.sentence.operators import touches_nothing
from verifiers.extraction.sentence.prose import last_expression
from verifiers.grammar.literals import is_plain_number
from verifiers.grammar.tables import gated, pattern

CHECKING = pattern("aftermath", "checking")
ENDS_SO = re.compile(
    r"(?:\b(?:is|be|are|answer|root|value|number|one|want)\b,?|:)\s+\$?\(?([A-J]|-?\d[\d.,/]*)\)?\W*$"
)
ENDS_WANTED = re.compile(
    r"(?:\b(?:i\.e\.|أي|ou\sseja)(?!\w),?|[=,，])\s*(?:R?\\?\$|\()?(-?\d[\d.,/]*)[^\d=]{0,12}$"
)
ANOTHER = pattern("later_values", "another")
ANOTHER_ABROAD = gated("later_values", "another_abroad")
ENGLISH = re.compile(r"\b(?:the|is|it|are|so|we|of|and|that)\b", re.I)
ELSEWHERE = pattern("later_values", "elsewhere")
BOUNDED = re.compile(r"[<>≤≥]|\\[lg](?:eq?|t)(?![a-z])")
COMPUTES = re.compile(
    r"[-+*/×·÷=^]|\b(?:plus|minus|times|doubl\w*|halv\w*|add\w*|subtract\w*|divid\w*|multipl\w*"
    r"|more|less|twice|half|each|per|but|not|instead|wrong)\b|n['’]t\b|\bof\s+\d",
    re.I,
)
LAST_TURN = re.compile(
    r"[;—]\s|,\s+(?=(?:but|and\s+so|so|and\s+hence|hence|and\s+thus|thus|leaving)\s)"
)
LONGEST_TAIL = 25
LONGEST_REST = 600
MADE = re.compile(
    r"((?:[-+*/×·÷\d.()\s]|\\(?:times|cdot|div|left|right)\b|\\[,;:! ]){3,80})=\s*\$?(\d[\d,]*)"
)
WHOLE_NUMBER = re.compile(r"(?<![\d.,])\d+(?![\d]|[.,]\d)")
CHECKS = pattern("later_values", "checks")
FIRST_PART = re.compile(r"\n\W{0,8}(?:1[.)]|step\s+1\b|第一)", re.I)
NEXT_PART = pattern("later_values", "next_part")
NOT_WANTED = re.compile(
    r"(?:\bnot|n['’]t)\s+(?:\w+\s+)?(?:asked|requested|wanted|needed|required|sought)\b", re.I
)
WANTED = pattern("later_values", "wanted")
CONCLUSION = pattern("later_values", "conclusion")


def _restates(sentence: str, own: str) -> bool:
    """Return whether a sentence says the answer again, and computes nothing: "So Ann has 12, and
    her brother 7"."""
    said = is_plain_number(own) and own in [number[0] for number in NUMBER.finditer(sentence)]
    return said and not (COMPUTES.search(sentence) or asks_for(sentence))


def concluded(text: str, stop: int, own: str = "") -> list[str]:
    """Return the values that what follows an answer concludes or says to be wanted: "Hence the
    total is 84", "the diameter, which is asked for, is 20"."""
    later = later_sentences(text, stop)
    later = [f"{a} {b}" if a.endswith((":", "：")) else a for a, b in pairwise([*later, ""])]
    said = [
        sentence
        for sentence in later
        if not is_harmless(sentence, own)
        and not CHECKING.match(sentence)
        and (CONCLUSION.match(sentence) or asks_for(sentence) or names_answer(sentence))
        and not _restates(sentence, own)
    ]
    if asks_for(rest := sentence_after(text, stop)):
        said.append(rest)
    values = [
        chosen(sentence) or last_expression(sentence) or _ends_in(sentence) for sentence in said
    ]
    return [value for value in values if value and is_value(value) and not BOUNDED.search(value)]


def _ends_in(sentence: str) -> str | None:
    """Return the plain number or the letter that a sentence ends in."""
    match = ENDS_SO.search(sentence)
    match = match or (ENDS_WANTED.search(sentence) if asks_abroad(sentence) else None)
    return match[1] if match else None


def asks_for(sentence: str) -> bool:
    """Return whether a sentence says what is asked for."""
    if NOT_WANTED.search(sentence):
        return False
    return WANTED.search(sentence) is not None or asks_abroad(sentence)


def stated_anew(text: str, stop: int, value: str) -> list[str]:
    """Return the other numbers that later sentences lead to: "so there are only 8", "the right
    count is 6"."""
    own = value.strip(" $.").rpartition("=")[2].strip()
    found = []
    rest = LAST_TURN.split(sentence_after(text, stop))
    later = [*rest[1:], *later_sentences(text, stop)] if is_plain_number(own) else []
    for sentence in later:
        numbers = [match for match in NUMBER.finditer(sentence) if match[0] != own]
        if not numbers or own in sentence or is_harmless(sentence, own):
            continue
        last = numbers[-1]
        if (
            len(sentence) - last.end() <= LONGEST_TAIL
            and _leads_to_another(sentence, last.start())
            and touches_nothing(sentence, last[0])
        ):
            found.append(last[0])
    return found


def _leads_to_another(sentence: str, start: int) -> bool:
    """Return whether a sentence leads to the number at a place, and speaks of nothing else."""
    if not ENGLISH.search(sentence):
        return ANOTHER_ABROAD.found(sentence)
    if not ANOTHER.search(sentence[:start].rstrip(" $(*") + " "):
        return False
    return not ELSEWHERE.search(LAST_TURN.split(sentence)[-1])


def computed_on(text: str, end: int, value: str) -> list[str]:
    """Return what is computed from a marked number after it, if that is new and stands last: 210
    of "so one cake needs 30 g. 7 × 30 = 210 g"."""
    if not value.isdigit():
        return []
    rest = text[end : end + LONGEST_REST]
    made = list(MADE.finditer(rest))
    numbers = WHOLE_NUMBER.findall(rest)
    if not made or not numbers or CHECKS.search(rest):
        return []
    step, result = made[-1].groups()
    used = value in WHOLE_NUMBER.findall(step)
    new = result not in WHOLE_NUMBER.findall(text[:end]) and numbers[-1] == result
    return [result] if used and new and result != value else []


def goes_on_with_parts(text: str, end: int) -> bool:
    """Return whether another step or part follows a marked value: "Step 3", "(2)"."""
    part = NEXT_PART.search(text, end, end + LONGEST_REST)
    return part is not None and not FIRST_PART.search(text, end, part.start())


def only_remarked(text: str, end: int, value: str) -> bool:
    """Return whether what follows a value states no other, computes nothing from it and leaves it
    as it is."""
    return not (
        overturned(text, end, value)
        or concluded(text, end, value)
        or stated_anew(text, end, value)
        or computed_on(text, end, value)
        or goes_on_with_parts(text, end)
    )
