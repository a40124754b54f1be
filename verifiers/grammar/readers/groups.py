"""Brackets of every kind: groups, tuples and intervals, sets, absolute values."""

from verifiers.grammar.lexer import Token
from verifiers.grammar.parser import Parser
from verifiers.grammar.readers.numbers import in_base
from verifiers.grammar.tree import Builder, Call, Empty, Node, ParseError, Set, Tuple

OPENERS = {"(": ")", "[": "]"}


def read_sign(parser: Parser, token: Token) -> Node:
    sign = token.text
    if sign in OPENERS:
        return _bracketed(parser, sign)
    if sign == "{" and parser.accept("sign", "}"):
        return Empty()
    if sign == "{":
        node = parser.closed("}")
        if node.kind == "list":
            return Set(node.args)
        return in_base(parser, node) if node.kind == "num" and parser.at("sign", "_") else node
    if sign == "|":
        return _absolute(parser, "sign", "|")
    raise ParseError(f"unexpected {sign!r}")


def _bracketed(parser: Parser, opening: str) -> Node:
    outer = parser.open_bars, parser.in_builder
    parser.open_bars, parser.in_builder = 0, False
    inside = parser.answer()
    parser.open_bars, parser.in_builder = outer
    closing = parser.take().text
    if closing not in (")", "]"):
        raise ParseError("bracket not closed")
    if inside.kind == "list" and inside.value == ",":
        return Tuple(opening + closing, inside.args)
    if closing != OPENERS[opening]:
        raise ParseError("brackets do not match")
    if inside.kind == "num" and parser.at("sign", "_"):
        return in_base(parser, inside)
    return inside


def read_absolute(parser: Parser, token: Token) -> Node:
    """Return what stands between \\left| and \\right|."""
    return _absolute(parser, "command", "rvert")


def _absolute(parser: Parser, kind: str, closing: str) -> Node:
    return Call("abs", (between_bars(parser, kind, closing),))


def between_bars(parser: Parser, kind: str, closing: str) -> Node:
    """Return a sum up to the closing bar, inside which no other bar opens."""
    parser.open_bars += 1
    inside = parser.sum()
    parser.open_bars -= 1
    parser.expect(kind, closing)
    return inside


def read_angled(parser: Parser, token: Token) -> Node:
    inside = parser.answer()
    parser.expect("command", "rangle")
    return Tuple("<>", inside.args if inside.kind == "list" else (inside,))


def read_set(parser: Parser, token: Token) -> Node:
    """Return a set by its members or by a condition, after \\{."""
    if parser.accept("command", "}", "rbrace"):
        return Empty()
    _drop_braces(parser)
    outer = parser.open_bars, parser.in_builder
    parser.open_bars, parser.in_builder = 0, True
    inside = parser.answer()
    if parser.accept("sign", "|", ":") or parser.accept("command", "mid", "colon", "vert"):
        parser.in_builder = False
        inside = Builder((inside, parser.answer()))
    parser.open_bars, parser.in_builder = outer
    if not parser.accept("command", "}", "rbrace"):
        if parser.peek(-1).kind == "end":  # a brace before a system is never closed
            return inside
        raise ParseError("set not closed")
    if inside.kind == "builder":
        return inside
    return Set(inside.args if inside.kind == "list" else (inside,))


def _drop_braces(parser: Parser) -> None:
    """Read \\{ {x | x > 1} \\} as \\{x | x > 1\\}."""
    depth = 0
    tokens = parser.tokens
    for index in range(parser.position, len(tokens)):
        token = tokens[index]
        depth += {"{": 1, "}": -1}.get(token.text, 0) if token.kind == "sign" else 0
        if depth <= 0:
            following = tokens[index + 1 : index + 2]
            if index > parser.position and following and following[0].text in ("}", "rbrace"):
                del tokens[index], tokens[parser.position]
            return
