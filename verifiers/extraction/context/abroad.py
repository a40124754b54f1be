"""Whether "the answer is" in another language states the value that follows it."""

import re

from verifiers.extraction.context.wording import NEGATION, Words
from verifiers.grammar.tables import gated, pattern, table

NOUNS = set(table("abroad")["nouns"].split())
NOUN_PIECES = tuple(piece.replace("_", " ") for piece in table("abroad")["noun_pieces"].split())
BETWEEN = set(table("abroad")["between"].replace("_", " ").split())
BETWEEN_PIECES = sorted(table("abroad")["between_pieces"].split(), key=len, reverse=True)
GENITIVE = Words(table("abroad")["genitive"])
GAVE_UP = Words(*table("abroad")["gave_up"])
CUT = Words(table("abroad")["cut"], table("abroad")["cut_pieces"])
CHOICE_NOUNS = NOUNS | set(table("abroad")["choice_nouns"].split())
CHOICE_TAIL = "|".join(table("abroad")["choice_tail"].split())
CHOICE = re.compile(
    rf"[\s(（]([A-J]|[①-⑩]|[a-e](?=\)))[)）]?(?:\s*(?:{CHOICE_TAIL}))?[\s.。．।!]*$"
)
# "The same result": a check.
SAME = re.compile(
    r"\b(?:mismo|même|gleiche|dasselbe|stesso|mesmo|zelfde|t[oe]\s+sam\w+|тот\s+же|то\s+же|той\s+же|aynı)\b|同じ|同样|同樣|相同|같은",
    re.I,
)
ADVERBIAL = gated("abroad", "adverbial")
WRONG_STEMS = pattern("abroad", "wrong_stems")
CHANGING_STEMS = pattern("abroad", "changing_stems")
TO_DO = gated("abroad", "to_do")
ENGLISH = re.compile(r"\b(?:the|are|so|and|hence|thus|therefore|answer)\b", re.I)
COMMA = re.compile(r"[,;，；]\s*")
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
STARTS_ANEW = re.compile(
    r"[:：=]|——|[—–-]\s|\b(?:sondern|mais|sino|maar|bensì|а|ale|lecz|utan|mas|но)\b|而是"
)
OF_IT = re.compile(r"[\s$)\\]*(?:['’](?:[nsy]?[ıiuü]n|nin|nın)\b|的(?!$)|の|의\s|의(?=\w))")
ENGLISH_SOLUTION = re.compile(r"\b(?:the|is|are)\b", re.I)


def denies_answer(sentence: str) -> bool:
    """Return whether a sentence denies "the answer" or calls it wrong in another language."""
    noun = _answer_noun(sentence) is not None
    return bool(WRONG_STEMS.search(sentence)) or (noun and NEGATION.search(sentence))


def described(before: str, after: str, *, colon: bool = False) -> bool:
    """Return whether a sentence names the answer and then only describes it by what follows: "die
    Antwort hat 12 Stellen", "答案是30的约数". Before a colon one word of it may be unknown."""
    if before.isascii() and ENGLISH_SOLUTION.search(before):
        return False
    before = ADVERBIAL.sub(" ", before)
    found = _answer_noun(before)
    if found is None:
        return False
    start, end = found
    between = before[end:]
    if STARTS_ANEW.search(between) or after.startswith(")"):
        return OF_IT.match(after) is not None
    if GENITIVE.ends(before[:start].rstrip()):
        return True
    for piece in BETWEEN_PIECES:
        between = between.replace(piece, " ")
    said = {re.split("['’]", word.casefold())[-1] for word in WORD.findall(between)}
    left = said - BETWEEN
    return len(left) > colon or OF_IT.match(after) is not None


def names_answer(sentence: str) -> bool:
    """Return whether a sentence of another language speaks of the answer."""
    english = sentence.isascii() and ENGLISH.search(sentence)
    return not english and not SAME.search(sentence) and _answer_noun(sentence) is not None


def choice(sentence: str) -> re.Match[str] | None:
    """Return the letter that a sentence of another language says is right: "Richtig ist Antwort
    C"."""
    match = CHOICE.search(sentence)
    if match is None or (sentence.isascii() and ENGLISH.search(sentence)):
        return None
    words = [word.casefold() for word in WORD.findall(sentence[: match.start()])]
    said = [at for at, word in enumerate(words) if word in CHOICE_NOUNS]
    pieces = any(piece in sentence for piece in NOUN_PIECES)
    known = said and set(words[said[-1] :]) <= BETWEEN | CHOICE_NOUNS
    return match if known or (pieces and _answer_noun(sentence)) else None


def _answer_noun(before: str) -> tuple[int, int] | None:
    """Return where the last noun for an answer stands."""
    found = None
    for match in WORD.finditer(before):
        if match[0].casefold() in NOUNS or match[0].casefold().rpartition("'")[2] in NOUNS:
            found = match.span()
    for piece in NOUN_PIECES if not before.isascii() else ():
        at = before.casefold().rfind(piece)
        if at >= 0 and (found is None or at > found[0]):
            found = at, at + len(piece)
    return found


def misnamed(before: str, after: str) -> bool:
    """Return whether a sentence calls its value wrong, or what makes another of it, by the stems of
    the words around it."""
    if before.isascii() and after.isascii() and ENGLISH.search(before):
        return False
    clause = COMMA.split(before)[-1]
    if WRONG_STEMS.search(clause) or TO_DO.found(clause) or GAVE_UP.search(before):
        return True
    if CHANGING_STEMS.search(clause) and _answer_noun(before) is not None:
        return True
    match = WRONG_STEMS.search(after)
    return match is not None and len(after[: match.start()].split()) < 4


def gave_up(text: str) -> bool:
    """Return whether a text says in another language that it has no answer."""
    return GAVE_UP.search(text)


def cut_off(text: str) -> bool:
    """Return whether a text ends in a word that goes on: "12 plus"."""
    return CUT.ends(text.rstrip(" \t\n$*")) and any(map(str.isdigit, text[-40:]))
