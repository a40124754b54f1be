"""Load and call the user's reward functions, in worker processes only."""

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
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from rlvr_cli.core.text import format_value, one_line, shortened

GROUP = "rlvr.rewards"
"""The entry points at which an installed package names its rewards."""
_REVERSED = (("response", "problem"), ("responses", "problems"))
"""The first two parameters of functions that take the response first."""
_TEXT_NAMES = {"prompt", "prompts", "question", "answer", "answers", "ground_truth", "gold"}
_MISLEADING = (
    {*_TEXT_NAMES, "response", "responses", "completion", "completions"},
    {*_TEXT_NAMES, "problem", "problems"},
)
"""Names of a first and of a second parameter that expect something else than they would get."""
_Reply = dict[str, Any]


class _BadRewardError(Exception):
    """A text that does not name a reward function, or values that are not rewards."""


class _Function(NamedTuple):
    call: Callable[..., Any]
    file: Path
    source: str
    """SHA-256 of the file."""
    takes_batch: bool


def answering(directory: str, specs: Sequence[str]) -> Callable[[_Reply], _Reply]:
    """Load functions, and return the function that answers a worker's questions.

    A question has the number of a `function`, `rows` and `responses`; an empty one asks what was
    loaded. Each reply has the function's source.
    """
    os.chdir(directory)
    sys.dont_write_bytecode = True
    sys.path.insert(0, directory)
    loaded: list[_Function] = []
    for spec in specs:
        try:
            loaded.append(_load(spec, directory))
        except BaseException as error:
            reason = f"{spec}: {_reason(error, Path(directory) / spec.partition(':')[0])}"
            return lambda question: {"error": reason}

    def answer(question: _Reply) -> _Reply:
        if "function" not in question:
            return {
                "sources": [function.source for function in loaded],
                "batches": [function.takes_batch for function in loaded],
            }
        function = loaded[question["function"]]
        try:
            rewards = _compute(function, question["rows"], question["responses"])
        except MemoryError:
            raise
        except BaseException as error:
            return {"source": function.source, "error": _reason(error, function.file)}
        return {"source": function.source, "rewards": rewards}

    return answer


def _compute(function: _Function, rows: list[Any], responses: list[str]) -> list[float]:
    """Call a function on the responses to the rows, and pass its errors through."""
    if function.takes_batch:
        rewards = list(function.call(rows, responses))
    else:
        pairs = zip(rows, responses, strict=True)
        rewards = [function.call(row, response) for row, response in pairs]
    if len(rewards) != len(responses):
        raise _BadRewardError(f"it returned {len(rewards)} rewards for {len(responses)} responses")
    for value in rewards:
        try:
            is_number = not isinstance(value, str | bytes) and math.isfinite(value)
        except (TypeError, ValueError, OverflowError):
            is_number = False
        if not is_number:
            raise _BadRewardError(f"it returned {format_value(value)}, not a finite number")
    return [float(value) for value in rewards]


def _load(spec: str, directory: str) -> _Function:
    """Find a function by its specification, and pass errors of the user's code through.

    It is FILE.py, FILE.py:FUNCTION, MODULE:FUNCTION, MODULE.FUNCTION or an entry point.
    """
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
            installed = ", ".join(points.names) or "none"
            raise _BadRewardError(f"no such reward; installed are {installed}")
        module = importlib.import_module(points[place].module)
        name = points[place].attr
    if not name:  # `reward`, or the only function of the module
        functions = [
            key
            for key, value in vars(module).items()
            if inspect.isfunction(value)
            and value.__module__ == module.__name__
            and not key.startswith("_")
        ]
        if hasattr(module, "reward"):
            name = "reward"
        elif len(functions) == 1:
            name = functions[0]
        else:
            names = ", ".join(functions) or "none"
            raise _BadRewardError(f"name one of its functions after a colon; it has {names}")
    try:
        function = operator.attrgetter(name)(module)
    except AttributeError:
        raise _BadRewardError(f"it has no function {name}") from None
    if not callable(function):
        raise _BadRewardError(f"{name} is not a function")
    call, takes_batch = _bound(function)
    file = Path(module.__file__ or "")
    source = hashlib.sha256(file.read_bytes()).hexdigest()
    return _Function(call, file, source, takes_batch)


def _bound(function: Callable[..., Any]) -> tuple[Callable[..., Any], bool]:
    """Return a call that takes problem and response in this order, and whether it takes lists.

    Raises _BadRewardError if the names of the parameters say that they are something else.
    """
    signature = inspect.signature(function)
    names = tuple(signature.parameters)[:2]
    is_misleading = any(name in wrong for name, wrong in zip(names, _MISLEADING, strict=False))
    is_async = inspect.iscoroutinefunction(function)
    with suppress(TypeError):
        signature.bind({}, "")
        if names in _REVERSED:
            return lambda problem, response: function(response, problem), names == _REVERSED[1]
        if not is_misleading and not is_async:
            return function, names[0] == "problems"
    hint = f", not {shortened(str(signature))}"
    if is_async:
        hint = f", not async {shortened(str(signature))}"
    if "completions" in signature.parameters:
        hint = "; a function of TRL's form needs three lines around it (docs/coming-from.md)"
    raise _BadRewardError(f"a reward takes (problem, response) or (problems, responses){hint}")


def _module_at(path: Path) -> ModuleType:
    """Run a file as module reward_NAME, for its name may be that of a standard module."""
    if not path.is_file():
        raise _BadRewardError("no such file")
    # An import finds a module that is loaded already, even if it is another reward's helper.
    files = [m.__file__ for name, m in sys.modules.items() if name.startswith("reward_")]
    other_directories = {Path(file or "").parent for file in files} - {path.parent}
    for helper in path.parent.glob("*.py"):
        loaded_file = getattr(sys.modules.get(helper.stem), "__file__", None)
        if Path(loaded_file or "").parent in other_directories:
            raise _BadRewardError(f"{helper.name} is beside another reward as well; rename one")
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(f"reward_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _reason(error: BaseException, file: Path) -> str:
    """Describe an error of the user's code in one line, with the line of the file."""
    if isinstance(error, _BadRewardError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    place = f"line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {one_line(error)}"
