"""Measure a training step on this machine in one table: speed, memory by phase, agreement, TRL.

    python benchmarks/gpu_run.py                       # 0.5B and 1.5B, with vLLM if it is there
    python benchmarks/gpu_run.py --shapes 7B --set lora.rank=32 --trl-python VENV/bin/python
    python benchmarks/gpu_run.py --data GSM8K.jsonl --shapes 0.5B --max-tokens 1024
    python benchmarks/gpu_run.py --device cpu          # the built-in policy, two minutes
    python benchmarks/gpu_run.py right                 # is it right here? (gpu_right.py)
    python benchmarks/gpu_run.py table --seconds 300   # what docs/measured.md wants, TRL last

Each column is a process of its own: `rlvr train` with everything that it does (fitting, preflight,
guards) on a model of random weights in the shape of Qwen2.5, which needs no network, or on the
built-in policy (`tiny`) or a model directory. Responses are paid by a parity of their text, so that
nearly every group has a signal, and a random model's are all as long as --max-tokens. Figures are
medians of all steps but the first, which compiles and fills caches. With --trl-python a GRPOTrainer
of TRL takes the same steps next, sampling with the engine that ours had, 32 rows a
micro-batch. What is predicted is the preflight's. What is measured is the whole card's at the end
of a phase, on a CPU this process's peak.

Prints Markdown for docs/measured.md. With --out FILE it is also written there after every column.
`table` gives each column the time that is left, and says for which ones no time was left.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gpu_right
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
    "error": "",
}
MICRO_ROWS = 32
"""Of TRL's passes: its logits are float32, and 512 rows of 256 tokens would need 40 to 80 GB."""
LEAST_S = 40
"""Seconds without which no column is begun: libraries and the model alone take as many."""


@dataclass(frozen=True)
class Column:
    """What one column of the table measures."""

    name: str
    model: str
    """A shape, `tiny` or a model directory."""
    steps: int
    settings: tuple[str, ...] = ()
    follows: str = ""
    """The column whose steps TRL takes in this one, with its engine, or "" for our own steps."""


def columns_asked(args: argparse.Namespace) -> Iterator[Column]:
    """Yield a column for each model, then TRL's."""
    extra = tuple(args.set)
    names = [args.model] if args.model else args.shapes or ["0.5B", "1.5B"]
    for name in names:
        yield Column(name, name, args.steps, extra)
    if args.trl_python:
        for name in names:
            yield Column(f"{name}, TRL", name, args.steps, extra, follows=name)


def columns_of_table(args: argparse.Namespace) -> Iterator[Column]:
    """Yield what the page of measured tables wants of a card, the most wanted first."""
    small, large = (args.model, args.model) if args.model else ("0.5B", "1.5B")
    extra = tuple(args.set)
    here = "engine=transformers"
    cache_setting = "rollout.kv_budget_mb=1024"
    yield Column(small, small, 4, (here, *extra))
    if find_spec("vllm") is not None:
        yield Column(f"{small}, vLLM", small, 4, ("engine=vllm", *extra))
    yield Column(f"{large}, again" if large == small else large, large, 3, (here, *extra))
    sparse = (here, "rollout.precision=float32", cache_setting, *extra)
    yield Column(f"{small}, float32 sampling, 1 GiB of keys", small, 2, sparse)
    if args.trl_python:
        yield Column(f"{small}, TRL", small, 3, (here, *extra), follows=small)


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
    started = time.perf_counter()
    before = resident()
    import torch

    from rlvr_cli.config import resolve, set_layer
    from rlvr_cli.console.display import Display
    from rlvr_cli.program.train import start_run
    from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
    from rlvr_cli.rollout.engines.vllm_engine import VllmEngine
    from rlvr_cli.training.trainer import Trainer

    on_gpu = torch.cuda.is_available()
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for engine in (TransformersEngine, VllmEngine):
        for name in ("sleep", "sync_weights", "wake"):
            setattr(engine, name, with_timer(getattr(engine, name), seconds[name]))
    beginning: list[Any] = []
    train_steps = Trainer.train_steps

    def noted(trainer: Trainer, *args: Any) -> Any:
        beginning.extend([trainer, time.perf_counter() - started])
        return train_steps(trainer, *args)

    Trainer.train_steps = noted  # type: ignore[method-assign]
    reward = work / "parity.py"
    reward.write_text(PARITY)
    fixed = (f"model={model}", f"reward.functions=[{reward}]", "eval.limit=0")
    config = resolve(set_layer([*fixed, "algorithm.filter.metric=reward", *settings]))
    start_run(config, work / "run", Display(quiet=True))
    trainer = beginning[0]
    rows = [json.loads(line) for line in (work / "run" / "metrics.jsonl").open()]
    rows = rows[1:] or rows

    def median(key: str) -> float | None:
        values = [row[key] for row in rows if row.get(key) is not None]
        return statistics.median(values) if values else None

    phases = trainer.session.memory.needed(trainer.config).phases
    sampling, updating = (size / GIB for size in phases.values())
    optim, rollout = trainer.config.optim, trainer.config.rollout
    return {
        "start, seconds": beginning[1],
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
        "fitted": f"checkpointing {optim.checkpointing}, {optim.precision}, sampling "
        f"{rollout.precision}, gpu_share {rollout.gpu_share:g}",
        "engine": trainer.config.engine,
        "machine": machine(),
    }


def machine() -> str:
    """Return the card, or the number of threads, and the versions of what computes."""
    import torch

    name = f"a CPU, threads: {torch.get_num_threads()}"
    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory / GIB
        name = f"{torch.cuda.get_device_name()}, {memory:.0f} GiB"
    versions = []
    for library in ("torch", "transformers", "vllm", "trl"):
        try:
            versions.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            continue
    return f"{name}; {', '.join(versions)}"


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


def figures_of_trl(shape: Shape) -> dict[str, Any]:
    """Return the figures of the same steps by TRL, which are fewer."""
    measured = trl(shape)
    steps = zip(measured["tokens"], measured["seconds"], strict=True)
    return {
        "step, seconds": statistics.median(measured["seconds"]),
        "step, tokens a second": statistics.median(n / s for n, s in steps),
        "update, GiB measured": measured["mib"] / 1024,
        "engine": shape.engine,
        "machine": machine(),
    }


def measured(
    column: Column, engine: str, limit: float, args: argparse.Namespace, work: Path
) -> dict:
    """Return the figures of a column, by a process of its own. An error is a figure as well."""
    python = args.trl_python if column.follows else sys.executable
    command = [python, __file__, "--side", "trl" if column.follows else "ours"]
    command += ["--model", column.model, "--device", args.device, "--steps", str(column.steps)]
    for name in ("prompts", "samples", "max_tokens"):
        command += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    command += ["--work", str(work), "--data", args.data, "--engine", engine]
    for text in column.settings:
        command += ["--set", text]
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired as error:
        said = error.stderr or b""
        print(said.decode(errors="replace")[-3000:], file=sys.stderr)
        return {"error": f"no end in {limit:.0f} s"}
    if process.returncode:
        print(process.stderr[-3000:], file=sys.stderr)
        return {"error": (process.stderr.strip().splitlines() or ["no reason given"])[-1]}
    return json.loads(process.stdout.splitlines()[-1])


def measure(columns: list[Column], args: argparse.Namespace) -> str:
    """Measure the columns one after the other while there is time, and return the table. A model of
    a shape is written once."""
    table: dict[str, dict[str, Any]] = {}
    ends = time.monotonic() + args.seconds
    text = ""
    with tempfile.TemporaryDirectory() as directory:
        for number, column in enumerate(columns):
            began = time.monotonic()
            work = Path(directory) / str(number)
            work.mkdir()
            if ends - began < LEAST_S:
                table[column.name] = {"error": "no time was left"}
            else:
                model = Path(directory) / column.model
                if column.model in SHAPES and not model.exists():
                    model.mkdir()
                    write_model(column.model, model)
                path = str(model) if column.model in SHAPES else column.model
                engine = table.get(column.follows, {}).get("engine", "transformers")
                left = ends - time.monotonic()
                placed = replace(column, model=path)
                table[column.name] = measured(placed, engine, left, args, work)
            took = time.monotonic() - began
            print(f"{column.name}: {took:.0f} s, {json.dumps(table[column.name])}", file=sys.stderr)
            text = markdown(table, args)
            if args.out:
                args.out.write_text(text)
    return text


def markdown(table: dict[str, dict[str, Any]], args: argparse.Namespace) -> str:
    """Return the figures by column, with the machine, the versions and the command."""
    words = [Path(word).name if os.sep in word else word for word in sys.argv[1:]]
    machines = [figures["machine"] for figures in table.values() if "machine" in figures]
    command = shlex.join(["python", "benchmarks/gpu_run.py", *words])
    lines = [
        f"### {machines[0].split(';')[0] if machines else 'nothing ran'}",
        "",
        f"`{command}`: {args.prompts} problems x {args.samples} responses of at most "
        f"{args.max_tokens} tokens. {'; '.join(dict.fromkeys(machines))}.",
        "",
        f"| | {' | '.join(table)} |",
        f"| --- {'| --- ' * len(table)}|",
    ]
    for label, meaning in FIGURES.items():
        cells = [figures.get(label) for figures in table.values()]
        if any(cell is not None for cell in cells):
            texts = [
                f"{cell:.4g}" if isinstance(cell, float) else str(cell or "-") for cell in cells
            ]
            label += f" ({meaning})" if meaning else ""
            lines.append(f"| {label} | {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["steps", "right", "table"], default="steps")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, help="default: 0.5B 1.5B")
    parser.add_argument("--model", help="tiny or a model directory in place of shapes")
    parser.add_argument("--data", default="chains", help="a problem set or file")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--prompts", type=int, help="default: 32, on a CPU 16")
    parser.add_argument("--samples", type=int, help="default: 16, on a CPU 8")
    parser.add_argument("--max-tokens", type=int, help="default: 600, of table 256, on a CPU 64")
    parser.add_argument("--set", action="append", default=[], help="as in rlvr train")
    parser.add_argument("--trl-python", help="python of an environment with trl 1.16")
    parser.add_argument("--seconds", type=float, default=86_400, help="for all columns together")
    parser.add_argument("--out", type=Path, help="a file for the table; of right, a directory")
    parser.add_argument("--side", choices=["ours", "trl"], help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--engine", default="transformers", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.what == "right":
        sys.exit(gpu_right.right(args.out or Path(tempfile.mkdtemp()), args.device))
    sizes = {"prompts": 32, "samples": 16, "max_tokens": 256 if args.what == "table" else 600}
    if args.device == "cpu":
        sizes = {"prompts": 16, "samples": 8, "max_tokens": 64}
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        args.model = args.model or (None if args.shapes else "tiny")
    for name, size in sizes.items():
        setattr(args, name, getattr(args, name) or size)
    if args.side == "ours":
        sys.path.insert(0, str(HERE.parent))
        settings = (
            f"data.source={args.data}",
            f"steps={args.steps}",
            *args.set,
            f"rollout.prompts={args.prompts}",
            f"rollout.samples={args.samples}",
            f"rollout.max_tokens={args.max_tokens}",
        )
        print(json.dumps(ours(args.model, list(settings), args.work)))
        return
    if args.side == "trl":
        model = TINY if args.model == "tiny" else Path(args.model)
        shape = Shape(
            model,
            args.prompts,
            args.steps,
            False,
            args.samples,
            args.max_tokens,
            args.engine,
            MICRO_ROWS,
        )
        print(json.dumps(figures_of_trl(shape)))
        return
    if args.what == "table" and find_spec("trl") is not None:
        args.trl_python = args.trl_python or sys.executable
    columns = columns_of_table(args) if args.what == "table" else columns_asked(args)
    print(measure(list(columns), args), end="")


if __name__ == "__main__":
    main()
