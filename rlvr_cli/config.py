"""The typed configuration: built-in defaults, then a model's own, a YAML file, flags, `--set`."""

from collections.abc import Sequence
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.presets import ALGORITHMS
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.layers import Layer, explained
from rlvr_cli.core.settings import (
    Command,
    Section,
    Use,
    differences,
    kept,
    overlay,
    setting,
    uses,
)
from rlvr_cli.core.text import shortened, shown
from rlvr_cli.core.yaml_text import load_yaml
from rlvr_cli.model.settings import LoraConfig, OptimConfig
from verifiers import Format

SAMPLING: tuple[Command, ...] = ("train", "eval", "sample")
JUDGING: tuple[Command, ...] = (*SAMPLING, "responses")
LONGEST_RESPONSE = 32_768
"""Tokens of a response where the context would leave room for more: as reasoning models are
published."""


class DataConfig(Section):
    """Which problems, and how they are put to the policy."""

    source: str = setting("chains", read_by=("train", "eval"), flag="DATA", on_resume="moves")
    """A name in datasets_cfg, a YAML, JSONL, Parquet or CSV file, a hub id, or `-` for stdin."""
    split: Literal["train", "test"] | None = setting(None, read_by=SAMPLING)
    """None means `train` to train on and `test` to evaluate."""
    where: str | None = setting(None, read_by=("train", "eval"))
    """FIELD=VALUE,…: only the problems whose field has one of the values, such as level=1,2; in
    training of the held-out ones of the same source, too."""
    limit: int | None = setting(None, read_by=JUDGING, flag="--limit", flag_of=SAMPLING, ge=1)
    skip_bad: bool = setting(False, read_by=JUDGING, flag="--skip-bad", flag_of=SAMPLING)
    """Go on without the problems that cannot be read or do not fit the context."""
    prompt: str | None = setting(
        None,
        read_by=SAMPLING,
        flag="--prompt",
        flag_of=("eval", "sample"),
        kept=True,
        resets="data.answer_format",
    )
    """A template of prompts.TEMPLATES, or a text or a file with {problem} in it; none means the
    set's own."""
    answer_format: Format | None = setting(None, read_by=JUDGING, kept=True)
    """How answers are judged; none means as the problem set says, or as the prompt asks for."""
    root: str | None = setting(None, read_by=SAMPLING, on_resume="moves")
    """A directory of local copies of the hub's problem sets, such as gsm8k_test.jsonl."""


class RolloutConfig(Section):
    """How one step samples."""

    prompts: int = setting(32, flag="--prompts", kept=True, ge=1)
    samples: int = setting(8, flag="--samples", kept=True, ge=1)
    max_tokens: int = setting(
        1024,
        read_by=SAMPLING,
        flag="--max-tokens",
        default_in={"eval": f"all that the context leaves, up to {LONGEST_RESPONSE}; a run's own"},
        kept=True,
        ge=1,
    )
    temperature: float = setting(1.0, flag="--temperature", kept=True, gt=0, le=100)
    top_p: float = setting(1.0, flag="--top-p", kept=True, gt=0, le=1)
    kv_budget_mb: int = setting(1024, read_by=SAMPLING, ge=1)
    """Memory for the keys and values of the responses that are decoded together, but for vLLM on a
    GPU, which has `gpu_share`."""
    gpu_share: float = setting(0.5, read_by=SAMPLING, gt=0, lt=1)
    """The part of a GPU that vLLM takes while it samples: weights, keys and values."""
    seeded: bool = setting(True, read_by=SAMPLING, kept=True)
    """Every response has a seed of its own; false makes vLLM on a GPU faster, not repeatable."""
    mismatch_limit: float = setting(0.1, gt=0)
    """The run stops where engine and trainer disagree by more about log-probabilities, on average
    over the tokens of a step."""


class EvalConfig(Section):
    """How pass@1 is measured, by `rlvr eval` and before and after training alike."""

    source: str | None = setting(None, on_resume="moves")
    """Measured before and after training; none means the `test` split of data.source."""
    limit: int = setting(256, ge=0)
    """How many of them, in training; 0 leaves the measurement out."""
    every: int = setting(0, ge=0)
    """Measured every so many steps as well, so that the best checkpoint is kept; 0 means never."""
    samples: int = setting(
        4, read_by=SAMPLING, flag="--samples", flag_of=("eval", "sample"), kept=True, ge=1
    )
    temperature: float = setting(
        0.6,
        read_by=SAMPLING,
        flag="--temperature",
        flag_of=("eval", "sample"),
        kept=True,
        ge=0,
        le=100,
    )
    top_p: float = setting(
        0.95, read_by=SAMPLING, flag="--top-p", flag_of=("eval", "sample"), kept=True, gt=0, le=1
    )


class CheckpointConfig(Section):
    """What a crash may cost, and what is kept."""

    every: int | None = Field(None, ge=1)
    """Steps from one checkpoint to the next; none: as often as takes 5 % of the time at most."""
    minutes: float = Field(10.0, gt=0)
    """A crash loses at most so many, and the step under way."""
    keep: int = Field(2, ge=1)
    """The newest ones; the best by held-out pass@1 is kept as well."""


class GuardsConfig(Section):
    """When a run is warned about or stopped; averages are over the last three measured steps."""

    no_signal_steps: int = Field(10, ge=1)
    """So many steps in a row without a signal stop the run."""
    not_finite_steps: int = Field(3, ge=1)
    """So many steps in a row with a loss or gradient that is not finite stop the run."""
    cut_off_share: float = Field(0.5, gt=0, le=1)
    """Warn when more of the responses reach --max-tokens."""
    min_entropy: float = Field(0.005, ge=0)
    """Warn when the policy's entropy, in nats a token, is lower, with less than 90 % right."""
    max_kl: float = Field(0.5, gt=0)
    """Warn when the policy is further from the one that sampled, or the reference; nats a token."""
    timeout_share: float = Field(0.05, gt=0, le=1)
    """Warn when the verifier runs out of time on more of the responses."""


class Config(Section):
    """Everything that decides a run; saved as it was resolved."""

    algo: str = setting("dapo", flag="--algo", resets="algorithm")
    steps: int = setting(100, flag="--steps", on_resume="free", ge=1)
    seed: int = setting(0, read_by=SAMPLING, flag="--seed", kept=True, ge=-(2**63), lt=2**63)
    threads: int | None = setting(None, read_by=SAMPLING, ge=1, le=1024)
    """Torch threads on a CPU; none means chosen by the size of the model."""
    model: str = setting("tiny", read_by=SAMPLING, flag="--model", on_resume="moves")
    engine: Literal["auto", "vllm", "transformers"] = setting(
        "auto", read_by=SAMPLING, flag="--engine"
    )
    data: DataConfig = DataConfig()
    rollout: RolloutConfig = RolloutConfig()
    algorithm: Algorithm = setting(ALGORITHMS["dapo"])
    optim: OptimConfig = OptimConfig()
    lora: LoraConfig = LoraConfig()
    eval: EvalConfig = EvalConfig()
    checkpoint: CheckpointConfig = setting(CheckpointConfig(), on_resume="free")
    guards: GuardsConfig = setting(GuardsConfig(), on_resume="free")

    @model_validator(mode="after")
    def _makes_sense(self) -> "Config":
        if self.rollout.top_p != 1:
            raise ValueError(
                "rollout.top_p must be 1 in training: the objective's log-probabilities are "
                "those of the whole distribution"
            )
        algo = self.algorithm
        if self.rollout.samples < 2 and algo.advantage.needs_group:
            raise ValueError(
                f"rollout.samples {self.rollout.samples} with algorithm.advantage "
                f"{algo.advantage.kind}: a group of one has no advantage; sample 2 or more"
            )
        if self.rollout.samples < 2 and algo.filter is not None:
            raise ValueError(
                f"rollout.samples {self.rollout.samples} with algorithm.filter {algo.filter.kind}: "
                "a group of one is never mixed; sample 2 or more"
            )
        return self


SETTINGS = uses(Config)
"""Each setting by dotted name, with what is done with it."""


def use_of(key: str) -> Use | None:
    """The use of a setting or of the section it stands in; None where there is none."""
    while key and key not in SETTINGS:
        key = key.rpartition(".")[0]
    return SETTINGS.get(key)


def flags_of(command: Command) -> dict[str, str]:
    """The setting of each flag of a command, by the name of its parameter."""
    named = ((use.parameter(command), key) for key, use in SETTINGS.items())
    return {name: key for name, key in named if name is not None}


OF_A_MODEL: Any = kept(SETTINGS)
"""What a checkpoint says of the settings it was trained and measured with. Nothing else is read of
a model directory: which problems, and what of this machine, is not for a stranger to say."""


def resolve(layers: Sequence[Layer]) -> Config:
    """The configuration that the layers give, later ones winning (`core.settings.overlay`).

    A layer that names another algorithm than one before brings its whole row: what was set of the
    algorithm before it is dropped. One that sets the prompt without the verifier drops the verifier
    that went with the prompt before. Raises UserError naming the key and the layer it came from.
    """
    named = [layer.values["algo"] for layer in layers if "algo" in layer.values]
    merged: dict[str, Any] = _preset(named[0] if named else Config().algo)
    for layer in layers:
        if layer.values.get("algo", merged["algo"]) != merged["algo"]:
            merged |= _preset(layer.values["algo"])
        if "data" in merged and layer.sets(["data", "prompt"]):
            merged["data"] = merged["data"] | {"answer_format": None}
        merged = overlay(Config, merged, layer.values, layer.origin)
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        raise UserError(explained(error, merged, layers)) from None


def _preset(algo: Any) -> dict[str, Any]:
    if not isinstance(algo, str) or algo not in ALGORITHMS:
        given = shortened(algo) if isinstance(algo, str) else shown(algo)
        raise UserError(f"--algo {given}: no such algorithm; choose from {', '.join(ALGORITHMS)}")
    return {"algo": algo, "algorithm": ALGORITHMS[algo].model_dump()}


def flag_layer(key: str, value: Any) -> Layer:
    """The setting `section.key` as a flag gave it."""
    section, _, name = key.rpartition(".")
    nested = {section: {name: value}} if section else {name: value}
    return Layer(f"{SETTINGS[key].flag} {shortened(str(value))}", nested)


def set_layer(assignments: Sequence[str]) -> list[Layer]:
    """One layer for each `section.key=value`; the value is read as YAML.

    What drops the settings of earlier layers comes first: the order of the others is free.
    """
    layers = []
    for assignment in sorted(assignments, key=_depth):
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set {shortened(assignment)}: write it as section.key=value")
        try:
            value: Any = load_yaml(text)
        except ValueError:
            value = text
        for part in reversed(key.strip().split(".")):
            value = {part: value}
        layers.append(Layer(f"--set {shortened(assignment)}", value))
    return layers


def as_yaml(config: Config) -> str:
    """The resolved configuration, as `--config` reads it."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)


def changed_cells(config: Config) -> dict[str, tuple[Any, Any]]:
    """What of the algorithm differs from its preset, as (preset, chosen) by dotted name."""
    return differences(ALGORITHMS[config.algo], config.algorithm)


def _depth(assignment: str) -> int:
    """0 for a key that drops others, else how deep it stands: a kind comes before its cells."""
    key = assignment.partition("=")[0].strip()
    use = SETTINGS.get(key)
    return 0 if use and use.resets else 1 + key.removesuffix(".kind").count(".")
