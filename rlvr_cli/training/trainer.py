"""The training loop, top to bottom."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from itertools import count

import torch

from rlvr_cli.algorithm.advantage import with_advantages
from rlvr_cli.algorithm.group_filter import Batch, is_alike, with_signal
from rlvr_cli.algorithm.loss import rejected
from rlvr_cli.algorithm.samples import Samples, to_samples
from rlvr_cli.core.types import (
    PROBLEM_SET,
    Completion,
    Group,
    Prompt,
    by_key,
    groups_as_json,
    groups_from_json,
)
from rlvr_cli.data.problems import ProblemOrder
from rlvr_cli.data.prompts import prompts_digest
from rlvr_cli.data.responses import tokenize_responses
from rlvr_cli.evaluation.measure import Evaluation, evaluate, held_out_metrics, summarize
from rlvr_cli.model.adapter import merged_parameters
from rlvr_cli.model.policy import (
    Critic,
    Policy,
    check_as_trained,
    compile_passes,
    recompute,
    share_out,
    weights_digest,
)
from rlvr_cli.ranks.group import share
from rlvr_cli.rollout.engines.base import CompletionStream
from rlvr_cli.rollout.sampler import response_seed
from rlvr_cli.setup.plan import is_sharded
from rlvr_cli.setup.session import Session
from rlvr_cli.training.forward import add_logprobs
from rlvr_cli.training.record import StepRecord, StepResult, Watch, counted, token_rows
from rlvr_cli.training.state import State, load_module, module_state
from rlvr_cli.training.update import Updater


class Trainer:
    """The training loop of one run; `train_steps` yields each finished step and writes no file."""

    def __init__(self, session: Session, prompts: list[Prompt], held_out: list[Prompt]) -> None:
        self.session, self.prompts, self.held_out = session, prompts, held_out
        self.config = config = session.plan.config
        self.params, model = session.plan.training, session.policy.model
        algo, optim, rollout = config.algorithm, config.optim, config.rollout
        of_policy = len(session.policy.tokenizer), rollout.temperature, session.forward
        self.policy = Policy(model, *of_policy)
        has_adapter = config.lora.rank is not None
        torch.manual_seed(config.seed)
        self.reference, self.start_digest = None, ""
        teacher = session.teacher
        if teacher is not None:
            frozen_teacher = teacher.model.requires_grad_(False)
            self.reference = Policy(frozen_teacher, *of_policy[:2], session.teacher_forward)
        elif algo.has_reference_model:
            self.reference = self.policy
            if not config.reference_is_base:
                self.reference = Policy(deepcopy(model).requires_grad_(False), *of_policy)
        for scored in filter(None, (self.policy, self.reference)):
            scored.device = session.device
        kept: list[torch.Tensor] = []
        """The weights that stay as they are, or that the reference began with."""
        if has_adapter or (self.reference is not None and teacher is None):
            kept = [p for p in model.parameters() if not (has_adapter and p.requires_grad)]
        if teacher is not None:
            kept += teacher.model.parameters()
        if kept:
            self.start_digest = weights_digest(kept)
        critic = Critic(model, algo.critic.kind == "own") if algo.critic is not None else None
        for module in dict.fromkeys(filter(None, (self.policy, critic, self.reference))):
            if optim.compile == "on":
                compile_passes(module)
            if optim.checkpointing == "on":
                recompute(module)
            if is_sharded(optim):
                share_out(module, optim)
        if is_sharded(optim) or optim.compile == "on":
            check_as_trained(self.policy, rollout.mismatch_limit)
        limits = rollout.max_tokens, config.steps, rollout.mismatch_limit
        self.updater = Updater(self.policy, critic, algo, optim, *limits)
        self.order = ProblemOrder(len(prompts), config.seed, config.data.rest)
        self.carried: list[Group] = []
        """What was sampled beyond a step's batch, and the next one begins with; oldest first."""
        self.given: list[Completion] = []
        if algo.reads_responses:
            self.given = tokenize_responses(prompts, session.policy, rollout.max_tokens)
        self.problems_digest = prompts_digest([*prompts, *held_out], self.given)
        self.step = self.weight_version = 0
        self.settled = True
        """Weights and optimizer are those of the end of a step."""
        self.stopped = False
        self.watch: Watch = lambda *_: None

    def train_steps(
        self, interruptible: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> Iterator[StepResult]:
        """Run up to `config.steps` steps, fewer if the filter reaches its cap and stops.

        Sampling goes on inside `interruptible()`: left there, the step has changed no weight.
        """
        engine, algo, policy = self.session.engine, self.config.algorithm, self.session.policy
        max_tokens, size = self.params.max_tokens, self.config.rollout.prompts
        weightless = self.config.reward.weightless
        for step in range(self.step + 1, self.config.steps + 1):
            record = StepRecord(self.session, self.watch)
            phase = "reading" if algo.reads_responses else "rollout"
            with interruptible(), record.phase(phase, memory="awake"):
                batch = Batch(size, algo, self.carried, weightless=weightless)
                first = self.order.cursor
                while missing := batch.next_draw():
                    draws = self.order.draw(missing)
                    prompts, drawn = self._rollout(draws)  # ROLLOUT: G responses a problem,
                    groups = self._verify(prompts, drawn)  # as VERIFY asks for them
                    alike = [is_alike(group, algo, max_tokens, weightless) for group in groups]
                    self.order.note(draws, alike)
                    batch.keep(groups)  # FILTER: the groups that train
                self.carried = batch.end()
                record.rested = self.order.cursor - first - len(batch.sampled)
            shaping = max_tokens, self.weight_version, self.config.reward.terms
            samples = to_samples(batch.kept, algo, *shaping)
            self.settled = False
            no_update, is_skipped = self._skips(batch, samples)
            if not is_skipped:
                with record.phase("sync", memory="asleep"):
                    engine.sleep()
                with record.phase("logprobs"):  # LOG-PROBABILITIES, old and reference; values
                    models = self.policy, self.reference, self.updater.critic
                    micro_tokens = self.config.optim.micro_tokens
                    takes_engine = self.updater.takes_engine
                    record.scored = add_logprobs(samples, algo, micro_tokens, *models, takes_engine)
                    self.updater.compare(samples, step)
                samples.is_rejected = rejected(samples, algo)  # CORRECTION of the engine's gap
                if samples.is_rejected is not None:
                    record.rejected_share = float(samples.is_rejected.double().mean())
                samples = with_advantages(samples, algo, self.updater.kl_coef)  # ADVANTAGE
                if no_update:
                    samples.advantages = torch.zeros_like(samples.mask)  # a critic's are no signal
                if no_update is None and not len(samples):
                    no_update = "all rejected"
                with record.phase("update", memory="update"):  # OBJECTIVE, backward, UPDATE
                    learns_policy = no_update is None or algo.pulls
                    record.update = self.updater.update(
                        samples, step, self.config.seed, learns_policy, self.watch
                    )
                    record.tokens = token_rows(batch, samples, policy.tokenizer)
                self.updater.optimizer.zero_grad()  # their memory is the next rollout's
                with record.phase("sync"):  # SYNC: the new weights to the engine
                    engine.sync_weights(merged_parameters(policy.model))
                    engine.wake()
                record.trained, self.weight_version = samples.lengths, self.weight_version + 1
            self.stopped = batch.given_up == "stop"
            self._renew_reference(step)
            every = self.config.eval.every
            if every and self.held_out and step % every == 0:
                record.held_out, evaluations = self.measure()
                record.held_out_metrics = held_out_metrics(evaluations)
            self.step, self.settled = step, True
            yield record.result(step, batch, len(self.carried), no_update)
            if self.stopped:
                break

    def _rollout(self, draws: Sequence[tuple[int, int]]) -> tuple[list[Prompt], CompletionStream]:
        """Sample the drawn problems, each by the seed of its place, or take their responses."""
        prompts = [self.prompts[problem] for _, problem in draws]
        if self.given:
            return prompts, ((n, [self.given[i]]) for n, (_, i) in enumerate(share(draws)))
        seeds = [response_seed(self.config.seed, "train", place) for place, _ in draws]
        return prompts, self.session.sampler.stream(prompts, self.params, seeds)

    def _verify(self, prompts: list[Prompt], drawn: CompletionStream) -> list[Group]:
        """Judge and pay responses as they come; return the groups in the prompts' order."""
        advance = counted(self.watch, "rollout", len(prompts) * self.params.samples)

        def on_group(group: Group) -> None:
            tokens = sum(len(rollout.completion.token_ids) for rollout in group.rollouts)
            advance(len(group.rollouts), tokens)

        sampler, rewarder = self.session.sampler, self.session.rewarder
        return sampler.judge(prompts, drawn, rewarder, self.weight_version, on_group)

    def state_dict(self) -> State:
        """Return the state at the end of a step, without the policy's weights. Tensors are the
        trainer's own: save them before the next update."""
        values = {
            "step": self.step,
            "weight_version": self.weight_version,
            "kl_coef": self.updater.kl_coef,
            "mismatch": self.updater.mismatch,
            "cursor": self.order.cursor,
            "resting": [[problem, *rest] for problem, rest in self.order.resting.items()],
            "carried": groups_as_json(self.carried, self.prompts),
        }
        state = State(values, {"torch_rng": torch.get_rng_state()}) | self.updater.state_dict()
        if self.reference is not None and self.config.algorithm.renewal:
            state |= module_state("reference", self.reference.model)
        return state

    def load_state_dict(self, state: State) -> None:
        """Restore the state that `state_dict` returned, beside weights that are the policy's
        already, and hand them to the engine; errors of an invalid state pass through."""
        self.step, self.weight_version = state.values["step"], state.values["weight_version"]
        self.updater.kl_coef = state.values["kl_coef"]
        self.updater.mismatch = state.values.get("mismatch")
        self.order.cursor = state.values["cursor"]
        resting = state.values.get("resting", [])
        self.order.resting = {problem: (k, until) for problem, k, until in resting}
        self.carried = groups_from_json(state.values["carried"], self.prompts)
        self.updater.load_state_dict(state)
        torch.set_rng_state(state.tensors["torch_rng"])  # loading may have drawn numbers
        if self.reference is not None and self.config.algorithm.renewal:
            load_module("reference", self.reference.model, state.tensors)
        self.session.engine.sync_weights(merged_parameters(self.session.policy.model))

    def measure(self) -> tuple[list[Group], dict[str, Evaluation]]:
        """Measure each held-out set, by its name if there are several, as `rlvr eval` does."""
        sampler, plan, done = self.session.sampler, self.session.plan, count(1)
        groups = evaluate(
            sampler,
            self.held_out,
            plan.evaluation,
            self.config.seed,
            lambda group: self.watch("held-out", next(done), len(self.held_out), 0),
        )
        several, has_format = len(self.config.eval.sources) > 1, plan.answer_format != "any"
        sets = by_key(groups, lambda g: g.prompt.problem.extra[PROBLEM_SET] if several else "")
        how = plan.evaluation, sampler.verifier.cluster, has_format
        return groups, {name: summarize(of_set, *how) for name, of_set in sets.items()}

    def _renew_reference(self, step: int) -> None:
        """Move the reference towards the policy every so many steps (iterative GRPO, TR-DPO)."""
        renewal = self.config.algorithm.renewal
        if self.reference and renewal and step % renewal.every == 0:
            own, policy = self.reference.model.parameters(), self.session.policy.model.parameters()
            with torch.no_grad():
                for parameter, target in zip(own, policy, strict=True):
                    parameter.lerp_(target, renewal.mix)
            if renewal.resets_optimizer:
                self.updater.reset_optimizer()

    def _skips(self, batch: Batch, samples: Samples) -> tuple[str | None, bool]:
        """Return why the rewards do not train, if so (the cap left a short batch, or there is no
        gradient), and whether there is no update at all: without a signal a critic learns alone,
        and a reference in the loss pulls the policy."""
        algo = self.config.algorithm
        if batch.given_up:
            return "batch not full", True
        if algo.masks_cut_off and bool(samples.is_cut_off.all()):
            return "all cut off", True
        if with_signal(batch.kept, algo, self.params.max_tokens, batch.weightless):
            return None, False
        return "no signal", not (len(samples) and (algo.critic is not None or algo.pulls))
