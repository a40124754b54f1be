"""The embedded problem set: seeded arithmetic of five levels, with splits that never overlap.

A problem belongs to the `test` split if the SHA-256 of its text says so, whatever the seed or the
size asked for: no train problem can ever be a held-out one.
"""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

LEVELS = {
    1: "sum or difference up to 20",
    2: "sum or difference of two-digit numbers",
    3: "two-digit times one-digit number",
    4: "three two-digit numbers added and subtracted",
    5: "product as in level 3, plus or minus a two-digit number",
}
_TEST_SHARE = 8  # one problem in eight is held out


@dataclass(frozen=True)
class Expression:
    """`first op operand op operand …`; a product only ever stands first, so left to right holds."""

    level: int
    first: int
    operations: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """Return the expression as it is asked, such as `47 * 6 + 15`."""
        return " ".join([str(self.first), *(f"{op} {operand}" for op, operand in self.operations)])

    def values(self) -> list[int]:
        """Return the running value after each operation; the last one is the answer."""
        value, values = self.first, []
        for op, operand in self.operations:
            value = apply(op, value, operand)
            values.append(value)
        return values


def apply(op: str, left: int, right: int) -> int:
    """Compute `left op right` for op one of `+ - *`."""
    return {"+": left + right, "-": left - right, "*": left * right}[op]


def split_of(problem: str) -> str:
    """Return `test` or `train`, decided by the problem's text alone."""
    digest = hashlib.sha256(problem.encode()).digest()
    return "test" if digest[0] % _TEST_SHARE == 0 else "train"


def expressions(split: str, seed: int) -> Iterator[Expression]:
    """Yield an endless seeded stream of expressions of one split, all levels equally often."""
    rng = random.Random(f"{seed}:{split}")
    while True:
        expression = _draw(rng.choice(list(LEVELS)), rng)
        if min(expression.values()) >= 0 and split_of(question(expression)) == split:
            yield expression


def question(expression: Expression) -> str:
    """Return the problem as the policy reads it."""
    return f"What is {expression.text}?"


def problems(split: str, size: int, seed: int) -> list[dict[str, str | int]]:
    """Return `size` distinct problems of one split as rows of `problem`, `answer`, `id`, `level`.

    Raises ValueError if the split does not exist or holds fewer distinct problems than asked for.
    """
    if split not in ("train", "test"):
        raise ValueError(f"arithmetic has the splits train and test, not {split!r}")
    rows: dict[str, dict[str, str | int]] = {}
    repeats = 0
    for expression in expressions(split, seed):
        if len(rows) >= size:
            break
        text = question(expression)
        if text in rows:
            repeats += 1
            if repeats > 100 * size + 10_000:
                raise ValueError(f"arithmetic/{split} holds fewer than {size} distinct problems")
            continue
        rows[text] = {
            "id": f"arithmetic-{split}-{len(rows)}",
            "problem": text,
            "answer": str(expression.values()[-1]),
            "level": expression.level,
        }
    return list(rows.values())


def _draw(level: int, rng: random.Random) -> Expression:
    """Draw a random expression of the level; its values may be negative (the caller filters)."""
    if level == 1:
        return Expression(1, rng.randint(1, 20), ((rng.choice("+-"), rng.randint(1, 20)),))
    if level == 2:
        return Expression(2, _two_digits(rng), ((rng.choice("+-"), _two_digits(rng)),))
    product = ("*", rng.randint(2, 9))
    tail = (rng.choice("+-"), _two_digits(rng))
    if level == 3:
        return Expression(3, _two_digits(rng), (product,))
    if level == 4:
        return Expression(4, _two_digits(rng), ((rng.choice("+-"), _two_digits(rng)), tail))
    return Expression(5, _two_digits(rng), (product, tail))


def _two_digits(rng: random.Random) -> int:
    return rng.randint(10, 99)
