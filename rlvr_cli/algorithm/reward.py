"""What a response is paid."""

import math
from collections.abc import Mapping

from rlvr_cli.algorithm.reward_config import RewardConfig
from verifiers import Verdict, Verification

NO_SIGNAL = (Verdict.TIMEOUT, Verdict.UNPARSEABLE_GOLD)
"""Verdicts that are not about the response: it gets no reward."""


def reward(verification: Verification, correct: float = 1.0, wrong: float = -1.0) -> float | None:
    """Return `correct` for a right answer in its format, else `wrong`; None if not judged."""
    if verification.verdict in NO_SIGNAL:
        return None
    return correct if verification.verdict is Verdict.CORRECT else wrong


def pay(
    asked: RewardConfig,
    verification: Verification | None,
    length: float,
    own: Mapping[str, float],
) -> tuple[float | None, dict[str, float]]:
    """Return what a response is paid, the weighted sum of the rewards asked for, and their values
    by name. It is None where a value is missing, so that the response does not train.

    `length` is the response's share of the longest one; `own` holds the values of one's own
    functions. The trainer adds the penalty for length (`overlong_penalty`) and the KL.
    """
    values: dict[str, float] = {}
    for term in asked.terms:
        value: float | None = None
        if term.is_own:
            value = own.get(term.name)
        elif term.name == "length":
            value = -length
        elif verification is not None and term.name == "format":
            value = asked.format if verification.format_ok else 0.0
        elif verification is not None:
            value = reward(verification, asked.correct, asked.wrong)
        if value is not None:
            values[term.name] = value
    if len(values) < len(asked.terms):
        return None, values
    return math.fsum(term.weight * values[term.name] for term in asked.terms), values


def overlong_penalty(n_tokens: int, max_tokens: int, cache: float) -> float:
    """Compute DAPO's soft overlong punishment, arXiv:2503.14476, eq. 13.

    0 up to L_max - L_cache, then linear to -1 at L_max, with L_cache = `cache` x L_max.
    """
    cache_tokens = cache * max_tokens
    return -min(1.0, max(0.0, (n_tokens - (max_tokens - cache_tokens)) / cache_tokens))
