"""Compare two answer texts, the cheapest step first."""

import re
from functools import lru_cache

from verifiers.equality.equivalence import same_answer
from verifiers.equality.labels import collect
from verifiers.grammar.conditions import split_condition
from verifiers.grammar.literals import LONGEST_PLAIN, is_plain_number, plain_number
from verifiers.grammar.normalize import MAX_WORDS, choices, label_and_text, normalize, plain_words
from verifiers.grammar.parse import parse, tree_of
from verifiers.grammar.spelling import with_decimal_point
from verifiers.grammar.tree import Node, ParseError, TooLargeError
from verifiers.types import Judgement
from verifiers.values.same_value import has_value

ARTICLE = re.compile(r"^(?:an?|the)\s+(?=[A-Za-z]{4,}(?: [A-Za-z]{4,})*$)", re.I)
LIST_OF_NUMBERS = re.compile(r"\[-?\d[\d.]*(?:,\s*-?\d[\d.]*)*\]")  # which may be an interval
GROUP_COMMA = re.compile(r"\d,\d{3}")


def compare(gold: str, answer: str) -> Judgement:
    """Return whether an answer equals the gold, and the step that decided it."""
    numbers = same_number(gold, answer)
    if numbers is not None:
        return numbers
    judgement = _compare_whole(gold, answer)
    if judgement.equal:
        return judgement
    if LIST_OF_NUMBERS.fullmatch(gold) and _compare_whole(gold[1:-1], answer).equal:
        return Judgement(True, "members of a list in code")
    gold, condition = split_condition(gold)
    answer, answer_condition = split_condition(answer)
    if condition and answer_condition and not _compare_whole(condition, answer_condition).equal:
        return judgement
    if (condition or answer_condition) and _compare_whole(gold, answer).equal:
        return Judgement(True, "beside a condition")
    return judgement


def _compare_whole(gold: str, answer: str) -> Judgement:
    """Compare two answers with all that they say."""
    gold, answer = normalize(gold), normalize(answer)
    if not answer:
        return Judgement(False, "empty answer")
    if gold == answer:
        return Judgement(True, "same string")
    numbers = same_number(gold, answer)
    if numbers is not None:
        return numbers
    if _same_words(gold, answer):
        return Judgement(True, "same words")
    same_choice = _same_choice(gold, answer)
    if same_choice is not None:
        return Judgement(same_choice, "choice")
    gold_label, answer_label = label_and_text(gold), label_and_text(answer)
    if (gold_label and compare(gold_label[1], answer).equal) or (
        answer_label and compare(gold, answer_label[1]).equal
    ):
        return Judgement(True, "what the choice says")
    left, right = _read(gold), _read(answer)
    if isinstance(right, ParseError) or isinstance(left, ParseError):
        error = right if isinstance(right, ParseError) else left
        return Judgement(False, f"not readable: {error}")
    equal, reason = same_answer(left, right)
    if not equal and "," in answer and "," not in gold and members(gold) == 1:
        decimal = _read(with_decimal_point(answer))
        if isinstance(decimal, Node) and same_answer(left, decimal)[0]:
            return Judgement(True, "decimal comma")
    return Judgement(equal or _same_ungrouped(gold, answer, left, right), reason)


def same_number(gold: str, answer: str) -> Judgement | None:
    """Compare two plain numbers. Return None if one is not plain."""
    if len(gold) > LONGEST_PLAIN or len(answer) > LONGEST_PLAIN:
        return None
    left, right = plain_number(gold), plain_number(answer)
    if left is None or right is None:
        return None
    return Judgement(left == right, "exact number")


def _same_words(gold: str, answer: str) -> bool:
    """Compare words without case. Up to three letters may be variables, so their case counts."""
    left, right = (ARTICLE.sub("", plain_words(text)) for text in (gold, answer))
    letters = left.replace(" ", "").replace("-", "")
    if not letters.isalpha() or len(left) > MAX_WORDS:
        return False
    if len(letters) > 3 or left.casefold() in ("yes", "no"):
        return left.casefold() == right.casefold()
    return left == right


def _read(text: str, *, grouping: bool = True) -> Node | ParseError:
    try:
        return parse(text, grouping=grouping)
    except ParseError as error:
        return error


def _same_ungrouped(gold: str, answer: str, left: Node, right: Node) -> bool:
    """Compare again with 1,234 as a list of two numbers, where the other side is a list."""
    if GROUP_COMMA.search(answer) and left.has("list", "tuple", "set"):
        ungrouped = _read(answer, grouping=False)
        return isinstance(ungrouped, Node) and same_answer(left, ungrouped)[0]
    if GROUP_COMMA.search(gold) and right.has("list", "tuple", "set"):
        ungrouped = _read(gold, grouping=False)
        return isinstance(ungrouped, Node) and same_answer(ungrouped, right)[0]
    return False


def _same_choice(gold: str, answer: str) -> bool | None:
    """Compare the letters of choices, and what they label if both sides say it. Return None
    unless both sides have a letter."""
    left = choices(gold, with_text=True)
    is_letter = len(left) == 1 and left == choices(gold)
    right = choices(answer, with_text=len(left) == 1, loose=is_letter) if left else None
    if not right:
        return None
    if left != right:
        return False
    labels = label_and_text(gold), label_and_text(answer)
    nodes = [_read(label[1]) for label in labels if label]
    readable_nodes = [node for node in nodes if isinstance(node, Node) and not node.has("text")]
    return len(readable_nodes) < 2 or same_answer(*readable_nodes)[0]


def same_text(gold: str, answer: str) -> bool:
    """Return whether two answers outside of the grammar are one text."""
    text = normalize(gold)
    says_something = any(map(str.isalnum, text)) and "\b" not in gold and "\f" not in gold
    return says_something and text == normalize(answer) and isinstance(_read(text), ParseError)


@lru_cache(maxsize=4096)
def members(text: str) -> int:
    """Return how many members an answer lists, which is 1 for a single answer."""
    node = None if is_plain_number(text) else tree_of(normalize(text))
    return len((collect(node) if node else None) or [node])


@lru_cache(maxsize=100_000)  # the golds of a large data set, each asked for again and again
def readable(gold: str) -> bool:
    """Return whether a gold answer is text or mathematics that an answer can equal."""
    if "\b" in gold or "\f" in gold:  # a backslash that JSON took for an escape
        return False
    text = normalize(gold)
    if not text or is_plain_number(text):
        return bool(text)
    node = _read(text)
    if isinstance(node, ParseError):
        node = _read(normalize(split_condition(text)[0]))
    if isinstance(node, Node):
        return has_value(node)
    return isinstance(node, TooLargeError) or plain_words(text).replace(" ", "").isalpha()
