"""Group the answers that are equal, which a majority vote counts as one answer."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from verifiers.equality.keys import ODD, Key, keys
from verifiers.types import Verdict

PATIENCE = 3  # comparisons that may run out of time, each after the seconds that a worker has
MOST_COMPARED = 100  # comparisons of one spelling, so that the time grows with the spellings


def cluster(
    answers: Sequence[str], equal: Callable[[str, str], Verdict], *, odd: bool = True
) -> list[int]:
    """Number the answers, so that answers that are equal share a number.

    The spellings are taken in the order of the alphabet, so that the result does not depend on the
    order of the answers. Each is compared with the first spelling of every number that shares a key
    with it, those that share most keys first. A spelling whose comparison runs out of time gets a
    number of its own. After `PATIENCE` of those, nothing more is compared. Without `odd`, an answer
    that has no key by its value equals its own spelling only.
    """
    firsts: list[str] = []
    number_of: dict[str, int] = {}
    numbers_of: dict[Key, list[int]] = defaultdict(list)
    timeouts = 0
    for spelling in sorted(set(answers)):
        own_keys = keys(spelling) - (set() if odd else {ODD})
        shared = Counter(number for key in own_keys for number in numbers_of.get(key, ()))
        match = None
        for number in sorted(shared, key=lambda at: (-shared[at], at))[:MOST_COMPARED]:
            if timeouts >= PATIENCE:
                break
            verdict = equal(firsts[number], spelling)
            if verdict is Verdict.WRONG:
                verdict = equal(spelling, firsts[number])
            if verdict is Verdict.CORRECT:
                match = number
            if verdict is Verdict.TIMEOUT:
                timeouts += 1
            if verdict is not Verdict.WRONG:
                break
        if match is None:
            match = len(firsts)
            firsts.append(spelling)
            for key in own_keys:
                numbers_of[key].append(match)
        number_of[spelling] = match
    return [number_of[answer] for answer in answers]
