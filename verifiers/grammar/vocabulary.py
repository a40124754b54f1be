"""Hold the words and signs of the grammar as data. The longer lists are in a table."""

import tomllib
from pathlib import Path

_FILE = Path(__file__).resolve().parents[1] / "tables" / "vocabulary.toml"
TABLE = tomllib.loads(_FILE.read_text(encoding="utf-8"))


def words(text: str) -> frozenset[str]:
    """Return a set of words, written as one string."""
    return frozenset(text.split())


UNICODE = TABLE["unicode"]
SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿˣʸᵏᵐᵗ", "0123456789-+nxykmt", strict=True))
SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋ₙₖᵢⱼₘₓ", "0123456789+-nkijmx", strict=True))

SPACING = words(", ; : ! > quad qquad thinspace enspace space hfill") | {" ", "\n", "\t"}
SILENT = words(TABLE["silent"])
SKIPPED_WITH_GROUP = words(TABLE["skipped_with_group"])
TEXT_GROUPS = words(TABLE["text_groups"])
MATH_GROUPS = words(TABLE["math_groups"])

RELATIONS = TABLE["relations"]
FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
CONNECTIVES = {
    **dict.fromkeys(TABLE["and_words"].split(), "and"),
    **dict.fromkeys(TABLE["or_words"].split(), "or"),
}
# Commands that cannot begin a factor of a product.
NOT_FACTORS = RELATIONS.keys() | CONNECTIVES.keys() | words(
    "pm mp cdot times div ast } rbrace rvert rfloor rceil rangle mid colon pmod \\ to rightarrow "
    "implies circ vert choose over cup cap setminus backslash"
)  # fmt: skip

FUNCTIONS = TABLE["functions"]
INVERSES = TABLE["inverses"]
LISTED_FUNCTIONS = words("max min gcd lcm")
CODE_FUNCTIONS = TABLE["code_functions"]
OPERATORS = words("det deg dim Pr rank ker arg")
BIG = words("sum prod int iint iiint oint lim limsup liminf bigcup bigcap")
GREEK = words(TABLE["greek"])
SYSTEMS = words("cases aligned align gathered gather split equation rcases dcases center")
MATRICES = words(TABLE["matrices"])
CONDITION_WORDS = words("if for when where whenever")
FILLERS = words(TABLE["fillers"])
NOT_UNITS = words(TABLE["not_units"])
NOT_NOUN_SIGNS = frozenset(TABLE["not_noun_signs"])
NOT_NOUN_STEMS = tuple(TABLE["not_noun_stems"].split())
NOT_NOUN_WORDS = words(TABLE["not_noun_words"])
NUMBER_WORDS: dict[str, int] = TABLE["number_words"]
SCALES = TABLE["scales"]
EMPTY_WORDS = frozenset(TABLE["empty_words"])
REAL_WORDS = frozenset(TABLE["real_words"])
SHORT_WORDS = words(TABLE["short_words"])  # these are words and not products of letters
SAFE_UNITS = words(TABLE["safe_units"])  # units after a number even where letters are variables
