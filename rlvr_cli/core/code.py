"""Find a custom function by its name, and describe what goes wrong in it."""

import dis
import hashlib
import importlib
import importlib.util
import inspect
import operator
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from rlvr_cli.core.text import one_line

LOADED: dict[str, str] = {}
"""SHA-256 of each module of the user's as this process first loaded it."""


class CodeError(Exception):
    """A text that does not name a function, or a function that does what it may not."""


class UserFunction(NamedTuple):
    """A custom function."""

    call: Callable[..., Any]
    file: Path
    source: str
    """SHA-256 of the file."""


def find_function(
    spec: str, directory: str, group: str, usual_names: Sequence[str]
) -> UserFunction:
    """Find a function by its specification, and pass errors of the user's code through.

    It is FILE.py, FILE.py:FUNCTION, MODULE:FUNCTION, MODULE.FUNCTION or an entry point of the
    `group`. Without a name it is the function with the first of the `usual_names` that there is, or
    the only one. A file without functions may have a class whose objects are called. Raises
    CodeError if there is none.
    """
    place, colon, name = spec.partition(":")
    if place.endswith(".py"):
        module = _module_at(Path(directory) / place)
    elif colon or "." in place:
        if not colon:
            place, _, name = place.rpartition(".")
        module = importlib.import_module(place)
    else:
        points = entry_points(group=group)
        if place not in points.names:
            installed = ", ".join(points.names) or "none"
            raise CodeError(f"no such {usual_names[0]}; installed are {installed}")
        module = importlib.import_module(points[place].module)
        name = points[place].attr
    public = {
        key: value
        for key, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__ and not key.startswith("_")
    }
    functions = [key for key, value in public.items() if inspect.isfunction(value)]
    if not functions:
        functions = [key for key, value in public.items() if _makes_functions(value)]
    names = ", ".join(functions) or "none"
    if not name:
        usual = [key for key in usual_names if hasattr(module, key)]
        if usual:
            name = usual[0]
        elif len(functions) == 1:
            name = functions[0]
        else:
            raise CodeError(f"name one of its functions after a colon; it has {names}")
    try:
        function = operator.attrgetter(name)(module)
    except AttributeError:
        raise CodeError(f"it has no function {name}; it has {names}") from None
    if not callable(function):
        raise CodeError(f"{name} is not a function")
    file = Path(module.__file__ or "")
    source = hashlib.sha256(file.read_bytes()).hexdigest()
    if not place.endswith(".py") and LOADED.setdefault(module.__name__, source) != source:
        raise CodeError(f"{file.name} was edited after this process loaded it; restart Python")
    return UserFunction(function, file, source)


def _makes_functions(value: object) -> bool:
    """Return whether a value is a class whose objects are called as functions."""
    return inspect.isclass(value) and inspect.isfunction(value.__call__)


def import_ahead(function: Callable[..., object]) -> None:
    """Import what the code of a function imports when it is called, so that its first call takes no
    longer than the next. The functions of its module that it names count as its code."""
    if not inspect.isroutine(function):
        function = type(function).__call__
    function = inspect.unwrap(function)
    names = getattr(function, "__globals__", {})
    pending = [getattr(function, "__code__", None)]
    known = set[CodeType | None]()
    while pending:
        code = pending.pop()
        if code is None or code in known:
            continue
        known.add(code)
        pending += [item for item in code.co_consts if inspect.iscode(item)]
        pending += [getattr(names.get(name), "__code__", None) for name in code.co_names]
        for instruction in dis.get_instructions(code):
            if instruction.opname == "IMPORT_NAME":
                # What is not installed is perhaps not needed, or else fails in the call itself.
                with suppress(BaseException):
                    importlib.import_module(str(instruction.argval))


def _module_at(path: Path) -> ModuleType:
    """Run a file as module user_NAME, for its name may be that of a standard module."""
    if not path.is_file():
        raise CodeError("no such file")
    # An import finds a module that is loaded already, even if it is another file's helper.
    files = [m.__file__ for name, m in sys.modules.items() if name.startswith("user_")]
    other_directories = {Path(file or "").parent for file in files} - {path.parent}
    for helper in path.parent.glob("*.py"):
        loaded_file = getattr(sys.modules.get(helper.stem), "__file__", None)
        if Path(loaded_file or "").parent in other_directories:
            raise CodeError(f"{helper.name} is beside another such file as well; rename one")
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(f"user_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def error_in_words(error: BaseException, file: Path | str) -> str:
    """Describe an error of the user's code in one line, with the line of the file."""
    if isinstance(error, CodeError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    place = f"line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {one_line(error)}"
