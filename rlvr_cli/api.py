"""Train, evaluate and sample from Python. The commands call the same functions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_cli.algorithm.reward import OBJECT, RewardObjects
from rlvr_cli.config import Config, Sets, flags_of
from rlvr_cli.config.built_in import canonical
from rlvr_cli.config.foreign import foreign_answer
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import read_regular, reading
from rlvr_cli.core.jsonl import JsonObject, parse_json
from rlvr_cli.core.libraries import ignore_idle_warnings, other_verifiers
from rlvr_cli.core.settings import Command
from rlvr_cli.core.types import OnStep
from rlvr_cli.core.versions import known_fault
from rlvr_cli.program.problems import sample_problems, write_rows
from rlvr_cli.program.resolve import load, load_again, read_flags, say_model_settings

File = Path | str | None
"""A path, or None without a file."""
Names = str | Path | Iterable[str | Path]
Numbers = int | str | Iterable[int | str]
Data = Names | Iterable[Mapping[str, object]]
"""Problem sets by their names, one or several, or the rows themselves, which are read once."""
RewardFunction = Callable[..., object]
RewardTerm = str | RewardFunction | tuple[str | RewardFunction, float]
Rewards = RewardTerm | Sequence[RewardTerm]
"""Rewards as the command has them, and function objects, alone or with a weight."""
FlagValue = str | Path | float | Iterable[object] | None
"""The value of a flag, as a number or as the command's text."""
_LARGEST_SUMMARY = 16 << 20
"""Bytes of a summary.json, which has some figures of each held-out set, at most."""


@dataclass(frozen=True)
class Run:
    """A run in its directory, whose files its properties read."""

    directory: Path

    def __post_init__(self) -> None:
        """Take a text as a path."""
        object.__setattr__(self, "directory", Path(self.directory))

    @property
    def metrics(self) -> list[JsonObject]:
        """Return the metrics of each finished step."""
        from rlvr_cli.runs.stored import read_steps

        return [figures.row for figures in read_steps(self.directory / "metrics.jsonl")]

    @property
    def summary(self) -> JsonObject:
        """Return what summary.json has. Raises UserError before the end of the run."""
        path = self.directory / "summary.json"
        with reading(path):
            return dict(parse_json(read_regular(path, _LARGEST_SUMMARY)))

    @property
    def before(self) -> JsonObject | None:
        """Return the held-out figures before the first step, or None without held-out problems."""
        figures: JsonObject | None = self.summary["before"]
        return figures

    @property
    def after(self) -> JsonObject | None:
        """Return the held-out figures after the last step, or None without held-out problems."""
        figures: JsonObject | None = self.summary["after"]
        return figures

    def evaluate(self, data: Data | None = None, **options: Any) -> JsonObject:
        """Measure the trained policy (`evaluate`), by default on the set that its settings name."""
        return evaluate(data, model=self.directory, **options)

    def sample(self, inputs: Data, **options: Any) -> list[JsonObject]:
        """Sample the trained policy (`sample`)."""
        return sample(inputs, model=self.directory, **options)


def train(
    data: Data | None = None,
    *,
    reward: Rewards | None = None,
    resume: File = None,
    from_: File = None,
    check: bool = False,
    out: File = None,
    track: Sequence[str] | None = None,
    config: File = None,
    set: Sets | None = None,
    on_step: OnStep | None = None,
    show: bool | Display = False,
    **settings: FlagValue,
) -> Run:
    """Train a policy, or go on with the run that `resume` names, and return the run.

    `data` is a source as on the command line, several of them, or the rows themselves: any iterable
    of dicts, read once and up to `limit`. They count as rows from stdin, so the run keeps a copy
    and a resume needs nothing else. `settings` have the names of the command's flags (also `n`),
    `set` has others by dotted name. `reward` also takes function objects, and pairs of one with its
    weight: they run in this process without limits, and a resume needs the same.

    `on_step` gets the metrics of each finished step and its groups, each a list of rows as in
    `rollouts/`. What it raises ends the run, saved, and comes out of this call. With `check` the
    run ends before its first step, and its directory is not made.

    Raises UserError and the other errors with the one line that the command prints.
    """
    _check_installation()
    display = _display(show)
    sources, rows = _sources_and_rows(data)
    rewards, objects = _rewards(reward)
    resolved = train_config(
        {"data": sources, "reward": rewards, **settings},
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
    from rlvr_cli.program.train import resume as go_on
    from rlvr_cli.program.train import start_run

    trackers = track or ()
    if resume is not None:
        go_on(resolved, Path(resume), display, trackers, on_step, objects)
        return Run(Path(resume))
    directory = start_run(
        resolved,
        _path(out),
        display,
        trackers,
        check_only=check,
        on_step=on_step,
        rows=rows,
        objects=objects,
    )
    return Run(directory)


def train_config(
    settings: Mapping[str, FlagValue],
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


def evaluate(
    data: Data | None = None,
    *,
    model: Names | None = None,
    responses: Data | None = None,
    against: File = None,
    by: Names | None = None,
    k: Numbers | None = None,
    pairs: str = "first",
    judge: str = "rlvr",
    format: str | None = None,
    out: File = None,
    config: File = None,
    set: Sets | None = None,
    show: bool | Display = False,
    **settings: FlagValue,
) -> JsonObject:
    """Measure models on problems as `rlvr eval` does, and return the report with all rows.

    `data` and `settings` are as in `train`, but rows are read to their end, whatever `limit` is.
    `data`, `model`, `by` and `k` may be one or several. `responses` are files of responses made
    elsewhere, each `FILE` or `NAME=FILE`, or such rows themselves, which are judged in place of a
    model's. `pairs` is `first` or `all`.
    The report is that of `report.json`, and each of its results also has its `rows`. With `format`
    "csv", "json" and so on the figures go to stdout, and with `show` their table to stderr.
    Raises the errors that `train` does.
    """
    _check_installation()
    from rlvr_cli.evaluation.publish import report_options

    options = report_options(
        k=_texts(k),
        by=_texts(by),
        against=_path(against),
        out=_path(out),
        judge=judge,
        format=format,
        assignments=set or (),
        is_command=isinstance(show, Display),
        pairs=pairs,
    )
    flags = _flags(settings, "eval")
    display = _display(show)
    if responses is not None:
        golds, _ = _sources_and_rows(data)
        if model or len(golds or ()) > 1:
            raise UserError(
                "--responses judges what is in its files; leave --model out, and give at most one "
                "problem set, which has their gold answers"
            )
        from rlvr_cli.program.recorded import score

        config_of_responses = load("responses", flags, set, _path(config))
        files, rows = _sources_and_rows(responses)
        return score(config_of_responses, files or (), golds or (), options, display, rows)
    names, rows = _sources_and_rows(data)
    models = [{"model": name} for name in dict.fromkeys(_texts(model))]
    sources = [{"data.source": name} for name in dict.fromkeys(map(canonical, names or ()))]
    configs = [
        load("eval", {**flags, **model_flag, **data_flag}, set, _path(config))
        for model_flag in models or [{}]
        for data_flag in sources or [{}]
    ]
    if configs[0].server.endpoint is None:
        say_model_settings([config.model for config in configs], display)
    from rlvr_cli.program.eval import evaluate_models

    return evaluate_models(configs, options, display, rows)


def sample(
    inputs: Data | None,
    *,
    out: File = None,
    config: File = None,
    set: Sets | None = None,
    show: bool | Display = False,
    is_live: bool = False,
    **settings: FlagValue,
) -> list[JsonObject]:
    """Answer prompts as `rlvr sample` does, and return a row for each response.

    `inputs` are texts and files of problems, one or several, or rows as in `train`. With `is_live`
    the responses are shown on the terminal instead. Raises the errors that `train` does.
    """
    _check_installation()
    texts, rows = _sources_and_rows(inputs)
    if not texts:
        raise UserError("sample: give a prompt, a .jsonl file, or - for stdin")
    flags = {"eval.samples": 1, **_flags(settings, "sample")}
    resolved = load("sample", flags, set, _path(config))
    display = _display(show)
    file = _path(out)
    problems = sample_problems(resolved, texts, file, rows)
    if resolved.server.endpoint is None:
        say_model_settings([resolved.model], display)
    from rlvr_cli.data.rows import as_row
    from rlvr_cli.program.eval import responder_of

    responses = responder_of(resolved).sample(resolved, problems, display, is_live)
    sampled = [as_row(response) for response in responses]
    if file is not None:
        write_rows(sampled, file)
    return sampled


def _flags(settings: Mapping[str, FlagValue], command: Command) -> dict[str, object]:
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


def _display(show: bool | Display) -> Display:
    return show if isinstance(show, Display) else Display(silent=not show)


def _texts(values: Names | Numbers | None) -> list[str]:
    """Return the texts of one value or of several."""
    if values is None:
        return []
    if isinstance(values, str | Path | int | float):
        return [str(values)]
    return list(map(str, values))


def _path(path: File) -> Path | None:
    return None if path is None else Path(path)


def _check_installation() -> None:
    """Raise UserError if the libraries here cannot be used together, as the command does."""
    ignore_idle_warnings()
    obstacle = other_verifiers() or known_fault()
    if obstacle:
        raise UserError(obstacle)


def _sources_and_rows(data: Data | None) -> tuple[list[str] | None, Iterable[object] | None]:
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


def _rewards(rewards_or_one: Rewards | None) -> tuple[FlagValue, RewardObjects]:
    """Return the rewards with a text for each function object, and these objects by name."""
    if callable(rewards_or_one):
        rewards_or_one = [rewards_or_one]
    if not isinstance(rewards_or_one, list | tuple):
        return rewards_or_one, {}
    rewards = []
    objects = {}
    for reward in rewards_or_one:
        match reward:
            case [function, weight]:
                ending = f":{weight}"
            case function:
                ending = ""
        if not callable(function):
            rewards.append(reward)
            continue
        name = getattr(function, "__name__", type(function).__name__)
        objects[name] = function
        rewards.append(f"{OBJECT}{name}{ending}")
    return rewards, objects
