"""Turn judged responses into training samples, rewards shaped by length."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.kinds import SoftOverlong
from rlvr_cli.algorithm.reward import overlong_penalty
from rlvr_cli.core.types import Group


@dataclass(frozen=True)
class TrainingSample:
    """One response to train on; tensors are [T], None where the algorithm has no use for them."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    rollout_logprobs: torch.Tensor | None
    """The engine's; None for a response that was not sampled."""
    reward: float
    """The reward of the whole response, shaped by its length if configured."""
    group: int
    """Equal numbers for responses to one prompt that were sampled together."""
    is_fresh: bool
    """Whether the weights at the start of this step sampled it; False if carried over."""
    is_cut_off: bool
    is_correct: bool = False
    sample: int = 0
    """Its number among the responses to its prompt."""
    old_logprobs: torch.Tensor | None = None
    """None for a fresh sample that trains once: the policy's own at that moment."""
    ref_logprobs: torch.Tensor | None = None
    entropy: torch.Tensor | None = None
    old_values: torch.Tensor | None = None
    end_value: float = 0.0
    """V after the last token."""
    advantages: torch.Tensor | None = None
    returns: torch.Tensor | None = None


def to_samples(
    groups: Sequence[Group], algo: Algorithm, max_tokens: int, weight_version: int
) -> list[TrainingSample]:
    """Return the judged responses of the groups as samples, rewards shaped by length if configured;
    all of them where they are those of the data's rows."""
    samples = []
    for number, group in enumerate(groups):
        for rollout in group.rollouts if algo.reads_responses else group.judged:
            completion = rollout.completion
            reward = rollout.reward or 0.0
            if isinstance(algo.overlong, SoftOverlong):
                n_tokens = len(completion.token_ids)
                reward += overlong_penalty(n_tokens, max_tokens, algo.overlong.cache)
            samples.append(
                TrainingSample(
                    prompt_ids=group.prompt.token_ids,
                    response_ids=completion.token_ids,
                    rollout_logprobs=None
                    if algo.reads_responses
                    else torch.tensor(completion.logprobs, dtype=torch.float64),
                    reward=reward,
                    group=number,
                    is_fresh=group.weight_version == weight_version,
                    is_cut_off=completion.finish_reason == "length",
                    is_correct=rollout.is_correct,
                    sample=rollout.sample,
                )
            )
    return samples
