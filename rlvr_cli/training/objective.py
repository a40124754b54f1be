"""Compute the objective of one micro-batch: forward pass, loss, and metrics."""

import torch

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.loss import critic_loss, policy_loss
from rlvr_cli.algorithm.objective import LossDenominators, LossInputs
from rlvr_cli.model.policy import Critic, Policy, TokenStats
from rlvr_cli.training.batch import MicroBatch


class Objective:
    """The loss of the algorithm; `kl_coef` is the present value of an adaptive coefficient."""

    def __init__(self, policy: Policy, critic: Critic | None, algo: Algorithm) -> None:
        self.policy, self.critic, self.algo = policy, critic, algo
        self.kl_coef = algo.kl.coef if algo.kl is not None else 0.0

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
        clipped = per_token["clip_fraction"]
        batch.note((inputs.logprobs, inputs.ratio, inputs.advantages, inputs.entropy, clipped))
        gap = (inputs.rollout_logprobs - inputs.old_logprobs).abs()
        per_token["mismatch"] = gap * batch.is_fresh
        if "ref_kl" in per_token:  # an estimate for samples of the policy itself
            per_token["ref_kl"] = per_token["ref_kl"] * batch.is_fresh
        if self.critic is not None and algo.critic is not None:
            values = self.critic(batch.inputs, stats.states)
            old_values, returns = batch.column("old_values"), batch.column("returns")
            extra, per_token["value_loss"] = critic_loss(
                algo.critic, values, old_values, returns, batch.mask, denominators
            )
            loss = loss + extra if learns_policy else extra
        return loss, per_token

    def _loss_inputs(self, batch: MicroBatch, stats: TokenStats) -> LossInputs:
        """Choose old log-probabilities: those taken before the first of several updates, else the
        engine's for a carried row and its own at this moment for a fresh one. They stand for the
        engine's where nothing was sampled."""
        old, sampled = batch.column("old_logprobs"), batch.column("rollout_logprobs")
        is_sampled = batch.samples.rollout_logprobs is not None
        if batch.samples.old_logprobs is None:
            own = stats.logprobs.detach().to(old)
            old = torch.where(batch.is_fresh, own, sampled) if is_sampled else own
        return LossInputs(
            logprobs=stats.logprobs,
            entropy=stats.entropy,
            old_logprobs=old,
            rollout_logprobs=sampled if is_sampled else old,
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
