"""Numbers that are said in words, "two thirds", "the square root of 4", as mathematics."""

import re

from verifiers.grammar.vocabulary import NUMBER_WORDS, SCALES

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
    (r"(?:(?:positive|plus)\s+)?infinity", r"\infty"),
    (r"(?:negative|minus)\s+infinity", r"-\infty"),
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
    *("choose", "infinity", "the", "and", "out"),
}
IN = re.compile(r"\d in \d")
LONGEST = 80


def spoken(text: str) -> str | None:
    """Return a number said in words as LaTeX; None for all other text."""
    if len(text) > LONGEST:
        return None
    if KNOWN.isdisjoint(WORD.findall(text.lower())) and not IN.search(text):
        return None
    text = text.strip(" .")
    for pattern, shape in PATTERNS:
        if match := pattern.fullmatch(text):
            return _written(match.groupdict(), shape)
    return None


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
