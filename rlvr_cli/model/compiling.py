"""Compile functions with torch.compile, and run them uncompiled if it fails."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.text import first_line

P = ParamSpec("P")
T = TypeVar("T")

_failures: list[str] = []
"""Why nothing is compiled any more, if torch failed."""


def compiled(function: Callable[P, T], dynamic: bool | None = None) -> Callable[P, T]:
    """Compile a function when it is first called, with `dynamic` for arguments of any shape.

    If torch fails, this and all other functions run uncompiled, and one warning says so.
    """
    # Compile a backward pass with its forward pass, so that it fails there.
    torch._functorch.config.force_non_lazy_backward_lowering = True
    compiled_function = torch.compile(function, dynamic=dynamic)

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if _failures:
            return function(*args, **kwargs)
        try:
            return compiled_function(*args, **kwargs)
        except torch._dynamo.exc.TorchDynamoException as error:
            _failures.append(first_line(error))
        LOG.warning("optim.compile: torch cannot (%s); the update runs uncompiled", *_failures)
        return function(*args, **kwargs)

    return run
