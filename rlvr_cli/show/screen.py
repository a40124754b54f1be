"""Show runs and results in the terminal: beside one another, or response by response."""

import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from rich.text import Text

from rlvr_cli.console.curves import MEASURED, measured_sets, points
from rlvr_cli.console.display import Display
from rlvr_cli.console.steps import StepLines
from rlvr_cli.console.tables import cell, shown, significance
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.settings import leaves
from rlvr_cli.core.text import plural, printable, shortened
from rlvr_cli.data.rows import ResponseRow
from rlvr_cli.evaluation.estimators import paired_difference, pass_at_k
from rlvr_cli.evaluation.report import JudgedProblem, by_value, check_fields, figures
from rlvr_cli.show.source import ShownGroup, Source, as_trained, reason, trained

_LONGEST_TEXT = 20_000
"""Characters of a response on the screen."""
_SHOWN, _ANSWERS, _REDRAWN_S = 20, 3, 1.0


def show_runs(runs: Sequence[Source], display: Display) -> None:
    """Show the curves of runs over each other, their settings that differ, and pass@1."""
    histories = [run.metrics for run in runs]
    for number, (run, history) in enumerate(zip(runs, histories, strict=True), 1):
        assert run.config is not None
        measured = [
            f"{key.replace(MEASURED, 'held out').replace('/', ' ')} {value:.3f}"
            for key in measured_sets([history])
            for _, value in points(history, key)[-1:]
        ]
        done = [f"{len(history)} of {run.config.steps} steps", *measured]
        sources = ", ".join(run.config.data.sources)
        display.say(
            f"run {number}", f"{run.name}: {run.config.algo} on {sources}, {', '.join(done)}"
        )
        if history and (lost := history[-1]["step"] - len(history)):
            display.warn(f"{run.path}/metrics.jsonl: {plural(lost, 'step')} cannot be read")
    if any(histories):
        display.print_curves(histories)
    if len(runs) > 1:
        display.table(differing(runs))
    display.table(pass_at_1(runs))


def differing(runs: Sequence[Source]) -> list[list[str]]:
    """Return the settings that are not the same in all runs, below a header."""
    flat = [dict(leaves(run.config.model_dump(mode="json"))) for run in runs if run.config]
    keys = dict.fromkeys(key for one in flat for key in one)
    cells = [[key, *(cell(one.get(key)) for one in flat)] for key in keys]
    listed = [line for line in cells if len(set(line[1:])) > 1]
    header = ["settings that differ", *(f"run {number}" for number in range(1, len(flat) + 1))]
    return [header, *(listed or [["none", *[""] * len(flat)]])]


def pass_at_1(sources: Sequence[Source]) -> list[list[str]]:
    """Return pass@1 of held-out sets with intervals, paired with the first source; a header."""
    lines, first = [], sources[0].held_out()
    for number, source in enumerate(sources, 1):
        before = source.held_out("before") if source.config else {}
        for name, now in source.held_out().items():
            of_set = f": {name}" if name else ""
            cells = [f"{number} {source.name}{of_set}", str(len(now))]
            cells += [_estimate(before.get(name, ())), _estimate(now)]
            base = first.get(name, next(iter(first.values())) if len(first) == 1 else ())
            lines.append(cells + (_paired(now, base) if number > 1 else ["", ""]))
    header = ["pass@1 [95 %]", "problems", "before training", "measured last", "less the first"]
    whole = [[*header, "p"], *lines]
    if not any(source.config for source in sources):
        whole = [[*line[:2], *line[3:]] for line in whole]
        whole[0][2] = "measured"
    return whole if len(sources) > 1 else [line[:-2] for line in whole]


def _estimate(problems: Sequence[JudgedProblem]) -> str:
    return shown(figures(problems, [1])["pass@k"]["1"]) if problems else "-"


def _paired(ours: Sequence[JudgedProblem], theirs: Sequence[JudgedProblem]) -> list[str]:
    """Compare two measurements on the problems that both have, told apart by id and text."""
    known = {(p.id, p.rows[0]["problem"]): p.tally for p in theirs}
    pairs = [(p.tally, known.get((p.id, p.rows[0]["problem"]))) for p in ours]
    both = [(a, b) for a, b in pairs if b is not None and a.n and b.n]
    if not both:
        return ["no problem in common", "-"]
    left, right = ([pass_at_k(t.n, t.correct, 1) for t in side] for side in zip(*both, strict=True))
    found = paired_difference(left, right)
    low, high = found["interval"]
    return [f"{found['value']:+.3f} [{low:.3f}, {high:.3f}]", significance(found["p"])]


def show_results(results: Sequence[Source], by: Sequence[str], display: Display) -> None:
    """Show pass@1 of results, by fields where asked for, and their problems, wrong ones first."""
    listed: dict[str, tuple[JudgedProblem, ...]] = {}
    for result in results:
        found = result.held_out()
        if not found:
            raise UserError(f"show {result.path}: no responses in it")
        listed |= {
            f"{result.name}: {name}" if name else result.name: of for name, of in found.items()
        }
    for name, problems in listed.items():
        check_fields(by, {key for problem in problems for key in problem.rows[0]}, name)
    display.table(pass_at_1(results))
    for name, problems in listed.items():
        of_result = f" of {name}" if len(listed) > 1 else ""
        for field in by:
            lines = [
                [value, str(len(part)), _estimate(part)]
                for value, part in by_value(problems, field).items()
            ]
            display.table([[cell(field) + of_result, "problems", "pass@1 [95 %]"], *lines])
        ordered = sorted(problems, key=lambda one: one.tally.correct / len(one.rows))
        lines = [
            [
                cell(problem.id),
                f"{problem.tally.correct} of {len(problem.rows)}",
                cell(problem.rows[0]["answer"]),
                cell(_answers(problem.rows)),
            ]
            for problem in ordered[:_SHOWN]
        ]
        display.table([[f"wrong ones first{of_result}", "right", "gold", "answers"], *lines])
        if len(ordered) > _SHOWN:
            more = f"and {len(ordered) - _SHOWN} more problems; --problem ID shows one"
            display.say("", more)


def _answers(rows: Sequence[ResponseRow]) -> str:
    """Return the most frequent answers as they were written, each with its count."""
    found = Counter(str(row["extracted"] or row["verdict"]) for row in rows).most_common()
    listed = [f"{count} x {text}" for text, count in found[:_ANSWERS]]
    return ", ".join([*listed, *["…"][: len(found) - len(listed)]])


def show_responses(
    source: Source,
    step: int | None,
    group: int | None,
    problem: str | None,
    verdict: str | None,
    display: Display,
) -> None:
    """Show the responses that fit what is asked for, by group. Raises UserError for none."""
    asked = (("--group", group), ("--problem", problem), ("--verdict", verdict))
    found, known = 0, dict[str, None]()
    for one in source.groups(step):
        known[one.rows[0]["id"]] = None
        if group not in (None, one.number) or problem not in (None, one.rows[0]["id"]):
            continue
        rows = [row for row in one.rows if verdict in (None, row["verdict"])]
        if rows:
            _show_group(one, rows, source, display)
            found += 1
    if not found:
        words = ", ".join(f"{name} {value}" for name, value in asked if value is not None)
        such = ", ".join(map(shortened, islice(known, 3)))
        hint = f"; problems are such as {such}" if problem else ""
        raise UserError(f"{source.path}: no response with {words}{hint}")


def _show_group(
    group: ShownGroup, rows: Sequence[ResponseRow], source: Source, display: Display
) -> None:
    first, config = group.rows[0], source.config
    place = f"step {group.step}, group {group.number}: " if config else ""
    place += f"{shortened(group.result)}: " if group.result else ""
    fate = f", {trained(group, config)}" if config else ""
    count = f"{group.right} of {plural(len(group.rows), 'response')} right{fate}"
    display.lines(
        [f"{place}{shortened(first['id'])}, gold {cell(first['answer'])}; {count}"], "bold"
    )
    display.lines([cut(str(first["problem"])), ""])
    values: dict[int, str] = {}
    if config is not None:
        for sample, (reward, value) in as_trained(group, config).items():
            advantage = "" if value is None else f", advantage {value:+.3f}"
            values[sample] = f", reward {reward:+.2f}{advantage}"
    for row in rows:
        tokens = "" if row["n_tokens"] is None else f", {plural(row['n_tokens'], 'token')}"
        ended = ", cut off" if row["finish_reason"] == "length" else ""
        says = f"{row['verdict']}: {reason(row)}{values.get(row['sample'], '')}{tokens}{ended}"
        is_right = row["verdict"] == "correct"
        display.lines([f"sample {row['sample']}  {says}"], "green" if is_right else "cyan")
        display.console.print(thought_dimmed(cut(row["response"])))
        display.lines([""])


def thought_dimmed(response: str) -> Text:
    """Return a response as text that no terminal obeys, its thought dimmed."""
    thought, end, answer = response.rpartition("</think>")
    return Text.assemble((printable(thought + end), "dim"), printable(answer))


def follow(runs: Sequence[Source], display: Display) -> None:
    """Show runs again as steps come, until all have ended; a pipe gets a line a step."""
    seen, sizes = [0] * len(runs), list[int]()
    lines = [StepLines(display, run.config.steps, True) for run in runs if run.config]
    while True:
        has_ended = all((run.path / "summary.json").exists() for run in runs)
        files = [run.path / "metrics.jsonl" for run in runs]
        if (now := [file.stat().st_size if file.exists() else 0 for file in files]) != sizes:
            sizes = now
            if display.console.is_terminal:
                display.console.clear()
                show_runs(runs, display)
            else:
                histories = [run.metrics for run in runs]
                for history, start, steps in zip(histories, seen, lines, strict=True):
                    for metrics in islice(history, start, None):
                        steps.show(metrics, False)
                seen = [len(history) for history in histories]
        if has_ended:
            return
        time.sleep(_REDRAWN_S)


def cut(text: str, most: int = _LONGEST_TEXT) -> str:
    """Return the first `most` characters of a text, and how many it has if that is not all."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters in all)"
