"""What train, eval and sample set up before they sample: model, engine, verifier, prompts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

import torch

from rlvr_cli.algorithm.reward_config import RewardConfig
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
from rlvr_cli.model.loading import LoadedModel, default_device, load_model, model_directory
from rlvr_cli.model.units import AS_IT_STANDS, computed, in_units
from rlvr_cli.ranks.group import gathered, world
from rlvr_cli.ranks.shards import whole_copy
from rlvr_cli.rollout.engines.base import Engine
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
from rlvr_cli.rollout.engines.selection import check_before_loading
from rlvr_cli.rollout.plan import Plan, way_of
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
    way = way_of(config.optim, torch.device(default_device())) if training else AS_IT_STANDS
    optim = config.optim
    is_half = training and optim.weights == "bfloat16"
    weights: Literal["float32", "bfloat16"] = "bfloat16" if is_half else "float32"
    shared_out = world() > 1 and (training or is_vllm)
    policy = load_model(config.model, weights, training and optim.offload == "all", shared_out)
    if way != AS_IT_STANDS:
        in_units(policy.model)
    heed()
    device = policy.model.device
    plan = plan.with_threads(policy.model.num_parameters())
    torch.set_num_threads(plan.threads)
    forward = PACKED
    if training or not is_vllm:
        samples = forward_samples(policy.tokenizer, policy.context)
        exact = replace(way, dtype=None if way.dtype is None else torch.float32)
        with computed(exact):
            forward = choose_forward(policy.model, len(policy.tokenizer), samples, policy.context)
    if len({tuple(way) for way in gathered([forward.packed, forward.attention])}) > 1:
        raise UserError("--processes: the machines are too unlike to run the model in one way")
    with Verifier(format=plan.answer_format) as verifier:
        merges = rank is not None or (training and world() > 1)
        engine = _started(plan, policy, training, forward, merges)
        if rank is not None:
            add_adapter(policy.model, rank, config.lora.alpha, config.lora.targets, config.seed)
        try:
            together = config.rollout.tensor_parallel
            sampler = Sampler(engine, policy.tokenizer, verifier, together)
            yield Session(plan, policy, engine, sampler, forward, device)
        finally:
            engine.close()


def _started(
    plan: Plan, policy: LoadedModel, training: bool, forward: Forward, merges: bool
) -> Engine:
    """Return the engine with the policy's weights. vLLM has a copy of its own, so that in
    evaluation the model makes room for it; so has transformers where an adapter is merged or
    shared out weights are put together for it."""
    rollout, is_vllm = plan.config.rollout, plan.engine.name == "vllm"
    model = whole_copy(policy.model) if merges and not is_vllm else policy.model
    common = (model, len(policy.tokenizer), policy.stop_ids, rollout.kv_budget_mb)
    if not is_vllm:
        return TransformersEngine(*common, forward)
    from rlvr_cli.rollout.engines.vllm_engine import VllmEngine

    engine = VllmEngine(*common, rollout.gpu_share, rollout.seeded, rollout.tensor_parallel)
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
