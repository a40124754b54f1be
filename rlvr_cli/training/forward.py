"""The forward passes before the first update: only those that the algorithm needs."""

import dataclasses
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.model.policy import Critic, Policy
from rlvr_cli.ranks.group import added_up
from rlvr_cli.training.batch import MicroBatch, micro_batches


class ForwardPass:
    """The pass that computes old and reference log-probabilities and values, without a gradient."""

    def __init__(
        self,
        policy: Policy,
        reference: Policy | None,
        critic: Critic | None,
        algo: Algorithm,
        micro_tokens: int,
    ) -> None:
        self.policy, self.reference, self.critic = policy, reference, critic
        self.algo, self.micro_tokens = algo, micro_tokens
        self._tokens = 0

    def take_tokens(self) -> int:
        """Return how many response tokens went through a forward pass since the last call."""
        tokens, self._tokens = self._tokens, 0
        return tokens

    @torch.no_grad()
    def add_logprobs(self, samples: Samples) -> None:
        """Fill those of `old_logprobs`, `entropy`, `ref_logprobs` and the values that the algorithm
        needs; carried rows keep the engine's log-probabilities as old ones."""
        every_row, picks_tokens = range(len(samples)), self.algo.top_entropy is not None
        if picks_tokens or self.algo.updates > 1 or self.algo.rewards_kl:
            needed = [row for row in every_row if picks_tokens or samples.is_fresh[row]]
            own, entropy = self._each(samples, needed, self._own_stats, 2)
            samples.old_logprobs, samples.entropy = own, entropy if picks_tokens else None
            if samples.rollout_logprobs is not None and not samples.is_fresh.all():
                fresh = samples.is_fresh[:, None]
                samples.old_logprobs = torch.where(fresh, own, samples.rollout_logprobs)
        if self.reference is not None:
            (samples.ref_logprobs,) = self._each(samples, every_row, self._ref_logprobs)
        if self.critic is not None:
            self._add_values(samples)

    def _add_values(self, samples: Samples) -> None:
        """Fill the values; a cut-off response gets one more token, whose value follows its last."""
        critic, ids = self.algo.critic, samples.response_ids
        if critic is not None and critic.cut_off_value == "bootstrap":
            cut_off = samples.is_cut_off.tolist()
            ids = [
                [*one, one[-1]] if is_cut else one for one, is_cut in zip(ids, cut_off, strict=True)
            ]
        longer = dataclasses.replace(samples, response_ids=ids)
        (values,) = self._each(longer, range(len(samples)), self._values)
        samples.old_values = values[:, : samples.mask.shape[1]] * samples.mask
        ends = samples.mask.sum(1, keepdim=True).long()
        samples.end_value = F.pad(values, (0, 1)).gather(1, ends)[:, 0]

    def _own_stats(self, batch: MicroBatch) -> torch.Tensor:
        stats = self.policy.token_stats(batch.inputs, self.algo.top_entropy is not None)
        return torch.stack((stats.logprobs, stats.entropy))

    def _ref_logprobs(self, batch: MicroBatch) -> torch.Tensor:
        """Without a reference of its own the policy is one: as it was, without its adapter."""
        assert self.reference is not None
        has_own = self.reference is not self.policy
        return self.reference.token_stats(batch.inputs, False, with_adapter=has_own).logprobs

    def _values(self, batch: MicroBatch) -> torch.Tensor:
        assert self.critic is not None
        states_N = self.policy.states(batch.inputs) if self.critic.body is None else None
        values: torch.Tensor = self.critic(batch.inputs, states_N)
        return values

    def _each(
        self,
        samples: Samples,
        rows: Sequence[int],
        compute: Callable[[MicroBatch], torch.Tensor],
        columns: int = 1,
    ) -> torch.Tensor:
        """Return `compute` [columns, b, t] of these rows as [columns, B, T], 0 in the others."""
        longest = max(map(len, samples.response_ids))
        found = torch.zeros(columns, len(samples), longest, dtype=self.policy.like.dtype)
        for batch in micro_batches(self.policy, samples, rows, self.micro_tokens):
            values = compute(batch) * batch.mask * batch.counts
            found[:, batch.rows, : values.shape[-1]] = values.to(found)
        self._tokens += sum(len(samples.response_ids[row]) for row in rows)
        return added_up(found)
