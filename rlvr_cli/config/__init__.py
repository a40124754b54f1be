"""Settings as each source gives them, a model's own file, `--config`, a flag or `--set`, and the
configuration that they make together."""

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
from rlvr_cli.core.text import shortened, shown, what_is_wrong
from rlvr_cli.core.yaml_text import LARGEST_YAML, load_yaml

SETTINGS: dict[str, Setting] = {}
"""Each setting by dotted name; of those that several kinds have the first."""
for _one in settings_of(Config):
    SETTINGS.setdefault(_one.name, _one)
OF_A_MODEL = nested((key, True) for key, one in SETTINGS.items() if one.use.kept)
"""What a checkpoint says of the settings it was trained and measured with. Nothing else is read of
a model directory: which problems, and what of this machine, is not for a stranger to say."""


def setting_at(key: str) -> Setting | None:
    """Return the setting of a name, or that a name of free choice stands in; None if none."""
    while key and key not in SETTINGS:
        key = key.rpartition(".")[0]
    return SETTINGS.get(key)


def flags_of(command: Command) -> dict[str, Setting]:
    """Return the setting of each flag of a command, by the name of its parameter."""
    named = ((one.use.parameter(command), one) for one in SETTINGS.values())
    return {name: one for name, one in named if name is not None}


class Given(NamedTuple):
    """A setting by its dotted name as one source gave it, which error messages name."""

    key: str
    value: Any
    origin: str


def in_order(given: Iterable[Given]) -> list[Given]:
    """Return the settings so that what drops others comes first: an algorithm before its cells, a
    kind before its own, a prompt before its format. The order of the others stays."""

    def depth(one: Given) -> int:
        is_first = one.key in SETTINGS and SETTINGS[one.key].use.resets is not None
        return -1 if is_first else one.key.removesuffix(".kind").count(".")

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


def run_layer(run: Path, asked: str) -> list[Given]:
    """Read the settings that a run was saved with. Raises UserError for what is no run."""
    file = run / "config.yaml"
    if not file.is_file():
        raise UserError(f"{asked} {run}: no config.yaml in it; give the directory of a run")
    return yaml_layer(file, str(file))


def flag_layer(key: str, value: Any) -> list[Given]:
    """Return a setting as its flag gave it."""
    parts = [f"{k}={v}" for k, v in value.items()] if isinstance(value, dict) else [value]
    words = " ".join(map(str, value if isinstance(value, tuple) else parts))
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
    algo = next((one.value for one in given if one.key == "algo"), Config().algo)
    values = _preset(algo)
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
        wrong = f"{name}{wrong}, not {shown(first['input'])}"
    around = [".".join(path[:end]) for end in range(len(path), 0, -1)]
    origins = (
        one.origin for key in around for one in given[::-1] if f"{one.key}.".startswith(f"{key}.")
    )
    origin = f"{next(origins, 'configuration')}: " if path else ""
    raise UserError(f"{origin}{wrong.removeprefix(': ')}")


def _preset(algo: Any) -> Flat:
    if not isinstance(algo, str) or algo not in ALGORITHMS:
        given = shortened(algo) if isinstance(algo, str) else shown(algo)
        raise UserError(f"--algo {given}: no such algorithm; choose from {', '.join(ALGORITHMS)}")
    return dict(leaves({"algo": algo, "algorithm": ALGORITHMS[algo].model_dump()}))


def as_yaml(config: Config, include: Any = None) -> str:
    """Return the resolved configuration, or the part of it to include, as `--config` reads it."""
    return yaml.safe_dump(config.model_dump(mode="json", include=include), sort_keys=False)


def changed_cells(config: Config) -> dict[str, tuple[Any, Any]]:
    """Return what of the algorithm differs from its preset, as (preset, chosen) by dotted name."""
    old, new = (
        {key: NONE if value is None else value for key, value in leaves(one.model_dump())}
        for one in (
            ALGORITHMS[config.algo].for_engine(config.computes_alike),
            config.algorithm.for_engine(config.computes_alike),
        )
    )
    cells = {key: (old.get(key, NONE), new.get(key, NONE)) for key in [*old, *new]}
    return {key: (before, now) for key, (before, now) in cells.items() if before != now}
