"""The rooms of the program: imports go one way, and help needs no torch."""

import ast
import subprocess
import sys
from pathlib import Path

import rlvr_cli
import verifiers

ORDER = [
    ["types", "arithmetic", "statistics", "jsonl", "untrusted", "tables", "words"],
    ["algorithms"],
    ["sources"],
    ["config", "problems", "prompts", "files", "interrupts"],
    ["packing"],
    ["engines.sampling", "engines.kv_cache", "engines.base", "roofline"],
    ["engines.transformers", "engines.vllm", "engines.agreement", "models"],
    ["engines.choice"],
    ["reward", "advantage", "kl"],
    ["objective"],
    ["loss", "rollout", "group_filter", "metrics"],
    ["batch", "evaluate", "fingerprint", "scoring", "guards", "memory"],
    ["report"],
    ["results"],
    ["policy", "figures"],
    ["scorer"],
    ["update", "session", "checkpoint", "tracking"],
    ["trainer", "display", "preflight"],
    ["state", "commands.common", "commands.outcome", "commands.publish"],
    ["commands.loop"],
    ["commands.train", "commands.score", "commands.sets", "commands.eval", "commands.sample"],
    ["options", "settings"],
    ["main"],
]
APART = {"", "__main__", "warm_start", "engines", "commands"}


def imports(path: Path) -> set[str]:
    """Names imported by a file, also inside its functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def modules() -> dict[str, Path]:
    package = Path(rlvr_cli.__file__).parent
    paths = {path.relative_to(package).with_suffix(""): path for path in package.rglob("*.py")}
    return {
        ".".join(p for p in name.parts if p != "__init__"): path for name, path in paths.items()
    }


def test_every_module_has_its_place():
    assert set(modules()) == {name for room in ORDER for name in room} | APART


def test_imports_go_one_way():
    place = {name: index for index, room in enumerate(ORDER) for name in room}
    for name, path in modules().items():
        if name in APART:
            continue
        used = {module.removeprefix("rlvr_cli.") for module in imports(path)} & set(place)
        assert not [other for other in used if place[other] >= place[name]], name


def test_the_verifiers_stand_alone():
    for path in Path(verifiers.__file__).parent.glob("*.py"):
        assert not {m for m in imports(path) if m.split(".")[0] in ("torch", "rlvr_cli")}
    assert Path(verifiers.__file__).parents[1] == Path(rlvr_cli.__file__).parents[1]


def test_help_loads_no_torch():
    code = "import sys, rlvr_cli.main; print({'torch', 'transformers', 'vllm'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
