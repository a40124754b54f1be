"""Judge answers to mathematics problems by rules, within limits of time and memory."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verifiers.api import Verifier, verify
    from verifiers.extraction.extract import boxed_answer
    from verifiers.extraction.golds import gold_value, stated_value
    from verifiers.extraction.marks import check_format
    from verifiers.extraction.turns import ChatMarks
    from verifiers.grammar.normalize import restored_commands
    from verifiers.judges import JUDGES, OURS
    from verifiers.peer import open_judge
    from verifiers.types import Attempt, Format, Verdict, Verification

__all__ = [
    "JUDGES",
    "OURS",
    "Attempt",
    "ChatMarks",
    "Format",
    "Verdict",
    "Verification",
    "Verifier",
    "boxed_answer",
    "check_format",
    "gold_value",
    "open_judge",
    "restored_commands",
    "stated_value",
    "verify",
]
_MODULES = [
    "verifiers.types",
    "verifiers.judges",
    "verifiers.api",
    "verifiers.peer",
    "verifiers.extraction.extract",
    "verifiers.extraction.golds",
    "verifiers.extraction.turns",
    "verifiers.grammar.normalize",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: `python -m verifiers` can be interrupted before that."""
    if name in __all__:
        for module in map(import_module, _MODULES):
            if hasattr(module, name):
                globals()[name] = getattr(module, name)  # the next use finds it without a search
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the names that are imported when they are first used."""
    return sorted(__all__)
