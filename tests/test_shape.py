"""The shape of the program: imports go down a short table of rooms, help needs no torch, and the
whole stays within a budget of what it says."""

import ast
import re
import subprocess
import sys
from collections.abc import Container
from pathlib import Path

from small_runs import made_result, made_run

import rlvr_cli
import verifiers

FLOORS = [
    ["cli"],
    ["api"],
    ["program"],
    ["show"],
    ["runs"],
    ["training"],
    ["evaluation"],
    ["setup"],
    ["tiny", "data"],
    ["config"],
    ["rollout"],
    ["rewards"],
    ["algorithm", "model", "console"],
    ["ranks"],
    ["core"],
]
"""A package imports from itself and from floors below it."""
VERIFIER_FLOORS = [
    ["__main__", "peer"],
    ["api"],
    ["extraction"],
    ["workers"],
    ["judges"],
    ["equality", "gym"],
    ["values"],
    ["grammar"],
    ["names", "types"],
]


NODES = {"rlvr_cli": 128_133, "verifiers": 29_055}
"""How much each package says, in statements and expressions of its syntax trees. A feature raises
it by what it says; layout, names, comments and constants are free."""
SLACK = 0.01
"""The share by which a package may grow before its number must be raised."""


def nodes(path: Path) -> int:
    """Count the statements and expressions of a file, without constants."""
    return sum(
        isinstance(node, ast.expr | ast.stmt) and not isinstance(node, ast.Constant)
        for node in ast.walk(ast.parse(path.read_text()))
    )


def test_a_line_is_as_long_as_it_reads_well(tmp_path):
    """The same program has the same number of nodes on any number of lines."""
    for name, text in (("a", "a = f(1)\nb = 2\n"), ("b", "a = f(\n    1\n)  # why\n\nb = 2\n")):
        (tmp_path / name).write_text(text)
        assert nodes(tmp_path / name) == 6  # two assignments, their names, the call and its name


def test_the_whole_stays_within_its_budget():
    for package in (rlvr_cli, verifiers):
        name = package.__name__
        paths = Path(package.__file__).parent.rglob("*.py")
        actual = sum(map(nodes, paths))
        assert actual <= NODES[name] * (1 + SLACK), (
            f'{name} has {actual} nodes, more than {SLACK:.0%} above NODES["{name}"] in '
            f"tests/test_shape.py. Say it with less, or raise that number to {actual}: a feature "
            "may raise it."
        )


def imports(path: Path) -> set[str]:
    """Names imported by a file, also inside its functions."""
    actual = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            actual |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            actual |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return actual


def room_of(name: str, floor: Container[str]) -> str:
    """The room of a module, or of a name in it: its package, unless the module has a floor."""
    package, _, rest = name.partition(".")
    module = f"{package}.{rest.split('.')[0]}"
    return module if module in floor else package


def upward(package: Path, floors: list[list[str]]) -> set[tuple[str, str]]:
    """(file, room) of every import that does not go down."""
    floor = {room: number for number, rooms in enumerate(floors) for room in rooms}
    actual = set()
    for path in package.rglob("*.py"):
        own = room_of(".".join(path.relative_to(package).with_suffix("").parts), floor)
        if own not in floor:
            continue
        prefix = package.name + "."
        names = {name for name in imports(path) if name.startswith(prefix)}
        used = {room_of(name.removeprefix(prefix), floor) for name in names}
        for room in (used & floor.keys()) - {own}:
            if floor[room] <= floor[own]:
                actual.add((str(path.relative_to(package)), room))
    return actual


def test_every_room_has_a_floor():
    package = Path(rlvr_cli.__file__).parent
    rooms = {
        path.relative_to(package).parts[0].removesuffix(".py") for path in package.rglob("*.py")
    }
    expected = {room.split(".")[0] for rooms in FLOORS for room in rooms}
    assert rooms == expected | {"__init__", "__main__"}
    package = Path(verifiers.__file__).parent
    rooms = {
        path.relative_to(package).parts[0].removesuffix(".py") for path in package.rglob("*.py")
    }
    assert rooms == {room for rooms in VERIFIER_FLOORS for room in rooms} | {"__init__"}


def test_imports_go_one_way():
    assert upward(Path(rlvr_cli.__file__).parent, FLOORS) == set()
    assert upward(Path(verifiers.__file__).parent, VERIFIER_FLOORS) == set()


def test_the_verifiers_stand_alone():
    package = Path(verifiers.__file__).parent
    paths = list(package.rglob("*.py"))
    assert paths
    for path in paths:
        assert not {m for m in imports(path) if m.split(".")[0] in ("torch", "rlvr_cli")}
    assert package.parent == Path(rlvr_cli.__file__).parents[1]


def test_no_pattern_repeats_a_group_possessively():
    """Python 3.11.2 misses matches of it: one answer in twelve was read otherwise there."""
    for package in (rlvr_cli, verifiers):
        for path in Path(package.__file__).parent.rglob("*.py"):
            assert not re.search(r"\)[*+?]\+", path.read_text()), path


def test_help_loads_no_torch():
    code = (
        "import sys, rlvr_cli.cli.main; print({'torch', 'transformers', 'vllm'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"


SHOWN = (
    "run",
    "run other",
    "run --follow",
    "run --step 1 --group 1",
    "run --verdict wrong",
    "run --html page.html",
    "result",
    "result --problem aa",
    "nothing",
)
"""Every form of `rlvr show` but `--explain`. The last one is refused."""


def test_show_loads_no_torch(tmp_path):
    made_run(tmp_path / "run")
    made_run(tmp_path / "other")
    made_result(tmp_path / "result")
    code = (
        "import sys\n"
        "from rlvr_cli.cli.main import app\n"
        "for args in sys.argv[1:]:\n"
        "    try:\n"
        "        app(['show', *args.split()])\n"
        "    except SystemExit as end:\n"
        "        loaded = {'torch', 'transformers', 'datasets'} & set(sys.modules)\n"
        "        print(end.code, loaded, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *SHOWN]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    ends = [line for line in result.stderr.splitlines() if line.endswith(" set()")]
    assert ends == ["0 set()"] * (len(SHOWN) - 1) + ["2 set()"]


def test_library_code_does_not_print():
    package = Path(rlvr_cli.__file__).parent
    for path in package.rglob("*.py"):
        if path.relative_to(package).parts[0] in ("cli", "program", "console", "tiny"):
            continue
        called = {
            node.func.id
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert "print" not in called, path


IMPURE = {"os", "sys", "threading", "subprocess", "importlib", "pathlib", "open", "exec", "eval"}


def impure_names(tree: ast.AST) -> set[str]:
    """The names in functions of a module by which code reads files, starts threads or is loaded."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    names = set()
    for function in functions:
        for node in ast.walk(function):
            if isinstance(node, ast.Name):
                names.add(node.id)
            elif isinstance(node, ast.Attribute):
                names.add(node.attr)
    return names & (IMPURE | {"read_text", "read_bytes", "Thread", "import_module", "path"})


def test_no_function_of_an_algorithm_reads_files_starts_threads_or_loads_code():
    room = Path(rlvr_cli.__file__).parent / "algorithm"
    for path in room.rglob("*.py"):
        assert impure_names(ast.parse(path.read_text())) == set(), path.name
    loader = (room.parent / "setup" / "parts.py").read_text()
    assert {"sys", "path", "threading", "Thread"} <= impure_names(ast.parse(loader))
