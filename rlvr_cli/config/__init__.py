"""Read settings from a model's own file, `--config`, flags and `--set`, and resolve them to one
configuration."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from rlvr_cli.algorithm.choices import ALGORITHMS, Algorithm
from rlvr_cli.config.overlay import Flat, assign, drop, nested
from rlvr_cli.config.sections import Config
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import open_regular, reading
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.settings import NONE, Command, Setting, leaves, settings_of
from rlvr_cli.core.text import format_value, shortened, what_is_wrong, without_key
from rlvr_cli.core.yaml_text import LARGEST_YAML, load_yaml

__all__ = [
    "MODEL_SETTINGS",
    "SETTINGS",
    "Assignment",
    "Config",
    "Sets",
    "as_yaml",
    "flag_layer",
    "flags_of",
    "flat_settings",
    "in_order",
    "layer",
    "overrides",
    "resolve",
    "run_layer",
    "set_layer",
    "setting_at",
    "yaml_layer",
]
Sets = Iterable[str] | Mapping[str, object]
"""Settings as texts `section.key=value`, or as values by dotted name."""
SETTINGS: dict[str, Setting] = {}
"""Each setting by dotted name. If several kinds of a choice have it, it is that of the first."""
for _setting in settings_of(Config):
    SETTINGS.setdefault(_setting.name, _setting)
MODEL_SETTINGS = nested((name, True) for name, item in SETTINGS.items() if item.use.with_model)
"""The settings that a checkpoint stores beside the weights. Only these are read from a model's
directory: data paths and machine settings are ignored, because a downloaded checkpoint must not
choose them."""


_URLS = ("server.endpoint", "servers.urls")
"""Settings whose URLs are stored and shown, and may have no key."""
_WITHOUT_EFFECT = [("eval.votes", "valid")]
"""Removed settings that runs of 0.2 have stored, with the value that is the only one now."""
LORA_RATE = 10.0
"""The learning rate of an adapter, divided by that of all weights (Schulman et al. 2025)."""


def setting_at(key: str) -> Setting | None:
    """Return the setting of this name, or the mapping that has this key.

    Return None for an unknown name.
    """
    while key and key not in SETTINGS:
        key = key.rpartition(".")[0]
    return SETTINGS.get(key)


def flags_of(command: Command) -> dict[str, Setting]:
    """Return the setting of each flag of a command, by the name of its parameter."""
    flags = {}
    for setting in SETTINGS.values():
        parameter = setting.use.parameter(command)
        if parameter is not None:
            flags[parameter] = setting
    return flags


class Assignment(NamedTuple):
    """A value for a setting, by its dotted name, and the source that error messages name."""

    key: str
    value: Any
    origin: str


def in_order(assignments: Iterable[Assignment]) -> list[Assignment]:
    """Sort assignments so that those that reset others come first: an algorithm before its fields,
    a kind before the fields of that kind, a prompt before its format. The order of the others
    stays."""

    def depth(assignment: Assignment) -> int:
        key = assignment.key
        if key in SETTINGS and SETTINGS[key].use.resets is not None:
            return -1
        return key.removesuffix(".kind").count(".")

    return sorted(assignments, key=depth)


def layer(origin: str, values: JsonObject) -> list[Assignment]:
    """Return nested settings of one origin as assignments."""
    return in_order(Assignment(key, value, origin) for key, value in leaves(values))


def yaml_layer(path: Path, origin: str | None = None) -> list[Assignment]:
    """Read the settings of a YAML file. Raises UserError if it cannot be read or is not a mapping.

    With an `origin`, the user did not name the file: then only a regular one is opened.
    """
    is_named = origin is None
    origin = origin or f"--config {path}"
    with reading(origin), path.open("rb") if is_named else open_regular(path) as file:
        text = file.read(LARGEST_YAML + 1).decode()
    try:
        values = load_yaml(text)
    except ValueError as error:
        raise UserError(f"{origin}: {error}") from None
    if values is not None and not isinstance(values, dict):
        raise UserError(f"{origin}: a mapping of settings is expected")
    return layer(origin, values or {})


def run_layer(run: Path, option: str) -> list[Assignment]:
    """Read the settings that a run was saved with. Raises UserError if this is not a run."""
    file = run / "config.yaml"
    if not file.is_file():
        raise UserError(f"{option} {run}: no config.yaml in it; give the directory of a run")
    stored = yaml_layer(file, str(file))
    return [_without_key(item) for item in stored if item[:2] not in _WITHOUT_EFFECT]


def _without_key(assignment: Assignment) -> Assignment:
    """Return a stored assignment without the key that a URL may have, and say so."""
    if not _has_key(assignment):
        return assignment
    LOG.warning("warning    %s: %s is read without its key", assignment.origin, assignment.key)
    return assignment._replace(value=_without_keys(assignment.value))


def _has_key(assignment: Assignment) -> bool:
    """Return whether an assignment is a URL with a password, or what may be a key."""
    return assignment.key in _URLS and _without_keys(assignment.value) != assignment.value


def _without_keys(value: object) -> Any:
    """Return a URL, or a list of them, without keys."""
    if isinstance(value, list | tuple):
        return type(value)(map(_without_keys, value))
    return without_key(value) if isinstance(value, str) else value


def flag_layer(key: str, value: object) -> list[Assignment]:
    """Return the assignment that a flag makes."""
    if isinstance(value, dict):
        words = " ".join(f"{name}={path}" for name, path in value.items())
    elif isinstance(value, tuple):
        words = " ".join(map(str, value))
    else:
        words = str(value)
    return [Assignment(key, value, f"{SETTINGS[key].use.flag} {shortened(words)}")]


def set_layer(sets: Sets) -> list[Assignment]:
    """Return the assignments of `--set section.key=value`, whose value is read as YAML."""
    assignments: list[Assignment] = []
    if isinstance(sets, Mapping):
        for name, entry in sets.items():
            assignments += layer(f"--set {shortened(f'{name}={entry}')}", {name: entry})
        return in_order(assignments)
    if isinstance(sets, str):  # one from Python, which would be read letter by letter
        sets = [sets]
    for text in sets:
        key, equals, value_text = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set {shortened(text)}: write it as section.key=value")
        try:
            value: object = load_yaml(value_text)
        except ValueError:
            value = value_text
        assignments += layer(f"--set {shortened(text)}", {key.strip(): value})
    return in_order(assignments)


def rate_layer(
    model: object, saved: Iterable[Assignment], values: Mapping[str, object]
) -> list[Assignment]:
    """Return another learning rate if a model's own is for the other kind of training.

    An adapter takes ten times the rate for all weights, and all weights a tenth of an adapter's.
    """
    own_values = {key: value for key, value, _ in saved}
    was_adapter = own_values.get("lora.rank") is not None
    is_adapter = {**own_values, **values}.get("lora.rank") is not None
    rate = own_values.get("optim.lr", Config().optim.lr)
    if was_adapter == is_adapter or not isinstance(rate, int | float):
        return []
    rate = rate * LORA_RATE if is_adapter else rate / LORA_RATE
    return [Assignment("optim.lr", min(1.0, rate), f"the learning rate of {model}")]


def resolve(assignments: Sequence[Assignment]) -> Config:
    """Return the configuration that the assignments make. Later ones replace earlier ones.

    Setting another algorithm brings all the values of its preset, and drops what was set of the
    algorithm before. Setting a prompt drops the verifier of the prompt before. Raises UserError,
    which names the key and its source.
    """
    for assignment in assignments:
        if _has_key(assignment):  # and the origin, which may show it, is not said
            section = assignment.key.partition(".")[0]
            raise UserError(
                f"{assignment.key} {shortened(str(_without_keys(assignment.value)))}: a key does "
                "not belong into the URL, which stands in results; give the URL without it, and "
                f"the key in the variable that {section}.key_env names"
            )
    first_algo = next((value for key, value, _ in assignments if key == "algo"), Config().algo)
    values = _preset(first_algo)
    for key, value, origin in assignments:
        resets = SETTINGS[key].use.resets if key in SETTINGS else None
        if key == "algo" and value != values["algo"]:
            drop(values, "algorithm")
            values.update(_preset(value))
        elif resets and key != "algo":
            drop(values, resets)
        try:
            assign(Config, values, key, value)
        except UserError as error:
            raise UserError(f"{origin}: {error}") from None
    config = nested(values.items())
    try:
        return Config.model_validate(config)
    except ValidationError as error:
        first = error.errors()[0]
    raise UserError(_first_mistake(first, config, assignments))


def _first_mistake(
    error: ErrorDetails, config: JsonObject, assignments: Sequence[Assignment]
) -> str:
    """Describe an error of pydantic in one line: its source, the setting, what is wrong."""
    path: list[str] = []
    inside: object = config
    for part in error["loc"]:  # pydantic names the kind of a choice as well, which is not a key
        if isinstance(inside, dict) and part in inside:
            path.append(str(part))
            inside = inside[part]
    name = ".".join(path)
    wrong = what_is_wrong(error)
    if error["type"] == "missing":
        wrong = f"{name}.{error['loc'][-1]} has no default; set it"
    elif path and not isinstance(error["input"], dict):
        wrong = f"{name}{wrong}, not {format_value(error['input'])}"
    wrong = wrong.removeprefix(": ")
    # The newest assignment of this setting is to blame, or else of the section around it.
    for end in range(len(path), 0, -1):
        section = f"{'.'.join(path[:end])}."
        for key, _, origin in reversed(assignments):
            if f"{key}.".startswith(section):
                return f"{origin}: {wrong}"
    return f"configuration: {wrong}" if path else wrong


def _preset(algo: object) -> Flat:
    if not isinstance(algo, str) or algo not in ALGORITHMS:
        name = shortened(algo) if isinstance(algo, str) else format_value(algo)
        raise UserError(f"--algo {name}: no such algorithm; choose from {', '.join(ALGORITHMS)}")
    return dict(leaves({"algo": algo, "algorithm": ALGORITHMS[algo].model_dump()}))


def flat_settings(config: Config) -> Flat:
    """Return the settings of a configuration by dotted name, as JSON values."""
    return dict(leaves(config.model_dump(mode="json")))


def as_yaml(config: Config, include: JsonObject | None = None) -> str:
    """Return the resolved configuration as `--config` reads it, or only the settings in `include`
    (in the form of MODEL_SETTINGS)."""
    return yaml.safe_dump(config.model_dump(mode="json", include=include), sort_keys=False)


def overrides(config: Config) -> dict[str, tuple[object, object]]:
    """Return (preset value, chosen value), by dotted name, of the algorithm's settings in which it
    differs from its preset."""
    preset = _decided(config, ALGORITHMS[config.algo])
    current = _decided(config, config.algorithm)
    pairs = {key: (preset.get(key, NONE), current.get(key, NONE)) for key in [*preset, *current]}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _decided(config: Config, algorithm: Algorithm) -> Flat:
    """Return an algorithm's settings by dotted name, each `auto` decided as in this run."""
    decided = algorithm.decided(config.scores_alike, config.reward.rewards_verdict)
    return {key: NONE if value is None else value for key, value in leaves(decided.model_dump())}
