"""Is a training step right on this GPU? `python benchmarks/gpu_run.py right`, two to four minutes.

1. Operations that only a GPU does, compared with float64.
2. The built-in policy in float32, three steps on the GPU and on the CPU: the same tokens, and the
   same figures but for rounding. After the first step with another token the two are other runs.
3. What a GPU does by default, in bfloat16: ways to train, a resume, vLLM where it is there. The
   gap between engine and trainer is what bfloat16 rounds.
4. Where the CPU waits for the GPU in one step, counted by CUDA itself.

Prints tables in Markdown. A figure beyond its limit counts as a failure, as an exit code does.
"""

import inspect
import json
import math
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
SMALL = {
    "cuda": ("--prompts", "8", "-n", "8", "--set", "eval.limit=0", "-q"),
    "cpu": ("--prompts", "2", "-n", "8", "--max-tokens", "24", "--set", "eval.limit=0", "-q"),
}
"""The built-in policy. A CPU tries the checks themselves."""
EAGER = ("--set", "optim.compile=off")
FLOAT32 = ("--set", "optim.precision=float32", "--set", "rollout.precision=float32", *EAGER)
FIGURES = (
    "reward",
    "tokens_sampled",
    "loss",
    "grad_norm",
    "entropy",
    "ref_kl",
    "approx_kl",
    "clip_fraction",
    "mismatch",
)
CRITIC = "algorithm.advantage.critic"
PPO = ("--algo", "ppo", "--set", f"{CRITIC}.warmup=0")
"""The policy learns from the first step on."""
WAYS = {
    "grpo, compiled where torch can": ("--algo", "grpo"),
    "ppo": (*PPO, *EAGER),
    "ppo, shared critic": (*PPO, "--set", f"{CRITIC}.kind=shared", *EAGER),
    "lora": ("--algo", "dapo", "--lora", "8", *EAGER),
    "weights in bfloat16": ("--algo", "dapo", "--set", "optim.weights=bfloat16", *EAGER),
    "offload": ("--algo", "grpo", "--set", "optim.offload=all", *EAGER),
    "layers computed again": ("--algo", "dapo", "--set", "optim.checkpointing=on", *EAGER),
}
FIGURE_LIMIT = 1e-3
"""Relatively: sums in another order move a figure by 1e-5 or less, another formula by more."""
MISMATCH_LIMIT = 0.02
"""Nats a token: bfloat16 gave 0.0005 to 0.003 on a CPU, a stale engine several tenths."""
ERROR_LIMIT = 0.03
"""Of attention in bfloat16, compared with float64: two roundings of 1/256 of numbers up to 3."""
LIMIT_S = {"cuda": 120, "cpu": 900}
"""Seconds of a command: on a GPU none takes half as long, and one that hangs must not take the rest
with it. A CPU may be shared."""


class Ended(NamedTuple):
    """How a command ended: its exit code (124: no end), seconds, and what it said last."""

    code: int
    seconds: float
    last: str


class Checks:
    """Runs the checks, prints what they gave and counts failures."""

    def __init__(self, out: Path, device: str) -> None:
        self.out = out
        self.device = device
        self.failures = list[str]()
        self.small = SMALL[device]
        out.mkdir(parents=True, exist_ok=True)

    def rlvr(self, name: str, *options: str, device: str = "", program: str = "") -> Ended:
        """Run a command in a process of its own, with its messages in a file."""
        environment = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
        environment["HF_HUB_OFFLINE"] = "1"
        environment["PYTHONPATH"] = f"{os.environ.get('PYTHONPATH', '')}{os.pathsep}{ROOT}"
        if (device or self.device) == "cpu":
            environment["CUDA_VISIBLE_DEVICES"] = ""
        start = ["-W", "always", "-c", program] if program else ["-m", "rlvr_cli"]
        started = time.monotonic()
        path = self.out / f"{name}.log"
        with path.open("w") as log:
            try:
                code = subprocess.run(
                    [sys.executable, *start, *options],
                    env=os.environ | environment,
                    timeout=LIMIT_S[self.device],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                code = 124
        said = [line for line in path.read_text().splitlines() if line and line[0] != "{"]
        ended = Ended(code, time.monotonic() - started, said[-1] if said else "")
        self.expect(code == 0, f"{name}: exit code {code}: {ended.last[:200]}")
        return ended

    def expect(self, is_right: bool, otherwise: str) -> str:
        """Note a failure, and return the word for the table."""
        if not is_right:
            self.failures.append(otherwise)
        return "right" if is_right else "WRONG"

    def steps(self, name: str) -> list[dict[str, Any]]:
        path = self.out / name / "metrics.jsonl"
        return [json.loads(line) for line in path.open()] if path.exists() else []

    def operation(self, name: str, error: Callable[[], float], limit: float) -> None:
        """Print the error of an operation, compared with float64."""
        try:
            value = error()
            note = ""
        except Exception as failure:  # whatever a kernel does with what it does not take
            value = math.inf
            note = f" ({type(failure).__name__}: {str(failure)[:200]})"
        verdict = self.expect(value <= limit, f"{name}: {value:.3g}{note}")
        print(f"| {name} | {value:.2g}{note} | {limit:.2g} | {verdict} |", flush=True)

    def operations(self) -> None:
        print("\n| operation | largest error | allowed | |\n| --- | --- | --- | --- |")
        self.operation("mm(out_dtype=float32) of bfloat16", product_error, 1e-3)
        self.operation("attention of runs, grouped heads", lambda: varlen_errors()[0], ERROR_LIMIT)
        self.operation("its gradient", lambda: varlen_errors()[1], ERROR_LIMIT)

    def float32(self) -> None:
        """Print three steps of some algorithms here and on the CPU."""
        print(
            "\n| float32, 3 steps | seconds, and of the CPU | largest relative difference | "
            "of | tokens | |\n| --- | --- | --- | --- | --- | --- |"
        )
        for algo_flags in (("--algo", "dapo"), ("--algo", "grpo"), PPO):
            algo = algo_flags[1]
            sides = []
            for device in (self.device, "cpu"):
                name = f"{algo}-{'asked' if not sides else 'cpu'}"
                command = ["train", *algo_flags, "--steps", "3", *self.small, *FLOAT32]
                command += ["--engine", "transformers", "--out", str(self.out / name)]
                ended = self.rlvr(name, *command, device=device)
                sides.append((ended, self.steps(name)))
            (first, rows_here), (second, rows_cpu) = sides
            gap, figure, equal_steps = furthest(rows_here, rows_cpu)
            tokens = [[row["tokens_sampled"] for row in rows] for rows in (rows_here, rows_cpu)]
            is_right = equal_steps > 0 and gap <= FIGURE_LIMIT
            verdict = self.expect(is_right, f"{algo} in float32: {figure} {gap:.3g} off")
            print(
                f"| {algo} | {first.seconds:.0f}, {second.seconds:.0f} | {gap:.2g} | {figure} | "
                f"{tokens[0]}, {tokens[1]}; alike in {equal_steps} | {verdict} |",
                flush=True,
            )

    def each_way(self) -> None:
        """Print two steps of each way to train, as the device does it by default, and a resume."""
        print(
            "\n| by default, 2 steps | seconds | mismatch | loss | grad_norm | |\n"
            "| --- | --- | --- | --- | --- | --- |"
        )
        runs = {name: ("--engine", "transformers", *flags) for name, flags in WAYS.items()}
        if self.device == "cpu":
            del runs["offload"]  # which a machine without a GPU refuses
        elif find_spec("vllm") is not None:
            runs["vLLM"] = ("--engine", "vllm", "--algo", "grpo", *EAGER)
        for name, options in runs.items():
            place = ("--steps", "2", "--out", str(self.out / name))
            self.trained(name, "train", *options, *self.small, *place)
        resumed = str(self.out / next(iter(runs)))
        ended = self.rlvr("resume", "train", "--resume", resumed, "--steps", "3", "-q")
        print(f"| the first, resumed | {ended.seconds:.0f} | | | | exit code {ended.code} |")

    def trained(self, name: str, *options: str) -> None:
        ended, rows = self.rlvr(name, *options), self.steps(name)

        def show(figure: str) -> str:
            values = [row[figure] for row in rows if isinstance(row.get(figure), float)]
            return ", ".join(f"{value:.3g}" for value in values)

        gaps = [row["mismatch"] for row in rows if row.get("mismatch") is not None]
        is_right = ended.code == 0 and max(gaps, default=math.inf) < MISMATCH_LIMIT
        verdict = self.expect(is_right, f"{name}: mismatch {gaps}")
        cells = (f"{ended.seconds:.0f}", *map(show, ("mismatch", "loss", "grad_norm")), verdict)
        print(f"| {name} | {' | '.join(cells)} |", flush=True)

    def waits(self) -> None:
        """Print the places of one step where CUDA says that the CPU waits for the GPU."""
        program = (
            "import sys, torch; torch.cuda.set_sync_debug_mode('warn'); sys.argv[0] = 'rlvr'; "
            "from rlvr_cli.__main__ import main; main()"
        )
        command = ["train", "--algo", "dapo", "--steps", "1", "--engine", "transformers"]
        command += [*self.small, *EAGER, "--out", str(self.out / "waits")]
        self.rlvr("waits", *command, program=program)
        waits = Counter(
            re.findall(
                r"/(rlvr_cli/\S+:\d+): UserWarning: called a synchronizing",
                (self.out / "waits.log").read_text(),
            )
        )
        print(
            "\n| one step of dapo, its checks before it: the CPU waits at | times |\n| --- | --- |"
        )
        for line, count in waits.most_common(20):
            print(f"| {line} | {count} |")


def furthest(rows: list[dict], expected_rows: list[dict]) -> tuple[float, str, int]:
    """Return the largest relative difference of a figure, its name, and the number of equal steps.

    Steps are compared up to the first one whose tokens differ.
    """
    gap = 0.0
    name = "-"
    equal_steps = 0
    for row, expected in zip(rows, expected_rows, strict=False):
        if row["tokens_sampled"] != expected["tokens_sampled"]:
            break
        equal_steps += 1
        for figure in FIGURES:
            pair = row.get(figure), expected.get(figure)
            if any(not isinstance(value, int | float) for value in pair):
                continue
            # Below a thousandth a figure is as far from zero as rounding makes it.
            distance = abs(pair[0] - pair[1]) / max(abs(pair[1]), 1e-3)
            if distance > gap:
                gap = distance
                name = figure
    return gap, name, equal_steps


def product_error() -> float:
    """Return the largest error of a product of numbers around 1, 896 to a sum."""
    import torch

    left, right = (torch.randn(512, 896, device="cuda").bfloat16() for _ in range(2))
    expected = left.double() @ right.double().T
    product = torch.mm(left, right.T, out_dtype=torch.float32)
    return float((product.double() - expected).abs().max())


def varlen_errors() -> tuple[float, float]:
    """Return the largest error of attention of two runs, 14 heads on 2 pairs of keys and values,
    and of its gradients the largest share of their norm."""
    import torch
    from torch.nn.attention.varlen import varlen_attn

    torch.manual_seed(0)
    ends = torch.tensor([0, 100, 356], device="cuda", dtype=torch.int32)
    shapes = ((356, 14, 64), (356, 2, 64), (356, 2, 64))
    inputs = [torch.randn(shape, device="cuda").bfloat16().requires_grad_() for shape in shapes]
    options: dict[str, Any] = {"window_size": (-1, 0), "scale": 0.125}
    if "enable_gqa" in inspect.signature(varlen_attn).parameters:
        options["enable_gqa"] = True
    out = varlen_attn(*inputs, ends, ends, 256, 256, **options)
    out.float().square().sum().backward()
    error = 0.0
    gradient_error = 0.0
    for start, end in ((0, 100), (100, 356)):
        doubles = [x[start:end].detach().double().requires_grad_() for x in inputs]
        query, key, value = (x.transpose(0, 1) for x in doubles)
        key, value = (x.repeat_interleave(7, 0) for x in (key, value))
        scores = query @ key.transpose(1, 2) * 0.125
        hidden = torch.ones(end - start, end - start, device="cuda", dtype=torch.bool).triu(1)
        expected = (scores.masked_fill(hidden, -torch.inf).softmax(-1) @ value).transpose(0, 1)
        expected.square().sum().backward()
        gap = out[start:end].detach().double() - expected.detach()
        error = max(error, float(gap.abs().max()))
        for narrow, wide in zip(inputs, doubles, strict=True):
            gap = narrow.grad[start:end].double() - wide.grad
            gradient_error = max(gradient_error, float(gap.norm() / wide.grad.norm()))
    return error, gradient_error


def right(out: Path, device: str) -> int:
    """Run all checks, and return 1 if one failed."""
    checks = Checks(out, device)
    if device == "cuda":
        checks.operations()
    print(f"\ndoctor: {checks.rlvr('doctor', 'doctor').last}", flush=True)
    checks.float32()
    checks.each_way()
    if device == "cuda":
        checks.waits()
    for failure in checks.failures:
        print(f"\nWRONG: {failure}")
    print("\neverything is right" if not checks.failures else f"\n{len(checks.failures)} WRONG")
    return min(1, len(checks.failures))
