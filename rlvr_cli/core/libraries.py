"""Import what only some commands need, and find what was installed over our own."""

import importlib
import logging
from contextlib import suppress
from importlib import metadata, util
from pathlib import Path
from typing import Any

import rlvr_cli
from rlvr_cli.core.errors import UserError


def library(name: str, asked: str) -> Any:
    """Import a library, hushed. Raises UserError saying what `asked` for it if it is not there."""
    logging.disable(logging.WARNING)
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise UserError(f"{asked}: {package} is not installed; pip install {package}") from None
    finally:
        logging.disable(logging.NOTSET)


def other_verifiers() -> str | None:
    """Say that another distribution has the top-level name `verifiers`, before ours or over it;
    None where ours is found first and whole."""
    ours = Path(rlvr_cli.__file__).parents[1] / "verifiers"
    spec = util.find_spec("verifiers")
    found = Path(spec.origin).parent if spec and spec.origin else None
    with suppress(metadata.PackageNotFoundError):
        if Path(str(metadata.distribution("verifiers").locate_file("verifiers"))) == ours:
            found = None
    if found == ours:
        return None
    return (
        f"another distribution has the name verifiers in this environment ({found or ours}), not "
        "rlvr, whose rules judge the answers: give rlvr an environment of its own"
    )
