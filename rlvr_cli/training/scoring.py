"""The forward passes before the first update: only those that the algorithm needs."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.model.adapter import switched_off
from rlvr_cli.model.packing import send
from rlvr_cli.model.policy import Critic, Policy
from rlvr_cli.ranks.group import sum_tensor
from rlvr_cli.training.batch import MicroBatch, micro_batches


@torch.no_grad()
def add_logprobs(
    samples: Samples,
    algo: Algorithm,
    micro_tokens: int,
    policy: Policy,
    reference: Policy | None = None,
    critic: Critic | None = None,
    uses_engine_logprobs: bool = False,
    proves_weights: bool = False,
) -> int:
    """Fill those of `old_logprobs`, `entropy`, `ref_logprobs` and the values that the algorithm
    needs. Return how many response tokens were passed.

    Tokens that are not anchored keep the engine's log-probabilities as old ones, and with
    `uses_engine_logprobs` all tokens do. With `proves_weights` the trainer's own of all fresh rows
    are computed in any case. The policy may be its own reference: as it was, without its adapter.
    """
    scorer = Scorer(policy, micro_tokens)
    picks_tokens = algo.top_entropy is not None
    needs_old = picks_tokens or (algo.needs_old_logprobs and not uses_engine_logprobs)
    if needs_old or proves_weights:
        samples.trainer_logprobs = _trainer_logprobs(samples, scorer, picks_tokens)
    if needs_old:
        trainer_logprobs = samples.column("trainer_logprobs")
        samples.old_logprobs = torch.where(
            samples.anchored, trainer_logprobs, samples.rollout_logprobs
        )
    if uses_engine_logprobs:
        samples.old_logprobs = samples.rollout_logprobs
    if reference is not None:
        with switched_off(policy.model) if reference is policy else nullcontext():
            (samples.ref_logprobs,) = scorer.score(
                samples,
                range(len(samples)),
                lambda part: reference(part.inputs, False).logprobs,
                model=reference,
            )
    if critic is not None and algo.critic is not None:
        _add_values(samples, scorer, critic, algo.critic.cut_off_value == "bootstrap")
    return scorer.tokens


@torch.no_grad()
def score_all(samples: Samples, micro_tokens: int, policy: Policy) -> None:
    """Fill the trainer's log-probabilities of all rows."""
    scorer = Scorer(policy, micro_tokens)
    (samples.trainer_logprobs,) = scorer.score(
        samples, range(len(samples)), lambda part: policy(part.inputs, False).logprobs
    )


@dataclass
class Scorer:
    """Runs models over rows of a batch, and counts the response tokens that pass."""

    policy: Policy
    micro_tokens: int
    tokens: int = 0

    def score(
        self,
        samples: Samples,
        rows: Sequence[int],
        compute: Callable[[MicroBatch], Tensor],
        columns: int = 1,
        model: Policy | None = None,
    ) -> Tensor:
        """Return `compute` of these rows as [columns, B, T], 0 in the others.

        `compute` gets micro-batches of b rows, laid out for `model` (the policy by default), and
        returns [columns, b, t].
        """
        device = self.policy.device
        T = max(map(len, samples.response_ids))
        scores = torch.zeros(columns, len(samples), T, dtype=self.policy.sum_dtype, device=device)
        for part in micro_batches(model or self.policy, samples, rows, self.micro_tokens):
            values = compute(part) * part.mask * part.weight
            places = send(torch.tensor(part.rows), device)
            scores[:, places, : values.shape[-1]] = values.to(scores.dtype)
        self.tokens += sum(len(samples.response_ids[row]) for row in rows)
        return sum_tensor(scores.cpu())  # the only point at which the GPU is waited for


def _trainer_logprobs(samples: Samples, scorer: Scorer, needs_entropy: bool) -> Tensor:
    """Compute the trainer's log-probabilities by a pass over rows with anchored tokens, or over all
    rows, with their `entropy` filled in, if needed."""
    has_anchored = samples.anchored.any(1)
    rows = [row for row in range(len(samples)) if needs_entropy or has_anchored[row]]
    scores = scorer.score(
        samples,
        rows,
        lambda part: torch.stack(scorer.policy(part.inputs, needs_entropy)[:2]),
        columns=2,
    )
    samples.entropy = scores[1] if needs_entropy else None
    return scores[0]


def _add_values(samples: Samples, scorer: Scorer, critic: Critic, bootstraps: bool) -> None:
    """Fill `old_values`, and `end_value`: 0 after a true end, V if a cut-off one bootstraps."""
    response_ids = list(samples.response_ids)
    if bootstraps:
        # A cut-off response gets one more token, whose value is the one after its last.
        for row in samples.is_cut_off.nonzero()[:, 0].tolist():
            response_ids[row] = [*response_ids[row], response_ids[row][-1]]

    def compute(part: MicroBatch) -> Any:
        if critic.body is not None:
            return critic(part.inputs, None)
        return critic(part.inputs, scorer.policy(part.inputs, with_head=False))

    extended = replace(samples, response_ids=response_ids)
    (values,) = scorer.score(extended, range(len(samples)), compute)
    samples.old_values = values[:, : samples.mask.shape[1]] * samples.mask
    ends = samples.mask.sum(1, keepdim=True).long()
    samples.end_value = F.pad(values, (0, 1)).gather(1, ends)[:, 0]
