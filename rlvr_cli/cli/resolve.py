"""From what the command line says to a configuration; a command imports it when it runs."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import rlvr_cli
from rlvr_cli.algorithm.reward_config import parse_rewards
from rlvr_cli.config import (
    OF_A_MODEL,
    SETTINGS,
    Config,
    Layer,
    flag_layer,
    flags_of,
    in_order,
    resolve,
    run_layer,
    set_layer,
    setting_at,
    yaml_layer,
)
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import read_regular, reading
from rlvr_cli.core.settings import Command, leaves
from rlvr_cli.core.text import LONGEST_ANSWER, shortened
from rlvr_cli.core.types import FieldName
from rlvr_cli.data.sources import canonical

LORA_RATE = 10.0
"""The learning rate of an adapter over that of all weights (Schulman et al. 2025)."""
_LONGEST_NAME = 255


def given_flags(parameters: Mapping[str, Any], command: Command) -> dict[str, Any]:
    """Return the settings that the flags of a command gave, by `section.key`; None was not given.
    Raises UserError for a file or a field that cannot be read."""
    given = {}
    for name, one in flags_of(command).items():
        value = parameters.get(name)
        if value is None or value is False or value in ([], ()):
            continue
        types = {one.annotation, *get_args(one.annotation)}
        if one.name == "data.source" and not isinstance(value, str):
            named = tuple(map(canonical, value))
            value = named[0] if len(named) == 1 else named
        elif one.name == "data.fields":
            value = fields_given(value)
        elif one.name == "data.system":
            value = _text_or_file(value)
        elif isinstance(value, list):
            value = tuple(value)
        elif types & {int, float} or one.name == "algorithm.kl":
            value = _number(value)
        given[one.name] = value
    return given


def _number(given: Any) -> Any:
    """Return a text as the number that it is, else as it is: the setting's type refuses it."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(given)
    return given


def _text_or_file(given: str) -> str:
    """Return the text of a file of that name, else the text itself. Raises UserError."""
    is_text = any(letter.isspace() for letter in given) or len(given) > _LONGEST_NAME
    if is_text or not (Path(given).exists() or Path(given).suffix in (".txt", ".md")):
        return given
    with reading(f"--system {shortened(given)}"):
        return read_regular(Path(given), LONGEST_ANSWER).decode().strip()


def fields_given(given: Iterable[str] | None) -> dict[FieldName, str]:
    """Return the paths of `--field NAME=path`. Raises UserError for another form or name."""
    found: dict[FieldName, str] = {}
    for one in given or ():
        name, _, path = one.partition("=")
        field = next((field for field in get_args(FieldName) if field == name), None)
        if field is None or not path:
            raise UserError(
                f"--field {shortened(one)}: write it as NAME=path, with NAME one of "
                f"{', '.join(get_args(FieldName))}, such as answer=reward.truth[0]"
            )
        found[field] = path
    return found


def load(
    command: Command,
    flags: dict[str, Any],
    sets: Iterable[str] | None = None,
    file: Path | None = None,
    parent: Path | None = None,
) -> Config:
    """Return the configuration of, in rising order: the model's own file or a parent run, --config,
    flags, --set. Raises UserError for a flag or an assignment that the command does not read."""
    given = _given(flags, sets)
    for layer in given:
        _refuse_unread(layer, command)
    layers = [yaml_layer(_recipe(file)), *given] if file else given
    if parent is not None:
        if "model" in flags:
            raise UserError(f"--from {parent} brings its own model; leave --model out")
        saved, begins = _parent_layers(parent)
        if not any(layer.sets("reward.functions") for layer in layers):
            _refuse_code_of(saved)
        return resolve([saved, begins, *layers])
    if command == "responses":
        return resolve(layers)
    model = next(
        (m for layer in reversed(layers) if (m := layer.at("model"))), SETTINGS["model"].default
    )
    own = _own_settings(model)[0] if isinstance(model, str) else Layer("model", {})
    return resolve([own, *_rate_of_an_adapter(own, layers), *layers])


def _given(flags: dict[str, Any], sets: Iterable[str] | None) -> list[Layer]:
    """Return the layers of flags and --set; of --algo FILE the row that is its `base`, then its
    cells."""
    layers = []
    for key, value in flags.items():
        if key != "algo" or not value.endswith((".yaml", ".yml")):
            layers.append(flag_layer(key, value))
            continue
        origin = f"--algo {shortened(value)}"
        cells = yaml_layer(Path(value), origin).values
        layers.append(Layer(origin, {"algo": cells.pop("base", "grpo")}))
        layers.append(Layer(origin, {"algorithm": cells}))
    return in_order([*layers, *set_layer(sets or ())])


def _recipe(file: Path) -> Path:
    """Return a file recipes/NAME that is not there as the one that the package brings."""
    package = Path(rlvr_cli.__file__).parent
    theirs = (package / file, package.parent / file)  # in a wheel, in a clone
    known = file.parts[:-1] == ("recipes",) and not file.exists()
    return next((one for one in theirs if known and one.is_file()), file)


def _rate_of_an_adapter(own: Layer, layers: Sequence[Layer]) -> list[Layer]:
    """Return the learning rate where a model's own is for all weights and an adapter is asked for,
    or the other way round, and none is given."""
    ranks = [layer.at("lora.rank") for layer in (own, *layers) if layer.sets("lora.rank")]
    was_adapter, is_adapter = own.at("lora.rank") is not None, [None, *ranks][-1] is not None
    rate = own.at("optim.lr", SETTINGS["optim.lr"].default)
    if was_adapter == is_adapter or not isinstance(rate, int | float):
        return []
    rate = min(1.0, rate * LORA_RATE if is_adapter else rate / LORA_RATE)
    return [Layer(own.origin, {"optim": {"lr": rate}})]


def _refuse_code_of(saved: Layer) -> None:
    """Raise UserError where a run's directory names functions that would be loaded."""
    functions = saved.at("reward.functions")
    if not isinstance(functions, list) or not all(isinstance(one, str) for one in functions):
        return  # none, or what resolving refuses
    with suppress(ValueError):
        if any(one.is_own for one in parse_rewards(functions)):
            again = " ".join(f"--reward {shortened(one)}" for one in functions)
            raise UserError(
                f"{saved.origin}: its rewards are code, which no directory may have run; if they "
                f"are yours, add {again}"
            )


def _parent_layers(run: Path) -> list[Layer]:
    """Return the settings of a run, and its newest whole checkpoint as the parent. Raises UserError
    for what is no run, or has no checkpoint."""
    from rlvr_cli.runs.checkpoint import latest_valid

    saved = run_layer(run, "--from")
    if saved.sets("reward.sources"):  # of the functions of that run: a new one fills in its own
        del saved.values["reward"]["sources"]
    checkpoint, _ = latest_valid(run)
    if checkpoint is None:
        raise UserError(f"--from {run}: it has no checkpoint yet")
    return [saved, Layer(f"--from {run}", {"parent": str(checkpoint.path)})]


def _refuse_unread(layer: Layer, command: Command) -> None:
    for key, _ in leaves(layer.values):
        one = setting_at(key)
        if one is None or command in one.use.read_by:
            continue
        if command == "responses" and "eval" in one.use.read_by:
            raise UserError(f"{layer.origin}: --responses does not read {key}")
        readers = [name for name in one.use.read_by if name != "responses"]
        verb = "reads" if len(readers) == 1 else "read"
        raise UserError(f"{layer.origin}: only rlvr {' and '.join(readers)} {verb} {key}")


def say_own_settings(models: Iterable[str], display: Display) -> None:
    """Say which settings came with each model, and what of its file was not read."""
    from rlvr_cli.model.loading import TINY

    of_data = ", ".join(sorted(OF_A_MODEL["data"]))

    for model in dict.fromkeys(models):
        own, left_out = _own_settings(model)
        if own.values and model != TINY:
            listed = ", ".join(f"{key} {value!r}" for key, value in leaves(own.values))
            display.say("settings", f"{own.origin}: {listed}")
        if left_out:
            names = ", ".join(left_out)
            display.warn(
                f"{own.origin}: not read: {names:.200}; of a model's own settings only "
                f"{', '.join(OF_A_MODEL)} are, and of data only {of_data}"
            )


def _own_settings(model: str) -> tuple[Layer, list[str]]:
    """Return the settings in the model's directory, and the names of those that are not read.

    Only the built-in policy's file may say anything. Raises UserError for a prompt in another file.
    """
    from rlvr_cli.data.prompts import TEMPLATES, is_kept_template
    from rlvr_cli.model.loading import DEFAULTS_FILE, TINY, model_directory

    file = Path(model_directory(model)) / DEFAULTS_FILE
    if not file.is_file():
        return Layer(str(file), {}), []
    layer = yaml_layer(file, str(file))
    if model == TINY:
        return layer, []
    values: dict[str, Any] = {}
    left_out = []
    for section, found in layer.values.items():
        allowed = OF_A_MODEL.get(section)
        if allowed is True or (allowed and not isinstance(found, dict)):
            values[section] = found
        elif allowed:
            values[section] = {key: value for key, value in found.items() if key in allowed}
            left_out += [f"{section}.{key}" for key in found if key not in allowed]
        else:
            left_out.append(f"{section}")
    own = Layer(layer.origin, values)
    prompt = own.at("data.prompt") if own.sets("data.prompt") else None
    if isinstance(prompt, str) and not is_kept_template(prompt):
        raise UserError(
            f"{file}: data.prompt {prompt:.80} is neither {', '.join(TEMPLATES)} nor a text with "
            "{problem} in it, and no other file is read for a model; give it with --prompt"
        )
    return own, left_out


def load_again(
    run: Path, flags: dict[str, Any], sets: Iterable[str] | None = None, others: Iterable[str] = ()
) -> Config:
    """Return the run's own configuration; what it computes can only be made longer, not changed.
    Raises UserError for a setting that would change it, and for any of the `others`, options that
    were given and are no settings."""
    given, saved = _given(flags, sets), run_layer(run, "--resume")
    functions = saved.at("reward.functions", SETTINGS["reward.functions"].default)
    named = list(flags.get("reward.functions", ())) == functions  # the run's own, once more
    if not named:
        _refuse_code_of(saved)
    changes = [layer for layer in given if not (named and layer.sets("reward.functions"))]
    as_it_was = f"--resume goes on with {run} as it was"
    free = dict.fromkeys(one.said_at for one in SETTINGS.values() if one.use.on_resume == "free")
    for key in [*(key for layer in changes for key, _ in leaves(layer.values)), *others]:
        one = setting_at(key)
        if one is None or one.use.on_resume != "free":
            raise UserError(
                f"{as_it_was}: {key} cannot change, only {', '.join(free)} can; rlvr train --from "
                f"{run} begins a new run from its weights"
            )
    config = resolve([saved, *changes])
    schedule = config.optim.schedule
    if schedule != "constant" and config.steps != saved.at("steps", config.steps):
        raise UserError(
            f"{as_it_was}: steps cannot change with optim.schedule {schedule}, which sets the "
            "learning rate by the share of all steps"
        )
    return config
