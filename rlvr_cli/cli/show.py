"""The command `rlvr show`; its work is in `rlvr_cli/show`, so that help is instant."""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli.cli import options
from rlvr_cli.cli.errors import reported_errors


def show(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN|RESULT…", help="Directories of train or eval."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the runs have ended.")
    ] = False,
    step: Annotated[int | None, typer.Option(help="The responses of a step.")] = None,
    group: Annotated[int | None, typer.Option(help="One problem of the step, from 1.")] = None,
    verdict: Annotated[str | None, typer.Option(help="Responses with it only.")] = None,
    problem: Annotated[str | None, typer.Option(help="One problem through training.")] = None,
    by: Annotated[
        list[str] | None, options.report(help="Figures of a result by a field, too.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="A step, as --explain 30, in words and numbers.")
    ] = False,
    track: options.Track = None,
    html: Annotated[
        Path | None, options.output(help="A new file: a page to look around in.")
    ] = None,
) -> None:
    """Look at runs and results: live, later, beside one another, response by response.

    [bold]Examples[/]

      rlvr show runs/A runs/B

      rlvr show runs/A --follow

      rlvr show runs/A --step 12 --group 3

      rlvr show runs/A --explain 30

      rlvr show runs/A --verdict bad_format | less

      rlvr show runs/A --html page.html

      rlvr show results/mine --by level
    """
    with reported_errors("nothing is lost"):
        from rlvr_cli.show.command import show as command

        chosen = (step, group, verdict, problem)
        command(sources or (), *chosen, by or (), html, track or (), follow, explain)
