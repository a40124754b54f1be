"""What train, eval and sample set up before they sample: model, engine, verifier, prompts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch

from rlvr_cli.config import Config, DataConfig, RolloutConfig
from rlvr_cli.core.cores import thread_limit
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.logs import LOG
from rlvr_cli.core.signals import heed
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import Problem, Prompt, SamplingParams
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.data.prompts import FORMATS, forward_samples, render_prompts
from rlvr_cli.model.forward import PACKED, Forward, choose_forward
from rlvr_cli.model.loading import LoadedModel, load_model
from rlvr_cli.rollout.engines.base import Engine
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
from rlvr_cli.rollout.engines.selection import Choice, check_before_loading, choose_engine
from rlvr_cli.rollout.sampler import Sampler
from verifiers import Format, Verifier

NO_TEMPLATE = "the tokenizer has no chat template: prompts are put as plain text"
LONGEST_RESPONSE = 32_768
"""Tokens of a response where the context would leave room for more: as reasoning models are
published."""
_SMALL_MODEL = 20_000_000
_SHOWN_TOO_LONG = 3


@dataclass(frozen=True)
class Session:
    """A loaded policy, ready to be sampled and judged."""

    policy: LoadedModel
    engine: Engine
    sampler: Sampler
    threads: int
    engine_choice: Choice
    forward: Forward
    device: torch.device
    """Where the model was loaded: with vLLM it makes room there in evaluation."""

    @property
    def description(self) -> str:
        """Model, device and engine in one line."""
        device = self.device.type
        if device == "cpu":
            device = f"cpu, {plural(self.threads, 'thread')}"
        size = self.policy.model.num_parameters() / 1e6
        choice = self.engine_choice
        return f"{size:.1f} M parameters on {device}; engine {choice.name} ({choice.reason})"


@contextmanager
def open_session(config: Config, training: bool = False) -> Iterator[Session]:
    """Load the policy and start engine and verifier; all is stopped on leaving."""
    choice = choose_engine(config.engine)
    if choice.name == "vllm":
        check_before_loading(config.model, config.rollout.gpu_share, training)
    policy = load_model(config.model)
    heed()
    device = policy.model.device
    threads = config.threads or choose_threads(policy.model.num_parameters())
    torch.set_num_threads(threads)
    forward = PACKED
    if training or choice.name == "transformers":
        samples = forward_samples(policy.tokenizer, policy.context)
        forward = choose_forward(policy.model, len(policy.tokenizer), samples, policy.context)
    with Verifier(format=training_format(config.data)) as verifier:
        engine = _started(choice, policy, config.rollout, training, forward)
        try:
            sampler = Sampler(engine, policy.tokenizer, verifier)
            yield Session(policy, engine, sampler, threads, choice, forward, device)
        finally:
            engine.close()


def _started(
    choice: Choice, policy: LoadedModel, rollout: RolloutConfig, training: bool, forward: Forward
) -> Engine:
    """The engine with the policy's weights. vLLM has a copy of its own, so that in evaluation the
    model makes room for it."""
    common = (policy.model, len(policy.tokenizer), policy.stop_ids, rollout.kv_budget_mb)
    if choice.name == "transformers":
        return TransformersEngine(*common, forward)
    from rlvr_cli.rollout.engines.vllm_engine import VllmEngine

    engine = VllmEngine(*common, rollout.gpu_share, rollout.seeded)
    if not training:
        policy.model.to("cpu")
        torch.cuda.empty_cache()
    return engine


def choose_threads(parameters: int) -> int:
    """Torch threads on a CPU: one for a small model, whose operations are too short to share out
    (several threads collapse when another process competes), else one a core that is ours."""
    return 1 if parameters < _SMALL_MODEL else thread_limit()


def precision_on(device: torch.device, asked: Literal["auto", "float32", "bfloat16"]) -> str:
    """How the trainer multiplies matrices on a device: as asked, else bfloat16 on a GPU."""
    if asked != "auto":
        return asked
    return "bfloat16" if device.type == "cuda" else "float32"


def training_params(config: Config) -> SamplingParams:
    """How training draws responses."""
    rollout = config.rollout
    return SamplingParams(rollout.samples, rollout.max_tokens, rollout.temperature, rollout.top_p)


def eval_params(config: Config, room: int | None = None) -> SamplingParams:
    """How an evaluation draws responses, within a run too; `room` is for their tokens, where none
    were asked."""
    max_tokens = config.rollout.max_tokens if room is None else min(room, LONGEST_RESPONSE)
    return SamplingParams(
        config.eval.samples, max_tokens, config.eval.temperature, config.eval.top_p
    )


def training_format(data: DataConfig) -> Format:
    """How the session's own verifier judges; `rlvr train` has resolved it."""
    return data.verifier or "think_answer"


def answer_format(problems: ProblemSet, data: DataConfig) -> Format:
    """How answers are judged: as asked, else as the set says, else as the prompt asks for them."""
    if data.verifier is not None:
        return data.verifier
    if problems.verifier is not None and data.prompt in (None, problems.prompt):
        return problems.verifier
    return FORMATS.get(data.prompt or problems.prompt, "any")


def unreadable_golds(prompts: Sequence[Prompt], verifier: Verifier) -> list[Problem]:
    """The problems whose gold answer the verifier cannot read, which never train."""
    problems = (prompt.problem for prompt in prompts)
    return [problem for problem in problems if not verifier.check_gold(problem.answer or "")]


def prompts_for(
    problems: ProblemSet, policy: LoadedModel, config: Config, max_tokens: int
) -> list[Prompt]:
    """The problems as prompts.

    Those that do not fit the context stop the command; `--skip-bad` skips and counts them.
    """
    prompts, too_long = render_prompts(
        problems.problems,
        policy.tokenizer,
        config.data.prompt or problems.prompt,
        policy.context,
        max_tokens,
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
