"""The training loop, top to bottom."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from typing import Any

import torch

from rlvr_cli.algorithm.advantage import with_advantages
from rlvr_cli.algorithm.group_filter import Collected, GroupCollector, has_signal, in_order, trains
from rlvr_cli.algorithm.rows import Row, group_rows
from rlvr_cli.config import Config
from rlvr_cli.core.types import Group, Prompt
from rlvr_cli.data.problems import ProblemCursor
from rlvr_cli.data.prompts import prompts_digest
from rlvr_cli.evaluation.measure import Evaluation, evaluate, summarise
from rlvr_cli.evaluation.metrics import rollout_metrics
from rlvr_cli.model.policy import Critic, Policy, weights_digest
from rlvr_cli.rollout.sampler import response_seed
from rlvr_cli.rollout.session import (
    Session,
    eval_params,
    precision_on,
    training_format,
    training_params,
)
from rlvr_cli.runs.run_dir import Run
from rlvr_cli.training.forward import Scorer
from rlvr_cli.training.throughput import StepFigures, trained_lengths
from rlvr_cli.training.update import Updater


class Trainer:
    """One run: `train_steps` yields the metrics of each step as it ends."""

    def __init__(
        self, config: Config, session: Session, prompts: list[Prompt], held_out: list[Prompt]
    ) -> None:
        self.config, self.session = config, session
        self.prompts, self.held_out = prompts, held_out
        rollout, model = config.rollout, session.policy.model
        self.params = training_params(config)
        algo, vocab_size = config.algorithm, len(session.policy.tokenizer)
        bfloat16 = precision_on(model.device, config.optim.precision) == "bfloat16"
        policy = Policy(model, vocab_size, rollout.temperature, bfloat16, session.forward)
        torch.manual_seed(config.seed)
        self.reference, self.start_digest = None, ""
        if algo.has_reference_model:
            start = deepcopy(model).requires_grad_(False)
            self.start_digest = weights_digest(start)
            self.reference = Policy(
                start, vocab_size, rollout.temperature, bfloat16, session.forward
            )
        critic = Critic(model, algo.critic.kind == "own") if algo.critic is not None else None
        self.scorer = Scorer(policy, self.reference, critic, algo, config.optim.micro_tokens)
        self.updater = Updater(
            policy,
            critic,
            algo,
            config.optim,
            rollout.max_tokens,
            config.steps,
            rollout.mismatch_limit,
        )
        self.cursor = ProblemCursor(len(prompts), config.seed)
        self.collector = GroupCollector(self._sample, rollout.prompts, algo)
        self.figures = StepFigures(model, session.engine, algo.advantage.needs_group)
        self.problems_digest = prompts_digest([*prompts, *held_out])
        self.has_format = training_format(config.data) != "any"
        self.tokens_given_up = 0
        self.weight_version = 0
        self.step = 0
        self.settled = True
        """Weights and optimizer are those of the end of a step."""
        self.stopped = False

    def train_steps(
        self, run: Run, welcome: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> Iterator[dict[str, Any]]:
        """The loop: up to `config.steps` steps, or fewer where `algorithm.filter.on_cap` says stop.

        Sampling goes on inside `welcome()`: left there, the step has changed no weight.
        """
        engine, sampler = self.session.engine, self.session.sampler
        model = self.session.policy.model
        algo = self.config.algorithm
        for step in range(self.step + 1, self.config.steps + 1):
            clock, judging, self.tokens_given_up = Clock(), sampler.seconds, 0
            with welcome(), clock.measure("rollout"):
                batch = self.collector.collect()  # prompts, rollouts, verdicts, group filter
            clock.split("rollout", "verification", sampler.seconds - judging)
            self.figures.note_memory("awake")
            no_update = self._reason_for_no_update(batch)
            rows: list[Row] = []
            update_metrics: Mapping[str, float] = {}
            self.settled = False
            if no_update is None:
                with clock.measure("sync"):
                    engine.sleep()
                self.figures.note_memory("asleep")
                with clock.measure("logprobs"):
                    rows = group_rows(batch.kept, algo, self.params.max_tokens, self.weight_version)
                    rows = self.scorer.scored(rows)  # log-probabilities, values
                rows = with_advantages(rows, algo, self.updater.kl_coef)
                with clock.measure("update"):  # objective, optimizer step
                    update_metrics = self.updater.update(rows, step, self.config.seed)
                self.figures.note_memory("update")
                self.weight_version += 1
                with clock.measure("sync"):
                    engine.sync_weights(model.named_parameters())
                    engine.wake()
            self._renew_reference(step)
            metrics = {
                "step": step,
                **rollout_metrics(batch.sampled, self.has_format),
                "tokens_given_up": self.tokens_given_up,
                "gen_batches": batch.gen_batches,
                "groups_trained": 0 if no_update else len(batch.kept),
                "groups_carried": len(self.collector.carried),
                "no_update": no_update,
                **update_metrics,
                **self._held_out(step, run),
                **clock.seconds,
                **self.figures.of_step(
                    batch.sampled,
                    self.tokens_given_up,
                    trained_lengths(rows),
                    self.scorer.take_tokens(),
                    update_metrics.get("epochs", 1),
                    clock.seconds,
                ),
            }
            run.record_step(metrics, batch.sampled)
            self.step, self.settled = step, True
            yield metrics
            if self.stopped:
                break

    def measure(self) -> tuple[list[Group], Evaluation]:
        """pass@1 on the held-out problems, exactly as `rlvr eval` measures it."""
        params = eval_params(self.config)
        groups = evaluate(self.session.sampler, self.held_out, params, self.config.seed)
        return groups, summarise(groups, params, self.has_format)

    def _held_out(self, step: int, run: Run) -> dict[str, float | None]:
        """pass@1 on the held-out problems where `eval.every` asks for it at this step."""
        every = self.config.eval.every
        if not (every and self.held_out and step % every == 0):
            return {}
        groups, evaluation = self.measure()
        run.write_rollouts(f"held-out-step-{step:06d}", groups)
        return {"held_out_pass@1": evaluation.pass_at_1}

    def _sample(self, count: int, enough: int) -> list[Group]:
        """The next `count` problems as judged groups, in the order of the cursor; with `surplus`
        abort only the first of them that hold `enough` groups that train."""
        algo, first = self.config.algorithm, self.cursor.position
        aborts = algo.filter is not None and algo.filter.surplus == "abort"
        prompts = [self.prompts[index] for index in self.cursor.take(count)]
        seeds = [response_seed(self.config.seed, "train", first + draw) for draw in range(count)]
        drawn: Counter[int] = Counter()
        running = self.session.sampler.groups(
            prompts,
            self.params,
            seeds,
            self.weight_version,
            (lambda index, *_: drawn.update([index])) if aborts else None,
        )
        groups = in_order(
            running,
            lambda ready: aborts and sum(trains(group, algo) for group in ready) >= enough,
        )
        self.cursor.put_back(count - len(groups))
        self.tokens_given_up += sum(drawn[index] for index in range(len(groups), count))
        return groups

    def _renew_reference(self, step: int) -> None:
        """Iterative GRPO: the reference becomes the policy every so many steps."""
        renewal = self.config.algorithm.renewal
        if self.reference and renewal and step % renewal.every == 0:
            self.reference.model.load_state_dict(self.session.policy.model.state_dict())
            if renewal.resets_optimizer:
                self.updater.reset_optimizer()

    def _reason_for_no_update(self, batch: Collected) -> str | None:
        """A batch that the cap left short goes the way of `on_cap`; one in which nothing sets right
        apart from wrong has no signal, and an update would only decay the weights."""
        algo = self.config.algorithm
        if not batch.is_full and algo.filter is not None and algo.filter.on_cap != "train":
            self.collector.carried = batch.kept + self.collector.carried
            self.stopped = algo.filter.on_cap == "stop"
            return "batch not full"
        if algo.masks_cut_off and all(
            rollout.completion.finish_reason == "length"
            for group in batch.kept
            for rollout in group.judged
        ):
            return "all cut off"
        return None if has_signal(batch.kept, algo) else "no signal"


class Clock:
    """Seconds spent in each phase of a step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, phase: str) -> Iterator[None]:
        """Add the time inside the block to `seconds_PHASE`."""
        started = time.perf_counter()
        try:
            yield
        finally:
            key = f"seconds_{phase}"
            self.seconds[key] = self.seconds.get(key, 0.0) + time.perf_counter() - started

    def split(self, phase: str, part: str, seconds: float) -> None:
        """Count `seconds` of a phase as one of its own."""
        self.seconds[f"seconds_{phase}"] -= seconds
        self.seconds[f"seconds_{part}"] = seconds
