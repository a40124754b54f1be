"""The problems of `rlvr eval` and `rlvr sample`, whoever samples: torch is not needed here."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rlvr_cli.config import Config
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import publish_new, try_file, writing
from rlvr_cli.core.jsonl import JsonObject, jsonl_line
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import Problem
from rlvr_cli.data.problems import ProblemSet, check_problems, joined, load_all
from rlvr_cli.data.sources import FILE_TYPES
from rlvr_cli.evaluation.publish import ReportOptions
from rlvr_cli.evaluation.report import check_fields
from rlvr_cli.evaluation.result_dir import PartialResult

Sets = dict[str | tuple[str, ...], ProblemSet]
"""Problem sets by their source."""


def problem_sets(
    configs: Sequence[Config], options: ReportOptions, rows: Iterable[object] | None
) -> Sets:
    """Return the problems of each source, read once and checked, whatever the limit.

    `rows` take the place of stdin.
    """
    sets: Sets = {}
    for config in configs:
        data = config.data
        largest_k = max(options.ks, default=1)
        if largest_k > config.eval.samples:
            raise UserError(
                f"--k {largest_k}: larger than the {config.eval.samples} samples a problem (-n)"
            )
        if data.source in sets:
            continue
        problems = load_all(data.sources, data.split or "test", data, limit=None, rows=rows)
        check_problems(zip(problems.places, problems.problems, strict=True), repeated=False)
        texts = {(problem.problem, problem.turns) for problem in problems.problems}
        twins = len(problems.problems) - len(texts)
        if twins:
            LOG.warning(
                "%s: %s with the text of another: each counts as a problem of its own, and the "
                "intervals are too narrow",
                problems.name,
                plural(twins, "problem"),
            )
        extras = [problem.extra for problem in problems.problems]
        check_fields(options.by, extras, problems.name)
        sets[data.source] = problems
    return sets


def say_fields(problems: ProblemSet, display: Display) -> None:
    """Say from which fields the problems were read, and warn if there are responses among them."""
    if problems.fields_read:
        display.say(
            "problems",
            f"{len(problems.problems)} of {problems.name}; {problems.fields_read}",
        )
    if {"response", "responses"} & problems.problems[0].extra.keys():
        display.warn(
            f"{problems.name} holds responses, which are not read where a model gives its own: "
            f"rlvr eval --responses {problems.name} judges them"
        )


def say_resumed(partial: PartialResult, problems: int, display: Display) -> None:
    """Say how many of the problems an earlier command has done, and which lines of it are lost."""
    if partial.dropped:
        lines = plural(partial.dropped, "line")
        display.warn(f"{partial.path}: {lines} could not be read; their problems are sampled again")
    if partial.responses_to:
        n_finished = len(partial.responses_to)
        display.say("resumed", f"{n_finished} of {problems} problems are done already")


def write_rows(rows: Iterable[JsonObject], out: Path) -> None:
    """Write the rows of `rlvr sample` to a new file."""
    with writing(f"--out {out}"):
        publish_new(out, "".join(map(jsonl_line, rows)))


def sample_problems(
    config: Config, inputs: Sequence[str], out: Path | None, rows: Iterable[object] | None
) -> ProblemSet:
    """Return the problems of all arguments of `rlvr sample`. Raises UserError if `out` exists."""
    problems = joined([_input(number, text, config, rows) for number, text in enumerate(inputs, 1)])
    if out is not None and out.exists():
        raise UserError(f"--out {out}: it exists already; name another or remove it")
    if out is not None:
        with writing(f"--out {out}"):
            try_file(out)
    return problems


def _input(number: int, text: str, config: Config, rows: Iterable[object] | None) -> ProblemSet:
    """Return the problems of an argument of `rlvr sample`, which is a file, `-`, or a prompt."""
    if text == "-" or text.endswith(FILE_TYPES):
        split = config.data.split or "test"
        return load_all([text], split, config.data, need_answer=False, rows=rows)
    if not text.strip():
        raise UserError("the prompt is empty; give a text, a .jsonl file, or - for stdin")
    problem = Problem(f"prompt-{number}", text, None)
    return ProblemSet("prompt", (problem,), "plain")
