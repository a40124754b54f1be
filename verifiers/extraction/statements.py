"""What a sentence states as its answer: after "the answer is", or as its last expression."""

import re

from verifiers.extraction.hedges import (
    BOUND,
    DENIED,
    HEDGED,
    LONGEST_QUALIFIER,
    conditional,
    not_its_own,
)
from verifiers.extraction.last_sentence import (
    LONGEST_TEXT_ANSWER,
    chosen,
    chosen_last,
    last_sentence,
    main_clause,
    named_kind,
)
from verifiers.extraction.passages import BOILERPLATE, QUOTED, math_span, math_spans, sentences
from verifiers.grammar.literals import plain_number
from verifiers.grammar.normalize import normalise
from verifiers.grammar.parse import parse
from verifiers.grammar.tree import Node, ParseError
from verifiers.grammar.units import SPELLINGS
from verifiers.grammar.vocabulary import FUNCTIONS

NOUN = (
    r"(?:\b(?:final|correct|right|required|desired)?\s*(?:answer|result|ans\b\.?)s?"
    r"|\b(?:correct|right|best|proper)\s+(?:option|choice|letter|statement)|答案)"
)
VERB = (
    r"\s+(?:is|are|was|would\s+be|should\s+be|must\s+be|might\s+be|may\s+be|could\s+be|can\s+be|"
    r"equals|becomes)\b|\s*(?:[=-]>|[→➜⇒是为：:=])|\s*[*_]{0,3}\n|(?=\s+(?:\$|\\[(\[]))"
)
AFTER = re.compile(
    rf"{NOUN}(?![a-z])[*_]{{0,3}}(?:\s+(?:to|for|of)\s[^.:\n$\\]{{1,60}}?)?[*_]{{0,3}}"
    rf"(?:{VERB})(?:[*_:=\s]|(?<=\n)(?:>[ ]|-{{3,}}\n))*|^[ \t]*A:[ \t]*|^[ \t]*Ans\.[ \t]*"
    r"|^[ \t]*Answer[ \t]+(?=[-+]?\d[\d.,/]*\W*$)",
    re.I | re.M,
)
BEFORE = re.compile(r"\bis (?:our|the|my) (?:final |correct )?answer\b", re.I)
LEAD = re.compile(
    r"^(?:[\s*_:\"“}]|\\\"|\\quad|(?:therefore|thus|so|option|choice|just|simply|exactly|indeed|it\s+is|it's)\b"
    r"|not\s+[^\s,.;]{1,40},?\s+but\s+(?:rather\s+)?)+",
    re.I,
)
CLAUSE = re.compile(
    r",?\s+\(?(?:although|though|because|since|as|which|where|but|when|while|after|for|given|due|by|"
    r"with|not|so|hence|therefore|thus|if|rather|instead|assuming|i\.e|unless|except|of|on|"
    r"(?:or )?equivalently)\b"
    r"|\s+\((?=[^()]*[A-Za-z]{3})|[;:]\s+(?=(?:\d+\s+)?[a-z]{3})|\s[–—]\s|\s-\s(?=[A-Za-z]{3})"
)
CHOICE_AND_TEXT = re.compile(r"\(?[A-J][).:]\s+\S")
OR_ABOUT = re.compile(
    r"^(.{0,300}[\d$)}].{0,40}?),?\s+or\s+(?:approximately|about|roughly|around)\s+\$?(-?\d[\d,]*\.\d+)\$?"
    r"(?:\s[A-Za-z ]{1,40})?\W*$"
)
NOT_THE_OTHER = re.compile(r",?\s+(?:and\s+|but\s+)?(?:not|rather than|instead of)\s.*$")
CODE_CALL = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}\(")
EXPLANATION = re.compile(
    r",?\s+(?:because|since|as|so|which|where|for|by|of|after|left|in total)\b|\s+\((?!or|maybe)"
)
MINUS_WORD = re.compile(r"(?:negative|minus)\s+(?=[\d$\\.])", re.I)
NEGATED = re.compile(r"(?:\bnot|n't|\bnever|\bcannot be)\s+(?:(?:equal to|be)\s+)?[*_$\\(]*$", re.I)
ENDS_ARGUMENT = re.compile(r",?\s+(?:but|so|hence|thus|therefore)$", re.I)
YES_OR_NO = re.compile(
    r"(yes|no|true|false)\b(?=[,.;!]|\s+[—–-]\s)(?!\W+(?:(?:and|or|but|maybe|perhaps)\W+){0,2}(?:yes|no|not|true|false|maybe|perhaps)"
    r"\s*(?:[^\w\s]|$))",
    re.I,
)
LINK = re.compile(r"\s(?:is|are|equals|be)\s+|:\s+")
JOIN = re.compile(r"[\s,;]*(?:\b(?:and|or)\b)?[\s,;]*")
NUMBER_TEXT = (
    r"[-−+]?(?:[$€£]\s?)?(?>\d{1,3}(?:,\d{3})++|\d++)(?:\.\d++|(?::\d\d?+){1,3}(?:\s?[aApP]\.?[mM]\b)?)?"
    r"(?:/\d++)?(?:\s?%|\\%|[€£°])?"
)
INVISIBLE = "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
NUMBER = re.compile(
    rf"(?<![\w.^_/√\\{{{INVISIBLE}]){NUMBER_TEXT}(?![\w^/]*\d|[{INVISIBLE}])", re.ASCII
)
NUMBER_LIST = re.compile(
    rf"(?<![\d.,]){NUMBER_TEXT}(?:(?:\s*(?:,|,?\s*\b(?:and|or)\b)\s*|\s+){NUMBER_TEXT})+"
)
ROOT_AFTER = re.compile(r"\s?(?:√\s?\d+\s?)?π?")
UNIT_AFTER = re.compile(r"\s?([a-zA-Z]{1,3})(?:[²³]|\^\d)?(?=[\s.,;!?)]|$)")
MATHEMATICAL = re.compile(r"[\d\\=<>+*/^_√π∞-]")
PROSE_WORD = re.compile(r"(?<![\\A-Za-z])(?![A-Z]{2,3}(?![A-Za-z]))[A-Za-z]{2,}")
TEXT_GROUP = re.compile(r"\\[A-Za-z]+\s*\{[^{}]*\}")
NOT_PROSE = (
    FUNCTIONS.keys() | SPELLINGS.keys() | {"and", "or", "sqrt", "pi", "per", "square", "cubic"}
)
UNITS_AFTER = SPELLINGS.keys() - {"in", "A", "min", "pt"}
LONGEST_STATEMENT = 2_000
LAST_STATEMENTS = 8
STATING_WORDS = ("answer", "result", "ans", "option", "choice", "letter", "statement", "答案", "a:")


def is_value(text: str) -> bool:
    """Whether a text can be read as mathematics or a short choice, not as prose."""
    if plain_number(text) is not None:
        return True
    node = _parsed(text)
    return node is not None and not node.has("text") and not _is_prose(text)


def _is_prose(text: str) -> bool:
    """Two words or more outside LaTeX that are neither functions, units nor connectives."""
    if len(text) > LONGEST_STATEMENT:
        return False
    found = set(PROSE_WORD.findall(TEXT_GROUP.sub(" ", text))) - {"and", "or"}
    if not MATHEMATICAL.search(text) and len(text.split()) > 1:
        return bool(found)
    return len(found - NOT_PROSE) >= 2


def _parsed(text: str) -> Node | None:
    try:
        return parse(normalise(text))
    except ParseError:
        return None


def stated(text: str) -> list[tuple[int, str]]:
    """The last few "the answer is …" as (position, what it states), in order."""
    lowered = text.lower()
    first = min((at for word in STATING_WORDS if (at := lowered.find(word)) >= 0), default=None)
    if first is None:
        return []
    begin = max(0, first - LONGEST_QUALIFIER) if len(lowered) == len(text) else 0
    quoted = [match.span() for match in QUOTED.finditer(text)] if '"' in text or "“" in text else []
    found = []
    for match in list(AFTER.finditer(text, begin))[-LAST_STATEMENTS:]:
        rest = text[match.end() : match.end() + LONGEST_STATEMENT]
        if not_its_own(text, match, quoted):
            continue
        value = read_statement(rest)
        if value:
            found.append((match.start(), value))
    for match in list(BEFORE.finditer(text, begin))[-LAST_STATEMENTS:]:
        start = max(text.rfind("\n", 0, match.start()), text.rfind(". ", 0, match.start())) + 1
        before = text[max(start, match.start() - LONGEST_STATEMENT) : match.start()]
        value = last_expression(before)
        if value:
            found.append((match.start(), value))
    return sorted(found)


def read_statement(rest: str) -> str | None:
    """The answer at the start of what follows "the answer is"."""
    if plain_number(whole := rest.strip()) is not None:
        return whole
    rest = rest[match.end() :] if (match := LEAD.match(rest)) else rest
    if condition := conditional(rest):
        return condition
    if joined := _joined_spans(rest):
        return joined
    pieces = sentences(rest[:LONGEST_STATEMENT])
    if not pieces:
        return None
    sentence = pieces[0].strip().strip('*_"” ')
    if CHOICE_AND_TEXT.match(sentence):
        return NOT_THE_OTHER.sub("", sentence)
    if BOUND.match(sentence) or HEDGED.search(sentence):
        return sentence
    if match := YES_OR_NO.match(sentence):
        return match[1]
    if match := MINUS_WORD.match(sentence):
        sentence = "-" + sentence[match.end() :]
    clause = sentence[: match.start()] if (match := CLAUSE.search(sentence, 1)) else sentence
    for part in (clause, sentence):
        if is_value(part) or (_parsed(part) is not None and not _is_prose(part)):
            return part
    if sentence.endswith("?") and len(pieces) > 1 and is_value(pieces[1].rstrip("?")):
        return f"{sentence.rstrip('?')}, {pieces[1].rstrip('?')}"
    inner = last_expression(clause) or last_expression(sentence)
    if inner:
        return inner
    return clause if len(clause) <= LONGEST_TEXT_ANSWER else None


def _joined_spans(rest: str) -> str | None:
    """$1$ and $2$: the delimited mathematics at the start, with what is joined to it."""
    span = math_span(rest, 0)
    if span is None or _parsed(span[1]) is None:
        return None
    end, content = span
    parts = [content]
    while (join := JOIN.match(rest, end)) and join.end() > end:
        following = math_span(rest, join.end())
        if following is None:
            break
        parts.append((" or " if "or" in join[0] else ", ") + following[1])
        end = following[0]
    return "".join(parts)


def last_expression(text: str) -> str | None:
    """The last mathematics or number of a passage; a list stays whole."""
    text = BOILERPLATE.sub("", text)
    for whole in reversed(sentences(text)[-12:]):
        sentence = main_clause(whole)
        if (about := OR_ABOUT.search(sentence)) and (exact := last_expression(about[1])):
            return rf"{exact} \approx {about[2]}"
        spans = math_spans(sentence)
        if not spans and (linked := _linked_value(sentence)):
            return linked
        after = spans[-1][1] if spans else 0
        if number := _last_number(sentence[after:]):
            return None if NEGATED.search(sentence[: sentence.rfind(number)][-40:]) else number
        if spans:
            start = _first_joined(sentence, spans)
            return _joined_spans(sentence[start:]) or spans[-1][2]
    return None


def _linked_value(sentence: str) -> str | None:
    """What follows the last "is" of a sentence in words, if all of it is a value."""
    links = list(LINK.finditer(sentence))
    if links and NEGATED.search(sentence[: links[-1].end()][-40:]):
        return None
    rest = sentence[links[-1].end() :].strip("*_ ") if links else ""
    match = CLAUSE.search(rest, 1)
    clause = rest[: match.start()] if match else rest
    if match and ENDS_ARGUMENT.match(match[0]) and NUMBER.search(rest, match.end()):
        return None
    return clause if is_value(clause) and re.search(r"\d|=|√|π", clause) else None


def words_stated(text: str) -> str | None:
    """The choice or the single word that the last sentence of a text ends in."""
    last = last_sentence(text)
    if chosen(last) and (letters := chosen_last(text)):
        return letters
    if kind := named_kind(last):
        word, concludes = kind
        return word if concludes or not last_expression(text) else None
    return None


def only_value(text: str) -> str | None:
    """The value of a text that has just one, or that gives one first and then explains it."""
    if CHOICE_AND_TEXT.match(text):
        return text
    if match := YES_OR_NO.match(text):
        return match[1]
    if CODE_CALL.search(text) or BOUND.match(text):
        return None
    if (match := EXPLANATION.search(text)) and is_value(text[: match.start()]):
        return text[: match.start()]
    spans = math_spans(text)
    outside = text
    for start, end, _ in reversed(spans):
        outside = f"{outside[:start]} {outside[end:]}"
    found = {content.strip() for _, _, content in spans}
    found |= {match[0] for match in NUMBER.finditer(outside)}
    if len(found) != 1 or HEDGED.search(text) or DENIED.search(text):
        return None
    return last_expression(text)


def _first_joined(sentence: str, spans: list[tuple[int, int, str]]) -> int:
    start = spans[-1][0]
    for before in reversed(spans[:-1]):
        gap = sentence[before[1] : start]
        if not JOIN.fullmatch(gap):
            break
        start = before[0]
    return start


def _last_number(text: str) -> str | None:
    lists = list(NUMBER_LIST.finditer(text))
    numbers = list(NUMBER.finditer(text))
    if not numbers:
        return None
    last = numbers[-1]
    if lists and lists[-1].end() >= last.end():
        return lists[-1][0]
    root = ROOT_AFTER.match(text, last.end())
    end = root.end() if root else last.end()
    unit = UNIT_AFTER.match(text, end)
    whole = text[last.start() : unit.end() if unit and unit[1] in UNITS_AFTER else end]
    return whole if _parsed(whole) is not None else last[0]
