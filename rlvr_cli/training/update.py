"""Train on one batch in optimizer steps. The gradient does not depend on how the batch is cut."""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.utils import clip_grad_norm_

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.kl import CONTROLS
from rlvr_cli.algorithm.loss import TokenFigures, critic_loss, has_gradient, policy_loss
from rlvr_cli.algorithm.objective import LossDenominators, LossInputs, explained_variance
from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.core.errors import EngineError
from rlvr_cli.core.step_figures import UpdateFigures, UpdateMeans
from rlvr_cli.model.adapter import trained
from rlvr_cli.model.packing import send
from rlvr_cli.model.policy import Critic, Policy, TokenStats
from rlvr_cli.model.settings import SIXTEEN_BITS, OptimConfig
from rlvr_cli.ranks.group import full_tensor, sum_values, sync_gradients, world
from rlvr_cli.training.batch import MicroBatch, micro_batches
from rlvr_cli.training.optimizer import new_optimizer, set_rates
from rlvr_cli.training.record import Watch, counter
from rlvr_cli.training.scaling import LossScale, PassFigures
from rlvr_cli.training.state import (
    UPDATER_VALUES,
    State,
    load_module,
    load_optimizer,
    module_state,
    optimizer_state,
)

SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: (1 + math.cos(math.pi * progress)) / 2,
}
"""The learning rate's share of its peak, by the share of the steps after the warm-up."""
ROUNDING = 1e-5
"""Nats a token: float32 on one machine differs by 1e-7 to 1e-6, an engine in bfloat16 by 1e-2."""
_MEANS = tuple(item.name for item in fields(UpdateMeans))
_PER_UPDATE = ("loss", "grad_norm", "critic_grad_norm")
"""The figures that are means over optimizer steps. The others are means over tokens."""


@dataclass
class Sums:
    """Sums over the optimizer steps of an update. Skipped ones have a part in `skipped` only."""

    updates: int = 0
    skipped: int = 0
    overflows: int = 0
    tokens: int = 0
    fresh_tokens: int = 0
    figures: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """The sums of what `UpdateMeans` has, by name."""

    def add(self, figures: PassFigures, tokens: int, fresh_tokens: int) -> None:
        """Add an optimizer step, with the tokens that it passed, and the fresh ones of them."""
        self.updates += 1
        self.tokens += tokens
        self.fresh_tokens += fresh_tokens
        for name in _MEANS:
            value = getattr(figures, name)
            if value is not None:
                self.figures[name] += value

    @property
    def means(self) -> UpdateMeans:
        """Return each sum divided by its denominator."""
        means = {}
        for name, total in self.figures.items():
            count = self.tokens
            if name in _PER_UPDATE:
                count = self.updates
            elif name == "ref_kl":
                count = self.fresh_tokens
            if count:
                means[name] = total / count
        return UpdateMeans(**means)


@dataclass(frozen=True)
class DivergenceAfter:
    """The distance of the policy after an update from sampler and reference, in nats a token.

    None was not measured.
    """

    approx_kl_after: float | None = None
    ref_kl_after: float | None = None


@dataclass
class Updater:
    """The objective of policy and critic, their optimizer, and the epochs over a batch."""

    policy: Policy
    critic: Critic | None
    algo: Algorithm
    optim: OptimConfig
    max_tokens: int
    steps: int
    mismatch_limit: float = math.inf
    mismatch: float | None = None
    """The mean over fresh tokens of |engine - trainer| log-probability, as the newest step measured
    it. None if nothing was measured yet."""
    mismatch_tokens: int = 0
    """The tokens of that mean."""

    def __post_init__(self) -> None:
        self.kl_coef = self.algo.kl.coef if self.algo.kl is not None else 0.0
        """The present value of an adaptive coefficient."""
        is_float16 = self.optim.precision == "float16"
        self.loss_scale = LossScale(self.policy.device, is_on=is_float16)
        self.reset_optimizer()

    def reset_optimizer(self) -> None:
        """Make a new optimizer, without moments."""
        groups = [(trained(self.policy.model), self.optim.lr)]
        if self.critic is not None:
            groups.append((trained(self.critic), self.optim.critic_lr))
        self.optimizer = new_optimizer(groups, self.optim)

    def state_dict(self) -> State:
        """Return the optimizer's moments, the scale of the loss and the critic's weights."""
        state = optimizer_state(self.optimizer)
        if self.loss_scale.is_on:
            state |= State({"loss_scale": self.loss_scale.state_dict()}, {})
        return state if self.critic is None else state | module_state("critic", self.critic)

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned. Raises ValueError if shapes or settings differ."""
        load_optimizer(self.optimizer, state)
        self.loss_scale.load_state_dict(UPDATER_VALUES.validate_python(state.values).loss_scale)
        if self.critic is not None:
            load_module("critic", self.critic, state.tensors)

    def inherit(self, state: State) -> None:
        """Take over the moments and the critic of another run's `state_dict`, but keep the settings
        of this one. Raises as `load_state_dict`."""
        settings = [dict(group) for group in self.optimizer.param_groups]
        self.load_state_dict(state)
        for group, values in zip(self.optimizer.param_groups, settings, strict=True):
            group.update(values)

    @property
    def uses_engine_logprobs(self) -> bool:
        """Return whether the coming step takes the engine's log-probabilities as old ones: as set,
        or by `auto` in place of a pass.

        A correction compares the two, so it needs the pass (decoupled PPO, TRL, verl). Without
        one, float32 takes the engine's if the step before has measured that they are the same. In
        16 bits they never are: then the ratio to the policy that sampled, which papers write, is
        the engine's (prime-rl, verl's bypass mode), and the pass would only hide its gap.
        """
        algo = self.algo
        if algo.old_logprobs != "auto":
            return algo.old_logprobs == "engine"
        would_pass = algo.needs_old_logprobs and algo.top_entropy is None
        is_half = self.optim.precision in SIXTEEN_BITS
        is_same = is_half or (self.mismatch is not None and self.mismatch <= ROUNDING)
        return would_pass and is_same and algo.correction is None

    def measure_mismatch(self, samples: Samples, step: int) -> None:
        """Compare the trainer's old log-probabilities with the engine's, over all fresh tokens.
        Raises EngineError if the two disagree.

        If the trainer made no such pass, `update` compares in its first optimizer step instead,
        when the policy is still unchanged.
        """
        self.mismatch = None
        old = samples.old_logprobs
        sampled = samples.rollout_logprobs
        if old is not None and old is not sampled and samples.is_fresh.any():
            gaps = (old - sampled).abs()[samples.mask.bool() & samples.is_fresh]
            self.mismatch = float(gaps.mean())
            self.mismatch_tokens = len(gaps)
            check_agreement(self.mismatch, self.mismatch_limit, step)

    def update(
        self,
        samples: Samples,
        step: int,
        seed: int,
        learns_policy: bool = True,
        watch: Watch = lambda *_: None,
    ) -> UpdateFigures:
        """Run the epochs over one batch in shuffled mini-batches. Return figures over all of them.

        `samples` have log-probabilities and advantages, and their mismatch was measured. `step`
        counts from 1. Without `learns_policy` only the critic learns. An optimizer step whose loss
        or gradient is not finite is skipped and counted, after float16's overflows, which have a
        count of their own, were passed again (`LossScale`). Raises EngineError if engine and
        trainer disagree, with the weights as they were.
        """
        algo = self.algo
        optim = self.optim
        every_row = range(len(samples))
        if algo.critic is not None and step <= algo.critic.warmup:
            learns_policy = False
        # A linear warm-up, then the schedule.
        progress = max(0, step - 1 - optim.warmup_steps) / max(1, self.steps - optim.warmup_steps)
        factor = min(1.0, step / max(1, optim.warmup_steps)) * SCHEDULES[optim.schedule](progress)
        set_rates(self.optimizer, factor)
        samples.token_figures = torch.zeros_like(samples.token_figures, device=self.policy.device)
        samples.passes = torch.zeros(len(samples), dtype=torch.long)
        rng = random.Random(f"{seed}:{step}")
        sums = Sums()
        after = DivergenceAfter()
        tokens = self._denominators(samples, every_row).tokens
        advance = counter(watch, "update", algo.epochs * tokens)
        has_ppo_penalty = algo.kl is not None and algo.kl.is_ppo_penalty
        for epochs in range(1, algo.epochs + 1):
            samples.token_figures.zero_()
            shuffled = rng.sample(every_row, len(every_row))
            is_fresh = samples.is_fresh
            if self.mismatch is None and not is_fresh[shuffled[:: algo.mini_batches]].any():
                # The first mini-batch compares engine and trainer, which takes a fresh row.
                shuffled.sort(key=lambda row: not is_fresh[row].any())
            for number in range(min(algo.mini_batches, len(samples))):
                mini_batch = shuffled[number :: algo.mini_batches]
                self._optimizer_step(samples, mini_batch, sums, step, learns_policy, advance)
            if algo.target_kl is not None or (has_ppo_penalty and epochs == algo.epochs):
                after = self._divergence_after(samples)
            if algo.target_kl is not None and (after.approx_kl_after or 0.0) > algo.target_kl:
                break
        explained = None
        if self.critic is not None and len(samples):
            explained = explained_variance(
                samples.column("old_values"), samples.column("returns"), samples.mask
            )
        figures = UpdateFigures(
            **vars(sums.means),
            **vars(after if sums.updates else DivergenceAfter()),
            lr=optim.lr * factor,
            epochs=epochs,
            tokens_trained=tokens,
            updates_skipped=sums.skipped,
            overflows=sums.overflows if self.loss_scale.is_on else None,
            mismatch=self.mismatch,
            mismatch_tokens=None if self.mismatch is None else self.mismatch_tokens,
            explained_variance=explained,
            kl_coef=None if algo.kl is None else self.kl_coef,
        )
        measured = figures.ref_kl_after if has_ppo_penalty else figures.ref_kl
        control = None if algo.kl is None else algo.kl.control
        if control is not None and learns_policy and measured is not None:
            self.kl_coef = CONTROLS[control.kind](self.kl_coef, measured, control.target)
        return figures

    def _gradients(
        self,
        samples: Samples,
        rows: Sequence[int],
        denominators: LossDenominators,
        learns_policy: bool,
        advance: Callable[[int, int], None],
    ) -> PassFigures:
        """Add up the gradients of all micro-batches of these rows.

        Return sums of loss and figures, and the norms that the gradients had before they were
        clipped.
        """
        self.optimizer.zero_grad()
        total_loss: Tensor | float = 0.0
        totals: defaultdict[str, Tensor | float] = defaultdict(float)
        for batch in micro_batches(self.policy, samples, rows, self.optim.micro_tokens):
            loss, per_token = self.objective(batch, denominators, learns_policy)
            # Gradients stay whole on a GPU until the last micro-batch; offloaded ones cannot.
            is_synced = batch.is_last or self.optim.offload == "all"
            sync_gradients(filter(None, (self.policy, self.critic)), is_synced)
            self.loss_scale.backward(loss * batch.weight)
            tokens = batch.weight * world() * batch.tokens
            advance(tokens, tokens)
            total_loss += batch.weight * loss.detach().double()
            for name, values in vars(per_token).items():
                if values is not None:
                    totals[name] += batch.weight * (values.detach() * batch.mask).sum().double()
        self.loss_scale.unscale(self.optimizer)
        norms = {}
        if learns_policy:
            norms["grad_norm"] = self._clip_gradients(self.policy.model)
        if self.critic is not None:
            norms["critic_grad_norm"] = self._clip_gradients(self.critic)
        sums = {"loss": total_loss, **totals}
        figures = self._to_host({**sums, **norms})
        figures.update(sum_values({name: figures[name] for name in sums}))
        return PassFigures(**figures)

    def _optimizer_step(
        self,
        samples: Samples,
        rows: Sequence[int],
        sums: Sums,
        step: int,
        learns_policy: bool,
        advance: Callable[[int, int], None],
    ) -> None:
        """Take a step along the gradients of these rows."""
        denominators = self._denominators(samples, rows)
        passed = self._rows_to_pass(samples, rows)
        passed_tokens = self._denominators(samples, passed).tokens
        advance(denominators.tokens - passed_tokens, 0)

        def run(is_first: bool) -> PassFigures:
            count = advance if is_first else _uncounted
            return self._gradients(samples, passed, denominators, learns_policy, count)

        figures, overflows = self.loss_scale.passed(run)
        sums.overflows += overflows
        if not figures.is_finite:
            sums.skipped += 1
            return
        fresh_tokens = int(samples.is_fresh[passed].sum())
        if self.mismatch is None and fresh_tokens and not sums.updates:
            self.mismatch = (figures.mismatch or 0.0) / fresh_tokens
            self.mismatch_tokens = fresh_tokens
            check_agreement(self.mismatch, self.mismatch_limit, step)
        sums.add(figures, passed_tokens, fresh_tokens)
        self.optimizer.step()

    def _rows_to_pass(self, samples: Samples, rows: Sequence[int]) -> list[int]:
        """Return the rows of a mini-batch that have a part in the gradient, and count them. There
        is always one, since the moments move the weights by a gradient of 0 too.

        The comparison of engine and trainer takes a fresh row: the longest has the surest mean.
        """
        trains = has_gradient(samples, self.algo)
        length = [len(response) for response in samples.response_ids]
        passed = [row for row in rows if trains[row]]
        fresh = [row for row in rows if samples.is_fresh[row].any()]
        if self.mismatch is None and fresh and not samples.is_fresh[passed].any():
            passed.append(max(fresh, key=lambda row: length[row]))
        if not passed:
            passed.append(min(rows, key=lambda row: length[row]))
        assert samples.passes is not None
        samples.passes[passed] += 1
        return passed

    def _clip_gradients(self, module: Module) -> Tensor:
        """Clip the norm of a module's gradients, and return what it was."""
        return full_tensor(clip_grad_norm_(module.parameters(), self.optim.grad_clip))

    def _to_host(self, values: Mapping[str, Tensor | float]) -> dict[str, float]:
        """Copy numbers to the host, all at once: the only point at which the GPU is waited for."""
        device = self.policy.device
        numbers = [torch.as_tensor(value).to(device, torch.float64) for value in values.values()]
        return dict(zip(values, torch.stack(numbers).tolist(), strict=True))

    def objective(
        self, batch: MicroBatch, denominators: LossDenominators, learns_policy: bool = True
    ) -> tuple[Tensor, TokenFigures]:
        """Compute the micro-batch's share of the step's loss, and the figures of its tokens.

        While only the critic learns, the policy's figures are computed without a gradient. The
        column `token_figures` of the batch gets what the loss was computed from.
        """
        algo = self.algo
        with torch.set_grad_enabled(learns_policy):
            stats: TokenStats = self.policy(batch.inputs, entropy_gradient=algo.entropy_coef > 0)
            inputs = self._loss_inputs(batch, stats)
            loss, per_token = policy_loss(algo, inputs, denominators, self.kl_coef)
        if batch.weight:
            self._store_token_figures(batch, inputs, per_token.clip_fraction)
        gap = (inputs.rollout_logprobs - inputs.logprobs.detach()).abs()
        per_token = replace(per_token, mismatch=gap * batch.is_fresh)
        if per_token.ref_kl is not None:  # an estimate for samples of the policy itself
            per_token = replace(per_token, ref_kl=per_token.ref_kl * batch.is_fresh)
        if self.critic is not None and algo.critic is not None:
            critic_share, value_loss = critic_loss(
                algo.critic,
                values=self.critic(batch.inputs, stats.states),
                old_values=batch.column("old_values"),
                returns=batch.column("returns"),
                mask=batch.mask,
                denominators=denominators,
            )
            per_token = replace(per_token, value_loss=value_loss)
            loss = loss + critic_share if learns_policy else critic_share
        return loss, per_token

    def _store_token_figures(
        self, batch: MicroBatch, inputs: LossInputs, is_clipped: Tensor
    ) -> None:
        columns = (inputs.logprobs, inputs.ratio, inputs.advantages, inputs.entropy, is_clipped)
        figures = torch.stack(columns, -1).detach()
        stored = batch.samples.token_figures
        rows = send(torch.tensor(batch.rows), figures.device)
        stored[rows, : batch.mask.shape[1]] = figures.to(stored.dtype)

    def _loss_inputs(self, batch: MicroBatch, stats: TokenStats) -> LossInputs:
        """Return the inputs of the loss, with the old log-probabilities of the case:

        | updates a batch, token | old log-probabilities are                           |
        | ---------------------- | --------------------------------------------------- |
        | several                | those of the pass before the first update           |
        | one, an anchored token | the policy's own at this moment, without a gradient |
        | one, another token     | the engine's                                        |
        """
        samples = batch.samples
        old_logprobs = batch.column("old_logprobs")
        rollout_logprobs = batch.column("rollout_logprobs")
        if samples.old_logprobs is None:
            present_logprobs = stats.logprobs.detach().to(old_logprobs)
            old_logprobs = torch.where(batch.is_anchored, present_logprobs, rollout_logprobs)
        is_correct = send(samples.is_correct[batch.rows, None], batch.mask.device)
        return LossInputs(
            logprobs=stats.logprobs,
            entropy=stats.entropy,
            old_logprobs=old_logprobs,
            rollout_logprobs=rollout_logprobs,
            ref_logprobs=batch.column("ref_logprobs"),
            advantages=batch.column("advantages"),
            mask=batch.mask,
            is_right=is_correct * batch.mask,
        )

    @torch.no_grad()
    def _divergence_after(self, samples: Samples) -> DivergenceAfter:
        """Compute the present policy's divergences from sampler and reference.

        They are means over the fresh tokens, since others are samples of older weights.
        """
        fresh = samples.is_fresh.any(1).nonzero()[:, 0].tolist()
        tokens = int(samples.is_fresh.sum())
        denominators = self._denominators(samples, fresh)
        sums: defaultdict[str, Tensor | float] = defaultdict(float)
        for batch in micro_batches(self.policy, samples, fresh, self.optim.micro_tokens):
            inputs = self._loss_inputs(batch, self.policy(batch.inputs, entropy=False))
            _, per_token = policy_loss(self.algo, inputs, denominators, self.kl_coef)
            after = {"approx_kl_after": per_token.approx_kl, "ref_kl_after": per_token.ref_kl}
            for name, values in after.items():
                if values is not None:
                    values = values * batch.mask * batch.is_fresh
                    sums[name] += batch.weight * values.sum().double()
        totals = sum_values({name: float(total) for name, total in sums.items()})
        return DivergenceAfter(**{name: total / tokens for name, total in totals.items()})

    def _denominators(self, samples: Samples, rows: Sequence[int]) -> LossDenominators:
        tokens = {row: len(samples.response_ids[row]) for row in rows}
        return LossDenominators(
            tokens=sum(tokens.values()),
            responses=len(rows),
            max_tokens=self.max_tokens,
            right_tokens=sum(tokens[row] for row in rows if samples.is_correct[row]),
        )


def _uncounted(*_: int) -> None:
    """Ignore the progress of a pass that repeats another."""


def check_agreement(mismatch: float, limit: float, step: int) -> None:
    """Raise EngineError if engine and trainer disagree about tokens that were just sampled.

    `mismatch` is the mean over those tokens of |engine - trainer| log-probability. Equal weights
    give 1e-6 in float32, and 0.002 to 0.04 in bfloat16, by the model. Weights that a push left
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
