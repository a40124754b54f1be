"""Show what an ablation found: the table of differences, and the picture of its arms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlvr_cli.console.display import Display
from rlvr_cli.console.tables import Table, csv_text, table_as_latex
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import publish_new, write_atomically, writing
from rlvr_cli.core.text import plural
from rlvr_cli.evaluation.curves import STEPS, ArmAtEnd, compare_arms
from rlvr_cli.evaluation.picture import (
    Drawing,
    as_svg,
    can_draw_pdf,
    difference_curves,
    drawing,
    plotted,
)
from rlvr_cli.runs.ablation import PLAN, failures_of, read_names, read_runs, run_paths

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

    name: str
    """The ablation's title, or its directory."""
    base: str
    arms: Sequence[ArmAtEnd]
    """Each arm at the end of each axis."""
    drawing: Drawing
    """The curves of the arms."""
    runs: Mapping[str, Mapping[int, Path]]
    """The directories of the runs that have ended, by arm and seed."""
    planned: int
    failures: Mapping[str, Sequence[str]]
    """Why runs failed, by arm."""

    @property
    def ended(self) -> int:
        """Return the number of runs that have ended."""
        return sum(map(len, self.runs.values()))

    def arm_of(self, run: Path) -> str:
        """Return the arm of a run that has ended."""
        return next(arm for arm, seeds in self.runs.items() if run in seeds.values())

    def seed_of(self, run: Path) -> int:
        """Return the seed of a run that has ended."""
        of_arm = self.runs[self.arm_of(run)]
        return next(seed for seed, path in of_arm.items() if path == run)

    @property
    def failures_in_words(self) -> list[str]:
        """Say of each arm how many of its runs failed, and why the first one did."""
        return [
            f"{arm}: {plural(len(reasons), 'run')} failed, in no figure: {reasons[0]}"
            for arm, reasons in self.failures.items()
        ]

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
        name=names.title or directory.resolve().name,
        base=names.base,
        arms=compare_arms(runs, names.base),
        drawing=drawing(
            arms, names.figure, has_bands=True, differences=difference_curves(runs, names.base)
        ),
        runs=run_paths(directory),
        planned=len(names.arms) * len(names.seeds),
        failures=failures_of(directory),
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
    for line in ablation.failures_in_words:
        display.warn(line)
    if ablation.ended < ablation.planned:
        display.warn(
            f"{ablation.ended} of {ablation.planned} runs have ended: an arm gets an interval once "
            f"it has two seeds that {ablation.base} has; pass@1 of different seeds cannot be "
            "compared"
        )


def write_picture(directory: Path, file: Path, panel: str | None, display: Display) -> None:
    """Write the picture, or one panel of it, to a new file whose ending says how it is drawn.

    Raises UserError for another ending, without such a panel, or if the file cannot be written.
    """
    figure = findings(directory).drawing
    if panel is not None:
        figure = figure.only(panel)
    match file.suffix.lower():
        case ".svg":
            content: str | bytes = as_svg(figure)
        case ".pdf":
            content = plotted(figure, "pdf")
        case ".png":
            content = plotted(figure, "png")
        case _:
            raise UserError(f"--picture {file}: name a file that ends in .svg, .pdf or .png")
    if file.exists():
        raise UserError(f"--picture {file}: it exists already; name another file or remove it")
    with writing(f"--picture {file}"):
        publish_new(file, content)
    names = ", ".join(of_figure.name for of_figure in figure.panels)
    display.result("picture", f"{file}: {names}")


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
    write_atomically(directory / "picture.svg", as_svg(ablation.drawing))
    files = "table.csv, table.tex, picture.svg"
    if can_draw_pdf():
        write_atomically(directory / "picture.pdf", plotted(ablation.drawing, "pdf"))
        files += ", picture.pdf"
    else:
        files += "; pip install 'rlvr-cli[plot]' for picture.pdf"
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
    display.result("ablation", f"{directory}: {files}")
