"""Units: their spellings, and their size within one dimension."""

from fractions import Fraction

from verifiers.grammar.lexer import Token
from verifiers.grammar.vocabulary import FUNCTIONS, NOT_UNITS, NUMBER_WORDS, SCALES, words

# canonical name: (dimension, size in the dimension's base unit, spellings)
UNITS: dict[str, tuple[str, Fraction, str]] = {
    "m": ("length", Fraction(1), "m meter meters metre metres"),
    "cm": ("length", Fraction(1, 100), "cm centimeter centimeters centimetre centimetres"),
    "mm": ("length", Fraction(1, 1000), "mm millimeter millimeters millimetre millimetres"),
    "km": ("length", Fraction(1000), "km kilometer kilometers kilometre kilometres"),
    "inch": ("length", Fraction(254, 10000), "inch inches in"),
    "foot": ("length", Fraction(3048, 10000), "foot feet ft"),
    "yard": ("length", Fraction(9144, 10000), "yard yards yd"),
    "mile": ("length", Fraction(1609344, 1000), "mile miles mi"),
    "g": ("mass", Fraction(1), "g gram grams gm"),
    "mg": ("mass", Fraction(1, 1000), "mg milligram milligrams"),
    "kg": ("mass", Fraction(1000), "kg kilogram kilograms kgs"),
    "pound": ("mass", Fraction(45359237, 100000), "pound pounds lb lbs"),
    "ounce": ("mass", Fraction(45359237, 1600000), "ounce ounces oz"),
    "s": ("time", Fraction(1), "s sec secs second seconds"),
    "minute": ("time", Fraction(60), "min mins minute minutes"),
    "hour": ("time", Fraction(3600), "h hr hrs hour hours"),
    "day": ("time", Fraction(86400), "day days"),
    "week": ("time", Fraction(604800), "week weeks wk wks"),
    "month": ("months", Fraction(1), "month months"),
    "year": ("months", Fraction(12), "year years yr yrs"),
    "cup": ("cooking", Fraction(1), "cup cups"),
    "pint": ("cooking", Fraction(2), "pint pints"),
    "quart": ("cooking", Fraction(4), "quart quarts"),
    "gallon": ("cooking", Fraction(16), "gallon gallons gal"),
    "liter": ("volume", Fraction(1), "L l liter liters litre litres"),
    "ml": ("volume", Fraction(1, 1000), "ml mL milliliter milliliters millilitre millilitres"),
    "dollar": ("money", Fraction(1), "dollar dollars USD bucks"),
    "cent": ("money", Fraction(1, 100), "cent cents ¢"),
    "euro": ("euro", Fraction(1), "euro euros EUR €"),
    "gbp": ("gbp", Fraction(1), "GBP £ quid"),
    "yen": ("yen", Fraction(1), "yen ¥ JPY"),
    "rupee": ("rupee", Fraction(1), "rupee rupees ₹ Rs INR"),
    "lei": ("lei", Fraction(1), "lei RON"),
    "lira": ("lira", Fraction(1), "TL TRY lira"),
    "krona": ("krona", Fraction(1), "kr SEK NOK DKK kronor kroner"),
    "zloty": ("zloty", Fraction(1), "PLN zloty zl"),
    "franc": ("franc", Fraction(1), "CHF Franken francs"),
    "forint": ("forint", Fraction(1), "Ft HUF forint"),
    "ringgit": ("ringgit", Fraction(1), "RM MYR ringgit"),
    "ohm": ("resistance", Fraction(1), "ohm ohms Ω"),
    "hectare": ("land", Fraction(1), "ha hectare hectares"),
    "acre": ("acres", Fraction(1), "acre acres"),
    "Hz": ("frequency", Fraction(1), "Hz hertz"),
    "N": ("force", Fraction(1), "N newton newtons"),
    "J": ("energy", Fraction(1), "J joule joules"),
    "kWh": ("energy", Fraction(3_600_000), "kWh"),
    "kJ": ("energy", Fraction(1000), "kJ kilojoule kilojoules"),
    "W": ("power", Fraction(1), "W watt watts"),
    "kW": ("power", Fraction(1000), "kW kilowatt kilowatts"),
    "Pa": ("pressure", Fraction(1), "Pa pascal pascals"),
    "V": ("voltage", Fraction(1), "V volt volts"),
    "A": ("current", Fraction(1), "A amp amps ampere amperes"),
    "K": ("temperature", Fraction(1), "K kelvin kelvins"),
    "mol": ("amount", Fraction(1), "mol mole moles"),
    "nm": ("length", Fraction(1, 10**9), "nm nanometer nanometers nanometre nanometres"),
    "micrometer": ("length", Fraction(1, 10**6), "micrometer micrometers micron microns"),
    "ms": ("time", Fraction(1, 1000), "ms millisecond milliseconds"),
    "decade": ("months", Fraction(120), "decade decades"),
    "kHz": ("frequency", Fraction(1000), "kHz kilohertz"),
    "MHz": ("frequency", Fraction(10**6), "MHz megahertz"),
    "GHz": ("frequency", Fraction(10**9), "GHz gigahertz"),
    "MW": ("power", Fraction(10**6), "MW megawatt megawatts"),
    "kPa": ("pressure", Fraction(1000), "kPa kilopascal kilopascals"),
    "eV": ("electron energy", Fraction(1), "eV"),
    "keV": ("electron energy", Fraction(1000), "keV"),
    "MeV": ("electron energy", Fraction(10**6), "MeV"),
    "bit": ("bits", Fraction(1), "bit bits"),
    "byte": ("bytes", Fraction(1), "byte bytes"),
    "kilobyte": ("kilobytes", Fraction(1), "kilobyte kilobytes KB kB"),
    "megabyte": ("megabytes", Fraction(1), "megabyte megabytes MB"),
    "gigabyte": ("gigabytes", Fraction(1), "gigabyte gigabytes GB"),
    "c": ("celsius", Fraction(1), "celsius Celsius"),
    "f": ("fahrenheit", Fraction(1), "fahrenheit Fahrenheit"),
    "degree": ("angle", Fraction(1), "degree degrees deg"),
    "radian": ("radian", Fraction(1), "radian radians rad rads"),
    "percent": ("percent", Fraction(1), "percent percents percentage pct"),
}
COMPOUNDS = {"mph": {"mile": 1, "hour": -1}, "kph": {"km": 1, "hour": -1}}
SPELLINGS = {word: name for name, (_, _, spellings) in UNITS.items() for word in spellings.split()}
# Read as a unit after a number even where letters could be variables.
SAFE_SYMBOLS = words(
    "cm mm km kg mg ft lb lbs oz Hz mph kph kJ kW mL ml USD EUR GBP hrs hr sec yd gal mol Pa nm ha "
    "kB KB MB GB kHz MHz GHz kPa kWh mi keV MeV day cup yen deg rad yrs wks pct "
    "lei TL kr Ft CHF PLN RON SEK NOK DKK RM"
)
# Single letters that a number may be followed by: dropped where the other side has no variables.
LETTER_UNITS = words("m s g h L l N J W V A K")
CURRENCY_SIGNS = {"$": "dollar", "€": "euro", "£": "gbp", "¥": "yen", "₹": "rupee",
                  "¢": "cent"}  # fmt: skip
CURRENCY_COMMANDS = {"$": "dollar", "pounds": "gbp", "euro": "euro", "yen": "yen"}
HALVES_OF_DAY = words("am pm AM PM")
SHORT_UNIT_WORDS = SAFE_SYMBOLS | HALVES_OF_DAY | words("per way old sq cu")
NEVER_UNITS = FUNCTIONS.keys() | words("pi sqrt to")
GENERIC = {"unit", "units", "square", "cubic", "sq", "cu"}


def unit_name(word: str) -> str:
    """Return the canonical name of a unit; an unknown noun names itself, in the singular."""
    if word in SPELLINGS:
        return SPELLINGS[word]
    lower = word.lower()
    if lower in SPELLINGS and len(word) > 1:
        return SPELLINGS[lower]
    if len(lower) > 3 and lower.endswith("ies"):
        return lower[:-3] + "y"
    return lower[:-1] if len(lower) > 2 and lower.endswith("s") else lower


def is_unit(token: Token, following: Token) -> bool:
    """Return whether a word after a quantity is read as its unit."""
    lower = token.text.lower()
    if (
        (lower in NOT_UNITS and lower not in SCALES and lower not in SPELLINGS)
        or lower in NUMBER_WORDS
        or token.text in NEVER_UNITS
    ):
        return False
    if token.text == "min":
        return following.text not in ("(", "{")
    known = token.text in SHORT_UNIT_WORDS or token.text in SCALES
    return token.text_mode or known or len(token.text) > 3


def currency_of(token: Token) -> str | None:
    """Return the currency that a sign or a command stands for."""
    if token.kind == "command":
        return CURRENCY_COMMANDS.get(token.text)
    return CURRENCY_SIGNS.get(token.text) if token.kind == "sign" else None


def conversion(left: dict[str, int], right: dict[str, int]) -> Fraction | None:
    """Return how many of the right unit make one of the left; None if they measure different
    things."""
    left_size, left_dimensions = measure(left)
    right_size, right_dimensions = measure(right)
    return left_size / right_size if left_dimensions == right_dimensions else None


def measure(unit: dict[str, int]) -> tuple[Fraction, dict[str, int]]:
    size = Fraction(1)
    dimensions: dict[str, int] = {}
    for name, power in unit.items():
        dimension, factor, _ = UNITS.get(name, (name, Fraction(1), ""))
        size *= factor**power
        dimensions[dimension] = dimensions.get(dimension, 0) + power
    return size, {name: power for name, power in dimensions.items() if power}
