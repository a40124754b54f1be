"""The batch that one step trains on: a row a response, a column a fact, filled stage by stage."""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.group_filter import candidates
from rlvr_cli.algorithm.reward import Reward, length_penalty, shaped_reward
from rlvr_cli.core.types import TOKEN_FIGURES, Completion, Group, Rollout, TokenIds

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass
class Samples:
    """B responses, the longest of T tokens. Columns are [B] or, with 0 in the padding, [B, T].

    Each stage fills its own columns. A column that the algorithm does not need is None.
    """

    prompt_ids: list[TokenIds]
    response_ids: list[TokenIds]
    sample: list[int]
    """The number of a response among those to its prompt."""
    group: Tensor
    """The place of its group in the batch."""
    reward: Tensor
    """Of the whole response, shaped by its length if configured."""
    is_fresh: Tensor
    """[B, T]: whether the newest weights that may sample for this step sampled the token: those at
    its start or, with `rollout.ahead`, those of the step before. False for a carried response, and
    for the part of one that earlier weights sampled."""
    is_cut_off: Tensor
    is_correct: Tensor
    """Whether the verdict is `correct`, whatever the reward."""
    mask: Tensor
    """1 for the tokens of the response, the end token among them."""
    rollout_logprobs: Tensor
    """ROLLOUT: the engine's. 0 for responses that were not sampled."""
    token_figures: Tensor
    """[B, T, figures]: what the loss was computed from in the newest epoch (TOKEN_FIGURES)."""
    versions: Tensor | None = None
    """[B, T]: the number of updates before the token was sampled. `to_samples` fills it."""
    is_anchored: Tensor | None = None
    """[B, T]: whether the old log-probability of a token is the trainer's before the first update,
    and not the engine's. None if that is so for fresh tokens alone."""
    terms: Tensor | None = None
    """[B, rewards, 2]: the value and the weight of each reward, the length's penalty last. None if
    only their sum counts."""
    earlier_rewards: Tensor | None = None
    """[B, T]: what of the reward was earned before the end. None if nothing was."""
    server: list[str] | None = None
    """ROLLOUT: the server that sampled each response, empty for an engine of this process."""
    trainer_logprobs: Tensor | None = None
    """LOG-PROBABILITIES by the trainer, 0 for carried rows: what the engine's are compared with.
    None without such a pass."""
    old_logprobs: Tensor | None = None
    """LOG-PROBABILITIES of the policy that sampled: the trainer's, or all the engine's. None if a
    batch trains once (`Updater` says which ones the loss takes then)."""
    entropy: Tensor | None = None
    ref_logprobs: Tensor | None = None
    old_values: Tensor | None = None
    end_value: Tensor | None = None
    """[B]: V after the last token."""
    is_rejected: Tensor | None = None
    """CORRECTION, [B]: the response does not train, because the gap between engine and trainer is
    too large. None if the correction never rejects any."""
    advantages: Tensor | None = None
    """ADVANTAGE."""
    returns: Tensor | None = None
    passes: Tensor | None = None
    """UPDATE, [B]: how often the row was passed. Of rows without a part in the gradient only those
    that a mini-batch needs are."""

    def __len__(self) -> int:
        return len(self.response_ids)

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Return the tokens of each row's prompt and response."""
        pairs = zip(self.prompt_ids, self.response_ids, strict=True)
        return [(len(prompt), len(response)) for prompt, response in pairs]

    @property
    def passed_lengths(self) -> list[tuple[int, int]]:
        """Return the `lengths` of each row as often as the update passed it."""
        passes = [] if self.passes is None else self.passes.tolist()
        pairs = zip(self.lengths, passes, strict=True)
        return [length for length, count in pairs for _ in range(count)]

    @property
    def anchored(self) -> Tensor:
        """Return the tokens whose old log-probability is the trainer's, bool [B, T]."""
        return self.is_fresh if self.is_anchored is None else self.is_anchored

    def lag(self, weight_version: int) -> float | None:
        """Return the updates between the sampling of a token and these weights: the mean over the
        batch. Return None without a token."""
        if self.versions is None or not self.mask.any():
            return None
        return float((weight_version - self.versions)[self.mask.bool()].double().mean())

    def column(self, name: str) -> Tensor:
        """Return a column [B, T]. Return zeros if it was not filled."""
        column: Tensor | None = getattr(self, name)
        return torch.zeros_like(self.mask) if column is None else column

    def only(self, rows: Sequence[int]) -> "Samples":
        """Return a batch of these rows."""
        picked: dict[str, Any] = {}
        for name, column in vars(self).items():
            if isinstance(column, list):
                picked[name] = [column[row] for row in rows]
            elif column is not None:
                picked[name] = column[list(rows)]
        return Samples(**picked)


def to_samples(
    groups: Sequence[Group],
    algo: Algorithm,
    max_tokens: int,
    weight_version: int,
    terms: Sequence[Reward] = (),
    tokenizer: "PreTrainedTokenizerBase | None" = None,
    weighs_older: bool = False,
    ahead: int = 0,
) -> Samples:
    """Return the responses of the groups that may train as a batch. `terms` are the rewards, for an
    algorithm that normalizes each by itself. The tokenizer finds the tokens of rewards that were
    earned before the end. With `weighs_older` a correction weighs older tokens, so the trainer's
    log-probabilities are their old ones too. `ahead` is how many steps ahead a batch is sampled."""
    rollouts: list[Rollout] = []
    places: list[int] = []  # of each rollout's group
    for place, group in enumerate(groups):
        members = candidates(group, algo)
        rollouts += members
        places += [place] * len(members)
    completions = [rollout.completion for rollout in rollouts]
    T = max((len(completion.token_ids) for completion in completions), default=0)
    mask = _padded([[1.0] * len(completion.token_ids) for completion in completions], T)
    versions = _padded(
        [
            _token_versions(completion, groups[place].weight_version)
            for completion, place in zip(completions, places, strict=True)
        ],
        T,
    ).long()
    is_anchored = None
    if weighs_older:
        is_anchored = mask.bool()
    elif ahead:
        is_anchored = (versions == weight_version) & mask.bool()
    samples = Samples(
        prompt_ids=[groups[place].prompt.token_ids for place in places],
        response_ids=[completion.token_ids for completion in completions],
        sample=[rollout.sample for rollout in rollouts],
        group=torch.tensor(places),
        reward=torch.tensor(
            [shaped_reward(rollout, algo, max_tokens) for rollout in rollouts], dtype=torch.float64
        ),
        is_fresh=(versions >= weight_version - ahead) & mask.bool(),
        is_cut_off=torch.tensor([c.finish_reason == "length" for c in completions]),
        is_correct=torch.tensor([rollout.is_correct for rollout in rollouts]),
        mask=mask,
        rollout_logprobs=_padded([completion.logprobs for completion in completions], T),
        token_figures=torch.zeros(*mask.shape, len(TOKEN_FIGURES)),
        versions=versions,
        is_anchored=is_anchored,
        server=[completion.server for completion in completions],
    )
    if any(rollout.places for rollout in rollouts):
        samples.earlier_rewards = torch.zeros_like(mask)
        for row, rollout in zip(samples.earlier_rewards, rollouts, strict=True):
            matched = characters_after(rollout, tokenizer)
            for characters, reward in rollout.places:
                row[token_at(rollout, characters, matched)] += reward
    if algo.normalizes_each:
        rows = []
        for rollout in rollouts:
            row = []
            for term in terms:
                value = rollout.reward_of(term.name)
                row.append((math.nan if value is None else value, term.weight))
            rows.append([*row, (length_penalty(rollout, algo, max_tokens), 1.0)])
        shape = len(rollouts), len(terms) + 1, 2
        samples.terms = torch.tensor(rows, dtype=torch.float64).reshape(shape)
    return samples


def _token_versions(completion: Completion, group_version: int) -> list[int]:
    """Return the version of the weights that sampled each token."""
    runs = completion.versions or ((group_version, len(completion.token_ids)),)
    return [version for version, count in runs for _ in range(count)]


def characters_after(
    rollout: Rollout, tokenizer: "PreTrainedTokenizerBase"
) -> Callable[[int], int]:
    """Return a function of a token's number: how many characters of the text the tokens up to it
    decode to. It decodes each beginning once."""
    token_ids = list(rollout.completion.token_ids)

    @cache
    def matched(token: int) -> int:
        text = tokenizer.decode(token_ids[: token + 1], skip_special_tokens=True)
        if rollout.text.startswith(text):
            return len(text)
        pairs = zip(text, rollout.text, strict=False)  # it ends in half a character
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    return matched


def token_at(rollout: Rollout, characters: int, matched: Callable[[int], int]) -> int:
    """Return the number of the first token that completes the first `characters` of the text."""
    last = len(rollout.completion.token_ids) - 1
    return bisect_left(range(last), True, key=lambda token: matched(token) >= characters)


def _padded(rows: Sequence[Sequence[float]], T: int) -> Tensor:
    """Return rows of numbers as a tensor [B, T] in float64, with 0 after their ends."""
    filled = [[*row, *[0.0] * (T - len(row))] for row in rows]
    return torch.tensor(filled, dtype=torch.float64).reshape(len(rows), T)
