"""The values that pass through the loop. P prompts, G group, T tokens."""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Generic, Literal, NamedTuple, TypeVar

from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.text import opens_thought

try:
    from verifiers import Attempt, Format, Verdict, Verification
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
FAILURE = re.compile(
    "abort|block|cancel|error|exception|fail|filter|guardrail|prohibit|recitation|safety|time_?out"
)
"""What is in the word for the end of a response that a program failed to give or withheld."""
TIE = 1e-9
"""Rewards that differ by no more are equal. Weighted sums round at 1e-16 of their size."""
Turn = tuple[str, str]
"""Role and text of a turn of a chat."""

OnStep = Callable[[JsonObject, Sequence[Sequence[JsonObject]]], object]
"""A function that hears of each finished step: its line of metrics.jsonl, and its groups as rows of
responses."""

TokenIds = Sequence[int]
"""A text as the tokenizer's numbers."""
VersionRuns = tuple[tuple[int, int], ...]
"""The weights that sampled the tokens of a response, in runs from its start: the number of updates
before them, and the tokens that they sampled."""

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
    opening: str = ""
    """The beginning of every response, which the policy goes on from."""
    place: str = field(default="", compare=False)
    """The place of its row, as messages name it (`file:line`)."""

    @property
    def problem_set(self) -> str:
        """Return the name of its set, which is empty for a single set."""
        return str(self.extra.get(PROBLEM_SET, ""))

    @property
    def row(self) -> JsonObject:
        """Return the problem as a row: its fields, then those of the data."""
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
    versions: VersionRuns = ()
    """Empty if the weights of its group sampled all of its tokens."""


@dataclass(frozen=True)
class Unfinished:
    """A response that goes on in the next round, under the weights of that time."""

    prompt: Prompt
    seed: int
    """Its random stream, of which each token takes one number."""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    """Log-probability of each token under the weights that sampled it."""
    versions: VersionRuns = ()

    @property
    def position(self) -> int:
        """Return how far its random stream went: the number of the next token."""
        return len(self.token_ids)

    @property
    def context(self) -> tuple[int, ...]:
        """Return the tokens that the next one follows."""
        return (*self.prompt.token_ids, *self.token_ids)

    def age(self, weight_version: int) -> int:
        """Return the number of updates since its first token."""
        return weight_version - self.versions[0][0] if self.versions else 0

    def extended(self, more: Completion, weight_version: int) -> "Unfinished":
        """Return it with further tokens that these weights sampled."""
        runs = list(self.versions)
        count = len(more.token_ids)
        if runs and runs[-1][0] == weight_version:
            count += runs.pop()[1]
        return replace(
            self,
            token_ids=(*self.token_ids, *more.token_ids),
            logprobs=(*self.logprobs, *more.logprobs),
            versions=(*runs, (weight_version, count)),
        )

    def ended(self, finish_reason: FinishReason) -> Completion:
        """Return it as a completion that ends here."""
        return Completion(self.token_ids, self.logprobs, finish_reason, self.versions)


Member = Unfinished | Completion | None
"""A response of a group whose turn has not come. None is one that was dropped."""


class Label(NamedTuple):
    """The model and the problem set of a response. All responses of a label are one result."""

    model: str
    data: str


@dataclass(frozen=True)
class Origin:
    """Where a response stood that was read from a row of a file."""

    place: str
    """The place of the row, as messages name it (`file:line`)."""
    label: Label
    answer_format: Format | None
    """The format by which the row's own verdict was given, if it names one."""
    gold: str | None
    """The gold answer of the row itself. That of the problem counts, which may be a named set's."""


@dataclass(frozen=True, kw_only=True)
class Response:
    """One response to a problem, of an engine, a server, a file or a run's directory."""

    problem: Problem
    sample: int = 0
    """Its number among the responses to the problem."""
    text: str
    prompt_text: str | None = None
    """The prompt as the policy got it. None if it is not known."""
    finish_reason: str | None = None
    """`length` if it was cut off, any other word if it ended. None if that is not known."""
    n_tokens: int | None = None
    verification: Verification | None = None
    """None if there is no gold answer, or it was not judged yet."""
    reward: float | None = None
    """None if the response was not judged (no gold answer, an unreadable one, or a timeout), or if
    no reward function took it."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """The rewards by name whose weighted sum is `reward`, if there are others than `math`, and
    figures of them as NAME/FIGURE."""
    places: tuple[tuple[int, float], ...] = ()
    """What of `reward` is earned before the end of the text: the number of characters up to there,
    and the weighted reward. The last token earns the rest."""
    origin: Origin | None = None
    """None for a response that was sampled here, or asked of a server."""
    versions: VersionRuns = ()
    """Empty if one version of the weights sampled it, or if that is not known."""

    def reward_of(self, name: str) -> float | None:
        """Return one of the rewards. Return None if its function left the response out."""
        return self.rewards.get(name) if self.rewards else self.reward

    @property
    def think_open(self) -> bool:
        """Return whether the prompt has already opened `<think>`."""
        return opens_thought(self.prompt_text)

    @property
    def is_cut_off(self) -> bool:
        """Return whether the limit of tokens ended it."""
        return self.finish_reason == "length"

    @property
    def has_failed(self) -> bool:
        """Return whether it is no response of the model: there was an error, or it was aborted or
        filtered."""
        return self.finish_reason is not None and bool(FAILURE.search(self.finish_reason))

    @property
    def verdict(self) -> Verdict | None:
        """Return its verdict, or None before it is judged."""
        return None if self.verification is None else self.verification.verdict

    @property
    def extracted(self) -> str | None:
        """Return the answer that was found in it."""
        return None if self.verification is None else self.verification.extracted

    @property
    def is_correct(self) -> bool:
        """Return whether the verdict is `correct`, which includes a required format."""
        return self.verdict is Verdict.CORRECT

    @property
    def has_verdict(self) -> bool:
        """Return whether the response has a reward, and its verdict, if any, is about it."""
        return self.reward is not None and self.verdict not in WITHOUT_VERDICT

    @property
    def attempt(self) -> Attempt:
        """Return the response and its gold answer as a verifier takes them."""
        from verifiers.gym import place_of

        return Attempt(
            self.text,
            self.problem.answer or "",
            think_open=self.think_open,
            truncated=self.is_cut_off,
            place=place_of(self.problem.row),
            problem=self.problem.problem or None,
        )


@dataclass(frozen=True, kw_only=True)
class Rollout(Response):
    """A response that an engine sampled here, with its tokens: what trains."""

    prompt: Prompt
    completion: Completion

    @classmethod
    def of(
        cls,
        prompt: Prompt,
        sample: int,
        completion: Completion,
        text: str,
        verification: Verification | None = None,
        reward: float | None = None,
        rewards: Mapping[str, float] = MappingProxyType({}),
        places: Iterable[tuple[int, float]] = (),
    ) -> "Rollout":
        """Return the response to a prompt whose tokens are those of the completion."""
        return cls(
            problem=prompt.problem,
            sample=sample,
            text=text,
            prompt_text=prompt.text,
            finish_reason=completion.finish_reason,
            n_tokens=len(completion.token_ids),
            verification=verification,
            reward=reward,
            rewards=dict(rewards),
            places=tuple(places),
            versions=completion.versions,
            prompt=prompt,
            completion=completion,
        )

    @property
    def think_open(self) -> bool:
        """Return whether the chat template has already opened `<think>`."""
        return self.prompt.think_open


R = TypeVar("R", bound=Response)


class ResponseGroup(Generic[R]):
    """Responses to one problem that were sampled together."""

    @property
    def responses(self) -> Sequence[R]:
        """Return the responses in the order of their numbers."""
        raise NotImplementedError

    @property
    def is_mixed(self) -> bool:
        """Return whether 0 < correct < verdicts, DAPO's condition. Shaped rewards do not matter."""
        verdicts = [response.is_correct for response in self.responses if response.has_verdict]
        return 0 < sum(verdicts) < len(verdicts)

    def differs_in(self, metric: str) -> bool:
        """Return whether judged responses differ in accuracy (or `auto`), in the sum `reward`, or
        in one of the rewards."""
        if metric in ("accuracy", "auto"):
            return self.is_mixed
        if metric == "reward":
            return are_different(response.reward for response in self.judged)
        return are_different(response.reward_of(metric) for response in self.judged)

    @property
    def judged(self) -> list[R]:
        """Return the responses that have a reward: no timeout, no unreadable gold answer."""
        return [response for response in self.responses if response.reward is not None]


@dataclass(frozen=True)
class Group(ResponseGroup[Rollout]):
    """The G responses to one prompt, and the number of the weights that sampled them."""

    prompt: Prompt
    rollouts: tuple[Rollout, ...]
    weight_version: int

    @property
    def responses(self) -> Sequence[Rollout]:
        """Return the responses in the order of their numbers."""
        return self.rollouts


@dataclass(frozen=True)
class OpenGroup:
    """A group that was begun and has not been trained on, in the order of the problems."""

    place: int
    """The place of its problem in the order in which problems are drawn."""
    problem: int
    """The number of its problem."""
    prompt: Prompt
    members: tuple[Member, ...]
    group: Group | None = None
    """The judged group, once its last response has ended."""

    @property
    def unfinished(self) -> list[int]:
        """Return the numbers of the responses that go on."""
        if self.group is not None:
            return []
        return [n for n, member in enumerate(self.members) if isinstance(member, Unfinished)]

    @property
    def completions(self) -> list[Completion]:
        """Return the responses that have ended."""
        return [member for member in self.members if isinstance(member, Completion)]


def are_different(rewards: Iterable[float | None]) -> bool:
    """Return whether two of the rewards differ by more than `TIE`. None is left out."""
    numbers = [reward for reward in rewards if reward is not None]
    return bool(numbers) and max(numbers) - min(numbers) > TIE
