"""From what the command line says to a configuration.

Imports stay inside the functions: help needs none of them.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlvr_cli.config import Layer
    from rlvr_cli.console.display import Display

READ_BY_EVAL = (
    *("seed", "threads", "model", "engine", "rollout.max_tokens", "rollout.kv_budget_mb"),
    *("rollout.gpu_share", "rollout.seeded"),
    *("data.source", "data.split", "data.limit", "data.skip_bad", "data.prompt"),
    *("data.verifier", "data.root"),
    *("eval.samples", "eval.temperature", "eval.top_p"),
)
READ_BY_RESPONSES = ("data.limit", "data.skip_bad", "data.verifier")
"""What `rlvr eval --responses` reads."""
KEPT = "what was sampled is kept in {}; give the same command again to go on"
NOTHING_KEPT = "nothing is kept; rlvr eval with --out DIR keeps what was sampled"


def shared_flags(
    data: str | None,
    model: str | None,
    engine: str | None,
    max_tokens: int | None,
    limit: int | None,
    skip_bad: bool,
    seed: int | None,
) -> dict[str, Any]:
    return {
        "data.source": data,
        "model": model,
        "engine": engine,
        "rollout.max_tokens": max_tokens,
        "data.limit": limit,
        "data.skip_bad": skip_bad or None,
        "seed": seed,
    }


def eval_flags(
    model: str | None,
    engine: str | None,
    samples: int | None,
    max_tokens: int | None,
    temperature: float | None,
    top_p: float | None,
    limit: int | None,
    skip_bad: bool,
    seed: int | None,
) -> dict[str, Any]:
    return {
        "eval.samples": samples,
        "eval.temperature": temperature,
        "eval.top_p": top_p,
        **shared_flags(None, model, engine, max_tokens, limit, skip_bad, seed),
    }


def resolve(
    flags: dict[str, Any],
    file: Path | None,
    assignments: list[str] | None,
    reads: Any,
    own_defaults: bool = True,
) -> Any:
    """The configuration from, in rising order: the model's own file, --config, flags, --set.

    Raises UserError for a flag or an assignment that is not among the keys that the command reads.
    """
    from rlvr_cli import config
    from rlvr_cli.core.errors import UserError

    layers = [config.yaml_layer(file)] if file else []
    flags = {key: value for key, value in flags.items() if value is not None}
    given = [(config.flag_layer(key, value), key) for key, value in flags.items()]
    for layer in config.set_layer(assignments or []):
        given.append((layer, layer.origin.removeprefix("--set ").partition("=")[0].strip()))
    layers += [layer for layer, _ in given]
    resolved = config.resolve(layers)
    for layer, key in given:
        if reads is not None and key not in reads:
            at_all = key in READ_BY_EVAL
            who = f"--responses does not read {key}" if at_all else f"only rlvr train reads {key}"
            raise UserError(f"{layer.origin}: {who}")
    if not own_defaults:
        return resolved
    own, _ = _own_settings(resolved.model)
    return config.resolve([own, *layers])


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
                f"{', '.join(OF_A_MODEL)} are, and of data only prompt and verifier"
            )


def _own_settings(model: str) -> tuple["Layer", list[str]]:
    """The settings in the model's directory, and the names of those that are not read.

    Only the built-in policy's file may say anything. Raises UserError for a prompt in another file.
    """
    from rlvr_cli import config
    from rlvr_cli.core.errors import UserError
    from rlvr_cli.data.prompts import TEMPLATES, is_kept_template
    from rlvr_cli.model.loading import DEFAULTS_FILE, TINY, model_directory

    file = Path(model_directory(model)) / DEFAULTS_FILE
    if not file.is_file():
        return config.Layer(str(file), {}), []
    layer = config.yaml_layer(file, str(file))
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
    """The settings of a layer that a checkpoint may keep, and the names of the others."""
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
    """The judge. Raises UserError for one that is not there, or an answer format beside another
    than ours, which takes any."""
    from rlvr_cli.core.errors import UserError
    from rlvr_cli.evaluation.fingerprint import judge_versions
    from verifiers import OURS

    judge_versions(judge)
    keys = [text.partition("=")[0].strip() for text in assignments or []]
    if judge != OURS and "data.verifier" in keys:
        raise UserError(f"--judge {judge} takes answers of any form; leave data.verifier out")
    return judge


_CHANGED_BY_RESUME = ("steps", "checkpoint.", "guards.")


def resolve_again(run: Path, flags: dict[str, Any], assignments: list[str] | None) -> Any:
    """The run's own configuration; what it computes can only be made longer, not changed.

    Raises UserError for a setting that would change it.
    """
    from rlvr_cli import config
    from rlvr_cli.core.errors import UserError

    given = {key: value for key, value in flags.items() if value is not None}
    keys = [*given, *(text.partition("=")[0].strip() for text in assignments or [])]
    for key in keys:
        if not key.startswith(_CHANGED_BY_RESUME):
            raise UserError(
                f"--resume goes on with {run} as it was: {key} cannot change, only --steps and "
                "--set checkpoint.… or guards.… can"
            )
    file = run / "config.yaml"
    if not file.is_file():
        raise UserError(f"--resume {run}: no config.yaml in it; give the directory of a run")
    saved = config.yaml_layer(file, str(file))
    layers = [saved, *(config.flag_layer(key, value) for key, value in given.items())]
    resolved = config.resolve([*layers, *config.set_layer(assignments or [])])
    schedule = resolved.optim.schedule
    if schedule != "constant" and resolved.steps != config.resolve([saved]).steps:
        raise UserError(
            f"--resume goes on with {run} as it was: steps cannot change with optim.schedule "
            f"{schedule}, which sets the learning rate by the share of all steps"
        )
    return resolved
