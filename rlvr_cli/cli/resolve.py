"""From what the command line says to a configuration.

Imports stay inside the functions: help needs none of them.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlvr_cli.config import Config
    from rlvr_cli.console.display import Display
    from rlvr_cli.core.layers import Layer
    from rlvr_cli.core.settings import Command

LORA_RATE = 10.0
"""The learning rate of an adapter over that of all weights (Schulman et al. 2025)."""
KEPT = "what was sampled is kept in {}; give the same command again to go on"
NOTHING_KEPT = "nothing is kept; rlvr eval with --out DIR keeps what was sampled"


def given_flags(parameters: Mapping[str, Any], command: "Command") -> dict[str, Any]:
    """Return the settings that the flags of a command gave, by `section.key`; None was not
    given."""
    from rlvr_cli.config import flags_of

    given = {key: parameters.get(name) for name, key in flags_of(command).items()}
    return {key: value for key, value in given.items() if value is not None and value is not False}


def resolve(
    flags: dict[str, Any],
    file: Path | None,
    assignments: list[str] | None,
    command: "Command",
) -> "Config":
    """Resolve the configuration from, in rising order: the model's own file, --config, flags,
    --set.

    Raises UserError for a flag or an assignment that the command does not read.
    """
    from rlvr_cli import config
    from rlvr_cli.core.layers import yaml_layer

    given = [config.flag_layer(key, value) for key, value in flags.items() if value is not None]
    given += config.set_layer(assignments or [])
    layers = [yaml_layer(file), *given] if file else given
    resolved = config.resolve(layers)
    for layer in given:
        _refuse_unread(layer, command)
    if command == "responses":
        return resolved
    own, _ = _own_settings(resolved.model)
    final = config.resolve([own, *layers])
    if any(layer.sets(["optim", "lr"]) for layer in layers):
        return final
    trained = config.resolve([own])
    power = (final.lora.rank is not None) - (trained.lora.rank is not None)
    rate = {"lr": min(1.0, trained.optim.lr * LORA_RATE**power)}
    return final.model_copy(update={"optim": final.optim.model_copy(update=rate)})


def _refuse_unread(layer: "Layer", command: "Command") -> None:
    from rlvr_cli.config import use_of
    from rlvr_cli.core.errors import UserError
    from rlvr_cli.core.settings import leaves

    for key, _ in leaves(layer.values):
        use = use_of(key)
        if use is None or command in use.read_by:
            continue
        if command == "responses" and "eval" in use.read_by:
            raise UserError(f"{layer.origin}: --responses does not read {key}")
        readers = [one for one in use.read_by if one != "responses"]
        verb = "reads" if len(readers) == 1 else "read"
        raise UserError(f"{layer.origin}: only rlvr {' and '.join(readers)} {verb} {key}")


def say_own_settings(models: Iterable[str], display: "Display") -> None:
    """Say which settings came with each model, and what of its file was not read."""
    from rlvr_cli.config import OF_A_MODEL
    from rlvr_cli.model.loading import TINY

    for model in dict.fromkeys(models):
        own, left_out = _own_settings(model)
        if own.values and model != TINY:
            display.say("settings", f"{own.origin}: {_shown(own.values)}")
        if left_out:
            names = ", ".join(left_out)
            display.warn(
                f"{own.origin}: not read: {names:.200}; of a model's own settings only "
                f"{', '.join(OF_A_MODEL)} are, and of data only prompt and answer_format"
            )


def _own_settings(model: str) -> tuple["Layer", list[str]]:
    """Return the settings in the model's directory, and the names of those that are not read.

    Only the built-in policy's file may say anything. Raises UserError for a prompt in another file.
    """
    from rlvr_cli.core.errors import UserError
    from rlvr_cli.core.layers import Layer, yaml_layer
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


def _kept_part(layer: "Layer") -> tuple["Layer", list[str]]:
    """Return the settings of a layer that a checkpoint may keep, and the names of the others."""
    from rlvr_cli.config import OF_A_MODEL

    values: dict[str, Any] = {}
    left_out = []
    for section, found in layer.values.items():
        allowed = OF_A_MODEL.get(section) if isinstance(section, str) else None
        if allowed is True or (allowed and not isinstance(found, dict)):
            values[section] = found
        elif allowed:
            values[section] = {key: value for key, value in found.items() if key in allowed}
            left_out += [f"{section}.{key}" for key in found if key not in allowed]
        else:
            left_out.append(f"{section}")
    return type(layer)(layer.origin, values), left_out


def _shown(values: dict[str, Any], prefix: str = "") -> str:
    parts = [
        _shown(value, f"{prefix}{key}.") if isinstance(value, dict) else f"{prefix}{key} {value!r}"
        for key, value in values.items()
    ]
    return ", ".join(parts)


def checked_judge(judge: str, assignments: list[str] | None) -> str:
    """Return the judge. Raises UserError for one that is not there, or an answer format beside
    another than ours, which takes any."""
    from rlvr_cli.core.errors import UserError
    from rlvr_cli.evaluation.fingerprint import judge_versions
    from verifiers import OURS

    judge_versions(judge)
    keys = [text.partition("=")[0].strip() for text in assignments or []]
    if judge != OURS and "data.answer_format" in keys:
        raise UserError(f"--judge {judge} takes answers of any form; leave data.answer_format out")
    return judge


def resolve_again(
    run: Path, flags: dict[str, Any], assignments: list[str] | None, others: Iterable[str] = ()
) -> "Config":
    """Resolve the run's own configuration; what it computes can only be made longer, not changed.

    Raises UserError for a setting that would change it, and for any of the `others`, options that
    were given and are no settings.
    """
    from rlvr_cli import config
    from rlvr_cli.core.errors import UserError
    from rlvr_cli.core.layers import yaml_layer
    from rlvr_cli.core.settings import leaves

    layers = [config.flag_layer(key, value) for key, value in flags.items()]
    layers += config.set_layer(assignments or [])
    keys = [key for layer in layers for key, _ in leaves(layer.values)]
    free = [key for key, use in config.SETTINGS.items() if use.on_resume == "free"]
    for key in [*keys, *others]:
        use = config.use_of(key)
        if use is None or use.on_resume != "free":
            raise UserError(
                f"--resume goes on with {run} as it was: {key} cannot change, only "
                f"{', '.join(free)} can"
            )
    file = run / "config.yaml"
    if not file.is_file():
        raise UserError(f"--resume {run}: no config.yaml in it; give the directory of a run")
    saved = yaml_layer(file, str(file))
    resolved = config.resolve([saved, *layers])
    schedule = resolved.optim.schedule
    if schedule != "constant" and resolved.steps != config.resolve([saved]).steps:
        raise UserError(
            f"--resume goes on with {run} as it was: steps cannot change with optim.schedule "
            f"{schedule}, which sets the learning rate by the share of all steps"
        )
    return resolved
