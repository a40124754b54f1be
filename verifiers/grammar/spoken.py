"""Write numbers in words, "two thirds" or "the square root of 4", as LaTeX."""

import re

from verifiers.grammar.vocabulary import NUMBER_WORDS, SCALES, words

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
_NUMBER = rf"(?:(?:minus|negative)\s+)?(?:-?{_DIGITS}|{_ROUND}|{_LONG})"
_PART = r"half|halves|(?:third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth|hundredth)s?"
FORMS = {
    r"(?:(?:positive|plus)\s+)?infinity": r"\infty",
    r"(?:negative|minus)\s+infinity": r"-\infty",
    r"(?P<a>NUMBER)": "{a}",
    r"(?:the\s+)?(?P<p>square|cube)\s+root\s+of\s+(?P<a>NUMBER)": r"\sqrt[{p}]{{{a}}}",
    r"(?:the\s+)?(?P<p>square|cube)\s+of\s+(?P<a>NUMBER)": "({a})^{{{p}}}",
    r"(?P<a>NUMBER)\s+(?P<p>squared|cubed)": "({a})^{{{p}}}",
    r"(?P<a>NUMBER)\s+factorial": "({a})!",
    r"(?:the\s+)?reciprocal\s+of\s+(?P<a>NUMBER)": r"\frac{{1}}{{{a}}}",
    r"(?:(?P<b>NUMBER|an?)[\s-]+)?dozen": r"{b} \text{{ dozen}}",
    r"(?:twice|double)\s+(?P<a>NUMBER)": r"2 \cdot ({a})",
    r"(?P<a>NUMBER)\s+over\s+(?P<b>NUMBER)": r"\frac{{{a}}}{{{b}}}",
    r"(?P<a>NUMBER)\s+(?:out\s+of|in)\s+(?P<b>NUMBER)": r"\frac{{{a}}}{{{b}}}",
    r"(?P<a>NUMBER)\s+choose\s+(?P<b>NUMBER)": r"\binom{{{a}}}{{{b}}}",
    r"(?P<a>NUMBER)\s+to\s+the\s+(?:power\s+(?:of\s+)?)?(?P<b>NUMBER)": "({a})^{{{b}}}",
    r"(?P<a>NUMBER)\s+and\s+(?P<b>an?|one|two|three|four)[\s-]+(?P<p>PART)":
     r"{a}\frac{{{b}}}{{{p}}}",
    r"(?:(?P<b>NUMBER|an?|one)[\s-]+)?(?P<p>PART)": r"\frac{{{b}}}{{{p}}}",
    r"(?:(?P<b>NUMBER|an?|one)[\s-]+)?(?P<p>PART)\s+of\s+(?P<a>NUMBER)":
     r"\frac{{{b}}}{{{p}}} \cdot ({a})",
}  # fmt: skip
PATTERNS = [
    (re.compile(form.replace("NUMBER", _NUMBER).replace("PART", _PART), re.I), shape)
    for form, shape in FORMS.items()
]
LONG_WORD = re.compile(r"[a-z]{3,}")
SPOKEN_WORDS = {*NUMBER_WORDS, *SCALES, *PARTS, *(f"{part}s" for part in PARTS), *POWERS} | words(
    "minus negative root factorial reciprocal dozen twice double over choose infinity the and out"
)
IN = re.compile(r"\d in \d")
LONGEST = 80  # characters of a number in words


def spoken(text: str) -> str | None:
    """Return a number in words as LaTeX, or None for any other text."""
    if len(text) > LONGEST:
        return None
    if SPOKEN_WORDS.isdisjoint(LONG_WORD.findall(text.lower())) and not IN.search(text):
        return None
    text = text.strip(" .")
    for pattern, shape in PATTERNS:
        match = pattern.fullmatch(text)
        if match:
            return _filled(match.groupdict(), shape)
    return None


def _filled(groups: dict[str, str | None], shape: str) -> str | None:
    """Return a form with its numbers a and b, and its part or power p, in digits."""
    part = (groups.get("p") or "").lower()
    value = PARTS.get(part) or PARTS.get(part.rstrip("s"))
    if value and "b" in groups and not groups["b"] and part != "half":
        return None  # "third" alone is a place
    return shape.format(
        p=value or POWERS.get(part, 0),
        a=_digits(groups.get("a") or ""),
        b=_digits(groups.get("b") or "1"),
    )


def _digits(text: str) -> str:
    """Return a number in words or digits as digits, with its sign."""
    text = text.lower().strip()
    for word in ("minus", "negative"):
        if text.startswith(word):
            return "-" + _digits(text.removeprefix(word))
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
