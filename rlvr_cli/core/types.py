"""The values that pass through the loop, and groups as JSON. P prompts, G group, T tokens."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from rlvr_cli.core.jsonl import JsonObject

try:
    from verifiers import Verdict, Verification
except ImportError:
    from rlvr_cli.core.libraries import other_verifiers

    raise ImportError(other_verifiers() or "verifiers, a part of rlvr, is damaged") from None

FinishReason = Literal["stop", "length"]
FieldName = Literal["problem", "answer", "id", "response"]
"""The fields that are read from a row of a problem set, or of responses to one."""

PROBLEM_SET = "problem_set"
"""The field of a row that names the set of its problem, where there are several."""
TOKEN_FIGURES = ("logprob", "ratio", "advantage", "entropy", "clipped")
"""The figures that a run keeps of a token that an update saw."""
WITHOUT_VERDICT = (Verdict.TIMEOUT, Verdict.UNPARSEABLE_GOLD)
"""Verdicts that are not about the response: it gets no reward."""
TIE = 1e-9
"""Rewards that differ by no more are equal. Weighted sums round at 1e-16 of their size."""
Turn = tuple[str, str]
"""Role and text of a turn of a chat."""

OnStep = Callable[[JsonObject, Sequence[Sequence[JsonObject]]], object]
"""A function that hears of each finished step: its line of metrics.jsonl, and its groups as rows of
responses."""

TokenIds = Sequence[int]
"""A text as the tokenizer's numbers."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def by_key(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Group the items by a key, in the order in which the keys first come."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


@dataclass(frozen=True)
class Problem:
    """One problem as it was read. `answer` is None if there is no gold answer, as in `sample`."""

    id: str
    problem: str
    answer: str | None
    extra: JsonObject = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()
    """The turns before the problem, if it is the last turn of a chat."""
    is_chat: bool = False
    """Whether the data has it as a chat, maybe of one turn."""

    @property
    def row(self) -> JsonObject:
        """Return the problem as a row: its own fields beside those of the data."""
        return {**self.extra, "id": self.id, "problem": self.problem, "answer": self.answer}


@dataclass(frozen=True)
class Prompt:
    """A problem rendered for the policy."""

    problem: Problem
    text: str
    token_ids: tuple[int, ...]
    think_open: bool
    """Whether the chat template has already opened `<think>`."""


@dataclass(frozen=True)
class SamplingParams:
    """Settings of sampling: `samples` responses a prompt, each of at most `max_tokens` tokens."""

    samples: int
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0


@dataclass(frozen=True)
class Completion:
    """One sampled response. If it ended by itself, its last token is an end-of-sequence token."""

    token_ids: TokenIds
    logprobs: Sequence[float]
    """Log-probability of each token under the distribution it was sampled from."""
    finish_reason: FinishReason


@dataclass(frozen=True)
class Rollout:
    """One response with its verdict."""

    prompt: Prompt
    sample: int
    completion: Completion
    text: str
    verification: Verification | None
    """None if there is no gold answer."""
    reward: float | None
    """None if the response was not judged (no gold answer, an unreadable one, or a timeout), or if
    no reward function took it."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """The rewards by name whose weighted sum is `reward`, if there are others than `math`, and
    figures of them as NAME/FIGURE."""
    places: tuple[tuple[int, float], ...] = ()
    """What of `reward` is earned before the end of the text: the number of characters up to there,
    and the weighted reward. The last token earns the rest."""

    def reward_of(self, name: str) -> float | None:
        """Return one of the rewards. Return None if its function left the response out."""
        return self.rewards.get(name) if self.rewards else self.reward

    @property
    def is_correct(self) -> bool:
        """Return whether the verdict is `correct`, which includes a required format."""
        return self.verification is not None and self.verification.verdict is Verdict.CORRECT

    @property
    def has_verdict(self) -> bool:
        """Return whether the response has a reward, and its verdict, if any, is about it."""
        if self.reward is None:
            return False
        return self.verification is None or self.verification.verdict not in WITHOUT_VERDICT


@dataclass(frozen=True)
class Group:
    """The G responses to one prompt, and the number of the weights that sampled them."""

    prompt: Prompt
    rollouts: tuple[Rollout, ...]
    weight_version: int

    @property
    def is_mixed(self) -> bool:
        """Return whether 0 < correct < verdicts, DAPO's condition. Shaped rewards do not matter."""
        verdicts = [rollout.is_correct for rollout in self.rollouts if rollout.has_verdict]
        return 0 < sum(verdicts) < len(verdicts)

    def differs_in(self, metric: str) -> bool:
        """Return whether judged responses differ in accuracy (or `auto`), in the sum `reward`, or
        in one of the rewards."""
        if metric in ("accuracy", "auto"):
            return self.is_mixed
        if metric == "reward":
            return are_different(rollout.reward for rollout in self.judged)
        return are_different(rollout.reward_of(metric) for rollout in self.judged)

    @property
    def judged(self) -> list[Rollout]:
        """Return the responses that have a reward: no timeout, no unreadable gold answer."""
        return [rollout for rollout in self.rollouts if rollout.reward is not None]


def are_different(rewards: Iterable[float | None]) -> bool:
    """Return whether two of the rewards differ by more than `TIE`. None is left out."""
    numbers = [reward for reward in rewards if reward is not None]
    return bool(numbers) and max(numbers) - min(numbers) > TIE


def groups_as_json(groups: Sequence[Group], prompts: Sequence[Prompt]) -> list[JsonObject]:
    """Convert groups to JSON values, and their prompts to positions in `prompts`."""
    index = {id(prompt): number for number, prompt in enumerate(prompts)}
    return [
        {
            "prompt": index[id(group.prompt)],
            "weight_version": group.weight_version,
            "rollouts": [
                {
                    "text": rollout.text,
                    "completion": vars(rollout.completion),
                    "verification": rollout.verification and vars(rollout.verification),
                    "reward": rollout.reward,
                    "rewards": rollout.rewards,
                    "places": rollout.places,
                }
                for rollout in group.rollouts
            ],
        }
        for group in groups
    ]


def groups_from_json(rows: Sequence[JsonObject], prompts: Sequence[Prompt]) -> list[Group]:
    """Convert the values that `groups_as_json` returned back to groups."""
    groups = []
    for row in rows:
        prompt = prompts[row["prompt"]]
        rollouts = []
        for sample, values in enumerate(row["rollouts"]):
            fields = dict(values)
            fields["completion"] = Completion(**fields["completion"])
            fields["places"] = tuple(map(tuple, fields.get("places", ())))
            verification = fields["verification"]
            if verification is not None:
                verdict = Verdict(verification["verdict"])
                fields["verification"] = Verification(**{**verification, "verdict": verdict})
            rollouts.append(Rollout(prompt, sample, **fields))
        groups.append(Group(prompt, tuple(rollouts), row["weight_version"]))
    return groups
