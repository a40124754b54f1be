"""Put custom functions into the tables of the built-in ones, once they were tried.

They run in the trainer's process, on its tensors, without the limits that rewards have.
"""

import inspect
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.filters import FILTERS
from rlvr_cli.algorithm.group_advantage import GROUP_ADVANTAGES
from rlvr_cli.algorithm.kinds import CustomAdvantage
from rlvr_cli.algorithm.kl import ESTIMATORS
from rlvr_cli.algorithm.objective import (
    AGGREGATIONS,
    SURROGATES,
    LossDenominators,
    LossInputs,
)
from rlvr_cli.algorithm.samples import to_samples
from rlvr_cli.algorithm.token_advantage import TOKEN_ADVANTAGES
from rlvr_cli.core.code import CodeError, UserFunction, error_in_words, find_function
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.settings import ENTRY_POINTS, Values
from rlvr_cli.core.types import Completion, Group, Problem, Prompt, Rollout
from verifiers import Verdict, Verification

TRIAL_SECONDS = 30.0
"""Time to load and try a function, most of which an import of its own may take."""
_LENGTHS = (5, 3, 1)
"""Tokens of the made responses, so that there is padding."""
_TOLERANCE = 1e-9
"""Difference of two float64 numbers that only rounding explains."""
Function = Callable[..., Any]


class Part(NamedTuple):
    """A choice of the algorithm that may be a custom function."""

    call: str
    """How it is called and what it returns, in words."""
    positional: int
    """Number of the arguments that are not settings."""
    table: dict[str, Function]
    attempt: Callable[[Function, Values], None]
    """Calls it on made numbers. Raises CodeError for a result that cannot train."""


def load_parts(algo: Algorithm) -> dict[str, str]:
    """Load and try the custom functions that an algorithm names.

    Each is added to the table of its choice. Return the SHA-256 of each file, by the choice.

    Raises UserError if one cannot be used, or is not the one that `sources` names.
    """
    sources = {}
    for name, spec in algo.custom_functions.items():
        part = part_of(algo, name)
        function = _within_time(name, spec, partial(_load, algo, part, name))
        part.table[spec] = _named_in_errors(function, name, spec)
        sources[name] = function.source
    if not algo.sources.items() <= sources.items():
        raise UserError(
            f"algorithm.{' and '.join(sources)} {' '.join(algo.custom_functions.values())}: not "
            "the source that the run began with; put it back, or begin a new run with "
            "rlvr train --from"
        )
    return sources


def part_of(algo: Algorithm, name: str) -> Part:
    """Return the part that a choice names. An advantage of a response has another table than one of
    a token."""
    if name == "advantage" and not algo.advantage.needs_group:
        return PARTS["token advantage"]
    return PARTS[name]


def function_settings(algo: Algorithm, name: str) -> Values:
    """Return the keyword arguments of the function of a choice."""
    if name == "aggregation":
        return dict(algo.aggregation_settings)
    if name == "kl":
        return dict(algo.kl.settings) if algo.kl is not None else {}
    fields: Values = getattr(algo, name).fields
    return fields


def _load(algo: Algorithm, part: Part, name: str) -> UserFunction:
    """Find a function, and try it."""
    settings = function_settings(algo, name)
    function = _find(algo.custom_functions[name], name)
    parameters = inspect.signature(function.call).parameters.values()
    names = [item.name for item in parameters][part.positional :]
    try:
        inspect.signature(function.call).bind(*[None] * part.positional, **settings)
    except TypeError as error:
        known = ", ".join(names) or "none"
        raise CodeError(f"{error}; it is called {part.call}, its settings are {known}") from None
    try:
        part.attempt(function.call, settings)
        if part is PARTS["advantage"]:
            CustomAdvantage.baselines[algo.custom_functions[name]] = _has_baseline(
                function.call, settings
            )
    except Exception as error:
        words = error_in_words(error, function.file)
        raise CodeError(f"{words}; it is called {part.call}") from None
    return function


def _find(spec: str, name: str) -> UserFunction:
    """Find a function.

    Its call may import modules of its directory, which stays on `sys.path` after all others.
    """
    before = list(sys.path)
    sys.path.append(os.getcwd())
    try:
        return find_function(spec, os.getcwd(), ENTRY_POINTS[name], usual_names=[name])
    finally:
        sys.path[:] = [*before, *(path for path in sys.path if path not in before)]


def _within_time(name: str, spec: str, load: Callable[[], UserFunction]) -> UserFunction:
    """Load a function in a daemon thread, and wait for it for `TRIAL_SECONDS` at most."""
    results: list[UserFunction | UserError] = []

    def run() -> None:
        try:
            results.append(load())
        except BaseException as error:  # whatever the user's code raises, sys.exit() too
            words = error_in_words(error, _file_of(spec))
            results.append(UserError(f"algorithm.{name} {spec}: {words}"))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(TRIAL_SECONDS)
    if not results:
        raise UserError(f"algorithm.{name} {spec}: it did not end within {TRIAL_SECONDS:g} seconds")
    (result,) = results
    if isinstance(result, UserError):
        raise result
    return result


def _named_in_errors(function: UserFunction, name: str, spec: str) -> Function:
    """Return the function with its errors told in one line."""

    def call(*arguments: object, **settings: object) -> object:
        try:
            return function.call(*arguments, **settings)
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            words = error_in_words(error, function.file)
            raise UserError(f"algorithm.{name} {spec}: {words}") from error

    return call


def _file_of(spec: str) -> str:
    return os.path.join(os.getcwd(), spec.partition(":")[0])


def _mask() -> Tensor:
    """Return the mask of the made responses, [B, T]."""
    return torch.tensor([[float(t < n) for t in range(max(_LENGTHS))] for n in _LENGTHS]).double()


def _numbers(number: int, low: float, high: float) -> Tensor:
    """Return numbers between two bounds where the mask is 1, [B, T], always the same."""
    generator = torch.Generator().manual_seed(number)
    uniform = torch.rand(_mask().shape, generator=generator, dtype=torch.float64)
    return (low + (high - low) * uniform) * _mask()


def _checked(result: object, label: str, shape: Sequence[int]) -> Tensor:
    """Return a result that is a finite tensor of a shape. Raises CodeError for any other."""
    if not isinstance(result, Tensor):
        raise CodeError(f"{label} is {type(result).__name__}, not a tensor")
    if list(result.shape) != list(shape):
        raise CodeError(f"{label} has the shape {list(result.shape)}, not {list(shape)}")
    if not bool(torch.isfinite(result).all()):
        raise CodeError(f"{label} is not finite")
    return result


def _try_cuts(compute: Callable[..., Tensor], tensors: Sequence[Tensor], learns: bool) -> None:
    """Compute on a whole batch and on each response alone, and compare values and gradients."""
    mask = _mask()
    values, gradient = _with_gradient(compute, tensors, mask)
    if learns and not bool(gradient.any()):
        raise CodeError("no gradient reaches the log-probabilities")
    if bool((gradient * (1 - mask)).any()):
        raise CodeError("padding has a gradient")
    for row, length in enumerate(_LENGTHS):
        response = [tensor[row : row + 1, :length] for tensor in tensors]
        alone, gradient_alone = _with_gradient(compute, response, mask[row : row + 1, :length])
        for actual, expected in ((alone, values), (gradient_alone, gradient)):
            difference = (actual - expected[row : row + 1, :length]).abs().max()
            if difference > _TOLERANCE:
                raise CodeError(
                    "a response has another value or gradient alone than in a batch: leave sums "
                    "and means over responses to the aggregation"
                )


def _with_gradient(
    compute: Callable[..., Tensor], tensors: Sequence[Tensor], mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Return values [B, T] over the mask and the gradient of their sum by the first tensor."""
    leaf = tensors[0].detach().clone().requires_grad_()
    values = _checked(compute(leaf, *tensors[1:], mask), "its result", mask.shape) * mask
    if values.requires_grad:
        values.sum().backward()
    gradient = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
    return values.detach(), _checked(gradient, "its gradient", mask.shape)


def _try_surrogate(function: Function, settings: Values) -> None:
    def compute(logprobs: Tensor, old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        inputs = LossInputs(
            logprobs=logprobs,
            entropy=torch.zeros_like(mask),
            old_logprobs=old,
            rollout_logprobs=old,
            ref_logprobs=old,
            advantages=advantages,
            mask=mask,
            is_right=mask,
        )
        result = function(inputs, **settings)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise CodeError(f"it returned {type(result).__name__}, not two tensors")
        reached = _checked(result[1], "its second result", mask.shape)
        if reached.dtype != torch.bool:
            raise CodeError(f"its second result is {reached.dtype}, not bool")
        return _checked(result[0], "its first result", mask.shape)

    advantages = torch.tensor([[1.5], [-0.5], [-1.0]], dtype=torch.float64) * _mask()
    _try_cuts(compute, [_numbers(1, -2, -0.1), _numbers(2, -2, -0.1), advantages], learns=True)


def _try_estimator(function: Function, settings: Values) -> None:
    def compute(logprobs: Tensor, other_logprobs: Tensor, mask: Tensor) -> Tensor:
        result: Tensor = function(logprobs, other_logprobs, **settings)
        return result

    _try_cuts(compute, [_numbers(1, -2, -0.1), _numbers(2, -2, -0.1)], learns=False)


def _try_aggregation(function: Function, settings: Values) -> None:
    denominators = LossDenominators(tokens=sum(_LENGTHS), responses=len(_LENGTHS), max_tokens=8)

    def compute(_: Tensor, mask: Tensor) -> Tensor:
        weights: Tensor = function(mask, denominators, **settings)
        if bool((_checked(weights, "its result", mask.shape) * (1 - mask)).any()):
            raise CodeError("padding has a weight")
        return weights

    _try_cuts(compute, [_numbers(1, -2, -0.1)], learns=False)


def _groups() -> list[Group]:
    """Return made groups: two of three responses right, all right, all wrong."""
    groups = []
    for number, right in enumerate((2, len(_LENGTHS), 0)):
        prompt = Prompt(Problem(f"made-{number}", "1 + 1", "2"), "1 + 1", (1, 2), False)
        rollouts = []
        for sample, length in enumerate(_LENGTHS):
            is_right = sample < right
            verdict = Verdict.CORRECT if is_right else Verdict.WRONG
            rollouts.append(
                Rollout.of(
                    prompt=prompt,
                    sample=sample,
                    completion=Completion([1] * length, [-0.5] * length, "stop"),
                    text="2" if is_right else "3",
                    verification=Verification(verdict, None, True, "made"),
                    reward=1.0 if is_right else -1.0,
                )
            )
        groups.append(Group(prompt, tuple(rollouts), 0))
    return groups


def _try_group_advantage(function: Function, settings: Values) -> None:
    groups = _groups()
    rewards = [[rollout.reward for rollout in group.rollouts] for group in groups]
    rewards_B = torch.tensor(rewards, dtype=torch.float64)
    for rewards_G in rewards_B:
        result = function(rewards_G, rewards_B.flatten(), **settings)
        _checked(result, "its result", rewards_G.shape)


def _has_baseline(function: Function, settings: Values) -> bool:
    """Return whether the advantages of a group with equal rewards are 0.

    The batch has a second group, whose rewards are not equal.
    """
    mixed_G = torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64)
    for reward in (-1.0, 0.0, 0.5, 1.0):
        equal_G = torch.full_like(mixed_G, reward)
        advantages_G = function(equal_G, torch.cat([equal_G, mixed_G]), **settings)
        if bool(advantages_G.any()):
            return False
    return True


def _try_token_advantage(function: Function, settings: Values) -> None:
    samples = to_samples(_groups(), Algorithm(), max_tokens=8, weight_version=0)
    rewards = torch.zeros_like(samples.mask)
    ends = samples.mask.sum(1, keepdim=True).long() - 1
    rewards = rewards.scatter_add(1, ends, samples.reward[:, None])
    result = _checked(function(rewards, samples, **settings), "its result", rewards.shape)
    if bool((result * (1 - samples.mask)).any()):
        raise CodeError("padding has an advantage")


def _try_filter(function: Function, settings: Values) -> None:
    for group in _groups():
        results = [function(group, **settings) for _ in range(2)]
        if not isinstance(results[0], bool):
            raise CodeError(f"it returned {type(results[0]).__name__}, not True or False")
        if results[0] is not results[1]:
            raise CodeError("it returned True and False for one group; it is called several times")


PARTS: dict[str, Part] = {
    "surrogate": Part(
        "f(inputs, **settings), with LossInputs, for the objective [B, T] and where a bound was "
        "reached, bool [B, T]",
        1,
        SURROGATES,
        _try_surrogate,
    ),
    "advantage": Part(
        "f(rewards_G, rewards_B, **settings) for [G] (algorithm.advantage.per=token has another "
        "form)",
        2,
        GROUP_ADVANTAGES,
        _try_group_advantage,
    ),
    "token advantage": Part(
        "f(rewards, samples, **settings), with rewards [B, T] and Samples, for [B, T]",
        2,
        TOKEN_ADVANTAGES,
        _try_token_advantage,
    ),
    "kl": Part(
        "f(logprobs, other_logprobs, **settings) for [B, T]",
        2,
        ESTIMATORS,
        _try_estimator,
    ),
    "aggregation": Part(
        "f(mask, denominators, **settings), with LossDenominators, for weights [B, T]",
        2,
        AGGREGATIONS,
        _try_aggregation,
    ),
    "filter": Part(
        "f(group, **settings), with a Group, for True if it trains",
        1,
        FILTERS,
        _try_filter,
    ),
}
"""The choices by name. The tables have the built-in functions and the custom ones."""
