"""Import what only some commands need."""

import importlib
import logging
from typing import Any

from rlvr_cli.core.errors import UserError


def library(name: str, asked: str) -> Any:
    """Import a library without what it logs meanwhile. Raises UserError saying what `asked` for it
    if it is not installed."""
    logging.disable(logging.WARNING)
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise UserError(f"{asked}: {package} is not installed; pip install {package}") from None
    finally:
        logging.disable(logging.NOTSET)
