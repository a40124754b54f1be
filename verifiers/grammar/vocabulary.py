"""Hold the words and signs of the grammar as data; the longer lists stand in a table."""

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
CONNECTIVES = {"and": "and", "or": "or", "land": "and", "wedge": "and", "lor": "or", "vee": "or"}
# Commands that cannot begin a factor of a product.
NOT_FACTORS = RELATIONS.keys() | CONNECTIVES.keys() | words(
    "pm mp cdot times div ast } rbrace rvert rfloor rceil rangle mid colon pmod \\ to rightarrow "
    "implies circ vert choose over cup cap setminus backslash"
)  # fmt: skip

FUNCTIONS = TABLE["functions"]
INVERSES = TABLE["inverses"]
LISTED_FUNCTIONS = words("max min gcd lcm")
OPERATORS = words("det deg dim Pr rank ker arg")
BIG = words("sum prod int iint iiint oint lim limsup liminf bigcup bigcap")
GREEK = words(TABLE["greek"])
SYSTEMS = words("cases aligned align gathered gather split equation rcases dcases center")
MATRICES = words(TABLE["matrices"])
FILLERS = words(TABLE["fillers"])
NOT_UNITS = words(TABLE["not_units"])
NUMBER_WORDS = TABLE["number_words"]
SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
SCALES |= {"trillion": 10**12, "dozen": 12, "score": 20, "lakh": 10**5, "crore": 10**7}
SCALES |= {
    f"{name}s": SCALES[name] for name in ("hundred", "thousand", "million", "billion", "dozen")
}
EMPTY_WORDS = {"no solution", "no solutions", "empty set", "the empty set", "no real solutions"}
EMPTY_WORDS |= {"no real solution", "null set"}
REAL_WORDS = {"all real numbers", "all reals", "all real x", "real numbers", "the real numbers"}
REAL_WORDS |= {"all real values", "all real values of x", "the set of all real numbers"}
# Short words that are not products of letters.
SHORT_WORDS = words(
    "yes no odd all any not nor yet red tan east west north south even true get got let was has "
    "our the are"
)
