"""Comparison of two answer texts, cheapest step first."""

import re
from functools import lru_cache

from verifiers.equality.clauses import without_clause, without_clauses
from verifiers.equality.conditions import align_parameters, with_constants_of
from verifiers.equality.equivalence import same_answer
from verifiers.equality.labels import collect, each_sign, is_sum_of_names
from verifiers.equality.quantities import read_quantity
from verifiers.equality.rounding import rounds_to
from verifiers.grammar.literals import LONGEST_PLAIN, is_plain_number, plain_number
from verifiers.grammar.normalize import (
    MAX_WORDS,
    choices,
    label_and_text,
    normalize,
    plain_words,
)
from verifiers.grammar.parse import parse
from verifiers.grammar.parts import Part, as_list, parts_of
from verifiers.grammar.tree import Node, ParseError, Rel, TooLargeError
from verifiers.types import Judgement
from verifiers.values.same_value import has_value, same_value

SIZE_COMMAND = re.compile(r"\\(?:left|right|displaystyle)(?![a-z])")
LOOSE_SPACE = re.compile(r" +(?![A-Za-z0-9])|(?<![A-Za-z0-9]) +")
ARTICLE = re.compile(r"^(?:an?|the)\s+(?=[A-Za-z]{4,}(?: [A-Za-z]{4,})*$)", re.I)
NOT_CHAINED = re.compile(
    r"[<>≤≥≠≈,;]|\\(?:[gl]eq?(?![a-z])|neq?(?![a-z])|approx|pm|text\s*\{\s*(?:and|or))|!=|\b(?:and|or|if|so|vs|versus|but|not|then|while|when|because|since|against)\b|\$"
)
THIN_SPACE = re.compile(r"\\[,;:!]")
LETTER_UNIT = re.compile(r"(?<=\d)\s+[a-zA-Z]{1,3}[²³]?\s*$")
ONE_UNKNOWN = re.compile(r"^\s*\$?-?\d*\s*[a-z](?:\^\{?\d\}?|²)?\s*(?:[-+]\s*\d+\s*)?$")
COUNTS = re.compile(
    r"^[\s$]*(?:\d+\s?[CP]\s?\d+|[\d./\\{}a-z]*\d[\s}]*\\?%?[\s}]*(?:of|\\text\s*\{\s*of\s*\})\s*\$?\d+)[\s$]*$"
)
# 2 + 4 + … + 2n = n(n + 1): a sum that goes on, and what it comes to.
SUMMED = re.compile(r"\$?[^=$]{1,80}\+\s*(?:\\[lc]?dots[bc]?|\.\.\.|…|⋯)\s*\+?[^=$]*=")
CIRCLED = "①②③④⑤⑥⑦⑧⑨⑩"
NAMED_POINT = re.compile(r"[A-Z]\s*\(([^()]*[,;][^()]*)\)")
IN_A_LIST = re.compile(r"\s*(?:[;,]|\band\b)\s*")
GROUP_COMMA = re.compile(r"\d,\d{3}")


def compare(gold: str, answer: str) -> Judgement:
    """Decide whether an answer equals the gold."""
    if (numbers := same_number(gold, answer)) is not None:
        return numbers
    if wanted := parts_of(gold):
        return _same_parts(wanted, answer)
    gold, answer = normalize(gold), normalize(as_list(answer) or answer)
    gold = gold if gold == answer else _in_digits(gold)
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
    gold, answer = without_clauses(gold, answer)
    if gold[:1] == "(" and (point := NAMED_POINT.fullmatch(answer)):
        answer = f"({point[1].replace(';', ',')})"
    left, right = _read(gold), _read(answer)
    if isinstance(left, Node) and isinstance(right, Node):
        left, right = align_parameters(left, right)
        if "C" in gold or "C" in answer:
            right = with_constants_of(left, right)
        found = same_answer(left, right)
        if not found[0]:
            found = _other_reading(gold, answer, left, right) or _rounded(left, right) or found
        if not found[0] and (last := _last_side(gold, answer, right)):
            return last
        return Judgement(*found)
    if isinstance(left, Node) and (last := _last_side(gold, answer, None)):
        return last
    gold_is_words = isinstance(left, ParseError) and answer.count("{") == answer.count("}")
    if gold_is_words and _squeezed(gold) == _squeezed(answer):
        return Judgement(True, "same text")
    failed = right if isinstance(right, ParseError) else left
    return Judgement(False, f"not readable: {failed}")


def same_number(gold: str, answer: str) -> Judgement | None:
    """Compare two plain numbers; None for all else."""
    if len(gold) > LONGEST_PLAIN or len(answer) > LONGEST_PLAIN:
        return None
    left, right = plain_number(gold), plain_number(answer)
    if left is None or right is None:
        return None
    return Judgement(left == right, "exact number")


def _in_digits(text: str) -> str:
    """Write the sign of a choice, ②, as its number."""
    return str(CIRCLED.index(text) + 1) if len(text) == 1 and text in CIRCLED else text


def _same_parts(wanted: tuple[Part, ...], answer: str) -> Judgement:
    """Compare labelled parts one by one: with those of the answer, or its list in order."""
    given = parts_of(answer)
    if given:
        texts = [part.text for part in given]
        alike = [part.label for part in given] == [part.label for part in wanted]
    else:
        texts = IN_A_LIST.split(normalize(answer))
        alike = len(texts) == len(wanted)
    if not alike:
        return Judgement(False, "other parts")
    pairs = zip(wanted, texts, strict=True)
    return Judgement(all(compare(part.text, text).equal for part, text in pairs), "part by part")


def _last_side(gold: str, answer: str, read: Node | None) -> Judgement | None:
    """Take what a chain of equal sides comes to, if the grammar cannot read its first ones or they
    are plain numbers with what they count: 10 apples + 5 apples = 15 apples, 7C2 = 21."""
    head, equal, last = answer.rpartition("=")
    if not equal or "=" in gold:
        return None
    last = LETTER_UNIT.sub("", last) if is_plain_number(gold) else last
    side = _read(last)
    several, summed = False, False
    if isinstance(side, Node):
        several = side.kind in ("tuple", "matrix", "set") and not side.symbols()
        summed = SUMMED.match(answer) is not None and not side.has("text")
    if several or summed or (isinstance(read, Rel) and _is_identity(read)):
        return Judgement(True, "the last side") if compare(gold, last.strip()).equal else None
    if NOT_CHAINED.search(THIN_SPACE.sub(" ", answer)):
        return None
    before = head.rpartition("=")[2]
    if COUNTS.search(before):
        chained = True
    elif read is None:
        chained = any(map(str.isdigit, head)) and not ONE_UNKNOWN.search(before)
    else:
        chained = isinstance(read, Rel) and _comes_to(read)
    if not chained:
        return None
    if not isinstance(side, Node) or side.symbols() or side.has("text") or not side.has("num"):
        return None
    found = compare(gold, last.strip())
    return Judgement(True, "the last side") if found.equal else None


def _is_identity(chain: Rel) -> bool:
    """Return whether it holds for all values: (x - 1)(x + 1) = x^2 - 1."""
    *sides, last = chain.args
    if any(sign != "=" for sign in chain.value) or not last.symbols() or last.kind == "sym":
        return False
    return all(side != last and same_value(side, last) for side in sides)


def _comes_to(chain: Rel) -> bool:
    """Return whether the sides of a chain agree, what they count left aside, or it is m + n = 8."""
    if any(sign != "=" for sign in chain.value):
        return False
    asked = chain.args[0]
    if len(chain.args) == 2 and (is_sum_of_names(asked) or _is_measured(asked)):
        return True
    sides = [_uncounted(side) for side in chain.args]
    if len(sides) > 2 and not _is_unknown(asked):
        sides = [side for side in sides if not (side.symbols() or side.has("base", "ratio"))]
    sides = [side for side in sides[:-1] if not _is_measured(side)] + sides[-1:]
    plain = not any(side.symbols() for side in sides)
    return plain and all(same_value(side, sides[-1]) for side in sides[:-1])


def _is_unknown(side: Node) -> bool:
    """Return whether a side is an expression in one unknown, as in 2x = 3 + 5 = 8."""
    return side.kind in ("add", "mul", "pow", "div") and len(side.symbols()) == 1


def _is_measured(side: Node) -> bool:
    """Return whether a side is no unknown to solve for, but asks for its value: an integral, a
    limit, P(A), det A, a product of names xy."""
    if side.kind in ("big", "opaque"):
        return True
    names = side.args if side.kind == "mul" else ()
    return 1 < len(set(names)) < 4 and all(name.kind == "sym" for name in names)


def _uncounted(node: Node) -> Node:
    if node.kind == "unit":
        return _uncounted(node.args[0])
    return node.with_args(tuple(_uncounted(arg) for arg in node.args))


def _same_words(gold: str, answer: str) -> bool:
    """Compare words without case, short ones (which may be variables) with it."""
    left, right = plain_words(gold), plain_words(answer)
    left, right = (ARTICLE.sub("", words) for words in (left, right))
    letters = left.replace(" ", "").replace("-", "")
    if not letters.isalpha() or len(left) > MAX_WORDS:
        return False
    known = len(letters) > 3 or left.casefold() in ("yes", "no")
    return left == right or (known and left.casefold() == right.casefold())


def _squeezed(text: str) -> str:
    """Return what must be the same where the gold is words: all but spaces and markup."""
    return LOOSE_SPACE.sub("", plain_words(SIZE_COMMAND.sub("", text)))


def _read(text: str, *, grouping: bool = True) -> Node | ParseError:
    try:
        return parse(text, grouping=grouping)
    except ParseError as error:
        return error


def _other_reading(gold: str, answer: str, left: Node, right: Node) -> tuple[bool, str] | None:
    """Try each ± with a sign of its own where the other side is a list, and 1,234, one number or a
    list of two, as the list."""
    for node, other, flip in ((right, left, False), (left, right, True)):
        listed = other.kind in ("list", "set") and not other.has("pm")
        if listed and (each := each_sign(node)) is not None:
            found = same_answer(each, other) if flip else same_answer(other, each)
            if found[0]:
                return found
    for text, other, flip in ((answer, left, False), (gold, right, True)):
        structured = other.has("list", "tuple", "set", "pm")
        if structured and GROUP_COMMA.search(text):
            again = _read(text, grouping=False)
            if isinstance(again, Node):
                found = same_answer(again, other) if flip else same_answer(other, again)
                if found[0]:
                    return found
    return None


def _rounded(gold: Node, answer: Node) -> tuple[bool, str] | None:
    """Accept 3.33 for 10/3 ≈ 3.33, if that is how 10/3 is rounded."""
    if not isinstance(answer, Rel) or answer.value[-1] != "~":
        return None
    exact, decimal = (read_quantity(part).value for part in answer.args[-2:])
    if not rounds_to(exact, decimal):
        return None
    return same_answer(gold, answer.args[-1])[0], "what is said after ≈"


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
    """Return how many members or parts an answer lists; 1 for what is no list."""
    if wanted := parts_of(text):
        return len(wanted)
    node = _read(normalize(text))
    found = collect(node) if isinstance(node, Node) else None
    return len(found) if found else 1


def readable(gold: str) -> bool:
    """Return whether a gold answer is text or mathematics that can equal anything."""
    if wanted := parts_of(gold):
        return all(readable(part.text) for part in wanted)
    text = normalize(gold)
    if not text:
        return False
    if is_plain_number(text) or (len(text) == 1 and text in CIRCLED):
        return True
    parsed = _read(without_clause(text))
    if isinstance(parsed, TooLargeError):
        return True
    if isinstance(parsed, Node):
        return has_value(parsed)
    return plain_words(text).replace(" ", "").isalpha()
