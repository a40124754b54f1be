"""Numbers that are said in words, "two thirds", "the square root of 4", as mathematics."""

import re
from itertools import pairwise

from verifiers.grammar.tables import table
from verifiers.grammar.vocabulary import (
    COUNTED_ABROAD,
    FOREIGN_NUMBERS,
    NUMBER_WORDS,
    PARTS_ABROAD,
    SCALES,
    words,
)

PARTS = {"half": 2, "halves": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6,
         "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10, "hundredth": 100}  # fmt: skip
POWERS = {"square": 2, "cube": 3, "squared": 2, "cubed": 3}
_ONES = "|".join(name for name, value in NUMBER_WORDS.items() if 0 < value < 10)
_WORDS = "|".join(sorted(NUMBER_WORDS, key=len, reverse=True))
_SCALES = "|".join(SCALES)
_SPOKEN = rf"(?:{_WORDS})(?:[- ](?:{_ONES}))?(?!\w)"
_DIGITS = r"\d+(?:,\d{3})*(?:\.\d+)?(?:/\d+)?"
_ROUND = r"an?\s+(?:hundred|thousand|million|billion)"
_LONG = rf"{_SPOKEN}(?:\s+(?:{_SCALES})(?!\w)(?:\s+(?:and\s+)?{_SPOKEN})?){{0,4}}"
NUMBER = rf"(?:(?:minus|negative)\s+)?(?:-?{_DIGITS}|{_ROUND}|{_LONG})"
_PART = r"half|halves|(?:third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth|hundredth)s?"
FORMS = [
    (rf"(?P<a>{NUMBER})", "{a}"),
    (rf"(?:the\s+)?(?P<p>square|cube)\s+root\s+of\s+(?P<a>{NUMBER})", r"\sqrt[{p}]{{{a}}}"),
    (rf"(?:the\s+)?(?P<p>square|cube)\s+of\s+(?P<a>{NUMBER})", "({a})^{{{p}}}"),
    (rf"(?P<a>{NUMBER})\s+(?P<p>squared|cubed)", "({a})^{{{p}}}"),
    (rf"(?P<a>{NUMBER})\s+factorial", "({a})!"),
    (rf"(?:the\s+)?reciprocal\s+of\s+(?P<a>{NUMBER})", r"\frac{{1}}{{{a}}}"),
    (rf"(?:(?P<b>{NUMBER}|an?)[\s-]+)?dozen", r"12 \cdot {b}"),
    (rf"(?:twice|double)\s+(?P<a>{NUMBER})", r"2 \cdot ({a})"),
    (rf"(?P<a>{NUMBER})\s+over\s+(?P<b>{NUMBER})", r"\frac{{{a}}}{{{b}}}"),
    (rf"(?P<a>{NUMBER})\s+(?:out\s+of|in)\s+(?P<b>{NUMBER})", r"\frac{{{a}}}{{{b}}}"),
    (rf"(?P<a>{NUMBER})\s+choose\s+(?P<b>{NUMBER})", r"\binom{{{a}}}{{{b}}}"),
    (rf"(?P<a>{NUMBER})\s+to\s+the\s+(?:power\s+(?:of\s+)?)?(?P<b>{NUMBER})", "({a})^{{{b}}}"),
    (rf"(?P<a>{NUMBER})\s+and\s+(?P<b>an?|one|two|three|four)[\s-]+(?P<p>{_PART})",
     r"{a}+\frac{{{b}}}{{{p}}}"),
    (rf"(?:(?P<b>{NUMBER}|an?|one)[\s-]+)?(?P<p>{_PART})", r"\frac{{{b}}}{{{p}}}"),
    (rf"(?:(?P<b>{NUMBER}|an?|one)[\s-]+)?(?P<p>{_PART})\s+of\s+(?P<a>{NUMBER})",
     r"\frac{{{b}}}{{{p}}} \cdot ({a})"),
]  # fmt: skip
PATTERNS = [(re.compile(pattern, re.I), shape) for pattern, shape in FORMS]
WORD = re.compile(r"[a-z]{3,}")
KNOWN = frozenset({*NUMBER_WORDS, *SCALES, *PARTS, *(f"{part}s" for part in PARTS), *POWERS}) | {
    *("minus", "negative", "root", "factorial", "reciprocal", "dozen", "twice", "double", "over"),
    *("choose", "the", "and", "out"),
}
SAID = re.compile(
    rf"(?<![\w-])(?<!and\s)(?:(?:{_SPOKEN}|an?)[\s-]+(?:{_PART})|(?!one\b(?!\s+(?:{_SCALES})\b)){_LONG}(?:\s+and\s+(?:an?|one|two|three|four)[\s-]+(?:{_PART}))?|{_PART}(?=\s+of))(?![\w-])",
    re.I,
)
ANY_WORD = re.compile(r"(?<![-–\w])[^\W\d_]{2,}(?:-[^\W\d_]+)?(?![-–\w])")
CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
COUNTED_CJK = re.compile(
    r"(?<![第一二三四五六七八九十百千分每各])([一二三四五六七八九十]{1,3})"
    r"[个個種种人本只条张円元岁歳つ名](?![半多])[^一二三四五六七八九十\d，,；;]{0,6}[。.\s]*$"
)
_CJK_COUNT = r"(\d{1,4}|[一二三四五六七八九十]{1,3})"
PARTS_FIRST = re.compile(
    rf"(?<![\d.百千万一二三四五六七八九十]){_CJK_COUNT}\s?(?:分[の之]|분의)\s?{_CJK_COUNT}"
    r"(?![\d.百千万一二三四五六七八九十])"
)
ENGLISH = words(table("abroad")["english"])
ONE_ABROAD = words("un une una um uma ein одна одной две en één")
IN = re.compile(r"\d in \d")
LONGEST = 80
JOINED = re.compile(r"\s(?:(?:y|e|și)\s)?")


def spoken(text: str) -> str | None:
    """Return a number said in words as LaTeX; None for all other text."""
    if len(text) > LONGEST:
        return None
    said = text.strip(" .。").casefold()
    if number := FOREIGN_NUMBERS.get(said) or _parts_abroad(said) or _added_up(said):
        return number
    if "分" in said:
        return _turned(match) if (match := PARTS_FIRST.fullmatch(said)) else None
    if KNOWN.isdisjoint(WORD.findall(text.lower())) and not IN.search(text):
        return None
    text = text.strip(" .")
    for pattern, shape in PATTERNS:
        if match := pattern.fullmatch(text):
            return _written(match.groupdict(), shape)
    return None


def _parts_abroad(said: str) -> str | None:
    """Return three eighths of "trois huitièmes"."""
    count, _, part = said.partition(" ")
    if part not in PARTS_ABROAD or not (count in FOREIGN_NUMBERS or count in ONE_ABROAD):
        return None
    return rf"\frac{{{FOREIGN_NUMBERS.get(count, '1')}}}{{{PARTS_ABROAD[part]}}}"


def _added_up(said: str) -> str | None:
    """Return 125 of "сто двадцать пять": a number and what is smaller than its last digit."""
    values = [int(COUNTED_ABROAD.get(word, "0")) for word in JOINED.split(said)]
    if len(values) < 2 or not all(values):
        return None
    for before, after in pairwise(values):
        zeros = len(str(before)) - len(str(before).rstrip("0"))
        if before < 20 or after >= 10**zeros:
            return None
    return str(sum(values))


def parts_first(text: str) -> str:
    """Write 八分之七 and 3分の2 or 3분의 2 as 7/8 and 2/3."""
    return PARTS_FIRST.sub(_turned, text)


def _turned(match: re.Match[str]) -> str:
    below, above = (str(FOREIGN_NUMBERS.get(part, part)) for part in match.groups())
    return f"{above}/{below}" if (above + below).isdigit() else match[0]


def counted_abroad(sentence: str) -> list[str]:
    """Return the numbers from two on that a sentence of another language says in a word."""
    said = [] if CJK.search(sentence) else ANY_WORD.findall(sentence)
    if not ENGLISH.isdisjoint(word.casefold() for word in said):
        return []
    pairs = [" ".join(pair) for pair in pairwise(said)]
    if parts := [pair for pair in pairs if _parts_abroad(pair.casefold())]:
        return parts
    runs: list[list[int]] = []
    for word in ANY_WORD.finditer(sentence):
        if COUNTED_ABROAD.get(word[0].casefold(), "0") in "01":
            continue
        if runs and JOINED.fullmatch(sentence, runs[-1][1], word.start()):
            runs[-1][1] = word.end()
        else:
            runs.append([word.start(), word.end()])
    found = [sentence[start:end] for start, end in runs]
    if any(spoken(number) is None for number in found):
        return []
    return found + [match[1] for match in COUNTED_CJK.finditer(sentence)]


def _written(groups: dict[str, str | None], shape: str) -> str | None:
    part = (groups.get("p") or "").lower()
    count = (groups.get("b") or "1").lower()
    if part in PARTS or part.rstrip("s") in PARTS:
        if not groups.get("b") and "b" in groups and part != "half":
            return None  # "third" alone is a place
        value = PARTS.get(part) or PARTS[part.rstrip("s")]
    else:
        value = POWERS.get(part, 0)
    filled = {"p": str(value), "b": _number(count), "a": _number(groups.get("a") or "")}
    return shape.format(**filled)


def _number(text: str) -> str:
    """Return a number in digits and signs."""
    text = text.lower().strip()
    for word in ("minus", "negative"):
        if text.startswith(word):
            return "-" + _number(text.removeprefix(word))
    if not text or text[0].isdigit() or text[0] == "-":
        return text.replace(",", "{,}")
    total = part = 0
    for word in re.split(r"[\s-]+", text):
        if SCALES.get(word, 0) >= 1000:
            total, part = total + part * SCALES[word], 0
        elif word in SCALES:
            part *= SCALES[word]
        elif word != "and":
            part += 1 if word in ("a", "an") else NUMBER_WORDS[word]
    return str(total + part)
