"""From what the command line says to a configuration; a command imports it when it runs."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import rlvr_cli
from rlvr_cli import config
from rlvr_cli.algorithm.reward_config import parse_rewards
from rlvr_cli.config import OF_A_MODEL, SETTINGS, Config, flags_of, use_of
from rlvr_cli.config.overlay import UnknownSettingError, foreign_answer
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import read_regular, reading
from rlvr_cli.core.layers import Layer, run_layer, yaml_layer
from rlvr_cli.core.settings import NONE, Command, leaves
from rlvr_cli.core.text import LONGEST_ANSWER, shortened
from rlvr_cli.core.types import FieldName
from rlvr_cli.data.sources import canonical

LORA_RATE = 10.0
"""The learning rate of an adapter over that of all weights (Schulman et al. 2025)."""
_LONGEST_NAME = 255


def given_flags(parameters: Mapping[str, Any], command: Command) -> dict[str, Any]:
    """Return the settings that the flags of a command gave, by `section.key`; None was not given.
    Raises UserError for a file or a field that cannot be read."""
    given = {key: parameters.get(name) for name, key in flags_of(command).items()}
    given = {
        key: value
        for key, value in given.items()
        if value is not None and value is not False and value != [] and value != ()
    }
    if isinstance(sources := given.get("data.source"), list | tuple):
        named = tuple(map(canonical, sources))
        given["data.source"] = named[0] if len(named) == 1 else named
    if functions := given.get("reward.functions"):
        given["reward.functions"] = tuple(functions)
    if (system := given.get("data.system")) is not None:
        given["data.system"] = _text_or_file(system)
    if "data.fields" in given:
        given["data.fields"] = fields_given(given["data.fields"])
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


def resolve(
    flags: dict[str, Any],
    file: Path | None,
    assignments: list[str] | None,
    command: Command,
    kl: float | None = None,
    parent: Path | None = None,
) -> Config:
    """Resolve the configuration from, in rising order: the model's own file, a parent run,
    --config, flags, --set, --kl. Raises UserError for a flag or an assignment that the command does
    not read."""
    given = [
        layer for pair in flags.items() if pair[1] is not None for layer in _flag_layers(*pair)
    ]
    given += config.set_layer(assignments or [])
    layers = [yaml_layer(_recipe(file)), *given] if file else given
    if parent is not None:
        if "model" in flags:
            raise UserError(f"--from {parent} brings its own model; leave --model out")
        saved, begins = _parent_layers(parent)
        _refuse_code_of(saved, layers)
        layers = [saved, begins, *layers]
    resolved = _resolved(layers)
    if kl is not None:
        layers.append(_kl_layer(kl, resolved))
        resolved = _resolved(layers)
    for layer in given:
        _refuse_unread(layer, command)
    if command == "responses" or parent is not None:
        return resolved
    own, _ = _own_settings(resolved.model)
    final = _resolved([own, *layers])
    if any(layer.sets(["optim", "lr"]) for layer in layers):
        return final
    trained = config.resolve([own])
    power = (final.lora.rank is not None) - (trained.lora.rank is not None)
    rate = {"lr": min(1.0, trained.optim.lr * LORA_RATE**power)}
    return final.model_copy(update={"optim": final.optim.model_copy(update=rate)})


def _recipe(file: Path) -> Path:
    """Return a file recipes/NAME that is not there as the one that the package brings."""
    package = Path(rlvr_cli.__file__).parent
    theirs = (package / file, package.parent / file)  # in a wheel, in a clone
    known = file.parts[:-1] == ("recipes",) and not file.exists()
    return next((one for one in theirs if known and one.is_file()), file)


def _flag_layers(key: str, value: Any) -> list[Layer]:
    """Return the layers of a flag; of --algo FILE the row that is its `base`, then its cells."""
    if key != "algo" or not value.endswith((".yaml", ".yml")):
        return [config.flag_layer(key, value)]
    origin = f"--algo {shortened(value)}"
    cells = yaml_layer(Path(value), origin).values
    return [Layer(origin, {"algo": cells.pop("base", "grpo")}), Layer(origin, {"algorithm": cells})]


def _refuse_code_of(saved: Layer, given: Sequence[Layer]) -> None:
    """Raise UserError where only a run's directory names functions that would be loaded. What it
    says of their source is dropped where they are given, for a new run."""
    named = saved.values.get("reward")
    if any(layer.sets(["reward", "functions"]) for layer in given):
        if isinstance(named, dict):
            named.pop("sources", None)
        return
    functions = config.resolve([saved]).reward.functions
    if any(one.is_own for one in parse_rewards(functions)):
        again = " ".join(f"--reward {shortened(one)}" for one in functions)
        raise UserError(
            f"{saved.origin}: its rewards are code, which no directory may have run; if they are "
            f"yours, add {again}"
        )


def _resolved(layers: Sequence[Layer]) -> Config:
    """Resolve layers; a name of another program is answered with the one it has here."""
    try:
        return config.resolve(layers)
    except UnknownSettingError as error:
        if answer := foreign_answer(error.whole):
            raise UserError(f"{error.origin}: {answer}") from None
        raise


def _kl_layer(coef: float, resolved: Config) -> Layer:
    """Return the layer of --kl: none at 0, else the coefficient of the penalty that is there, or of
    k3 in the loss to a fixed reference."""
    cells: Any = {"coef": coef} | ({} if resolved.algorithm.kl else {"kind": "k3"})
    return Layer(f"--kl {coef:g}", {"algorithm": {"kl": cells if coef else NONE}})


def _parent_layers(run: Path) -> list[Layer]:
    """Return the settings of a run, and its newest whole checkpoint as the parent. Raises UserError
    for what is no run, or has no checkpoint."""
    from rlvr_cli.runs.checkpoint import latest_valid

    saved = run_layer(run, "--from")
    checkpoint, _ = latest_valid(run)
    if checkpoint is None:
        raise UserError(f"--from {run}: it has no checkpoint yet")
    return [saved, Layer(f"--from {run}", {"parent": str(checkpoint.path)})]


def _refuse_unread(layer: Layer, command: Command) -> None:
    for key, _ in leaves(layer.values):
        use = use_of(key)
        if use is None or command in use.read_by:
            continue
        if command == "responses" and "eval" in use.read_by:
            raise UserError(f"{layer.origin}: --responses does not read {key}")
        readers = [one for one in use.read_by if one != "responses"]
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
    own, left_out = _kept_part(layer)
    data = own.values.get("data")
    prompt = data.get("prompt") if isinstance(data, dict) else None
    if isinstance(prompt, str) and not is_kept_template(prompt):
        raise UserError(
            f"{file}: data.prompt {prompt:.80} is neither {', '.join(TEMPLATES)} nor a text with "
            "{problem} in it, and no other file is read for a model; give it with --prompt"
        )
    return own, left_out


def _kept_part(layer: Layer) -> tuple[Layer, list[str]]:
    """Return the settings of a layer that a checkpoint may keep, and the names of the others."""
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
    return Layer(layer.origin, values), left_out


def resolve_again(
    run: Path, flags: dict[str, Any], assignments: list[str] | None, others: Iterable[str] = ()
) -> Config:
    """Resolve the run's own configuration; what it computes can only be made longer, not changed.
    Raises UserError for a setting that would change it, and for any of the `others`, options that
    were given and are no settings."""
    layers = [config.flag_layer(key, value) for key, value in flags.items()]
    layers += config.set_layer(assignments or [])
    saved = run_layer(run, "--resume")
    began = config.resolve([saved])
    if flags.get("reward.functions") == began.reward.functions:
        layers = [layer for layer in layers if not layer.sets(["reward", "functions"])]
    else:
        _refuse_code_of(saved, ())
    keys = [key for layer in layers for key, _ in leaves(layer.values)]
    free = [key for key, use in SETTINGS.items() if use.on_resume == "free"]
    for key in [*keys, *others]:
        use = use_of(key)
        if use is None or use.on_resume != "free":
            raise UserError(
                f"--resume goes on with {run} as it was: {key} cannot change, only "
                f"{', '.join(free)} can; rlvr train --from {run} begins a new run from its weights"
            )
    resolved = config.resolve([saved, *layers])
    schedule = resolved.optim.schedule
    if schedule != "constant" and resolved.steps != began.steps:
        raise UserError(
            f"--resume goes on with {run} as it was: steps cannot change with optim.schedule "
            f"{schedule}, which sets the learning rate by the share of all steps"
        )
    return resolved
