"""The levels of the grammar, outermost first: lists, relations, sets, sums, products, powers."""

from collections.abc import Callable, Mapping

from verifiers.grammar.lexer import Token
from verifiers.grammar.tree import Node, ParseError, TooLargeError, call, neg, num, product_of
from verifiers.grammar.units import currency_of, is_unit
from verifiers.grammar.vocabulary import CONNECTIVES, NOT_FACTORS, NOT_UNITS, REAL_WORDS, RELATIONS

MAX_DEPTH = 50
MAX_POSTFIXES = 8
MAX_SIGNS = 6  # each ± doubles what there is to compare
END = Token("end_of_text", "")
FARTHEST_PEEK = 4
SET_OPERATORS = {"cup": "union", "cap": "inter", "setminus": "diff", "backslash": "diff"}
NUMBERS = ("num", "neg", "div", "const", "call")
LEFT_OF_EXCEPT = ("text", "setname", "tuple", "union")
CLOSERS = (")", "]", "}", "rbrace")
DEGREES = ("circ", "degree")
DIFFERENTIALS = ("d", "\\partial")


class Parser:
    """Recursive descent over tokens, one method a level of precedence, with a depth limit.

    `atoms`: readers of atoms by the kind of their first token, which is taken already.
    `read_unit`: reads the unit words after a quantity. `open_bars`: how many | wait for their
    partner. `in_builder`: inside {x | ...}, where | and : separate. `in_limits`: below a sum or a
    limit, where an arrow may stand.
    """

    def __init__(
        self,
        tokens: list[Token],
        atoms: Mapping[str, Callable[["Parser", Token], Node]],
        read_unit: Callable[["Parser", Node], Node],
    ) -> None:
        self.tokens = [*tokens, *[END] * FARTHEST_PEEK]
        self.atoms = atoms
        self.read_unit = read_unit
        self.position = 0
        self.depth = 0
        self.open_bars = 0
        self.in_builder = False
        self.in_limits = False

    def peek(self, ahead: int = 0) -> Token:
        """Return a token without taking it; past the last one stands END."""
        return self.tokens[self.position + ahead]

    def take(self) -> Token:
        token = self.tokens[self.position]
        self.position += token is not END
        return token

    def take_first(self) -> str:
        """Take the first character of the token that stands here and leave the rest."""
        token = self.peek()
        self.tokens[self.position] = Token(token.kind, token.text[1:])
        return token.text[0]

    def at(self, kind: str, *texts: str) -> bool:
        token = self.tokens[self.position]
        return token.kind == kind and (not texts or token.text in texts)

    def accept(self, kind: str, *texts: str) -> bool:
        token = self.tokens[self.position]
        if token.kind != kind or (texts and token.text not in texts):
            return False
        self.position += 1
        return True

    def expect(self, kind: str, text: str) -> None:
        if not self.accept(kind, text):
            raise ParseError(f"{text!r} expected")

    def at_unit(self) -> bool:
        token = self.peek()
        return token.kind == "word" and is_unit(token, self.peek(1))

    def answer(self) -> Node:
        """Return a comma list, "a or b", or a single item."""
        items = [self.relation()]
        connective = ""
        while separator := self._separator():
            if separator != ",":
                connective = separator
            if self.peek() is END or self.peek().text in CLOSERS:
                break
            items.append(self.relation())
        return items[0] if len(items) == 1 else Node("list", tuple(items), connective or ",")

    def _separator(self) -> str:
        """Take the separators that stand here; the strongest of them, or nothing."""
        strongest = ""
        while True:
            token = self.peek()
            word = token.text.lower() if token.kind in ("word", "command") else ""
            if token.kind == "sign" and token.text in (",", ";", "&"):
                strongest = strongest or ("and" if token.text == "&" else ",")
            elif token.kind == "command" and token.text == "\\" and self.depth == 0:
                strongest = strongest or ","
            elif word in CONNECTIVES:
                strongest = CONNECTIVES[word]
            elif token.kind == "command" and word in ("cup", "cap"):
                strongest = "or" if word == "cup" else "and"
            else:
                return strongest
            self.take()

    def relation(self) -> Node:
        if self.at("sign", "=") or self.at("command", "approx"):
            self.take()
        operands, operators = [self.ratio()], []
        while self.peek().kind in ("sign", "command") and self.peek().text in RELATIONS:
            operators.append(RELATIONS[self.take().text])
            operands.append(self.ratio())
        if self.accept("command", "pmod"):
            operands[-1] = Node("mod", (operands[-1], self.argument()))
        return Node("rel", tuple(operands), tuple(operators)) if operators else operands[0]

    def ratio(self) -> Node:
        terms = [self.set_expression()]
        while not self.in_builder and (
            self.accept("sign", ":")
            or self.accept("command", "colon")
            or self.accept("word", "to")
            or (self.in_limits and self.accept("command", "to", "rightarrow"))
        ):
            terms.append(self.set_expression())
        if len(terms) == 1:
            return terms[0]
        if len(terms) == 2 and terms[1].kind == "clock":
            return Node("clock", (terms[0], terms[1].args[0]), terms[1].value)
        return Node("ratio", tuple(terms))

    def _stacked(self) -> Node:
        """Return a sum, or the old commands that stand between two: {n \\choose k}, {a \\over
        b}."""
        node = self.sum()
        if self.accept("command", "choose"):
            return call("binom", node, self.sum())
        if self.accept("command", "over"):
            return quotient(node, self.sum())
        return node

    def set_expression(self) -> Node:
        node = self._stacked()
        while True:
            token = self.peek()
            if token.kind == "command" and token.text in SET_OPERATORS:
                kind = SET_OPERATORS[token.text]
                if kind != "diff" and node.kind in NUMBERS:
                    return node  # x < 0 ∪ x > 4 joins inequalities
            elif node.kind in LEFT_OF_EXCEPT and self.accept("word", "except"):
                return self._except(node)
            elif token.kind == "word" and token.text == "U" and node.kind in ("tuple", "union"):
                kind = "union"
            else:
                return node
            self.take()
            right = self.sum()
            more = node.kind == kind != "diff"
            node = Node(kind, (*node.args, right) if more else (node, right))

    def _except(self, node: Node) -> Node:
        """Read "all real numbers except 0" and "x = 2"."""
        self.accept("word", "for")
        inside = self.answer()
        items = inside.args if inside.kind == "list" else (inside,)
        points = tuple(item.args[-1] if item.kind == "rel" else item for item in items)
        whole = node if node.kind != "text" else Node("setname", (), "R")
        if node.kind == "text" and node.value.lower() not in REAL_WORDS:
            raise ParseError("exception from words")
        return Node("diff", (whole, Node("set", points)))

    def sum(self) -> Node:
        terms: list[Node] = []
        while True:
            sign = self._signs()
            if not sign and terms:
                break
            term = self.product()
            if sign in ("pm", "mp"):
                before = [Node("add", tuple(terms))] if len(terms) > 1 else terms
                terms = [Node("pm", (*before, term), "+" if sign == "pm" else "-")]
                if sum(part.kind == "pm" for part in terms[0].walk()) > MAX_SIGNS:
                    raise TooLargeError("too many signs")
            else:
                terms.append(neg(term) if sign == "-" else term)
        return terms[0] if len(terms) == 1 else Node("add", tuple(terms))

    def _signs(self) -> str:
        """Return the sign before a term: "", "+", "-", "pm" or "mp"; two minus signs cancel."""
        sign = ""
        while True:
            if self.accept("sign", "+"):
                sign = sign or "+"
            elif self.accept("sign", "-"):
                sign = "+" if sign == "-" else "-"
            elif self.at("command", "pm", "mp"):
                sign = self.take().text
            else:
                return sign

    def product(self) -> Node:
        factors = [self.power()]
        while True:
            if self.accept("sign", "*") or self.accept("command", "cdot", "times", "ast"):
                factors.append(self._signed_power())
            elif self.accept("sign", "/") or self.accept("command", "div"):
                self._divide(factors)
            elif self.at_unit():
                return self.read_unit(self, product_of(factors))
            elif self._starts_factor():
                applied = len(factors) == 1 and factors[0].kind == "sym" and self.at("sign", "(")
                tight = applied and not self.peek().spaced
                factors.append(self.power())
                if tight and factors[-1].kind in ("sym", "tuple") and not self._starts_factor():
                    return Node("mul", tuple(factors), "applied")
            else:
                return product_of(factors)

    def _divide(self, factors: list[Node]) -> None:
        """Read what stands behind a slash: one factor, or both letters of AB/CD and dy/dx."""
        word = self.peek()
        names = len(factors) == 2 and all(node.kind == "sym" for node in factors)
        if not names or word.kind != "word" or len(word.text) != 2:
            factors.append(Node("pow", (self._signed_power(), num(-1))))
        elif word.text.isupper() or factors[0].value == word.text[0] == "d":
            below = product_of([self.power(), self.power()])
            factors[:] = [quotient(product_of(factors), below)]
        else:
            factors.append(Node("pow", (self._signed_power(), num(-1))))

    def _signed_power(self) -> Node:
        sign = self._signs()
        if sign in ("pm", "mp"):
            raise ParseError("sign inside a product")
        node = self.power()
        return neg(node) if sign == "-" else node

    def _starts_factor(self) -> bool:
        token = self.peek()
        if token.kind == "sign":
            return token.text in "([{" or (
                token.text == "|" and not self.open_bars and not self.in_builder
            )
        if token.kind == "word":
            if token.text == "U" and self.peek(1).text in ("(", "["):
                return False
            return token.text.lower() not in NOT_UNITS and token.text != "to"
        if token.kind == "number":
            before, sign = self.tokens[self.position - 1], self.tokens[self.position - 2]
            raised = sign.kind == "sign" and sign.text == "^" and token.spaced
            return before.kind != "number" or raised  # 2^2 3 is a product
        if token.kind == "begin" or token.kind == "setname":
            return token.kind == "begin"
        return token.kind == "command" and token.text not in NOT_FACTORS

    def power(self) -> Node:
        """Return an atom with its exponent and what may follow: factorials, degrees, per cent."""
        if money := currency_of(self.peek()):
            self.take()
            return Node("unit", (self._signed_power(),), ((money, 1),))
        return self.postfixed(self.atom())

    def postfixed(self, node: Node) -> Node:
        for _ in range(MAX_POSTFIXES):
            if self.accept("sign", "^"):
                node = self._raised(node)
            elif self.accept("sign", "!"):
                double = not self.peek().spaced and self.accept("sign", "!")
                node = call("fac2", node) if double else Node("fact", (node,))
            elif self.accept("sign", "%"):
                node = Node("pct", (node,))
            elif self.accept("command", *DEGREES):
                node = Node("deg", (node,))
            elif money := currency_of(self.peek()):
                self.take()
                node = Node("unit", (node,), ((money, 1),))
            else:
                return node
        raise TooLargeError("too many signs after a number")

    def _raised(self, node: Node) -> Node:
        self.depth += 1
        braced = self.at("sign", "{")
        ahead = self.peek(1) if braced else self.peek()
        if ahead.kind == "command" and ahead.text in DEGREES:
            self.position += 3 if braced else 1
            self.depth -= 1
            return Node("deg", (node,))
        exponent = self.signed_exponent() if not braced else self.argument()
        self.depth -= 1
        return Node("pow", (node, exponent))

    def signed_exponent(self) -> Node:
        negative = False
        while self.at("sign", "-", "+"):
            negative ^= self.take().text == "-"
        node = self.atom()
        node = self._raised(node) if self.accept("sign", "^") else node
        return neg(node) if negative else node

    def atom(self) -> Node:
        """Return one number, name, group or function with its argument."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooLargeError("nested too deeply")
        token = self.take()
        reader = self.atoms.get(token.kind)
        if reader is None:
            raise ParseError(f"unexpected {token.text!r}")
        node = reader(self, token)
        self.depth -= 1
        return node

    def argument(self) -> Node:
        """Return what a LaTeX command takes: a group, or a single digit, letter or command."""
        if self.accept("sign", "{"):
            return self.closed("}")
        token = self.peek()
        if token.kind == "number" and len(token.text) > 1 and token.text.isdigit():
            return num(int(self.take_first()))
        if token.kind == "word" and len(token.text) > 1 and not token.text_mode:
            letter = Token("letter", self.take_first())
            return self.atoms["letter"](self, letter)
        return self.atom()

    def closed(self, closing: str) -> Node:
        """Return a list up to a closing bracket."""
        node = self.answer()
        self.expect("sign", closing)
        return node


def quotient(top: Node, bottom: Node) -> Node:
    """Return a fraction; the d of dy/dx and d/dx is no factor that cancels."""
    above = top.args[0] if top.kind == "mul" else top
    by_variable = bottom.kind == "mul" and len(bottom.args) == 2
    if by_variable and _is_differential(bottom.args[0]) and _is_differential(above):
        return Node("opaque", (top, bottom), "derivative")
    return Node("div", (top, bottom))


def _is_differential(node: Node) -> bool:
    node = node.args[0] if node.kind == "pow" else node
    return node.kind == "sym" and node.value in DIFFERENTIALS
