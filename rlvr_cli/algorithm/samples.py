"""The batch that one step trains on: a row a response, a column a fact, filled stage by stage."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.reward import Reward, length_penalty, shaped_reward
from rlvr_cli.core.types import TOKEN_FIGURES, Group


@dataclass
class Samples:
    """B responses, the longest of T tokens. Columns are [B] or, with 0 in the padding, [B, T].

    Each stage fills its own; one that is None was not filled, as the algorithm has no use for it.
    """

    prompt_ids: list[Sequence[int]]
    response_ids: list[Sequence[int]]
    sample: list[int]
    """Its number among the responses to its prompt."""
    group: torch.Tensor
    """Equal numbers for responses to one prompt that were sampled together."""
    reward: torch.Tensor
    """Of the whole response, shaped by its length if configured."""
    is_fresh: torch.Tensor
    """Whether the weights at the start of this step sampled it; False if carried over."""
    is_cut_off: torch.Tensor
    is_correct: torch.Tensor
    """Whether the verdict is `correct`, whatever the reward."""
    mask: torch.Tensor
    """1 for the tokens of the response, the end token among them."""
    seen: torch.Tensor
    """[B, T, figures]: what the newest epoch of the update saw of each token (TOKEN_FIGURES)."""
    terms: torch.Tensor | None = None
    """[B, rewards, 2]: the value and the weight of each reward, the length's penalty last; None
    where their sum is what counts."""
    rollout_logprobs: torch.Tensor | None = None
    """ROLLOUT: the engine's; None for responses that were not sampled."""
    old_logprobs: torch.Tensor | None = None
    """LOG-PROBABILITIES, of the policy that sampled, the trainer's or all the engine's; None where
    a batch trains once: then they are the engine's for what was carried over, and for the rest the
    policy's own at that moment."""
    entropy: torch.Tensor | None = None
    ref_logprobs: torch.Tensor | None = None
    old_values: torch.Tensor | None = None
    end_value: torch.Tensor | None = None
    """[B]: V after the last token."""
    is_rejected: torch.Tensor | None = None
    """CORRECTION, [B]: the gap between engine and trainer is too large, so that it does not train;
    None where nothing rejects."""
    advantages: torch.Tensor | None = None
    """ADVANTAGE."""
    returns: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.response_ids)

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Return the tokens of each row's prompt and response."""
        pairs = zip(self.prompt_ids, self.response_ids, strict=True)
        return [(len(prompt), len(response)) for prompt, response in pairs]

    def column(self, name: str) -> torch.Tensor:
        """Return a column [B, T]; zeros if it was not filled."""
        column: torch.Tensor | None = getattr(self, name)
        return torch.zeros_like(self.mask) if column is None else column

    def only(self, rows: Sequence[int]) -> "Samples":
        """Return a batch of these rows."""
        picked: dict[str, Any] = {
            name: [column[row] for row in rows] if isinstance(column, list) else column[list(rows)]
            for name, column in vars(self).items()
            if column is not None
        }
        return Samples(**picked)


def to_samples(
    groups: Sequence[Group],
    algo: Algorithm,
    max_tokens: int,
    weight_version: int,
    asked: Sequence[Reward] = (),
) -> Samples:
    """Return the judged responses of the groups as a batch; all of them where no verdict is needed.
    `asked` are the rewards of the sum, where the algorithm takes each by itself."""
    judged = [
        (number, group, rollout)
        for number, group in enumerate(groups)
        for rollout in (group.judged if algo.needs_verdicts else group.rollouts)
    ]
    completions = [rollout.completion for _, _, rollout in judged]
    mask = _padded([[1.0] * len(completion.token_ids) for completion in completions])
    rewards = [shaped_reward(rollout, algo, max_tokens) for _, _, rollout in judged]
    samples = Samples(
        prompt_ids=[group.prompt.token_ids for _, group, _ in judged],
        response_ids=[completion.token_ids for completion in completions],
        sample=[rollout.sample for _, _, rollout in judged],
        group=torch.tensor([number for number, _, _ in judged]),
        reward=torch.tensor(rewards, dtype=torch.float64),
        is_fresh=torch.tensor([group.weight_version == weight_version for _, group, _ in judged]),
        is_cut_off=torch.tensor([c.finish_reason == "length" for c in completions]),
        is_correct=torch.tensor([rollout.is_correct for _, _, rollout in judged]),
        mask=mask,
        seen=torch.zeros(*mask.shape, len(TOKEN_FIGURES)),
    )
    if not algo.reads_responses:
        samples.rollout_logprobs = _padded([completion.logprobs for completion in completions])
    if algo.normalizes_each:
        pairs = [
            [
                *((r.rewards.get(term.name, r.reward), term.weight) for term in asked),
                (length_penalty(r, algo, max_tokens), 1.0),
            ]
            for _, _, r in judged
        ]
        shape = len(judged), len(asked) + 1, 2
        samples.terms = torch.tensor(pairs, dtype=torch.float64).reshape(shape)
    return samples


def _padded(rows: Sequence[Sequence[float]]) -> torch.Tensor:
    """Return rows of numbers as a tensor [B, T] in float64, 0 behind their ends."""
    T = max(map(len, rows), default=0)
    filled = [[*row, *[0.0] * (T - len(row))] for row in rows]
    return torch.tensor(filled, dtype=torch.float64).reshape(len(rows), T)
