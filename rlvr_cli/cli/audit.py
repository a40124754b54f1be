"""The command `rlvr audit`; its work is in `show/audit_report`, so that help is instant."""

from typing import Annotated

import typer

from rlvr_cli.cli import options
from rlvr_cli.cli.errors import reported_errors


def audit(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN|RESPONSES…", help="Directories of train or eval, files of responses, or -."
        ),
    ] = None,
    by: Annotated[
        list[str] | None, options.report(help="Agreement by a field of the rows, too.")
    ] = None,
    limit: options.Limit = None,
    field: options.Field = None,
    skip_bad: options.SkipBad = False,
    quiet: options.Quiet = False,
) -> None:
    """Judge responses by our rules and by math-verify, and show where the two differ.

    [bold]Examples[/]

      rlvr audit runs/RUN

      rlvr audit responses.jsonl --by level > differ.jsonl

    Agreement is the mean over problems of the share of responses that both find right, or neither
    does, with its 95 % interval; by verdict (ours), by kind of gold answer, and by each --by field.
    Piped, stdout carries one JSON object for each response on which the two differ.
    """
    with reported_errors("nothing is kept"):
        from rlvr_cli.cli.resolve import fields_given
        from rlvr_cli.console.display import Display
        from rlvr_cli.core.errors import UserError
        from rlvr_cli.show.audit_report import compare_judges

        if not sources:
            raise UserError("audit: give a run, a result directory, a .jsonl file, or - for stdin")
        paths = fields_given(field)
        compare_judges(sources, by or (), limit, skip_bad, Display(quiet), paths)
