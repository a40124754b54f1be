"""Rewards of one's own: functions that only a worker process loads and calls."""

import hashlib
import importlib
import importlib.util
import inspect
import math
import operator
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

GROUP = "rlvr.rewards"
"""The entry points at which an installed package names its rewards."""
_LONGEST = 300
_Reply = dict[str, Any]


class _NoRewardError(Exception):
    """A text that names no function which could be a reward."""


@dataclass(frozen=True)
class _Function:
    spec: str
    call: Callable[..., Any]
    file: Path
    source: str
    """SHA-256 of the file."""
    takes_batch: bool

    def reply(self, rows: list[Any], responses: list[str]) -> _Reply:
        """Return the rewards of the responses to the rows, or what is wrong with them."""
        try:
            if self.takes_batch:
                found = list(self.call(rows, responses))
            else:
                found = [self.call(*pair) for pair in zip(rows, responses, strict=True)]
        except MemoryError:
            raise
        except BaseException as error:
            return {"error": _said(error, self.file)}
        if len(found) != len(responses):
            return {"error": f"it returned {len(found)} rewards for {len(responses)} responses"}
        for value in found:
            if not _is_finite(value):
                return {"error": f"it returned {value!r:.80}, not a finite number"}
        return {"rewards": [float(value) for value in found]}


def answering(directory: str, specs: Sequence[str]) -> Callable[[_Reply], _Reply]:
    """Load functions; return what answers the question of a worker: {"function": number, "rows",
    "responses"}, or {} for what was loaded. Each reply has the function's source."""
    os.chdir(directory)
    sys.dont_write_bytecode = True
    sys.path.insert(0, directory)
    loaded: list[_Function] = []
    for spec in specs:
        try:
            loaded.append(_load(spec, directory))
        except BaseException as error:
            reason = f"{spec}: {_said(error, Path(directory) / spec.partition(':')[0])}"
            return lambda question: {"error": reason}

    def answer(question: _Reply) -> _Reply:
        if "function" not in question:
            return {
                "sources": [one.source for one in loaded],
                "batches": [one.takes_batch for one in loaded],
            }
        function = loaded[question["function"]]
        reply = function.reply(question["rows"], question["responses"])
        return {"source": function.source, **reply}

    return answer


def _load(spec: str, directory: str) -> _Function:
    """Find the function of FILE.py, FILE.py:FUNCTION, MODULE:FUNCTION, MODULE.FUNCTION or an entry
    point; errors of the user's code pass through."""
    place, colon, name = spec.partition(":")
    if place.endswith(".py"):
        module = _module_at(Path(directory) / place)
    elif colon or "." in place:
        if not colon:
            place, _, name = place.rpartition(".")
        module = importlib.import_module(place)
    else:
        points = entry_points(group=GROUP)
        if place not in points.names:
            raise _NoRewardError(
                f"no such reward; installed are {', '.join(points.names) or 'none'}"
            )
        point = points[place]
        module, name = importlib.import_module(point.module), point.attr
    function = _function(module, name)
    if not callable(function):
        raise _NoRewardError(f"{name} is no function")
    signature = inspect.signature(function)
    try:
        signature.bind({}, "")
    except TypeError:
        raise _NoRewardError(
            "a reward takes (problem, response) or (problems, responses)"
        ) from None
    file = Path(module.__file__ or "")
    source = hashlib.sha256(file.read_bytes()).hexdigest()
    return _Function(spec, function, file, source, next(iter(signature.parameters)) == "problems")


def _module_at(path: Path) -> ModuleType:
    if not path.is_file():
        raise _NoRewardError("no such file")
    sys.path.insert(0, str(path.parent))
    name = f"reward_{path.stem}"  # a file may be called as one of the standard library's
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module


def _function(module: ModuleType, name: str) -> Any:
    """Return the function of that name; without one `reward`, or the only one of the module."""
    if name:
        try:
            return operator.attrgetter(name)(module)
        except AttributeError:
            raise _NoRewardError(f"it has no function {name}") from None
    if hasattr(module, "reward"):
        return module.reward
    own = {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }
    if len(own) != 1:
        listed = ", ".join(own) or "none"
        raise _NoRewardError(f"name one of its functions behind a colon; it has {listed}")
    return next(iter(own.values()))


def _is_finite(value: Any) -> bool:
    try:
        return not isinstance(value, str | bytes) and math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        return False


def _said(error: BaseException, file: Path) -> str:
    """Describe what the user's code raised in a line, with the line of the file."""
    if isinstance(error, _NoRewardError):
        return str(error)
    lines = [
        one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == str(file)
    ]
    place = f"line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {' '.join(str(error).split()):.{_LONGEST}}"
