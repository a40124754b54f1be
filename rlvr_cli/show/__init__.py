"""Show what runs and results hold: on the screen, as a page, step by step."""

from collections.abc import Sequence
from pathlib import Path

from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.runs.track import Mirrors, check_trackers
from rlvr_cli.show import screen
from rlvr_cli.show.explain import explain
from rlvr_cli.show.page import write_page
from rlvr_cli.show.source import open_source
from verifiers import Verdict


def show(
    paths: Sequence[Path],
    step: int | None,
    group: int | None,
    verdict: str | None,
    problem: str | None,
    by: Sequence[str],
    html: Path | None,
    trackers: Sequence[str],
    follow: bool,
    explained: bool,
) -> None:
    """Run `rlvr show`. Raises UserError for what cannot be shown, or does not go together."""
    numbers = [path for path in paths if str(path).isdecimal() and not path.exists()]
    if explained and step is None and len(numbers) == 1:  # --explain 30
        step, paths = int(numbers[0].name), [path for path in paths if path != numbers[0]]
    sources, display = [open_source(path) for path in dict.fromkeys(paths)], Display(stderr=False)
    runs = sum(source.config is not None for source in sources)
    of_responses = not (step is None and verdict is None and problem is None)
    of_runs = {"--follow": follow, "--explain": explained, "--track": trackers}
    asked = [name for name, given in of_runs.items() if given]
    is_no_verdict = verdict is not None and verdict not in list(Verdict)
    mistakes = {
        "show: give the directory of a run or a result": not sources,
        "show: give runs or results, not both": 0 < runs < len(sources),
        "--group: one of a step's groups; give --step as well": group is not None and step is None,
        "show: one at a time for its responses": (of_responses or explained) and len(sources) > 1,
        f"{''.join(asked[:1])}: of runs only": asked and not runs,
        "--by: of results only": by and runs,
        f"--verdict {verdict}: no verdict; they are {', '.join(Verdict)}": is_no_verdict,
    }
    if mistake := next((text for text, holds in mistakes.items() if holds), None):
        raise UserError(mistake)
    if trackers:
        check_trackers(trackers)
        for run in sources:
            assert run.config is not None
            history, files = run.metrics, run.files
            mirrors = Mirrors(trackers, run.path, run.config, 1, display.warn)
            for metrics in history:
                groups = run.groups(metrics["step"]) if metrics["step"] in files else ()
                mirrors.send(metrics, (row for stored in groups for row in stored.rows))
            if mirrors.close():
                steps = f"{len(history)} steps of {run.path}"
                display.result("tracked", f"{steps}: {', '.join(trackers)}")
    elif html is not None:
        write_page(sources, html, display)
    elif explained:
        explain(sources[0], step, group, display)
    elif of_responses:
        screen.show_responses(sources[0], step, group, problem, verdict, display)
    elif follow:
        screen.follow(sources, display)
    elif runs:
        screen.show_runs(sources, display)
    else:
        screen.show_results(sources, by, display)
