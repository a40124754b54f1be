"""Derive the seeds of samples, so that each depends only on what it is a sample of."""

import hashlib
from collections import Counter
from collections.abc import Sequence

from rlvr_cli.core.types import Problem


def response_seed(seed: int, *name: object) -> int:
    """Return a 62-bit seed for the group called `name`: its sample i uses this number plus i."""
    digest = hashlib.sha256(":".join(map(str, (seed, *name))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2


def continued_seed(seed: int, position: int) -> int:
    """Return the seed with which a new generator goes on at this token of a response. At its first
    token it is the response's own."""
    return response_seed(seed, "continued", position) if position else seed


def problem_seeds(problems: Sequence[Problem], seed: int) -> list[int]:
    """Return the seed of the first response to each problem, which depends only on the run's seed,
    the problem's text and the number of its earlier occurrences."""
    occurrences: Counter[str] = Counter()
    seeds = []
    for problem in problems:
        text = problem.problem
        seeds.append(response_seed(seed, "eval", text, occurrences[text]))
        occurrences[text] += 1
    return seeds
