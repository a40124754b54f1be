"""Measure a training step on this machine in one table: speed, memory by phase, agreement, TRL.

    python benchmarks/gpu_run.py                       # 0.5B and 1.5B on a GPU with vLLM
    python benchmarks/gpu_run.py --shapes 7B --set lora.rank=32 --trl-python VENV/bin/python
    python benchmarks/gpu_run.py --data GSM8K.jsonl --shapes 0.5B --max-tokens 1024
    python benchmarks/gpu_run.py --device cpu          # the built-in policy, two minutes

Each column is a process of its own: `rlvr train` with everything that it does (fitting, preflight,
guards) on a model of random weights in the shape of Qwen2.5, which needs no network, or on the
built-in policy (`tiny`) or a model directory. Responses are paid by a parity of their text, so that
nearly every group has a signal, and a random model's are all as long as --max-tokens. Figures are
medians of all steps but the first, which compiles and fills caches. With --trl-python a GRPOTrainer
of TRL takes the same steps beside it. What is predicted is the preflight's; what is measured is the
whole card's at the end of a phase, on a CPU this process's peak.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memory import GIB, SHAPES, resident, shaped
from trl_step import TINY, Shape, trl

HERE = Path(__file__).parent
PARITY = """\
def reward(problem, response):
    return 1.0 if (response.count("1") + response.count("4") + len(response)) % 2 else -1.0
"""
FIGURES = {
    "start, seconds": "until the first step: libraries, model, engine, checks",
    "step, seconds": "",
    "step, tokens a second": "of responses, in the whole step",
    "rollout, tokens a second": "of responses",
    "log-probabilities, tokens a second": "the pass before the first update",
    "update, tokens a second": "",
    "update, MFU": "model FLOPs utilization, of dense bfloat16",
    "sleep, seconds": "the engine gives its memory back",
    "push, seconds": "the new weights to the engine",
    "wake, seconds": "",
    "mismatch": "mean distance of engine and trainer in log-probability, a token",
    "sampling, GiB predicted": "",
    "sampling, GiB measured": "",
    "update, GiB predicted": "",
    "update, GiB measured": "",
    "fitted": "settings that `auto` was resolved to",
}


def write_model(name: str, directory: Path) -> None:
    """Write a random model in a shape of Qwen2.5 with the built-in tokenizer, whose vocabulary is
    filled up with names that no text has."""
    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(TINY)
    tokenizer.save_pretrained(directory)
    path = directory / "tokenizer.json"
    content = json.loads(path.read_text())
    first = max(token["id"] for token in content["added_tokens"]) + 1
    unused = {f"unused{number}": number for number in range(first, SHAPES[name][-1])}
    content["model"]["vocab"].update(unused)
    path.write_text(json.dumps(content))
    torch.manual_seed(0)
    model = shaped(name)
    model.config.update(
        {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    )
    model.bfloat16().save_pretrained(directory)


def ours(model: str, settings: list[str], work: Path) -> dict[str, Any]:
    """Return the figures of one run of `rlvr train` in this process."""
    started, before = time.perf_counter(), resident()
    import torch

    from rlvr_cli.cli.train import start
    from rlvr_cli.config import resolve, set_layer
    from rlvr_cli.console.display import Display
    from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
    from rlvr_cli.rollout.engines.vllm_engine import VllmEngine
    from rlvr_cli.training.trainer import Trainer

    on_gpu = torch.cuda.is_available()
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for engine in (TransformersEngine, VllmEngine):
        for name in ("sleep", "sync_weights", "wake"):
            setattr(engine, name, with_timer(getattr(engine, name), seconds[name]))
    begun: list[Any] = []
    train_steps = Trainer.train_steps

    def noted(trainer: Trainer, *args: Any) -> Any:
        begun.extend([trainer, time.perf_counter() - started])
        return train_steps(trainer, *args)

    Trainer.train_steps = noted  # type: ignore[method-assign]
    reward = work / "parity.py"
    reward.write_text(PARITY)
    fixed = (f"model={model}", f"reward.functions=[{reward}]", "eval.limit=0")
    config = resolve(set_layer([*fixed, "algorithm.filter.metric=reward", *settings]))
    start(config, work / "run", Display(quiet=True))
    trainer = begun[0]
    rows = [json.loads(line) for line in (work / "run" / "metrics.jsonl").open()][1:]

    def median(key: str) -> float | None:
        values = [row[key] for row in rows if row.get(key) is not None]
        return statistics.median(values) if values else None

    phases = trainer.session.memory.needed(trainer.config).phases
    sampling, updating = (size / GIB for size in phases.values())
    optim = trainer.config.optim
    return {
        "start, seconds": begun[1],
        "step, seconds": median("seconds_step"),
        "step, tokens a second": statistics.median(
            row["tokens_sampled"] / row["seconds_step"] for row in rows
        ),
        "rollout, tokens a second": median("tokens_per_second_rollout"),
        "log-probabilities, tokens a second": median("tokens_per_second_logprobs"),
        "update, tokens a second": median("tokens_per_second_update"),
        "update, MFU": median("mfu"),
        **{
            f"{label}, seconds": statistics.median(seconds[name][1:] or seconds[name])
            for label, name in (("sleep", "sleep"), ("push", "sync_weights"), ("wake", "wake"))
        },
        "mismatch": median("mismatch"),
        "sampling, GiB predicted": sampling,
        "sampling, GiB measured": median("memory_awake_gib"),
        "update, GiB predicted": updating,
        "update, GiB measured": median("memory_update_gib")
        if on_gpu
        else (resident("VmHWM") - before) / GIB,
        "fitted": f"checkpointing {optim.checkpointing}, {optim.precision}, "
        f"gpu_share {trainer.config.rollout.gpu_share:g}",
    }


def with_timer(method: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    """Return a method that adds the seconds of each call to a list."""

    def call(*args: Any, **kwargs: Any) -> Any:
        import torch

        started = time.perf_counter()
        try:
            return method(*args, **kwargs)
        finally:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - started)

    return call


def theirs(shape: Shape) -> dict[str, Any]:
    """Return the figures of the same steps by TRL, which are fewer."""
    measured = trl(shape)
    steps = zip(measured["tokens"], measured["seconds"], strict=True)
    return {
        "step, seconds": statistics.median(measured["seconds"]),
        "step, tokens a second": statistics.median(n / s for n, s in steps),
        "update, GiB measured": measured["mib"] / 1024,
    }


def column(python: str, side: str, args: argparse.Namespace, model: str, work: Path) -> dict:
    """Return the figures of one side in a process of its own; an error is a figure as well."""
    command = [python, __file__, "--side", side, "--model", model, "--device", args.device]
    for name in ("prompts", "samples", "max_tokens", "steps"):
        command += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    command += ["--work", str(work), "--data", args.data]
    for text in args.set:
        command += ["--set", text]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-3000:], file=sys.stderr)
        return {"error": (done.stderr.strip().splitlines() or ["no reason given"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, help="default: 0.5B 1.5B")
    parser.add_argument("--model", help="tiny or a model directory in place of shapes")
    parser.add_argument("--data", default="chains", help="a problem set or file")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--prompts", type=int, help="default: 32, on a CPU 16")
    parser.add_argument("--samples", type=int, help="default: 16, on a CPU 8")
    parser.add_argument("--max-tokens", type=int, help="default: 600, on a CPU 64")
    parser.add_argument("--set", action="append", default=[], help="as in rlvr train")
    parser.add_argument("--trl-python", help="python of a virtual environment with trl 1.16")
    parser.add_argument("--side", choices=["ours", "trl"], help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    sizes = {"prompts": 32, "samples": 16, "max_tokens": 600}
    if args.device == "cpu":
        sizes = {"prompts": 16, "samples": 8, "max_tokens": 64}
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        args.model = args.model or (None if args.shapes else "tiny")
    for name, size in sizes.items():
        setattr(args, name, getattr(args, name) or size)
    if args.side == "ours":
        sys.path.insert(0, str(HERE.parent))
        settings = (
            *(f"data.source={args.data}", f"steps={args.steps}", *args.set),
            *(f"rollout.prompts={args.prompts}", f"rollout.samples={args.samples}"),
            f"rollout.max_tokens={args.max_tokens}",
        )
        print(json.dumps(ours(args.model, list(settings), args.work)))
        return
    if args.side == "trl":
        model = TINY if args.model == "tiny" else Path(args.model)
        shape = Shape(model, args.prompts, args.steps, False, args.samples, args.max_tokens)
        print(json.dumps(theirs(shape)))
        return
    table: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as directory:
        for name in [args.model] if args.model else args.shapes or ["0.5B", "1.5B"]:
            work = Path(directory) / Path(name).name
            work.mkdir()
            model = name
            if not args.model:
                write_model(name, work / "model")
                model = str(work / "model")
            table[name] = column(sys.executable, "ours", args, model, work)
            if args.trl_python:
                table[f"{name}, TRL"] = column(args.trl_python, "trl", args, model, work)
    print(f"| | {' | '.join(table)} |\n| --- {'| --- ' * len(table)}|")
    for label, meaning in (FIGURES | {"error": ""}).items():
        cells = [figures.get(label) for figures in table.values()]
        if any(cell is not None for cell in cells):
            texts = (
                f"{cell:.4g}" if isinstance(cell, float) else str(cell or "-") for cell in cells
            )
            label += f" ({meaning})" if meaning else ""
            print(f"| {label} | {' | '.join(texts)} |")


if __name__ == "__main__":
    main()
