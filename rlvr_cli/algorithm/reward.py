"""Rewards: parse `SPEC[:WEIGHT]`, and compute the weighted sum for a response."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import field_validator

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.kinds import SoftOverlong
from rlvr_cli.core.settings import Section, register, setting
from rlvr_cli.core.types import WITHOUT_VERDICT, Group, Response
from verifiers import Verdict, Verification

MAJORITY = "majority"
BUILT_IN: dict[str, Callable[["RewardInputs"], float | None]] = {}
"""The built-in rewards of a response by name, before their weights. None is no reward."""
OBJECT = "function "
"""Begins the spec of a function object, which only a call from Python can give."""
RewardObjects = Mapping[str, Callable[..., object]]
"""The function objects among the rewards, by name."""


@dataclass(frozen=True)
class Reward:
    """One term of the sum. `spec` is a built-in name, or where to find the custom function."""

    name: str
    spec: str
    weight: float

    @property
    def is_user_code(self) -> bool:
        """Return whether the user's own code computes it."""
        return self.spec not in BUILT_IN

    @property
    def is_object(self) -> bool:
        """Return whether it is a function object, which runs in this process."""
        return self.spec.startswith(OBJECT)


class RewardConfig(Section):
    """What a response is rewarded for."""

    functions: tuple[str, ...] = setting(
        ("math",), flag="--reward", metavar="SPEC[:WEIGHT]", names_code=True, min_length=1
    )
    """Rewards whose weighted sum trains, SPEC[:WEIGHT] each: math, format, length, majority,
    FILE.py, FILE.py:FUNCTION, MODULE:FUNCTION or an entry point of rlvr.rewards."""
    correct: float = setting(1.0)
    """Value of `math` for a right answer, in the required format if there is one, and of `majority`
    for the answer of its group's majority."""
    wrong: float = setting(-1.0)
    """Value of `math` and `majority` for any other response."""
    format: float = setting(1.0)
    """Value of `format` for a response in the format. Any other gets 0."""
    majority_share: float | None = setting(None, ge=0, le=1)
    """Share of a group that its largest set of equal answers must reach, for `majority` to reward
    the group. A group below it does not train. None means any share."""
    timeout: float = setting(10.0, on_resume="free", gt=0, le=86_400)
    """Time limit of a function, in seconds per response. One that exceeds it does not train."""
    workers: int = setting(8, on_resume="free", ge=1, le=256)
    """Number of processes that run reward functions."""
    memory_mb: int = setting(4096, on_resume="free", ge=64)
    """Memory limit of each of these processes, and of each that it starts, in MiB."""
    processes: int | None = setting(64, on_resume="free", ge=1, le=100_000)
    """Processes that each of them may be with those that its functions start. All end with it. none
    means any number, and lets programs run that change the user, such as sudo."""
    trial: bool = setting(True, on_resume="free")
    """Whether each function is called on two made responses before a run, and a function object
    also in a process of its own, as a file's. `off` leaves it out."""
    sources: dict[str, str] = setting({}, inherited=False)
    """SHA-256 of each function's file, or of a function object's text. The run fills it in and a
    resume compares it."""

    @property
    def terms(self) -> tuple[Reward, ...]:
        """Return the rewards of the sum."""
        return parse_rewards(self.functions)

    @property
    def weightless(self) -> frozenset[str]:
        """Return the names of the rewards that are only logged."""
        return frozenset(term.name for term in self.terms if not term.weight)

    @property
    def rewards_verdict(self) -> bool:
        """Return whether the verdict is a part of the sum."""
        return any(term.spec == "math" and term.weight for term in self.terms)

    @property
    def needs_gold(self) -> bool:
        """Return whether a part of the sum is missing for a problem without a gold answer."""
        return any(term.spec in ("math", "format") and term.weight for term in self.terms)

    @property
    def has_majority(self) -> bool:
        """Return whether the answers of a group are compared with each other."""
        return any(term.spec == MAJORITY for term in self.terms)

    @field_validator("functions")
    @classmethod
    def _can_be_read(cls, functions: tuple[str, ...]) -> tuple[str, ...]:
        parse_rewards(functions)
        return functions


def parse_rewards(functions: Sequence[str]) -> tuple[Reward, ...]:
    """Read `SPEC[:WEIGHT]` of each reward. Raises ValueError if two have one name, a weight is not
    finite, or all are 0."""
    rewards = []
    for text in functions:
        spec, _, last = text.rpartition(":")
        try:
            weight = float(last)
        except ValueError:
            spec = text
            weight = 1.0
        file, _, function = spec.partition(":")
        name = re.split("[.: ]", spec)[-1]
        if file.endswith(".py"):
            name = function or Path(file).stem
        if not name or not math.isfinite(weight):
            raise ValueError(f"a reward is SPEC or SPEC:WEIGHT, such as format:0.2, not {text!r}")
        rewards.append(Reward(name, spec, weight))
    ((name, count),) = Counter(reward.name for reward in rewards).most_common(1)
    if count > 1:
        raise ValueError(f"two rewards are called {name}; rename a function, or give it once")
    if not any(reward.weight for reward in rewards):
        raise ValueError("the weights of all rewards are 0, so nothing would train")
    return tuple(rewards)


def reward(verification: Verification, correct: float = 1.0, wrong: float = -1.0) -> float | None:
    """Return `correct` for a right answer in its format, else `wrong`. An answer with a score gets
    that share of the way from `wrong` to `correct`. Return None if it was not judged."""
    if verification.verdict in WITHOUT_VERDICT:
        return None
    if verification.score is not None:
        return wrong + (correct - wrong) * verification.score
    return correct if verification.verdict is Verdict.CORRECT else wrong


@dataclass(frozen=True)
class RewardInputs:
    """What a built-in reward of one response reads."""

    config: RewardConfig
    verification: Verification | None
    length: float
    """The response's share of the longest one."""
    majority: float | None
    """What a comparison of its group gives it."""


@register(BUILT_IN, kind="math")
def math_reward(inputs: RewardInputs) -> float | None:
    """Return `reward` of the verdict."""
    if inputs.verification is None:
        return None
    return reward(inputs.verification, inputs.config.correct, inputs.config.wrong)


@register(BUILT_IN, kind="format")
def format_reward(inputs: RewardInputs) -> float | None:
    """Return the value of the format, 0 for a response without it."""
    if inputs.verification is None:
        return None
    return inputs.config.format if inputs.verification.format_ok else 0.0


@register(BUILT_IN, kind="length")
def length_reward(inputs: RewardInputs) -> float | None:
    """Return minus the response's share of the longest length."""
    return -inputs.length


@register(BUILT_IN, kind=MAJORITY)
def majority_reward(inputs: RewardInputs) -> float | None:
    """Return what the comparison of the group gives (`rewards.majority`)."""
    return inputs.majority


def by_verdict(group: Group) -> Group:
    """Return the group with its responses rewarded by their verdicts alone, as an evaluation
    does."""
    rollouts = []
    for rollout in group.rollouts:
        verification = rollout.verification
        value = None if verification is None else reward(verification)
        rollouts.append(replace(rollout, reward=value))
    return replace(group, rollouts=tuple(rollouts))


def combine_rewards(
    config: RewardConfig,
    verification: Verification | None,
    length: float,
    user_values: Mapping[str, float | None],
    majority: float | None = None,
) -> tuple[float | None, dict[str, float]]:
    """Return the reward of a response, the weighted sum of its terms, and their values by name. The
    sum is None if a value with a weight is missing, so that the response does not train.

    `length` is the response's share of the longest one, `user_values` come from the user's own
    functions, and `majority` from a comparison of the group. None among the user's values leaves
    its term out, with the other weights as they are, as in TRL; if it leaves none, the sum is None.
    In training length may cost more (`shaped_reward`), and so may the KL.
    """
    inputs = RewardInputs(config, verification, length, majority)
    values: dict[str, float] = {}
    for term in config.terms:
        value = user_values.get(term.name) if term.is_user_code else BUILT_IN[term.spec](inputs)
        if value is not None:
            values[term.name] = value
    left_out = {name for name, value in user_values.items() if value is None}
    weighted = [term for term in config.terms if term.weight and term.name not in left_out]
    if not weighted or any(term.name not in values for term in weighted):
        return None, values
    return math.fsum(term.weight * values[term.name] for term in weighted), values


def overlong_penalty(n_tokens: int, max_tokens: int, cache: float) -> float:
    """Compute DAPO's soft overlong punishment, arXiv:2503.14476, eq. 13.

    0 up to L_max - L_cache, then linear to -1 at L_max, with L_cache = `cache` x L_max.
    """
    cache_tokens = cache * max_tokens
    return -min(1.0, max(0.0, (n_tokens - (max_tokens - cache_tokens)) / cache_tokens))


def length_penalty(response: Response, algo: Algorithm, max_tokens: int) -> float:
    """Return what a response's length adds to its reward in training, 0 or less."""
    if not isinstance(algo.overlong, SoftOverlong):
        return 0.0
    return overlong_penalty(response.n_tokens or 0, max_tokens, algo.overlong.cache)


def shaped_reward(response: Response, algo: Algorithm, max_tokens: int) -> float:
    """Return the reward of a response in training: its reward, less what its length costs."""
    return (response.reward or 0.0) + length_penalty(response, algo, max_tokens)
