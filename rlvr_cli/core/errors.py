"""What ends a command in one line, and what is found wrong without ending it."""

from dataclasses import dataclass


class ReportedError(Exception):
    """An end that is shown as one line on stderr, without a traceback."""


class UserError(ReportedError):
    """A mistake in the input: exit code 2."""


class EngineError(ReportedError):
    """A fault of an engine, which is not the user's: exit code 2."""


class RunStoppedError(ReportedError):
    """A run that ended itself because it could not go on well: exit code 3."""


@dataclass(frozen=True)
class Finding:
    """What is wrong with a run, before it starts or while it goes on, and the way out."""

    text: str
    is_error: bool = False
    """The run cannot start, or does not go on."""
