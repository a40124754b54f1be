"""Compute the objective of one micro-batch: forward pass, loss, and metrics."""

import torch

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.loss import critic_loss, policy_loss
from rlvr_cli.algorithm.objective import LossDenominators, LossInputs
from rlvr_cli.model.policy import Critic, Policy, TokenStats
from rlvr_cli.training.batch import MicroBatch
from rlvr_cli.training.tokens import TokenWatch


class Objective:
    """The loss of the algorithm; `kl_coef` is the present value of an adaptive coefficient."""

    def __init__(self, policy: Policy, critic: Critic | None, algo: Algorithm) -> None:
        self.policy, self.critic, self.algo = policy, critic, algo
        self.kl_coef = algo.kl.coef if algo.kl is not None else 0.0
        self.watch = TokenWatch()

    def __call__(
        self, batch: MicroBatch, denominators: LossDenominators, learns_policy: bool = True
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Compute the micro-batch's share of the step's loss, and per-token metrics [B, T].

        While only the critic learns, the policy is measured all the same.
        """
        algo = self.algo
        with torch.set_grad_enabled(learns_policy):
            entropy_gradient = algo.entropy_coef > 0
            stats = self.policy.token_stats(batch.inputs, entropy_gradient=entropy_gradient)
            inputs = self._loss_inputs(batch, stats)
            loss, per_token = policy_loss(algo, inputs, denominators, self.kl_coef)
        self.watch.note(batch, inputs, per_token["clip_fraction"])
        fresh = torch.tensor([[float(sample.is_fresh)] for sample in batch.samples]).to(batch.mask)
        per_token["mismatch"] = (inputs.rollout_logprobs - inputs.old_logprobs).abs() * fresh
        if "ref_kl" in per_token:  # an estimate for samples of the policy itself
            per_token["ref_kl"] = per_token["ref_kl"] * fresh
        if self.critic is not None and algo.critic is not None:
            values = self.critic(batch.inputs, stats.states)
            old_values, returns = batch.column("old_values"), batch.column("returns")
            extra, per_token["value_loss"] = critic_loss(
                algo.critic, values, old_values, returns, batch.mask, denominators
            )
            loss = loss + extra if learns_policy else extra
        return loss, per_token

    def _loss_inputs(self, batch: MicroBatch, stats: TokenStats) -> LossInputs:
        """Choose old log-probabilities: the engine's for a carried-over sample; for a fresh one
        those taken before the first of several updates, else its own at this moment. They stand for
        the engine's where nothing was sampled."""
        rollout_logprobs = batch.column("rollout_logprobs")
        own = torch.tensor(
            [sample.is_fresh and sample.old_logprobs is None for sample in batch.samples]
        )
        carried = torch.tensor([not sample.is_fresh for sample in batch.samples])
        old_logprobs = batch.column("old_logprobs")
        old_logprobs[own] = stats.logprobs.detach()[own].to(old_logprobs)
        old_logprobs[carried] = rollout_logprobs[carried]
        given = torch.tensor([sample.rollout_logprobs is None for sample in batch.samples])
        rollout_logprobs[given] = old_logprobs[given]
        return LossInputs(
            logprobs=stats.logprobs,
            entropy=stats.entropy,
            old_logprobs=old_logprobs,
            rollout_logprobs=rollout_logprobs,
            ref_logprobs=batch.column("ref_logprobs"),
            advantages=batch.column("advantages"),
            mask=batch.mask,
        )

    @torch.no_grad()
    def divergences(
        self, batch: MicroBatch, denominators: LossDenominators
    ) -> dict[str, torch.Tensor]:
        """Compute the policy's divergence from sampler and reference, nats [B, T]."""
        inputs = self._loss_inputs(batch, self.policy.token_stats(batch.inputs))
        _, per_token = policy_loss(self.algo, inputs, denominators, self.kl_coef)
        return {name: per_token[name] for name in ("approx_kl", "ref_kl") if name in per_token}
