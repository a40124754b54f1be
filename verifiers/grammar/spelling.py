"""One spelling for mathematics written in Unicode or in words: that of LaTeX."""

import re

from verifiers.grammar.tables import table
from verifiers.grammar.vocabulary import FOREIGN_SCALES, SUBSCRIPTS, SUPERSCRIPTS, UNICODE

ORDINAL = re.compile(
    r"(?<!\d)(\d{1,6})\s?(?:\^?\{?\s*\\(?:text|mathrm|textrm)\s*\{\s*(st|nd|rd|th)\s*\}\s*\}?"
    r"|\^\{\s*(st|nd|rd|th)\s*\}|(st|nd|rd|th))(?![A-Za-z])",
    re.ASCII,
)
MONEY_CODE = re.compile(
    r"(?:\\text\s*\{\s*(?P<a>USD?|Rp|Rs|INR|EUR|GBP)\b\.?\s*\}|\b(?P<b>USD?|Rp|Rs|INR|EUR|GBP|(?:R|A|C|CA|AU|NZ|HK)(?=\s?\\?\$))\b\.?)"
    r"\s*(?:\\?\$\s*)?(?=\d)"
)
MONEY_SIGNS = {"Rs": "₹", "INR": "₹", "Rp": "", "EUR": "€", "GBP": "£"}
IN_BASE = re.compile(r"\((?:in\s+)?base[ -]?(\w{1,8})\)|\bin base (?=[\s}$]*\w)")
DIGITS_IN_WORDS = re.compile(r"\\(?:text|mathrm|textrm|textbf)\{([0-9A-F]{1,12})\}(?=[0-9A-F]*_)")
TEMPERATURE = re.compile(
    r"(\\circ\s*\}?(?:\\[,;: ]|\s|~)*)(?:\\(?:text|mathrm|textrm)\s*\{\s*([CF])\s*\}|([CF])\b(?!_))"
)
SUPERSCRIPT_RUN = re.compile(f"[{''.join(SUPERSCRIPTS)}]+")
SUBSCRIPT_RUN = re.compile(f"[{''.join(SUBSCRIPTS)}]+")
SIZED_TURN = re.compile(r"\\(?:left|right)(?=\s*[\[\]])")
TURNED = re.compile(
    r"(?<![\w)}])([\[\]])\s*([^\[\](){};,=]{1,30}?)\s*(?:\\[,;:])?\s*[;,]\s*([^\[\](){};,]{1,30}?)\s*(?:\\[,;:])?\s*([\[\]])(?![\w])"
)
LOG_BASE = re.compile(r"(?<![A-Za-z_])\\?log(10|2)(?=\s?\()")
THIN_SPACE = re.compile(r"\\[,;:!]\s*(?=[\[\];])|(?<=[;\[\]])\s*\\[,;:!]")
JOINED_BY = (
    (
        re.compile(r"\\text\s*\{\s+(?:o|ou|oder|или|u|oppure|of|lub|eller|veya)\s+\}"),
        r"\\text{ or }",
    ),
    (re.compile(r"\\text\s*\{\s+(?:y|e|et|und|и|en|i|och|ve)\s+\}"), r"\\text{ and }"),
)
PERCENT_FIRST = re.compile(r"^%\s?(\d+(?:\.\d+)?)$", re.ASCII)
TIMES_X = re.compile(r"(?<=\d)\s?[xX]\s?(?=\$?\d)", re.ASCII)
TIMES_TEN = re.compile(r"(\d)\s*[xX]\s*10\s*(?:\^|\*\*)", re.ASCII)
CLOCK_HALF = re.compile(r"\b([ap])\.?\s?m\b\.?", re.IGNORECASE)
PRIMES = re.compile(r"\^\s*(?:\{\s*((?:\\prime\s*|')+)\}|(\\prime)(?![a-z]))")
WRITTEN_MOD = re.compile(r"\(\s*\\(?:text|mathrm|operatorname)\s*\{\s*mod\s*\}\s*(\w+)\s*\)")
COMPOSED = re.compile(r"\(\s*([A-Za-z])\s*\\circ\s*([A-Za-z])\s*\)\s*\(\s*(\w+)\s*\)")
IN_SET = re.compile(
    r"(\\in(?![a-z])|∈)\s*(?:\\(?:mathbf|mathrm|text)\s*\{\s*([ZNQR])\s*\}|([ZNQR])(?![A-Za-z(]))"
)
HALF_OPEN_BAR = re.compile(
    r"\\left\s*(\|)((?:(?!\\left|\\right).)*)\\right\s*\.|\\left\s*\.((?:(?!\\left|\\right).)*)\\right\s*\|"
)
DECIMAL_COMMA = re.compile(r"(?:(?<=\d)\{,\}(?=(?:\d{1,2}|\d{4,})(?!\d))|(?<=(?<!\d)0)\{,\}(?=\d))")
EQUALS = re.compile(r"(?<=[\w)}] )equals(?= )")
SET_MINUS = re.compile(
    r"(R|\\mathbb\s*\{?\s*[RZNQC]\s*\}?|ℝ)\s*(?:\\(?:setminus|backslash)|\\(?=\s)|[-−–])\s*\\?\{([^{}\\]{1,40})\\?\}"
)
NAMES_MINUS = re.compile(r"([A-Z])\s*\\\s+([A-Z])")
CHOOSE = re.compile(
    r"(?:(?<![\w}])|(?<=\{\}))(?:\{\})?[_^](?:\{(\w{1,4})\}|(\w))C_(?:\{(\w{1,4})\}|(\w))"
    r"|(?<![\w\\])C\((\d{1,4}|[nmN]),\s*(\d{1,4}|[nmkr])\)",
    re.ASCII,
)


def _usual_interval(match: re.Match[str]) -> str:
    """Write ]0; 3[ as (0, 3); [0, 3] stays."""
    opening, low, high, closing = match.groups()
    if (opening, closing) == ("[", "]"):
        return match[0]
    return f"{'(' if opening == ']' else '['}{low}, {high}{')' if closing == '[' else ']'}"


def _binomial(match: re.Match[str]) -> str:
    """Write {}_5C_2 and C(5, 2) as a binomial."""
    above, below = (part for part in match.groups() if part)
    return rf"\binom{{{above}}}{{{below}}}"


def plain_signs(text: str) -> str:
    """Write Unicode mathematics in LaTeX."""
    if "\\" in text or "{" in text:
        text = _set_minus(text)
    if "\\text" in text:
        for said, usual in JOINED_BY:
            text = said.sub(usual, text)
    text = CHOOSE.sub(_binomial, text) if "C" in text else text
    text = DECIMAL_COMMA.sub(".", text) if "{,}" in text else text
    text = SIZED_TURN.sub("", text) if "\\left]" in text or "\\right[" in text else text
    if "\\" in text and ("]" in text or "[" in text):
        text = THIN_SPACE.sub(" ", text)
    text = TURNED.sub(_usual_interval, text) if "]" in text or "[" in text else text
    text = PERCENT_FIRST.sub(r"\1\\%", text) if text[:1] == "%" else text
    text = TIMES_X.sub(r"\\times ", text) if "=" in text and ("x" in text or "X" in text) else text
    text = TIMES_TEN.sub(r"\1 \\times 10^", text) if "10" in text else text
    if any(suffix in text for suffix in ("st", "nd", "rd", "th")):
        text = ORDINAL.sub(_cardinal, text)
    text = LOG_BASE.sub(r"\\log_{\1}", text) if "log" in text else text
    if "base" in text:
        text = IN_BASE.sub(lambda match: f" base {match[1] or ''}", text)
    if "prime" in text or "^{'" in text:
        text = PRIMES.sub(lambda run: "'" * (run[0].count("prime") + run[0].count("'")), text)
    if "circ" in text:
        text = COMPOSED.sub(r"\1(\2(\3))", text)
    if "\\in" in text or "∈" in text:
        text = IN_SET.sub(lambda found: rf"\in \mathbb{{{found[2] or found[3]}}}", text)
    if "right" in text and "." in text:
        text = HALF_OPEN_BAR.sub(
            lambda bar: rf"\mid {bar[2]}" if bar[1] else rf"{bar[3]} \mid ", text
        )
    if "mod" in text:
        text = WRITTEN_MOD.sub(r"\\pmod{\1}", text)
    text = text.replace("US dollars", "dollars")
    text = EQUALS.sub("=", text) if "equals" in text else text
    if text != text.lower():
        text = MONEY_CODE.sub(lambda code: MONEY_SIGNS.get(code["a"] or code["b"], r"\$"), text)
    if "}" in text and "_" in text:
        text = DIGITS_IN_WORDS.sub(r"\1", text)
    if not text.isascii():
        text = _in_ascii(text)
    if "circ" in text:
        text = TEMPERATURE.sub(lambda scale: rf"{scale[1]}\text{{{scale[2] or scale[3]}}}", text)
    if "m" in text or "M" in text:
        text = CLOCK_HALF.sub(lambda half: half[1].lower() + "m ", text)
    return text.replace("{:}", ":")


def _set_minus(text: str) -> str:
    """Write R - {0} and A \\ B, alone, with the sign for sets."""
    if match := SET_MINUS.fullmatch(text):
        whole = r"\mathbb{R}" if match[1] in ("R", "ℝ") else match[1]
        return rf"{whole} \setminus \{{{match[2]}\}}"
    return NAMES_MINUS.sub(r"\1 \\setminus \2", text) if NAMES_MINUS.fullmatch(text) else text


DOUBLE_STRUCK = {"ⅆ": "d", "ⅇ": "e", "ⅈ": "i", "ⅉ": "j"}
SCALE = re.compile(rf"(?<=\d)\s?({'|'.join(sorted(FOREIGN_SCALES, key=len, reverse=True))})(?!\w)")


def _in_ascii(text: str) -> str:
    text = units_in_english(text)
    text = SCALE.sub(lambda scale: f" {FOREIGN_SCALES[scale[1]]} ", text)
    text = SUPERSCRIPT_RUN.sub(lambda run: _script("^", SUPERSCRIPTS, run[0]), text)
    text = SUBSCRIPT_RUN.sub(lambda run: _script("_", SUBSCRIPTS, run[0]), text)
    return "".join(UNICODE.get(char) or DOUBLE_STRUCK.get(char, char) for char in text)


def _script(mark: str, table: dict[str, str], run: str) -> str:
    return mark + "{" + "".join(table[char] for char in run) + "}"


def _cardinal(match: re.Match[str]) -> str:
    """Read 14th as 14, and 14rd not at all."""
    number, suffix = int(match[1]), match[2] or match[3] or match[4]
    teen = number // 10 % 10 == 1
    usual = "th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return match[1] if suffix == usual else match[0]


FOREIGN_WORD = re.compile(r"[A-Za-z]*[^\x00-\x7f\W\d_][^\W\d_]*[²³]?")
IN_ENGLISH = {
    word: unit
    for unit, abroad in table("foreign_units")["units"].items()
    for word in abroad.split()
}
FOREIGN_UNIT = re.compile(
    rf"[\s$]{{0,3}}({'|'.join(sorted(IN_ENGLISH, key=len, reverse=True))})(?=[\s.,;!?。，)$]|$)"
)
_LISTS = [entry for entry in table("wording").values() if isinstance(entry, list)]
_SAID = {word for whole, *_ in _LISTS for word in whole.casefold().split()}
_PIECES = {piece.replace("_", " ") for _, *more in _LISTS for piece in " ".join(more).split()}
_PIECES |= {word.replace("_", " ") for word in _SAID if "_" in word}
WORDS_AFTER = re.compile(r"[^\d.,;:!?$\\{}()\[\]\n]{1,60}")
SCALED_NOUN = re.compile(
    rf"({'|'.join(scale for scale in FOREIGN_SCALES if len(scale) == 1)})(?=\w)"
)
NO_NOUNS = re.compile(r"[成折倍番割つ]$|[或か]|多|几|余|약$")


def units_in_english(text: str) -> str:
    """Write the units of other languages in English, and 3万元 as 3万 and a unit."""
    return FOREIGN_WORD.sub(_in_english, text)


def unit_abroad(text: str, start: int) -> int | None:
    """Return where the unit ends that follows a number in another language."""
    word = FOREIGN_UNIT.match(text, start)
    return word.end() if word else None


def _in_english(match: re.Match[str]) -> str:
    word = match[0]
    if unit := IN_ENGLISH.get(word):
        return f" {unit} " if "^" in unit or " " in unit else rf" \text{{ {unit} }} "
    if scaled := SCALED_NOUN.match(word):
        rest = word[scaled.end() :]
        return rf"{scaled[0]} \text{{ {IN_ENGLISH.get(rest, rest)} }}"
    return word


def counts(text: str, start: int) -> bool:
    """Return whether the words that stand at a place may be what the quantity before them counts:
    none of them denies, doubts or changes it."""
    run = WORDS_AFTER.match(text, start)
    said = run[0].casefold() if run else ""
    words = said.split()
    return (
        _SAID.isdisjoint(words)
        and not any(NO_NOUNS.search(word) for word in words)
        and not any(piece in said for piece in _PIECES)
    )
