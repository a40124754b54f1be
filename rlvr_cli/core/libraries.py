"""Import libraries on demand, and make what they log, warn of and draw safe on a terminal."""

import importlib
import logging
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata, util
from pathlib import Path
from types import ModuleType
from typing import Any

import rlvr_cli
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import first_line, printable

_LONGEST = 4_000
"""Characters of one message: a library may list every tensor of an untrusted file."""


class _Stderr(logging.Handler):
    """Print each message on stderr as it is at that moment, which may be full or gone."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.write(f"{_safe_text(record.getMessage())}\n")


LOG = logging.getLogger("rlvr")
"""The logger of our own warnings, and of what a call from Python says while it takes long."""
LOG.propagate = False
LOG.setLevel(logging.INFO)
LOG.addHandler(_Stderr())


def library(name: str, option: str) -> ModuleType:
    """Import a library without its warnings. Raises UserError if it is not installed or does not
    import, and names the `option` that needs it."""
    package = name.partition(".")[0]
    logging.disable(logging.WARNING)
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever a library or its parts in C raise
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == package
        if is_missing:
            message = f"{option}: {package} is not installed; pip install {package}"
        else:
            message = (
                f"{option}: {package} cannot be imported ({first_line(error)}); "
                f"pip install --upgrade {package}"
            )
        raise UserError(message) from None
    finally:
        logging.disable(logging.NOTSET)


def other_verifiers() -> str | None:
    """Describe another distribution that shadows or overwrites our package `verifiers`. Return None
    if ours is imported."""
    ours = Path(rlvr_cli.__file__).parents[1] / "verifiers"
    spec = util.find_spec("verifiers")
    place = Path(spec.origin).parent if spec and spec.origin else None
    with suppress(metadata.PackageNotFoundError):
        if Path(str(metadata.distribution("verifiers").locate_file("verifiers"))) == ours:
            place = None
    if place == ours:
        return None
    return (
        f"another distribution has the name verifiers in this environment ({place or ours}), not "
        "rlvr, whose rules judge the answers: give rlvr an environment of its own"
    )


def neutralize_logs() -> None:
    """Pass all log records, warnings and progress bars through `printable`, bounded in length.

    Call it before a library that logs is imported. A second call changes nothing.
    """
    if logging.getLogRecordFactory() is _Record:
        return
    logging.setLogRecordFactory(_Record)
    from tqdm import tqdm

    def safe(format_text: Callable[..., str]) -> Callable[..., str]:
        return lambda *args, **kwargs: _safe_text(str(format_text(*args, **kwargs)))

    ignore_idle_warnings()
    warnings.formatwarning = safe(warnings.formatwarning)
    tqdm.format_meter = staticmethod(safe(tqdm.format_meter))  # the hub names files in bars


def ignore_idle_warnings() -> None:
    """Ignore the warnings of libraries about which nobody can do anything here."""
    # transformers 5.24 renames an argument for which older versions have no other name.
    warnings.filterwarnings("ignore", "`past_key_values` is deprecated", FutureWarning)
    # In a notebook tqdm asks for widgets, but no bar is shown there.
    warnings.filterwarnings("ignore", "IProgress not found")


class _Record(logging.LogRecord):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if isinstance(self.exc_info, tuple) and self.exc_info[0] is not None:
            self.exc_text = _safe_text("".join(traceback.format_exception(*self.exc_info)))

    def getMessage(self) -> str:  # noqa: N802 (the name is logging's)
        return _safe_text(super().getMessage())


def _safe_text(text: str) -> str:
    safe = printable(text[:_LONGEST])
    if len(text) > _LONGEST:
        safe += f" … ({len(text)} characters)\n"
    return safe
