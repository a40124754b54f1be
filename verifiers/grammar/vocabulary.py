"""The words and signs of the grammar, as data."""

from verifiers.grammar.tables import table


def words(text: str) -> frozenset[str]:
    """Return a set of words, written as one string."""
    return frozenset(text.split())


UNICODE = table("vocabulary")["unicode"]
SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿˣʸᵏᵐᵗ", "0123456789-+nxykmt", strict=True))
SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋ₙₖᵢⱼₘₓ", "0123456789+-nkijmx", strict=True))

SPACING = words(", ; : ! > quad qquad thinspace enspace space hfill") | {" ", "\n", "\t"}
SILENT = words(table("vocabulary")["silent"])
SKIPPED_WITH_GROUP = words(table("vocabulary")["skipped_with_group"])
TEXT_GROUPS = words(table("vocabulary")["text_groups"])
MATH_GROUPS = words(table("vocabulary")["math_groups"])

RELATIONS = table("vocabulary")["relations"]
FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
CONNECTIVES = {"and": "and", "or": "or", "land": "and", "wedge": "and", "lor": "or", "vee": "or"}
# Commands that cannot begin a factor of a product.
NOT_FACTORS = RELATIONS.keys() | CONNECTIVES.keys() | words(
    "pm mp cdot times div ast } rbrace rvert rfloor rceil rangle mid colon pmod \\ to rightarrow "
    "implies circ vert choose over cup cap setminus backslash"
)  # fmt: skip

FUNCTIONS = table("vocabulary")["functions"]
INVERSES = table("vocabulary")["inverses"]
LISTED_FUNCTIONS = {"max": "max", "min": "min", "gcd": "gcd", "lcm": "lcm"}
OPERATORS = words("det deg dim Pr rank ker arg")
BIG = words("sum prod int iint iiint oint lim limsup liminf bigcup bigcap")
GREEK = words(table("vocabulary")["greek"])
SYSTEMS = words("cases aligned align gathered gather split equation rcases dcases center")
MATRICES = words(table("vocabulary")["matrices"])
FILLERS = words(table("vocabulary")["fillers"])
NOT_UNITS = words(table("vocabulary")["not_units"])
NOT_UNITS |= {word for word in table("wording")["changes_before"][0].split() if "_" not in word}
NUMBER_WORDS = table("vocabulary")["number_words"]
# Words of two languages, which are numbers where nothing else is said.
WORDS_ALONE = {"six": 6, "sei": 6, "elf": 11}
COUNTED_ABROAD = {
    word.casefold(): value
    for value, said in table("number_words")["abroad"].items()
    for word in said.split()
}
PARTS_ABROAD = {
    word.casefold(): parts
    for parts, said in table("number_words")["parts_abroad"].items()
    for word in said.split()
}
FOREIGN_NUMBERS = COUNTED_ABROAD | {word: str(value) for word, value in WORDS_ALONE.items()}
FOREIGN_NUMBERS |= dict.fromkeys(
    ["ein halb", "ein halbes", "un demi", "un medio", "un mezzo", "um meio", "половина", "一半"],
    r"\frac{1}{2}",
)
FOREIGN_NUMBERS |= {f"{sign} infinity": r"\infty" for sign in ("positive", "plus")}
FOREIGN_NUMBERS |= {f"{sign} infinity": r"-\infty" for sign in ("negative", "minus")}
SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
SCALES |= {"trillion": 10**12, "dozen": 12, "score": 20, "lakh": 10**5, "crore": 10**7}
SCALES |= {"tenthousand": 10**4, "hundredmillion": 10**8}
SCALES |= dict.fromkeys(words("hundreds cientos"), 100)
SCALES |= dict.fromkeys(words("thousands mille mil tausend ribu bin tusen tuhat tysiące"), 1000)
SCALES |= dict.fromkeys(
    words("millions millionen millones milioni milyon mln juta miljoen miljoner milion miljoonaa"),
    10**6,
)
SCALES |= dict.fromkeys(
    words("billions milliards milliarde milliarden milliard miliardi miljard milyar mlrd"), 10**9
)
SCALES |= dict.fromkeys(words("dozens dutzend douzaines docenas dozzine dozzina"), 12)
# Scale words that are not in ASCII, as words of the table above.
FOREIGN_SCALES = table("vocabulary")["foreign_scales"]
EMPTY_WORDS = {"no solution", "no solutions", "empty set", "the empty set", "no real solutions"}
EMPTY_WORDS |= {"no real solution", "null set"}
REAL_WORDS = {"all real numbers", "all reals", "all real x", "real numbers", "the real numbers"}
REAL_WORDS |= {"all real values", "all real values of x", "the set of all real numbers"}
KNOWN_WORDS = words("yes no odd all any not nor yet red tan east west north south even true")
