"""Read brackets of every kind, and environments between \\begin and \\end."""

from itertools import pairwise

from verifiers.grammar.lexer import Token
from verifiers.grammar.parser import END, Parser
from verifiers.grammar.readers.quantities import in_base
from verifiers.grammar.tree import Node, ParseError, call
from verifiers.grammar.vocabulary import CONDITION_WORDS, MATRICES, RELATIONS, SYSTEMS

CLOSING_OF = {"(": ")", "[": "]"}


def read_sign(parser: Parser, token: Token) -> Node:
    """Read what an opening bracket, brace or bar holds."""
    if token.text in CLOSING_OF:
        return _bracketed(parser, token.text)
    if token.text == "{":
        if parser.accept("sign", "}"):
            return Node("empty")
        node = parser.closed("}")
        if node.kind == "list":
            return Node("set", node.args)
        return in_base(parser, node) if node.kind == "num" and parser.at("sign", "_") else node
    if token.text == "|":
        return call("abs", between_bars(parser, "sign", "|"))
    raise ParseError(f"unexpected {token.text!r}")


def _bracketed(parser: Parser, opening: str) -> Node:
    """Read a tuple, an interval or a bracket around one expression."""
    outer = parser.open_bars, parser.in_builder
    parser.open_bars, parser.in_builder = 0, False
    content = parser.answer()
    parser.open_bars, parser.in_builder = outer
    closing = parser.take().text
    if closing not in (")", "]"):
        raise ParseError("bracket not closed")
    if content.kind == "list" and content.value == ",":
        return Node("tuple", content.args, opening + closing)
    if closing != CLOSING_OF[opening]:
        raise ParseError("brackets do not match")
    if content.kind == "num" and parser.at("sign", "_"):
        return in_base(parser, content)
    return content


def between_bars(parser: Parser, kind: str, closing: str) -> Node:
    """Read a sum up to the closing bar. No other bar opens inside."""
    parser.open_bars += 1
    content = parser.set_expression()
    parser.open_bars -= 1
    parser.expect(kind, closing)
    return content


def read_braced_set(parser: Parser, token: Token) -> Node:
    """Read the members or the condition of a set, after \\{."""
    if parser.accept("command", "}", "rbrace"):
        return Node("empty")
    outer = parser.open_bars, parser.in_builder
    parser.open_bars, parser.in_builder = 0, True
    content = parser.answer()
    if parser.accept("sign", "|", ":") or parser.accept("command", "mid", "colon", "vert"):
        parser.in_builder = False
        content = Node("builder", (content, parser.answer()))
    parser.open_bars, parser.in_builder = outer
    if not parser.accept("command", "}", "rbrace"):
        if parser.peek(-1).kind == "end":  # a brace before a system is never closed
            return content
        raise ParseError("set not closed")
    if content.kind == "builder":
        return content
    return Node("set", content.args if content.kind == "list" else (content,))


def read_environment(parser: Parser, token: Token) -> Node:
    """Read a matrix row by row, or equations below each other as a list."""
    name = token.text
    ahead = parser.tokens[parser.position :]
    first = next((mark.text for mark in ahead if mark.kind == "end" or mark.text == "="), "")
    if name in SYSTEMS or (name == "array" and first == "="):  # a column of equations
        return _system(parser, name)
    if name not in MATRICES or name in ("vmatrix", "Vmatrix"):
        raise ParseError("unknown environment")
    rows: list[list[Node]] = [[]]
    while not parser.at("end", name):
        rows[-1].append(parser.sum())
        if parser.accept("command", "\\"):
            parser.accept("command", "\\")  # escaped twice
            rows.append([])
        elif not parser.accept("sign", "&") and not parser.at("end", name):
            raise ParseError("unreadable matrix")
    parser.take()
    if not rows[-1]:
        rows.pop()
    width = len(rows[0]) if rows else 0
    if not width or any(len(row) != width for row in rows):
        raise ParseError("ragged matrix")
    if len(rows) == width == 1:
        return rows[0][0]
    return Node("matrix", tuple(cell for row in rows for cell in row), (len(rows), width))


def _system(parser: Parser, name: str) -> Node:
    """Read one equation a row. The & before a relation sign only aligns it."""
    rows = []
    while not parser.at("end", name):
        start = end = parser.position
        while parser.tokens[end].kind not in ("end", END.kind) and parser.tokens[end].text != "\\":
            end += 1
        row = [*parser.tokens[start:end], END]
        parser.tokens[start:end] = [
            token
            for token, following in pairwise(row)
            if (token.text != "&" or (following.text not in RELATIONS and name == "cases"))
            and token.text.lower() not in CONDITION_WORDS
        ]
        rows.append(parser.answer())
        if not parser.accept("command", "\\") and not parser.at("end", name):
            raise ParseError("unreadable row")
    parser.take()
    if len(rows) == 1:
        return rows[0]
    if any(row.kind == "list" for row in rows):  # of a value and its condition
        return Node("set", tuple(Node("tuple", row.args, "()") for row in rows))
    return Node("list", tuple(rows), ",")
