"""Show what an ablation found: the table of differences, and the picture of its arms."""

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


def is_ablation(path: Path) -> bool:
    """Return whether a directory is that of an ablation."""
    return (path / PLAN).is_file()


def ended_runs(directory: Path) -> list[Path]:
    """List the runs of an ablation that have ended."""
    return [run for seeds in run_paths(directory).values() for run in seeds.values()]


def table_and_picture(directory: Path) -> tuple[Table, str]:
    """Return the table of differences and the picture, an SVG. Raises UserError if no run of the
    base has ended."""
    rows, base, drawn = _compared(directory)
    return of_arms(rows, base), drawn


def show_ablation(directory: Path, display: Display) -> None:
    """Print the table of differences."""
    table, _ = table_and_picture(directory)
    display.table(table, is_result=True)
    display.say("columns", NOTE)


def publish(directory: Path, display: Display) -> None:
    """Print the table, and write it as CSV and LaTeX beside the picture."""
    rows, base, drawn = _compared(directory)
    table = of_arms(rows, base)
    write_atomically(directory / "table.csv", arms_as_csv(rows))
    write_atomically(directory / "table.tex", f"% {NOTE}\n{table_as_latex(table)}\n")
    write_atomically(directory / "picture.svg", drawn)
    display.table(table, is_result=True)
    display.say("columns", NOTE)
    for row in rows:
        difference = row["difference"]
        is_by_step = row["axis"] == AXES["step"]
        if is_by_step and difference is not None and difference["interval"] == (0.0, 0.0):
            display.warn(f"{row['arm']}: every problem as with {base}: so far it changes nothing")
    display.result("ablation", f"{directory}: table.csv, table.tex, picture.svg")


def _compared(directory: Path) -> tuple[list[Figures], str, str]:
    """Return the rows of the table, the base, and the picture."""
    names = read_names(directory)
    runs = read_runs(directory)
    arms = {arm: list(seeds.values()) for arm, seeds in runs.items()}
    drawn = picture(arms, names.figure, bands=True)
    return compare(runs, names.base), names.base, drawn
