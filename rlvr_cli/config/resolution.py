"""Resolve the configuration: built-in defaults, then a model's own, a YAML file, flags, `--set`."""

from collections.abc import Sequence
from typing import Any

import yaml
from pydantic import ValidationError

from rlvr_cli.algorithm.presets import ALGORITHMS
from rlvr_cli.config.overlay import overlay
from rlvr_cli.config.sections import Config
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.layers import Layer, explained
from rlvr_cli.core.settings import Command, Use, differences, kept, uses
from rlvr_cli.core.text import shortened, shown
from rlvr_cli.core.yaml_text import load_yaml

SETTINGS = uses(Config)
"""Each setting by dotted name, with what is done with it."""


def use_of(key: str) -> Use | None:
    """Return the use of a setting or of the section it stands in; None where there is none."""
    while key and key not in SETTINGS:
        key = key.rpartition(".")[0]
    return SETTINGS.get(key)


def flags_of(command: Command) -> dict[str, str]:
    """Return the setting of each flag of a command, by the name of its parameter."""
    named = ((use.parameter(command), key) for key, use in SETTINGS.items())
    return {name: key for name, key in named if name is not None}


OF_A_MODEL: Any = kept(SETTINGS)
"""What a checkpoint says of the settings it was trained and measured with. Nothing else is read of
a model directory: which problems, and what of this machine, is not for a stranger to say."""


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
    """Return the setting `section.key` as a flag gave it."""
    section, _, name = key.rpartition(".")
    nested = {section: {name: value}} if section else {name: value}
    parts = [f"{k}={v}" for k, v in value.items()] if isinstance(value, dict) else [value]
    parts = [*value] if isinstance(value, tuple) else parts
    return Layer(f"{SETTINGS[key].flag} {shortened(' '.join(map(str, parts)))}", nested)


def set_layer(assignments: Sequence[str]) -> list[Layer]:
    """Return one layer for each `section.key=value`; the value is read as YAML.

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


def as_yaml(config: Config, include: Any = None) -> str:
    """Return the resolved configuration, or the part of it to include, as `--config` reads it."""
    return yaml.safe_dump(config.model_dump(mode="json", include=include), sort_keys=False)


def changed_cells(config: Config) -> dict[str, tuple[Any, Any]]:
    """Return what of the algorithm differs from its preset, as (preset, chosen) by dotted name."""
    return differences(ALGORITHMS[config.algo], config.algorithm)


def _depth(assignment: str) -> int:
    """Return -1 for a key that drops others, else how deep it stands: a kind before its cells."""
    key = assignment.partition("=")[0].strip()
    use = SETTINGS.get(key)
    return -1 if use and use.resets else key.removesuffix(".kind").count(".")
