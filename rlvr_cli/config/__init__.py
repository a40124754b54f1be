"""Read the settings that each source gives (a model's own file, `--config`, a flag, `--set`) and
resolve them to one configuration."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from rlvr_cli.algorithm.choices import ALGORITHMS
from rlvr_cli.config.overlay import Flat, assign, drop, nested
from rlvr_cli.config.sections import Config
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import open_regular, reading
from rlvr_cli.core.settings import NONE, Command, Setting, leaves, settings_of
from rlvr_cli.core.text import format_value, shortened, what_is_wrong
from rlvr_cli.core.yaml_text import LARGEST_YAML, load_yaml

SETTINGS: dict[str, Setting] = {}
"""Each setting by dotted name; where several kinds of a choice have it, that of the first."""
for _setting in settings_of(Config):
    SETTINGS.setdefault(_setting.name, _setting)
OF_A_MODEL = nested((name, True) for name, setting in SETTINGS.items() if setting.use.kept)
"""The settings of the model, which a checkpoint keeps. Only these are read from its directory: data
paths and machine settings are ignored, because a downloaded checkpoint must not choose them."""


def setting_at(key: str) -> Setting | None:
    """Return the setting of a name, or that a name of free choice stands in; None if none."""
    while key and key not in SETTINGS:
        key = key.rpartition(".")[0]
    return SETTINGS.get(key)


def flags_of(command: Command) -> dict[str, Setting]:
    """Return the setting of each flag of a command, by the name of its parameter."""
    named = ((setting.use.parameter(command), setting) for setting in SETTINGS.values())
    return {name: setting for name, setting in named if name is not None}


class Given(NamedTuple):
    """A setting by its dotted name as one source gave it, which error messages name."""

    key: str
    value: Any
    origin: str


def in_order(given: Iterable[Given]) -> list[Given]:
    """Sort settings so that what drops others comes first: an algorithm before its cells, a kind
    before its own, a prompt before its format. The order of the others stays."""

    def depth(setting: Given) -> int:
        is_first = setting.key in SETTINGS and SETTINGS[setting.key].use.resets is not None
        return -1 if is_first else setting.key.removesuffix(".kind").count(".")

    return sorted(given, key=depth)


def layer(origin: str, values: dict[str, Any]) -> list[Given]:
    """Return nested settings of one origin one by one."""
    return in_order(Given(key, value, origin) for key, value in leaves(values))


def yaml_layer(path: Path, origin: str | None = None) -> list[Given]:
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
    return layer(origin, values or {})


def run_layer(run: Path, option: str) -> list[Given]:
    """Read the settings that a run was saved with. Raises UserError for what is no run."""
    file = run / "config.yaml"
    if not file.is_file():
        raise UserError(f"{option} {run}: no config.yaml in it; give the directory of a run")
    return yaml_layer(file, str(file))


def flag_layer(key: str, value: Any) -> list[Given]:
    """Return a setting as its flag gave it."""
    if isinstance(value, dict):
        words = " ".join(f"{name}={path}" for name, path in value.items())
    else:
        words = " ".join(map(str, value if isinstance(value, tuple) else [value]))
    return [Given(key, value, f"{SETTINGS[key].use.flag} {shortened(words)}")]


def set_layer(assignments: Iterable[str]) -> list[Given]:
    """Return the settings of each `section.key=value`, whose value is read as YAML."""
    given: list[Given] = []
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set {shortened(assignment)}: write it as section.key=value")
        try:
            value: Any = load_yaml(text)
        except ValueError:
            value = text
        given += layer(f"--set {shortened(assignment)}", {key.strip(): value})
    return in_order(given)


def resolve(given: Sequence[Given]) -> Config:
    """Return the configuration that the settings give, later ones winning (`overlay.assign`).

    Another algorithm than the one before brings its whole row: what was set of the algorithm before
    it is dropped. A prompt drops the verifier that went with the prompt before. Raises UserError
    naming the key and the source it came from.
    """
    values = _preset(next((value for key, value, _ in given if key == "algo"), Config().algo))
    for key, value, origin in given:
        resets = SETTINGS[key].use.resets if key in SETTINGS else None
        if key == "algo" and value != values["algo"]:
            drop(values, "algorithm")
            values |= _preset(value)
        elif resets and key != "algo":
            drop(values, resets)
        assign(Config, values, key, value, origin)
    whole = nested(values.items())
    try:
        return Config.model_validate(whole)
    except ValidationError as error:
        first = error.errors()[0]
    # One line of the first mistake: where it came from, its name, what is wrong, a way out.
    path: list[str] = []
    inside: Any = whole
    for part in first["loc"]:  # pydantic names the kind of a choice as well: it is not a key
        if isinstance(inside, dict) and part in inside:
            path.append(str(part))
            inside = inside[part]
    name, wrong = ".".join(path), what_is_wrong(first)
    if first["type"] == "missing":
        wrong = f"{name}.{first['loc'][-1]} has no default; set it"
    elif path and not isinstance(first["input"], dict):
        wrong = f"{name}{wrong}, not {format_value(first['input'])}"
    for end in range(len(path), 0, -1):  # the last setting of the name, else of what is around it
        around = f"{'.'.join(path[:end])}."
        for key, _, origin in reversed(given):
            if f"{key}.".startswith(around):
                raise UserError(f"{origin}: {wrong.removeprefix(': ')}")
    raise UserError(f"{'configuration: ' if path else ''}{wrong.removeprefix(': ')}")


def _preset(algo: Any) -> Flat:
    if not isinstance(algo, str) or algo not in ALGORITHMS:
        name = shortened(algo) if isinstance(algo, str) else format_value(algo)
        raise UserError(f"--algo {name}: no such algorithm; choose from {', '.join(ALGORITHMS)}")
    return dict(leaves({"algo": algo, "algorithm": ALGORITHMS[algo].model_dump()}))


def as_yaml(config: Config, include: Any = None) -> str:
    """Return the resolved configuration, or the part of it to include, as `--config` reads it."""
    return yaml.safe_dump(config.model_dump(mode="json", include=include), sort_keys=False)


def changed_cells(config: Config) -> dict[str, tuple[Any, Any]]:
    """Return (preset, chosen) by dotted name of every cell that is not its preset's."""
    autos = config.computes_alike, config.reward.pays_verdict
    rows = [row.decided(*autos).model_dump() for row in (ALGORITHMS[config.algo], config.algorithm)]
    old, new = (
        {key: NONE if value is None else value for key, value in leaves(row)} for row in rows
    )
    cells = {key: (old.get(key, NONE), new.get(key, NONE)) for key in [*old, *new]}
    return {key: (before, now) for key, (before, now) in cells.items() if before != now}
