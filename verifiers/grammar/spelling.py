"""Write mathematics that is in Unicode or in words as LaTeX, in one spelling."""

import re
from collections.abc import Callable, Sequence

from verifiers.grammar.vocabulary import SUBSCRIPTS, SUPERSCRIPTS, UNICODE

ORDINAL = re.compile(
    r"(?<!\d)(\d{1,6})\s?(?:\^?\{?\s*\\(?:text|mathrm|textrm)\s*\{\s*(st|nd|rd|th)\s*\}\s*\}?"
    r"|\^\{\s*(st|nd|rd|th)\s*\}|(st|nd|rd|th))(?![A-Za-z])",
    re.ASCII,
)
CURRENCY = r"(?:USD?|Rs|INR|EUR|GBP)"
COUNTRY = r"(?:R|A|C|CA|AU|NZ|HK)(?=\s?\\?\$)"  # R$, A$, C$
MONEY_CODE = re.compile(
    rf"(?:\\text\s*\{{\s*(?P<boxed>{CURRENCY})\b\.?\s*\}}|\b(?P<plain>{CURRENCY}|{COUNTRY})\b\.?)"
    r"\s*(?:\\?\$\s*)?(?=\d)"
)
MONEY_SIGNS = {"Rs": "₹", "INR": "₹", "EUR": "€", "GBP": "£"}
DIGITS_IN_WORDS = re.compile(r"\\(?:text|mathrm|textrm|textbf)\{([0-9A-F]{1,12})\}(?=[0-9A-F]*_)")
TEMPERATURE = re.compile(
    r"(\\circ\s*\}?(?:\\[,;: ]|\s|~)*)(?:\\(?:text|mathrm|textrm)\s*\{\s*([CF])\s*\}|([CF])\b(?!_))"
)
SUPERSCRIPT_RUN = re.compile(f"[{''.join(SUPERSCRIPTS)}]+")
SUBSCRIPT_RUN = re.compile(f"[{''.join(SUBSCRIPTS)}]+")
THIN_SPACE = re.compile(r"\\[,;:!]\s*(?=[\[\];])|(?<=[;\[\]])\s*\\[,;:!]")
DECIMAL = r"(?<=\d)%s(?=(?:\d{1,2}|\d{4,})(?!\d))|(?<=(?<!\d)0)%s(?=\d)"  # no thousands
DECIMAL_COMMA = re.compile(DECIMAL % (r"\{,\}", r"\{,\}"))
ONE_COMMA = re.compile(
    rf"[^,\d]*(?:\d{{1,3}}(?:\.\d{{3}})+|\d+)(?:{DECIMAL % (',', ',')})\d+[^,\d]*"
)
BRACKET = r"(?:\\(?:left|right)\s*)?([\[\]])"
ENDPOINT = r"([^\s\[\](),;=][^\[\](),;=]{0,40}?)(?:\\[,;:])?"
_UNITS = r"(?:\\(?:text|mathrm|textrm)\s*\{[^{}]{1,30}\}(?:\^(?:\{-?\d\}|\d))?(?:\\cdot|\s|\\,)*)+"
UNIT_FRACTION = re.compile(
    rf"(?<=[\d}})])(?:\s|~|\\[,;:! ])*\\[dt]?frac\s*\{{\s*({_UNITS})\}}\s*\{{\s*({_UNITS})\}}"
)
TIMES_X = re.compile(r"(?<=[\d})])(?:\s+[xX]\s+(?=\d)|\s*[xX]\s*(?=10\^))")
ROW_STOP = re.compile(r"[.,;](?=[\s~}$]*\\(?:end(?![a-z])|\\))")
IMAGINARY_J = re.compile(r"\A([-+]?\d[\d.]*\s*[-+]\s*\d[\d.]*)j\Z")  # of code: 2 - 3j
# A space before another name and its equals sign separates: k = 3 \\quad m = 8.
BEFORE_NAME = re.compile(r"(?<=[^,;&\s])\s*\\q?quad(?=\s*\\?[A-Za-z][^,;=\n]{0,60}=)")
INTERVAL = re.compile(
    rf"(?:(?<![\w)}}])|(?<=\\cup)|(?<=\\in)){BRACKET}\s*+{ENDPOINT}"
    rf"\s*[;,]\s*+{ENDPOINT}\s*{BRACKET}(?!\w)"
)
MODULE = re.compile(
    r"(?<![\w.])[A-Za-z]\w{0,12}\.(?=[A-Za-z]\w{1,20}\(|(?:pi|inf|oo)\b)"
)  # math.sqrt(7)
IMAGINARY_I = re.compile(r"(?<=\*)I(?!\w)|(?<!\w)I(?=\*)")  # of sympy: 3 + 4*I
LOG_BASE = re.compile(r"(?<![A-Za-z_])\\?log(10|2)(?=\s?\()")
CLOCK_HALF = re.compile(r"\b([ap])\.?\s?m\b\.?", re.IGNORECASE)
CHOOSE = re.compile(
    r"(?:(?<![\w}])|(?<=\{\}))(?:\{\})?[_^](?:\{(\w{1,4})\}|(\w))C_(?:\{(\w{1,4})\}|(\w))"
    r"|(?<![\w\\])C\((\d{1,4}|[nmN]),\s*(\d{1,4}|[nmkr])\)|(?<![\w\\.,])(\d{1,3})C(\d{1,3})(?!\w)",
    re.ASCII,
)


Rewrites = list[tuple[Sequence[str], re.Pattern[str], str | Callable[[re.Match[str]], str]]]


def plain_signs(text: str) -> str:
    """Write Unicode mathematics, ordinals, currency codes and clock times in LaTeX."""
    text = _rewritten(text, REWRITES)
    if "quad" in text and text.count("=") > 1:
        text = BEFORE_NAME.sub(",", text)
    if not text.isascii():
        text = SUPERSCRIPT_RUN.sub(lambda run: _script("^", SUPERSCRIPTS, run[0]), text)
        text = SUBSCRIPT_RUN.sub(lambda run: _script("_", SUBSCRIPTS, run[0]), text)
        text = "".join(UNICODE.get(char, char) for char in text)
    return _rewritten(text, LATER_REWRITES).replace("{:}", ":")


def _rewritten(text: str, rewrites: Rewrites) -> str:
    """Apply the patterns of which a sign is in the text: looking for that is far cheaper."""
    for signs, pattern, replacement in rewrites:
        if any(sign in text for sign in signs):
            text = pattern.sub(replacement, text)
    return text


def with_decimal_point(text: str) -> str:
    """Write 1.234,50 € as 1234.50 €. Leave a text that is not a number with one decimal comma."""
    text = text.replace("\\,", " ")
    if not ONE_COMMA.fullmatch(text):
        return text
    integer, _, decimals = text.partition(",")
    return re.sub(r"(?<=\d)\.(?=\d)", "", integer) + "." + decimals


def _usual_brackets(match: re.Match[str]) -> str:
    """Write ]0, 3[ as (0, 3), and leave [0, 3]."""
    opening, low, high, closing = match.groups()
    if (opening, closing) == ("[", "]"):
        return match[0]
    return f"{opening.replace(']', '(')}{low}, {high}{closing.replace('[', ')')}"


def _binomial_command(match: re.Match[str]) -> str:
    """Write {}_5C_2 and C(5, 2) as \\binom52."""
    above, below = (part for part in match.groups() if part)
    return rf"\binom{{{above}}}{{{below}}}"


def _money_sign(code: re.Match[str]) -> str:
    """Write USD and R$ as \\$, and the codes of other currencies as their signs."""
    return MONEY_SIGNS.get(code["boxed"] or code["plain"], r"\$")


def _script(mark: str, table: dict[str, str], run: str) -> str:
    return mark + "{" + "".join(table[char] for char in run) + "}"


def _cardinal(match: re.Match[str]) -> str:
    """Write 14th as 14. Leave 14rd as it is, which nothing reads."""
    number = int(match[1])
    suffix = match[2] or match[3] or match[4]
    right_suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    if number // 10 % 10 == 1:  # 11th, 12th, 13th
        right_suffix = "th"
    return match[1] if suffix == right_suffix else match[0]


REWRITES: Rewrites = [
    ("C", CHOOSE, _binomial_command),
    (["{,}"], DECIMAL_COMMA, "."),
    ("[]", THIN_SPACE, " "),
    ("[]", INTERVAL, _usual_brackets),
    (["st", "nd", "rd", "th"], ORDINAL, _cardinal),
    (["frac"], UNIT_FRACTION, r" \1/\2"),
    ("xX", TIMES_X, r" \\times "),
    (["\\end"], ROW_STOP, " "),
    ("j", IMAGINARY_J, r"\1i"),
    (".", MODULE, ""),
    ("I", IMAGINARY_I, "i"),
    (["log"], LOG_BASE, r"\\log_{\1}"),
    (["US dollars"], re.compile("US dollars"), "dollars"),
    (["US", "Rs", "INR", "EUR", "GBP", "$"], MONEY_CODE, _money_sign),
    ("_", DIGITS_IN_WORDS, r"\1"),
]
"""Signs of which a text must have one, a pattern that is looked for in it, and what replaces it.
The patterns apply in this order."""
LATER_REWRITES: Rewrites = [
    (["circ"], TEMPERATURE, lambda scale: rf"{scale[1]}\text{{{scale[2] or scale[3]}}}"),
    ("mM", CLOCK_HALF, lambda half: half[1].lower() + "m "),
]
"""The patterns that apply after Unicode has become LaTeX."""
