"""What stands between \\begin and \\end: matrices, and equations below each other."""

from verifiers.grammar.cursor import END
from verifiers.grammar.functions import FunctionReader
from verifiers.grammar.lexer import Token
from verifiers.grammar.tree import Node, ParseError
from verifiers.grammar.vocabulary import MATRICES, RELATIONS, SYSTEMS


class EnvironmentReader(FunctionReader):
    """The environments of LaTeX."""

    def environment(self, token: Token) -> Node:
        if token.text in SYSTEMS or self._holds_relation(token.text):
            return self._system(token.text)
        if token.text not in MATRICES or token.text in ("vmatrix", "Vmatrix"):
            raise ParseError("unknown environment")
        rows: list[list[Node]] = [[]]
        while not self.at("end", token.text):
            rows[-1].append(self.sum())
            if self.accept("command", "\\"):
                self.accept("command", "\\")  # escaped twice
                rows.append([])
            elif not self.accept("sign", "&") and not self.at("end", token.text):
                raise ParseError("unreadable matrix")
        self.take()
        if not rows[-1]:
            rows.pop()
        width = len(rows[0]) if rows else 0
        if not width or any(len(row) != width for row in rows):
            raise ParseError("ragged matrix")
        if len(rows) == width == 1:
            return rows[0][0]
        return Node("matrix", (len(rows), width), tuple(cell for row in rows for cell in row))

    def _holds_relation(self, environment: str) -> bool:
        """Whether an array is a column of equations rather than a matrix."""
        ahead = self.position
        while ahead < len(self.tokens):
            token = self.tokens[ahead]
            if token.kind == "end" and token.text == environment:
                return False
            if token.kind == "sign" and token.text == "=":
                return environment == "array"
            ahead += 1
        return False

    def _system(self, environment: str) -> Node:
        """Equations below each other are a list; rows of value and condition are a set of pairs."""
        rows = []
        while not self.at("end", environment):
            if self.peek() is END:
                raise ParseError("environment not closed")
            row = self._system_row(environment)
            rows.append(row)
            if not self.accept("command", "\\") and not self.at("end", environment):
                raise ParseError("unreadable row")
        self.take()
        if len(rows) == 1:
            return rows[0]
        if any(row.kind == "list" for row in rows):
            return Node("set", None, tuple(Node("tuple", "()", row.args) for row in rows))
        return Node("list", ",", tuple(rows))

    def _system_row(self, environment: str) -> Node:
        """One row, without the marks that only align its relation sign."""
        start = ahead = self.position
        kept = []
        while ahead < len(self.tokens):
            token = self.tokens[ahead]
            if token.kind == "end" or (token.kind == "command" and token.text == "\\"):
                break
            following = self.tokens[ahead + 1] if ahead + 1 < len(self.tokens) else END
            aligns = following.text in RELATIONS or environment != "cases"
            if not (token.kind == "sign" and token.text == "&" and aligns):
                kept.append(token)
            ahead += 1
        self.tokens[start:ahead] = kept
        return self.answer()

    def drop_braces(self) -> None:
        """\\{ {x | x > 1} \\} is \\{x | x > 1\\}."""
        depth = 0
        for index in range(self.position, len(self.tokens)):
            token = self.tokens[index]
            depth += {"{": 1, "}": -1}.get(token.text, 0) if token.kind == "sign" else 0
            if depth <= 0:
                following = self.tokens[index + 1 : index + 2]
                if index > self.position and following and following[0].text in ("}", "rbrace"):
                    del self.tokens[index], self.tokens[self.position]
                return
