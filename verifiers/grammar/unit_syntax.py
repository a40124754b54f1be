"""What may stand around a number: currency signs, units, scale words, bases."""

from fractions import Fraction

from verifiers.grammar.atoms import AtomReader
from verifiers.grammar.lexer import Token
from verifiers.grammar.tree import Node, ParseError, num, product_of
from verifiers.grammar.units import (
    COMPOUNDS,
    CURRENCY_SIGNS,
    GENERIC,
    SAFE_SYMBOLS,
    UNITS,
    unit_name,
)
from verifiers.grammar.vocabulary import FUNCTIONS, NOT_UNITS, NUMBER_WORDS, SCALES

CURRENCY_COMMANDS = {"$": "dollar", "pounds": "gbp", "euro": "euro", "yen": "yen"}
HALVES_OF_DAY = ("am", "pm", "AM", "PM")


class MarkReader(AtomReader):
    """Reads the marks of a quantity."""

    def product(self) -> Node:
        raise NotImplementedError

    def signed_exponent(self) -> Node:
        raise NotImplementedError

    def currency(self) -> str | None:
        token = self.peek()
        names = CURRENCY_COMMANDS if token.kind == "command" else CURRENCY_SIGNS
        if token.kind not in ("command", "sign") or token.text not in names:
            return None
        self.take()
        return names[token.text]

    def at_unit(self) -> bool:
        token = self.peek()
        if token.kind != "word" or token.text.lower() in NOT_UNITS:
            return False
        if token.text in FUNCTIONS or token.text in ("pi", "sqrt", "to"):
            return False
        known = token.text in SAFE_SYMBOLS or token.text in (
            "per",
            "way",
            "old",
            "sq",
            "cu",
            *HALVES_OF_DAY,
        )
        if token.text == "min":
            return self.peek(1).text not in ("(", "{")
        return token.text_mode or len(token.text) > 3 or known

    def with_unit(self, node: Node) -> Node:
        word = self.peek().text
        if word.lower() in SCALES:
            self.take()
            node = product_of([node, num(SCALES[word.lower()])])
            return self.with_unit(node) if self.at_unit() else node
        if word in HALVES_OF_DAY:
            return Node("clock", self.take().text.lower(), (node, num(0)))
        if word == "base":
            self.take()
            return self._in_base(node, self.take())
        powers: dict[str, int] = {}
        self._unit_words(powers, 1)
        for compound in COMPOUNDS.keys() & powers.keys():
            exponent = powers.pop(compound)
            for name, power in COMPOUNDS[compound].items():
                powers[name] = powers.get(name, 0) + power * exponent
        if powers.get("percent") == 1 and not powers.keys() & UNITS.keys() - {"percent"}:
            return Node("pct", None, (node,))
        if powers.get("degree") == 1 and powers.keys() <= {"degree", "c", "f"}:
            del powers["degree"]
            node = Node("deg", None, (node,))
        unit = tuple(sorted(powers.items()))
        if unit and self.at("number"):
            return Node("compound", None, (Node("unit", unit, (node,)), self.product()))
        return Node("unit", unit, (node,)) if unit else node

    def _in_base(self, node: Node, base: Token) -> Node:
        text = str(NUMBER_WORDS.get(base.text.lower(), base.text))
        if node.kind != "num" or not text.isdigit():
            raise ParseError("unreadable base")
        return Node("base", (str(node.value), int(text)), (node,))

    def _unit_words(self, powers: dict[str, int], direction: int) -> None:
        """cm^2, square feet, miles per hour, m/s: each word with its exponent."""
        prefix = 1
        while self.at("word") and (self.at_unit() or direction < 0):
            word = self.take().text
            lower = word.lower()
            if lower == "per" and self.accept("word", "cent"):
                powers["percent"] = 1
                continue
            if lower in ("square", "sq", "cubic", "cu"):
                prefix = 3 if lower.startswith("cu") else 2
                continue
            if lower in ("per", "an") or lower in GENERIC:
                direction = -1 if lower == "per" else direction
                if lower in GENERIC:
                    self._unit_exponent(prefix)
                continue
            name = unit_name(word)
            powers[name] = powers.get(name, 0) + direction * self._unit_exponent(prefix)
            prefix = 1
            if self.at("sign", "/") and self.peek(1).kind == "word":
                self.take()
                self._unit_words(powers, -1)

    def _unit_exponent(self, prefix: int) -> int:
        if self.accept("word", "squared", "cubed"):
            return 2 if self.tokens[self.position - 1].text == "squared" else 3
        if not self.at("sign", "^"):
            return prefix
        self.take()
        exponent = self.signed_exponent() if not self.at("sign", "{") else self.argument()
        value = exponent.args[0].value if exponent.kind == "neg" else exponent.value
        if not isinstance(value, Fraction) or value.denominator != 1 or value > 9:
            raise ParseError("unreadable unit")
        return -int(value) if exponent.kind == "neg" else int(value)
