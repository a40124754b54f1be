"""What a sentence states as its answer: after "the answer is", or as its last expression."""

import re
from dataclasses import dataclass

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
from verifiers.extraction.standing import (
    changed_beside,
    denied_after,
    denied_before,
    doubted,
    last_clause,
    not_stated,
    only_offered,
    sentence_after,
    sentence_before,
)
from verifiers.extraction.wording import EITHER, JOINT, changed
from verifiers.grammar.literals import plain_number
from verifiers.grammar.normalize import normalise
from verifiers.grammar.parse import parse
from verifiers.grammar.spoken import SAID, spoken
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
    r"^(?:[\s*_:\"“}]|\\\"|\\quad|(?:therefore|thus|so|hence|then|option|choice|just|simply|"
    r"exactly|indeed|"
    r"it\s+is|it['’]s|that['’]s|that\s+is|it\s+must\s+be|must\s+be)\b,?"
    r"|not\s+[^\s,.;]{1,40},?\s+but\s+(?:rather\s+)?)+",
    re.I,
)
CLAUSE = re.compile(
    r",?\s+\(?(?:although|though|because|since|as|which|where|but|when|while|after|for|given|due|"
    r"by|"
    r"with|not|so|hence|therefore|thus|if|rather|instead|assuming|i\.e|unless|except|of|on|"
    r"(?:or )?equivalently)\b"
    r"|\s+\((?=[^()]*[A-Za-z]{3})|[;:]\s+(?=(?:\d+\s+)?[a-z]{3})|\s[–—]\s|\s-\s(?=[A-Za-z]{3})"
)
CHOICE_AND_TEXT = re.compile(r"\(?[A-J][).:]\s+\S")
OR_ABOUT = re.compile(
    r"^(.{0,300}[\d$)}].{0,40}?),?\s+or\s+(?:approximately|about|roughly|"
    r"around)\s+\$?(-?\d[\d,]*\.\d+)\$?"
    r"(?:\s[A-Za-z ]{1,40})?\W*$"
)
NOT_THE_OTHER = re.compile(r",?\s+(?:and\s+|but\s+)?(?:not|rather than|instead of)\s.*$")
CODE_CALL = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}\(")
EXPLANATION = re.compile(
    r",?\s+(?:because|since|as|so|which|where|for|by|of|after|left|in total)\b|\s+\((?!or|maybe)"
)
MINUS_WORD = re.compile(r"(?:negative|minus)\s+(?=[\d$\\.])", re.I)
OPERATOR_BEFORE = re.compile(
    r"[*/×·÷^√±<>≤≥≠@#&|\\~_]\s*$|[;?!%'](?=$)|[\w)}]\s*[-−–+]\s*$|(?<!\w)[+]\s*$"
)
OPERATOR_AFTER = re.compile(
    r"['’]s\b|(?:st|nd|rd|th)\s+[a-z]|[abcd-fijknopqrtu-z](?![\w])|\s+or\s|\s+and\s+(?:more|up|"
    r"above|beyond|over|so)\b|\s*[*/×·÷^√±<>≤≥≠|~_]|[@#&\\(\[{]|\s*[-+−]\s*[\dA-Za-z(]|"
    r"!(?=\s*[=\w])"
)
CONDITION = re.compile(r"^[^.]*\bif\b", re.I)
MENTIONED = re.compile(r"\banswer\b", re.I)
SUBJECT = re.compile(
    r"^(?:\W*(?:so|thus|hence|therefore),?\s+)?(.{1,120}?)\s+(?:is|are)\s+(?:the|"
    r"our)\s+(?:\w+\s+){0,2}"
    r"(?:solution|solutions|area|length|answer|set|volume|perimeter|value|result|sum|probability|"
    r"maximum|minimum|root|roots)"
    r"(?:\s+(?:of|to|set)\b[^,;]{0,60})?[.!]?$",
    re.I,
)
ROUNDED = re.compile(
    r"(?<![\w^/*+-])(-?[^\s=]{0,60}\d[^\s=]{0,60})\s{0,9}(?:≈|"
    r"\\approx)\s*(-?\d[\d,]*\.?\d*)(?=\W*$)"
)
# What may stand before the only number of a passage in English: nothing, or a verb that states it.
LEADS_TO = re.compile(
    r"[^\x00-\x7f]|^\W*(?:Antwort|Respuesta|Answer|Ans|Result|Resultado|Total|Risposta|Resposta|"
    r"Antwoord|Svar|Cevap|Jawaban|Lösung)\W*$|(?:^|(?:^|[\s,])(?:is|are|was|were|equals?|be|been|"
    r"has|have|had|gets?|got|needs?|takes?|took|costs?|pays?|paid|"
    r"earns?|earned|makes?|made|gives?|gave|leaves?|left|remains?|travel(?:s|led|ed)?|drives?|"
    r"drove|walks?|walked|runs?|ran|spends?|"
    r"spent|saves?|saved|owes?|buys?|bought|sells?|sold|eats?|ate|holds?|weighs?|becomes?|"
    r"receive[sd]?|reach(?:es)?|requires?|uses?|used|"
    r"totals?|obtain|find|found|yields?|produces?|reads?|finish(?:es|ed)?|collect(?:s|ed)?|"
    r"charges?|scores?|scored|wins?|won|adds?|equal|"
    r"number|value|total|es|est|ist|sont|son|hay|quedan|reste|restent|il y a|sind|hat|noch|"
    r"lautet|gibt|also|ha|há|sono|zijn|är|er|jest)\s+"
    r"(?:still\s+|now\s+|also\s+)?)(?:(?:a|the|about|exactly|only|just|approximately|roughly|"
    r"around|total|number|value|of|in|all|equal|to|"
    r"worth|up|simply|at|per|not|negative|an|other)\s+)*[-−$€£(*\s]*$",
    re.I,
)
CONTRAST = re.compile(
    r"(?:,\s*(?:and\s+)?not|\sand\s+not|,?\s+(?:rather than|instead of|а\s+не|"
    r"et\s+non(?:\s+pas)?|y\s+no|e\s+non|e\s+não|und\s+nicht|"
    r"nicht|en\s+niet|i\s+nie|og\s+ikke|och\s+inte)|[，,]?\s*(?:而不是|"
    r"而非))\s*[$*]*[-−]?[\d\\][^.,;，。]{0,40}(?=[.。]?\W*$)",
    re.I,
)
PARTS = re.compile(
    r"\s*\(?a\)\s*([^;,\n]{1,60}?)[;,]?\s*(?:and\s+)?\(?b\)\s*([^;,\n]{1,60}?)"
    r"(?:[;,]?\s*(?:and\s+)?\(?c\)\s*([^;,\n]{1,60}?))?[.\s]*$"
)
STRAY = re.compile(r"[@#&|\\<>{}^~=*/+_]|;\S")
DATE = re.compile(
    r"(?:january|february|march|april|may|june|july|august|september|october|november|"
    r"december)\s+\d{1,2}"
    r"(?:st|nd|rd|th)?(?:,?\s+\d{4})?\W*$",
    re.I,
)
NEGATED = re.compile(r"(?:\bnot|n't|\bnever|\bcannot be)\s+(?:(?:equal to|be)\s+)?[*_$\\(]*$", re.I)
ENDS_ARGUMENT = re.compile(r",?\s+(?:but|so|hence|thus|therefore)$", re.I)
YES_OR_NO = re.compile(
    r"(yes|no|true|false)\b(?=[,.;!]|\s+[—–-]\s)(?!\W+(?:(?:and|or|but|maybe|"
    r"perhaps)\W+){0,2}(?:yes|no|not|true|false|maybe|perhaps)"
    r"\s*(?:[^\w\s]|$))",
    re.I,
)
LINK = re.compile(r"\s(?:is|are|equals|be)\s+|:\s+")
JOIN = re.compile(rf"[\s,;、，；]*{JOINT}?[\s,;、，]*", re.I)
OFFERED = re.compile(r"\b(?:might|may|could|can)\s+be\b", re.I)
NUMBER_TEXT = (
    r"[-−+]?(?:[$€£]\s?)?(?>\d{1,3}(?:,\d{3})++|\d++)(?:\.\d++|"
    r"(?::\d\d?+){1,3}(?:\s?[aApP]\.?[mM]\b)?)?"
    r"(?:/\d++)?(?:\s?%|\\%|[€£°])?"
)
INVISIBLE = "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
NUMBER = re.compile(
    rf"(?<![\w.^_/√\\{{{INVISIBLE}]){NUMBER_TEXT}(?![\w^/]*\d|[{INVISIBLE}])", re.ASCII
)
NUMBER_LIST = re.compile(
    rf"(?<![\d.,]){NUMBER_TEXT}(?:(?:\s*(?:[,、，;]|,?\s*{JOINT})\s*|\s+){NUMBER_TEXT})+", re.I
)
ROOT_AFTER = re.compile(r"\s?(?:√\s?\d+\s?)?π?")
UNIT_AFTER = re.compile(r"\s?([a-zA-Z]{1,12})(?:[²³]|\^\d)?(?=[\s.,;!?)]|$)")
MATHEMATICAL = re.compile(r"[\d\\=<>+*/^_√π∞-]")
PROSE_WORD = re.compile(r"(?<![\\A-Za-z])(?![A-Z]{2,3}(?![A-Za-z]))[A-Za-z]{2,}")
TEXT_GROUP = re.compile(r"\\[A-Za-z]+\s*\{[^{}]*\}")
NOT_PROSE = (
    FUNCTIONS.keys() | SPELLINGS.keys() | {"and", "or", "sqrt", "pi", "per", "square", "cubic"}
)
UNITS_AFTER = SPELLINGS.keys() - {"in", "A", "min", "pt"}
LONGEST_STATEMENT = 30_000
NEAR = 200
STOPS = " .,;:!"
LONGEST_PROSE = 2_000
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
    if len(text) > LONGEST_PROSE:
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


@dataclass(frozen=True)
class Statement:
    """What "the answer is …" states, and where. `whole`: all that is said is a value."""

    start: int
    value: str
    whole: bool
    offered: bool = False
    final: bool = False


def stated(text: str) -> list[Statement]:
    """The last few "the answer is …" of a text that stand, in order."""
    lowered = text.lower()
    first = min((at for word in STATING_WORDS if (at := lowered.find(word)) >= 0), default=None)
    if first is None:
        return []
    begin = max(0, first - LONGEST_QUALIFIER) if len(lowered) == len(text) else 0
    quoted = [match.span() for match in QUOTED.finditer(text)] if '"' in text or "“" in text else []
    found = []
    for match in list(AFTER.finditer(text, begin))[-LAST_STATEMENTS:]:
        rest = text[match.end() : match.end() + LONGEST_STATEMENT]
        fresh = not match.start() or text[match.start() - 1] == "\n"
        said = match[0] if fresh else sentence_before(text, match.end())
        if not_its_own(text, match, quoted) or denied_before(said):
            continue
        value = read_statement(rest)
        if not value:
            continue
        at = max(text.find(value, match.end()), match.end())
        end = at + len(value.rstrip(STOPS))
        after = sentence_after(text, end)
        if denied_after(after) or ("would" in match[0] and CONDITION.search(after)):
            continue
        whole = not PROSE_WORD.search(LEAD.sub("", text[match.end() : at], count=1))
        offered, final = (
            bool(OFFERED.search(match[0])) or doubted(said),
            "final" in match[0].lower(),
        )
        found.append(Statement(match.start(), value, whole, offered, final))
    for match in list(BEFORE.finditer(text, begin))[-LAST_STATEMENTS:]:
        start = max(text.rfind("\n", 0, match.start()), text.rfind(". ", 0, match.start())) + 1
        before = text[max(start, match.start() - LONGEST_STATEMENT) : match.start()]
        value = before.strip() if is_value(before) else last_expression(before)
        if value:
            found.append(Statement(match.start(), value, True))
    return sorted(found, key=lambda statement: statement.start)


def read_statement(rest: str) -> str | None:
    """The answer at the start of what follows "the answer is"."""
    if plain_number(whole := rest.strip()) is not None:
        return whole
    rest = rest[match.end() :] if (match := LEAD.match(rest)) else rest
    if parts := PARTS.match(rest):
        return ", ".join(part.strip() for part in parts.groups() if part)
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
    if BOUND.match(sentence) or HEDGED.search(sentence) or spoken(sentence):
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
    for part in (clause, sentence):
        inner = last_expression(part)
        if inner:
            measured = any(map(str.isalpha, inner))
            return inner if measured or _leads_to(part[: part.rfind(inner)]) else None
    in_words = len(clause) <= LONGEST_TEXT_ANSWER and not any(map(str.isdigit, clause))
    return clause if in_words or DATE.match(clause) else None


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
        parts.append((" or " if EITHER.search(join[0]) else ", ") + following[1])
        end = following[0]
    if changed("", rest[end:]) or OPERATOR_AFTER.match(rest, end):
        return None
    return "".join(parts)


def last_expression(text: str) -> str | None:
    """The last mathematics or number of a passage, if its sentence states it; lists stay whole."""
    text = BOILERPLATE.sub("", text)
    if subject := SUBJECT.match(last_sentence(text)):
        return subject[1] if is_value(subject[1]) else None
    for whole in reversed(sentences(text)[-12:]):
        whole = CONTRAST.sub("", whole)
        sentence = main_clause(whole)
        if not math_spans(sentence) and (about := ROUNDED.search(sentence)):
            return rf"{about[1]} \approx {about[2]}" if _stands(whole, about[0]) else None
        if (about := OR_ABOUT.search(sentence)) and (exact := last_expression(about[1])):
            return rf"{exact} \approx {about[2]}"
        spans = math_spans(sentence)
        if not spans and (linked := _linked_value(sentence)):
            return linked if _stands(whole, linked) else None
        if not spans and (dated := DATE.search(sentence)):
            return dated[0].rstrip(".") if _stands(whole, dated[0]) else None
        after = spans[-1][1] if spans else 0
        if number := _last_number(sentence[after:]):
            return number if _stands(whole, number) and _touches_nothing(whole, number) else None
        if not spans and len(words := SAID.findall(sentence)) == 1:
            return words[0] if _stands(whole, words[0]) else None
        if spans:
            start = _first_joined(sentence, spans)
            value = _joined_spans(sentence[start:]) or spans[-1][2]
            return value if _stands(whole, sentence[start : spans[-1][1]]) else None
    return None


def _stands(sentence: str, value: str) -> bool:
    """Whether a sentence states the value that it ends in, and not what it makes of it."""
    start = sentence.rfind(value)
    end = start + len(value.rstrip(STOPS))
    return not (
        MENTIONED.search(last_clause(sentence[:start]))
        or not_stated(sentence, start, end)
        or only_offered(sentence, start)
        or changed_beside(sentence, start, end)
    )


def _touches_nothing(sentence: str, value: str) -> bool:
    """Whether a number in prose is no part of something that was not read."""
    start = sentence.rfind(value)
    before, after = sentence[:start], sentence[start + len(value.rstrip(STOPS)) :]
    return not (OPERATOR_BEFORE.search(before[-NEAR:]) or OPERATOR_AFTER.match(after))


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
        said = text[: match.start()]
        explained = match[0].split()[-1] != "of" or not any(map(str.isdigit, text[match.end() :]))
        return said if explained and _stands(text, said) else None
    spans = math_spans(text)
    outside = text
    for start, end, _ in reversed(spans):
        outside = f"{outside[:start]} {outside[end:]}"
    found = {content.strip() for _, _, content in spans}
    found |= {match[0] for match in NUMBER.finditer(outside)}
    if (
        len(found) != 1
        or not _leads_to(text[: first_digit(text)])
        or HEDGED.search(text)
        or DENIED.search(text)
        or STRAY.search(outside)
    ):
        return None
    return last_expression(text)


def _leads_to(before: str) -> bool:
    """Whether what stands before the only number of a passage states it."""
    return len(before) <= NEAR and LEADS_TO.search(before) is not None


def first_digit(text: str) -> int:
    return next((at for at, char in enumerate(text) if char.isdigit() or char in "$\\"), len(text))


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
