"""Show what an ablation found: the table of differences, and the picture of its arms."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlvr_cli.console.display import Display
from rlvr_cli.console.tables import Table, csv_text, table_as_latex
from rlvr_cli.core.files import write_atomically
from rlvr_cli.evaluation.curves import STEPS, ArmAtEnd, compare_arms
from rlvr_cli.evaluation.picture import picture
from rlvr_cli.runs.ablation import PLAN, read_names, read_runs, run_paths

NOTE = (
    "less: paired by seed and problem, with a 95 % interval for other seeds and problems; to be "
    "seen: the true difference that so many seeds would have shown in 80 % of cases; seconds: the "
    "processor's"
)


_CSV = (
    "arm",
    "axis",
    "at",
    "seeds",
    "pass@1",
    "difference",
    "low",
    "high",
    "seen",
    "problems",
)
"""The columns of table.csv, before pass@1 of each seed."""


@dataclass(frozen=True)
class Findings:
    """What the runs of an ablation show so far."""

    base: str
    arms: Sequence[ArmAtEnd]
    """Each arm at the end of each axis."""
    picture: str
    """The curves of the arms, an SVG."""
    ended: int
    """The number of runs that have ended."""
    planned: int

    @property
    def table(self) -> Table:
        """Return the table of differences."""
        return of_arms(self.arms, self.base)


def is_ablation(path: Path) -> bool:
    """Return whether a directory is that of an ablation."""
    return (path / PLAN).is_file()


def ended_runs(directory: Path) -> list[Path]:
    """List the runs of an ablation that have ended."""
    return [run for seeds in run_paths(directory).values() for run in seeds.values()]


def findings(directory: Path) -> Findings:
    """Compare the runs of an ablation that have ended. Raises UserError without one of the base."""
    names = read_names(directory)
    runs = read_runs(directory)
    arms = {arm: list(seeds.values()) for arm, seeds in runs.items()}
    return Findings(
        base=names.base,
        arms=compare_arms(runs, names.base),
        picture=picture(arms, names.figure, bands=True),
        ended=sum(map(len, runs.values())),
        planned=len(names.arms) * len(names.seeds),
    )


def of_arms(arms: Sequence[ArmAtEnd], base: str) -> Table:
    """Tabulate arms at the end of each axis: pass@1, and the difference to the base."""
    table: Table = [
        ["arm", "at equal", "seeds", "pass@1", f"less {base} [95 %]", "problems", "to be seen"]
    ]
    for arm in arms:
        line = [arm.arm, f"{arm.at:,.0f} {arm.axis.unit}", str(arm.seeds), f"{arm.pass_at_1:.3f}"]
        difference = arm.difference
        if difference is None:
            line += ["", "", ""]
        else:
            low, high = difference.interval
            line.append(f"{difference.value:+.3f} [{low:+.3f}, {high:+.3f}]")
            seen = "nothing" if difference.seen >= 1 else f"{difference.seen:.3f}"
            line += [str(difference.problems), seen]
        table.append(line)
    return table


def arms_as_csv(arms: Sequence[ArmAtEnd]) -> str:
    """Format the figures of arms as CSV, numbers in full."""
    seeds = sorted({seed for arm in arms for seed in arm.by_seed})
    rows: list[Sequence[object]] = [[*_CSV, *(f"pass@1 of seed {seed}" for seed in seeds)]]
    for arm in arms:
        cells = [arm.arm, arm.axis.unit, arm.at, arm.seeds, arm.pass_at_1]
        difference = arm.difference
        if difference is None:
            cells += [""] * (len(_CSV) - len(cells))
        else:
            cells += [difference.value, *difference.interval, difference.seen, difference.problems]
        rows.append([*cells, *(arm.by_seed.get(seed, "") for seed in seeds)])
    return csv_text(rows)


def show_ablation(directory: Path, display: Display) -> None:
    """Print the table of differences."""
    ablation = findings(directory)
    display.table(ablation.table, is_result=True)
    display.say("columns", NOTE)
    say_heaps(ablation.arms, display)
    if ablation.ended < ablation.planned:
        display.warn(
            f"{ablation.ended} of {ablation.planned} runs have ended: an arm gets an interval once "
            f"it has two seeds that {ablation.base} has; pass@1 of different seeds cannot be "
            "compared"
        )


def say_heaps(arms: Sequence[ArmAtEnd], display: Display) -> None:
    """Warn of arms whose seeds fall into two heaps, as where a run takes off or does not."""
    for arm in arms:
        heaps = arm.heaps if arm.axis == STEPS else None
        if heaps is not None:
            low, high = (" ".join(f"{value:.3f}" for value in heap) for heap in heaps)
            display.warn(
                f"{arm.arm}: its seeds fall into two heaps ({low} and {high}): the mean is of "
                "neither, and an interval over few seeds is too narrow; take more seeds"
            )


def publish_ablation(directory: Path, display: Display) -> None:
    """Write the picture, and the table as CSV and LaTeX, and print the table."""
    ablation = findings(directory)
    write_atomically(directory / "table.csv", arms_as_csv(ablation.arms))
    write_atomically(directory / "table.tex", f"% {NOTE}\n{table_as_latex(ablation.table)}\n")
    write_atomically(directory / "picture.svg", ablation.picture)
    display.table(ablation.table, is_result=True)
    display.say("columns", NOTE)
    say_heaps(ablation.arms, display)
    for arm in ablation.arms:
        difference = arm.difference
        is_by_step = arm.axis == STEPS
        if is_by_step and difference is not None and difference.interval == (0.0, 0.0):
            display.warn(
                f"{arm.arm}: every problem as with {ablation.base}: so far it changes nothing"
            )
    display.result("ablation", f"{directory}: table.csv, table.tex, picture.svg")
