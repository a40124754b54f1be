"""Train on one batch in optimizer steps. The gradient does not depend on how the batch is cut."""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from rlvr_cli.algorithm.kl import CONTROLS
from rlvr_cli.algorithm.objective import LossDenominators, explained_variance
from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.config.sections import OptimConfig
from rlvr_cli.core.errors import EngineError
from rlvr_cli.model.adapter import trained
from rlvr_cli.ranks.group import summed, sync_gradients, whole, world
from rlvr_cli.training.batch import micro_batches
from rlvr_cli.training.objective import Objective
from rlvr_cli.training.optimizer import load_optimizer, new_optimizer, optimizer_state, set_rates
from rlvr_cli.training.record import Watch, counted
from rlvr_cli.training.state import State, load_module, module_state

SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
}
"""The learning rate's share of its peak, by the share of the steps after the warm-up."""


class Updater:
    """The optimizers of policy and critic, and the epochs over a batch."""

    def __init__(
        self,
        objective: Objective,
        optim: OptimConfig,
        max_tokens: int,
        steps: int,
        mismatch_limit: float = math.inf,
    ) -> None:
        self.objective, self.mismatch_limit = objective, mismatch_limit
        self.policy, self.critic, self.algo = objective.policy, objective.critic, objective.algo
        self.optim, self.max_tokens, self.steps = optim, max_tokens, steps
        self.optimizer = self._new_optimizer()

    def _new_optimizer(self) -> torch.optim.Optimizer:
        groups = [(trained(self.policy.model), self.optim.lr)]
        if self.critic is not None:
            groups.append((trained(self.critic), self.optim.critic_lr))
        return new_optimizer(groups, self.optim)

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
        groups: list[dict[str, Any]] = self.optimizer.param_groups
        own = [{k: v for k, v in one.items() if k != "params"} for one in groups]
        self.load_state_dict(state)
        for group, settings in zip(self.optimizer.param_groups, own, strict=True):
            group.update(settings)

    def reset_optimizer(self) -> None:
        """Forget all moments."""
        self.optimizer = self._new_optimizer()

    def free_gradients(self) -> None:
        """Free the gradients' memory for the next rollout."""
        self.optimizer.zero_grad()

    def update(
        self,
        samples: Samples,
        step: int,
        seed: int,
        learns_policy: bool = True,
        watch: Watch = lambda *_: None,
    ) -> dict[str, float]:
        """Run the epochs over one batch in shuffled mini-batches; return metrics over all of them.

        `samples` have log-probabilities and advantages; `step` counts from 1; without
        `learns_policy` only the critic learns. An optimizer step whose loss or gradient is not
        finite is not taken, and counted. Raises EngineError where engine and trainer disagree, with
        the weights as they were.
        """
        algo = self.algo
        if algo.critic is not None and step <= algo.critic.warmup:
            learns_policy = False
        rate = self._set_learning_rate(step)
        rng = random.Random(f"{seed}:{step}")
        self._check_old_logprobs(samples, step)
        sums: defaultdict[str, float] = defaultdict(float)
        moved: dict[str, float] = {}
        controls_own_kl = algo.kl is not None and algo.kl.controls_own
        every_row = range(len(samples))
        advance = counted(watch, algo.epochs * self._denominators(samples, every_row).tokens)
        for epochs in range(1, algo.epochs + 1):
            samples.seen.zero_()
            shuffled = rng.sample(every_row, len(every_row))
            for share in range(min(algo.mini_batches, len(samples))):
                mini_batch = shuffled[share :: algo.mini_batches]
                self._optimizer_step(samples, mini_batch, sums, step, learns_policy, advance)
            if algo.target_kl is not None or (controls_own_kl and epochs == algo.epochs):
                moved = self._moved(samples)
            if algo.target_kl is not None and moved.get("approx_kl_after", 0.0) > algo.target_kl:
                break
        metrics = self._means(sums) | moved
        metrics |= {
            "lr": rate,
            "epochs": epochs,
            "tokens_trained": self._denominators(samples, every_row).tokens,
            "updates_skipped": int(sums["updates_skipped"]),
        }
        if self.critic is not None:
            values, returns = samples.column("old_values"), samples.column("returns")
            metrics["explained_variance"] = explained_variance(values, returns, samples.mask)
        if algo.kl is not None:
            metrics["kl_coef"] = self.objective.kl_coef
            measured = metrics.get("ref_kl_after" if controls_own_kl else "ref_kl")
            if (control := algo.kl.control) and learns_policy and measured is not None:
                self.objective.kl_coef = CONTROLS[control.kind](
                    self.objective.kl_coef, measured, control.target
                )
        return metrics

    def _moved(self, samples: Samples) -> dict[str, float]:
        """Compute the present policy's divergences, nats per token: means over the batch's fresh
        rows, since those carried over are of older weights; empty if there are none."""
        fresh = samples.is_fresh.nonzero()[:, 0].tolist()
        denominators = self._denominators(samples, fresh)
        found: defaultdict[str, float] = defaultdict(float)
        for batch in micro_batches(self.policy, samples, fresh, self.optim.micro_tokens):
            for name, values in self.objective.divergences(batch, denominators).items():
                found[f"{name}_after"] += batch.counts * float((values * batch.mask).sum())
        return {name: value / denominators.tokens for name, value in summed(found).items()}

    def _denominators(self, samples: Samples, rows: Sequence[int]) -> LossDenominators:
        tokens = sum(len(samples.response_ids[row]) for row in rows)
        return LossDenominators(tokens, len(rows), self.max_tokens)

    def _check_old_logprobs(self, samples: Samples, step: int) -> None:
        """Compare log-probabilities taken before several updates with the engine's."""
        old, sampled, fresh = samples.old_logprobs, samples.rollout_logprobs, samples.is_fresh
        if old is not None and sampled is not None and fresh.any():
            gaps = (old - sampled).abs()[samples.mask.bool() & fresh[:, None]]
            check_agreement(float(gaps.mean()), self.mismatch_limit, step)

    def _set_learning_rate(self, step: int) -> float:
        """Set the rates by linear warm-up and schedule; return the policy's."""
        warmup = self.optim.warmup_steps
        done = max(0, step - 1 - warmup) / max(1, self.steps - warmup)
        factor = min(1.0, step / max(1, warmup)) * SCHEDULES[self.optim.schedule](done)
        set_rates(self.optimizer, factor)
        return self.optim.lr * factor

    def _optimizer_step(
        self,
        samples: Samples,
        rows: Sequence[int],
        sums: defaultdict[str, float],
        step: int,
        learns_policy: bool,
        advance: Callable[[int], None],
    ) -> None:
        denominators = self._denominators(samples, rows)
        self.free_gradients()
        own: defaultdict[str, float] = defaultdict(float)
        for batch in micro_batches(self.policy, samples, rows, self.optim.micro_tokens):
            loss, per_token = self.objective(batch, denominators, learns_policy)
            is_wanted = batch.is_last or self.optim.offload == "all"  # on a GPU they lie whole
            sync_gradients(filter(None, (self.policy, self.critic)), is_wanted)
            (loss * batch.counts).backward()
            advance(batch.counts * world() * int(batch.mask.sum()))
            own["loss"] += batch.counts * float(loss.detach())
            for name, values in per_token.items():
                own[name] += batch.counts * float((values * batch.mask).sum())
        found = summed(own)
        if learns_policy:
            found["grad_norm"] = self._clip_gradients(self.policy.model.parameters())
        if self.critic is not None:
            found["critic_grad_norm"] = self._clip_gradients(self.critic.parameters())
        if not all(math.isfinite(value) for value in found.values()):
            sums["updates_skipped"] += 1
            return
        found["updates"] = 1
        found["tokens"] = denominators.tokens
        fresh = [row for row in rows if samples.is_fresh[row]]
        found["fresh_tokens"] = self._denominators(samples, fresh).tokens
        if found["fresh_tokens"] and self.algo.updates == 1:
            check_agreement(found["mismatch"] / found["fresh_tokens"], self.mismatch_limit, step)
        for name, value in found.items():
            sums[name] += value
        self.optimizer.step()

    def _clip_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> float:
        return float(whole(torch.nn.utils.clip_grad_norm_(parameters, self.optim.grad_clip)))

    def _means(self, sums: defaultdict[str, float]) -> dict[str, float]:
        """Divide each sum by its own denominator over the step, without steps not taken."""
        if not sums["updates"]:
            return {}
        counts = dict.fromkeys(("loss", "grad_norm", "critic_grad_norm"), sums["updates"])
        counts |= dict.fromkeys(("mismatch", "ref_kl"), sums["fresh_tokens"])
        counts |= dict.fromkeys(("updates", "updates_skipped", "tokens", "fresh_tokens"), 0)
        return {
            name: value / count
            for name, value in sums.items()
            if (count := counts.get(name, sums["tokens"]))
        }


def check_agreement(mismatch: float | None, limit: float, step: int) -> None:
    """Raise EngineError if engine and trainer disagree about tokens that were just sampled.

    `mismatch` is the mean over those tokens of |engine - trainer| log-probability, None where there
    were none. Equal weights give 1e-6 in float32 and up to about 1e-2 with an engine in bfloat16;
    weights that a push left stale or incomplete give several tenths.
    """
    if mismatch is None or mismatch <= limit:  # nan is neither
        return
    raise EngineError(
        f"step {step}: the engine and the trainer disagree by {mismatch:.3g} about the "
        f"log-probability of a sampled token, more than rollout.mismatch_limit {limit:g}: the "
        "engine's weights are stale or incomplete, so what it sampled cannot be trained on; run "
        "again with --engine transformers, and please report it"
    )
