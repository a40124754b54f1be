"""Train from Python. The command `rlvr train` calls the same function, with its options."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_cli.cli.resolve import load, load_again, read_flags, say_model_settings
from rlvr_cli.config import Config, flags_of
from rlvr_cli.config.overlay import foreign_answer
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import read_regular, reading
from rlvr_cli.core.jsonl import JsonObject, parse_json
from rlvr_cli.core.libraries import other_verifiers
from rlvr_cli.core.settings import Command
from rlvr_cli.core.types import OnStep
from rlvr_cli.core.versions import known_fault

Sets = Iterable[str] | Mapping[str, Any]
"""Settings by dotted name, or as texts `section.key=value`."""


@dataclass(frozen=True)
class Run:
    """A run in its directory, whose files its properties read."""

    directory: Path

    @property
    def metrics(self) -> list[JsonObject]:
        """Return the metrics of each finished step."""
        from rlvr_cli.runs.run_dir import read_metrics

        return list(read_metrics(self.directory / "metrics.jsonl"))

    @property
    def summary(self) -> JsonObject:
        """Return what summary.json has. Raises UserError if the run has not ended."""
        path = self.directory / "summary.json"
        with reading(path):
            return dict(parse_json(read_regular(path, _LARGEST_SUMMARY)))

    @property
    def before(self) -> JsonObject | None:
        """Return the held-out figures before the first step, or None without held-out problems."""
        return self.summary["before"]

    @property
    def after(self) -> JsonObject | None:
        """Return the held-out figures after the last step, or None without held-out problems."""
        return self.summary["after"]


_LARGEST_SUMMARY = 16 << 20
"""Bytes of a summary.json, which has some figures of each held-out set, at most."""


def train(
    data: Any = None,
    *,
    resume: Path | str | None = None,
    from_: Path | str | None = None,
    check: bool = False,
    out: Path | str | None = None,
    track: Sequence[str] | None = None,
    config: Path | str | None = None,
    set: Sets | None = None,
    on_step: OnStep | None = None,
    show: bool | Display = False,
    **settings: Any,
) -> Run:
    """Train a policy, or go on with the run that `resume` names, and return the run.

    `data` is a source as on the command line, several of them, or the rows themselves: any iterable
    of mappings, read once and up to `limit`. They count as rows from stdin, so the run keeps a copy
    and a resume needs nothing else. `settings` have the names of the command's flags (also `n`),
    `set` has others by dotted name.

    `on_step` gets the metrics of each finished step and its groups, each a list of rows as in
    `rollouts/`. What it raises ends the run, saved, and comes out of this call. With `check` the
    run ends before its first step, and its directory is not made.

    Raises UserError and the other errors with the one line that the command prints.
    """
    _check_installation()
    display = show if isinstance(show, Display) else Display(silent=not show)
    sources, rows = _sources_and_rows(data)
    resolved = train_config(
        {"data": sources, **settings},
        resume=_path(resume),
        from_=_path(from_),
        check=check,
        out=_path(out),
        config=_path(config),
        set=set,
    )
    if resume is None and from_ is None:
        say_model_settings([resolved.model], display)
    # These modules load torch. A mistake in the settings is reported before that.
    from rlvr_cli.cli.train import resume as go_on
    from rlvr_cli.cli.train import start

    trackers = track or ()
    if resume is not None:
        go_on(resolved, Path(resume), display, trackers, on_step)
        return Run(Path(resume))
    directory = start(
        resolved, _path(out), display, trackers, check_only=check, on_step=on_step, rows=rows
    )
    return Run(directory)


def train_config(
    settings: Mapping[str, Any],
    resume: Path | None = None,
    from_: Path | None = None,
    check: bool = False,
    out: Path | None = None,
    config: Path | None = None,
    set: Sets | None = None,
) -> Config:
    """Resolve the options of `train` to a configuration. Raises UserError."""
    flags = _flags(settings, "train")
    if resume is None:
        return load("train", flags, set, config, from_)
    options = {"--config": config, "--out": out, "--check": check, "--from": from_}
    return load_again(resume, flags, set, [name for name, value in options.items() if value])


def _flags(settings: Mapping[str, Any], command: Command) -> dict[str, Any]:
    """Return the settings, named as the command's flags are, by dotted name.

    Raises UserError for a name that no flag has.
    """
    named = dict(settings)
    if "n" in named:
        named["samples"] = named.pop("n")
    for name in named:
        if name not in flags_of(command):
            raise UserError(
                foreign_answer(name)
                or f"{name} is no flag of rlvr {command}, whose --help lists them; give another "
                "setting in set={'section.key': value}"
            )
    return read_flags(named, command)


def _path(path: Path | str | None) -> Path | None:
    return None if path is None else Path(path)


def _check_installation() -> None:
    """Raise UserError if the libraries here cannot be used together, as the command does."""
    obstacle = other_verifiers() or known_fault()
    if obstacle:
        raise UserError(obstacle)


def _sources_and_rows(data: Any) -> tuple[list[str] | None, Iterable[Any] | None]:
    """Return the names of the sources, and the rows if `data` has them itself.

    Such rows are those of the source `-`.
    """
    if data is None:
        return None, None
    if isinstance(data, str | Path):
        return [str(data)], None
    if isinstance(data, list | tuple) and data and all(isinstance(x, str | Path) for x in data):
        return list(map(str, data)), None
    return ["-"], data
