"""Whether what stands in a sentence is stated by it: not denied, doubted, asked or another's."""

import re
from functools import lru_cache, reduce
from operator import or_

from verifiers.extraction.context.abroad import described, misnamed
from verifiers.extraction.context.wording import (
    DOUBT,
    NEGATION,
    NOT_SAID,
    QUESTION,
    REJECTED,
    WRONG,
    changed,
    opened,
)
from verifiers.grammar.gates import possible
from verifiers.grammar.tables import gated, pattern, table
from verifiers.grammar.vocabulary import words

NEAR = 300
SENTENCE_ENDS = ".!?;。！？；\n"
SENTENCE_BREAK = re.compile(
    rf"[{SENTENCE_ENDS}](?:(?<=[。！？；])|(?<=\n)(?!\s*(?:\\\[|\$\$))|(?<=[.!?;])(?<!e\.g\.)(?<!i\.e\.)(?=\$?\s|\\\]))"
)
PARAGRAPH_ENDS = (".", "。", "！", "!")
HAN = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
LEAD_IN = ' \t\n$*_`:([{}“"\\'
# What a blank line before a place ends: an item of a list, a line that closes "(63 = 7 × 9)".
ENDED = re.compile(
    r"(?:(?:^|\n)[ \t]*(?:[-*•–]|\d{1,2}[.)]|\(?[A-E][.)])\s[^\n]*"
    r"(?<![:：,=])(?<!\bis)(?<!\bnot)(?<!\bare)(?<!\bbe)(?<!\bequals)"
    r"|[(（][^()（）\n]*[\d=][^()（）\n]*[)）])[ \t*]*\n\s*\n[\s$*_\\\[({]*$"
)
STARTS_ANEW = re.compile(r"[\s$)\]*]*\s(?!Is\b)([^\W\d_])[\w'’]*\s+[\w\\$(]")
CLAUSE_BREAK = pattern("standing", "clause_break")
ENDS_CLAUSE = pattern("standing", "ends_clause")
DENIES_NEXT = gated("standing", "denies_next")
DENIES_CLAUSE = gated("standing", "denies_clause")
CONCLUDED = re.compile(
    r",\s+(?:and\s+so|so|hence|thus|therefore|leaving|but\s+done|we\s+(?:have|get|obtain|find|conclude))\b",
    re.I,
)
STEP_NEXT = gated("standing", "step_next")
SUPPOSES = gated("standing", "supposes")
SUPPOSED = gated("standing", "supposed")
OTHERS_SAY = gated("standing", "others_say")
OFFERS_NEXT = gated("standing", "offers_next")
WRONG_BEFORE = gated("standing", "wrong_before")
DENIED_AFTER = gated("standing", "denied_after")
SUBJECT_OF = gated("standing", "subject_of")
AFFIRMED = gated("standing", "affirmed")
WRONG_THINGS = re.compile(r"[\s$]*(?:wrong|incorrect|false)\s+[a-z]+s\b", re.I)
NEXT_DENIES = pattern("standing", "next_denies")
POSITIVE = re.compile(r"\b(?:correct|right|hold|work|fit|answer)$", re.I)
ONLY_IF = gated("standing", "only_if")
CASES = pattern("standing", "cases")
ANOTHERS_LABEL = words(table("standing")["anothers_label"])
LABEL_BEFORE = re.compile(r"\W*((?:[\w'-]+\s){0,3}[\w'-]+)\s*:[\s$*_\\(\[{]*")
ROW_DENIES = re.compile(
    r"\|[^|]*\b(?:wrong|false|rejected|incorrect|no|fails?|invalid|discarded)\b[^|]*(?:\||$)", re.I
)
TAKEN_AWAY = NEGATION | REJECTED
DENIED = TAKEN_AWAY | WRONG
DENYING = (STEP_NEXT, DENIES_NEXT, DENIES_CLAUSE, SUPPOSES, SUPPOSED, OTHERS_SAY, WRONG_BEFORE)
MAY_DENY = reduce(or_, (rule.bits for rule in DENYING), TAKEN_AWAY.bits | NOT_SAID.bits)


@lru_cache(maxsize=8)
def sentence_before(text: str, start: int) -> str:
    """Return what the sentence says before a place."""
    before = text[max(0, start - NEAR) : start]
    if "\n\n" in before[-12:] and ENDED.search(before):
        return ""
    lead, before = before, before.rstrip(LEAD_IN)
    if before[-1:] in PARAGRAPH_ENDS and "\n\n" in lead[len(before) :]:
        return ""
    at = len(before)
    while (at := max(before.rfind(sign, 0, at) for sign in SENTENCE_ENDS)) >= 0:
        if SENTENCE_BREAK.match(before, at):
            return before[at + 1 :]
    return before


def sentence_after(text: str, end: int) -> str:
    """Return what the sentence says after a place."""
    rest = text[end : end + NEAR]
    match = SENTENCE_BREAK.search(rest)
    return rest[: match.end()] if match else rest


def last_clause(before: str) -> str:
    last = 0
    for match in CLAUSE_BREAK.finditer(before):
        last = match.end()
    return before[last:]


def not_stated(text: str, start: int, end: int) -> bool:
    """Return whether the words around text[start:end] deny it, ask it or give it to others."""
    before, after = sentence_before(text, start), sentence_after(text, end)
    anew = STARTS_ANEW.match(after)
    after = "" if anew and anew[1].isupper() else after
    if (
        denied_before(before)
        or denied_after(after)
        or described(before, after, colon=_after_colon(text, start))
        or misnamed(before, after)
    ):
        return True
    line = text[text.rfind("\n", 0, start) + 1 : start]
    label = LABEL_BEFORE.fullmatch(line) if ":" in line and len(line) < 60 else None
    if label and not ANOTHERS_LABEL.isdisjoint(label[1].lower().split()):
        return True
    if line.lstrip().startswith("|") and ROW_DENIES.search(text[start:].partition("\n")[0] + line):
        return True
    return CASES.match(text, end) is not None


def _after_colon(text: str, start: int) -> bool:
    lead = text[max(0, start - 20) : start]
    return any(colon in lead[len(lead.rstrip(LEAD_IN + "：")) :] for colon in ":：")


def only_offered(text: str, start: int) -> bool:
    """Return whether the words before a place doubt what stands there."""
    return doubted(sentence_before(text, start))


@lru_cache(maxsize=4096)
def denied_before(before: str) -> bool:
    """Return whether the sentence up to a value takes it away: "it is not", "some say"."""
    if not possible(before) & MAY_DENY:
        return False
    if NOT_SAID.search(before) or STEP_NEXT.found(before) or DENIES_NEXT.found(before):
        return True
    if SUPPOSED.found(before) or OTHERS_SAY.found(before) or WRONG_BEFORE.found(before):
        return True
    if DENIES_CLAUSE.may_match(before) and DENIES_CLAUSE.found(CONCLUDED.split(before)[-1]):
        return True
    taken_away = not before.isascii() or TAKEN_AWAY.search(before)
    if not taken_away and not SUPPOSES.may_match(before):
        return False
    clause = last_clause(before)
    return TAKEN_AWAY.search(clause) or SUPPOSES.found(clause)


@lru_cache(maxsize=4096)
def doubted(before: str) -> bool:
    """Return whether the sentence up to a value only offers it: "perhaps", "it could be"."""
    if before.isascii() and not (DOUBT.search(before) or OFFERS_NEXT.may_match(before)):
        return False
    doubts = last_clause(before) if before.isascii() or HAN.search(before) else before
    offered = DOUBT.search(doubts) or DOUBT.ends(before.rstrip(" ,，、$*"))
    return offered or OFFERS_NEXT.found(before)


@lru_cache(maxsize=4096)
def denied_after(after: str) -> bool:
    """Return whether the sentence after a value takes it away: "is wrong", "? No"."""
    if not after.strip(" .,;!$)\\]}*\n"):
        return False
    after = opened(after) if "\\" in after else after
    if DENIED_AFTER.begins(after) or QUESTION.search(after) or ONLY_IF.begins(after):
        return True
    if SUBJECT_OF.begins(after) and not AFFIRMED.begins(after):
        return True
    if WRONG_THINGS.match(after):
        return False
    clause = after.lstrip(" $—–-)\\]")
    if match := ENDS_CLAUSE.search(clause):
        clause = clause[: match.start()]
    return DENIED.search(clause) or bool(
        not after.isascii() and (DOUBT.search(clause) or NOT_SAID.search(clause))
    )


def taken_back(rest: str) -> int:
    """Return where "no", "that is wrong" or the like ends that begins what follows an answer,
    or 0."""
    denial = NEXT_DENIES.match(rest)
    return denial.end() if denial and not _affirms(denial[0]) else 0


def _affirms(said: str) -> bool:
    """Return whether it affirms: "it is right" does, "it is not right" does not."""
    negative = re.search(r"\bnot\b|\bcannot\b|n['’]t", said, re.I)
    return bool(POSITIVE.search(said)) and not negative


def changed_beside(text: str, start: int, end: int) -> bool:
    """Return whether words right beside a value make another of it."""
    return changed(text[max(0, start - 80) : start], text[end : end + 60].split("\n\n")[0])
