"""rlvr: reinforcement learning with verifiable rewards on math reasoning, on one node."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlvr_cli.api import Run, evaluate, sample, train
    from rlvr_cli.core.errors import EngineError, RunStoppedError, UserError

__version__ = "0.3.0"
__all__ = ["EngineError", "Run", "RunStoppedError", "UserError", "evaluate", "sample", "train"]
_PLACES = {
    "EngineError": "rlvr_cli.core.errors",
    "Run": "rlvr_cli.api",
    "RunStoppedError": "rlvr_cli.core.errors",
    "UserError": "rlvr_cli.core.errors",
    "evaluate": "rlvr_cli.api",
    "sample": "rlvr_cli.api",
    "train": "rlvr_cli.api",
}


def __getattr__(name: str) -> object:
    """Import a name when it is first used, so that the command's help waits for nothing."""
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the names that are imported when they are first used."""
    return sorted([*globals(), *__all__])
