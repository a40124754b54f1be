"""The training loop, top to bottom."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial

import torch

from rlvr_cli.algorithm.advantage import with_advantages
from rlvr_cli.algorithm.group_filter import GroupBatch, is_uniform, with_signal
from rlvr_cli.algorithm.loss import rejected
from rlvr_cli.algorithm.samples import Samples, to_samples
from rlvr_cli.core.carried import (
    groups_as_json,
    groups_from_json,
    open_groups_as_json,
    open_groups_from_json,
)
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.seeds import response_seed
from rlvr_cli.core.types import Group, Label, Prompt, Response, by_key
from rlvr_cli.data.problems import Draw, ProblemOrder
from rlvr_cli.data.prompts import prompts_digest
from rlvr_cli.evaluation.held_out import Measured, held_out_sets
from rlvr_cli.evaluation.measure import summarize
from rlvr_cli.evaluation.result_dir import PartialResult
from rlvr_cli.evaluation.sampling import respond
from rlvr_cli.evaluation.task import Task, carry_out
from rlvr_cli.rollout.engines.base import CompletionStream
from rlvr_cli.setup.session import Session
from rlvr_cli.training.ahead import (
    SampledBatch,
    batch_as_json,
    batch_from_json,
    begin_sampling,
    continue_from_middles,
)
from rlvr_cli.training.models import prepare_models
from rlvr_cli.training.partial import InFlight
from rlvr_cli.training.record import StepRecord, StepResult, Watch, counter, unwatched
from rlvr_cli.training.scoring import add_logprobs, score_all
from rlvr_cli.training.state import TRAINER_VALUES, State, load_module, module_state
from rlvr_cli.training.tokens import token_rows
from rlvr_cli.training.update import Updater

Interruptible = Callable[[], AbstractContextManager[None]]


class Trainer:
    """The training loop of one run. `train_steps` yields each finished step and writes no file."""

    responses_phase = "rollout"
    """The name of the phase in which the responses come."""
    updater_class = Updater

    def __init__(self, session: Session, prompts: list[Prompt], held_out: list[Prompt]) -> None:
        config = session.plan.config
        self.session = session
        self.config = config
        self.params = session.plan.training
        self.prompts = prompts
        self.held_out = held_out
        models = prepare_models(session)
        self.policy = models.policy
        self.reference = models.reference
        self.start_digest = models.start_digest
        self.updater = self.updater_class(
            models.policy,
            models.critic,
            config.algorithm,
            config.optim,
            max_tokens=config.rollout.max_tokens,
            steps=config.steps,
            mismatch_limit=config.mismatch_limit,
        )
        self.order = ProblemOrder(len(prompts), config.seed, config.data.rest)
        partial_rollouts = config.rollout.partial
        self.in_flight: InFlight | None = None
        """The responses that go on from step to step. None without partial rollouts."""
        if partial_rollouts is not None:
            self.in_flight = InFlight(session, prompts, self.order, partial_rollouts)
        self.carried_groups: list[Group] = []
        """Groups sampled beyond a step's batch, oldest first: the next batch begins with them."""
        self.next_batch: SampledBatch | None = None
        """The batch of the next step, if it is sampled ahead."""
        self.problems_digest = prompts_digest([*prompts, *held_out])
        self.step = 0
        self.weight_version = 0
        self.is_between_steps = True
        """Whether weights and optimizer are as a finished step left them."""
        self.is_stopped = False
        """Whether the filter reached its cap and stopped the run."""
        self.watch: Watch = unwatched

    def train_steps(self, interruptible: Interruptible = nullcontext) -> Iterator[StepResult]:
        """Run up to `config.steps` steps, fewer if the filter reaches its cap and stops.

        Sampling runs inside `interruptible()`: a step that is left there has changed no weights.
        """
        for step in range(self.step + 1, self.config.steps + 1):
            yield self._run_step(step, interruptible)
            if self.is_stopped:
                break

    def _run_step(self, step: int, interruptible: Interruptible) -> StepResult:
        config = self.config
        algo = config.algorithm
        engine = self.session.engine
        record = StepRecord(self.session, self.watch)
        continued = upcoming = None
        with interruptible(), record.phase(self.responses_phase, memory="awake", judges=True):
            sampled = self.next_batch or self._sample_batch(step, self.watch)  # ROLLOUT to FILTER
            batch = sampled.groups
            if config.rollout.ahead:  # the next batch, by the weights from before this update
                continued = self._continue_responses(batch)
                upcoming = self._begin_next(step, batch)
        samples = self.samples_of(batch.groups)
        if sampled.partial is not None:
            record.partial = replace(sampled.partial, lag=samples.lag(self.weight_version))
        no_signal = self._no_signal_reason(batch, samples)
        has_update = no_signal is None or self._still_updates(no_signal, samples)
        if has_update:
            with record.phase("sync", memory="asleep"):
                engine.sleep()
            with record.phase("logprobs"):  # LOG-PROBABILITIES (old, reference) and critic values
                record.scored = add_logprobs(
                    samples,
                    algo,
                    config.optim.micro_tokens,
                    policy=self.policy,
                    reference=self.reference,
                    critic=self.updater.critic,
                    uses_engine_logprobs=self.updater.uses_engine_logprobs,
                    proves_weights=config.engine == "server" and continued is None,
                )
                if continued is not None:
                    score_all(continued, config.optim.micro_tokens, self.policy)
                self.updater.measure_mismatch(samples if continued is None else continued, step)
            samples.is_rejected = rejected(samples, algo)  # CORRECTION for the engine's mismatch
            if samples.is_rejected is not None:
                record.rejected_share = float(samples.is_rejected.double().mean())
            samples = with_advantages(samples, algo, self.updater.kl_coef)  # ADVANTAGE
            if no_signal:
                samples.advantages = torch.zeros_like(samples.mask)  # no signal: drop the critic's
            elif not len(samples):
                no_signal = "all rejected"
            self.is_between_steps = False
            with record.phase("update", memory="update"):  # OBJECTIVE, backward, UPDATE
                learns_policy = no_signal is None or algo.has_reference_loss
                record.update = self.updater.update(
                    samples, step, config.seed, learns_policy, self.watch
                )
                record.tokens = token_rows(batch, samples, self.session.policy.tokenizer)
            self.updater.optimizer.zero_grad()  # the next rollout needs the gradients' memory
            record.passed = samples.passed_lengths
        self.next_batch = None
        if upcoming is not None:
            with record.phase(self.responses_phase):  # what is left of the next batch
                self.next_batch = upcoming.result()
        if has_update:
            with record.phase("sync"):  # SYNC: the new weights to the engine
                self.session.push_weights()
                engine.wake()
            self.weight_version += 1
        self.is_between_steps = False
        self.is_stopped = batch.given_up == "stop"
        self._renew_reference(step)
        if config.eval.every and self.held_out and step % config.eval.every == 0:
            record.held_out, evaluations = self.measure()
            record.held_out_sets = held_out_sets(evaluations)
        self.step = step
        self.is_between_steps = True
        return record.result(step, sampled, no_signal)

    def _sample_batch(self, step: int, watch: Watch) -> SampledBatch:
        """Sample, judge and filter the batch of a step, with the weights that the engine has."""
        config = self.config
        algo = config.algorithm
        weightless = config.reward.weightless
        self.session.rewarder.step = step
        batch = GroupBatch(config.rollout.prompts, algo, self.carried_groups, weightless=weightless)
        sampled = SampledBatch(batch)
        rested_before = self.order.rested
        if self.in_flight is not None:
            self.in_flight.begin_step(self.weight_version)
        while missing := batch.problems_needed():
            draws, groups = self._judged_groups(missing, watch)  # ROLLOUT and VERIFY
            uniform = [
                is_uniform(group, algo, self.params.max_tokens, weightless) for group in groups
            ]
            self.order.note(draws, uniform)
            sampled.uniform += uniform
            batch.add(groups)  # FILTER: keep only the groups that train
        self.carried_groups = batch.finish()
        sampled.n_carried = len(self.carried_groups)
        sampled.rested = self.order.rested - rested_before
        if self.in_flight is not None:
            sampled.partial = self.in_flight.end_step()
        return sampled

    def _begin_next(self, step: int, batch: GroupBatch) -> Future[SampledBatch] | None:
        """Begin to sample the next batch, during the update if servers sample. Return None after
        the last step."""
        if step == self.config.steps or batch.given_up == "stop":
            return None
        is_beside = self.config.samples_beside
        watch = unwatched if is_beside else self.watch
        return begin_sampling(lambda: self._sample_batch(step + 1, watch), is_beside)

    def _continue_responses(self, batch: GroupBatch) -> Samples:
        """Continue responses a little: `measure_mismatch` compares engine and trainer by that."""
        groups = continue_from_middles(
            self.session.sampler,
            batch,
            self.params,
            self.config.seed,
            self.weight_version,
            servers=len(self.config.servers.urls or ()),
        )
        return self.samples_of(groups)

    def samples_of(self, groups: Sequence[Group]) -> Samples:
        """Return the responses of these groups that may train as a batch."""
        return to_samples(
            groups,
            self.config.algorithm,
            self.params.max_tokens,
            self.weight_version,
            terms=self.config.reward.terms,
            tokenizer=self.session.policy.tokenizer,
            weighs_older=self.config.weighs_older,
            ahead=self.config.rollout.ahead,
        )

    def _judged_groups(self, count: int, watch: Watch) -> tuple[list[Draw], list[Group]]:
        """Sample and judge responses to the next problems. Return the draws of these problems, and
        their groups, both in the order of the problems."""
        if self.in_flight is not None:
            on_group = progress(watch, 0)
            return self.in_flight.take(count, self.weight_version, on_group)
        draws = self.order.draw(count)
        prompts = [self.prompts[problem] for _, problem in draws]
        stream = self._stream(prompts, draws)  # G responses per problem, lazily
        return draws, self._verify(prompts, stream, watch)  # pull and judge each group

    def _stream(self, prompts: Sequence[Prompt], draws: Sequence[Draw]) -> CompletionStream:
        """Return a lazy stream of the prompts' responses, with a seed for each place in the order.
        Nothing is sampled until the stream is read."""
        seeds = [response_seed(self.config.seed, "train", place) for place, _ in draws]
        return self.session.sampler.stream(prompts, self.params, seeds)

    def _verify(self, prompts: list[Prompt], stream: CompletionStream, watch: Watch) -> list[Group]:
        """Judge and reward responses as they come, and return the groups in the prompts' order."""
        on_group = progress(watch, len(prompts) * self.params.samples)
        return self.session.sampler.judge(
            prompts, stream, self.session.rewarder, self.weight_version, on_group
        )

    def _no_signal_reason(self, batch: GroupBatch, samples: Samples) -> str | None:
        """Return why the rewards do not train the policy. Return None if they do."""
        algo = self.config.algorithm
        if batch.given_up:
            return "batch not full"
        if algo.masks_cut_off and bool(samples.is_cut_off.all()):
            return "all cut off"
        if with_signal(batch.groups, algo, self.params.max_tokens, batch.weightless):
            return None
        return "no signal"

    def _still_updates(self, reason: str, samples: Samples) -> bool:
        """Return whether a step without a signal still updates, because a critic learns or the loss
        has a reference term."""
        algo = self.config.algorithm
        has_other_loss = algo.critic is not None or algo.has_reference_loss
        return has_other_loss and reason == "no signal" and len(samples) > 0

    def _renew_reference(self, step: int) -> None:
        """Move the reference towards the policy at regular steps (iterative GRPO, TR-DPO)."""
        renewal = self.config.algorithm.renewal
        if self.reference is None or renewal is None or step % renewal.every != 0:
            return
        targets = self.session.policy.model.parameters()
        with torch.no_grad():
            for parameter, target in zip(self.reference.model.parameters(), targets, strict=True):
                parameter.lerp_(target, renewal.mix)
        if renewal.resets_optimizer:
            self.updater.reset_optimizer()

    def measure(self) -> tuple[list[Response], dict[str, Measured]]:
        """Measure the held-out sets as `rlvr eval` does. Return all responses, and the figures of
        each set by its name, which is empty if there is only one."""
        plan = self.session.plan
        cluster = self.session.sampler.verifier.cluster
        advance = counter(self.watch, "held-out", len(self.held_out))
        responses: list[Response] = []
        figures = {}
        for name, prompts in self._held_out_sets().items():
            task = Task(
                label=Label(self.config.model, name),
                problems=[prompt.problem for prompt in prompts],
                respond=partial(respond, self.session, prompts, plan.evaluation),
                samples=plan.evaluation.samples,
            )
            outcome = carry_out(
                task,
                self.session.sampler.verifier,
                cluster,
                stored=PartialResult(None, task.fingerprint, task.samples or 0),
                tick=lambda note, problems: advance(problems, 0),
            )
            responses += outcome.result.responses
            figures[name] = summarize(
                outcome.result.problems, plan.evaluation, plan.answer_format != "any"
            )
        return responses, figures

    def _held_out_sets(self) -> dict[str, list[Prompt]]:
        """Return the held-out prompts of each set by its name, which is empty if there is one."""
        if len(self.config.eval.sources) > 1:
            return by_key(self.held_out, lambda prompt: prompt.problem.problem_set)
        return {"": self.held_out}

    def state_dict(self) -> State:
        """Return the state at the end of a step, without the policy's weights. The tensors are not
        copies: save them before the next update changes them."""
        values: JsonObject = {
            "step": self.step,
            "weight_version": self.weight_version,
            "kl_coef": self.updater.kl_coef,
            "mismatch": self.updater.mismatch,
            "cursor": self.order.cursor,
            "resting": [[problem, *rest] for problem, rest in self.order.resting.items()],
            "carried": groups_as_json(self.carried_groups, self.prompts),
        }
        if self.next_batch is not None:
            values["ahead"] = batch_as_json(self.next_batch, self.prompts)
        if self.in_flight is not None:
            values["open"] = open_groups_as_json(self.in_flight.groups, self.prompts)
        state = State(values, {"torch_rng": torch.get_rng_state()}) | self.updater.state_dict()
        if self.reference is not None and self.config.algorithm.renewal:
            state |= module_state("reference", self.reference.model)
        return state

    def load_state_dict(self, state: State) -> None:
        """Restore the state that `state_dict` returned, and hand the weights to the engine. The
        policy has its weights already. Errors of an invalid state pass through."""
        values = TRAINER_VALUES.validate_python(state.values)
        self.step = values.step
        self.weight_version = values.weight_version
        self.updater.kl_coef = values.kl_coef
        self.updater.mismatch = values.mismatch
        self.order.cursor = values.cursor
        self.order.resting = {problem: (passes, until) for problem, passes, until in values.resting}
        self.carried_groups = groups_from_json(values.carried, self.prompts)
        if self.in_flight is not None:
            self.in_flight.groups = open_groups_from_json(values.open, self.prompts)
        if values.ahead is not None:
            self.next_batch = batch_from_json(
                values.ahead,
                self.prompts,
                self.config.rollout.prompts,
                self.config.algorithm,
                self.config.reward.weightless,
            )
        self.updater.load_state_dict(state)
        torch.set_rng_state(state.tensors["torch_rng"])  # loading may have used random numbers
        if self.reference is not None and self.config.algorithm.renewal:
            load_module("reference", self.reference.model, state.tensors)
        self.session.push_weights()


def progress(watch: Watch, total: int) -> Callable[[Group], None]:
    """Return a function that tells the watch of a judged group. 0 is an unknown total."""
    advance = counter(watch, "rollout", total)

    def on_group(group: Group) -> None:
        tokens = sum(rollout.n_tokens or 0 for rollout in group.rollouts)
        advance(len(group.rollouts), tokens)

    return on_group
