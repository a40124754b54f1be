"""Measure 16 bits and float32 on one core: the phases of a step, decoding, gap and gradient.

    python benchmarks/half_on_cpu.py                     # minutes, the 135M chat model
    python benchmarks/half_on_cpu.py --before CHECKOUT   # another checkout, too

Trains the model on additions in each precision, in turn, at a learning rate that changes nothing,
so that every step is alike. Seconds are the processor's, of one thread, medians over the runs.
Then 24 rows are decoded, their log-probabilities are computed, and the gradient of the same
responses in each precision. "Of float32's" is the share of its time in the same checkout.
What 16 bits save depends on the processor: the first line says what products it has.
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
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import additions
import smollm

HERE = Path(__file__).parents[1]
PHASES = ("rollout", "update", "sync", "step")
STEPS = 3
RECIPE = f"""
    --algo dr_grpo --steps {STEPS} --seed 0 --quiet --engine transformers
    --prompts 8 -n 8 --max-tokens 16 --temperature 0.7 --prompt plain
    --set threads=1 --set eval.limit=0 --set checkpoint.every=100 --set algorithm.filter=none
    --set algorithm.importance_correction=none
    --set optim.lr=1e-12 --set optim.micro_tokens=1024
""".split()
PROCESSOR_CLOCK = "import time; time.perf_counter = time.process_time; "
"""What makes the phases of a run measure the processor's time."""
ROWS = (6, 4)
TOKENS = 40
REPEATS = 3
"""Prompts and responses of each that are decoded together, tokens of each, and how often."""

Figures = dict[str, float]


def train(checkout: Path, precision: str, model: str, problems: Path, place: Path) -> Figures:
    """Train in a process of its own, and return the median seconds of each phase from step 2 on."""
    out = place / "run"
    options = [*RECIPE, "--model", model, "--out", str(out)]
    for section in ("optim", "rollout"):
        options += ["--set", f"{section}.precision={precision}"]
    code = PROCESSOR_CLOCK + "from rlvr_cli.__main__ import main; main()"
    run_python(checkout, "-c", code, "train", str(problems), *options)
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    figures = {
        p: statistics.median(row.get(f"seconds_{p}") or 0.0 for row in rows[1:]) for p in PHASES
    }
    figures["tokens"] = statistics.median(row["tokens_sampled"] for row in rows[1:])
    figures["mismatch"] = statistics.median(row["mismatch"] for row in rows)
    subprocess.run(["rm", "-r", str(out)], check=True)
    return figures


def run_python(checkout: Path, *args: str) -> None:
    """Run Python with one thread and the package of a checkout."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    path = [str(checkout), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    command = [sys.executable, *args]
    subprocess.run(command, env=environment, cwd=checkout, check=True, stdout=subprocess.DEVNULL)


def compute(precision: str, model: str, problems: Path, place: Path) -> None:
    """Decode, and compute the gradient of fixed responses, and write both to `place`.

    The first call is in float32. It keeps the responses and the gradient that the others compare
    theirs with.
    """
    import torch

    from rlvr_cli.core.types import SamplingParams
    from rlvr_cli.model.forward import choose_forward
    from rlvr_cli.model.loading import cast, load_model
    from rlvr_cli.model.packing import pack
    from rlvr_cli.model.policy import Policy, shard_module
    from rlvr_cli.model.settings import OptimConfig
    from rlvr_cli.ranks.group import full_tensor
    from rlvr_cli.rollout.engines.hf_engine import TransformersEngine

    torch.set_num_threads(1)
    loaded = load_model(model)
    tokenizer = loaded.tokenizer
    rows = [json.loads(line) for line in problems.read_text().splitlines()[: ROWS[0]]]
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": row["problem"]}],
            add_generation_prompt=True,
            return_dict=False,
        )
        for row in rows
    ]
    forward = choose_forward(
        loaded.model, len(tokenizer), [(prompts[0], [10, 20, 30])], loaded.context
    )
    sampled = cast(deepcopy(loaded.model), getattr(torch, precision))
    engine = TransformersEngine(sampled, len(tokenizer), (), 1024, forward)

    def decoded(samples: int, temperature: float) -> list[Any]:
        params = SamplingParams(samples, TOKENS, temperature=temperature)
        groups = dict(engine.generate(prompts, params, [100 * p for p in range(len(prompts))]))
        return [groups[p] for p in sorted(groups)]

    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        groups = decoded(ROWS[1], 0.7)
        seconds.append(time.process_time() - start)
    greedy = [list(group[0].token_ids) for group in decoded(1, 0.0)]
    figures: dict[str, Any] = {
        "decoding": ROWS[0] * ROWS[1] * TOKENS / statistics.median(seconds),
        "quick": engine.quick is not None,
        "greedy": greedy,
    }

    policy = Policy(loaded.model, len(tokenizer), 0.7, forward)
    if precision != "float32":
        shard_module(policy, OptimConfig(precision=precision))
    rollouts = [
        (prompt, item) for prompt, group in zip(prompts, groups, strict=True) for item in group
    ]
    fixed = place / "responses.json"
    if not fixed.exists():
        fixed.write_text(json.dumps([list(item.token_ids) for _, item in rollouts]))
    sampled_ids = [list(item.token_ids) for _, item in rollouts]
    row_prompts = [prompt for prompt, _ in rollouts]
    device = torch.device("cpu")
    inputs = pack(row_prompts, sampled_ids, device, torch.float32)
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        with torch.no_grad():
            logprobs = policy(inputs, entropy=False).logprobs
        seconds.append(time.process_time() - start)
    figures["logprobs"] = ROWS[0] * ROWS[1] * TOKENS / statistics.median(seconds)
    expected = torch.tensor([item.logprobs for _, item in rollouts])
    figures["gap"] = float((logprobs - expected).abs().mean())
    inputs = pack(row_prompts, json.loads(fixed.read_text()), device, torch.float32)
    advantages = torch.linspace(-1, 1, len(sampled_ids))[
        torch.randperm(len(sampled_ids), generator=torch.manual_seed(0))
    ]
    loss = -(advantages[:, None] * policy(inputs).logprobs).mean()
    loss.backward()
    gradient = torch.cat([full_tensor(p.grad).flatten() for p in policy.parameters()]).double()
    reference = place / "gradient.pt"
    if not reference.exists():
        torch.save(gradient.float(), reference)
    compared = torch.load(reference).double()
    figures["cosine"] = float(gradient @ compared / gradient.norm() / compared.norm())
    figures["norm"] = float(gradient.norm() / compared.norm())
    (place / "figures.json").write_text(json.dumps(figures))


def processor() -> str:
    """Return the processor's name, and which products of 16 bits it announces."""
    import torch

    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    fields = dict(line.split("\t:") for line in lines if "\t:" in line)
    flags = fields.get("flags", "").split()
    features = [
        flag for flag in ("avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16") if flag in flags
    ]
    name = fields.get("model name", "a processor").strip()
    announced = ", ".join(features) or "none announced"
    return f"{name}; products of 16 bits: {announced}; {torch.__version__}"


def rates() -> Iterable[str]:
    """Measure products of the model's shapes, and yield a line of GFLOP/s in each type."""
    import torch

    torch.set_num_threads(1)
    for rows, inner, outer in ((1024, 576, 1536), (24, 576, 1536), (24, 576, 49152)):
        gflops = []
        for dtype in (torch.float32, torch.bfloat16):
            left, right = torch.randn(rows, inner).to(dtype), torch.randn(outer, inner).to(dtype)
            seconds = []
            for _ in range(5):
                start = time.process_time()
                count = 1 + int(4e9 / (2 * rows * inner * outer))
                for _ in range(count):
                    torch.nn.functional.linear(left, right)
                seconds.append((time.process_time() - start) / count)
            gflops.append(2e-9 * rows * inner * outer / statistics.median(seconds))
        shape = f"{rows} x {inner} x {outer}"
        yield f"{shape}: float32 {gflops[0]:.0f}, bfloat16 {gflops[1]:.0f} GFLOP/s"


def table(medians: Mapping[tuple[str, str], Figures]) -> Iterable[str]:
    """Yield the lines of a table: one for each checkout and precision."""
    columns = [
        *(f"{phase}, s" for phase in PHASES),
        "of float32's",
        "decoding, tokens/s",
        "of float32's",
        "a pass, tokens/s",
        "of float32's",
        "gap, nats",
        "cosine",
        "norm",
    ]
    yield f"| | {' | '.join(columns)} |"
    yield "| --- |" + " --- |" * len(columns)
    for (tree, precision), row in medians.items():
        beside = medians[tree, "float32"]
        cells = [f"{row[phase]:.2f}" for phase in PHASES]
        cells.append(f"{row['step'] / beside['step']:.2f}")
        for rate in ("decoding", "logprobs"):
            cells += [f"{row[rate]:.0f}", f"{beside[rate] / row[rate]:.2f}"]
        cells += [f"{row['gap']:.2g}", f"{row['cosine']:.5f}", f"{row['norm']:.4f}"]
        yield f"| {tree}, {precision} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a directory; none: fetched from the registry")
    parser.add_argument("--before", type=Path, help="another checkout to measure beside this one")
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--compute", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.compute is not None:
        precision, problems, place = args.compute
        compute(precision, args.model, Path(problems), Path(place))
        return
    model = args.model or str(smollm.cached_model())
    trees = {"now": HERE}
    if args.before is not None:
        trees["before"] = args.before.resolve()
    print(processor())
    print("\n".join(rates()), flush=True)
    results: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as work:
        place = Path(work)
        additions.write(place)
        problems = place / "train.jsonl"
        for _ in range(args.runs):
            for tree, checkout in trees.items():
                for precision in args.precisions:
                    figures: dict[str, Any] = {}
                    figures.update(train(checkout, precision, model, problems, place))
                    arguments = ["--model", model, "--compute", precision]
                    run_python(checkout, __file__, *arguments, str(problems), str(place))
                    figures.update(json.loads((place / "figures.json").read_text()))
                    results[tree, precision].append(figures)
                    print(tree, precision, json.dumps(figures), file=sys.stderr, flush=True)
    medians = {}
    for key, rows in results.items():
        names = [name for name in rows[0] if name != "greedy"]
        medians[key] = {name: statistics.median(row[name] for row in rows) for name in names}
    print("\n".join(table(medians)))
    for (tree, precision), rows in results.items():
        expected = results[tree, "float32"][0]["greedy"]
        pairs = zip(rows[0]["greedy"], expected, strict=True)
        n_equal = [sum(a == b for a, b in zip(*pair, strict=True)) for pair in pairs]
        print(
            f"{tree}, {precision}: {sum(n_equal)} of {len(n_equal) * TOKENS} greedy tokens as in "
            "float32"
        )


if __name__ == "__main__":
    main()
