"""Which of several answers are one answer: what a majority vote counts."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from verifiers.equality.keys import ODD, Key, keys
from verifiers.types import Verdict

PATIENCE = 3
MOST_COMPARED = 100


def cluster(
    answers: Sequence[str], equal: Callable[[str, str], Verdict], *, odd: bool = True
) -> list[int]:
    """Number the answers, so that those that `equal` finds the same share a number.

    Each spelling is compared with the first of every number so far that shares a key with it, in
    the order of the alphabet: the result is a partition that does not depend on the order of the
    answers. A spelling whose comparison runs out of time stands alone; after `PATIENCE` of those
    no more are compared. With `MOST_COMPARED` comparisons a spelling, those that share most keys
    first, the time grows with the number of spellings. Without `odd`, what has no key by its value
    equals its own spelling only.
    """
    firsts: list[str] = []
    number_of: dict[str, int] = {}
    numbers_of: dict[Key, list[int]] = defaultdict(list)
    late = 0
    for spelling in sorted(set(answers)):
        own = keys(spelling) - (set() if odd else {ODD})
        shared = Counter(number for key in own for number in numbers_of.get(key, ()))
        same = None
        for number in sorted(shared, key=lambda at: (-shared[at], at))[:MOST_COMPARED]:
            if late >= PATIENCE:
                break
            verdict = equal(firsts[number], spelling)
            if verdict is Verdict.WRONG:
                verdict = equal(spelling, firsts[number])
            if verdict is Verdict.CORRECT:
                same = number
                break
            if verdict is Verdict.TIMEOUT:
                late += 1
                break
        if same is None:
            same = len(firsts)
            firsts.append(spelling)
            for key in own:
                numbers_of[key].append(same)
        number_of[spelling] = same
    return [number_of[answer] for answer in answers]
