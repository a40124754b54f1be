"""What train, eval and sample set up before they sample: model, engine, verifier, prompts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import zip_longest

import torch

from rlvr_cli.algorithm.reward import RewardConfig
from rlvr_cli.config import Config
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.signals import raise_if_interrupted
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.core.types import Problem, Prompt
from rlvr_cli.core.versions import describe_versions, installed_version, untried_versions
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.data.prompts import forward_samples, render_prompts, turn_end, writes_date
from rlvr_cli.model.adapter import add_adapter, is_adapter, merged_parameters
from rlvr_cli.model.forward import PACKED, Forward, choose_forward
from rlvr_cli.model.loading import (
    LoadedModel,
    cast,
    load_model,
    model_directory,
    model_outline,
    unused_gpu,
)
from rlvr_cli.model.policy import decoder_layers
from rlvr_cli.ranks.group import broadcast_from_first, gather, shard, world
from rlvr_cli.rewards.rewarder import Rewarder
from rlvr_cli.rollout.engines.base import Engine, check_scores
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
from rlvr_cli.rollout.sampler import Sampler
from rlvr_cli.setup.memory import Memory, this_machine
from rlvr_cli.setup.plan import Plan, is_sharded
from verifiers import Verifier

NO_TEMPLATE = "the tokenizer has no chat template: prompts are put as plain text"
_SHOWN_TOO_LONG = 3


@dataclass(frozen=True)
class Session:
    """A loaded policy, ready to be sampled and judged."""

    plan: Plan
    policy: LoadedModel
    engine: Engine
    sampler: Sampler
    forward: Forward
    device: torch.device
    """Where the engine samples and the trainer computes; the model may lie on the CPU."""
    memory: Memory
    rewarder: Rewarder = field(default_factory=Rewarder)
    teacher: LoadedModel | None = None
    teacher_forward: Forward = PACKED

    @property
    def clocks(self) -> dict[str, Sampler | Rewarder]:
        """Return what counts the seconds of verdicts and rewards, by the name of the phase."""
        return {"verification": self.sampler, "reward": self.rewarder}

    @property
    def versions(self) -> str:
        """Describe the libraries, and which of their versions were tried, in one line."""
        return describe_versions(libraries(self.plan.config.engine))

    @property
    def description(self) -> str:
        """Describe model, device and engine in one line."""
        device = self.device.type
        if device == "cpu":
            device = f"cpu, {plural(self.plan.config.threads or 1, 'thread')}{unused_gpu()}"
        size = self.policy.model.num_parameters() / 1e6
        choice = self.plan.engine
        return f"{size:.1f} M parameters on {device}; engine {choice.name} ({choice.reason})"


def libraries(engine: str) -> list[str]:
    """Return the libraries that compute where this engine samples."""
    return ["torch", "transformers", *(["vllm"] if engine == "vllm" else [])]


@contextmanager
def open_session(plan: Plan, training: bool = False) -> Iterator[Session]:
    """Load the rewards of training, policy, engine, verifier; all is stopped on leaving."""
    asked = plan.config.reward if training else RewardConfig()
    if warning := untried_versions(libraries(plan.config.engine)):
        LOG.warning("warning    %s", warning)
    with (
        Rewarder(asked, plan.config.rollout.max_tokens) as rewarder,
        Verifier(format=plan.answer_format) as verifier,
    ):
        reward = asked.model_copy(update={"sources": rewarder.sources})
        config = plan.config.model_copy(update={"reward": reward})
        memory, config = check_before_loading(config, training)
        device = memory.machine.device
        optim, lora, rollout = config.optim, config.lora, config.rollout
        with_vllm, is_half = config.engine == "vllm", optim.weights == "bfloat16"
        # What is rounded or cut after the check of its log-probabilities waits on the CPU; an
        # evaluation leaves the GPU to vLLM.
        waits, dtype = world() > 1 or is_half or optim.offload == "all", "float32"
        if not training:
            waits = with_vllm and device == "cuda"
            dtype = rollout.precision if waits else dtype
        policy, config = with_ends(load_model(config.model, waits, dtype), config)
        teacher = None
        model, vocabulary = policy.model, len(policy.tokenizer)
        if training and config.teacher is not None:
            teacher = load_teacher(config.teacher, policy, waits)
            policy = replace(policy, context=min(policy.context, teacher.context))
        raise_if_interrupted()
        plan = replace(plan, config=config).with_threads(model.num_parameters())
        torch.set_num_threads(plan.config.threads or 1)
        forward = teacher_forward = PACKED
        samples = forward_samples(policy.tokenizer, policy.context)
        if training or not with_vllm:
            forward = choose_forward(model, vocabulary, samples, policy.context)
        if teacher is not None:
            teacher_forward = choose_forward(teacher.model, vocabulary, samples, policy.context)
        ways = [(way.packed, way.attention) for way in (forward, teacher_forward)]
        if len(set(map(str, gather(ways)))) > 1:
            raise UserError("--processes: the machines are too unlike to run the model in one way")
        if training and is_half:
            for loaded in filter(None, (policy, teacher)):
                cast(loaded.model, torch.bfloat16)
        # The engine has the policy's weights: vLLM always a copy of its own, transformers one where
        # an adapter is merged or weights are put together for it.
        assert rollout.kv_budget_mb is not None  # `check_before_loading` has fitted it
        common = (vocabulary, policy.stop_ids, rollout.kv_budget_mb)
        engine: Engine
        if with_vllm:
            from rlvr_cli.rollout.engines.vllm_engine import VllmEngine

            engine = VllmEngine(model, *common, rollout.gpu_share, rollout.precision, training)
        else:
            of_own = getattr(torch, rollout.precision)
            has_own = lora.rank is not None or is_sharded(optim) or of_own != model.dtype
            own = deepcopy(model).to(device) if training and has_own else model
            engine = TransformersEngine(cast(own, of_own), *common, forward)
        try:
            if with_vllm:
                check_scores(engine, model, vocabulary, samples, rollout.mismatch_limit)
            if training and lora.rank is not None:
                add_adapter(model, lora.rank, lora.alpha, lora.targets, config.seed)
            sampler = Sampler(engine, policy.tokenizer, verifier)
            made = plan, policy, engine, sampler, forward, torch.device(device), memory, rewarder
            yield Session(*made, teacher, teacher_forward)
        finally:
            engine.close()


def with_ends(policy: LoadedModel, config: Config) -> tuple[LoadedModel, Config]:
    """Return the policy with the tokens of `rollout.ends`, or the one with which its chat template
    ends a turn, among the ends of its responses; and the settings, which name what is new. Raises
    UserError for what is no token."""
    tokenizer, ends = policy.tokenizer, config.rollout.ends
    vocabulary = tokenizer.get_vocab()
    if ends is None:
        shown = turn_end(tokenizer)
        ends = ()
        if shown is not None and vocabulary[shown] not in policy.stop_ids:
            ends = (shown,)
            stops = map(str, tokenizer.convert_ids_to_tokens(list(policy.stop_ids)))
            text = (
                "%s: its chat template ends a turn with %s, which ends no response of it, only %s"
            )
            advice = "does; here both do (--set rollout.ends=[] takes it back)"
            LOG.warning(f"{text} {advice}", config.model, shown, " or ".join(stops))
    if unknown := [end for end in ends if end not in vocabulary]:
        raise UserError(f"rollout.ends {shortened(unknown[0])}: {config.model} has no such token")
    ids = {*policy.stop_ids, *(vocabulary[end] for end in ends)}
    rollout = config.rollout.model_copy(update={"ends": ends})
    policy = replace(policy, stop_ids=tuple(sorted(ids)))
    return policy, config.model_copy(update={"rollout": rollout})


def with_date(session: Session, began: datetime) -> Session:
    """Return the session with the date on which its run began, if its chat template writes one and
    the settings have none."""
    config = session.plan.config
    if config.data.date is not None or not writes_date(session.policy.tokenizer):
        return session
    date = datetime.fromisoformat(broadcast_from_first(str(began)))
    data = config.data.model_copy(update={"date": date})
    plan = replace(session.plan, config=config.model_copy(update={"data": data}))
    return replace(session, plan=plan)


def check_before_loading(config: Config, training: bool) -> tuple[Memory, Config]:
    """Return the memory of a command, and its settings fitted to it. Raises UserError for a model
    that does not fit, and for what vLLM, peft or torch would refuse once it is loaded."""
    name, rank, teacher = config.model, config.lora.rank, None
    outline = model_outline(name)
    if config.engine == "vllm":
        from rlvr_cli.rollout.engines.vllm_engine import known_architectures

        architectures = outline.config.architectures or [type(outline.config).__name__]
        if not set(architectures) & set(known_architectures()):
            raise UserError(
                f"--model {name}: vLLM {installed_version('vllm')} does not know the architecture "
                f"{architectures[0]}; --engine transformers may"
            )
    if training and rank is not None and is_adapter(model_directory(name)):
        raise UserError(
            f"--lora {rank}: {name} has an adapter already: merge it with rlvr export and train on "
            "that, go on with --resume, or train all weights of it with --set lora.rank=null"
        )
    if training and config.teacher is not None:
        with _named_teacher():
            teacher = model_outline(config.teacher)
    memory = Memory(outline, this_machine(), training, teacher)
    config = memory.fitted(config)
    need, free = memory.needed(config), memory.machine.free
    if need.resident > free:
        raise UserError(f"--model {name}: {need.shortage(free)}: {memory.advice(config)}")
    if training and is_sharded(config.optim):
        model = model_outline(name)
        shard(model, decoder_layers(model))
    return memory, config


def load_teacher(name: str, policy: LoadedModel, on_cpu: bool) -> LoadedModel:
    """Load the teacher of a policy. Raises UserError if that fails, or if a token of one is not the
    same token of the other."""
    with _named_teacher():
        teacher = load_model(name, on_cpu)
    if teacher.tokenizer.get_vocab() != policy.tokenizer.get_vocab():
        sizes = f"{len(teacher.tokenizer)} tokens and {len(policy.tokenizer)}"
        raise UserError(
            f"--teacher {name}: its tokens are not those of the policy {policy.name} ({sizes}), so "
            "it cannot judge them; take a teacher with the policy's tokenizer"
        )
    return teacher


@contextmanager
def _named_teacher() -> Iterator[None]:
    """Say of what cannot be loaded that it is the teacher."""
    try:
        yield
    except UserError as error:
        raise UserError(str(error).replace("--model", "--teacher", 1)) from None


def check_teacher(session: Session) -> None:
    """Raise UserError if the teacher has the policy's own weights."""
    if session.teacher is None:
        return
    own = merged_parameters(session.policy.model)
    its = session.teacher.model.named_parameters()
    nothing = ("", torch.empty(0))
    if all(
        name == other and weight.shape == its_own.shape and torch.equal(weight, its_own.to(weight))
        for (name, weight), (other, its_own) in zip_longest(own, its, fillvalue=nothing)
    ):
        raise UserError(
            f"--teacher {session.plan.config.teacher}: it is the policy itself, which has nothing "
            "to learn from it; take another model"
        )


def unreadable_golds(prompts: Sequence[Prompt], verifier: Verifier) -> list[Problem]:
    """Return the problems whose gold answer the verifier cannot read, which never train."""
    problems = (prompt.problem for prompt in prompts)
    return [problem for problem in problems if not verifier.check_gold(problem.answer or "")]


def prompts_for(
    problems: ProblemSet, policy: LoadedModel, config: Config, max_tokens: int
) -> list[Prompt]:
    """Return the problems as prompts.

    Those that do not fit the context stop the command; `--skip-bad` skips and counts them.
    """
    prompts, too_long = render_prompts(
        problems.problems,
        policy.tokenizer,
        config.data.prompt or problems.prompt,
        policy.context,
        max_tokens,
        config.data.system,
        config.data.chat,
        config.data.date,
    )
    shown = too_long[:_SHOWN_TOO_LONG]
    if len(too_long) > len(shown):
        shown.append(f"… and {len(too_long) - len(shown)} more")
    if too_long and not (config.data.skip_bad and prompts):
        advice = "lower --max-tokens, shorten them, or leave them out with --skip-bad"
        raise UserError("\n".join([*shown, f"prompts too long: {len(too_long)}; {advice}"]))
    if too_long:
        LOG.warning("%s", "\n".join([*shown, f"skipped {plural(len(too_long), 'prompt')}"]))
    return prompts
