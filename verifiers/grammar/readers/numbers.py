"""Numbers: literals, recurring decimals, mixed numbers, digits to another base."""

from fractions import Fraction

from verifiers.grammar.lexer import Token
from verifiers.grammar.literals import continued, read_literal, whole_number
from verifiers.grammar.parser import Parser
from verifiers.grammar.readers.names import subscript
from verifiers.grammar.tree import Base, Node, ParseError, num
from verifiers.grammar.vocabulary import NUMBER_WORDS

DOTS = ("ldots", "dots", "cdots")


def read_number(parser: Parser, token: Token) -> Node:
    node = read_literal(token.text)
    if "." in token.text and parser.accept("command", *DOTS):
        return continued(token.text, node)
    if parser.at("sign", "_"):
        return in_base(parser, node)
    return _mixed(parser, node)


def in_base(parser: Parser, node: Node) -> Node:
    """Read digits with their base as a subscript: 101_2, 1F_{16}, 77_{eight}."""
    parser.take()
    base = subscript(parser).strip("()").removeprefix("base")
    base = str(NUMBER_WORDS.get(base, base))
    value = node.value
    if not base.isascii() or not base.isdigit() or not isinstance(value, Fraction):
        raise ParseError("unreadable base")
    return Base((str(value), int(base)) if base != "10" else None, (node,))


def _mixed(parser: Parser, node: Node) -> Node:
    """Read 2\\frac58 and 1 1/2 as sums, not products."""
    start = parser.position
    whole = whole_number(node)
    if whole is None or node.digits:
        return node
    top, bottom = map(whole_number, _fraction_parts(parser))
    if top is None or not bottom:
        parser.position = start
        return node
    return num(whole + Fraction(top, bottom))


def _fraction_parts(parser: Parser) -> tuple[Node, Node]:
    """Return the two parts of a fraction that stands right after a whole number."""
    if parser.accept("command", "frac"):
        return parser.argument(), parser.argument()
    following = parser.peek(1).text == "/" and parser.peek(2).kind == "number"
    if parser.at("number") and parser.peek().spaced and following:
        top, bottom = parser.take(), parser.peek(1)
        parser.position += 2
        return read_literal(top.text), read_literal(bottom.text)
    return num(0), num(0)
