"""Read numbers, and what may follow them: units, scale words, halves of the day, bases."""

import re
from collections import Counter
from fractions import Fraction

from verifiers.grammar.lexer import Token
from verifiers.grammar.literals import continued_decimal, read_literal, whole_number
from verifiers.grammar.parser import Parser
from verifiers.grammar.readers.names import subscript
from verifiers.grammar.tree import Node, ParseError, num
from verifiers.grammar.units import COMPOUNDS, GENERIC, HALVES_OF_DAY, RUSSIAN_PER, UNITS, unit_name
from verifiers.grammar.vocabulary import NUMBER_WORDS, SCALES

DOTS = ("ldots", "dots", "cdots")
HIGHEST_POWER = 9  # of a unit
BASE = re.compile(r"\d{1,4}", re.ASCII)
PER = RUSSIAN_PER | {"per"}
PREFIXES = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}


def read_number(parser: Parser, token: Token) -> Node:
    """Read a number with what belongs to it: dots, a base, the fraction of a mixed number."""
    node = read_literal(token.text)
    if "." in token.text and parser.accept("command", *DOTS):
        return continued_decimal(token.text, node)
    return in_base(parser, node) if parser.at("sign", "_") else _mixed(parser, node)


def in_base(parser: Parser, node: Node) -> Node:
    """Read the base below a number: 101_2, 77_{eight}."""
    parser.take()
    return _with_base(node, subscript(parser).strip("()"))


def _with_base(node: Node, base: str) -> Node:
    base = str(NUMBER_WORDS.get(base.lower(), base))
    if node.kind != "num" or not BASE.fullmatch(base):
        raise ParseError("unreadable base")
    return Node("base", (node,), (str(node.value), int(base)) if base != "10" else None)


def _mixed(parser: Parser, node: Node) -> Node:
    """Read 2\\frac58 and 1 1/2 as sums, not products."""
    start = parser.position
    integer = whole_number(node)
    if integer is None or node.digits:
        return node
    top = bottom = None
    if parser.accept("command", "frac"):
        top, bottom = whole_number(parser.argument()), whole_number(parser.argument())
    elif parser.at("number") and parser.peek().spaced and parser.peek(1).text == "/":
        above = parser.take()
        parser.take()
        below = parser.take()
        if below.kind == "number":
            top = whole_number(read_literal(above.text))
            bottom = whole_number(read_literal(below.text))
    if top is None or not bottom:
        parser.position = start
        return node
    return num(integer + Fraction(top, bottom))


def read_unit(parser: Parser, node: Node) -> Node:
    """Read the words that follow a quantity: 3 million, 9 PM, 101 base 2, 5 ft 6 in, 3 m/s."""
    word = parser.peek().text
    scale = 1000 if word == "k" and parser.peek().text_mode else SCALES.get(word.lower())
    if scale:
        parser.take()
        node = Node("mul", (node, num(scale)), "scale")
        return read_unit(parser, node) if parser.at_unit() else node
    if word in HALVES_OF_DAY:
        return Node("clock", (node, num(0)), parser.take().text.lower())
    if word == "base":
        parser.take()
        return _with_base(node, parser.take().text)
    powers: Counter[str] = Counter()
    _unit_words(parser, powers, 1)
    for compound in COMPOUNDS.keys() & powers.keys():
        exponent = powers.pop(compound)
        for name, power in COMPOUNDS[compound].items():
            powers[name] += power * exponent
    if powers["percent"] == 1 and not powers.keys() & UNITS.keys() - {"percent"}:
        return Node("pct", (node,))
    if powers["degree"] == 1 and powers.keys() <= {"degree", "c", "f"}:
        del powers["degree"]
        node = Node("deg", (node,))
    unit = tuple(sorted((name, power) for name, power in powers.items() if power))
    node = Node("unit", (node,), unit) if unit else node
    return Node("compound", (node, parser.product())) if unit and parser.at("number") else node


def _unit_words(parser: Parser, powers: Counter[str], direction: int) -> None:
    """Read cm^2, square feet, miles per hour, m/s: each word with its exponent."""
    prefix = 1
    while parser.at("word") and (parser.at_unit() or direction < 0):
        word = parser.take().text
        lower = word.lower()
        if lower == "per" and parser.accept("word", "cent"):
            powers["percent"] = 1
        elif lower in PREFIXES:
            prefix = PREFIXES[lower]
        elif lower in PER:
            direction = -1
        elif lower in GENERIC:
            _unit_exponent(parser, prefix)
        elif lower != "an":
            powers[unit_name(word)] += direction * _unit_exponent(parser, prefix)
            prefix = 1
            if parser.at("sign", "/") and parser.peek(1).kind == "word":
                parser.take()
                _unit_words(parser, powers, -1)
        is_hyphen = parser.at("sign", "-") and not parser.peek().spaced
        following = parser.peek(1)
        joins = is_hyphen or parser.at("command", "cdot")
        if joins and following.kind == "word" and following.text_mode:
            parser.take()  # N·m, man-hours, square-feet


def _unit_exponent(parser: Parser, prefix: int) -> int:
    """Return the exponent after a unit, else that of the word before it: square, cubic."""
    if parser.accept("word", "squared", "cubed"):
        return 2 if parser.peek(-1).text == "squared" else 3
    if not parser.accept("sign", "^"):
        return prefix
    exponent = parser.argument() if parser.at("sign", "{") else parser.signed_exponent()
    power = whole_number(exponent.args[0] if exponent.kind == "neg" else exponent)
    if power is None or power > HIGHEST_POWER:
        raise ParseError("unreadable unit")
    return -power if exponent.kind == "neg" else power
