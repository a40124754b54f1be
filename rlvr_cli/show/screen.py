"""Show runs and results in the terminal: side by side, or response by response."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from rich.text import Text

from rlvr_cli.config import flat_settings, run_layer
from rlvr_cli.console.display import Display, measured
from rlvr_cli.console.steps import StepLines, held_out_names, measured_of, points, print_curves
from rlvr_cli.console.tables import Table, cell, in_words, significance
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import plural, printable, shortened
from rlvr_cli.core.types import Response
from rlvr_cli.evaluation.estimators import paired_difference, pass_at_k, pass_estimate
from rlvr_cli.evaluation.figures import JudgedProblem, by_value
from rlvr_cli.evaluation.report import check_fields
from rlvr_cli.runs.stored import count_steps
from rlvr_cli.runs.summary import Summary, read_summary
from rlvr_cli.show.source import Source, StoredGroup, reason

_PROBLEMS = 20
"""The most problems of a result on the screen."""
_ANSWERS = 3
"""The most different answers to a problem on the screen."""


def show_runs(runs: Sequence[Source], display: Display) -> None:
    """Show the curves of runs over each other, the settings in which they differ, and pass@1."""
    curves = [run.curves for run in runs]
    for number, (run, curve) in enumerate(zip(runs, curves, strict=True), 1):
        assert run.config is not None
        history = run.metrics
        figures = [f"{len(history)} of {run.config.steps} steps"]
        for name in held_out_names([curve]):
            label = f"held out {name}".rstrip()
            newest = points(curve, measured_of(name))[-1:]
            figures += [f"{label} {value:.3f} at step {step}" for step, value in newest]
        display.say(
            f"run {number}",
            f"{run.path}: {run.config.algo} on {', '.join(run.config.data.sources)}, "
            f"{', '.join(figures)}",
        )
        unreadable = history[-1].step - len(history) if history else 0
        if unreadable:
            display.warn(f"{run.path}/metrics.jsonl: {plural(unreadable, 'step')} cannot be read")
    if any(curves):
        print_curves(curves, display)
    if len(runs) > 1:
        display.table(settings_table(runs))
    display.table(pass_at_1_table(runs))


def list_runs(paths: Sequence[Path], display: Display) -> None:
    """List runs, a line each: what was trained on what, how far, and pass@1."""
    table: Table = [["run", "algo", "data", "steps", "pass@1", "best"]]
    for path in paths:
        settings = {key: value for key, value, _ in run_layer(path, "show")}
        summary = Summary()
        with suppress(UserError):  # edited by hand
            summary = read_summary(path)
        best = None if summary.best is None else summary.best.pass_at_1
        table.append(
            [
                str(path),
                cell(settings.get("algo")),
                cell(settings.get("data.source")),
                f"{count_steps(path / 'metrics.jsonl')} of {cell(settings.get('steps'))}",
                measured(summary.pass_at_1),
                measured(best),
            ]
        )
    display.table(table, is_result=True)
    display.say("compare", f"some of them, with their curves: rlvr show {paths[0]} …")


def settings_table(runs: Sequence[Source], names: Sequence[str] = ()) -> Table:
    """Tabulate the settings that are not the same in all runs, with a column for each. `names` are
    theirs, by default their numbers. Values that say nothing do not differ."""
    configs = [flat_settings(run.config) for run in runs if run.config]
    lines = []
    for name in dict.fromkeys(name for config in configs for name in config):
        values = [config.get(name) for config in configs]
        said = [value for value in values if value not in ({}, None)]
        if said and len(set(map(str, values))) > 1:
            lines.append([name, *map(cell, values)])
    if not lines:
        lines = [["none", *[""] * len(configs)]]
    columns = names or [f"run {number}" for number in range(1, len(configs) + 1)]
    return [["settings that differ", *columns], *lines]


def short_names(sources: Sequence[Source]) -> list[str]:
    """Return the last part of each source's path, or the paths if some have the same."""
    names = [source.path.resolve().name for source in sources]
    return names if len(set(names)) == len(names) else [str(source.path) for source in sources]


def pass_at_1_table(
    sources: Sequence[Source],
    names: Sequence[str] = (),
    baselines: Sequence[Source | None] | None = None,
    less: str = "less the first",
) -> Table:
    """Tabulate pass@1 of held-out sets with intervals, and its difference from a baseline, which is
    the first source by default. A source without a baseline has none.

    The difference is over the problems that both sources have, told apart by id and text. `names`
    are those of the sources, by default their paths, and `less` that of the difference.
    """
    if baselines is None:
        baselines = [None, *[sources[0]] * (len(sources) - 1)]
    names = names or [str(source.path) for source in sources]
    are_runs = any(source.config for source in sources)
    header = ["pass@1 [95 %]", "problems", "measured"]
    if are_runs:
        header = ["pass@1 [95 %]", "problems", "before training", "measured last"]
    if len(sources) > 1:
        header += [less, "p"]
    table: Table = [header]
    measured_of_source = {id(source): source.held_out() for source in sources}
    for number, (source, name_of_source, baseline) in enumerate(
        zip(sources, names, baselines, strict=True), 1
    ):
        before = source.held_out(before_training=True) if are_runs else {}
        newest = measured_of_source[id(source)]
        for name in newest or before:
            problems = newest.get(name, ())
            count = sum(problem.tally.n > 0 for problem in problems or before.get(name, ()))
            label = f"{name_of_source}: {name}" if name else name_of_source
            line = [f"{number} {label}", str(count)]
            if are_runs:
                line.append(_estimate(before.get(name, ())))
            line.append(f"{_estimate(problems)} {source.newest_moment}".rstrip())
            if baseline is not None:
                other_sets = measured_of_source[id(baseline)]
                line += _difference(problems, _counterpart(name, other_sets), count)
            elif len(sources) > 1:
                line += ["", ""]
            table.append(line)
    return table


def _counterpart(
    name: str, first: Mapping[str, Sequence[JudgedProblem]]
) -> Sequence[JudgedProblem]:
    """Return the first source's set to compare with one of this name.

    A source's only set will do. Of several sets it has the same name or, as `MODEL on DATA`, the
    same data.
    """
    if len(first) == 1:
        return next(iter(first.values()))
    by_data = {label.rpartition(" on ")[2]: problems for label, problems in first.items()}
    return first.get(name) or by_data.get(name.rpartition(" on ")[2], ())


def _difference(
    problems: Sequence[JudgedProblem], baseline: Sequence[JudgedProblem], count: int
) -> list[str]:
    """Format pass@1 less that of a baseline on the same problems, and its p.

    The number of problems is added if it is not the whole `count`.
    """
    tallies = {(problem.id, problem.text): problem.tally for problem in baseline}
    shares: list[float] = []
    baseline_shares: list[float] = []
    for problem in problems:
        tally = problem.tally
        paired = tallies.get((problem.id, problem.text))
        if paired is not None and tally.n and paired.n:
            shares.append(pass_at_k(tally.n, tally.correct, 1))
            baseline_shares.append(pass_at_k(paired.n, paired.correct, 1))
    if not shares:
        return ["no problem in common", "-"]
    estimate = paired_difference(shares, baseline_shares)
    low, high = estimate.interval
    difference = f"{estimate.value:+.3f} [{low:.3f}, {high:.3f}]"
    if len(shares) < count:
        difference += f" of {len(shares)}"
    return [difference, significance(estimate.p)]


def _estimate(problems: Sequence[JudgedProblem]) -> str:
    return in_words(pass_estimate([problem.tally for problem in problems], 1))


def show_results(results: Sequence[Source], by: Sequence[str], display: Display) -> None:
    """Show pass@1 of results, also by each field in `by`, and their problems, wrong ones first."""
    sets = {}
    for result in results:
        for name, problems in result.held_out().items():
            sets[f"{result.path}: {name}" if name else str(result.path)] = problems
    for name, problems in sets.items():
        check_fields(by, [problem.responses[0].problem.extra for problem in problems], name)
    display.table(pass_at_1_table(results))
    for name, problems in sets.items():
        suffix = f" of {name}" if len(sets) > 1 else ""
        for field in by:
            table = [[cell(field) + suffix, "problems", "pass@1 [95 %]"]]
            for value, part in by_value(problems, field).items():
                table.append([value, str(len(part)), _estimate(part)])
            display.table(table)
        _show_problems(problems, suffix, display)


def _show_problems(problems: Sequence[JudgedProblem], suffix: str, display: Display) -> None:
    """Show the answers to the problems of a set, those with the fewest right answers first."""
    table = [[f"wrong ones first{suffix}", "right", "gold", "answers"]]
    ordered = sorted(problems, key=lambda p: p.tally.correct / max(1, p.tally.n))
    for problem in ordered[:_PROBLEMS]:
        right = f"{problem.tally.correct} of {problem.tally.n}"
        counter = Counter(
            str(response.extracted or response.verdict) for response in problem.responses
        )
        answers = [f"{count} x {text}" for text, count in counter.most_common(_ANSWERS)]
        if len(counter) > _ANSWERS:
            answers.append("…")
        gold = cell(problem.gold)
        table.append([cell(problem.id), right, gold, cell(", ".join(answers))])
    display.table(table)
    if len(ordered) > _PROBLEMS:
        display.say("", f"and {len(ordered) - _PROBLEMS} more problems; --problem ID shows one")


def show_responses(
    source: Source,
    step: int | None,
    number: int | None,
    problem: str | None,
    verdict: str | None,
    display: Display,
) -> None:
    """Show the responses to a problem, of a group number and with a verdict, group by group.

    None means any. Raises UserError if no response fits.
    """
    ids: dict[str, None] = {}  # a set that keeps the order
    has_shown = False
    for group in source.groups(step):
        identity = group.problem.id
        ids[identity] = None
        responses = [
            response for response in group.responses if verdict in (None, response.verdict)
        ]
        if responses and number in (None, group.number) and problem in (None, identity):
            has_shown = True
            _show_group(group, responses, display)
    if not has_shown:
        options = {"--group": number, "--problem": problem, "--verdict": verdict, "--step": step}
        words = ", ".join(f"{name} {value}" for name, value in options.items() if value is not None)
        examples = ", ".join(map(shortened, islice(ids, 3)))
        hint = f"; problems are such as {examples}" if problem else ""
        raise UserError(f"{source.path}: no response with {words}{hint}")


def _show_group(group: StoredGroup, responses: Sequence[Response], display: Display) -> None:
    """Show the problem of a group, and these of its responses."""
    problem = group.problem
    place = f"step {group.step}, group {group.number}: " if group.config else ""
    if group.result:
        place += f"{shortened(group.result)}: "
    count = f"{group.right} of {plural(len(group.members), 'response')} right"
    if group.config:
        count += f", {group.fate}"
    head = f"{place}{shortened(problem.id)}, gold {cell(problem.answer)}; {count}"
    display.lines([head], "bold")
    display.lines([truncate(problem.problem or "None"), ""])
    digits = telling_digits([score.reward for score in group.scores.values()])
    for response in responses:
        parts = [f"sample {response.sample}  {response.verdict}: {reason(response)}"]
        if response.sample in group.scores:
            score = group.scores[response.sample]
            parts.append(f"reward {score.reward:+.{digits}f}")
            if score.advantage is not None:
                parts.append(f"advantage {score.advantage:+.3f}")
        if response.n_tokens is not None:
            parts.append(plural(response.n_tokens, "token"))
        if response.is_cut_off:
            parts.append("cut off")
        if response.versions:
            runs = [f"{version} ({tokens})" for version, tokens in response.versions]
            parts.append(f"weights {', '.join(runs)}")
        display.lines([", ".join(parts)], "green" if response.is_correct else "cyan")
        display.console.print(thought_dimmed(truncate(response.text)))
        display.lines([""])


def telling_digits(values: Sequence[float]) -> int:
    """Return how many decimals, at least two, tell apart values that differ in nine decimals."""
    count = len({round(value, 9) for value in values})
    for digits in range(2, 9):
        if len({round(value, digits) for value in values}) == count:
            return digits
    return 9


def thought_dimmed(response: str) -> Text:
    """Return a response as text that no terminal obeys, with its thought dimmed."""
    thought, end, answer = response.rpartition("</think>")
    return Text.assemble((printable(thought + end), "dim"), printable(answer))


def follow(runs: Sequence[Source], display: Display) -> None:
    """Show runs again as steps come, until all have ended. A pipe gets a line per step."""
    shown_steps = [0] * len(runs)
    shown_state = None
    lines = [StepLines(display, run.config.steps, True) for run in runs if run.config]
    while True:
        has_ended = all((run.path / "summary.json").exists() for run in runs)
        sizes = [_size(run.path / "metrics.jsonl") for run in runs]
        if shown_state != (sizes, has_ended):  # the last measurement comes after the last step
            shown_state = sizes, has_ended
            if display.console.is_terminal:
                display.console.clear()
                show_runs(runs, display)
            else:
                histories = [run.metrics for run in runs]
                for history, start, steps in zip(histories, shown_steps, lines, strict=True):
                    for figures in history[start:]:
                        steps.show(figures, False)
                shown_steps = [len(history) for history in histories]
        if has_ended:
            return
        time.sleep(1.0)


def _size(file: Path) -> int:
    """Return the bytes of a file, 0 if it does not exist."""
    return file.stat().st_size if file.exists() else 0


def truncate(text: str, limit: int = 20_000) -> str:
    """Return the first `limit` characters of a text, and how many it has if that is not all."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters in all)"
