"""Train on one batch in optimizer steps. The gradient does not depend on how the batch is cut."""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence

import torch

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.kl import CONTROLS
from rlvr_cli.algorithm.loss import critic_loss, policy_loss
from rlvr_cli.algorithm.objective import LossDenominators, LossInputs, explained_variance
from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.config.sections import OptimConfig
from rlvr_cli.core.errors import EngineError
from rlvr_cli.model.adapter import trained
from rlvr_cli.model.packing import send
from rlvr_cli.model.policy import Critic, Policy, TokenStats
from rlvr_cli.ranks.group import sum_values, sync_gradients, whole, world
from rlvr_cli.training.batch import MicroBatch, micro_batches
from rlvr_cli.training.optimizer import new_optimizer, set_rates
from rlvr_cli.training.record import Watch, counted
from rlvr_cli.training.state import (
    State,
    load_module,
    load_optimizer,
    module_state,
    optimizer_state,
)

SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
}
"""The learning rate's share of its peak, by the share of the steps after the warm-up."""
ROUNDING = 1e-5
"""Nats a token: float32 on one machine differs by 1e-7 to 1e-6, an engine in bfloat16 by 1e-2."""


class Updater:
    """The objective of policy and critic, their optimizer, and the epochs over a batch."""

    def __init__(
        self,
        policy: Policy,
        critic: Critic | None,
        algo: Algorithm,
        optim: OptimConfig,
        max_tokens: int,
        steps: int,
        mismatch_limit: float = math.inf,
    ) -> None:
        self.policy, self.critic, self.algo, self.optim = policy, critic, algo, optim
        self.max_tokens, self.steps, self.mismatch_limit = max_tokens, steps, mismatch_limit
        self.kl_coef = algo.kl.coef if algo.kl is not None else 0.0
        """The present value of an adaptive coefficient."""
        self.mismatch: float | None = None
        """The gap between engine and trainer that the newest step measured, the mean over fresh
        tokens of |engine - trainer| log-probability; None where nothing was measured yet."""
        self.reset_optimizer()

    def reset_optimizer(self) -> None:
        """Make the optimizer anew, without moments."""
        groups = [(trained(self.policy.model), self.optim.lr)]
        if self.critic is not None:
            groups.append((trained(self.critic), self.optim.critic_lr))
        self.optimizer = new_optimizer(groups, self.optim)

    def state_dict(self) -> State:
        """Return the optimizer's moments and the critic's weights."""
        state = optimizer_state(self.optimizer)
        return state if self.critic is None else state | module_state("critic", self.critic)

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned. Raises ValueError if shapes or settings differ."""
        load_optimizer(self.optimizer, state)
        if self.critic is not None:
            load_module("critic", self.critic, state.tensors)

    def inherit(self, state: State) -> None:
        """Take over the moments and the critic of another run's `state_dict`, with the settings of
        this one. Raises as `load_state_dict`."""
        own = [dict(group) for group in self.optimizer.param_groups]
        self.load_state_dict(state)
        for group, settings in zip(self.optimizer.param_groups, own, strict=True):
            group.update(settings)

    @property
    def takes_engine(self) -> bool:
        """Return whether the coming step takes the engine's log-probabilities as old ones: as set,
        or by `auto` in place of a pass.

        Where a correction compares the two, it needs the pass (decoupled PPO, TRL, verl). Without
        one, float32 takes the engine's if the step before has measured that they are the same. In
        16 bits they never are: then the ratio to the policy that sampled, which papers write, is
        the engine's (prime-rl, verl's bypass mode), and the pass would only hide its gap.
        """
        algo = self.algo
        if algo.old_logprobs != "auto":
            return algo.old_logprobs == "engine"
        would_pass = algo.needs_old_logprobs and algo.top_entropy is None
        is_compared = algo.correction is not None or algo.reads_responses
        is_half = self.optim.precision == "bfloat16"
        is_same = is_half or (self.mismatch is not None and self.mismatch <= ROUNDING)
        return would_pass and is_same and not is_compared

    def compare(self, samples: Samples, step: int) -> None:
        """Hold old log-probabilities that the trainer took against the engine's, before anything is
        left out. Where it took none, the first optimizer step compares instead, whose own pass is
        of the unchanged policy. Raises EngineError where the two disagree."""
        self.mismatch = None
        old, sampled, fresh = samples.old_logprobs, samples.rollout_logprobs, samples.is_fresh
        if sampled is None:
            self.mismatch = 0.0  # no engine, no gap
        elif old is not None and old is not sampled and fresh.any():
            gaps = (old - sampled).abs()[samples.mask.bool() & fresh[:, None]]
            self.mismatch = float(gaps.mean())
            check_agreement(self.mismatch, self.mismatch_limit, step)

    def update(
        self,
        samples: Samples,
        step: int,
        seed: int,
        learns_policy: bool = True,
        watch: Watch = lambda *_: None,
    ) -> dict[str, float]:
        """Run the epochs over one batch in shuffled mini-batches; return metrics over all of them.

        `samples` have log-probabilities and advantages, and were compared; `step` counts from 1;
        without `learns_policy` only the critic learns. An optimizer step whose loss or gradient is
        not finite is not taken, and counted. Raises EngineError where engine and trainer disagree,
        with the weights as they were.
        """
        algo, optim, every_row = self.algo, self.optim, range(len(samples))
        if algo.critic is not None and step <= algo.critic.warmup:
            learns_policy = False
        # A linear warm-up, then the schedule.
        done = max(0, step - 1 - optim.warmup_steps) / max(1, self.steps - optim.warmup_steps)
        factor = min(1.0, step / max(1, optim.warmup_steps)) * SCHEDULES[optim.schedule](done)
        set_rates(self.optimizer, factor)
        samples.seen = torch.zeros_like(samples.seen, device=self.policy.device)
        rng = random.Random(f"{seed}:{step}")
        sums: defaultdict[str, float] = defaultdict(float)
        moved: dict[str, float] = {}
        tokens = self._denominators(samples, every_row).tokens
        advance = counted(watch, "update", algo.epochs * tokens)
        controls_own_kl = algo.kl is not None and algo.kl.controls_own
        for epochs in range(1, algo.epochs + 1):
            samples.seen.zero_()
            shuffled, fresh = rng.sample(every_row, len(every_row)), samples.is_fresh
            if self.mismatch is None and not fresh[shuffled[:: algo.mini_batches]].any():
                # The first mini-batch holds engine and trainer together: by a fresh row, if any.
                shuffled.sort(key=lambda row: not fresh[row])
            for share in range(min(algo.mini_batches, len(samples))):
                mini_batch = shuffled[share :: algo.mini_batches]
                self._optimizer_step(samples, mini_batch, sums, step, learns_policy, advance)
            if algo.target_kl is not None or (controls_own_kl and epochs == algo.epochs):
                moved = self._moved(samples)
            if algo.target_kl is not None and moved.get("approx_kl_after", 0.0) > algo.target_kl:
                break
        metrics = {
            **_means(sums),
            **(moved if sums["updates"] else {}),
            "lr": optim.lr * factor,
            "epochs": epochs,
            "tokens_trained": tokens,
            "updates_skipped": int(sums["updates_skipped"]),
        }
        if self.mismatch is not None:
            metrics["mismatch"] = self.mismatch
        if self.critic is not None and len(samples):
            values, returns = samples.column("old_values"), samples.column("returns")
            metrics["explained_variance"] = explained_variance(values, returns, samples.mask)
        if algo.kl is not None:
            metrics["kl_coef"] = self.kl_coef
            measured = metrics.get("ref_kl_after" if controls_own_kl else "ref_kl")
            if (control := algo.kl.control) and learns_policy and measured is not None:
                self.kl_coef = CONTROLS[control.kind](self.kl_coef, measured, control.target)
        return metrics

    def _optimizer_step(
        self,
        samples: Samples,
        rows: Sequence[int],
        sums: defaultdict[str, float],
        step: int,
        learns_policy: bool,
        advance: Callable[[int, int], None],
    ) -> None:
        """Add up the gradients of all micro-batches of these rows, and take a step."""
        denominators = self._denominators(samples, rows)
        self.optimizer.zero_grad()
        own: defaultdict[str, torch.Tensor | float] = defaultdict(float)
        for batch in micro_batches(self.policy, samples, rows, self.optim.micro_tokens):
            loss, per_token = self.objective(batch, denominators, learns_policy)
            is_wanted = batch.is_last or self.optim.offload == "all"  # on a GPU they lie whole
            sync_gradients(filter(None, (self.policy, self.critic)), is_wanted)
            (loss * batch.counts).backward()
            tokens = batch.counts * world() * batch.tokens
            advance(tokens, tokens)
            own["loss"] += batch.counts * loss.detach().double()
            for name, values in per_token.items():
                own[name] += batch.counts * (values.detach() * batch.mask).sum().double()
        clip, norms = torch.nn.utils.clip_grad_norm_, dict[str, torch.Tensor]()
        if learns_policy:
            norms["grad_norm"] = clip(self.policy.model.parameters(), self.optim.grad_clip)
        if self.critic is not None:
            norms["critic_grad_norm"] = clip(self.critic.parameters(), self.optim.grad_clip)
        # Here alone the GPU is waited for.
        exact = {"device": self.policy.device, "dtype": torch.float64}
        totals = [*map(torch.as_tensor, own.values()), *map(whole, norms.values())]
        numbers = torch.stack([total.to(**exact) for total in totals]).tolist()
        figures = sum_values(dict(zip(own, numbers[: len(own)], strict=True)))
        figures |= dict(zip(norms, numbers[len(own) :], strict=True))
        if not all(math.isfinite(value) for value in figures.values()):
            sums["updates_skipped"] += 1
            return
        fresh = [row for row in rows if samples.is_fresh[row]]
        figures |= {"updates": 1, "tokens": denominators.tokens}
        figures["fresh_tokens"] = self._denominators(samples, fresh).tokens
        gap = figures.pop("mismatch")
        if self.mismatch is None and figures["fresh_tokens"] and not sums["updates"]:
            self.mismatch = gap / figures["fresh_tokens"]
            check_agreement(self.mismatch, self.mismatch_limit, step)
        for name, value in figures.items():
            sums[name] += value
        self.optimizer.step()

    def objective(
        self, batch: MicroBatch, denominators: LossDenominators, learns_policy: bool = True
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Compute the micro-batch's share of the step's loss, and per-token metrics [B, T].

        While only the critic learns, the policy is measured all the same. What the loss was made of
        is kept in the batch's column `seen`.
        """
        algo, samples = self.algo, batch.samples
        with torch.set_grad_enabled(learns_policy):
            has_gradient = algo.entropy_coef > 0
            stats: TokenStats = self.policy(batch.inputs, entropy_gradient=has_gradient)
            inputs = self._loss_inputs(batch, stats)
            loss, per_token = policy_loss(algo, inputs, denominators, self.kl_coef)
        if batch.counts:
            figures = (inputs.logprobs, inputs.ratio, inputs.advantages, inputs.entropy)
            seen = torch.stack([*figures, per_token["clip_fraction"]], -1).detach()
            rows = send(torch.tensor(batch.rows), seen.device)
            samples.seen[rows, : batch.mask.shape[1]] = seen.to(samples.seen.dtype)
        gap = (inputs.rollout_logprobs - inputs.logprobs.detach()).abs()
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
        is_correct = send(batch.samples.is_correct[batch.rows, None], batch.mask.device)
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
            is_right=is_correct * batch.mask,
        )

    @torch.no_grad()
    def _moved(self, samples: Samples) -> dict[str, float]:
        """Compute the present policy's divergences from sampler and reference, nats a token: means
        over the fresh rows, since those carried over are of older weights; empty without any."""
        fresh = samples.is_fresh.nonzero()[:, 0].tolist()
        denominators = self._denominators(samples, fresh)
        moved: defaultdict[str, torch.Tensor | float] = defaultdict(float)
        for batch in micro_batches(self.policy, samples, fresh, self.optim.micro_tokens):
            inputs = self._loss_inputs(batch, self.policy(batch.inputs, entropy=False))
            _, per_token = policy_loss(self.algo, inputs, denominators, self.kl_coef)
            for name in ("approx_kl", "ref_kl"):
                if name in per_token:
                    total = (per_token[name] * batch.mask).sum().double()
                    moved[f"{name}_after"] += batch.counts * total
        totals = sum_values({name: float(total) for name, total in moved.items()})
        return {name: total / denominators.tokens for name, total in totals.items()}

    def _denominators(self, samples: Samples, rows: Sequence[int]) -> LossDenominators:
        tokens = {row: len(samples.response_ids[row]) for row in rows}
        right = sum(tokens[row] for row in rows if samples.is_correct[row])
        return LossDenominators(sum(tokens.values()), len(rows), self.max_tokens, right)


def _means(sums: defaultdict[str, float]) -> dict[str, float]:
    """Divide each sum by its own denominator over the step, without steps not taken."""
    if not sums["updates"]:
        return {}
    counts = dict.fromkeys(("loss", "grad_norm", "critic_grad_norm"), sums["updates"])
    counts["ref_kl"] = sums["fresh_tokens"]
    counts |= dict.fromkeys(("updates", "updates_skipped", "tokens", "fresh_tokens"), 0)
    pairs = {name: (value, counts.get(name, sums["tokens"])) for name, value in sums.items()}
    return {name: value / count for name, (value, count) in pairs.items() if count}


def check_agreement(mismatch: float, limit: float, step: int) -> None:
    """Raise EngineError if engine and trainer disagree about tokens that were just sampled.

    `mismatch` is the mean over those tokens of |engine - trainer| log-probability. Equal weights
    give 1e-6 in float32 and up to about 1e-2 with an engine in bfloat16; weights that a push left
    stale or incomplete give several tenths.
    """
    if mismatch <= limit:  # nan is not
        return
    raise EngineError(
        f"step {step}: the engine and the trainer disagree by {mismatch:.3g} about the "
        f"log-probability of a sampled token, more than rollout.mismatch_limit {limit:g}: the "
        "engine's weights are stale or incomplete, so what it sampled cannot be trained on; run "
        "again with --engine transformers, and please report it"
    )
