"""Parse the levels of the grammar: lists, relations, sets, sums, products, powers, atoms."""

from collections.abc import Callable, Mapping

from verifiers.grammar.lexer import Token
from verifiers.grammar.literals import read_literal
from verifiers.grammar.tree import Node, ParseError, TooLargeError, call, neg, num, product_of
from verifiers.grammar.units import LETTER_UNITS, SPELLINGS, currency_of, is_unit
from verifiers.grammar.vocabulary import CONNECTIVES, NOT_FACTORS, NOT_UNITS, REAL_WORDS, RELATIONS

MAX_DEPTH = 50  # of brackets and arguments, within Python's limit of 1,000 calls
MAX_POSTFIXES = 8  # signs after one atom, as in 5!^2
MAX_SIGNS = 6  # each ± doubles the values to compare
END = Token("end_of_text", "")
FARTHEST_PEEK = 4
SET_OPERATORS = {"cup": "union", "cap": "inter", "setminus": "diff", "backslash": "diff"}
NUMBERS = ("num", "neg", "div", "const", "call")
LEFT_OF_EXCEPT = ("text", "setname", "tuple", "union")
CLOSERS = (")", "]", "}", "rbrace")
DEGREES = ("circ", "degree")
DIFFERENTIALS = ("d", "\\partial")


class Parser:
    """Descends recursively over tokens, with one method for each level of precedence.

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
        """Return the next token, or one `ahead` of it, without taking it. END follows the last."""
        return self.tokens[self.position + ahead]

    def take(self) -> Token:
        """Return the next token and step over it."""
        token = self.tokens[self.position]
        if token is not END:
            self.position += 1
        return token

    def take_first(self) -> str:
        """Return the first character of the next token, of which the rest stays."""
        token = self.take()
        if len(token.text) > 1:
            self.position -= 1
            self.tokens[self.position] = Token(token.kind, token.text[1:])
        return token.text[0]

    def at(self, kind: str, *texts: str) -> bool:
        """Return whether the next token is of this kind, and has one of these texts if any."""
        token = self.tokens[self.position]
        return token.kind == kind and (not texts or token.text in texts)

    def accept(self, kind: str, *texts: str) -> bool:
        """Take the next token if it is such a one. Return whether it was."""
        token = self.tokens[self.position]
        if token.kind != kind or (texts and token.text not in texts):
            return False
        self.position += 1
        return True

    def expect(self, kind: str, text: str) -> None:
        """Take the next token. Raises ParseError if it is another."""
        if not self.accept(kind, text):
            raise ParseError(f"{text!r} expected")

    def at_unit(self, ahead: int = 0) -> bool:
        """Return whether the next token, or one `ahead` of it, is read as a unit."""
        token = self.peek(ahead)
        if token.kind != "word" or self.connective(ahead):
            return False
        below = self.peek(ahead + 2).text
        if token.text in LETTER_UNITS and self.peek(ahead + 1).text == "/" and len(below) > 1:
            return below in SPELLINGS  # g/mol
        return is_unit(token, self.peek(ahead + 1))

    def connective(self, ahead: int = 0) -> str:
        """Return "and" or "or" if such a word comes next. Letters are words in a text only."""
        token = self.peek(ahead)
        word = token.text.lower()
        if token.kind not in ("word", "command") or word not in CONNECTIVES:
            return ""
        is_word = len(word) > 1 or not word.isascii()
        goes_on = token.text_mode and self.peek(ahead + 1) is not END
        return CONNECTIVES[word] if is_word or goes_on else ""

    def answer(self) -> Node:
        """Read a list with commas, "a or b", or a single item."""
        items = [self.relation()]
        connective = ""
        while True:
            separator = self._separator()
            if separator != ",":
                connective = separator or connective
            if not separator or self.peek() is END or self.peek().text in CLOSERS:
                break
            items.append(self.relation())
        return items[0] if len(items) == 1 else Node("list", tuple(items), connective or ",")

    def _separator(self) -> str:
        """Take the separators that come next. Return "and", "or", "," or nothing."""
        separator = ""
        while True:
            token = self.peek()
            connective = self.connective()
            if token.kind == "sign" and token.text in (",", ";", "&"):
                separator = separator or ("and" if token.text == "&" else ",")
            elif token.kind == "command" and token.text == "\\" and self.depth == 0:
                separator = separator or ","
            elif connective:
                separator = connective
            elif token.kind == "command" and token.text in ("cup", "cap"):
                separator = "or" if token.text == "cup" else "and"
            else:
                return separator
            self.take()

    def relation(self) -> Node:
        """Read a chain of equations or inequalities, or one side alone."""
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
        """Read 1 : 2, 1 to 2, and the time of day 9:30 pm."""
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
        """Read a sum, or two sums with an old command between: {n \\choose k}, {a \\over b}."""
        node = self.sum()
        if self.accept("command", "choose"):
            return call("binom", node, self.sum())
        if self.accept("command", "over"):
            return quotient(node, self.sum())
        return node

    def set_expression(self) -> Node:
        """Read unions, intersections and differences of sets."""
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
            goes_on = node.kind == kind != "diff"
            node = Node(kind, (*node.args, right) if goes_on else (node, right))

    def _except(self, node: Node) -> Node:
        """Read what follows "all real numbers except": 0, or "for x = 2"."""
        if node.kind == "text" and node.value.lower() not in REAL_WORDS:
            raise ParseError("exception from words")
        self.accept("word", "for")
        points = []
        for item in self.items():
            points.append(item.args[-1] if item.kind == "rel" else item)
        domain = Node("setname", (), "R") if node.kind == "text" else node
        return Node("diff", (domain, Node("set", tuple(points))))

    def items(self) -> tuple[Node, ...]:
        """Read a list and return its items, or the only item."""
        content = self.answer()
        return content.args if content.kind == "list" else (content,)

    def sum(self) -> Node:
        """Read terms with signs before them."""
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
        """Take the signs before a term. Return "", "+", "-", "pm" or "mp". A minus flips it."""
        sign = ""
        while True:
            if self.accept("sign", "+"):
                sign = sign or "+"
            elif self.accept("sign", "-"):
                sign = {"-": "+", "pm": "mp", "mp": "pm"}.get(sign, "-")
            elif self.at("command", "pm", "mp"):
                sign = self.take().text
            else:
                return sign

    def product(self) -> Node:
        """Read factors, with signs or side by side, and the unit after them."""
        factors = [self.power()]
        while True:
            if self.accept("sign", "*") or self.accept("command", "cdot", "times", "ast"):
                factors.append(self._signed_power())
            elif self.accept("sign", "/") or self.accept("command", "div"):
                self._divide(factors)
            elif self.at_unit():
                return self.read_unit(self, product_of(factors))
            elif self.at("sign", "(") and self.at_unit(1) and self.peek(3) is END:  # 9 (apples)
                self.take()
                node = self.read_unit(self, product_of(factors))
                self.expect("sign", ")")
                return node
            elif self._starts_factor():
                applied = len(factors) == 1 and factors[0].kind == "sym" and self.at("sign", "(")
                tight = applied and not self.peek().spaced
                factors.append(self.power())
                if tight and factors[-1].kind in ("sym", "tuple") and not self._starts_factor():
                    return Node("mul", tuple(factors), "applied")
            else:
                return product_of(factors)

    def _divide(self, factors: list[Node]) -> None:
        """Read what follows a slash: one factor, or both letters of AB/CD and dy/dx."""
        word = self.peek()
        are_names = len(factors) == 2 and all(node.kind == "sym" for node in factors)
        are_pairs = are_names and word.kind == "word" and len(word.text) == 2
        if are_pairs and (word.text.isupper() or factors[0].value == word.text[0] == "d"):
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
        """Return whether the next token begins a factor of a product without a sign."""
        token = self.peek()
        if token.kind == "sign":
            opens_bar = token.text == "|" and not self.open_bars and not self.in_builder
            return token.text in "([{" or opens_bar
        if token.kind == "word":
            is_union = token.text == "U" and self.peek(1).text in ("(", "[")
            if is_union or self.connective():
                return False
            return token.text.lower() not in NOT_UNITS and token.text != "to"
        if token.kind == "number":
            before, sign = self.tokens[self.position - 1], self.tokens[self.position - 2]
            is_exponent = token.spaced and sign.kind == "sign" and sign.text == "^"
            return before.kind != "number" or is_exponent  # 2^2 3 is a product
        if token.kind == "command":
            return token.text not in NOT_FACTORS
        return token.kind == "begin"

    def power(self) -> Node:
        """Read an atom with its exponent and the signs that follow, or an amount of money."""
        money = currency_of(self.peek())
        if money:
            self.take()
            return Node("unit", (self._signed_power(),), ((money, 1),))
        return self.postfixed(self.atom())

    def postfixed(self, node: Node) -> Node:
        """Read the signs after an atom: exponents, factorials, per cent, degrees, currencies."""
        for _ in range(MAX_POSTFIXES):
            token = self.peek()
            if token.kind not in ("sign", "command"):
                return node
            money = currency_of(token)
            if self.accept("sign", "^"):
                node = self._raised(node)
            elif self.accept("sign", "!"):
                double = not self.peek().spaced and self.accept("sign", "!")
                node = call("fac2", node) if double else Node("fact", (node,))
            elif self.accept("sign", "%"):
                node = Node("pct", (node,))
            elif self.accept("command", *DEGREES):
                node = Node("deg", (node,))
            elif money:
                self.take()
                node = Node("unit", (node,), ((money, 1),))
            else:
                return node
        raise TooLargeError("too many signs after a number")

    def _raised(self, node: Node) -> Node:
        """Read the exponent after ^, or the sign of degrees."""
        is_braced = self.at("sign", "{")
        sign = self.peek(1) if is_braced else self.peek()
        if sign.kind == "command" and sign.text in DEGREES:
            self.position += 3 if is_braced else 1
            return Node("deg", (node,))
        self.depth += 1
        exponent = self.argument() if is_braced else self.signed_exponent()
        self.depth -= 1
        return Node("pow", (node, exponent))

    def signed_exponent(self) -> Node:
        """Read an exponent without braces: 2^-3, 2^3^2."""
        is_negative = False
        while self.at("sign", "-", "+"):
            is_negative ^= self.take().text == "-"
        node = read_literal(self.take().text) if self.at("number") else self.atom()
        if self.accept("sign", "^"):
            node = self._raised(node)
        return neg(node) if is_negative else node

    def atom(self) -> Node:
        """Read one number, name or group, or a function with its argument."""
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
        """Read the argument of a LaTeX command: a group, or one digit, letter or command."""
        if self.accept("sign", "{"):
            return self.closed("}")
        token = self.peek()
        if token.kind == "number" and token.text.isdigit():
            return num(int(self.take_first()))
        if token.kind == "word" and len(token.text) > 1 and not token.text_mode:
            letter = Token("letter", self.take_first())
            return self.atoms["letter"](self, letter)
        return self.atom()

    def closed(self, closing: str) -> Node:
        """Read a list up to its closing bracket."""
        node = self.answer()
        self.expect("sign", closing)
        return node


def quotient(top: Node, bottom: Node) -> Node:
    """Return a fraction, or the derivative dy/dx or d/dx, in which no d cancels."""
    above = top.args[0] if top.kind == "mul" else top
    is_product = bottom.kind == "mul" and len(bottom.args) == 2
    if is_product and _is_differential(bottom.args[0]) and _is_differential(above):
        return Node("opaque", (top, bottom), "derivative")
    return Node("div", (top, bottom))


def _is_differential(node: Node) -> bool:
    """Return whether a node is d or ∂, or a power of it."""
    node = node.args[0] if node.kind == "pow" else node
    return node.kind == "sym" and node.value in DIFFERENTIALS
