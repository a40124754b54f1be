"""The choice or the single word that the last sentence of a response ends in."""

import re

from verifiers.extraction.context.standing import denied_before, doubted, last_clause, not_stated
from verifiers.extraction.context.wording import DOUBT, EITHER, QUESTION
from verifiers.extraction.passages import BOILERPLATE, sentences
from verifiers.grammar.vocabulary import words

LONGEST_TEXT_ANSWER = 120
LAST_SENTENCES = 6
LONGEST_CLOSING = 2_000
MOST_WORDS = 14
NOT_WORDS = re.compile(r"[\\=<>{}()\[\]|^_/*+?;:\"“”]")
DIGIT = re.compile(r"[\d$]")
REASON_FIRST = re.compile(
    r"^\W*(?:(?:so|thus|hence|therefore)\W+)?(?:since|because|as|given that)\b[^.]{1,100}, (?=\S)",
    re.I,
)
REASON = re.compile(
    r",?\s+(?:because|since)\b|,\s+with\b|\s+with\s+(?=[^.]*[=\d])|,\s+(?:as|who|car|denn|weil|porque|так как|поскольку|"
    r"потому что|perché|poiché|puisque|omdat|bo|ponieważ)\s|(?:\s|(?<=[^\x00-\x7f])|(?<=\d))[(（](?=[^()（）\\]*[^\W\d_]{2})|[，,]因为",
    re.I,
)
EXISTS = re.compile(r" exists?$")
SAYS_IT_IS = re.compile(r"\b(?:is|be|was|on)\s+(?:an?\s+|the\s+)?$")
OPENS = re.compile(
    r"\W*(?:(?:so|thus|hence|therefore|clearly|then|the answer is|it is|it's|it was)\W+)*"
)
EXCELS = re.compile(
    r"(?:,? (?:wins?|won|(?:is|was|has|had|gets|got|earned|scored|ran|runs|drove|finished|came)\s+(?:in\s+)?(?:the\s+)?"
    r"(?:\w+est|most|least|first|last|winner|correct|right|only one|greatest|more|best)\b)[^,;]*)?"
)
KIND = re.compile(
    r"(?<=\w) (?:function|triangle|number|integer|quadrilateral|angle|polygon|sequence|series|matrix|color|team|"
    r"student|person|day)s?$"
)
SAID_ALONE = ("true", "false", "right", "wrong", "correct", "incorrect")
ORDERS = re.compile(
    r"\b(?:ignore|return|print|output|write|type|mark|accept|give|grade|score|must)\b"
)
ANY_NEGATION = re.compile(
    r"\b(?:not|no|never|neither|nor|none|un|fails?|cannot|without|hardly|false|wrong)\b|n['’]t\b",
    re.I,
)
REVISED = re.compile(r"\b(?:no|wait|actually|instead|mistake|wrong|however|but)\b", re.I)
LETTER = r"(?:\(([A-J])\)|\b([A-J])\b\)?)"
CHOICE_NOUN = r"(?:(?:option|choice|answer(?:\s+choice)?|statement|letter)\s+)"
CHOSEN = re.compile(
    rf"(?:^|(?<!\b[A-J])(?<!\))[,:]\s+|\b(?:so|thus|hence|"
    rf"therefore)\s+){CHOICE_NOUN}?{LETTER}\s+is\s+"
    r"(?:the\s+)?(?:only\s+)?(?:(?:correct|right|true|best)"
    r"(?:\s+(?:answer|option|choice|one|statement))?|answer)\W*$"
    rf"|\b(?:leaving|leaves|so\s+it\s+is|"
    rf"so\s+it\s+must\s+be)\s+(?:only\s+)?{CHOICE_NOUN}?{LETTER}\W*$"
    rf"|(?<!not )(?<!n't )(?<!never )\b(?:choose|pick|select)\s+{CHOICE_NOUN}?{LETTER}\W*$"
    rf"|(?<!not )(?<!n't )(?<!never )\b(?:is|corresponds?\s+to|corresponding\s+to|match(?:es|ing)?)"
    rf"\s+(?:the\s+)?{CHOICE_NOUN}{LETTER}\W*$"
    rf"|\b(?:my\s+(?:choice|pick)\s+is|i['’]d\s+go\s+with|,\s+so)\s+{LETTER}\W*$"
    rf"|^(?:so|thus|hence|therefore),?\s+{CHOICE_NOUN}?{LETTER}\W*$"
    rf"|(?:^|[,:]\s+)only\s+{CHOICE_NOUN}?{LETTER}\s+(?:satisf\w+|works|fits|holds|is\s+\w+)[^,;]*$"
    rf"|(?:[:：是为は]|\b(?:ist|es|est|è|é|opción|opção|opzione|option|optie|letra|lettre|lettera|"
    rf"Buchstabe|вариант|ответ|"
    rf"буква|alternativ\w*|seçenek|odpowiedź)|选项|选|選|選択肢|선택지|답은)\s*(?:(?:la|el|die|der|das|le|o|"
    rf"a)\s+)?\(?([A-J])\)?(?:です|である|입니다|이다)?[\s.。*$]*$",
    re.I,
)
NAMED_KIND = re.compile(
    r"^\W*((?:so|thus|hence|therefore|then|consequently|finally|we conclude that|it follows that)"
    r"[,:]?\s+)*(?:(?:the|this|our)\s+(?:\w+\s+){1,4}?|(\$[^$]{1,30}\$\s+))(?:is|"
    r"are)\s+(?:an?\s+|the\s+)?([A-Za-z]{3,20})\W*$",
    re.I,
)
COUNTED = re.compile(
    r"\bthere\s+(?:are|is|were|was|will\s+be|remain|exist)\s+(?:exactly\s+|only\s+|"
    r"a\s+total\s+of\s+)?"
    r"(?:[^A-Za-z,;:$\\]{1,60}(?=\s[A-Za-z])|\$[^$]{1,200}\$|\\\(.{1,200}?\\\))",
    re.I,
)
GOES_ON = re.compile(
    r"[,;:=]|\b(?:so|thus|hence|therefore|then|making|giving|total|which|each|is|are|was|were|"
    r"equals?|and|but|or)\b",
    re.I,
)
RANGE = re.compile(r"\bbetween\b[^,;:=]{1,60}?\band\b", re.I)
ATTAINED = re.compile(
    r"(?:\b(?:is|equals|be|of|becomes)\s+(?:\$[^$]{1,200}\$|\\\([^$]{1,200}?\\\)|"
    r"[^\s$\\]{0,40}\d[^\s$\\]{0,40}))"
    r"(,?\s+(?:which\s+)?(?:(?:is\s+)?(?:occurs?|happens|attained|achieved|reached)\s+)?"
    r"(?:when|where|at|for|if)\s+(?:\$|\\\()?\s*[A-Za-z](?:_\w)?\s*="
    r"(?:(?!\b(?:and|is|equals|so)\b)[^,;]){0,120})$",
)
EXPLAINED = re.compile(
    r"\d[^()]{0,60}(\s\((?!(?:so|a|total|which|or|"
    r"that)\b)[^()=]{0,60}[A-Za-z]{2}[^()=]{0,60}\)\W*)$"
)
OBTAINED = re.compile(
    r"\b(?:needs?|takes?|took|requires?|has|have|had|pays?|paid|earns?|earned|costs?|spends?|"
    r"spent)\s+"
    r"(?:a\s+total\s+of\s+|exactly\s+|only\s+)?\$?\d[\d,.]*\s[^,;:=\d]{0,60}?"
    r"(\s?(?:to\s+[a-z]{3,}|for|after)\s[^,;:=]{1,120})$"
)
UNCERTAIN = words(
    "not neither either unknown unclear unsure here below above done wrong correct right given "
    "that this complete finished same following true false answer result solution solutions area "
    "length value volume perimeter probability sum maximum minimum root set"
)


def chosen(text: str) -> str | None:
    """The letter of the choice that a sentence says is right."""
    text = without_reason(text)
    match = CHOSEN.search(text)
    if match is None:
        return None
    letter = next(group for group in match.groups() if group)
    start = match.start(match.lastindex or 0)
    denied = not_stated(text, start, len(text)) or ANY_NEGATION.search(last_clause(text[:start]))
    denied = denied or CHOSEN_BY_OTHERS.search(text, 0, start)
    return letter if letter.isupper() and not denied else None


def chosen_last(text: str) -> str | None:
    """The choice of the last sentence, with another that a sentence before it says is right."""
    said = [letter for piece in sentences(text)[-LAST_SENTENCES:] if (letter := chosen(piece))]
    if len(set(said)) < 2 or REVISED.search(text):
        return said[-1] if said else None
    return ", ".join(dict.fromkeys(said))


def last_sentence(text: str) -> str:
    """The last sentence of a text, unless it is too long to end in a word that answers."""
    last = (sentences(BOILERPLATE.sub("", text)) or [""])[-1].strip('*_"” ')
    return last if len(last) <= LONGEST_TEXT_ANSWER else ""


def main_clause(sentence: str) -> str:
    """The part that states the value: "there are 6" of "there are 6 integers below 9"."""
    if match := COUNTED.search(sentence):
        rest = RANGE.sub("", sentence[match.end() :])
        return sentence if GOES_ON.search(rest) else sentence[: match.end()]
    if match := EXPLAINED.search(sentence):
        sentence = sentence[: match.start(1)]
    if match := OBTAINED.search(sentence):
        return sentence if GOES_ON.search(match[1]) else sentence[: match.start(1)]
    match = ATTAINED.search(sentence) if "=" in sentence else None
    return sentence[: match.start(1)] if match else sentence


def named_kind(sentence: str) -> tuple[str, bool] | None:
    """The word in "the function is odd", and whether the sentence says that it concludes."""
    match = NAMED_KIND.match(sentence)
    if match is None or match[3].lower() in UNCERTAIN:
        return None
    return match[3], bool(match[1] or match[2])


def closing_words(text: str) -> str:
    """What the last sentence says without its reasons, if it is short and doubts nothing."""
    last = last_sentence(text[-LONGEST_CLOSING:])
    last = without_reason(REASON_FIRST.sub("", last, count=1)).partition(": ")[0]
    if not last or len(last.split()) > MOST_WORDS or NOT_WORDS.search(last):
        return ""
    if EITHER.search(last) or QUESTION.search(last) or DOUBT.search(last):
        return ""
    return last.rstrip(" .!*")


def without_reason(sentence: str) -> str:
    """A sentence up to "because", "since", "with", a colon or brackets that explain it."""
    match = REASON.search(sentence, 1)
    return sentence[: match.start()] if match else sentence


COMPARED = re.compile(
    r"\b(?:after|before|than|except|but|beats?|defeats?|besides|almost|nearly|excluding|without|"
    r"opposite|over)\W+(?:the\s+)?$"
)
CHOSEN_BY_OTHERS = re.compile(
    r"\b(?:might|may|could|many|some|most|people|others|everyone)\b|不", re.I
)


def ends_in(sentence: str, words: str) -> bool:
    """Whether a sentence says that the answer is these words: at its end, with nothing before that
    takes them away, or as the subject of a superlative."""
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
