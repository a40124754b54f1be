"""The program as it is started: `rlvr`, or `python -m rlvr_cli`."""

import sys

import typer

from rlvr_cli.cli.main import app

_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""click's own, which newer versions of typer bring along under another name."""


def main() -> None:
    """Run the command. A mistake in the options is one line and exit code 2, like every other."""
    arguments = sys.argv[1:] or ["--help"]
    for argument in arguments:
        if not argument.isascii() and argument.encode(errors="replace").decode() != argument:
            _fail(f"{argument!a}: not UTF-8 text")
    try:
        code = typer.main.get_command(app).main(arguments, "rlvr", standalone_mode=False)
    except _USAGE_ERROR as error:
        context = getattr(error, "ctx", None)
        where = context.command_path if context else "rlvr"
        _fail(f"{error.format_message()} ({where} --help)")  # type: ignore[attr-defined]
    sys.exit(code)


def _fail(message: str) -> None:
    from rlvr_cli.console.display import fail

    fail(message)
    sys.exit(2)


if __name__ == "__main__":
    main()
