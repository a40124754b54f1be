"""What "the answer is …" states."""

import re
from typing import NamedTuple

from verifiers.extraction.context.abroad import described, misnamed
from verifiers.extraction.context.hedges import BOUND, LONGEST_QUALIFIER, not_its_own
from verifiers.extraction.context.plain import speaks_of_it
from verifiers.extraction.context.standing import (
    CASES,
    denied_after,
    denied_before,
    doubted,
    sentence_after,
    sentence_before,
    taken_back,
)
from verifiers.extraction.context.wording import changed
from verifiers.extraction.readable import (
    PROSE_WORD,
    UNFINISHED,
    YES_OR_NO,
    is_prose,
    is_value,
    parsed,
)
from verifiers.extraction.response.passages import FENCED, QUOTED, sentences
from verifiers.extraction.sentence.last_sentence import LONGEST_TEXT_ANSWER
from verifiers.extraction.sentence.prose import (
    CHOICE_AND_TEXT,
    CLAUSE,
    DATE,
    STOPS,
    joined_spans,
    last_expression,
    leads_to,
)
from verifiers.grammar.literals import LONGEST_PLAIN, is_plain_number
from verifiers.grammar.parts import as_list
from verifiers.grammar.spoken import spoken
from verifiers.grammar.tables import pattern, table
from verifiers.grammar.vocabulary import words

AFTER = pattern("statements", "after", flags=re.I | re.M)
BEFORE = pattern("statements", "before")
LEAD = pattern("statements", "lead")
NOT_THE_OTHER = re.compile(r",?\s+(?:and\s+|but\s+)?(?:not|rather than|instead of)\s.*$")
MINUS_WORD = re.compile(r"(?:negative|minus)\s+(?=[\d$\\.])", re.I)
CONDITION = re.compile(r"^[^.]*\bif\b", re.I)
GOES_ON = pattern("statements", "goes_on", flags=0)
# "A: The sum of the even numbers is 90. Each odd number is one less …": a solution.
PROSE_FIRST = re.compile(r"[A-Z][a-z]*\s[a-z][^.!?\n]*[.!?]\s+[A-Z][a-z]+\s[^\n]*\d")
LOUD = re.compile(r"(?<=\S)\s+!+\s*$")
CUT = re.compile(r"\b(?:or|and|to)\W*$|[-+*/:]\s*$|\\(?:cdot|times|div|[dt]?frac|sqrt)\s*$")
NO_VALUE = re.compile(r"(?:DNE|does not exist|doesn['’]t exist)\W*$", re.I)
IN_ALL = re.compile(r"(?<=\d)\s+(?:in (?:total|all)|altogether)\W*$", re.I)
OFFERED = re.compile(r"\b(?:might|may|could|can)\s+be\b", re.I)
ENUMERATES = re.compile(r"\n(?:1[.)]\s+[A-Za-z]|[-•*]\s[^\n]{1,80}\n+[-•*]\s)")
# Not the answer but something of it, or another: "the digit sum of the answer", "a partial answer".
OF_THE_ANSWER = pattern("statements", "of_the_answer")
OF_ANOTHER = pattern("statements", "of_another")
LONGEST_SIMPLE = 18
SHORTEST_FRAME = 5
ADJECTIVE = re.compile(r"\b(?:the|an?|my|our|your|one|no)\s+([a-z-]+)\s*$", re.I)
OWN_ADJECTIVES = words(table("statements")["own_adjectives"])
# What "that the answer is" may hang on, and verbs that do not state it.
HEAD_WORDS = words(table("statements")["head_words"])
FRAMES = words(table("statements")["frames"])
ARTICLES = {"the", "our", "my", "this", "final", "correct"}
CONCLUDER = re.compile(r"\b(?:so|hence|thus|therefore|consequently)\b", re.I)
CONTRARY = re.compile(r"\bcontradiction\b", re.I)
PLAIN_WORD = re.compile(r"[^\W\d_]+(?:['’][a-z]+)?")
INTRODUCES = pattern("statements", "introduces", flags=0)
THOUGHT = re.compile(
    r"(?<=[\w)$}]),?\s+(?:I\s+(?:think|believe|reckon)|\(ans(?:wer)?\))\s*[.!]?\s*$"
)
NEGATES = tuple("¬≠≯≮")
NEXT_SENTENCE = re.compile(r"\(?[A-J][).:]\s+(?:[A-Z][a-z]*|I)['’,]?\s")
VALUE_NEXT = re.compile(r"[\s*_$(\\-]*(?:\d|[A-J]\b|the\b|just\b|simply\b|a\b)")
CUT_AFTER = re.compile(rf"\s*(?:[-+*/×÷·:]|{UNFINISHED}\b)[\s$]*$")
LONGEST_STATEMENT = 30_000
LAST_STATEMENTS = 8
MOST_PLACES = 80
STATING: tuple[str, ...] = ("ans", "result", "correct", "right", "best", "proper", "true ", "real ")
STATING += ("actual", "答案", "a:")
STATING_ABROAD = tuple(table("statements")["stating_abroad"])
# "Resultado" is found by "result" already.
NOUNS_ABROAD = tuple(noun for noun in STATING_ABROAD if not noun.startswith(STATING))
IN_PLAIN_LETTERS = tuple(filter(str.isascii, NOUNS_ABROAD))
NEAR_END = 1_000
PREFIX = re.compile(r"\b(?:final|correct|right|required|desired)?[ ]?$", re.I)


class Statement(NamedTuple):
    """What "the answer is …" states, and where. `whole`: all that is said is a value."""

    start: int
    value: str
    whole: bool
    offered: bool = False
    final: bool = False


def stated(text: str) -> list[Statement]:
    """Return the last few "the answer is …" of a text that stand, in order."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = text
    places = sorted(_all_places(lowered, STATING, 0))
    near = max(0, len(lowered) - NEAR_END)
    nouns = IN_PLAIN_LETTERS if lowered.isascii() else NOUNS_ABROAD
    if abroad := _all_places(lowered, nouns, near):
        places = sorted({*places, *abroad})
    if not places:
        return []
    quoted = (
        [match.span() for match in QUOTED.finditer(text)]
        if '"' in text or "“" in text or "«" in text or ("'" in text and " '" in text)
        else []
    )
    if "`" in text and "```" in text:
        quoted += [match.span() for match in FENCED.finditer(text)]
    matches: list[re.Match[str]] = []
    for at in places[-MOST_PLACES:]:
        if (not matches or at >= matches[-1].end()) and (match := _begins(text, at)):
            matches.append(match)
    found = [_read(text, match, quoted) for match in matches[-LAST_STATEMENTS:]]
    if " answer" in lowered and any(own in lowered for own in (" the ", " our ", " my ")):
        begun = list(BEFORE.finditer(text, max(0, places[0] - LONGEST_QUALIFIER)))
        found += [_read_before(text, match) for match in begun[-LAST_STATEMENTS:]]
    return sorted(filter(None, found), key=lambda statement: statement.start)


def speaks_of_answer(text: str) -> bool:
    """Return whether the end of a text has the noun "answer", in any language."""
    end = text[-NEAR_END:].lower()
    return any(noun in end for noun in ("answer", *STATING_ABROAD))


def _all_places(lowered: str, nouns: tuple[str, ...], begin: int) -> set[int]:
    """Return where any of the nouns begins."""
    places = set()
    near = lowered[begin:]
    for noun in nouns:
        at = lowered.find(noun, begin) if noun in near else -1
        while at >= 0:
            places.add(at)
            at = lowered.find(noun, at + len(noun))
    return places


def _begins(text: str, at: int) -> re.Match[str] | None:
    """Return the beginning of a statement whose noun stands at a place."""
    line = text.rfind("\n", 0, at) + 1
    if not text[line:at].strip() and (match := AFTER.match(text, line)):
        return match
    prefix = PREFIX.search(text, max(line, at - 9), at)
    return (AFTER.match(text, prefix.start()) if prefix else None) or AFTER.match(text, at)


def _read(text: str, match: re.Match[str], quoted: list[tuple[int, int]]) -> Statement | None:
    """Return what a statement says that begins so, unless something beside it takes that away."""
    start, end = match.span()
    said = match[0] if not start or text[start - 1] == "\n" else sentence_before(text, end)
    if not_its_own(text, match, quoted) or denied_before(said):
        return None
    if said != match[0] and (misnamed(said, "") or described(said, "")):
        return None
    if _of_another(text, match, said) or text[end : end + 1] in NEGATES:
        return None
    final = "final" in match[0].lower()
    offered = OFFERED.search(match[0]) is not None or doubted(said)
    if len(text) - end <= LONGEST_PLAIN and is_plain_number(rest := text[end:].strip()):
        return Statement(start, rest, True, offered, final)
    if match[0].strip() == "A:" and PROSE_FIRST.match(text, end):
        return None
    value = read_statement(text[end : end + LONGEST_STATEMENT])
    if not value or CUT.search(value):
        return None
    at = max(text.find(value, end), end)
    stop = at + len(value.rstrip(STOPS))
    if ENUMERATES.match(text, at - 1):
        return None
    if (
        stop >= end + LONGEST_STATEMENT
        or CUT_AFTER.match(text, stop)
        or (stop < len(text) and _taken_away(text, at, stop, value, match[0]))
    ):
        return None
    whole = not PROSE_WORD.search(LEAD.sub("", text[end:at], count=1)) if at > end else True
    return Statement(start, value, whole, offered, final)


def _of_another(text: str, match: re.Match[str], said: str) -> bool:
    """Return whether a statement speaks of something of the answer, of another, or in a frame that
    does not state it."""
    start, end = match.span()
    noun = match[0].rstrip(" *_")
    if noun.endswith(("'s", "’s")) and not VALUE_NEXT.match(text, end):
        return True
    if len(match[0]) > LONGEST_SIMPLE and OF_ANOTHER.search(match[0]):
        return True
    before = text[max(0, start - LONGEST_QUALIFIER) : start]
    lead = before.rstrip()
    if not lead[-1:].isalpha():
        return False
    if lead[-3:].lower() == "the" and len(said) < len(match[0]) + SHORTEST_FRAME:
        return False
    named = ADJECTIVE.search(before)
    adjective = named is not None and named[1].lower() not in OWN_ADJECTIVES
    return adjective or OF_THE_ANSWER.search(before) is not None or _framed(said, match[0])


def _framed(said: str, noun: str) -> bool:
    """Return whether "that the answer is" hangs on words that do not state it: "to show"."""
    if len(said) < len(noun) + SHORTEST_FRAME:
        return False
    head = CONCLUDER.split(said.removesuffix(noun.rstrip(" *_:=")))[-1]
    clause = re.split(r"[,;:—–]", head)[-1] if not CONTRARY.search(head) else head
    said_words = [word.lower() for word in PLAIN_WORD.findall(clause)]
    while said_words and said_words[-1] in ARTICLES:
        said_words.pop()
    if not said_words:
        return False
    if said_words[-1] in ("that", "why", "how"):
        return not HEAD_WORDS.issuperset(said_words)
    return said_words[-1] in FRAMES


def _taken_away(text: str, at: int, stop: int, value: str, noun: str) -> bool:
    """Return whether what follows a stated value makes another of it, denies it or limits it."""
    if taken_back(text[stop : stop + LONGEST_QUALIFIER]) or CASES.match(text, stop):
        return True
    after = sentence_after(text, stop)
    if not after.strip(STOPS):
        return False
    if text.startswith(value, at) and (GOES_ON.match(after) or changed("", after.lstrip(" ,;($"))):
        return True
    return denied_after(after) or bool("would" in noun and CONDITION.search(after))


def _read_before(text: str, match: re.Match[str]) -> Statement | None:
    """Return what is said to be "our answer"."""
    start = max(text.rfind("\n", 0, match.start()), text.rfind(". ", 0, match.start())) + 1
    before = text[start : match.start()]
    if len(before) > LONGEST_STATEMENT:
        return None
    value = before.strip() if is_value(before) else last_expression(before)
    return Statement(match.start(), value, True) if value else None


def read_statement(rest: str) -> str | None:
    """Return the answer at the start of what follows "the answer is"."""
    rest = LOUD.sub("", rest) if rest.rstrip()[-1:] == "!" else rest
    if is_plain_number(whole := rest.strip()):
        return whole
    rest = rest[match.end() :] if (match := LEAD.match(rest)) else rest
    rest = rest[match.end() :] if (match := INTRODUCES.match(rest)) else rest
    if parts := as_list(rest):
        return parts
    rest = THOUGHT.sub("", rest, count=1)
    if NO_VALUE.match(rest):
        return "does not exist"
    if (choice := CHOICE_AND_TEXT.match(rest)) and not NEXT_SENTENCE.match(rest):
        if GOES_ON.match(rest, choice.end() - 2):
            return None
        return NOT_THE_OTHER.sub("", rest.partition("\n")[0])
    if joined := joined_spans(rest):
        return joined
    pieces = sentences(rest[:LONGEST_STATEMENT])
    if not pieces:
        return None
    sentence = pieces[0].strip().strip('*_"” ')
    sentence = IN_ALL.sub("", sentence) if len(sentence) <= LONGEST_TEXT_ANSWER else sentence
    if CHOICE_AND_TEXT.match(sentence):
        return NOT_THE_OTHER.sub("", sentence)
    if BOUND.match(sentence) or spoken(sentence):
        return sentence
    if match := YES_OR_NO.match(sentence):
        return match[1]
    if match := MINUS_WORD.match(sentence):
        sentence = "-" + sentence[match.end() :]
    clause = sentence[: match.start()] if (match := CLAUSE.search(sentence, 1)) else sentence
    for part in (clause, sentence):
        if is_value(part) or (parsed(part) is not None and not is_prose(part)):
            return part
    if sentence.endswith("?") and len(pieces) > 1 and is_value(pieces[1].rstrip("?")):
        return f"{sentence.rstrip('?')}, {pieces[1].rstrip('?')}"
    if speaks_of_it(sentence):
        return None
    for part in (clause, sentence):
        inner = last_expression(part)
        if inner:
            measured = any(map(str.isalpha, inner))
            return inner if measured or leads_to(part[: part.rfind(inner)]) else None
    in_words = len(clause) <= LONGEST_TEXT_ANSWER and not any(map(str.isdigit, clause))
    return clause if in_words or DATE.match(clause) else None
