"""Comparison of two answer texts, cheapest step first."""

import re
from functools import lru_cache

from verifiers.equality.equivalence import same_answer
from verifiers.equality.labels import collect
from verifiers.grammar.literals import LONGEST_PLAIN, is_plain_number, plain_number
from verifiers.grammar.normalize import MAX_WORDS, choices, label_and_text, normalize, plain_words
from verifiers.grammar.parse import parse, tree_of
from verifiers.grammar.tree import Node, ParseError, TooLargeError
from verifiers.types import Judgement
from verifiers.values.same_value import has_value

ARTICLE = re.compile(r"^(?:an?|the)\s+(?=[A-Za-z]{4,}(?: [A-Za-z]{4,})*$)", re.I)
GROUP_COMMA = re.compile(r"\d,\d{3}")


def compare(gold: str, answer: str) -> Judgement:
    """Decide whether an answer equals the gold."""
    if (numbers := same_number(gold, answer)) is not None:
        return numbers
    gold, answer = normalize(gold), normalize(answer)
    if not answer:
        return Judgement(False, "empty answer")
    if gold == answer:
        return Judgement(True, "same string")
    if (numbers := same_number(gold, answer)) is not None:
        return numbers
    if _same_words(gold, answer):
        return Judgement(True, "same words")
    if (chosen := _same_choice(gold, answer)) is not None:
        return Judgement(chosen, "choice")
    if (labelled := label_and_text(gold)) and compare(labelled[1], answer).equal:
        return Judgement(True, "what the choice says")
    if (labelled := label_and_text(answer)) and compare(gold, labelled[1]).equal:
        return Judgement(True, "what the choice says")
    left, right = _read(gold), _read(answer)
    if not isinstance(left, Node) or not isinstance(right, Node):
        failed = right if isinstance(right, ParseError) else left
        return Judgement(False, f"not readable: {failed}")
    equal, reason = same_answer(left, right)
    return Judgement(equal or _same_ungrouped(gold, answer, left, right), reason)


def same_number(gold: str, answer: str) -> Judgement | None:
    """Compare two plain numbers; None for all else."""
    if len(gold) > LONGEST_PLAIN or len(answer) > LONGEST_PLAIN:
        return None
    left, right = plain_number(gold), plain_number(answer)
    if left is None or right is None:
        return None
    return Judgement(left == right, "exact number")


def _same_words(gold: str, answer: str) -> bool:
    """Compare words without case, short ones (which may be variables) with it."""
    left, right = plain_words(gold), plain_words(answer)
    left, right = (ARTICLE.sub("", words) for words in (left, right))
    letters = left.replace(" ", "").replace("-", "")
    if not letters.isalpha() or len(left) > MAX_WORDS:
        return False
    no_variable = len(letters) > 3 or left.casefold() in ("yes", "no")
    return left == right or (no_variable and left.casefold() == right.casefold())


def _read(text: str, *, grouping: bool = True) -> Node | ParseError:
    try:
        return parse(text, grouping=grouping)
    except ParseError as error:
        return error


def _same_ungrouped(gold: str, answer: str, left: Node, right: Node) -> bool:
    """Compare again with 1,234 as a list of two where the other side is a list."""
    if GROUP_COMMA.search(answer) and left.has("list", "tuple", "set"):
        again = _read(answer, grouping=False)
        return isinstance(again, Node) and same_answer(left, again)[0]
    if GROUP_COMMA.search(gold) and right.has("list", "tuple", "set"):
        again = _read(gold, grouping=False)
        return isinstance(again, Node) and same_answer(again, right)[0]
    return False


def _same_choice(gold: str, answer: str) -> bool | None:
    wanted = choices(gold, with_text=True)
    if not wanted:
        return None
    given = choices(answer, with_text=len(wanted) == 1)
    if not given or wanted != given:
        return None if not given else False
    labelled = label_and_text(gold), label_and_text(answer)
    read = [_read(pair[1]) for pair in labelled if pair]
    texts = [node for node in read if isinstance(node, Node) and not node.has("text")]
    if len(texts) == 2:
        return same_answer(*texts)[0]
    return True


@lru_cache(maxsize=4096)
def members(text: str) -> int:
    """Return how many members an answer lists; 1 for what is no list."""
    node = None if is_plain_number(text) else tree_of(normalize(text))
    listed = collect(node) if node else None
    return len(listed) if listed else 1


def readable(gold: str) -> bool:
    """Return whether a gold answer is text or mathematics that can equal anything."""
    text = normalize(gold)
    if not text or is_plain_number(text):
        return bool(text)
    parsed = _read(text)
    if isinstance(parsed, TooLargeError):
        return True
    if isinstance(parsed, Node):
        return has_value(parsed)
    return plain_words(text).replace(" ", "").isalpha()
