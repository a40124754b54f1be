"""Decoding of the built-in policy on one thread, two checkouts in turn: tokens a second of the
processor, and the median of the ratios with its range.

    python benchmarks/decode.py OLD_CHECKOUT

Four draws of 32 problems x 8 responses of at most 80 tokens a round, natural lengths; and one draw
in which nothing ends, so that all have 80.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

PROMPTS = 32
ARMS = {"natural": 4, "forced": 1}


def serve() -> None:
    """Decode what the parent asks for, one draw a line: [is forced, number of the draw]."""
    import torch

    from rlvr_cli.core.types import SamplingParams
    from rlvr_cli.data.chains import problems
    from rlvr_cli.model.loading import load_model
    from rlvr_cli.rollout.engines.hf_engine import TransformersEngine

    torch.set_num_threads(1)
    policy = load_model("tiny")
    engine = TransformersEngine(policy.model, len(policy.tokenizer), policy.stop_ids, 1024)
    stops, chats = engine.stop_ids, problems("train", 4 * PROMPTS, 0)
    texts = [f"<|user|>{row['problem']}<|end|><|assistant|>" for row in chats]
    prompts = [policy.tokenizer.encode(text) for text in texts]
    for line in sys.stdin:
        is_forced, draw = json.loads(line)
        engine.stop_ids = stops[:0] if is_forced else stops
        chosen = prompts[draw * PROMPTS : (draw + 1) * PROMPTS]
        seeds = [1000 * (draw * PROMPTS + place) for place in range(PROMPTS)]
        started, tokens = time.thread_time(), 0
        for _, group in engine.generate(chosen, SamplingParams(8, 80), seeds):
            tokens += sum(len(one.token_ids) for one in group)
        print(json.dumps([time.thread_time() - started, tokens]), flush=True)


def ask(child: subprocess.Popen, is_forced: bool, draw: int) -> list[float]:
    """One draw: its seconds of the processor and its tokens."""
    child.stdin.write(json.dumps([is_forced, draw]) + "\n")
    child.stdin.flush()
    return json.loads(child.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve()
        return
    children = []
    for checkout in (args.old.resolve(), Path(__file__).parents[1]):
        env = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        children.append(
            subprocess.Popen([sys.executable, __file__, "--serve"], env=env, cwd=checkout, **pipes)
        )
    for arm, draws in ARMS.items():
        is_forced, rates = arm == "forced", []
        for child in children:
            ask(child, is_forced, 0)
        for _ in range(args.rounds):
            found = [[ask(child, is_forced, draw) for child in children] for draw in range(draws)]
            sums = [
                [sum(one) for one in zip(*side, strict=True)] for side in zip(*found, strict=True)
            ]
            rates.append([tokens / seconds for seconds, tokens in sums])
        ratios = [new / old for old, new in rates]
        old, new = (statistics.median(side) for side in zip(*rates, strict=True))
        span = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(
            f"{arm}: {old:,.0f}, {new:,.0f}, {statistics.median(ratios):.2f} ({span})", flush=True
        )


if __name__ == "__main__":
    main()
