"""From what the command line says to a configuration; errors and ends as exit codes.

Imports stay inside the functions: help needs none of them.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer

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
    from rlvr_cli.core.types import UserError
    from rlvr_cli.model.loading import DEFAULTS_FILE, model_directory

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
    defaults = Path(model_directory(resolved.model)) / DEFAULTS_FILE
    if defaults.is_file():
        layers = [config.yaml_layer(defaults, str(defaults)), *layers]
    return config.resolve(layers)


_CHANGED_BY_RESUME = ("steps", "checkpoint.", "guards.")


def resolve_again(run: Path, flags: dict[str, Any], assignments: list[str] | None) -> Any:
    """The run's own configuration; what it computes can only be made longer, not changed.

    Raises UserError for a setting that would change it.
    """
    from rlvr_cli import config
    from rlvr_cli.core.types import UserError

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


@contextmanager
def reported_errors(interrupted: str = "") -> Iterator[None]:
    """One line and exit code 2 for a mistake of the user's; a quiet end for a pipe.

    Ctrl-C and SIGTERM end it with what the KeyboardInterrupt says, else with `interrupted`.
    """
    from rlvr_cli.core.signals import Interrupts
    from rlvr_cli.core.types import RunStoppedError, UserError

    try:
        with Interrupts() as interrupts, interrupts.welcome():
            yield
            sys.stdout.flush()
    except (UserError, RunStoppedError) as error:
        from rlvr_cli.console.display import fail

        fail(str(error))
        raise typer.Exit(3 if isinstance(error, RunStoppedError) else 2) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(141) from None
    except OSError as error:
        from rlvr_cli.console.display import fail

        fail(f"{error.filename or 'output'}: {error.strerror or error}")
        with suppress(OSError):  # what stdout still holds cannot be written at the end either
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(2) from None
    except KeyboardInterrupt as error:
        if note := str(error) or interrupted:
            print(f"rlvr: interrupted; {note}", file=sys.stderr)
        raise typer.Exit(130) from None
