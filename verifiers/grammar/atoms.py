"""Reading tokens: numbers, names, groups, functions, matrices."""

from fractions import Fraction

from verifiers.grammar.cursor import END
from verifiers.grammar.environments import EnvironmentReader
from verifiers.grammar.lexer import Token
from verifiers.grammar.literals import continued, read_literal
from verifiers.grammar.tree import Node, ParseError, TooLargeError, num
from verifiers.grammar.vocabulary import (
    BIG,
    FILLERS,
    FUNCTIONS,
    GREEK,
    KNOWN_WORDS,
    LISTED_FUNCTIONS,
    NUMBER_WORDS,
    OPERATORS,
)

MAX_DEPTH = 50
OPENERS = {"(": ")", "[": "]"}
CONSTANTS = {"e": "e", "i": "i", "pi": "pi", "infinity": "inf", "oo": "inf", "inf": "inf"}
APPLIED_NAMES = set("fghFGHPQ")


class AtomReader(EnvironmentReader):
    """The innermost level of the grammar; `Parser` adds the outer levels."""

    # atoms

    def atom(self) -> Node:
        """One number, name, group or function with its argument."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooLargeError("nested too deeply")
        token = self.take()
        reader = {
            "number": self._number,
            "word": self._word,
            "command": self._command,
            "sign": self._sign,
            "begin": self.environment,
            "setname": lambda name: Node("setname", name.text),
        }.get(token.kind)
        if reader is None:
            raise ParseError(f"unexpected {token.text!r}")
        node = reader(token)
        self.depth -= 1
        return node

    def _number(self, token: Token) -> Node:
        node = read_literal(token.text)
        if self.at("command", "ldots", "dots", "cdots") and "." in token.text:
            self.take()
            return continued(token.text, node)
        if self.at("sign", "_"):
            return self._based(node)
        return self._mixed(node)

    def _based(self, node: Node) -> Node:
        self.take()
        base = self._subscript()
        words = {word: str(value) for word, value in NUMBER_WORDS.items()}
        base = base.strip("()").removeprefix("base")
        base = words.get(base, base)
        value = node.value
        if not base.isascii() or not base.isdigit() or not isinstance(value, Fraction):
            raise ParseError("unreadable base")
        return Node("base", (str(value), int(base)) if base != "10" else None, (node,))

    def _mixed(self, node: Node) -> Node:
        """2\\frac58 and 1 1/2 are sums, not products."""
        start = self.position
        whole = node.value
        assert isinstance(whole, Fraction)
        if node.digits or whole.denominator != 1:
            return node
        parts = self._fraction_parts()
        if not all(part.kind == "num" and part.value.denominator == 1 for part in parts):  # type: ignore[attr-defined]
            parts = []
        if not parts or not parts[1].value:
            self.position = start
            return node
        top, bottom = (part.value for part in parts)
        return num(whole + top / bottom)  # type: ignore[operator]

    def _fraction_parts(self) -> list[Node]:
        """The two parts of a fraction that stands right after a whole number."""
        if self.accept("command", "frac"):
            return [self.argument(), self.argument()]
        following = self.peek(1).text == "/" and self.peek(2).kind == "number"
        if self.at("number") and self.peek().spaced and following:
            top, bottom = self.take(), self.tokens[self.position + 1]
            self.position += 2
            return [read_literal(top.text), read_literal(bottom.text)]
        return []

    def argument(self) -> Node:
        """What a LaTeX command takes: a group, or a single digit, letter or command."""
        if self.accept("sign", "{"):
            return self._braced()
        token = self.peek()
        if token.kind == "number" and len(token.text) > 1 and token.text.isdigit():
            self.tokens[self.position] = Token("number", token.text[1:])
            return num(int(token.text[0]))
        if token.kind == "word" and len(token.text) > 1 and not token.text_mode:
            self.tokens[self.position] = Token("word", token.text[1:])
            return self._letter(token.text[0])
        return self.atom()

    def _braced(self) -> Node:
        node = self.answer()
        self.expect("sign", "}")
        return node

    def _subscript(self) -> str:
        """The subscript as text; a subscript names things and is not computed with."""
        if not self.accept("sign", "{"):
            token = self.take()
            if token.kind == "word" and len(token.text) > 1 and not token.text_mode:
                self.position -= 1
                self.tokens[self.position] = Token("word", token.text[1:])
                return token.text[0]
            return token.text
        depth, parts = 1, []
        while depth:
            token = self.take()
            if token is END:
                raise ParseError("unclosed subscript")
            depth += {"{": 1, "}": -1}.get(token.text, 0) if token.kind == "sign" else 0
            parts.append(token.text)
        return "".join(parts[:-1])

    # words

    def _word(self, token: Token) -> Node:
        word = token.text
        if word in FUNCTIONS or word == "sqrt":
            return self.function(word)
        if word in LISTED_FUNCTIONS:
            return self.listed(word)
        if word.lower() in FILLERS and self.peek() is not END:
            return self.power()
        if word in CONSTANTS and not (len(word) == 1 and token.text_mode):
            return (
                self.subscripted(word) if self.at("sign", "_") else Node("const", CONSTANTS[word])
            )
        if word.lower() in NUMBER_WORDS:
            return num(self._spelled_number(NUMBER_WORDS[word.lower()]))
        if len(word) == 1:
            return self._letter(word)
        if token.text_mode or len(word) > 3 or word.lower() in KNOWN_WORDS:
            return self._text(word)
        self.position -= 1
        self.tokens[self.position] = Token("word", word[1:])
        return self._letter(word[0], run=True)

    def _spelled_number(self, value: int) -> int:
        """twenty-one, twenty one."""
        hyphen = self.at("sign", "-")
        ones = NUMBER_WORDS.get(self.peek(int(hyphen)).text.lower(), 0)
        if value < 20 or value % 10 or not 0 < ones < 10:
            return value
        self.position += 1 + hyphen
        return value + ones

    def _letter(self, letter: str, *, run: bool = False) -> Node:
        if letter in CONSTANTS and not (self.at("sign", "_") and not run):
            return Node("const", CONSTANTS[letter])
        node = Node("sym", letter) if run else self.subscripted(letter)
        while not run and self.accept("sign", "'"):
            node = Node("sym", f"{node.value}'")
        return self._applied(node) if not run else node

    def subscripted(self, name: str) -> Node:
        return Node("sym", f"{name}_{self._subscript()}" if self.accept("sign", "_") else name)

    def _applied(self, node: Node) -> Node:
        """f(x), I(0): a name applied to an argument rather than a product."""
        if not self.at("sign", "(") or self.peek().spaced:
            return node
        inner = self.peek(1)
        number_only = inner.kind == "number" and self.peek(2).text == ")"
        name = str(node.value)
        if name[0] not in APPLIED_NAMES and not (number_only and name[0].isupper()):
            return node
        self.take()
        inside = self.event() if name == "P" else None
        return Node("opaque", name, (inside or self.closed(")"),))

    def _text(self, word: str) -> Node:
        words = [word]
        while self.at("word") and self.peek().text.lower() not in ("and", "or", "except"):
            words.append(self.take().text)
        return Node("text", " ".join(words))

    # signs and groups

    def _sign(self, token: Token) -> Node:
        sign = token.text
        if sign in OPENERS:
            return self._bracketed(sign)
        if sign == "{" and self.accept("sign", "}"):
            return Node("empty")
        if sign == "{":
            node = self._braced()
            if node.kind == "list":
                return Node("set", None, node.args)
            return self._based(node) if node.kind == "num" and self.at("sign", "_") else node
        if sign == "|":
            return self._absolute("sign", "|")
        raise ParseError(f"unexpected {sign!r}")

    def _bracketed(self, opening: str) -> Node:
        outer = self.open_bars, self.in_builder
        self.open_bars, self.in_builder = 0, False
        inside = self.answer()
        self.open_bars, self.in_builder = outer
        closing = self.take().text
        if closing not in (")", "]"):
            raise ParseError("bracket not closed")
        if inside.kind == "list" and inside.value == ",":
            return Node("tuple", opening + closing, inside.args)
        if closing != OPENERS[opening]:
            raise ParseError("brackets do not match")
        if inside.kind == "num" and self.at("sign", "_"):
            return self._based(inside)
        return inside

    def _absolute(self, kind: str, closing: str) -> Node:
        self.open_bars += 1
        inside = self.sum()
        self.open_bars -= 1
        self.expect(kind, closing)
        return Node("call", "abs", (inside,))

    # commands

    def _command(self, token: Token) -> Node:
        name = token.text
        simple = {"pi": "pi", "infty": "inf"}
        if name in simple:
            return Node("const", simple[name])
        if name in FUNCTIONS or name == "sqrt":
            return self.function(name)
        if name in LISTED_FUNCTIONS:
            return self.listed(name)
        if name in GREEK:
            name = name.removeprefix("var")
            return self._applied(self.subscripted(f"\\{name}"))
        if name in BIG:
            return self.big(name)
        if name in OPERATORS:
            return self.operator(name)
        reader = {
            "frac": self.fraction, "binom": self.binomial, "dbinom": self.binomial,
            "tbinom": self.binomial, "{": self._set, "lbrace": self._set,
            "langle": self._angled, "lvert": lambda: self._absolute("command", "rvert"),
            "lfloor": lambda: self.rounded("floor", "rfloor"),
            "lceil": lambda: self.rounded("ceil", "rceil"),
            "emptyset": lambda: Node("empty"), "varnothing": lambda: Node("empty"),
            "overline": self.overlined, "dot": lambda: self.dotted(name),
            "ddot": lambda: self.dotted(name), "dddot": lambda: self.dotted(name),
             "angle": self.atom, "triangle": self.atom,
            "Vert": lambda: self.norm("Vert"), "lVert": lambda: self.norm("rVert"),
            "ldots": lambda: Node("dots"), "dots": lambda: Node("dots"),
            "cdots": lambda: Node("dots"), "imath": lambda: Node("const", "i"),
        }.get(name)  # fmt: skip
        if reader is None and name.endswith(" arrow"):
            return Node("sym", name)
        if reader is None:
            raise ParseError(f"unknown command {name!r}")
        return reader()

    def _angled(self) -> Node:
        inside = self.answer()
        self.expect("command", "rangle")
        return Node("tuple", "<>", inside.args if inside.kind == "list" else (inside,))

    def _set(self) -> Node:
        if self.accept("command", "}", "rbrace"):
            return Node("empty")
        self.drop_braces()
        outer, self.in_builder = (self.open_bars, self.in_builder), True
        self.open_bars = 0
        inside = self.answer()
        if self.accept("sign", "|", ":") or self.accept("command", "mid", "colon", "vert"):
            self.in_builder = False
            inside = Node("builder", None, (inside, self.answer()))
        self.open_bars, self.in_builder = outer
        if not self.accept("command", "}", "rbrace"):
            if self.peek(-1).kind == "end":  # a brace before a system is never closed
                return inside
            raise ParseError("set not closed")
        if inside.kind == "builder":
            return inside
        return Node("set", None, inside.args if inside.kind == "list" else (inside,))
