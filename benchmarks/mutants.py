"""Plant small faults in the core modules, one at a time, and count how many the tests notice.

python benchmarks/mutants.py [--each 3] [--seed 0] [--jobs 1] [MODULE ...]

A fault is one edit inside a function: another comparison, operator or number, a condition that
always or never holds, a call or an argument left out. Each is planted in a copy of this checkout.
The tests of its module that `make test` has are run there: tests/FOLDER/test_MODULE.py and those
listed below. A run that takes ten times as long as without the fault has noticed it.
Survivors are printed: write a test, or put the fault among the equivalent ones if it changes
nothing.
"""

import argparse
import ast
import itertools
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parents[1]
_ALGORITHM, _TRAINING = "tests/algorithm/test_", "tests/training/test_"
_VERIFIERS = ["tests/verifiers/equality", "tests/verifiers/test_equality_cases.py"]
ALSO = {
    "rlvr_cli/algorithm/choices.py": [
        f"{_ALGORITHM}presets.py",
        "tests/config/test_resolution.py",
    ],
    "rlvr_cli/algorithm/kl.py": [f"{_ALGORITHM}loss.py"],
    "rlvr_cli/algorithm/loss.py": [f"{_TRAINING}passed_rows.py"],
    "rlvr_cli/algorithm/group_advantage.py": [f"{_ALGORITHM}advantage.py"],
    "rlvr_cli/algorithm/advantage.py": [
        f"{_ALGORITHM}batch_advantage.py",
        f"{_TRAINING}update.py",
    ],
    "rlvr_cli/algorithm/group_filter.py": [],
    "rlvr_cli/algorithm/objective.py": [f"{_ALGORITHM}loss.py"],
    "rlvr_cli/algorithm/reward.py": [
        f"{_ALGORITHM}{name}.py" for name in ("reward_config", "samples")
    ],
    "rlvr_cli/algorithm/samples.py": [],
    "rlvr_cli/config/__init__.py": ["tests/config/test_resolution.py"],
    "rlvr_cli/config/overlay.py": ["tests/core/test_settings.py"],
    "rlvr_cli/config/sections.py": ["tests/config/test_resolution.py"],
    "rlvr_cli/core/files.py": [],
    "rlvr_cli/core/settings.py": ["tests/config/test_resolution.py"],
    "rlvr_cli/data/fields.py": [],
    "rlvr_cli/data/problems.py": [],
    "rlvr_cli/data/sources.py": ["tests/data/test_problems.py"],
    "rlvr_cli/evaluation/curves.py": [],
    "rlvr_cli/evaluation/estimators.py": [],
    "rlvr_cli/evaluation/figures.py": ["tests/evaluation/test_report.py"],
    "rlvr_cli/evaluation/measure.py": ["tests/training/test_trainer.py"],
    "rlvr_cli/evaluation/report.py": ["tests/cli/test_publish.py", "tests/cli/test_eval.py"],
    "rlvr_cli/evaluation/imported.py": ["tests/cli/test_publish.py"],
    "rlvr_cli/model/adapter.py": [],
    "rlvr_cli/model/head.py": ["tests/model/test_policy.py"],
    "rlvr_cli/model/packing.py": ["tests/model/test_policy.py", "tests/model/test_attention.py"],
    "rlvr_cli/model/policy.py": [f"{_TRAINING}update.py"],
    "rlvr_cli/rewards/audit.py": ["tests/cli/test_audit.py"],
    "rlvr_cli/rewards/functions.py": ["tests/rewards/test_rewards.py"],
    "rlvr_cli/rewards/majority.py": [],
    "rlvr_cli/rewards/rewarder.py": ["tests/rewards/test_rewards.py"],
    "rlvr_cli/rewards/trials.py": ["tests/cli/test_audit.py"],
    "rlvr_cli/rollout/engines/sampling.py": ["tests/rollout/engines/test_hf_engine.py"],
    "rlvr_cli/rollout/engines/hf_engine.py": [],
    "rlvr_cli/setup/memory.py": [],
    "rlvr_cli/runs/ablation.py": ["tests/cli/test_ablate.py"],
    "rlvr_cli/runs/checkpoint.py": ["tests/runs/test_state.py"],
    "rlvr_cli/runs/guards.py": [],
    "rlvr_cli/runs/preflight.py": ["tests/runs/test_memory_fits.py"],
    "rlvr_cli/runs/run_dir.py": [],
    "rlvr_cli/runs/stored.py": ["tests/runs/test_run_dir.py"],
    "rlvr_cli/training/batch.py": [f"{_TRAINING}update.py"],
    "rlvr_cli/training/optimizer.py": [],
    "rlvr_cli/training/state.py": [f"{_TRAINING}optimizer.py"],
    "rlvr_cli/training/record.py": [],
    "rlvr_cli/training/scoring.py": [f"{_TRAINING}update.py"],
    "rlvr_cli/training/throughput.py": [],
    "rlvr_cli/training/tokens.py": [],
    "rlvr_cli/training/trainer.py": ["tests/runs/test_resume.py"],
    "rlvr_cli/training/update.py": [f"{_TRAINING}objective.py"],
    "verifiers/equality/compare.py": _VERIFIERS,
    "verifiers/equality/equivalence.py": _VERIFIERS,
    "verifiers/equality/labels.py": _VERIFIERS,
    "verifiers/equality/quantities.py": _VERIFIERS,
}
"""The core modules, and where they are tested in addition to the file of their name."""
EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "rlvr_cli/algorithm/reward.py",
        "return (response.reward or 0.0) + length_penalty(response, algo, max_tokens)",
        "return (rollout.reward or 1.0) + length_penalty(rollout, algo, max_tokens)",
    ): "what was judged has a reward, and none of 0",
    (
        "rlvr_cli/algorithm/objective.py",
        "tau = tau_neg + (tau_pos - tau_neg) * (inputs.advantages > 0).to(inputs.mask)",
        "tau = tau_neg + (tau_pos - tau_neg) * (inputs.advantages >= 0).to(inputs.mask)",
    ): "an advantage of 0 makes the surrogate 0 with either",
    (
        "rlvr_cli/algorithm/objective.py",
        "positive = (inputs.advantages >= 0).to(inputs.mask)",
        "positive = (inputs.advantages > 0).to(inputs.mask)",
    ): "an advantage of 0 makes the surrogate 0 with either",
    (
        "rlvr_cli/training/optimizer.py",
        "return AdamW(param_groups, fused=True if is_large else None, **settings)",
        "return AdamW(param_groups, fused=False if is_large else None, **settings)",
    ): "only a GPU would show it",
}
"""(module, the line, the line with the fault): why no test could notice it."""
_OPERATORS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}


@dataclass(frozen=True)
class Mutant:
    """Holds an edit of a module, and the first line that it changes."""

    module: str
    number: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.module}:{self.number}: {self.before} -> {self.after or '(left out)'}"


def edits(source: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Return (start, end, replacement) of every fault. Some of them are not valid Python."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def start(node: ast.AST) -> int:
        return starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]

    def end(node: ast.AST) -> int:
        return starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def operator(left: ast.AST, op: ast.AST, right: ast.AST) -> Iterator[tuple[int, int, bytes]]:
        if type(op) in _OPERATORS:
            old, new = (word.encode() for word in _OPERATORS[type(op)])
            at = source.find(old, end(left), start(right))
            if at >= 0:
                yield at, at + len(old), new

    functions = ast.FunctionDef | ast.Lambda
    bodies = [node for node in ast.walk(ast.parse(source)) if isinstance(node, functions)]
    nodes = {id(part): part for body in bodies for part in ast.walk(body)}
    for node in [node for node in nodes.values() if _is_of_another_place(node)]:
        for part in ast.walk(node):
            nodes.pop(id(part), None)
    for node in nodes.values():
        match node:
            case ast.Compare(left, ops, rights):
                for a, op, b in zip([left, *rights], ops, rights, strict=False):
                    yield from operator(a, op, b)
            case ast.BoolOp(op, values):
                for a, b in itertools.pairwise(values):
                    yield from operator(a, op, b)
            case ast.BinOp(left, op, right):
                yield from operator(left, op, right)
            case ast.Constant(bool() as value):
                yield start(node), end(node), str(not value).encode()
            case ast.Constant(int() | float() as value):
                yield start(node), end(node), str(value + 1 if value < 2 else 2 * value).encode()
            case ast.UnaryOp(ast.Not(), operand):
                yield start(node), start(operand), b""
            case ast.Name(name) if name in _NAMES:
                yield start(node), end(node), _NAMES[name].encode()
            case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Raise():
                yield start(node), end(node), b"pass"
            case ast.keyword(name) if name is not None:
                comma = re.compile(rb"\s*,").match(source, end(node))
                yield start(node), comma.end() if comma else end(node), b""
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            for word in (b"(True)", b"(False)"):
                yield start(node.test), end(node.test), word


def _is_of_another_place(node: ast.AST) -> bool:
    """Return whether it is an argument that no test here could miss: zip's check of equal lengths,
    the device on a machine with one, the encoding that is the locale's."""
    match node:
        case ast.keyword("strict" | "device") | ast.keyword("encoding", ast.Constant("utf-8")):
            return True
    return False


def mutants(module: str) -> list[Mutant]:
    """Return the faults of a module that are Python, without those that change nothing."""
    source = (ROOT / module).read_bytes()
    faults = []
    for start, end, new in edits(source):
        changed = source[:start] + new + source[end:]
        try:
            ast.parse(changed)
        except SyntaxError:
            continue
        number = source.count(b"\n", 0, start)
        before, after = (text.decode().splitlines()[number].strip() for text in (source, changed))
        if (module, before, after) not in EQUIVALENT:
            faults.append(Mutant(module, number + 1, before, after, changed.decode()))
    return faults


def tests_of(module: str) -> list[str]:
    """Return the test file of the module's name, if there is one, and the others that test it."""
    path = Path(module)
    named_alike = Path("tests", *path.parts[1:-1], f"test_{path.name}")
    return [*([str(named_alike)] if (ROOT / named_alike).exists() else []), *ALSO.get(module, [])]


def run_tests(copy: Path, tests: list[str], limit: float | None) -> bool | None:
    """Return whether the tests pass in a copy of the checkout, or None if they take too long."""
    variables = {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        process = subprocess.run(
            command, cwd=copy, env=os.environ | variables, capture_output=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return None
    return process.returncode == 0


def copy_checkout(directory: Path) -> Path:
    """Copy the tracked and the new files of this checkout as they are."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, directory / name)
    return directory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", default=list(ALSO))
    parser.add_argument("--each", type=int, default=3, help="faults a module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(args.jobs):
            copies.put(copy_checkout(Path(directory, str(number))))

        def survivors(module: str) -> tuple[int, list[Mutant]]:
            copy = copies.get()
            tests = tests_of(module)
            started = time.monotonic()
            if not run_tests(copy, tests, None):
                copies.put(copy)  # the others wait for it
                raise SystemExit(f"{module}: {' '.join(tests)} fail without any fault")
            limit = 10 * (time.monotonic() - started)
            every = mutants(module)
            sample = random.Random(f"{args.seed}:{module}").sample(
                every, min(args.each, len(every))
            )
            unnoticed = []
            for mutant in sample:
                (copy / module).write_text(mutant.source, encoding="utf-8")
                if run_tests(copy, tests, limit):
                    unnoticed.append(mutant)
                    print(f"survived: {mutant}", flush=True)
            shutil.copyfile(ROOT / module, copy / module)
            print(f"{module}: {len(sample) - len(unnoticed)} of {len(sample)} noticed", flush=True)
            copies.put(copy)
            return len(sample), unnoticed

        with ThreadPoolExecutor(args.jobs) as pool:
            results = list(pool.map(survivors, args.modules))
    planted = sum(count for count, _ in results)
    unnoticed = sum(len(mutants_left) for _, mutants_left in results)
    print(f"{planted - unnoticed} of {planted} faults noticed, {1 - unnoticed / planted:.0%}")
    sys.exit(unnoticed > 0.05 * planted)


if __name__ == "__main__":
    main()
