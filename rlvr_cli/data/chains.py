"""Make the built-in problem set: seeded chains of operations on a last digit, in disjoint splits.

`Start at 7, keep last digits: (a) +5 (b) *3` is 7 + 5 = 12, keep 2, then 2 * 3 = 6. A chain of
level 1 to 8 has that many operations. Adding a digit, and multiplying by 3, 7 or 9, maps different
last digits to different ones, so that a single wrong step makes a wrong answer. The levels 9 to 12
have operands that the built-in policy has never seen: any digit, two digits. The SHA-256 of its
text puts a problem into `train` or `test`, so that no problem is in both for any seed or size.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SEED = 1
"""The seed of the set that the package ships."""
LEVELS = tuple(range(1, 9))
"""A chain of level n has n operations."""
OPERATIONS = {"+": range(1, 10), "-": range(1, 10), "*": (3, 7, 9)}
"""The operands of each operation."""
NEW_LEVELS = {
    9: (range(2, 6), range(10)),
    10: (range(6, 9), range(10)),
    11: (range(1, 5), range(10, 100)),
    12: (range(5, 9), range(10, 100)),
}
"""The numbers of operations and the operands of the levels with new operands."""
_NEW_SHARE = 1 / 5
"""The share of these levels in a set."""
START = "Start at "
RULE = ", keep last digits:"
LABELS = tuple(f" ({letter}) " for letter in "abcdefgh")
_OPERATION_SHARES = (0.4, 0.35, 0.25)
_TEST_ONE_IN = 8
"""One problem in eight is held out."""


@dataclass(frozen=True)
class Chain:
    """A first digit and the operations that are applied to it in turn."""

    first: int
    operations: tuple[tuple[str, int], ...]
    level: int

    @property
    def text(self) -> str:
        """Return the problem as the policy reads it."""
        steps = zip(LABELS, self.operations, strict=False)
        operations = "".join(f"{label}{op}{operand}" for label, (op, operand) in steps)
        return f"{START}{self.first}{RULE}{operations}"

    @property
    def answer(self) -> int:
        """Return the last digit after all operations."""
        value = self.first
        for op, operand in self.operations:
            value = apply(op, value, operand)
        return value


def apply(op: str, left: int, right: int) -> int:
    """Compute the last digit of `left op right`. `op` is `+`, `-` or `*`, and -1 ends in 9."""
    return {"+": left + right, "-": left - right, "*": left * right}[op] % 10


def chains(
    split: str, seed: int, weights: Sequence[float] | None = None, is_new: bool = False
) -> Iterator[Chain]:
    """Yield seeded chains of a split, without end.

    They are of levels 1 to 8 by `weights`, by default evenly. With `is_new` they are of levels 9 to
    12, evenly, and each chain has an operand that levels 1 to 8 do not have.
    """
    rng = random.Random(f"{seed}:{split}:new" if is_new else f"{seed}:{split}")
    while True:
        level = rng.choice(list(NEW_LEVELS)) if is_new else rng.choices(LEVELS, weights)[0]
        lengths, operands = NEW_LEVELS.get(level, (None, None))
        first = rng.randrange(10)
        length = rng.choice(lengths) if lengths else level
        steps = []
        for _ in range(length):
            (op,) = rng.choices(list(OPERATIONS), _OPERATION_SHARES)
            steps.append((op, rng.choice(operands or OPERATIONS[op])))
        chain = Chain(first, tuple(steps), level)
        has_new = any(operand not in OPERATIONS[op] for op, operand in chain.operations)
        is_test = hashlib.sha256(chain.text.encode()).digest()[0] % _TEST_ONE_IN == 0
        if has_new == is_new and is_test == (split == "test"):
            yield chain


def problems(split: str, size: int, seed: int) -> Iterator[dict[str, str | int]]:
    """Yield `size` distinct problems of a split as rows of `id`, `problem`, `answer`, `level`.

    Four fifths are of levels 1 to 8, and the rest has new operands. Each level has the same number
    of problems, unless it runs out of distinct ones.
    """
    texts: set[str] = set()
    for end, is_new in ((size - round(size * _NEW_SHARE), False), (size, True)):
        stream = chains(split, seed, is_new=is_new)
        while len(texts) < end:
            chain = next(stream)
            if chain.text in texts:
                continue
            yield {
                "id": f"chains-{split}-{len(texts)}",
                "problem": chain.text,
                "answer": str(chain.answer),
                "level": chain.level,
            }
            texts.add(chain.text)
