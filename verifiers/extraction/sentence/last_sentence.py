"""The choice or the single word that the last sentence of a response ends in."""

import re

from verifiers.extraction.context.abroad import CHOICE as CHOICE_ABROAD
from verifiers.extraction.context.abroad import choice as choice_abroad
from verifiers.extraction.context.standing import denied_before, doubted, last_clause, not_stated
from verifiers.extraction.context.wording import DOUBT, EITHER, NEGATION, QUESTION, opened
from verifiers.extraction.response.passages import sentences, without_boilerplate
from verifiers.grammar.normalize import ENGLISH_OF
from verifiers.grammar.tables import gated, pattern, table
from verifiers.grammar.vocabulary import words

LONGEST_TEXT_ANSWER = 120
LAST_SENTENCES = 6
MOST_CHOICES = 10
LONE_LETTER = re.compile(r"(?<![\w$\\])(?:A(?!\s+[a-z])|[B-HJ])(?![\w'’])")
OTHER_CHOICES = re.compile(
    r"(?<![\w$\\])(?:[A-J](?=[)）.,:：、は]|\s?项)|[B-HJ](?=\s)|(?<![^\n])A(?=\s))|\b(?:others?|altre|otras)\b"
)
LONGEST_CLOSING = 2_000
LONGEST_REASONED = 2_000
MOST_WORDS = 20
NOT_WORDS = re.compile(r"[\\=<>{}()\[\]|^_/*+?;:\"“”]")
# "By the ratio test, since …, the series is divergent."
MAIN_CLAUSE = re.compile(r"(?:the|this|that|our|it)\s+(?:\w+\s+){0,2}is\s")
DIGIT = re.compile(r"[\d$]")
REASON_FIRST = gated("last_sentence", "reason_first")
FOR_WHICH = re.compile(
    r"(?<=[$)]),?\s+(?:for\s+(?=\$[a-z]\s*(?:>|<|\\[gln]e|\\in))|where\s+(?=\$[A-Za-z]\$\s+is\b)|\$?\(as\s)"
)
REASON = gated("last_sentence", "reason")
EXISTS = re.compile(r" exists?$")
SAYS_IT_IS = re.compile(
    r"(?:\b(?:is|be|was|on|ist|est|es|será|sera|é|è|hari|день|a[mn])|\bi\.e\.,?)\s+(?:an?\s+|the\s+|una?\s+)?$"
)
OPENS = re.compile(
    r"\W*(?:(?:so|thus|hence|therefore|clearly|then|the answer is|it is|it's|it was)\W+)*"
)
CONCLUSION = re.compile(r",\s+(?:so|which\s+means(?:\s+that)?|hence|thus|therefore)\s+")
EXCELS = pattern("last_sentence", "excels", flags=0)
KIND = pattern("last_sentence", "kind", flags=0)
SAID_AS = {"no": "no solution", "infinite": r"\infty", "empty": "empty set", "none": "0"}
_YES_OR_NO = "|".join(word for word, said in ENGLISH_OF.items() if said in ("yes", "no"))
YES_OR_NO_ABROAD = re.compile(
    rf"[^\w\n]{{0,4}}(?:[^\W\d]+[:：]\s*)?({_YES_OR_NO})(?=\W*$|[,.!，、。:：—–(（]|\s[—–-])", re.I
)
YES_OR_NO_INSIDE = re.compile(
    rf"(?:[,;:：，、「„“]\s*|\s(?:è|é|est|es|ist|is|er|är|on|jest)\s+)(?:(?:dus|also|donc)\s+)?"
    rf"({_YES_OR_NO})(?=\s*[,.!，。」“”]|\s*$)",
    re.I,
)
POLITE_END = re.compile(
    r"(?:さん)?(?:です|になります|となります|である|입니다|이다|예요|이에요|だ)?[\s.。!*]*$"
)
SAID_ALONE = ("true", "false", "right", "wrong", "correct", "incorrect")
ORDERS = re.compile(
    r"\b(?:ignore|return|print|output|write|type|mark|accept|give|grade|score|must)\b"
)
ANY_NEGATION = gated("last_sentence", "any_negation")
REVISED = re.compile(r"\b(?:no|wait|actually|instead|mistake|wrong|however|but)\b", re.I)
CHOSEN = gated("last_sentence", "chosen")
SAYS = gated("last_sentence", "says")
NAMED_KIND = gated("last_sentence", "named_kind")
COUNTED = gated("last_sentence", "counted")
GOES_ON = pattern("last_sentence", "goes_on")
OF_TWO_NUMBERS = re.compile(r"\W*\w{0,12}\s+(?:of\s+)?\$?\d")
RANGE = re.compile(r"\bbetween\b[^,;:=]{1,60}?\band\b", re.I)
ATTAINED = gated("last_sentence", "attained", flags=0)
EXPLAINED = gated("last_sentence", "explained", flags=0)
OBTAINED = gated("last_sentence", "obtained", flags=0)
UNCERTAIN = words(table("last_sentence")["uncertain"])


def chosen(text: str) -> str | None:
    """Return the letter of the choice that a sentence says is right."""
    whole, text = text, without_reason(text)
    match = CHOSEN.search(text) or choice_abroad(text) or choice_abroad(text.partition(":")[0])
    if match is None:
        return None
    letter = next(group for group in match.groups() if group)
    start = match.start(match.lastindex or 0)
    denied = not_stated(text, start, len(text)) or ANY_NEGATION.search(last_clause(text[:start]))
    denied = denied or "with probability" in whole or CHOSEN_BY_OTHERS.search(text, 0, start)
    letter = letter.upper() if match.re is CHOICE_ABROAD else letter
    return letter if not letter.islower() and not denied else None


def chosen_last(text: str) -> str | None:
    """Return the choice of the last sentence, with another that a sentence before it says is
    right."""
    said = [letter for piece in sentences(text)[-LAST_SENTENCES:] if (letter := chosen(piece))]
    if len(set(said)) < 2 or REVISED.search(text):
        return said[-1] if said else None
    return ", ".join(dict.fromkeys(said))


def chosen_before_others(text: str) -> str | None:
    """Return the only choice that a text says is right, if what follows speaks of the others."""
    if not OTHER_CHOICES.search(text):
        return None
    said = sentences(text)[-MOST_CHOICES:]
    short = [(at, piece) for at, piece in enumerate(said) if len(piece) <= 2 * LONGEST_TEXT_ANSWER]
    lone = [(at, piece) for at, piece in short if LONE_LETTER.search(piece)]
    found = [(at, letter) for at, piece in lone if (letter := chosen(piece))]
    if len(found) != 1 or REVISED.search(text):
        return None
    at, letter = found[0]
    others = OTHER_CHOICES.findall(" ".join(said[at + 1 :]))
    return letter if others and letter not in others else None


def last_sentence(text: str) -> str:
    """Return the last sentence of a text, unless it is too long to end in a word that answers."""
    last = _last_piece(text).strip('*_"” ')
    return last if len(last) <= LONGEST_TEXT_ANSWER else ""


def _last_piece(text: str) -> str:
    return (sentences(without_boilerplate(text)) or [""])[-1]


def main_clause(sentence: str) -> str:
    """Return the part that states the value: "there are 6" of "there are 6 integers below 9"."""
    if len(sentence) > LONGEST_REASONED:
        return sentence
    if match := COUNTED.search(sentence):
        rest = RANGE.sub("", sentence[match.end() :])
        whole = (
            match[0].endswith("!")
            or GOES_ON.search(rest)
            or OF_TWO_NUMBERS.match(sentence, match.end())
        )
        return sentence if whole else sentence[: match.end()]
    if match := EXPLAINED.search(sentence):
        sentence = sentence[: match.start(match.lastindex or 0)]
    if match := OBTAINED.search(sentence):
        return sentence if GOES_ON.search(match[1]) else sentence[: match.start(1)]
    match = ATTAINED.search(sentence) if "=" in sentence else None
    return sentence[: match.start(1)] if match else sentence


def named_kind(sentence: str) -> tuple[str, bool] | None:
    """Return the word in "the function is odd", and whether the sentence says that it concludes."""
    match = NAMED_KIND.match(sentence)
    if match is None or match[3].lower() in UNCERTAIN:
        return None
    return match[3], bool(match[1] or match[2])


def says(sentence: str) -> str | None:
    """Return what a sentence says in words that the grammar reads: "no solution", "true"."""
    match = SAYS.search(sentence)
    if match is None:
        return None
    before = sentence[: match.start()]
    if denied_before(before) or doubted(before):
        return None
    said = next(filter(None, match.groups())).lower()
    return SAID_AS.get(said, said)


def closing_words(text: str) -> str:
    """Return what the last sentence says without its reasons, if it is short and doubts nothing."""
    last = last_sentence(text[-LONGEST_CLOSING:])
    last = CONCLUSION.split(opened(last))[-1]
    tail = last.rpartition(", ")[2]
    last = without_reason(REASON_FIRST.sub("", last, count=1))
    last = tail if MAIN_CLAUSE.match(tail) else last
    head, _, tail = last.partition(": ")
    last = tail if len(tail.split()) > 2 else head
    if not last or len(last.split()) > MOST_WORDS or NOT_WORDS.search(last):
        return ""
    if EITHER.search(last) or QUESTION.search(last) or DOUBT.search(last):
        return ""
    return last.rstrip(" .!*")


def without_reason(sentence: str) -> str:
    """Return a sentence up to "because", "since", "with", a colon or brackets that explain it."""
    if len(sentence) > LONGEST_REASONED:
        return sentence
    match = REASON.search(sentence, 1) or FOR_WHICH.search(sentence, 1)
    return sentence[: match.start()] if match else sentence


COMPARED = gated("last_sentence", "compared", flags=0)
CHOSEN_BY_OTHERS = re.compile(
    r"\b(?:might|may|could|many|some|most|people|others|everyone)\b|不", re.I
)


def ends_abroad(text: str, sentence: str, gold: str) -> bool:
    """Return whether a response in another language ends in what the gold says, "Freitag" for
    Friday, or begins with its yes or no."""
    english = ENGLISH_OF.get(gold.casefold(), gold.casefold())
    names = [word for word, meant in ENGLISH_OF.items() if meant.casefold() == english.casefold()]
    names += [gold.casefold()] if not gold.isascii() else []
    if english in ("yes", "no"):
        last = _last_piece(text)
        begun = YES_OR_NO_ABROAD.match(last) or YES_OR_NO_ABROAD.match(text)
        answers = {begun[1]} if begun else set(YES_OR_NO_INSIDE.findall(last))
        return {ENGLISH_OF[answer.casefold()] for answer in answers} == {english}
    if english == "no solution":
        last = last_sentence(text).casefold()
        return any(name in last for name in names)
    said = POLITE_END.sub("", sentence.casefold())
    found = [name for name in names if said.endswith(name)]
    rest = said.removesuffix(found[0]) if found else ""
    return bool(found) and not (denied_before(f"{rest} ") or doubted(rest) or NEGATION.search(rest))


def ends_in(sentence: str, words: str) -> bool:
    """Return whether a sentence says that the answer is these words: at its end, with nothing
    before that takes them away, or as the subject of a superlative."""
    words, said = words.casefold(), sentence.casefold()
    if words.startswith("no ") and said.endswith(words + "s"):
        said = said[:-1]
    said = EXISTS.sub("", said)
    if words in SAID_ALONE or ANY_NEGATION.search(said.replace(words, "", 1)):
        return False
    before, found, after = said.partition(words)
    if found and OPENS.fullmatch(before) and EXCELS.fullmatch(after):
        return True
    rest = (KIND.sub("", said) if KIND.search(said) else said).removesuffix(words)
    if COMPARED.search(rest) or rest == said or (rest and rest[-1].isalnum()):
        return False
    if ORDERS.search(rest) or denied_before(rest + " ") or doubted(rest + " "):
        return False
    return not DIGIT.search(rest) or SAYS_IT_IS.search(rest) is not None
