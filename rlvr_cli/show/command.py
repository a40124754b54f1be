"""`rlvr show`: choose a view by what is given, and refuse an option that does not fit it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.show import screen
from rlvr_cli.show.ablation import ended_runs, is_ablation, show_ablation, write_picture
from rlvr_cli.show.explain import explain
from rlvr_cli.show.page import write_page
from rlvr_cli.show.source import open_source, runs_in, send_to
from verifiers import Verdict

RUNS, RESULTS, ABLATION = "runs", "results", "an ablation"
"""The kinds of sources."""
_TAKES = {
    "--follow": (RUNS,),
    "--step": (RUNS, RESULTS),
    "--group": (RUNS, RESULTS),
    "--verdict": (RUNS, RESULTS),
    "--problem": (RUNS, RESULTS),
    "--by": (RESULTS,),
    "--explain": (RUNS,),
    "--track": (RUNS,),
    "--html": (RUNS, RESULTS, ABLATION),
    "--picture": (ABLATION,),
    "--panel": (ABLATION,),
}
"""What each option takes."""
_OF_ONE = {"--step", "--group", "--verdict", "--problem", "--explain"}
"""The options that take one run or result only, since they show its responses."""


@dataclass(frozen=True)
class ShowOptions:
    """The options of `rlvr show`, as the command's help has them."""

    follow: bool = False
    step: int | None = None
    group: int | None = None
    verdict: str | None = None
    problem: str | None = None
    by: Sequence[str] | None = None
    explain: bool = False
    track: Sequence[str] | None = None
    html: Path | None = None
    picture: Path | None = None
    panel: str | None = None

    @property
    def shows_responses(self) -> bool:
        """Return whether single responses are asked for."""
        return self.step is not None or self.verdict is not None or self.problem is not None

    def check(self, kind: str, paths: Sequence[Path]) -> None:
        """Raise UserError for an option that does not take these sources."""
        names = [
            f"--{name}"
            for name, value in vars(self).items()
            if value is not None and value is not False
        ]
        for name in names:
            if kind in _TAKES[name]:
                continue
            if kind == ABLATION:
                hint = f"name a run in it, {paths[0]}/ARM-SEED"
                raise UserError(f"{name} takes no ablation; {hint}")
            raise UserError(f"{name} takes {' and '.join(_TAKES[name])} only")
        if len(paths) > 1 and not _OF_ONE.isdisjoint(names):
            raise UserError("show: responses are those of one run or result; give one")
        if self.group is not None and self.step is None:
            raise UserError("--group is a group of one step; give --step as well")
        if self.verdict is not None and self.verdict not in list(Verdict):
            known = ", ".join(Verdict)
            raise UserError(f"--verdict {self.verdict} is no verdict; choose from {known}")


def show_sources(paths: Sequence[Path], options: ShowOptions, display: Display) -> None:
    """Show runs, results or an ablation in the view that the options ask for. Raises UserError."""
    ablations = [path for path in paths if is_ablation(path)]
    if ablations:
        options.check(ABLATION, ablations)
        if len(paths) > 1:
            raise UserError("show: an ablation is shown alone")
        if options.panel is not None and options.picture is None:
            raise UserError("--panel is one of a picture; give --picture FILE as well")
        if options.picture is not None:
            return write_picture(ablations[0], options.picture, options.panel, display)
        if options.html is None:
            return show_ablation(ablations[0], display)
        paths = ended_runs(ablations[0])
    numbers = [path for path in paths if str(path).isdecimal() and not path.exists()]
    if options.explain and options.step is None and len(numbers) == 1:  # --explain 30
        options = replace(options, step=int(numbers[0].name))
        paths = [path for path in paths if path not in numbers]
    found = [run for path in paths for run in runs_in(path)]
    if [*paths] != found and options == ShowOptions():
        return screen.list_runs(found, display)
    paths = found
    sources = [open_source(path) for path in paths]
    if not sources:
        raise UserError("show: give the directory of a run or a result")
    are_runs = {source.config is not None for source in sources}
    if len(are_runs) > 1:
        raise UserError("show: give runs or results, not both")
    kind = RUNS if are_runs == {True} else RESULTS
    options.check(kind, paths)
    if options.track:
        send_to(options.track, sources, display)
    elif options.html is not None:
        write_page(sources, options.html, display, ablations)
    elif options.explain:
        explain(sources[0], options.step, options.group, display)
    elif options.shows_responses:
        screen.show_responses(
            sources[0], options.step, options.group, options.problem, options.verdict, display
        )
    elif options.follow:
        screen.follow(sources, display)
    elif kind == RUNS:
        screen.show_runs(sources, display)
    else:
        screen.show_results(sources, options.by or (), display)
    return None
