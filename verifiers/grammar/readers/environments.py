"""What stands between \\begin and \\end: matrices, and equations below each other."""

from verifiers.grammar.cursor import END
from verifiers.grammar.lexer import Token
from verifiers.grammar.parser import Parser
from verifiers.grammar.tree import List, Matrix, Node, ParseError, Set, Tuple
from verifiers.grammar.vocabulary import MATRICES, RELATIONS, SYSTEMS


def read_environment(parser: Parser, token: Token) -> Node:
    if token.text in SYSTEMS or _holds_relation(parser, token.text):
        return _system(parser, token.text)
    if token.text not in MATRICES or token.text in ("vmatrix", "Vmatrix"):
        raise ParseError("unknown environment")
    rows: list[list[Node]] = [[]]
    while not parser.at("end", token.text):
        rows[-1].append(parser.sum())
        if parser.accept("command", "\\"):
            parser.accept("command", "\\")  # escaped twice
            rows.append([])
        elif not parser.accept("sign", "&") and not parser.at("end", token.text):
            raise ParseError("unreadable matrix")
    parser.take()
    if not rows[-1]:
        rows.pop()
    width = len(rows[0]) if rows else 0
    if not width or any(len(row) != width for row in rows):
        raise ParseError("ragged matrix")
    if len(rows) == width == 1:
        return rows[0][0]
    return Matrix((len(rows), width), tuple(cell for row in rows for cell in row))


def _holds_relation(parser: Parser, environment: str) -> bool:
    """Return whether an array is a column of equations rather than a matrix."""
    for token in parser.tokens[parser.position :] if environment == "array" else ():
        if token.kind == "end" and token.text == environment:
            return False
        if token.kind == "sign" and token.text == "=":
            return True
    return False


def _system(parser: Parser, environment: str) -> Node:
    """Read equations below each other as a list, rows of value and condition as a set of pairs."""
    rows = []
    while not parser.at("end", environment):
        if parser.peek() is END:
            raise ParseError("environment not closed")
        rows.append(_system_row(parser, environment))
        if not parser.accept("command", "\\") and not parser.at("end", environment):
            raise ParseError("unreadable row")
    parser.take()
    if len(rows) == 1:
        return rows[0]
    if any(row.kind == "list" for row in rows):
        return Set(tuple(Tuple("()", row.args) for row in rows))
    return List(",", tuple(rows))


def _system_row(parser: Parser, environment: str) -> Node:
    """Return one row, without the marks that only align its relation sign."""
    start = ahead = parser.position
    kept = []
    while ahead < len(parser.tokens):
        token = parser.tokens[ahead]
        if token.kind == "end" or (token.kind == "command" and token.text == "\\"):
            break
        following = parser.tokens[ahead + 1] if ahead + 1 < len(parser.tokens) else END
        aligns = following.text in RELATIONS or environment != "cases"
        if not (token.kind == "sign" and token.text == "&" and aligns):
            kept.append(token)
        ahead += 1
    parser.tokens[start:ahead] = kept
    return parser.answer()
