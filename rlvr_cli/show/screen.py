"""Show runs and results in the terminal: side by side, or response by response."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from rich.text import Text

from rlvr_cli.console.display import Display
from rlvr_cli.console.steps import StepLines, measured_of, measured_sets, print_curves
from rlvr_cli.console.tables import Table, cell, in_words, significance
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.settings import leaves
from rlvr_cli.core.step_figures import values_of
from rlvr_cli.core.text import plural, printable, shortened
from rlvr_cli.data.rows import ResponseRow
from rlvr_cli.evaluation.estimators import paired_difference, pass_at_k, pass_estimate
from rlvr_cli.evaluation.report import JudgedProblem, by_value, check_fields
from rlvr_cli.show.source import Source, StoredGroup, reason

_PROBLEMS, _ANSWERS = 20, 3
"""The most problems of a result on the screen, and the most different answers to one."""


def show_runs(runs: Sequence[Source], display: Display) -> None:
    """Show the curves of runs over each other, the settings in which they differ, and pass@1."""
    histories = [run.metrics for run in runs]
    for number, (run, history) in enumerate(zip(runs, histories, strict=True), 1):
        assert run.config is not None
        figures = [f"{len(history)} of {run.config.steps} steps"]
        for name in measured_sets([history]):
            label = f"held out {name}".rstrip()
            values = values_of(history, measured_of(name))
            figures += [f"{label} {value:.3f}" for value in values[-1:]]
        display.say(
            f"run {number}",
            f"{run.path}: {run.config.algo} on {', '.join(run.config.data.sources)}, "
            f"{', '.join(figures)}",
        )
        unreadable = history[-1].step - len(history) if history else 0
        if unreadable:
            display.warn(f"{run.path}/metrics.jsonl: {plural(unreadable, 'step')} cannot be read")
    if any(histories):
        print_curves(histories, display)
    if len(runs) > 1:
        display.table(differing(runs))
    display.table(pass_at_1(runs))


def differing(runs: Sequence[Source]) -> Table:
    """Tabulate the settings that are not the same in all runs."""
    configs = [dict(leaves(run.config.model_dump(mode="json"))) for run in runs if run.config]
    lines = []
    for name in dict.fromkeys(name for config in configs for name in config):
        values = [config.get(name) for config in configs]
        if len(set(map(str, values))) > 1:
            lines.append([name, *map(cell, values)])
    header = ["settings that differ", *(f"run {number}" for number in range(1, len(configs) + 1))]
    return [header, *(lines or [["none", *[""] * len(configs)]])]


def pass_at_1(sources: Sequence[Source]) -> Table:
    """Tabulate pass@1 of held-out sets with intervals, and its difference from the first source.

    The difference is over the problems that both sources have, told apart by id and text.
    """
    lines = []
    first = sources[0].held_out()
    for number, source in enumerate(sources, 1):
        before = source.held_out(before_training=True) if source.config else {}
        newest = source.held_out()
        for name in newest or before:
            problems = newest.get(name, ())
            count = sum(problem.tally.n > 0 for problem in problems or before.get(name, ()))
            line = [f"{number} {source.path}" + (f": {name}" if name else ""), str(count)]
            line += [_estimate(before.get(name, ())), _estimate(problems)]
            if number == 1:
                line += ["", ""]
            else:
                line += _difference(problems, _counterpart(name, first), count)
            lines.append(line)
    are_runs = any(source.config for source in sources)
    header = ["pass@1 [95 %]", "problems", "before training"]
    header += ["measured last" if are_runs else "measured", "less the first", "p"]
    columns = [0, 1, *([2] if are_runs else []), 3, *([4, 5] if len(sources) > 1 else [])]
    return [[line[column] for column in columns] for line in (header, *lines)]


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
    tallies = {(p.id, p.rows[0]["problem"]): p.tally for p in baseline}
    shares: list[float] = []
    baseline_shares: list[float] = []
    for problem in problems:
        tally = problem.tally
        paired = tallies.get((problem.id, problem.rows[0]["problem"]))
        if paired is not None and tally.n and paired.n:
            shares.append(pass_at_k(tally.n, tally.correct, 1))
            baseline_shares.append(pass_at_k(paired.n, paired.correct, 1))
    if not shares:
        return ["no problem in common", "-"]
    estimate = paired_difference(shares, baseline_shares)
    low, high = estimate["interval"]
    difference = f"{estimate['value']:+.3f} [{low:.3f}, {high:.3f}]"
    if len(shares) < count:
        difference += f" of {len(shares)}"
    return [difference, significance(estimate["p"])]


def _estimate(problems: Sequence[JudgedProblem]) -> str:
    return in_words(pass_estimate([problem.tally for problem in problems], 1))


def show_results(results: Sequence[Source], by: Sequence[str], display: Display) -> None:
    """Show pass@1 of results, also by each field in `by`, and their problems, wrong ones first."""
    sets = {}
    for result in results:
        for name, problems in result.held_out().items():
            sets[f"{result.path}: {name}" if name else str(result.path)] = problems
    for name, problems in sets.items():
        check_fields(by, [problem.rows[0] for problem in problems], name)
    display.table(pass_at_1(results))
    for name, problems in sets.items():
        suffix = f" of {name}" if len(sets) > 1 else ""
        for field in by:
            parts = by_value(problems, field).items()
            lines = [[value, str(len(part)), _estimate(part)] for value, part in parts]
            display.table([[cell(field) + suffix, "problems", "pass@1 [95 %]"], *lines])
        lines = [[f"wrong ones first{suffix}", "right", "gold", "answers"]]
        ordered = sorted(problems, key=lambda p: p.tally.correct / max(1, p.tally.n))
        for problem in ordered[:_PROBLEMS]:
            right = f"{problem.tally.correct} of {problem.tally.n}"
            counter = Counter(str(row["extracted"] or row["verdict"]) for row in problem.rows)
            answers = [f"{count} x {text}" for text, count in counter.most_common(_ANSWERS)]
            if len(counter) > _ANSWERS:
                answers.append("…")
            gold = cell(problem.rows[0]["answer"])
            lines.append([cell(problem.id), right, gold, cell(", ".join(answers))])
        display.table(lines)
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
        first = group.rows[0]
        ids[first["id"]] = None
        rows = [row for row in group.rows if verdict in (None, row["verdict"])]
        if rows and number in (None, group.number) and problem in (None, first["id"]):
            has_shown = True
            _show_group(group, rows, display)
    if not has_shown:
        options = {"--group": number, "--problem": problem, "--verdict": verdict, "--step": step}
        words = ", ".join(f"{name} {value}" for name, value in options.items() if value is not None)
        examples = ", ".join(map(shortened, islice(ids, 3)))
        hint = f"; problems are such as {examples}" if problem else ""
        raise UserError(f"{source.path}: no response with {words}{hint}")


def _show_group(group: StoredGroup, rows: Sequence[ResponseRow], display: Display) -> None:
    """Show the problem of a group, and these of its responses."""
    first = group.rows[0]
    place = f"step {group.step}, group {group.number}: " if group.config else ""
    if group.result:
        place += f"{shortened(group.result)}: "
    count = f"{group.right} of {plural(len(group.rows), 'response')} right"
    if group.config:
        count += f", {group.fate}"
    head = f"{place}{shortened(first['id'])}, gold {cell(first['answer'])}; {count}"
    display.lines([head], "bold")
    display.lines([truncate(str(first["problem"])), ""])
    digits = telling_digits([score.reward for score in group.scores.values()])
    for row in rows:
        parts = [f"sample {row['sample']}  {row['verdict']}: {reason(row)}"]
        if row["sample"] in group.scores:
            score = group.scores[row["sample"]]
            parts.append(f"reward {score.reward:+.{digits}f}")
            if score.advantage is not None:
                parts.append(f"advantage {score.advantage:+.3f}")
        if row["n_tokens"] is not None:
            parts.append(plural(row["n_tokens"], "token"))
        if row["finish_reason"] == "length":
            parts.append("cut off")
        display.lines([", ".join(parts)], "green" if row["verdict"] == "correct" else "cyan")
        display.console.print(thought_dimmed(truncate(row["response"])))
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
        files = [run.path / "metrics.jsonl" for run in runs]
        sizes = [file.stat().st_size if file.exists() else 0 for file in files]
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


def truncate(text: str, limit: int = 20_000) -> str:
    """Return the first `limit` characters of a text, and how many it has if that is not all."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters in all)"
