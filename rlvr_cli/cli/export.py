"""The command `rlvr export`; its work is in `runs.export`, so that help is instant."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from rlvr_cli.cli import options
from rlvr_cli.cli.errors import reported_errors


def export(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    step: Annotated[str, typer.Option(help="best, last or a number.")] = "last",
    dtype: Annotated[
        Literal["bfloat16", "float16", "float32"],
        typer.Option(
            help="Type of the weights; one of 16 bits undoes updates smaller than half its step: "
            "measure what you hand on."
        ),
    ] = "float32",
    out: Annotated[
        Path | None, typer.Option(help="A new directory; none: RUN/export-STEP.")
    ] = None,
    push: Annotated[
        str | None, typer.Option(help="Upload it to the hub under this name, too.")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Hand a trained policy on: a plain model directory, merged, with a card made from the run.

    [bold]Examples[/]

      rlvr export runs/RUN --step best --out mine

      rlvr export runs/RUN --push NAME/mine

    It loads in transformers and vLLM without rlvr.
    """
    with reported_errors("nothing is kept"):
        from rlvr_cli.console.display import Display
        from rlvr_cli.runs.export import write_export

        write_export(run, step, dtype, out, push, Display(quiet))
