"""Functions with their arguments: sines, logarithms, roots, fractions, sums."""

from verifiers.grammar.cursor import Cursor
from verifiers.grammar.literals import read_literal
from verifiers.grammar.tree import Node, ParseError, num
from verifiers.grammar.vocabulary import FUNCTIONS, GREEK, INVERSES, LISTED_FUNCTIONS

MAX_EVENT = 12


class FunctionReader(Cursor):
    """The level below atoms: what follows the name of a function."""

    def function(self, name: str) -> Node:
        if name == "sqrt":
            return self._root()
        function = FUNCTIONS[name]
        base: Node | None = None
        exponent: Node | None = None
        if function == "log" and self.accept("sign", "_"):
            base = self._log_base()
        if self.accept("sign", "^"):
            exponent = self.argument()
            if exponent in (num(-1), Node("neg", None, (num(1),))) and function in INVERSES:
                function, exponent = INVERSES[function], None
        if function == "log" and base is None and self.accept("sign", "_"):
            base = self._log_base()
        argument = self._function_argument()
        args = (argument,) if base is None else (argument, base)
        unknown_part = function in ("re", "im") and argument.symbols()
        node = Node("opaque" if unknown_part else "call", function, args)
        return node if exponent is None else Node("pow", None, (node, exponent))

    def _function_argument(self) -> Node:
        """A bracket, or the factors up to the next sign: sin 2x cos x is (sin 2x)(cos x)."""
        if self.at("sign", "{"):
            return self.power()
        if self.at("sign", "(", "["):
            inside = self.atom()
            squared = self.at("sign", "^") and not self._at_degrees()
            return inside if squared else self.postfixed(inside)  # sin(x)^2 is (sin x)^2
        factors = [self.power()]
        while self._continues_argument():
            factors.append(self.power())
        return factors[0] if len(factors) == 1 else Node("mul", None, tuple(factors))

    def _log_base(self) -> Node:
        """log_10 5 has the base 10; log_25 is what LaTeX shows as the log of 5 to the base 2."""
        token, following = self.peek(), self.peek(1)
        argument_follows = following.kind in ("number", "word", "command") or following.text in (
            "(",
            "{",
            "[",
        )
        if token.kind == "number" and token.text.isdigit() and argument_follows:
            return read_literal(self.take().text)
        return self.argument()

    def _at_degrees(self) -> bool:
        braced = self.peek(1).text == "{"
        return self.peek(1 + braced).text in ("circ", "degree")

    def _continues_argument(self) -> bool:
        token = self.peek()
        if token.text_mode or token.text in FUNCTIONS:
            return False
        if token.kind == "word":
            return len(token.text) <= 3 and token.text not in ("and", "or", "U")
        return token.kind == "command" and token.text in GREEK | {"pi", "sqrt", "frac"}

    def _root(self) -> Node:
        index: Node = num(2)
        if self.accept("sign", "["):
            index = self.closed("]")
        token = self.peek()
        radicand = self.atom() if token.kind == "number" else self.argument()
        return Node("call", "root", (radicand, index))

    def listed(self, name: str) -> Node:
        opening = self.take()
        if opening.text not in ("(", "{"):
            self.position -= 1
            return self.operator(name)
        inside = self.answer()
        if self.take().text not in (")", "}"):
            raise ParseError("argument list not closed")
        args = inside.args if inside.kind == "list" else (inside,)
        return Node("call", LISTED_FUNCTIONS[name], args)

    def operator(self, name: str) -> Node:
        """det A, max f: the name of a quantity that is never evaluated."""
        under = (self.argument(),) if self.accept("sign", "_") else ()
        return Node("opaque", name, (self._function_argument(), *under))

    def norm(self, closing: str) -> Node:
        self.open_bars += 1
        inside = self.sum()
        self.open_bars -= 1
        self.expect("command", closing)
        return Node("opaque", "norm", (inside,))

    def big(self, name: str) -> Node:
        """A sum, product, integral or limit: kept as it stands, never evaluated."""
        limits = []
        while self.at("sign", "_") or self.at("sign", "^"):
            self.take()
            self.in_limits = True
            limits.append(self.argument())
            self.in_limits = False
        return Node("big", name, (*limits, self.sum()))

    def fraction(self) -> Node:
        return Node("div", None, (self.argument(), self.argument()))

    def binomial(self) -> Node:
        return Node("call", "binom", (self.argument(), self.argument()))

    def rounded(self, name: str, closing: str) -> Node:
        inside = self.sum()
        self.expect("command", closing)
        return Node("call", name, (inside,))

    def overlined(self) -> Node:
        inside = self.argument()
        if inside.kind == "mul":
            digits = [str(part.value) for part in inside.args if part.kind in ("sym", "num")]
            number = len(digits) == len(inside.args) and not "".join(digits).isupper()
            return Node("sym", " ".join(["digits", *digits])) if number else inside
        if inside.kind == "sym" and self.at("sign", "_"):
            inside = self.subscripted(str(inside.value))
        return Node("opaque" if inside.symbols() else "call", "conj", (inside,))

    def dotted(self, dots: str) -> Node:
        """A derivative by the time is a name of its own, whether x or x_0 carries the dot."""
        inside = self.argument()
        if inside.kind != "sym":
            raise ParseError("dot over an expression")
        name, mark, index = str(inside.value).partition("_")
        return (
            self.subscripted(f"{name} {dots}")
            if not mark
            else Node("sym", f"{name} {dots}_{index}")
        )

    def event(self) -> Node | None:
        """The events of P(A | B), which are named and not computed with."""
        ahead = [token.text for token in self.tokens[self.position : self.position + MAX_EVENT]]
        end = ahead.index(")") if ")" in ahead else 0
        event = ["|" if text == "mid" else text for text in ahead[:end]]
        if "|" not in event or "(" in event:
            return None
        self.position += end + 1
        return Node("sym", " ".join(event))
