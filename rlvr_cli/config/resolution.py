"""Layers of settings, one source each: a model's own file, `--config`, a flag, `--set`; and the
configuration that they make together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from rlvr_cli.algorithm.presets import ALGORITHMS
from rlvr_cli.config.overlay import overlay
from rlvr_cli.config.sections import Config
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import open_regular, reading
from rlvr_cli.core.settings import Command, Setting, differences, settings_of
from rlvr_cli.core.text import shortened, shown, what_is_wrong
from rlvr_cli.core.yaml_text import LARGEST_YAML, load_yaml

SETTINGS: dict[str, Setting] = {}
"""Each setting by dotted name; of those that several kinds have the first."""
for _one in settings_of(Config):
    SETTINGS.setdefault(_one.name, _one)


def setting_at(key: str) -> Setting | None:
    """Return the setting of a name, or that a name of free choice stands in; None if none."""
    while key and key not in SETTINGS:
        key = key.rpartition(".")[0]
    return SETTINGS.get(key)


def flags_of(command: Command) -> dict[str, Setting]:
    """Return the setting of each flag of a command, by the name of its parameter."""
    own = (one for one in SETTINGS.values() if one.said_at == one.name)
    named = ((one.use.parameter(command), one) for one in own)
    return {name: one for name, one in named if name is not None}


OF_A_MODEL: dict[str, Any] = {}
"""What a checkpoint says of the settings it was trained and measured with, by section; True for one
outside of any. Nothing else is read of a model directory: which problems, and what of this machine,
is not for a stranger to say."""
for _section, _, _name in (key.rpartition(".") for key, one in SETTINGS.items() if one.use.kept):
    if _section:
        OF_A_MODEL.setdefault(_section, set()).add(_name)
    else:
        OF_A_MODEL[_name] = True


@dataclass(frozen=True)
class Layer:
    """Settings from one place, which error messages name."""

    origin: str
    values: dict[str, Any]

    def at(self, key: str, default: Any = None) -> Any:
        """Return the value of a setting by its dotted name, or the default if it is not set."""
        inside: Any = self.values
        for part in key.split("."):
            if not isinstance(inside, dict) or part not in inside:
                return default
            inside = inside[part]
        return inside

    def sets(self, key: str) -> bool:
        """Return whether the layer sets this key, or something inside it."""
        return self.at(key, self) is not self


def yaml_layer(path: Path, origin: str | None = None) -> Layer:
    """Read the settings of a YAML file. Raises UserError if it cannot be read or is not a mapping.

    A file with an `origin` of its own may come from anywhere: only a regular one is opened.
    """
    by_user, origin = origin is None, origin or f"--config {path}"
    with reading(origin), path.open("rb") if by_user else open_regular(path) as file:
        text = file.read(LARGEST_YAML + 1).decode()
    try:
        values = load_yaml(text)
    except ValueError as error:
        raise UserError(f"{origin}: {error}") from None
    if values is not None and not isinstance(values, dict):
        raise UserError(f"{origin}: a mapping of settings is expected")
    return Layer(origin, values or {})


def run_layer(run: Path, asked: str) -> Layer:
    """Read the settings that a run was saved with. Raises UserError for what is no run."""
    file = run / "config.yaml"
    if not file.is_file():
        raise UserError(f"{asked} {run}: no config.yaml in it; give the directory of a run")
    return yaml_layer(file, str(file))


def flag_layer(key: str, value: Any) -> Layer:
    """Return the setting `section.key` as a flag gave it."""
    parts = [f"{k}={v}" for k, v in value.items()] if isinstance(value, dict) else [value]
    parts = [*value] if isinstance(value, tuple) else parts
    origin = f"{SETTINGS[key].use.flag} {shortened(' '.join(map(str, parts)))}"
    return Layer(origin, _nested(key, value))


def set_layer(assignments: Iterable[str]) -> list[Layer]:
    """Return one layer for each `section.key=value`, whose value is read as YAML."""
    layers = []
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set {shortened(assignment)}: write it as section.key=value")
        try:
            value: Any = load_yaml(text)
        except ValueError:
            value = text
        layers.append(Layer(f"--set {shortened(assignment)}", _nested(key.strip(), value)))
    return in_order(layers)


def _nested(key: str, value: Any) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def in_order(layers: Iterable[Layer]) -> list[Layer]:
    """Return layers of one setting each so that what drops settings of earlier ones comes first: an
    algorithm before its cells, a kind before its own. The order of the others stays."""

    def depth(layer: Layer) -> int:
        key, inside = "", layer.values
        while isinstance(inside, dict) and len(inside) == 1:
            ((part, inside),) = inside.items()
            key = f"{key}.{part}" if key else part
            if key in SETTINGS and SETTINGS[key].use.resets:
                return -1
        return key.removesuffix(".kind").count(".")

    return sorted(layers, key=depth)


def resolve(layers: Sequence[Layer]) -> Config:
    """Return the configuration that the layers give, later ones winning (`overlay.overlay`).

    A layer that names another algorithm than one before brings its whole row: what was set of the
    algorithm before it is dropped. One that sets the prompt without the verifier drops the verifier
    that went with the prompt before. Raises UserError naming the key and the layer it came from.
    """
    named = [layer.values["algo"] for layer in layers if "algo" in layer.values]
    merged: dict[str, Any] = _preset(named[0] if named else Config().algo)
    for layer in layers:
        if layer.values.get("algo", merged["algo"]) != merged["algo"]:
            merged |= _preset(layer.values["algo"])
        if "data" in merged and layer.sets("data.prompt"):
            merged["data"] = merged["data"] | {"answer_format": None}
        merged = overlay(Config, merged, layer.values, layer.origin)
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        raise UserError(_explained(error, merged, layers)) from None


def _preset(algo: Any) -> dict[str, Any]:
    if not isinstance(algo, str) or algo not in ALGORITHMS:
        given = shortened(algo) if isinstance(algo, str) else shown(algo)
        raise UserError(f"--algo {given}: no such algorithm; choose from {', '.join(ALGORITHMS)}")
    return {"algo": algo, "algorithm": ALGORITHMS[algo].model_dump()}


def _explained(error: ValidationError, merged: dict[str, Any], layers: Sequence[Layer]) -> str:
    """Return the first error in a line: its layer and path, what is wrong, a way out."""
    first = error.errors()[0]
    path: list[str] = []
    inside: Any = merged
    for part in first["loc"]:  # pydantic names the kind of a choice as well: it is not a key
        if isinstance(inside, dict) and part in inside:
            path.append(str(part))
            inside = inside[part]
    name, wrong = ".".join(path), what_is_wrong(first)
    if first["type"] == "missing":
        reason = f"{name}.{first['loc'][-1]} has no default; set it"
    elif path and not isinstance(first["input"], dict):
        reason = f"{name}{wrong}, not {shown(first['input'])}"
    else:
        reason = wrong.removeprefix(": ")
    around = (".".join(path[:end]) for end in range(len(path), 0, -1))
    origins = (layer.origin for key in around for layer in reversed(layers) if layer.sets(key))
    return f"{next(origins, 'configuration')}: {reason}" if path else reason


def as_yaml(config: Config, include: Any = None) -> str:
    """Return the resolved configuration, or the part of it to include, as `--config` reads it."""
    return yaml.safe_dump(config.model_dump(mode="json", include=include), sort_keys=False)


def changed_cells(config: Config) -> dict[str, tuple[Any, Any]]:
    """Return what of the algorithm differs from its preset, as (preset, chosen) by dotted name."""
    return differences(ALGORITHMS[config.algo], config.algorithm)
