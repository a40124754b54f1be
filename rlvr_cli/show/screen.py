"""Show runs and results in the terminal: beside one another, or response by response."""

import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from rich.text import Text

from rlvr_cli.console.display import Display
from rlvr_cli.console.steps import MEASURED, StepLines, measured_sets, points, print_curves
from rlvr_cli.console.tables import Table, cell, in_words, significance
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.settings import leaves
from rlvr_cli.core.text import plural, printable, shortened
from rlvr_cli.evaluation.estimators import paired_difference, pass_at_k, pass_estimate
from rlvr_cli.evaluation.report import JudgedProblem, by_value, check_fields
from rlvr_cli.show.source import Source, reason

_PROBLEMS, _ANSWERS = 20, 3
"""The problems of a result on the screen, and the different answers to one."""


def show_runs(runs: Sequence[Source], display: Display) -> None:
    """Show the curves of runs over each other, their settings that differ, and pass@1."""
    histories = [run.metrics for run in runs]
    for number, (run, history) in enumerate(zip(runs, histories, strict=True), 1):
        assert run.config is not None
        parts = [f"{len(history)} of {run.config.steps} steps"]
        for key in measured_sets([history]):
            name = key.replace(MEASURED, "held out").replace("/", " ")
            parts += [f"{name} {value:.3f}" for _, value in points(history, key)[-1:]]
        what = f"{run.config.algo} on {', '.join(run.config.data.sources)}"
        display.say(f"run {number}", f"{run.path}: {what}, {', '.join(parts)}")
        if history and (lost := history[-1]["step"] - len(history)):
            display.warn(f"{run.path}/metrics.jsonl: {plural(lost, 'step')} cannot be read")
    if any(histories):
        print_curves(histories, display)
    if len(runs) > 1:
        display.table(differing(runs))
    display.table(pass_at_1(runs))


def differing(runs: Sequence[Source]) -> Table:
    """Return the settings that are not the same in all runs."""
    configs = [dict(leaves(run.config.model_dump(mode="json"))) for run in runs if run.config]
    keys = dict.fromkeys(key for config in configs for key in config)
    values = {key: [config.get(key) for config in configs] for key in keys}
    lines = [[key, *map(cell, own)] for key, own in values.items() if len(set(map(str, own))) > 1]
    header = ["settings that differ", *(f"run {number}" for number in range(1, len(configs) + 1))]
    return [header, *(lines or [["none", *[""] * len(configs)]])]


def pass_at_1(sources: Sequence[Source]) -> Table:
    """Return pass@1 of held-out sets with intervals, each paired with that of the first source on
    the problems that both have, told apart by id and text."""
    lines, first = [], sources[0].held_out()
    by_data = {name.rpartition(" on ")[2]: problems for name, problems in first.items()}
    for number, source in enumerate(sources, 1):
        before = source.held_out("before") if source.config else {}
        last = source.held_out()
        for name in last if last else before:
            now = last.get(name, ())
            alone = next(iter(first.values())) if len(first) == 1 else ()
            base = first.get(name) or by_data.get(name.rpartition(" on ")[2], alone)
            of_first = {(p.id, p.rows[0]["problem"]): p.tally for p in base}
            pairs = [(p.tally, of_first.get((p.id, p.rows[0]["problem"]))) for p in now]
            both = [(a, b) for a, b in pairs if b is not None and a.n and b.n]
            counted = sum(problem.tally.n > 0 for problem in now or before.get(name, ()))
            difference, p = ("", "") if number == 1 else ("no problem in common", "-")
            if both and number > 1:
                ours, theirs = (
                    [pass_at_k(tally.n, tally.correct, 1) for tally in side]
                    for side in zip(*both, strict=True)
                )
                estimate = paired_difference(ours, theirs)
                low, high = estimate["interval"]
                difference = f"{estimate['value']:+.3f} [{low:.3f}, {high:.3f}]"
                difference += f" of {len(both)}" if len(both) < counted else ""
                p = significance(estimate["p"])
            label = f"{number} {source.path}" + (f": {name}" if name else "")
            measured = [_estimate(before.get(name, ())), _estimate(now)]
            lines.append([label, str(counted), *measured, difference, p])
    are_runs = any(source.config for source in sources)
    header = ["pass@1 [95 %]", "problems", "before training"]
    header += ["measured last" if are_runs else "measured", "less the first", "p"]
    columns = [0, 1, *([2] if are_runs else []), 3, *([4, 5] if len(sources) > 1 else [])]
    return [[line[at] for at in columns] for line in (header, *lines)]


def _estimate(problems: Sequence[JudgedProblem]) -> str:
    return in_words(pass_estimate([problem.tally for problem in problems], 1))


def show_results(results: Sequence[Source], by: Sequence[str], display: Display) -> None:
    """Show pass@1 of results, by fields where asked for, and their problems, wrong ones first."""
    sets = {
        f"{result.path}: {name}" if name else str(result.path): problems
        for result in results
        for name, problems in result.held_out().items()
    }
    for name, problems in sets.items():
        check_fields(by, {key for problem in problems for key in problem.rows[0]}, name)
    display.table(pass_at_1(results))
    for name, problems in sets.items():
        of_result = f" of {name}" if len(sets) > 1 else ""
        for field in by:
            parts = by_value(problems, field).items()
            lines = [[value, str(len(part)), _estimate(part)] for value, part in parts]
            display.table([[cell(field) + of_result, "problems", "pass@1 [95 %]"], *lines])
        lines = [[f"wrong ones first{of_result}", "right", "gold", "answers"]]
        ordered = sorted(problems, key=lambda p: p.tally.correct / max(1, p.tally.n))
        for problem in ordered[:_PROBLEMS]:
            right = f"{problem.tally.correct} of {problem.tally.n}"
            counts = Counter(str(row["extracted"] or row["verdict"]) for row in problem.rows)
            answers = [f"{count} x {text}" for text, count in counts.most_common(_ANSWERS)]
            answers += ["…"] if len(counts) > _ANSWERS else []
            gold = cell(problem.rows[0]["answer"])
            lines.append([cell(problem.id), right, gold, cell(", ".join(answers))])
        display.table(lines)
        if (more := len(ordered) - _PROBLEMS) > 0:
            display.say("", f"and {more} more problems; --problem ID shows one")


def show_responses(
    source: Source,
    step: int | None,
    number: int | None,
    problem: str | None,
    verdict: str | None,
    display: Display,
) -> None:
    """Show the responses that fit what is asked for, by group. Raises UserError for none."""
    has_shown, ids = False, dict[str, None]()
    for group in source.groups(step):
        first = group.rows[0]
        ids[first["id"]] = None
        rows = [row for row in group.rows if verdict in (None, row["verdict"])]
        if not rows or number not in (None, group.number) or problem not in (None, first["id"]):
            continue
        has_shown = True
        place = f"step {group.step}, group {group.number}: " if group.config else ""
        place += f"{shortened(group.result)}: " if group.result else ""
        count = f"{group.right} of {plural(len(group.rows), 'response')} right"
        count += f", {group.fate}" if group.config else ""
        head = f"{place}{shortened(first['id'])}, gold {cell(first['answer'])}; {count}"
        display.lines([head], "bold")
        display.lines([cut(str(first["problem"])), ""])
        digits = telling_digits([reward for reward, _ in group.paid.values()])
        for row in rows:
            parts = [f"sample {row['sample']}  {row['verdict']}: {reason(row)}"]
            if row["sample"] in group.paid:
                reward, advantage = group.paid[row["sample"]]
                parts.append(f"reward {reward:+.{digits}f}")
                parts += [] if advantage is None else [f"advantage {advantage:+.3f}"]
            parts += [] if row["n_tokens"] is None else [plural(row["n_tokens"], "token")]
            parts += ["cut off"] if row["finish_reason"] == "length" else []
            display.lines([", ".join(parts)], "green" if row["verdict"] == "correct" else "cyan")
            display.console.print(thought_dimmed(cut(row["response"])))
            display.lines([""])
    if not has_shown:
        asked = {"--group": number, "--problem": problem, "--verdict": verdict, "--step": step}
        words = ", ".join(f"{name} {value}" for name, value in asked.items() if value is not None)
        such = ", ".join(map(shortened, islice(ids, 3)))
        hint = f"; problems are such as {such}" if problem else ""
        raise UserError(f"{source.path}: no response with {words}{hint}")


def telling_digits(values: Sequence[float]) -> int:
    """Return how many decimals tell values apart that are not the same in nine; two at least."""
    count = len({round(value, 9) for value in values})
    return next(n for n in range(2, 10) if n == 9 or len({round(v, n) for v in values}) == count)


def thought_dimmed(response: str) -> Text:
    """Return a response as text that no terminal obeys, with its thought dimmed."""
    thought, end, answer = response.rpartition("</think>")
    return Text.assemble((printable(thought + end), "dim"), printable(answer))


def follow(runs: Sequence[Source], display: Display) -> None:
    """Show runs again as steps come, until all have ended; a pipe gets a line per step."""
    seen, drawn = [0] * len(runs), None
    lines = [StepLines(display, run.config.steps, True) for run in runs if run.config]
    while True:
        has_ended = all((run.path / "summary.json").exists() for run in runs)
        files = [run.path / "metrics.jsonl" for run in runs]
        sizes = [file.stat().st_size if file.exists() else 0 for file in files]
        if drawn != (sizes, has_ended):  # the last measurement comes after the last step
            drawn = sizes, has_ended
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
        time.sleep(1.0)


def cut(text: str, most: int = 20_000) -> str:
    """Return the first `most` characters of a text, and how many it has if that is not all."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters in all)"
