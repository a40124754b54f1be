"""Errors that end a command with one line, and findings that do not end it."""

from dataclasses import dataclass


class ReportedError(Exception):
    """An error shown as one line on stderr, without a traceback."""


class UserError(ReportedError):
    """A mistake in the input: exit code 2."""


class EngineError(ReportedError):
    """A fault of an engine, which is not the user's: exit code 2."""


class RunStoppedError(ReportedError):
    """A run stopped itself because it could not continue usefully: exit code 3."""


@dataclass(frozen=True)
class Finding:
    """A problem with a run, found before it starts or during it, and its remedy."""

    text: str
    is_error: bool = False
    """Whether the run cannot start, or stops."""
