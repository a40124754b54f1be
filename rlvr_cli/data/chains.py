"""Make the built-in problem set: seeded chains of operations on a last digit, in disjoint splits.

`Start at 7, keep last digits: (a) +5 (b) *3` is 7 + 5 = 12, keep 2, then 2 * 3 = 6. A chain of
level 1 to 8 has that many operations. Adding a digit, and multiplying by 3, 7 or 9, takes different
last digits to different ones, so that a single wrong step makes a wrong answer. The levels 9 to 12
have operands that the built-in policy has never seen: any digit, two digits. The SHA-256 of its
text puts a problem into `train` or `test`, whatever seed and size: no problem is ever in both.
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
NEW = {
    9: (range(2, 6), range(10)),
    10: (range(6, 9), range(10)),
    11: (range(1, 5), range(10, 100)),
    12: (range(5, 9), range(10, 100)),
}
"""The numbers of operations that a chain of these levels may have, and the operands of each."""
_NEW_SHARE = 1 / 5
START, RULE = "Start at ", ", keep last digits:"
LABELS = tuple(f" ({letter}) " for letter in "abcdefgh")
_SHARES = (0.4, 0.35, 0.25)
_TEST_SHARE = 8  # one problem in eight is held out


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
    """Compute the last digit of `left op right`, where `op` is `+`, `-` or `*`; that of -1 is 9."""
    return {"+": left + right, "-": left - right, "*": left * right}[op] % 10


def chains(
    split: str, seed: int, weights: Sequence[float] | None = None, is_new: bool = False
) -> Iterator[Chain]:
    """Yield seeded chains of a split without end: levels 1 to 8 by weight, by default evenly; with
    `is_new` levels 9 to 12, evenly, each chain with an operand that the others do not have."""
    rng = random.Random(f"{seed}:{split}:new" if is_new else f"{seed}:{split}")
    while True:
        level = rng.choice(list(NEW)) if is_new else rng.choices(LEVELS, weights)[0]
        lengths, operands = NEW.get(level, (None, None))
        first, length = rng.randrange(10), rng.choice(lengths) if lengths else level
        steps = []
        for _ in range(length):
            (op,) = rng.choices(list(OPERATIONS), _SHARES)
            steps.append((op, rng.choice(operands or OPERATIONS[op])))
        chain = Chain(first, tuple(steps), level)
        has_new = any(operand not in OPERATIONS[op] for op, operand in chain.operations)
        is_test = hashlib.sha256(chain.text.encode()).digest()[0] % _TEST_SHARE == 0
        if has_new == is_new and is_test == (split == "test"):
            yield chain


def problems(split: str, size: int, seed: int) -> Iterator[dict[str, str | int]]:
    """Yield `size` distinct problems of a split as rows of `id`, `problem`, `answer`, `level`: four
    fifths of levels 1 to 8, then those with new operands; each level alike, if it has as many."""
    texts: set[str] = set()
    for enough, is_new in ((size - round(size * _NEW_SHARE), False), (size, True)):
        stream = chains(split, seed, is_new=is_new)
        while len(texts) < enough:
            chain = next(stream)
            if chain.text not in texts:
                row: dict[str, str | int] = {"id": f"chains-{split}-{len(texts)}"}
                texts.add(chain.text)
                yield row | {
                    "problem": chain.text,
                    "answer": str(chain.answer),
                    "level": chain.level,
                }
