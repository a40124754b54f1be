"""From what the command line says to a configuration; a command imports it when it runs."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import rlvr_cli
from rlvr_cli import config
from rlvr_cli.algorithm.reward import parse_rewards
from rlvr_cli.config import Assignment
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import read_regular, reading
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.settings import NONE, Command
from rlvr_cli.core.text import LONGEST_ANSWER, shortened
from rlvr_cli.core.types import FieldName
from rlvr_cli.data.prompts import TEMPLATES, is_inline_template
from rlvr_cli.data.sources import canonical
from rlvr_cli.model.loading import TINY, settings_file

LORA_RATE = 10.0
"""The learning rate of an adapter over that of all weights (Schulman et al. 2025)."""


def read_flags(parameters: Mapping[str, Any], command: Command) -> dict[str, Any]:
    """Return the settings that the flags of a command gave, by dotted name; a parameter of None,
    False or no values was not given. Raises UserError for a file or a field that is unreadable."""
    settings = {}
    for parameter, setting in config.flags_of(command).items():
        value = parameters.get(parameter)
        if value is None or value is False or value in ([], ()):
            continue
        if setting.name == "data.source":
            sources = tuple(map(canonical, value))
            value = sources[0] if len(sources) == 1 else sources
        elif setting.name == "data.fields":
            names, value = value, {}
            for text in names:
                field, _, path = text.partition("=")
                if field not in get_args(FieldName) or not path:
                    raise UserError(
                        f"--field {shortened(text)}: write it as NAME=path, with NAME one of "
                        f"{', '.join(get_args(FieldName))}, such as answer=reward.truth[0]"
                    )
                value[field] = path
        elif setting.name == "data.system" and not any(map(str.isspace, value)):
            # A word stands for the text of a file if it is, or looks like, the name of one; the
            # name of a file has at most 255 bytes.
            file = Path(value)
            if file.suffix in (".txt", ".md") or (len(value) <= 255 and file.exists()):
                with reading(f"--system {shortened(value)}"):
                    value = read_regular(file, LONGEST_ANSWER).decode().strip()
        elif isinstance(value, list):
            value = tuple(value)
        elif {setting.annotation, *get_args(setting.annotation)} & {int, float} or (
            setting.name == "algorithm.kl"
        ):
            for kind in (float, int):  # a text that is no number is refused by the setting's type
                with suppress(ValueError):
                    value = kind(parameters[parameter])
        settings[setting.name] = value
    return settings


def load(
    command: Command,
    flags: dict[str, Any],
    sets: Iterable[str] | None = None,
    file: Path | None = None,
    parent: Path | None = None,
) -> config.Config:
    """Return the configuration of, in rising order: the model's own file or a parent run, --config,
    flags, --set. Raises UserError for a flag or an assignment that the command does not read, and
    for a parent that is no run, has no checkpoint, or has own rewards where none are given."""
    given = _flags_and_sets(flags, sets)
    for key, _, origin in given:
        setting = config.setting_at(key)
        if setting is None or command in setting.use.read_by:
            continue
        readers = [name for name in setting.use.read_by if name != "responses"]
        if command == "responses" and "eval" in readers:
            raise UserError(f"{origin}: --responses does not read {key}")
        verb = "reads" if len(readers) == 1 else "read"
        raise UserError(f"{origin}: only rlvr {' and '.join(readers)} {verb} {key}")
    if file:
        # A file recipes/NAME that is not there is the one of the package: in a wheel, in a clone.
        if file.parts[:-1] == ("recipes",) and not file.exists():
            package = Path(rlvr_cli.__file__).parent
            file = next(filter(Path.is_file, (package / file, package.parent / file)), file)
        given = [*config.yaml_layer(file), *given]
    chosen = {key: value for key, value, _ in given}
    if parent is not None:
        if "model" in flags:
            raise UserError(f"--from {parent} brings its own model; leave --model out")
        from rlvr_cli.runs.checkpoint import intact_checkpoints

        # The new run begins with the newest whole checkpoint; it has its own date and sources of
        # rewards.
        layer = config.run_layer(parent, "--from")
        ours = ("reward.sources", "data.date")
        inherited = [one for one in layer if not one.key.startswith(ours)]
        checkpoint = next(intact_checkpoints(parent, LOG.warning), None)
        if checkpoint is None:
            raise UserError(f"--from {parent}: it has no checkpoint yet")
        if "reward.functions" not in chosen:
            _refuse_code_of(inherited)
        start = Assignment("parent", str(checkpoint.path), f"--from {parent}")
        return config.resolve([*inherited, start, *given])
    if command == "responses":
        return config.resolve(given)
    model = chosen.get("model") or config.SETTINGS["model"].default
    own = _own_settings(model)[0] if isinstance(model, str) else []
    # Where no learning rate is given, an adapter takes ten times that of the model's own settings
    # for all weights, and all weights a tenth of that of an adapter.
    saved = {key: value for key, value, _ in own}
    was_adapter = saved.get("lora.rank") is not None
    is_adapter = (saved | chosen).get("lora.rank") is not None
    rate = saved.get("optim.lr", config.SETTINGS["optim.lr"].default)
    if was_adapter != is_adapter and isinstance(rate, int | float):
        rate = min(1.0, rate * LORA_RATE if is_adapter else rate / LORA_RATE)
        own = [*own, Assignment("optim.lr", rate, f"the learning rate of {model}")]
    return config.resolve([*own, *given])


def _flags_and_sets(flags: dict[str, Any], sets: Iterable[str] | None) -> list[Assignment]:
    """Return what flags and --set give; of --algo FILE the row that is its `base`, and its cells.
    Raises UserError where --kl and --set give the penalty two coefficients."""
    given: list[Assignment] = []
    for key, value in flags.items():
        if key != "algo" or not value.endswith((".yaml", ".yml")):
            given += config.flag_layer(key, value)
            continue
        origin = f"--algo {shortened(value)}"
        cells = {cell.key: cell.value for cell in config.yaml_layer(Path(value), origin)}
        given.append(Assignment("algo", cells.pop("base", "grpo"), origin))
        given += [Assignment(f"algorithm.{name}", cell, origin) for name, cell in cells.items()]
    assigned, kl = config.set_layer(sets or ()), flags.get("algorithm.kl")
    for key, value, origin in assigned:
        names_estimator = kl and isinstance(value, str) and value != NONE
        is_penalty = key in ("algorithm.kl", "algorithm.kl.kind", "algorithm.kl.coef")
        if kl is not None and is_penalty and not names_estimator:
            raise UserError(f"--kl {kl} and {origin} set one coefficient; leave one out")
    return config.in_order([*given, *assigned])


def _refuse_code_of(saved: Sequence[Assignment]) -> None:
    """Raise UserError where a run's directory names functions that would be loaded."""
    for key, functions, origin in saved:
        if key != "reward.functions":
            continue
        with suppress(ValueError, TypeError, AttributeError):  # which resolving refuses
            if any(reward.is_own for reward in parse_rewards(functions)):
                again = " ".join(f"--reward {shortened(text)}" for text in functions)
                raise UserError(
                    f"{origin}: its rewards are code, which no directory may have run; if they "
                    f"are yours, add {again}"
                )


def say_own_settings(models: Iterable[str], display: Display) -> None:
    """Say which settings came with each model, and what of its file was not read."""
    for model in dict.fromkeys(models):
        own, ignored = _own_settings(model)
        if own and model != TINY:
            values = ", ".join(f"{key} {value!r}" for key, value, _ in own)
            display.say("settings", f"{own[0].origin}: {values}")
        if ignored:
            names, of_model = ", ".join(given.key for given in ignored), config.MODEL_SETTINGS
            display.warn(
                f"{ignored[0].origin}: not read: {names:.200}; of a model's own settings only "
                f"{', '.join(of_model)} are, and of data only {', '.join(of_model['data'])}"
            )


def _own_settings(model: str) -> tuple[list[Assignment], list[Assignment]]:
    """Return the settings in the model's directory, and those that are ignored: only the built-in
    policy's file may set anything. Raises UserError for a prompt in another file."""
    file = settings_file(model)
    saved = config.yaml_layer(file, str(file)) if file.is_file() else []
    if model == TINY:
        return saved, []
    own, ignored = list[Assignment](), list[Assignment]()
    for given in saved:
        key, value, _ = given
        setting = config.setting_at(key)
        # A section that is no mapping is left for `config.resolve` to refuse.
        is_read = key in config.MODEL_SETTINGS or (setting is not None and setting.use.with_model)
        (own if is_read else ignored).append(given)
        if key == "data.prompt" and isinstance(value, str) and not is_inline_template(value):
            raise UserError(
                f"{file}: data.prompt {value:.80} is neither {', '.join(TEMPLATES)} nor a text "
                "with {problem} in it, and no other file is read for a model; give it with --prompt"
            )
    return own, ignored


def load_again(
    run: Path, flags: dict[str, Any], sets: Iterable[str] | None = None, others: Iterable[str] = ()
) -> config.Config:
    """Return the run's own configuration; what it computes can only be made longer, not changed.
    Raises UserError for a setting that would change it, and for any of the `others`, options that
    were given and are no settings."""
    given, saved = _flags_and_sets(flags, sets), config.run_layer(run, "--resume")
    before = {key: value for key, value, _ in saved}
    functions = before.get("reward.functions", config.SETTINGS["reward.functions"].default)
    if list(flags.get("reward.functions", ())) == functions:  # the run's own, given once more
        given = [setting for setting in given if setting.key != "reward.functions"]
    else:
        _refuse_code_of(saved)
    if "rollout.ends" not in before:  # an earlier version began it, which knew no others
        saved = [*saved, Assignment("rollout.ends", [], str(run))]
    as_it_was = f"--resume goes on with {run} as it was"
    for key in [*(key for key, *_ in given), *others]:
        setting = config.setting_at(key)
        if setting is None or setting.use.on_resume != "free":
            settings = config.SETTINGS.values()
            free = (setting.name for setting in settings if setting.use.on_resume == "free")
            raise UserError(
                f"{as_it_was}: {key} cannot change, only {', '.join(free)} can; "
                f"rlvr train --from {run} begins a new run from its weights"
            )
    resumed = config.resolve([*saved, *given])
    schedule = resumed.optim.schedule
    if schedule != "constant" and resumed.steps != before.get("steps", resumed.steps):
        raise UserError(
            f"{as_it_was}: steps cannot change with optim.schedule {schedule}, which sets the "
            "learning rate by the share of all steps"
        )
    return resumed
