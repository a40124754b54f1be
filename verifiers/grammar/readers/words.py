"""Words: names of functions and constants, numbers in words, runs of letters, plain text."""

from verifiers.grammar.cursor import END
from verifiers.grammar.lexer import Token
from verifiers.grammar.parser import Parser
from verifiers.grammar.readers.functions import read_function, read_listed
from verifiers.grammar.readers.names import CONSTANTS, letter_of_run, read_letter, subscripted
from verifiers.grammar.tree import Const, Node, Text, num
from verifiers.grammar.vocabulary import (
    FILLERS,
    FUNCTIONS,
    KNOWN_WORDS,
    LISTED_FUNCTIONS,
    NUMBER_WORDS,
)

LONGEST_RUN = 3


def read_word(parser: Parser, token: Token) -> Node:
    word = token.text
    if word in FUNCTIONS or word == "sqrt":
        return read_function(parser, token)
    if word in LISTED_FUNCTIONS:
        return read_listed(parser, token)
    if word.lower() in FILLERS and parser.peek() is not END:
        return parser.power()
    if word in CONSTANTS and not (len(word) == 1 and token.text_mode):
        at_subscript = parser.at("sign", "_")
        return subscripted(parser, word) if at_subscript else Const(CONSTANTS[word])
    if word.lower() in NUMBER_WORDS:
        return num(_spelled_number(parser, NUMBER_WORDS[word.lower()]))
    if len(word) == 1:
        return read_letter(parser, token)
    if token.text_mode or len(word) > LONGEST_RUN or word.lower() in KNOWN_WORDS:
        return _text(parser, word)
    parser.position -= 1
    return letter_of_run(parser.take_first())


def _spelled_number(parser: Parser, value: int) -> int:
    """Read twenty-one, twenty one."""
    hyphen = parser.at("sign", "-")
    ones = NUMBER_WORDS.get(parser.peek(int(hyphen)).text.lower(), 0)
    if value < 20 or value % 10 or not 0 < ones < 10:
        return value
    parser.position += 1 + hyphen
    return value + ones


def _text(parser: Parser, word: str) -> Node:
    words = [word]
    while parser.at("word") and parser.peek().text.lower() not in ("and", "or", "except"):
        words.append(parser.take().text)
    return Text(" ".join(words))
