"""What a reader is promised: small files, functions and folders, an hour for the core."""

import ast
from pathlib import Path

import rlvr_cli
import verifiers

ROOT = Path(rlvr_cli.__file__).parents[1]
PACKAGES = (Path(rlvr_cli.__file__).parent, Path(verifiers.__file__).parent)
FILE_LINES, FUNCTION_LINES, FOLDER_FILES = 330, 60, 15
OPTION_SIGNATURES = {"cli/main.py"}
"""Typer reads the options from the signature, so that a command is as long as its options."""
CORE = (
    "training/trainer.py",
    "rollout/sampler.py",
    *(
        f"algorithm/{name}.py"
        for name in ("reward", "group_filter", "samples", "advantage", "kl", "objective", "loss")
    ),
    *(f"training/{name}.py" for name in ("batch", "forward", "objective", "update")),
)
"""The loop and every equation, in the order in which a step goes through them."""


def sources() -> list[Path]:
    return [path for package in PACKAGES for path in package.rglob("*.py")]


def test_files_are_short():
    long = {p.name: n for p in sources() if (n := len(p.read_text().splitlines())) > FILE_LINES}
    assert long == {}


def test_functions_are_short():
    long = []
    for path in sources():
        if str(path.relative_to(path.parents[1])) in OPTION_SIGNATURES:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    long.append(f"{path.name}:{node.name} {lines}")
    assert long == []


def test_no_folder_is_an_alphabet():
    for package in PACKAGES:
        for folder in (package, *(path for path in package.rglob("*") if path.is_dir())):
            assert len(list(folder.glob("*.py"))) <= FOLDER_FILES, folder


def test_the_loop_and_every_equation_are_an_hour():
    """README says how many lines in how many files: the figure there is this one, rounded up."""
    lines = sum(len((PACKAGES[0] / name).read_text().splitlines()) for name in CORE)
    said = -(-lines // 100) * 100
    assert f"the loop and every equation: {said:,} lines in {len(CORE)} files" in (
        ROOT / "README.md"
    ).read_text().replace("\n", " ")
    assert lines <= 1_800


def test_the_tree_in_the_readme_names_every_room():
    readme = (ROOT / "README.md").read_text()
    for package in PACKAGES:
        for folder in package.iterdir():
            if folder.is_dir() and (folder / "__init__.py").exists():
                assert f"  {folder.name}/" in readme, folder


def test_the_verifiers_tree_names_every_module():
    package = PACKAGES[1]
    readme = (package / "README.md").read_text()
    for path in package.rglob("*.py"):
        if path.name != "__init__.py":
            assert f"  {path.name} " in readme or f"\n{path.name} " in readme, path


MIRRORED = PACKAGES
"""Packages of which every module has a test file of its name."""


def test_every_module_has_a_test_file_of_its_name():
    """A module of more than 20 lines; what several modules do together is tested beside them."""
    without = [
        path.relative_to(ROOT)
        for package in MIRRORED
        for path in package.rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
        and len(path.read_text().splitlines()) > 20
        and not file_for(package, path).is_file()
    ]
    assert without == []


def file_for(package: Path, path: Path) -> Path:
    """tests/FOLDER/test_MODULE.py; the tests of the verifiers have a folder of their own."""
    folder = Path() if package == PACKAGES[0] else Path(package.name)
    return ROOT / "tests" / folder / path.relative_to(package).parent / f"test_{path.name}"
