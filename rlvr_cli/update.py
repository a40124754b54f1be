"""One batch to optimizer steps. The gradient does not depend on how the batch is cut."""

import dataclasses
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

import torch

from rlvr_cli.algorithms import Algorithm
from rlvr_cli.batch import MicroBatch, Row, micro_batches, padded
from rlvr_cli.config import OptimConfig
from rlvr_cli.objective import (
    AGGREGATIONS,
    KL_ESTIMATORS,
    clipped_surrogate,
    importance_ratio,
    is_clipped,
    kl_k1,
)
from rlvr_cli.policy import Policy, TokenStats
from rlvr_cli.types import UserError


class Updater:
    """The optimizer and what one micro-batch contributes to the objective."""

    def __init__(
        self, policy: Policy, reference: Policy | None, algorithm: Algorithm, optim: OptimConfig
    ) -> None:
        self.policy, self.reference = policy, reference
        self.algorithm, self.optim = algorithm, optim
        self.optimizer = torch.optim.AdamW(
            policy.model.parameters(),
            lr=optim.lr,
            betas=optim.betas,
            weight_decay=optim.weight_decay,
        )
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / max(1, optim.warmup_steps))
        )

    def update(self, rows: Sequence[Row], rng: random.Random) -> dict[str, float]:
        """`optim.updates` optimizer steps, each on its own share of the rows; their metrics."""
        updates = min(self.optim.updates, len(rows))
        if updates > 1:
            rows = self._with_old_logprobs(rows)
        shuffled = rng.sample(rows, len(rows))
        sums: defaultdict[str, float] = defaultdict(float)
        for share in range(updates):
            self._step(shuffled[share::updates], sums)
        tokens = sum(len(row.response_ids) for row in rows)
        fresh = sum(len(row.response_ids) for row in rows if row.is_fresh)
        counts = {"loss": updates, "grad_norm": updates, "lr": updates, "mismatch": max(fresh, 1)}
        means = {name: value / counts.get(name, tokens) for name, value in sums.items()}
        return means | {"tokens_trained": tokens}

    def objective(
        self, batch: MicroBatch, stats: TokenStats, total_tokens: int, total_responses: int
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The micro-batch's share of the step's loss, and per-token metrics [B, T]."""
        cells = self.algorithm
        old_logprobs = old_policy_logprobs(batch, stats.logprobs)
        ratio = importance_ratio(stats.logprobs, old_logprobs)
        bounds = (cells.clip_low, cells.clip_high)
        token_loss = -clipped_surrogate(ratio, batch.advantages, *bounds)
        per_token = {
            "entropy": stats.entropy,
            "approx_kl": -kl_k1(stats.logprobs, old_logprobs).detach(),
            "clip_fraction": is_clipped(ratio, batch.advantages, *bounds).float(),
            "mismatch": (batch.rollout_logprobs - old_logprobs).abs(),
        }
        if self.reference is not None:
            with torch.no_grad():
                ref_logprobs = self.reference.token_stats(batch).logprobs
            kl = KL_ESTIMATORS[cells.kl](stats.logprobs, ref_logprobs)
            token_loss = token_loss + cells.kl_coef * kl
            per_token["ref_kl"] = kl.detach()
        weights = AGGREGATIONS[cells.aggregation](batch.mask, total_tokens, total_responses)
        return (weights * token_loss).sum(), per_token

    def _step(self, rows: Sequence[Row], sums: defaultdict[str, float]) -> None:
        total_tokens = sum(len(row.response_ids) for row in rows)
        self.optimizer.zero_grad(set_to_none=True)
        for batch in self._micro_batches(rows):
            stats = self.policy.token_stats(batch)
            loss, per_token = self.objective(batch, stats, total_tokens, len(rows))
            loss.backward()
            sums["loss"] += float(loss.detach())
            for name, values in per_token.items():
                sums[name] += float((values * batch.mask).sum())
        sums["lr"] += float(self.schedule.get_last_lr()[0])
        norm = torch.nn.utils.clip_grad_norm_(self.policy.model.parameters(), self.optim.grad_clip)
        if not norm.isfinite():
            raise UserError(
                "the gradient is not finite, so this step was not taken; lower --lr or "
                "--set optim.grad_clip"
            )
        sums["grad_norm"] += float(norm)
        self.optimizer.step()
        self.schedule.step()

    def _micro_batches(self, rows: Sequence[Row]) -> Iterator[MicroBatch]:
        return micro_batches(rows, self.optim.micro_tokens, self.policy.head.weight)

    @torch.no_grad()
    def _with_old_logprobs(self, rows: Sequence[Row]) -> list[Row]:
        """The fresh rows' log-probabilities before the first of several updates changes them."""
        done = [row for row in rows if not row.is_fresh]
        fresh = [row for row in rows if row.is_fresh]
        for batch in self._micro_batches(fresh):
            logprobs = self.policy.token_stats(batch).logprobs
            done += [
                dataclasses.replace(row, old_logprobs=values[: len(row.response_ids)])
                for row, values in zip(batch.rows, logprobs, strict=True)
            ]
        return done


def old_policy_logprobs(batch: MicroBatch, logprobs: torch.Tensor) -> torch.Tensor:
    """[B, T] of the policy that sampled each row, without a gradient.

    A carried-over row: the engine's own. A fresh row: those taken before the first of several
    updates, else the policy's own at this moment, which costs no forward pass.
    """
    T = batch.mask.shape[1]
    rows = []
    for index, row in enumerate(batch.rows):
        if not row.is_fresh:
            rows.append(batch.rollout_logprobs[index])
        elif row.old_logprobs is not None:
            rows.append(padded([row.old_logprobs], T)[0])
        else:
            rows.append(logprobs[index].detach())
    return torch.stack(rows)
