"""What train, eval and sample set up before they sample: model, engine, verifier, prompts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace

import torch

from rlvr_cli.algorithm.reward import RewardConfig
from rlvr_cli.config import Config
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.logs import LOG
from rlvr_cli.core.signals import heed
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import Problem, Prompt
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.data.prompts import forward_samples, render_prompts
from rlvr_cli.model.adapter import add_adapter, is_adapter
from rlvr_cli.model.forward import PACKED, Forward, choose_forward
from rlvr_cli.model.loading import (
    LoadedModel,
    default_device,
    load_model,
    model_directory,
    read_config,
)
from rlvr_cli.model.policy import decoder_layers
from rlvr_cli.model.pretrained import described_model
from rlvr_cli.ranks.group import gathered, shard, world
from rlvr_cli.rollout.engines.base import Engine
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
from rlvr_cli.rollout.engines.selection import check_before_loading
from rlvr_cli.rollout.plan import Plan, is_shared_out
from rlvr_cli.rollout.rewards import Rewarder
from rlvr_cli.rollout.sampler import Sampler
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
    """Where the model was loaded: with vLLM it makes room there in evaluation."""
    rewarder: Rewarder = field(default_factory=Rewarder)

    @property
    def clocks(self) -> dict[str, Sampler | Rewarder]:
        """Return what counts the seconds of verdicts and rewards, by the name of the phase."""
        return {"verification": self.sampler, "reward": self.rewarder}

    @property
    def description(self) -> str:
        """Describe model, device and engine in one line."""
        device = self.device.type
        if device == "cpu":
            device = f"cpu, {plural(self.plan.threads, 'thread')}"
        size = self.policy.model.num_parameters() / 1e6
        choice = self.plan.engine
        return f"{size:.1f} M parameters on {device}; engine {choice.name} ({choice.reason})"


@contextmanager
def open_session(plan: Plan, training: bool = False) -> Iterator[Session]:
    """Load the rewards of training, policy, engine, verifier; all is stopped on leaving."""
    config = plan.config
    asked = config.reward if training else RewardConfig()
    with Rewarder(asked, config.rollout.max_tokens) as rewarder:
        reward = asked.model_copy(update={"sources": rewarder.sources})
        plan = replace(plan, config=config.model_copy(update={"reward": reward}))
        with _loaded(plan, training) as session:
            yield replace(session, rewarder=rewarder)


@contextmanager
def _loaded(plan: Plan, training: bool) -> Iterator[Session]:
    config, is_vllm = plan.config, plan.engine.name == "vllm"
    if is_vllm:
        check_before_loading(config, training)
    rank = config.lora.rank if training else None
    if rank is not None and is_adapter(model_directory(config.model)):
        raise UserError(
            f"--lora {rank}: {config.model} has an adapter already: merge it with rlvr "
            "export and train on that, go on with --resume, or train all weights of it with "
            "--set lora.rank=null"
        )
    optim, device = config.optim, torch.device(default_device())
    if training and is_shared_out(optim):  # what torch refuses it refuses before it is loaded
        described = described_model(read_config(config.model))
        shard(described, decoder_layers(described))
    is_half = optim.weights == "bfloat16"
    # What is rounded or cut after the check of its log-probabilities waits on the CPU.
    waits = training and (world() > 1 or is_half or optim.offload == "all")
    policy = load_model(config.model, on_cpu=waits)
    heed()
    plan = plan.with_threads(policy.model.num_parameters())
    torch.set_num_threads(plan.threads)
    forward = PACKED
    if training or not is_vllm:
        samples = forward_samples(policy.tokenizer, policy.context)
        forward = choose_forward(policy.model, len(policy.tokenizer), samples, policy.context)
    if len({tuple(way) for way in gathered([forward.packed, forward.attention])}) > 1:
        raise UserError("--processes: the machines are too unlike to run the model in one way")
    if training and is_half:
        policy.model.bfloat16()
    has_own = training and (rank is not None or is_shared_out(optim))
    with Verifier(format=plan.answer_format) as verifier:
        engine = _started(plan, policy, training, forward, has_own)
        if rank is not None:
            add_adapter(policy.model, rank, config.lora.alpha, config.lora.targets, config.seed)
        try:
            sampler = Sampler(engine, policy.tokenizer, verifier)
            yield Session(plan, policy, engine, sampler, forward, device)
        finally:
            engine.close()


def _started(
    plan: Plan, policy: LoadedModel, training: bool, forward: Forward, has_own: bool
) -> Engine:
    """Return the engine with the policy's weights. vLLM has a copy of its own, so that in
    evaluation the model makes room for it; `has_own`: so has transformers, where an adapter is
    merged or weights are put together for it."""
    rollout, model = plan.config.rollout, policy.model
    common = (len(policy.tokenizer), policy.stop_ids, rollout.kv_budget_mb)
    if plan.engine.name != "vllm":
        own = deepcopy(model).to(default_device()) if has_own else model
        return TransformersEngine(own, *common, forward)
    from rlvr_cli.rollout.engines.vllm_engine import VllmEngine

    engine = VllmEngine(model, *common, rollout.gpu_share)
    if not training:
        policy.model.to("cpu")
        torch.cuda.empty_cache()
    return engine


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
    )
    if not too_long:
        return prompts
    shown = too_long[:_SHOWN_TOO_LONG]
    if len(too_long) > len(shown):
        shown.append(f"… and {len(too_long) - len(shown)} more")
    if not (config.data.skip_bad and prompts):
        advice = "lower --max-tokens, shorten them, or leave them out with --skip-bad"
        raise UserError("\n".join([*shown, f"prompts too long: {len(too_long)}; {advice}"]))
    LOG.warning("%s", "\n".join([*shown, f"skipped {plural(len(too_long), 'prompt')}"]))
    return prompts
