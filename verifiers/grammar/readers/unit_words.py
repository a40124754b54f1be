"""What may stand after a quantity: units, scale words, halves of the day, bases."""

from fractions import Fraction

from verifiers.grammar.lexer import Token
from verifiers.grammar.parser import Parser
from verifiers.grammar.tree import (
    Base,
    Clock,
    Compound,
    Degrees,
    Node,
    ParseError,
    Percent,
    Unit,
    num,
    product_of,
)
from verifiers.grammar.units import COMPOUNDS, GENERIC, HALVES_OF_DAY, UNITS, unit_name
from verifiers.grammar.vocabulary import NUMBER_WORDS, SCALES


def read_unit(parser: Parser, node: Node) -> Node:
    word = parser.peek().text
    scale = 1000 if word == "k" and parser.peek().text_mode else SCALES.get(word.lower())
    if scale:
        parser.take()
        node = product_of([node, num(scale)])
        return read_unit(parser, node) if parser.at_unit() else node
    if word in HALVES_OF_DAY:
        return Clock(parser.take().text.lower(), (node, num(0)))
    if word == "base":
        parser.take()
        return _in_base(parser, node, parser.take())
    powers: dict[str, int] = {}
    _unit_words(parser, powers, 1)
    for compound in COMPOUNDS.keys() & powers.keys():
        exponent = powers.pop(compound)
        for name, power in COMPOUNDS[compound].items():
            powers[name] = powers.get(name, 0) + power * exponent
    if powers.get("percent") == 1 and not powers.keys() & UNITS.keys() - {"percent"}:
        return Percent((node,))
    if powers.get("degree") == 1 and powers.keys() <= {"degree", "c", "f"}:
        del powers["degree"]
        node = Degrees((node,))
    unit = tuple(sorted(powers.items()))
    if unit and parser.at("number"):
        return Compound((Unit(unit, (node,)), parser.product()))
    return Unit(unit, (node,)) if unit else node


def _in_base(parser: Parser, node: Node, base: Token) -> Node:
    text = str(NUMBER_WORDS.get(base.text.lower(), base.text))
    if node.kind != "num" or not text.isdigit():
        raise ParseError("unreadable base")
    return Base((str(node.value), int(text)), (node,))


def _unit_words(parser: Parser, powers: dict[str, int], direction: int) -> None:
    """Read cm^2, square feet, miles per hour, m/s: each word with its exponent."""
    prefix = 1
    while parser.at("word") and (parser.at_unit() or direction < 0):
        word = parser.take().text
        lower = word.lower()
        if lower == "per" and parser.accept("word", "cent"):
            powers["percent"] = 1
            continue
        if lower in ("square", "sq", "cubic", "cu"):
            prefix = 3 if lower.startswith("cu") else 2
            continue
        if lower in ("per", "an") or lower in GENERIC:
            direction = -1 if lower == "per" else direction
            if lower in GENERIC:
                _unit_exponent(parser, prefix)
            continue
        name = unit_name(word)
        powers[name] = powers.get(name, 0) + direction * _unit_exponent(parser, prefix)
        prefix = 1
        if parser.at("sign", "/") and parser.peek(1).kind == "word":
            parser.take()
            _unit_words(parser, powers, -1)


def _unit_exponent(parser: Parser, prefix: int) -> int:
    if parser.accept("word", "squared", "cubed"):
        return 2 if parser.tokens[parser.position - 1].text == "squared" else 3
    if not parser.at("sign", "^"):
        return prefix
    parser.take()
    exponent = parser.signed_exponent() if not parser.at("sign", "{") else parser.argument()
    value = exponent.args[0].value if exponent.kind == "neg" else exponent.value
    if not isinstance(value, Fraction) or value.denominator != 1 or value > 9:
        raise ParseError("unreadable unit")
    return -int(value) if exponent.kind == "neg" else int(value)
