"""Hold problems out of training by a hash of their texts."""

import hashlib
from dataclasses import replace

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import Problem, by_key
from rlvr_cli.data.problems import ProblemSet

_DIGITS = 16
"""Hexadecimal digits of a hash that are read as a number."""


def hold_out(problems: ProblemSet, holdout: float, seed: int) -> tuple[ProblemSet, ProblemSet]:
    """Return the problems to train on and those that are held out, each in their order.

    `holdout` is a share below 1, or a number of problems. Problems with the same text are on the
    same side. Raises UserError if one side is empty.
    """
    by_text = by_key(problems.problems, lambda problem: " ".join(problem.problem.split()))
    hashes = {text: _fraction(f"{seed}:{text}") for text in by_text}
    if holdout < 1:
        held_texts = {text for text, fraction in hashes.items() if fraction < holdout}
    else:
        held_texts = _first_texts(by_text, hashes, int(holdout))
    ids = {id(problem) for text in held_texts for problem in by_text[text]}
    training = tuple(problem for problem in problems.problems if id(problem) not in ids)
    held_out = tuple(problem for problem in problems.problems if id(problem) in ids)
    if not training or not held_out:
        raise UserError(
            f"--holdout {holdout:g} holds out {len(held_out)} of "
            f"{plural(len(problems.problems), 'problem')}, which leaves one side empty: give "
            "another share or number, or another data.holdout_seed"
        )
    return replace(problems, problems=training), replace(problems, problems=held_out)


def _first_texts(
    by_text: dict[str, list[Problem]], hashes: dict[str, float], count: int
) -> set[str]:
    """Return the texts with the smallest hashes that have `count` problems, or almost as many."""
    first_texts = set()
    remaining = count
    for text in sorted(by_text, key=hashes.__getitem__):
        if len(by_text[text]) <= remaining:
            first_texts.add(text)
            remaining -= len(by_text[text])
    return first_texts


def _fraction(text: str) -> float:
    """Return a number from 0 to 1 that a text alone decides."""
    digits = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    return int(digits, 16) / float(1 << 4 * _DIGITS)
