"""The value that a passage of prose ends in or is about, if its words state it."""

import re

from verifiers.extraction.context.hedges import BOUND, DENIED
from verifiers.extraction.context.plain import speaks_of_it
from verifiers.extraction.context.standing import (
    changed_beside,
    last_clause,
    not_stated,
    only_offered,
)
from verifiers.extraction.context.wording import EITHER, JOINT, changed
from verifiers.extraction.readable import YES_OR_NO, is_value, parsed
from verifiers.extraction.response.passages import (
    math_span,
    math_spans,
    sentences,
    without_boilerplate,
)
from verifiers.extraction.sentence.computed import computed_side
from verifiers.extraction.sentence.formulas import formula_at_end
from verifiers.extraction.sentence.last_sentence import (
    FOR_WHICH,
    chosen,
    chosen_before_others,
    chosen_last,
    last_sentence,
    main_clause,
    named_kind,
    says,
    without_reason,
)
from verifiers.extraction.sentence.numbers import NUMBER, last_number
from verifiers.extraction.sentence.operators import OPERATOR_AFTER, is_share, touches_nothing
from verifiers.grammar.spoken import SAID, counted_abroad, spoken
from verifiers.grammar.tables import gated, pattern

CLAUSE = pattern("prose", "clause", flags=0)
CHOICE_AND_TEXT = re.compile(r"\(?[A-J][).:]\s+\S")
OR_ABOUT = gated("prose", "or_about", flags=0)
CODE_CALL = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}\(")
EXPLANATION = re.compile(
    r",?\s+(?:because|since|as|so|which|where|for|by|of|after|left|in total)\b|\s+\((?!or|maybe)"
)
AFTER = re.compile(r"\bafter\s+$")
TIME = re.compile(r"\s?(?:(?:second|minute|hour|day|week|month|year)s?|분|시간|초|日|分|秒)")
WORDS_ABROAD = re.compile(r"[\u0400-\u04ff\u0590-\u0dff\u3040-\u9fff\uac00-\ud7af]{3}")
MENTIONED = re.compile(r"\banswer\b", re.I)
SUBJECT = gated("prose", "subject")
ROUNDED = gated("prose", "rounded", flags=0)
ROUNDED_END = re.compile(r"\W*\w*\s*-?\d[\d,]*+\.?\d*+\W*+$")
LONGEST_ROUNDED = 140
# What may stand before the only number of a passage in English: nothing, or a verb that states it.
LEADS_TO = pattern("prose", "leads_to")
CONTRAST = gated("prose", "contrast")
STRAY = re.compile(r"[@#&|\\<>{}^~=*/+_]|;\S")
DATE = gated("prose", "date")
_INTERVAL = r"[(\[][^()\[\]]{1,20},[^()\[\]]{1,20}[)\]]"
INTERVALS = re.compile(rf"(?<![\w)]){_INTERVAL}(?:\s?∪\s?{_INTERVAL})+(?=[\s.]*$)")
NEGATED = re.compile(r"(?:\bnot|n't|\bnever|\bcannot be)\s+(?:(?:equal to|be)\s+)?[*_$\\(]*$", re.I)
CHANGED_YET = re.compile(r"\bround|\bin an?\b", re.I)
PLACED = re.compile(
    r"(?:at\s+)?(?:the\s+)?(?:ordered\s+)?(?:(?:point|pair|interval|number|value|set|letter)\s+)?(?=\(|-?\d|[A-J]\b)|(?:due\s+)?on\s+(?=[A-Z]|the\s+\d)|in\s+(?:the\s+year\s+)?(?=\d{4}\W*$)"
    r"|(?:now|currently|still|exactly|an?)\s+(?=[-−$]?\$?\d)|(?:dus|donc|also|alltså|quindi|dunque|portanto|então|tedy|więc|entonces|somit)\s+(?=[-$\d\\])"
)
ENDS_ARGUMENT = re.compile(r",?\s+(?:but|so|hence|thus|therefore)\b", re.I)
CONCLUDES = pattern("prose", "concludes")
FOR_ALL = re.compile(r"(?<=[$)\d])\s+for\s+(?:all|any|every|each)\b[^.;=]{1,80}$", re.I)
NUMBER_JOINED = re.compile(rf"(?<![\w.,$\\-])(-?\d+)\s+{JOINT}\s*$", re.I)
LINK = pattern("prose", "link", flags=0)
JOIN = re.compile(rf"[\s,;、，；]*{JOINT}?[\s,;、，]*", re.I)
PREMISE = pattern("prose", "premise")
ABOUT_ASIDE = re.compile(
    r"(?<=[\w)}$°%])\s*\((?:about|approximately|approx\.?|roughly|≈|~)\s*[^()\n]{1,40}\)", re.I
)
UNENDED = re.compile(r"(?![a-z])[^\W\d_]+(?:,?\s[^\W\d_][^\W\d_'’]*){2,}")
LIST_MARK = re.compile(r"^\s*[-*•]\s+(?=[A-Z])")
APPROXIMATED = pattern("prose", "approximated")
NEAR = 200
SMALL = 12
NEW_CLAUSE = re.compile(r"[,;:–—]\s")
STOPS = " .,;:!"


def joined_spans(rest: str) -> str | None:
    """Return $1$ and $2$: the delimited mathematics at the start, with what is joined to it."""
    span = math_span(rest, 0)
    if span is None or parsed(span[1]) is None:
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
    """Return the last mathematics or number of a passage, if its sentence states it; lists stay
    whole."""
    text = without_boilerplate(text)
    text = ABOUT_ASIDE.sub("", text) if "(" in text else text
    if subject := SUBJECT.match(last_sentence(text)):
        named = next(filter(None, subject.groups()))
        return named if is_value(named) else None
    for back, whole in enumerate(reversed(sentences(text)[-12:])):
        if not back and UNENDED.fullmatch(whole):
            return None
        whole = CONTRAST.sub("", whole)
        whole = LIST_MARK.sub("", whole, count=1)
        sentence = _without_reason(main_clause(_without_premise(whole)))
        if " " in sentence and (formula := formula_at_end(sentence)):
            return formula if stands(whole, formula) else None
        if not math_spans(sentence) and (about := _rounded(sentence)):
            return rf"{about[1]} \approx {about[2]}" if stands(whole, about[0]) else None
        if (about := OR_ABOUT.search(sentence)) and (exact := last_expression(about[1])):
            return rf"{exact} \approx {about[2]}"
        spans = math_spans(sentence)
        if not spans and (linked := _linked_value(sentence)):
            return linked if stands(whole, linked) else None
        if not spans and (said := DATE.search(sentence) or INTERVALS.search(sentence)):
            return said[0].rstrip(".") if stands(whole, said[0]) else None
        equation = not spans and "=" in sentence
        if equation and is_value(sentence) and not WORDS_ABROAD.search(sentence):
            return sentence if stands(whole, sentence) else None
        if equation and (side := computed_side(sentence)):
            worth = NUMBER.search(side)
            more = worth and any(map(str.isdigit, side[worth.end() :]))
            if worth and not more and not CHANGED_YET.search(side, worth.end()):
                return worth[0] if stands(sentence, worth[0]) else None
        after = spans[-1][1] if spans else 0
        if spans and APPROXIMATED.match(sentence[after:]):
            sentence = sentence[:after]
        if number := last_number(sentence[after:]):
            says = stands(whole, number) and touches_nothing(whole, number)
            return number if says else None
        words = [] if spans or back else SAID.findall(sentence) or counted_abroad(sentence)
        if len(words) == 1 or (words and _in_own_clause(sentence, words)):
            return words[-1] if stands(whole, words[-1]) else None
        if spans:
            start = _first_joined(sentence, spans)
            value = joined_spans(sentence[start:]) or spans[-1][2]
            if "=" not in value and (first := NUMBER_JOINED.search(sentence[:start])):
                value = f"{first[1]}, {value}"
            return value if stands(whole, sentence[start : spans[-1][1]]) else None
    return None


def _in_own_clause(sentence: str, words: list[str]) -> bool:
    """Return whether the last number in words stands in a clause of its own, and is one that is
    seldom said in passing: ", so forty-two remain"."""
    value = spoken(words[-1])
    start = sentence.rfind(words[-1])
    between = sentence[sentence.rfind(words[-2], 0, start) + len(words[-2]) : start]
    large = value is not None and value.isdigit() and int(value) > SMALL
    return large and NEW_CLAUSE.search(between) is not None


def _without_premise(sentence: str) -> str:
    """Return x = 5 of "since x > 0, x = 5"."""
    said = PREMISE.sub("", sentence, count=1)
    return said if first_digit(said) < len(said) else sentence


def _rounded(sentence: str) -> re.Match[str] | None:
    """Return a value and the number that it is about, where a sentence ends in them."""
    sign = max(sentence.rfind("≈"), sentence.rfind("\\approx"))
    if sign < 0 or not ROUNDED_END.match(sentence, sign + 1):
        return None
    return ROUNDED.search(sentence, max(0, sign - LONGEST_ROUNDED))


def _without_reason(sentence: str) -> str:
    """Return x = 7 of "x = 7, as x = -3 does not fit", if nothing is concluded from the reason."""
    said = FOR_ALL.sub("", without_reason(sentence))
    concludes = (
        said != sentence
        and not FOR_WHICH.match(sentence, len(said))
        and CONCLUDES.search(sentence, len(said))
    )
    return sentence if concludes or not first_digit(said) < len(said) else said


def stands(sentence: str, value: str) -> bool:
    """Return whether a sentence states the value that it ends in, and not what it makes of it."""
    start = sentence.rfind(value)
    end = start + len(value.rstrip(STOPS))
    before = sentence[:start]
    if is_share(value, sentence[end:]):
        return False
    first = sentence.find(value, 0, start)
    if first >= 0 and not sentence.isascii() and not_stated(sentence, first, first + len(value)):
        return False
    return not (
        (MENTIONED.search(before) and MENTIONED.search(last_clause(before)))
        or not_stated(sentence, start, end)
        or only_offered(sentence, start)
        or changed_beside(sentence, start, _end_of_number(sentence, start, end))
    )


def _end_of_number(sentence: str, start: int, end: int) -> int:
    """Return where the number of "after 12 minutes" ends; `end` of all other values."""
    number = NUMBER.match(sentence, start, end) if AFTER.search(sentence, 0, start) else None
    return number.end() if number and TIME.fullmatch(sentence, number.end(), end) else end


def _linked_value(sentence: str) -> str | None:
    """Return what follows the last "is" of a sentence in words, if all of it is a value."""
    links = list(LINK.finditer(sentence))
    if links and NEGATED.search(sentence[: links[-1].end()][-40:]):
        return None
    rest = sentence[links[-1].end() :].strip("*_ ") if links else ""
    rest = PLACED.sub("", rest, count=1)
    match = CLAUSE.search(rest, 1)
    clause = rest[: match.start()] if match else rest
    argued = ENDS_ARGUMENT.search(rest, match.start()) if match else None
    if argued and NUMBER.search(rest, argued.end()):
        return None
    if "=" in clause and (side := computed_side(clause)):
        clause = "" if CHANGED_YET.search(rest, len(clause) - len(side)) else side
    if is_value(clause) and re.search(r"[\d=√π½¼¾⅓⅔²³∅∞]", clause):
        return clause
    return clause if spoken(clause) else None


def words_stated(text: str) -> str | None:
    """Return the choice or the single word that the last sentence of a text ends in."""
    last = last_sentence(text)
    if chosen(last) and (letters := chosen_last(text)):
        return letters
    if letter := chosen_before_others(text):
        return letter
    if said := says(last):
        return said
    answered = YES_OR_NO.match(last if last[-1:] in (".", "!") else f"{last}.")
    if answered and first_digit(last) == len(last):
        return answered[1]
    if kind := named_kind(last):
        word, concludes = kind
        return word if concludes or not last_expression(text) else None
    return None


def only_value(text: str) -> str | None:
    """Return the value of a text that has just one, or that gives one first and then explains
    it."""
    if CHOICE_AND_TEXT.match(text):
        return text
    if match := YES_OR_NO.match(text):
        return match[1]
    if CODE_CALL.search(text) or BOUND.match(text) or speaks_of_it(text):
        return None
    if (match := EXPLANATION.search(text)) and is_value(text[: match.start()]):
        said = text[: match.start()]
        explained = match[0].split()[-1] != "of" or not any(map(str.isdigit, text[match.end() :]))
        return said if explained and stands(text, said) else None
    spans = math_spans(text)
    outside = text
    for start, end, _ in reversed(spans):
        outside = f"{outside[:start]} {outside[end:]}"
    found = {content.strip() for _, _, content in spans}
    found |= {match[0] for match in NUMBER.finditer(outside)}
    outside = NUMBER.sub(" ", outside)
    if (
        len(found) != 1
        or not leads_to(text[: first_digit(text)])
        or DENIED.search(text)
        or STRAY.search(outside)
    ):
        return None
    return last_expression(text)


def leads_to(before: str) -> bool:
    """Return whether what stands before the only number of a passage states it."""
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
