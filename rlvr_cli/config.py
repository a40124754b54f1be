"""The typed configuration: built-in defaults, then a model's own, a YAML file, flags, `--set`."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.presets import ALGORITHMS
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import open_regular
from rlvr_cli.core.settings import Layer, Section, differences, overlay
from rlvr_cli.core.text import shortened, shown
from rlvr_cli.core.yaml_text import LARGEST_YAML, load_yaml
from verifiers import Format

Beta = Annotated[float, Field(ge=0, lt=1)]


class DataConfig(Section):
    """Which problems, and how they are put to the policy."""

    source: str = "arithmetic"
    """A name in datasets_cfg, a YAML, JSONL, Parquet or CSV file, a hub id, or `-` for stdin."""
    split: Literal["train", "test"] | None = None
    """None means `train` to train on and `test` to evaluate."""
    limit: int | None = Field(None, ge=1)
    skip_bad: bool = False
    """Go on without the problems that cannot be read or do not fit the context."""
    prompt: str | None = None
    """A template of prompts.TEMPLATES, or a text or a file with {problem} in it; none means the
    set's own."""
    verifier: Format | None = None
    """How answers are judged; none means as the problem set says, or as the prompt asks for."""
    root: str | None = None
    """A directory of local copies of the hub's problem sets, such as gsm8k_test.jsonl."""


class RolloutConfig(Section):
    """How one step samples."""

    prompts: int = Field(32, ge=1)
    samples: int = Field(8, ge=1)
    max_tokens: int = Field(1024, ge=1)
    temperature: float = Field(1.0, gt=0, le=100)
    top_p: float = Field(1.0, gt=0, le=1)
    kv_budget_mb: int = Field(1024, ge=1)
    """Memory for the keys and values of the responses that are decoded together, but for vLLM on a
    GPU, which has `gpu_share`."""
    gpu_share: float = Field(0.5, gt=0, lt=1)
    """The part of a GPU that vLLM takes while it samples: weights, keys and values."""
    seeded: bool = True
    """Every response has a seed of its own; false makes vLLM on a GPU faster, not repeatable."""
    mismatch_limit: float = Field(0.1, gt=0)
    """The run stops where engine and trainer disagree by more about log-probabilities, on average
    over the tokens of a step."""


class OptimConfig(Section):
    """AdamW and how a step's batch is cut."""

    lr: float = Field(1e-6, ge=0, le=1)
    warmup_steps: int = Field(10, ge=0)
    weight_decay: float = Field(0.1, ge=0)
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    grad_clip: float = Field(1.0, gt=0)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """What the learning rate does after the warm-up: stay, or fall to 0 behind the last step."""
    critic_lr: float = Field(1e-5, ge=0, le=1)
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the matrix products; auto is bfloat16 on a GPU. The weights are float32 always."""
    micro_tokens: int = Field(8192, ge=1)
    """Tokens in one forward pass; changes memory and speed, never the result."""


class EvalConfig(Section):
    """How pass@1 is measured, by `rlvr eval` and before and after training alike."""

    source: str | None = None
    """Measured before and after training; none means the `test` split of data.source."""
    limit: int = Field(256, ge=0)
    """How many of them, in training; 0 leaves the measurement out."""
    every: int = Field(0, ge=0)
    """Measured every so many steps as well, so that the best checkpoint is kept; 0 means never."""
    samples: int = Field(4, ge=1)
    temperature: float = Field(0.6, ge=0, le=100)
    top_p: float = Field(0.95, gt=0, le=1)


class CheckpointConfig(Section):
    """What a crash may cost, and what is kept."""

    every: int = Field(1, ge=1)
    """Steps from one checkpoint to the next: a crash loses at most so many."""
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

    algo: str = "dapo"
    steps: int = Field(100, ge=1)
    seed: int = Field(0, ge=-(2**63), lt=2**63)
    threads: int | None = Field(None, ge=1, le=1024)
    """Torch threads on a CPU; none means chosen by the size of the model."""
    model: str = "tiny"
    engine: Literal["auto", "vllm", "transformers"] = "auto"
    data: DataConfig = DataConfig()
    rollout: RolloutConfig = RolloutConfig()
    algorithm: Algorithm = ALGORITHMS["dapo"]
    optim: OptimConfig = OptimConfig()
    eval: EvalConfig = EvalConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    guards: GuardsConfig = GuardsConfig()

    @model_validator(mode="after")
    def _makes_sense(self) -> "Config":
        if self.rollout.top_p != 1:
            raise ValueError(
                "rollout.top_p must be 1 in training: the objective's log-probabilities are "
                "those of the whole distribution"
            )
        algo, responses = self.algorithm, self.rollout.prompts * self.rollout.samples
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
        if responses % algo.mini_batches:
            raise ValueError(
                f"algorithm.mini_batches {algo.mini_batches} does not divide the {responses} "
                f"responses of a step (rollout.prompts {self.rollout.prompts} x rollout.samples "
                f"{self.rollout.samples}); take a divisor"
            )
        return self


OF_A_MODEL: Any = {
    "seed": True,
    "data": {"prompt", "verifier"},
    "rollout": {"prompts", "samples", "max_tokens", "temperature", "top_p", "seeded"},
    "optim": set(OptimConfig.model_fields) - {"precision"},
    "eval": {"samples", "temperature", "top_p"},
}
"""What a checkpoint says of the settings it was trained and measured with. Nothing else is read of
a model directory: which problems, and what of this machine, is not for a stranger to say."""


_DROPPING = re.compile(r"(algo|data\.prompt)$")


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
            merged["data"] = merged["data"] | {"verifier": None}
        merged = overlay(Config, merged, layer.values, layer.origin)
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        raise UserError(_explain(error, merged, layers)) from None


def _preset(algo: Any) -> dict[str, Any]:
    if not isinstance(algo, str) or algo not in ALGORITHMS:
        given = shortened(algo) if isinstance(algo, str) else shown(algo)
        raise UserError(f"--algo {given}: no such algorithm; choose from {', '.join(ALGORITHMS)}")
    return {"algo": algo, "algorithm": ALGORITHMS[algo].model_dump()}


def _explain(error: ValidationError, merged: dict[str, Any], layers: Sequence[Layer]) -> str:
    """The first error in a line: the layer and the path it came from, what is wrong, a way out."""
    first = error.errors()[0]
    path: list[str] = []
    inside: Any = merged
    for part in first["loc"]:  # pydantic names the kind of a choice as well: it is not a key
        if isinstance(inside, dict) and part in inside:
            path.append(str(part))
            inside = inside[part]
    reason = first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        reason = f"{'.'.join([*path, str(first['loc'][-1])])} has no default; set it"
    elif path and not isinstance(first["input"], dict):
        reason = f"{'.'.join(path)}: {reason[:1].lower()}{reason[1:]}, not {shown(first['input'])}"
    origins = [layer.origin for layer in layers if layer.sets(path)]
    origin = origins[-1] if origins else "configuration"
    return f"{origin}: {reason}" if path else reason


def yaml_layer(path: Path, origin: str | None = None) -> Layer:
    """The settings of a YAML file. Raises UserError if it cannot be read or is not a mapping.

    A file with an `origin` of its own lies in a directory from anywhere: only a regular one is
    opened there.
    """
    by_user, origin = origin is None, origin or f"--config {path}"
    try:
        with path.open("rb") if by_user else open_regular(path) as file:
            text = file.read(LARGEST_YAML + 1).decode()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{origin}: cannot be read ({reason})") from None
    try:
        values = load_yaml(text)
    except ValueError as error:
        raise UserError(f"{origin}: {error}") from None
    if values is not None and not isinstance(values, dict):
        raise UserError(f"{origin}: a mapping of settings is expected")
    return Layer(origin, values or {})


def flag_layer(key: str, value: Any) -> Layer:
    """The setting `section.key` as a flag gave it."""
    section, _, name = key.rpartition(".")
    nested = {section: {name: value}} if section else {name: value}
    return Layer(f"--{name.replace('_', '-')} {shortened(str(value))}", nested)


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
    return 0 if _DROPPING.match(key) else 1 + key.removesuffix(".kind").count(".")
