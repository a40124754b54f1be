"""Rule-based verification of mathematical answers: right, bounded, and usable alone."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verifiers.api import Verifier, verify
    from verifiers.extraction.extract import boxed_answer
    from verifiers.extraction.marks import check_format
    from verifiers.judges import JUDGES, OURS
    from verifiers.peer import open_judge
    from verifiers.types import Attempt, Format, Verdict, Verification

__all__ = ["JUDGES", "OURS", "Attempt", "Format", "Verdict", "Verification", "Verifier"]
__all__ += ["boxed_answer", "check_format", "open_judge", "verify"]
_MODULES = ("types", "judges", "api", "peer")


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: `python -m verifiers` can be interrupted before that."""
    for module in _MODULES if name in __all__ else ():
        found = getattr(import_module(f"verifiers.{module}"), name, None)
        if found is not None:
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
