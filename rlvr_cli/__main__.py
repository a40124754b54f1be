"""The entry point: `rlvr`, or `python -m rlvr_cli`."""

import gc
import io
import os
import re
import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # A command sets a handler of its own. Until then Ctrl-C must leave no traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    """Run the command. Report a mistake in the options in one line with exit code 2."""
    _open_missing()
    gc.disable()  # until a command runs: imports make no garbage, and the search takes 20 ms
    # Settings need no plugins of pydantic, and to look for them takes 30 ms.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for a terminal that is not UTF-8
    try:
        from rlvr_cli.core.libraries import other_verifiers
        from rlvr_cli.core.versions import known_fault
        from rlvr_cli.ranks.launch import end, silence_others

        silence_others()
        obstacle = other_verifiers() or known_fault()  # before anything imports these libraries
        if obstacle:
            os.write(2, f"rlvr: error: {obstacle}\n".encode())
            sys.exit(2)
        code = _run(sys.argv[1:] or ["--help"])
        end()
        sys.stdout.flush()
    except MemoryError:  # not even for a report
        os.write(2, b"rlvr: error: out of memory: take a smaller model, or a larger machine\n")
        code = 2
    except Exception as error:  # outside every command
        from rlvr_cli.cli.errors import report_unforeseen

        code = report_unforeseen(error)
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    """Run the command and return its exit code. Report a mistake in the arguments."""
    import typer

    from rlvr_cli.cli.errors import report
    from rlvr_cli.cli.main import app

    # The usage error is click's, which newer versions of typer bring along under another name.
    usage_error: type[Exception] = typer.BadParameter.__mro__[1]
    for argument in arguments:
        if not argument.isascii() and argument.encode(errors="replace").decode() != argument:
            report(f"{argument!a}: not UTF-8 text")
            return 2
    try:
        return int(typer.main.get_command(app).main(arguments, "rlvr", standalone_mode=False) or 0)
    except usage_error as error:
        from rlvr_cli.config.foreign import foreign_answer

        context = getattr(error, "ctx", None)
        command = context.command_path if context else "rlvr"
        option = getattr(error, "option_name", None) or ""
        message = foreign_answer(option)
        if not message:
            message = error.format_message()  # type: ignore[attr-defined]
            nearest = list(getattr(error, "possibilities", None) or ())
            if nearest:  # click sorts them by name
                message = f"No such option: {option}. Did you mean {nearest[0]}?"
            pattern = r"Invalid value for '([^']+)': Input should (.+)"
            message = re.sub(pattern, r"\1 must \2", message).replace("Value error, ", "")
        report(f"{message} ({command} --help)")
        return 2


def _open_missing() -> None:
    """Open /dev/null in place of a standard stream that was closed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115


if __name__ == "__main__":
    main()
