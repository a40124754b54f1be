"""The embedded problem set: seeded chains of operations on a last digit, in disjoint splits.

`Start at 7, keep last digits: (a) +5 (b) *3` is 7 + 5 = 12, keep 2, then 2 * 3 = 6. The level is
the number of operations. Adding a digit, and multiplying by 3, 7 or 9, takes different last digits
to different ones, so that one wrong step makes a wrong answer: who is right worked, or was lucky.
A problem belongs to the `test` split if the SHA-256 of its text says so, whatever the seed or the
size asked for: no train problem can ever be a held-out one.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LEVELS = tuple(range(1, 9))
"""A chain of level n has n operations."""
OPERATIONS = {"+": range(1, 10), "-": range(1, 10), "*": (3, 7, 9)}
"""The operands of each operation."""
START, RULE = "Start at ", ", keep last digits:"
LABELS = tuple(f" ({letter}) " for letter in "abcdefgh")
_SHARES = (0.4, 0.35, 0.25)
_TEST_SHARE = 8  # one problem in eight is held out


@dataclass(frozen=True)
class Chain:
    """A first digit and the operations that are applied to it one after the other."""

    first: int
    operations: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """Return the problem as the policy reads it."""
        steps = zip(LABELS, self.operations, strict=False)
        shown = "".join(f"{label}{op}{operand}" for label, (op, operand) in steps)
        return f"{START}{self.first}{RULE}{shown}"

    @property
    def answer(self) -> int:
        """Return the last digit after all operations."""
        value = self.first
        for op, operand in self.operations:
            value = apply(op, value, operand)
        return value


def apply(op: str, left: int, right: int) -> int:
    """Compute the last digit of `left op right` for op one of `+ - *`; that of -1 is 9."""
    return {"+": left + right, "-": left - right, "*": left * right}[op] % 10


def split_of(problem: str) -> str:
    """Return `test` or `train`, decided by the problem's text alone."""
    digest = hashlib.sha256(problem.encode()).digest()
    return "test" if digest[0] % _TEST_SHARE == 0 else "train"


def chains(split: str, seed: int, weights: Sequence[float] | None = None) -> Iterator[Chain]:
    """Yield an endless seeded stream of chains of one split, levels by weight (none: evenly)."""
    rng = random.Random(f"{seed}:{split}")
    while True:
        (level,) = rng.choices(LEVELS, weights)
        chain = Chain(rng.randrange(10), tuple(_draw(rng) for _ in range(level)))
        if split_of(chain.text) == split:
            yield chain


def _draw(rng: random.Random) -> tuple[str, int]:
    (op,) = rng.choices(list(OPERATIONS), _SHARES)
    return op, rng.choice(OPERATIONS[op])


def problems(split: str, size: int, seed: int) -> list[dict[str, str | int]]:
    """Return `size` distinct problems of one split as rows of `problem`, `answer`, `id`, `level`;
    levels evenly, but for those that do not hold so many.

    Raises ValueError if the split does not exist.
    """
    if split not in ("train", "test"):
        raise ValueError(f"chains has the splits train and test, not {split!r}")
    rows: dict[str, dict[str, str | int]] = {}
    for chain in chains(split, seed):
        if len(rows) >= size:
            break
        rows.setdefault(
            chain.text,
            {
                "id": f"chains-{split}-{len(rows)}",
                "problem": chain.text,
                "answer": str(chain.answer),
                "level": len(chain.operations),
            },
        )
    return list(rows.values())
