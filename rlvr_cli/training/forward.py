"""Forward passes before the first update: what the algorithm needs to know, and no more."""

import dataclasses
from collections.abc import Callable, Sequence

import torch

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.rows import Row
from rlvr_cli.model.policy import Critic, Policy
from rlvr_cli.training.batch import MicroBatch, micro_batches


class ForwardPass:
    """Old and reference log-probabilities and values, without a gradient."""

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
        """How many response tokens went through a forward pass since the last call."""
        tokens, self._tokens = self._tokens, 0
        return tokens

    @torch.no_grad()
    def add_logprobs(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows with what the algorithm needs of `old_logprobs`, `ref_logprobs` and
        `old_values`; carried rows keep the engine's as old ones."""
        done = list(rows)
        if self.algo.updates > 1 or self.algo.rewards_kl:
            fresh = [row for row in done if row.is_fresh]
            logprobs = self._each(
                fresh, lambda batch: self.policy.token_stats(batch.inputs).logprobs
            )
            done = [
                dataclasses.replace(row, old_logprobs=logprobs.get(id(row), row.rollout_logprobs))
                for row in done
            ]
        if self.reference is not None:
            reference = self.reference
            logprobs = self._each(done, lambda batch: reference.token_stats(batch.inputs).logprobs)
            done = [dataclasses.replace(row, ref_logprobs=logprobs[id(row)]) for row in done]
        if self.critic is not None:
            done = self._with_values(done)
        return done

    def _with_values(self, rows: list[Row]) -> list[Row]:
        """A response that was cut off gets one token more, whose value is that after the last."""
        critic = self.algo.critic
        bootstraps = critic is not None and critic.cut_off_value == "bootstrap"
        longer = [
            dataclasses.replace(row, response_ids=[*row.response_ids, row.response_ids[-1]])
            if bootstraps and row.is_cut_off
            else row
            for row in rows
        ]
        found = self._each(longer, self._values)
        values = [found[id(row)] for row in longer]
        return [
            dataclasses.replace(
                row,
                old_values=value[: len(row.response_ids)],
                end_value=float(value[-1]) if len(value) > len(row.response_ids) else 0.0,
            )
            for row, value in zip(rows, values, strict=True)
        ]

    def _values(self, batch: MicroBatch) -> torch.Tensor:
        assert self.critic is not None
        if self.critic.body is not None:
            return self.critic.values(batch.inputs, None)
        return self.critic.values(batch.inputs, self.policy.hidden(batch.inputs))

    def _each(
        self, rows: Sequence[Row], compute: Callable[[MicroBatch], torch.Tensor]
    ) -> dict[int, torch.Tensor]:
        """`compute` [B, T] of every row, cut to its own [T], by the row's identity."""
        like, packed = self.policy.head.weight, self.policy.forward.packed
        self._tokens += sum(len(row.response_ids) for row in rows)
        with self.policy.mixed_precision():
            return {
                id(row): values[: len(row.response_ids)]
                for batch in micro_batches(rows, self.micro_tokens, like, packed)
                for row, values in zip(batch.rows, compute(batch), strict=True)
            }
