"""Measure what partial rollouts gain in the rollout phase, and what they cost in pass@1.

    python benchmarks/partial_rollouts.py                          # the built-in policy
    python benchmarks/partial_rollouts.py --model DIR --in-flight 16 --short 8 --tokens 40
    python benchmarks/partial_rollouts.py --steps 60 --seeds 0 1 2 # pass@1, paired

Made lengths: one response in ten is 20 times as long as the others, by its seed. Both sides sample
the same responses with the same number in flight: whole steps, each of which waits for its longest,
and rounds. The sides take turns, and processor seconds of the rollout phase alone count, with what
computes keys again.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.types import Problem, Prompt
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.rollout.engines.sampling import TokenCollector
from rlvr_cli.setup.plan import plan_for
from rlvr_cli.setup.session import open_session
from rlvr_cli.training.record import unwatched
from rlvr_cli.training.trainer import Trainer

SAMPLES, LONG_SHARE, TIMES_AS_LONG = 4, 0.1, 20


class MadeLengths(TokenCollector):
    """Ends a row at a length that its seed draws, whatever it samples."""

    starts: Sequence[int]
    """How many tokens each row had before."""
    lengths: Sequence[int]
    """How many it gets in all."""

    def add(self, rows, transfer):
        transfer = Ending(self, rows, transfer)
        return super().add(rows, transfer)


class Ending:
    """Replaces a sampled token by an end or by another one, so that lengths are the made ones."""

    def __init__(self, collector, rows, transfer) -> None:
        self.parts = collector, rows, transfer

    def wait(self):
        collector, rows, transfer = self.parts
        tokens, logprobs = transfer.wait()
        (end, *_), other = sorted(collector.stop_ids), 5
        for place, row in enumerate(rows):
            position = collector.starts[row] + len(collector.token_ids[row])
            is_last = position + 1 >= collector.lengths[row]
            tokens[place] = end if is_last else other
        return tokens, logprobs


def made_length(seed: int, short: int) -> int:
    """Return the length of a response with this seed."""
    is_long = random.Random(seed).random() < LONG_SHARE
    return short * (TIMES_AS_LONG if is_long else 1)


def with_made_lengths(engine: Any, short: int) -> None:
    """Let an engine's responses have made lengths."""
    decode = type(engine)._decode

    def decoded(prompts, params, seeds, listener, starts=None, cache=None):
        row_seeds = [seed + i for seed in seeds for i in range(params.samples)]
        positions = [0] * len(row_seeds) if starts is None else starts.position

        def collector(*parts):
            rows = MadeLengths(*parts)
            rows.starts = positions
            rows.lengths = [made_length(seed, short) for seed in row_seeds]
            return rows

        with patch("rlvr_cli.rollout.engines.hf_engine.TokenCollector", collector):
            yield from decode(engine, prompts, params, seeds, listener, starts, cache)

    engine._decode = decoded


def side(session: Any, prompts: list[Prompt], settings: list[str]) -> Trainer:
    """Return a trainer of these settings on the session's engine."""
    base = [f"model={session.plan.config.model}", "engine=transformers", "algo=grpo"]
    config = resolve(set_layer([*base, *settings]))
    fixed = session.plan.config.rollout
    plan = plan_for(config, ProblemSet("made", (), "plain"))
    rollout = plan.config.rollout.model_copy(update={"kv_budget_mb": fixed.kv_budget_mb})
    plan = replace(plan, config=plan.config.model_copy(update={"rollout": rollout}))
    return Trainer(replace(session, plan=plan.with_threads(1)), prompts, [])


def rollout_phase(trainer: Trainer) -> tuple[int, float]:
    """Run the rollout phase of one step. Return its tokens and processor seconds."""
    started = time.process_time()
    tokens = 0
    if trainer.in_flight is not None:
        trainer.in_flight.begin_step(trainer.weight_version)
    _, groups = trainer._judged_groups(trainer.config.rollout.prompts, unwatched)
    tokens = sum(rollout.n_tokens or 0 for group in groups for rollout in group.rollouts)
    if trainer.in_flight is not None:
        tokens = trainer.in_flight.end_step().tokens_decoded
    trainer.weight_version += 1
    return tokens, time.process_time() - started


def speed(args: argparse.Namespace) -> None:
    """Compare both sides on made lengths."""
    longest = args.short * TIMES_AS_LONG
    common = [
        f"rollout.prompts={args.in_flight // SAMPLES}",
        f"rollout.samples={SAMPLES}",
        f"rollout.max_tokens={longest}",
    ]
    problems = ProblemSet("made", (), "plain")
    config = resolve(set_layer([f"model={args.model}", "engine=transformers", *common]))
    rng = random.Random(0)
    with open_session(plan_for(config, problems)) as session:
        torch.set_num_threads(1)
        with_made_lengths(session.engine, args.short)
        size = len(session.policy.tokenizer)
        prompts = [
            Prompt(
                Problem(str(n), "?", "1"),
                "?",
                tuple(rng.randrange(10, min(size, 1000)) for _ in range(args.prompt)),
                False,
            )
            for n in range(1000)
        ]
        for tokens in args.tokens:
            rounds = ["rollout.partial=on", f"rollout.partial.tokens={tokens}"]
            sides = {
                "whole": side(session, prompts, common),
                "rounds": side(session, prompts, [*common, *rounds, "rollout.partial.age=1000"]),
            }
            for _ in range(args.warm):  # until the tail in flight is the usual one
                rollout_phase(sides["rounds"])
            sums = {name: [0, 0.0] for name in sides}
            ratios = []
            for _ in range(args.repeats):
                rates = {}
                for name, trainer in sides.items():
                    part = [0, 0.0]
                    for _ in range(args.block):
                        decoded, seconds = rollout_phase(trainer)
                        part[0] += decoded
                        part[1] += seconds
                    sums[name] = [a + b for a, b in zip(sums[name], part, strict=True)]
                    rates[name] = part[0] / part[1]
                ratios.append(rates["rounds"] / rates["whole"])
            rates = {name: total / seconds for name, (total, seconds) in sums.items()}
            again = longest**2 / 2 / tokens
            print(
                f"rounds of {tokens}: {rates['whole']:.0f} tokens a processor second in whole "
                f"steps, {rates['rounds']:.0f} in rounds: {rates['rounds'] / rates['whole']:.2f} "
                f"times (blocks {min(ratios):.2f} to {max(ratios):.2f}); the longest response of "
                f"{longest} computes {again:.0f} keys again",
                flush=True,
            )


def learning(args: argparse.Namespace) -> None:
    """Compare pass@1 after so many steps of the default problems, paired by seed."""
    differences = []
    for seed in args.seeds:
        measured = {}
        for name, more in (("whole", []), ("rounds", ["--set", "rollout.partial=on"])):
            with tempfile.TemporaryDirectory() as place:
                out = Path(place) / "run"
                command = [sys.executable, "-m", "rlvr_cli", "train", "--seed", str(seed)]
                command += ["--steps", str(args.steps), "--out", str(out), "--quiet", *more]
                command += ["--engine", "transformers", *args.options]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                summary = json.loads((out / "summary.json").read_text())
                measured[name] = summary["after"]["pass@1"]
                lines = (out / "metrics.jsonl").read_text().splitlines()
                rows = [json.loads(line) for line in lines]
                lag = statistics.fmean(row.get("lag") or 0.0 for row in rows)
        differences.append(measured["rounds"] - measured["whole"])
        print(f"seed {seed}: {measured}, lag {lag:.2f}", flush=True)
    mean = statistics.fmean(differences)
    spread = statistics.stdev(differences) if len(differences) > 1 else float("nan")
    print(f"rounds less whole: {mean:+.4f}, deviation {spread:.4f} of {len(differences)} seeds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--short", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=16)
    parser.add_argument("--tokens", type=int, nargs="+", default=[8, 20, 40, 80])
    parser.add_argument("--warm", type=int, default=8)
    parser.add_argument("--block", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="compare pass@1 after so many")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("options", nargs="*", help="of rlvr train, after --")
    args = parser.parse_args()
    if args.steps:
        learning(args)
    else:
        speed(args)


if __name__ == "__main__":
    main()
