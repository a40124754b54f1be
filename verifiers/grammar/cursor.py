"""The position in a token list, and the levels of the grammar that call each other."""

from verifiers.grammar.lexer import Token
from verifiers.grammar.tree import Node, ParseError

END = Token("end_of_text", "")


class Cursor:
    """What every level of the parser shares."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self.depth = 0
        self.open_bars = 0
        self.in_builder = False
        self.in_limits = False

    def peek(self, ahead: int = 0) -> Token:
        index = self.position + ahead
        return self.tokens[index] if index < len(self.tokens) else END

    def take(self) -> Token:
        token = self.peek()
        self.position += 1
        return token

    def at(self, kind: str, *texts: str) -> bool:
        token = self.peek()
        return token.kind == kind and (not texts or token.text in texts)

    def accept(self, kind: str, *texts: str) -> bool:
        found = self.at(kind, *texts)
        self.position += found
        return found

    def expect(self, kind: str, text: str) -> None:
        if not self.accept(kind, text):
            raise ParseError(f"{text!r} expected")

    def answer(self) -> Node:
        raise NotImplementedError

    def sum(self) -> Node:
        raise NotImplementedError

    def power(self) -> Node:
        raise NotImplementedError

    def atom(self) -> Node:
        raise NotImplementedError

    def postfixed(self, node: Node) -> Node:
        raise NotImplementedError

    def argument(self) -> Node:
        raise NotImplementedError

    def subscripted(self, name: str) -> Node:
        raise NotImplementedError

    def closed(self, closing: str) -> Node:
        """A list up to a closing bracket."""
        node = self.answer()
        self.expect("sign", closing)
        return node
