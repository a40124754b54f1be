"""The forward passes before the first update: only those that the algorithm needs."""

import dataclasses
from collections.abc import Callable, Sequence

import torch

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.samples import TrainingSample
from rlvr_cli.model.policy import Critic, Policy
from rlvr_cli.ranks.group import joined
from rlvr_cli.training.batch import MicroBatch, batches_for


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
    def add_logprobs(self, samples: Sequence[TrainingSample]) -> list[TrainingSample]:
        """Return the samples with those of `old_logprobs`, `entropy`, `ref_logprobs` and
        `old_values` that the algorithm needs; carried samples keep the engine's as old ones."""
        done = list(samples)
        if self.algo.top_entropy is not None or self.algo.updates > 1 or self.algo.rewards_kl:
            needed = [s for s in done if s.is_fresh or self.algo.top_entropy is not None]
            found = self._each(needed, self._own_stats)
            done = [
                dataclasses.replace(
                    sample,
                    old_logprobs=found[id(sample)][:, 0]
                    if sample.is_fresh
                    else sample.rollout_logprobs,
                    entropy=found[id(sample)][:, 1] if id(sample) in found else None,
                )
                for sample in done
            ]
        if self.reference is not None:
            logprobs = self._each(done, self._ref_logprobs)
            done = [
                dataclasses.replace(sample, ref_logprobs=logprobs[id(sample)]) for sample in done
            ]
        if self.critic is not None:
            done = self._with_values(done)
        return done

    def _with_values(self, samples: list[TrainingSample]) -> list[TrainingSample]:
        """Add values; a cut-off response gets one more token, whose value follows its last."""
        critic = self.algo.critic
        bootstraps = critic is not None and critic.cut_off_value == "bootstrap"
        longer = [
            dataclasses.replace(
                sample, response_ids=[*sample.response_ids, sample.response_ids[-1]]
            )
            if bootstraps and sample.is_cut_off
            else sample
            for sample in samples
        ]
        found = self._each(longer, self._values)
        return [
            dataclasses.replace(
                sample,
                old_values=found[id(one)][: len(sample.response_ids)],
                end_value=0.0 if one is sample else float(found[id(one)][-1]),
            )
            for sample, one in zip(samples, longer, strict=True)
        ]

    def _own_stats(self, batch: MicroBatch) -> torch.Tensor:
        stats = self.policy.token_stats(batch.inputs, self.algo.top_entropy is not None)
        return torch.stack((stats.logprobs, stats.entropy), -1)

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
        self, samples: Sequence[TrainingSample], compute: Callable[[MicroBatch], torch.Tensor]
    ) -> dict[int, torch.Tensor]:
        """Return `compute` [B, T, …] by the sample's identity, cut to its own [T, …]."""
        self._tokens += sum(len(sample.response_ids) for sample in samples)
        found = {
            id(sample): values[: len(sample.response_ids)] * batch.counts
            for batch in batches_for(self.policy, samples, self.micro_tokens)
            for sample, values in zip(batch.samples, compute(batch), strict=True)
        }
        return joined(found, [(id(sample), len(sample.response_ids)) for sample in samples])
