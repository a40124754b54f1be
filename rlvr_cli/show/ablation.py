"""Show what an ablation found: the table of differences, and the picture of its arms."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlvr_cli.console.display import Display
from rlvr_cli.console.tables import Figures, Table, arms_as_csv, of_arms, table_as_latex
from rlvr_cli.core.files import write_atomically
from rlvr_cli.evaluation.curves import AXES, compare
from rlvr_cli.evaluation.picture import picture
from rlvr_cli.runs.ablation import PLAN, read_names, read_runs, run_paths

NOTE = (
    "less: paired by seed and problem, with a 95 % interval for other seeds and problems; to be "
    "seen: the true difference that so many seeds would have shown in 80 % of cases; seconds: the "
    "processor's"
)


@dataclass(frozen=True)
class Findings:
    """What the runs of an ablation show so far."""

    base: str
    rows: Sequence[Figures]
    """The figures of each arm at the end of each axis."""
    picture: str
    """The curves of the arms, an SVG."""
    ended: int
    """The number of runs that have ended."""
    planned: int

    @property
    def table(self) -> Table:
        """Return the table of differences."""
        return of_arms(self.rows, self.base)


def is_ablation(path: Path) -> bool:
    """Return whether a directory is that of an ablation."""
    return (path / PLAN).is_file()


def ended_runs(directory: Path) -> list[Path]:
    """List the runs of an ablation that have ended."""
    return [run for seeds in run_paths(directory).values() for run in seeds.values()]


def findings(directory: Path) -> Findings:
    """Compare the runs of an ablation that have ended. Raises UserError if none of the base has."""
    names = read_names(directory)
    runs = read_runs(directory)
    arms = {arm: list(seeds.values()) for arm, seeds in runs.items()}
    return Findings(
        base=names.base,
        rows=compare(runs, names.base),
        picture=picture(arms, names.figure, bands=True),
        ended=sum(map(len, runs.values())),
        planned=len(names.arms) * len(names.seeds),
    )


def show_ablation(directory: Path, display: Display) -> None:
    """Print the table of differences."""
    found = findings(directory)
    display.table(found.table, is_result=True)
    display.say("columns", NOTE)
    if found.ended < found.planned:
        display.warn(
            f"{found.ended} of {found.planned} runs have ended: an arm gets an interval once it "
            f"has two seeds that {found.base} has; pass@1 of different seeds cannot be compared"
        )


def publish(directory: Path, display: Display) -> None:
    """Write the table as CSV and LaTeX beside the picture, and print it."""
    found = findings(directory)
    write_atomically(directory / "table.csv", arms_as_csv(found.rows))
    write_atomically(directory / "table.tex", f"% {NOTE}\n{table_as_latex(found.table)}\n")
    write_atomically(directory / "picture.svg", found.picture)
    display.table(found.table, is_result=True)
    display.say("columns", NOTE)
    for row in found.rows:
        difference = row["difference"]
        is_by_step = row["axis"] == AXES["step"]
        if is_by_step and difference is not None and difference["interval"] == (0.0, 0.0):
            display.warn(
                f"{row['arm']}: every problem as with {found.base}: so far it changes nothing"
            )
    display.result("ablation", f"{directory}: table.csv, table.tex, picture.svg")
