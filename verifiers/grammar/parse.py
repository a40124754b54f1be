"""Read an answer from text to tokens to one tree, within limits of length and depth."""

import re
from functools import lru_cache

from verifiers.grammar.lexer import tokenize
from verifiers.grammar.parser import END, Parser
from verifiers.grammar.readers.functions import read_command, read_function
from verifiers.grammar.readers.groups import read_environment, read_sign
from verifiers.grammar.readers.names import read_letter, read_word
from verifiers.grammar.readers.quantities import read_number, read_unit
from verifiers.grammar.tree import Node, ParseError, TooLargeError

MAX_TEXT = 12_000  # characters: a list of 1,500 numbers with spaces fits
LONGEST_CACHED = 200  # characters of an answer whose tree is cached
ATOMS = {
    "number": read_number,
    "word": read_word,
    "letter": read_letter,
    "command": read_command,
    "function": read_function,
    "sign": read_sign,
    "begin": read_environment,
    "setname": lambda parser, token: Node("setname", (), token.text),
}
OTHER_BASE = re.compile(r"0(?:x[0-9a-f]+|[bo][0-7]+)(?!\w)", re.I)


def parse(text: str, *, grouping: bool = True) -> Node:
    """Read an answer. With `grouping`, 1,234 is one number.

    Raises ParseError, or TooLargeError where the limits refuse it.
    """
    if len(text) > MAX_TEXT:
        raise TooLargeError("too long")
    return _parse(text, grouping) if len(text) > LONGEST_CACHED else _parse_cached(text, grouping)


def tree_of(text: str) -> Node | None:
    """Return an answer as a tree, or None if it cannot be read."""
    try:
        return parse(text)
    except ParseError:
        return None


def _parse(text: str, grouping: bool) -> Node:
    if text.startswith("0") and OTHER_BASE.match(text):
        raise ParseError("digits of another base")
    parser = Parser(tokenize(text, grouping=grouping), ATOMS, read_unit)
    try:
        node = parser.answer()
    except RecursionError as error:
        raise TooLargeError("nested too deeply") from error
    if parser.peek() is not END:
        raise ParseError(f"unexpected {parser.peek().text!r}")
    return node


_parse_cached = lru_cache(maxsize=8192)(_parse)
