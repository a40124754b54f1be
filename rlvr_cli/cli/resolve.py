"""From what the command line says to a configuration; a command imports it when it runs."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import rlvr_cli
from rlvr_cli import config
from rlvr_cli.algorithm.reward import parse_rewards
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import read_regular, reading
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.settings import NONE, Command
from rlvr_cli.core.text import LONGEST_ANSWER, shortened
from rlvr_cli.core.types import FieldName
from rlvr_cli.data.prompts import TEMPLATES, is_kept_template
from rlvr_cli.data.sources import canonical
from rlvr_cli.model.loading import DEFAULTS_FILE, TINY, model_directory

LORA_RATE = 10.0
"""The learning rate of an adapter over that of all weights (Schulman et al. 2025)."""
_LONGEST_NAME = 255
"""Bytes of a file's name; a longer --system is a text."""
_PENALTY = ("algorithm.kl", "algorithm.kl.kind", "algorithm.kl.coef")


def given_flags(parameters: Mapping[str, Any], command: Command) -> dict[str, Any]:
    """Return the settings that the flags of a command gave, by `section.key`; None was not given.
    Raises UserError for a file or a field that cannot be read."""
    given = {}
    for name, one in config.flags_of(command).items():
        value = parameters.get(name)
        if value is None or value is False or value in ([], ()):
            continue
        types = {one.annotation, *get_args(one.annotation)}
        if one.name == "data.source":
            named = tuple(map(canonical, value))
            value = named[0] if len(named) == 1 else named
        elif one.name == "data.fields":
            pairs = [each.partition("=") for each in value]
            for each, (field, _, path) in zip(value, pairs, strict=True):
                if field not in get_args(FieldName) or not path:
                    raise UserError(
                        f"--field {shortened(each)}: write it as NAME=path, with NAME one of "
                        f"{', '.join(get_args(FieldName))}, such as answer=reward.truth[0]"
                    )
            value = {field: path for field, _, path in pairs}
        elif one.name == "data.system" and not any(letter.isspace() for letter in value):
            # A word that is a file's name, or looks like one, stands for the text in it.
            if Path(value).suffix in (".txt", ".md") or (
                len(value) <= _LONGEST_NAME and Path(value).exists()
            ):
                with reading(f"--system {shortened(value)}"):
                    value = read_regular(Path(value), LONGEST_ANSWER).decode().strip()
        elif isinstance(value, list):
            value = tuple(value)
        elif types & {int, float} or one.name == "algorithm.kl":
            for kind in (float, int):  # what is no number the setting's type refuses
                with suppress(ValueError):
                    value = kind(parameters[name])
        given[one.name] = value
    return given


def load(
    command: Command,
    flags: dict[str, Any],
    sets: Iterable[str] | None = None,
    file: Path | None = None,
    parent: Path | None = None,
) -> config.Config:
    """Return the configuration of, in rising order: the model's own file or a parent run, --config,
    flags, --set. Raises UserError for a flag or an assignment that the command does not read."""
    given = _given(flags, sets)
    for one in given:
        setting = config.setting_at(one.key)
        if setting is None or command in setting.use.read_by:
            continue
        if command == "responses" and "eval" in setting.use.read_by:
            raise UserError(f"{one.origin}: --responses does not read {one.key}")
        readers = [name for name in setting.use.read_by if name != "responses"]
        verb = "reads" if len(readers) == 1 else "read"
        raise UserError(f"{one.origin}: only rlvr {' and '.join(readers)} {verb} {one.key}")
    if file:
        # A file recipes/NAME that is not there is the one that the package brings.
        package = Path(rlvr_cli.__file__).parent
        brought = (package / file, package.parent / file)  # in a wheel, in a clone
        known = file.parts[:-1] == ("recipes",) and not file.exists()
        file = next((one for one in brought if known and one.is_file()), file)
        given = [*config.yaml_layer(file), *given]
    chosen = {one.key: one.value for one in given}
    if parent is not None:
        if "model" in flags:
            raise UserError(f"--from {parent} brings its own model; leave --model out")
        return config.resolve([*_parent(parent, "reward.functions" in chosen), *given])
    if command == "responses":
        return config.resolve(given)
    model = chosen.get("model") or config.SETTINGS["model"].default
    own = _own_settings(model)[0] if isinstance(model, str) else []
    # An adapter's learning rate is another one than a model's own for all weights, where none is
    # given, and the other way round.
    theirs = {one.key: one.value for one in own}
    was_adapter = theirs.get("lora.rank") is not None
    rate = theirs.get("optim.lr", config.SETTINGS["optim.lr"].default)
    is_adapter = (theirs | chosen).get("lora.rank") is not None
    if was_adapter != is_adapter and isinstance(rate, int | float):
        rate = min(1.0, rate * LORA_RATE if is_adapter else rate / LORA_RATE)
        own = [*own, config.Given("optim.lr", rate, f"the learning rate of {model}")]
    return config.resolve([*own, *given])


def _given(flags: dict[str, Any], sets: Iterable[str] | None) -> list[config.Given]:
    """Return what flags and --set give; of --algo FILE the row that is its `base`, and its cells.
    Raises UserError where --kl and --set give the penalty two coefficients."""
    given: list[config.Given] = []
    for key, value in flags.items():
        if key != "algo" or not value.endswith((".yaml", ".yml")):
            given += config.flag_layer(key, value)
            continue
        origin = f"--algo {shortened(value)}"
        cells = config.yaml_layer(Path(value), origin)
        base = next((one.value for one in cells if one.key == "base"), "grpo")
        given.append(config.Given("algo", base, origin))
        given += [
            config.Given(f"algorithm.{one.key}", *one[1:]) for one in cells if one.key != "base"
        ]
    assigned, kl = config.set_layer(sets or ()), flags.get("algorithm.kl")
    for one in assigned:
        names_estimator = kl and isinstance(one.value, str) and one.value != NONE
        if kl is not None and one.key in _PENALTY and not names_estimator:
            raise UserError(f"--kl {kl} and {one.origin} set one coefficient; leave one out")
    return config.in_order([*given, *assigned])


def _parent(run: Path, has_rewards: bool) -> list[config.Given]:
    """Return the settings of a run, and its newest whole checkpoint as the parent. Raises UserError
    for what is no run, has no checkpoint, or has rewards of its own where none are given."""
    from rlvr_cli.runs.checkpoint import whole_checkpoints

    # The sources of rewards are left out: a new run fills in its own.
    asked = config.run_layer(run, "--from")
    saved = [one for one in asked if not one.key.startswith("reward.sources")]
    checkpoint = next(whole_checkpoints(run, LOG.warning), None)
    if checkpoint is None:
        raise UserError(f"--from {run}: it has no checkpoint yet")
    if not has_rewards:
        _refuse_code_of(saved)
    return [*saved, config.Given("parent", str(checkpoint.path), f"--from {run}")]


def _refuse_code_of(saved: Sequence[config.Given]) -> None:
    """Raise UserError where a run's directory names functions that would be loaded."""
    for _, functions, origin in (one for one in saved if one.key == "reward.functions"):
        with suppress(ValueError, TypeError, AttributeError):  # which resolving refuses
            if any(one.is_own for one in parse_rewards(functions)):
                again = " ".join(f"--reward {shortened(one)}" for one in functions)
                raise UserError(
                    f"{origin}: its rewards are code, which no directory may have run; if they "
                    f"are yours, add {again}"
                )


def say_own_settings(models: Iterable[str], display: Display) -> None:
    """Say which settings came with each model, and what of its file was not read."""
    for model in dict.fromkeys(models):
        own, left_out = _own_settings(model)
        if own and model != TINY:
            listed = ", ".join(f"{one.key} {one.value!r}" for one in own)
            display.say("settings", f"{own[0].origin}: {listed}")
        if left_out:
            names, kept = ", ".join(one.key for one in left_out), config.OF_A_MODEL
            display.warn(
                f"{left_out[0].origin}: not read: {names:.200}; of a model's own settings only "
                f"{', '.join(kept)} are, and of data only {', '.join(kept['data'])}"
            )


def _own_settings(model: str) -> tuple[list[config.Given], list[config.Given]]:
    """Return the settings in the model's directory, and those that are not read: only the built-in
    policy's file may say anything. Raises UserError for a prompt in another file."""
    file = Path(model_directory(model)) / DEFAULTS_FILE
    found = config.yaml_layer(file, str(file)) if file.is_file() else []
    if model == TINY:
        return found, []
    # A section that is no mapping is kept, for `config.resolve` to refuse.
    own = [
        one
        for one in found
        if one.key in config.OF_A_MODEL
        or ((known := config.setting_at(one.key)) is not None and known.use.kept)
    ]
    prompt = next((one.value for one in own if one.key == "data.prompt"), None)
    if isinstance(prompt, str) and not is_kept_template(prompt):
        raise UserError(
            f"{file}: data.prompt {prompt:.80} is neither {', '.join(TEMPLATES)} nor a text with "
            "{problem} in it, and no other file is read for a model; give it with --prompt"
        )
    return own, [one for one in found if one not in own]


def load_again(
    run: Path, flags: dict[str, Any], sets: Iterable[str] | None = None, others: Iterable[str] = ()
) -> config.Config:
    """Return the run's own configuration; what it computes can only be made longer, not changed.
    Raises UserError for a setting that would change it, and for any of the `others`, options that
    were given and are no settings."""
    given, saved = _given(flags, sets), config.run_layer(run, "--resume")
    before = {one.key: one.value for one in saved}
    functions = before.get("reward.functions", config.SETTINGS["reward.functions"].default)
    if list(flags.get("reward.functions", ())) == functions:  # the run's own, once more
        given = [one for one in given if one.key != "reward.functions"]
    else:
        _refuse_code_of(saved)
    as_it_was = f"--resume goes on with {run} as it was"
    for key in [*(one.key for one in given), *others]:
        setting = config.setting_at(key)
        if setting is None or setting.use.on_resume != "free":
            free = (name for name, one in config.SETTINGS.items() if one.use.on_resume == "free")
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
