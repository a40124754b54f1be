"""The embedded problem set: seeded chains of operations on a last digit, in disjoint splits.

`Start at 7, keep last digits: (a) +5 (b) *3` is 7 + 5 = 12, keep 2, then 2 * 3 = 6. The levels 1 to
8 have so many operations. Adding a digit, and multiplying by 3, 7 or 9, takes different last digits
to different ones, so that one wrong step makes a wrong answer: who is right worked, or was lucky.
The levels 9 to 12 have operands that the built-in policy has never seen: any digit, two digits.
A problem belongs to the `test` split if the SHA-256 of its text says so, whatever the seed or the
size asked for: no train problem can ever be a held-out one.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SEED = 1
"""Of the set that the package ships."""
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
"""How many operations a chain of these levels may have, and the operands of all three."""
_NEW_SHARE = 1 / 5
START, RULE = "Start at ", ", keep last digits:"
LABELS = tuple(f" ({letter}) " for letter in "abcdefgh")
_SHARES = (0.4, 0.35, 0.25)
_TEST_SHARE = 8  # one problem in eight is held out


@dataclass(frozen=True)
class Chain:
    """A first digit and the operations that are applied to it one after the other."""

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
    """Compute the last digit of `left op right` for op one of `+ - *`; that of -1 is 9."""
    return {"+": left + right, "-": left - right, "*": left * right}[op] % 10


def chains(
    split: str, seed: int, weights: Sequence[float] | None = None, is_new: bool = False
) -> Iterator[Chain]:
    """Yield seeded chains of a split without end: levels 1 to 8, by weight or evenly; `is_new`: the
    levels after them, evenly, each chain with an operand that those have not."""
    rng = random.Random(f"{seed}:{split}:new" if is_new else f"{seed}:{split}")
    while True:
        level = rng.choice(list(NEW)) if is_new else rng.choices(LEVELS, weights)[0]
        lengths, operands = NEW.get(level, (None, None))
        first, length = rng.randrange(10), rng.choice(lengths) if lengths else level
        drawn = (_draw(rng, operands) for _ in range(length))
        chain = Chain(first, tuple(drawn), level)
        has_new = any(operand not in OPERATIONS[op] for op, operand in chain.operations)
        is_test = hashlib.sha256(chain.text.encode()).digest()[0] % _TEST_SHARE == 0
        if has_new == is_new and is_test == (split == "test"):
            yield chain


def _draw(rng: random.Random, operands: range | None) -> tuple[str, int]:
    (op,) = rng.choices(list(OPERATIONS), _SHARES)
    return op, rng.choice(operands or OPERATIONS[op])


def problems(split: str, size: int, seed: int) -> Iterator[dict[str, str | int]]:
    """Yield `size` distinct problems of one split as rows of `id`, `problem`, `answer`, `level`:
    first four fifths of the levels 1 to 8, then those with new operands; each part evenly, but for
    levels that do not hold so many."""
    texts: set[str] = set()
    known = size - round(size * _NEW_SHARE)
    for enough, is_new in ((known, False), (size, True)):
        stream = chains(split, seed, is_new=is_new)
        while len(texts) < enough:
            chain = next(stream)
            if chain.text in texts:
                continue
            row_id = f"chains-{split}-{len(texts)}"
            texts.add(chain.text)
            answer = str(chain.answer)
            yield {"id": row_id, "problem": chain.text, "answer": answer, "level": chain.level}
