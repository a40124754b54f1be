"""Resolve the command line to a configuration. A command imports this module when it runs."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args, get_origin

import rlvr_cli
from rlvr_cli import config
from rlvr_cli.algorithm.reward import parse_rewards
from rlvr_cli.config import Assignment, Sets
from rlvr_cli.config.foreign import foreign_answer
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.settings import NONE, Command, Setting, number_of
from rlvr_cli.core.text import shortened
from rlvr_cli.model.loading import TINY, settings_file
from rlvr_cli.program.foreign_run import refusal_of


def read_flags(parameters: Mapping[str, object], command: Command) -> dict[str, Any]:
    """Return the settings that the flags of a command gave, by dotted name.

    A parameter of None, False or no values was not given. Raises UserError for a file or a field
    that is unreadable.
    """
    settings = {}
    for parameter, setting in config.flags_of(command).items():
        value = parameters.get(parameter)
        if value is None or value is False or value in ([], ()):
            continue
        settings[setting.name] = _flag_value(setting, value)
    return settings


def _flag_value(setting: Setting, value: Any) -> Any:
    """Return the value that a flag's text, or several texts, give to its setting."""
    if isinstance(value, Path):
        value = str(value)
    if setting.use.parse is not None:
        return setting.use.parse(value)
    if get_origin(setting.annotation) is tuple:
        return (value,) if isinstance(value, str) else tuple(value)
    if not isinstance(value, str):
        return value
    is_number = {setting.annotation, *get_args(setting.annotation)} & {int, float}
    if is_number or number_of(setting.annotation):
        for kind in (int, float):  # another text is refused by the setting's type
            with suppress(ValueError):
                return kind(value)
    return value


def load(
    command: Command,
    flags: dict[str, Any],
    sets: Sets | None = None,
    file: Path | None = None,
    parent: Path | None = None,
) -> config.Config:
    """Resolve the settings of a command to its configuration.

    A later source wins: the model's own file or a parent run, --config, flags, --set. Raises
    UserError for a setting that the command does not read, and for a parent that is not a run, has
    no checkpoint, or has its own rewards when none are given.
    """
    assignments = _flags_and_sets(flags, sets)
    for key, _, origin in assignments:
        _check_reader(command, key, origin)
    if file:
        in_file = config.yaml_layer(shipped(file))
        _refuse_foreign(file, in_file)
        assignments = [*in_file, *assignments]
    values = {key: value for key, value, _ in assignments}
    if parent is not None:
        if "model" in flags:
            raise UserError(f"--from {parent} brings its own model; leave --model out")
        inherited = _inherited(parent, values)
        resolved = config.resolve([*inherited, *assignments])
        _refuse_functions_of(resolved, values, parent)
        return resolved
    if command == "responses" or _has_no_model(values):
        return config.resolve(assignments)
    model = values.get("model") or config.SETTINGS["model"].default
    saved = _model_settings(model)[0] if isinstance(model, str) else []
    saved = [assignment for assignment in saved if _may_read(command, assignment.key)]
    return config.resolve([*saved, *config.rate_layer(model, saved, values), *assignments])


def _refuse_foreign(file: Path, assignments: Iterable[Assignment]) -> None:
    """Raise UserError for a file of another program, with what its keys are here."""
    keys = []
    for key, _, _ in assignments:
        is_known = config.setting_at(key) is not None or key in config.Config.model_fields
        if not is_known and foreign_answer(key) is not None:
            keys.append(key)
    if keys:
        raise UserError(refusal_of(f"--config {file}: ", keys))


def shipped(file: Path) -> Path:
    """Return the package's file for a recipes/NAME that does not exist here. A wheel has it inside
    the package, a clone next to the package."""
    if file.parts[:1] != ("recipes",) or file.exists():
        return file
    package = Path(rlvr_cli.__file__).parent
    return next(filter(Path.is_file, (package / file, package.parent / file)), file)


def _has_no_model(values: Mapping[str, object]) -> bool:
    """Return whether something else answers in place of a model."""
    return any(
        setting.use.replaces_model and values.get(name) is not None
        for name, setting in config.SETTINGS.items()
    )


def _check_reader(command: Command, key: str, origin: str) -> None:
    """Raise UserError if a setting is one that the command does not read."""
    setting = config.setting_at(key)
    if setting is None or _may_read(command, key):
        return
    readers = [name for name in setting.use.read_by if name != "responses"]
    if command == "responses" and "eval" in readers:
        raise UserError(f"{origin}: --responses does not read {key}")
    verb = "reads" if len(readers) == 1 else "read"
    raise UserError(f"{origin}: only rlvr {' and '.join(readers)} {verb} {key}")


def _may_read(command: Command, key: str) -> bool:
    """Return whether a command reads a setting. An unknown name is refused later."""
    setting = config.setting_at(key)
    return setting is None or command in setting.use.read_by


def _inherited(parent: Path, values: Mapping[str, object]) -> list[Assignment]:
    """Return the settings of a parent run, and its newest intact checkpoint to begin with.

    What is not inherited is left out. Raises UserError if the parent has no checkpoint, or if it
    has code in a setting that the new run's own `values` do not name.
    """
    from rlvr_cli.runs.checkpoint import intact_checkpoints

    inherited = []
    for assignment in config.run_layer(parent, "--from"):
        setting = config.setting_at(assignment.key)
        if setting is None or setting.use.inherited:
            inherited.append(assignment)
    checkpoint = next(intact_checkpoints(parent, LOG.warning), None)
    if checkpoint is None:
        raise UserError(f"--from {parent}: it has no checkpoint yet")
    _refuse_code_of(assignment for assignment in inherited if assignment.key not in values)
    return [*inherited, Assignment("parent", str(checkpoint.path), f"--from {parent}")]


def _flags_and_sets(flags: dict[str, Any], sets: Sets | None) -> list[Assignment]:
    """Return the assignments of flags and --set.

    --algo FILE gives the row that is its `base`, and the settings of the file. Raises UserError if
    a flag and --set give a choice two coefficients.
    """
    assignments: list[Assignment] = []
    for key, value in flags.items():
        if key != "algo" or not value.endswith((".yaml", ".yml")):
            assignments += config.flag_layer(key, value)
            continue
        origin = f"--algo {shortened(value)}"
        row = {name: entry for name, entry, _ in config.yaml_layer(Path(value), origin)}
        assignments.append(Assignment("algo", row.pop("base", "grpo"), origin))
        assignments += [
            Assignment(f"algorithm.{name}", entry, origin) for name, entry in row.items()
        ]
    from_sets = config.set_layer(sets or ())
    for flag, flag_value in flags.items():
        number = number_of(config.SETTINGS[flag].annotation)
        if number is None:
            continue
        for key, value, origin in from_sets:
            names_estimator = flag_value and isinstance(value, str) and value != NONE
            is_penalty = key in (flag, f"{flag}.kind", f"{flag}.{number}")
            if is_penalty and not names_estimator:
                option = config.SETTINGS[flag].use.flag
                raise UserError(
                    f"{option} {flag_value} and {origin} set one coefficient; leave one out"
                )
    return config.in_order([*assignments, *from_sets])


def _refuse_code_of(saved: Iterable[Assignment]) -> None:
    """Raise UserError if the rewards in a run's directory are code, which would be loaded."""
    for key, functions, origin in saved:
        setting = config.SETTINGS.get(key)
        if setting is None or not setting.use.names_code:
            continue
        with suppress(ValueError, TypeError, AttributeError):  # which resolving refuses
            rewards = parse_rewards(functions)
            if any(reward.is_object for reward in rewards):
                raise UserError(
                    f"{origin}: its rewards are function objects; go on from Python, by train with "
                    f"the same in reward=[…]: {', '.join(map(shortened, functions))}"
                )
            if any(reward.is_user_code for reward in rewards):
                options = " ".join(f"{setting.use.flag} {shortened(text)}" for text in functions)
                raise UserError(
                    f"{origin}: its rewards are code, which no directory may have run; if they "
                    f"are yours, add {options}"
                )


def _refuse_functions_of(resolved: config.Config, values: Mapping[str, object], run: Path) -> None:
    """Raise UserError if the algorithm has a function that only the run's directory names."""
    functions = resolved.algorithm.custom_functions

    def is_named(name: str, spec: str) -> bool:
        key = f"algorithm.{name}"
        return spec in (values.get(key), values.get(f"{key}.kind"), values.get(f"{key}.function"))

    if not all(is_named(name, spec) for name, spec in functions.items()):
        sets = (f"--set algorithm.{name}={shortened(spec)}" for name, spec in functions.items())
        raise UserError(
            f"{run}/config.yaml: it has code for {' and '.join(functions)}, which no directory may "
            f"have run; if it is yours, add {' '.join(sets)}"
        )


def say_model_settings(models: Iterable[str], display: Display) -> None:
    """Say which settings came with each model, and which in its file were not read."""
    for model in dict.fromkeys(models):
        settings, ignored = _model_settings(model)
        if settings and model != TINY:
            values = ", ".join(f"{key} {value!r}" for key, value, _ in settings)
            display.say("settings", f"{settings[0].origin}: {values}")
        if ignored:
            names = ", ".join(assignment.key for assignment in ignored)
            readable = config.MODEL_SETTINGS
            display.warn(
                f"{ignored[0].origin}: not read: {names:.200}; of a model's own settings only "
                f"{', '.join(readable)} are, and of data only {', '.join(readable['data'])}"
            )


def _model_settings(model: str) -> tuple[list[Assignment], list[Assignment]]:
    """Return the settings in the model's directory, and those that are ignored.

    Only the built-in policy's file may set anything. Raises UserError for a prompt in another file.
    """
    file = settings_file(model)
    saved = config.yaml_layer(file, str(file)) if file.is_file() else []
    if model == TINY:
        return saved, []
    settings: list[Assignment] = []
    ignored: list[Assignment] = []
    for assignment in saved:
        key, value, _ = assignment
        setting = config.setting_at(key)
        # A section that is not a mapping passes: `config.resolve` refuses it.
        if key in config.MODEL_SETTINGS or (setting is not None and setting.use.with_model):
            settings.append(assignment)
        else:
            ignored.append(assignment)
        refused = setting.use.refused_in_model if setting is not None else None
        wrong = refused(value) if refused is not None and isinstance(value, str) else None
        if setting is not None and wrong is not None:
            raise UserError(f"{file}: {key} {value:.80} {wrong}; give it with {setting.use.flag}")
    return settings, ignored


def load_again(
    run: Path,
    flags: dict[str, Any],
    sets: Sets | None = None,
    other_options: Iterable[str] = (),
) -> config.Config:
    """Return the run's own configuration, which can only be made longer, not changed.

    Raises UserError for a setting that would change the run, and for any other options that were
    given and are no settings.
    """
    assignments = _flags_and_sets(flags, sets)
    saved = config.run_layer(run, "--resume")
    values = {key: value for key, value, _ in saved}
    repeated_code = [  # the run's own, given once more
        key
        for key, value in flags.items()
        if config.SETTINGS[key].use.names_code
        and list(value) == values.get(key, config.SETTINGS[key].default)
    ]
    assignments = [item for item in assignments if item.key not in repeated_code]
    _refuse_code_of(item for item in saved if item.key not in repeated_code)
    assigned = {key: value for key, value, _ in assignments}
    begun_with = config.resolve(saved)
    _refuse_functions_of(begun_with, assigned, run)
    repeated = begun_with.algorithm.custom_functions
    assignments = [
        item
        for item in assignments
        if item.value is None or repeated.get(item.key.removeprefix("algorithm.")) != item.value
    ]
    if repeated:  # the settings of custom functions are given again with their names
        assignments = [
            item
            for item in assignments
            if not item.key.startswith("algorithm.") or config.resolve([*saved, item]) != begun_with
        ]
    for name, setting in config.SETTINGS.items():
        if setting.use.in_old_runs is not None and name not in values:
            saved.append(Assignment(name, setting.use.in_old_runs, str(run)))
    message = f"--resume goes on with {run} as it was"
    for name in [*(key for key, *_ in assignments), *other_options]:
        changed = config.setting_at(name)
        if changed is None or changed.use.on_resume != "free":
            settings = config.SETTINGS.values()
            training = [setting for setting in settings if "train" in setting.use.read_by]
            free = (setting.name for setting in training if setting.use.on_resume == "free")
            raise UserError(
                f"{message}: {name} cannot change, only {', '.join(free)} can; "
                f"rlvr train --from {run} begins a new run from its weights"
            )
    resumed = config.resolve([*saved, *assignments])
    reason = resumed.optim.why_steps_stay
    if reason and resumed.steps != values.get("steps", resumed.steps):
        raise UserError(f"{message}: steps cannot change with {reason}")
    return resumed
