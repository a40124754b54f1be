"""Read names: letters with subscripts and primes, applied names like f(x), plain words."""

from verifiers.grammar import vocabulary
from verifiers.grammar.lexer import Token
from verifiers.grammar.parser import END, Parser
from verifiers.grammar.tree import Node, ParseError, num, sym

CONSTANTS = {"e": "e", "i": "i", "pi": "pi", "infinity": "inf", "oo": "inf", "inf": "inf"}
APPLIED_NAMES = set("fghFGHPQ")
LONGEST_RUN = 3  # of letters that are multiplied: xy, abc


def read_word(parser: Parser, token: Token) -> Node:
    """Read a function, a constant, a number, letters that are multiplied, or plain words."""
    word = token.text
    if word in vocabulary.FUNCTIONS or word == "sqrt":
        return parser.atoms["function"](parser, token)
    if word in vocabulary.LISTED_FUNCTIONS or word == "det" or _is_code(parser, word):
        return parser.atoms["command"](parser, token)
    if word.lower() in vocabulary.FILLERS and parser.peek() is not END:
        return parser.power()
    if word in CONSTANTS and not (len(word) == 1 and token.text_mode):
        named = parser.at("sign", "_")
        return subscripted(parser, word) if named else Node("const", (), CONSTANTS[word])
    if word.lower() in vocabulary.NUMBER_WORDS:
        return num(_spelled_number(parser, vocabulary.NUMBER_WORDS[word.lower()]))
    if len(word) == 1 and word.isascii():
        return read_letter(parser, token)
    if (
        token.text_mode
        or not word.isascii()
        or len(word) > LONGEST_RUN
        or word.lower() in vocabulary.SHORT_WORDS
    ):
        words = [word]
        while parser.at("word") and not parser.connective() and not parser.at("word", "except"):
            words.append(parser.take().text)
        return Node("text", (), " ".join(words))
    parser.position -= 1
    letter = parser.take_first()
    return Node("const", (), CONSTANTS[letter]) if letter in CONSTANTS else sym(letter)


def _is_code(parser: Parser, word: str) -> bool:
    """Return whether a word is the name of a function in code, with its bracket: abs(x)."""
    return word in vocabulary.CODE_FUNCTIONS and parser.at("sign", "(")


def _spelled_number(parser: Parser, value: int) -> int:
    """Return the value of a number word with the ones that follow it: twenty-one, twenty one."""
    ahead = 1 if parser.at("sign", "-") else 0
    ones = vocabulary.NUMBER_WORDS.get(parser.peek(ahead).text.lower(), 0)
    if value < 20 or value % 10 or not 0 < ones < 10:
        return value
    parser.position += ahead + 1
    return value + ones


def read_letter(parser: Parser, token: Token) -> Node:
    """Read a variable or a constant of one letter, with what belongs to it: x_1, x', f(x)."""
    letter = token.text
    if letter in CONSTANTS and not parser.at("sign", "_"):
        return Node("const", (), CONSTANTS[letter])
    node = subscripted(parser, letter)
    while parser.accept("sign", "'"):
        node = sym(f"{node.value}'")
    return applied(parser, node)


def subscripted(parser: Parser, name: str) -> Node:
    """Return the symbol of a name, with its subscript if one follows."""
    return sym(f"{name}_{subscript(parser)}" if parser.accept("sign", "_") else name)


def subscript(parser: Parser) -> str:
    """Return a subscript as text, because it names things and is not computed with."""
    if not parser.accept("sign", "{"):
        token = parser.peek()
        if token.kind == "word" and len(token.text) > 1 and not token.text_mode:
            return parser.take_first()
        return parser.take().text
    depth = 1
    parts = []
    while depth:
        token = parser.take()
        if token is END:
            raise ParseError("unclosed subscript")
        depth += {"{": 1, "}": -1}.get(token.text, 0) if token.kind == "sign" else 0
        parts.append(token.text)
    return "".join(parts[:-1])


def applied(parser: Parser, node: Node) -> Node:
    """Read the argument of f(x) or I(0), whose bracket is not a factor of a product."""
    if not parser.at("sign", "(") or parser.peek().spaced:
        return node
    name = node.value
    holds_number = parser.peek(1).kind == "number" and parser.peek(2).text == ")"
    if name[0] not in APPLIED_NAMES and not (holds_number and name[0].isupper()):
        return node
    parser.take()
    outer = parser.in_builder
    parser.in_builder = name == "P"
    argument = parser.answer()
    parser.in_builder = outer
    if parser.accept("sign", "|") or parser.accept("command", "mid"):  # P(A | B)
        argument = Node("ratio", (argument, parser.answer()))
    parser.expect("sign", ")")
    return Node("opaque", (argument,), name)
