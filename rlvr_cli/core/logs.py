"""Make log records, warnings and progress bars of libraries safe to show on a terminal."""

import logging
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rlvr_cli.core.text import printable


class _Stderr(logging.Handler):
    """Print each message on stderr as it is at that moment, which may be full or gone."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):
            print(_shown(record.getMessage()), file=sys.stderr)


LOG = logging.getLogger("rlvr")
"""What library code has to say that is no error."""
LOG.propagate = False
LOG.addHandler(_Stderr())

_LONGEST = 4_000
"""Characters of one message: a library may list every tensor of an untrusted file."""


def neutralize_logs() -> None:
    """Pass all log records, warnings and progress bars through `printable`, bounded in length.

    Call it before a library that logs is imported; a second call changes nothing.
    """
    if logging.getLogRecordFactory() is _Record:
        return
    logging.setLogRecordFactory(_Record)
    from tqdm import tqdm

    warnings.formatwarning = _safe(warnings.formatwarning)
    tqdm.format_meter = staticmethod(_safe(tqdm.format_meter))  # the hub names files in bars


def _safe(formats: Callable[..., str]) -> Callable[..., str]:
    return lambda *args, **kwargs: _shown(str(formats(*args, **kwargs)))


class _Record(logging.LogRecord):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if isinstance(self.exc_info, tuple) and self.exc_info[0] is not None:
            self.exc_text = _shown("".join(traceback.format_exception(*self.exc_info)))

    def getMessage(self) -> str:  # noqa: N802 (the name is logging's)
        return _shown(super().getMessage())


def _shown(text: str) -> str:
    shown = printable(text[:_LONGEST])
    return shown if len(text) <= _LONGEST else f"{shown} … ({len(text)} characters)\n"
