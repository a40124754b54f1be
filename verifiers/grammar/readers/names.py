"""Names: letters with subscripts and primes, applied names like f(x), events, plain words."""

from verifiers.grammar.cursor import END
from verifiers.grammar.lexer import Token
from verifiers.grammar.parser import Parser
from verifiers.grammar.tree import Const, Node, Opaque, ParseError, SetName, Sym

CONSTANTS = {"e": "e", "i": "i", "pi": "pi", "infinity": "inf", "oo": "inf", "inf": "inf"}
APPLIED_NAMES = set("fghFGHPQ")
MAX_EVENT = 12


def read_letter(parser: Parser, token: Token) -> Node:
    """Return a variable or a constant of one letter, with what belongs to it: x_1, x', f(x)."""
    letter = token.text
    if letter in CONSTANTS and not parser.at("sign", "_"):
        return Const(CONSTANTS[letter])
    node = subscripted(parser, letter)
    while parser.accept("sign", "'"):
        node = Sym(f"{node.value}'")
    return applied(parser, node)


def letter_of_run(letter: str) -> Node:
    """Return a letter with another one right behind it, as in xy."""
    return Const(CONSTANTS[letter]) if letter in CONSTANTS else Sym(letter)


def read_set_name(parser: Parser, token: Token) -> Node:
    return SetName(token.text)


def subscripted(parser: Parser, name: str) -> Node:
    return Sym(f"{name}_{subscript(parser)}" if parser.accept("sign", "_") else name)


def subscript(parser: Parser) -> str:
    """Return the subscript as text; a subscript names things and is not computed with."""
    if not parser.accept("sign", "{"):
        token = parser.peek()
        if token.kind == "word" and len(token.text) > 1 and not token.text_mode:
            return parser.take_first()
        return parser.take().text
    depth, parts = 1, []
    while depth:
        token = parser.take()
        if token is END:
            raise ParseError("unclosed subscript")
        depth += {"{": 1, "}": -1}.get(token.text, 0) if token.kind == "sign" else 0
        parts.append(token.text)
    return "".join(parts[:-1])


def applied(parser: Parser, node: Node) -> Node:
    """Read f(x), I(0): a name applied to an argument rather than a product."""
    if not parser.at("sign", "(") or parser.peek().spaced:
        return node
    inner = parser.peek(1)
    number_only = inner.kind == "number" and parser.peek(2).text == ")"
    name = str(node.value)
    if name[0] not in APPLIED_NAMES and not (number_only and name[0].isupper()):
        return node
    parser.take()
    inside = _event(parser) if name == "P" else None
    return Opaque(name, (inside or parser.closed(")"),))


def _event(parser: Parser) -> Node | None:
    """Return the events of P(A | B), which are named and not computed with."""
    start = parser.position
    ahead = [token.text for token in parser.tokens[start : start + MAX_EVENT]]
    end = ahead.index(")") if ")" in ahead else 0
    event = ["|" if text == "mid" else text for text in ahead[:end]]
    if "|" not in event or "(" in event:
        return None
    parser.position += end + 1
    return Sym(" ".join(event))
