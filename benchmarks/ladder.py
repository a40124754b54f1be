"""DAPO's ladder on the built-in problems: plain GRPO, then one technique at a time.

python benchmarks/ladder.py [--seeds 0 1 2] [--tokens 200000]

After the paper's table 1 (Yu et al. 2025, arXiv:2503.14476), on our own scale. Every rung trains
until it has generated the same number of tokens, those of dropped groups included, and is then
measured on the held-out problems. Four updates a batch, so that the clip has something to do, and
responses of at most 48 tokens, so that length does.
"""

import argparse
import itertools
import statistics
from pathlib import Path
from typing import Any

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.layers import yaml_layer
from rlvr_cli.data.problems import load_problems
from rlvr_cli.model.loading import DEFAULTS_FILE, TINY, model_directory
from rlvr_cli.rollout.plan import plan_for
from rlvr_cli.rollout.session import open_session, prompts_for
from rlvr_cli.training.trainer import Trainer

GRPO = ["algo=grpo", "algorithm.kl=none"]
TECHNIQUES = {
    "plain GRPO, no KL": [],
    "+ soft overlong penalty": ["algorithm.overlong=soft"],
    "+ clip-higher": ["algorithm.surrogate.high=0.28"],
    "+ token-level loss": ["algorithm.aggregation=token_mean"],
    "+ dynamic sampling (DAPO)": ["algorithm.filter=mixed"],
}
COMMON = ["algorithm.mini_batches=4", "rollout.max_tokens=48", "steps=1000"]
LAST_STEPS = 5


def climb(settings: list[str], seed: int, budget: int) -> tuple[float, float, int]:
    """(held-out pass@1, entropy of the last updates, steps) at `budget` generated tokens."""
    defaults = yaml_layer(Path(model_directory(TINY)) / DEFAULTS_FILE)
    config = resolve([defaults, *set_layer([*GRPO, *COMMON, *settings, f"seed={seed}"])])
    train, test = (load_problems("arithmetic", split) for split in ("train", "test"))
    with open_session(plan_for(config, train), training=True) as session:
        prompts, held_out = (
            prompts_for(problems, session.policy, config, config.rollout.max_tokens)
            for problems in (train, test)
        )
        trainer = Trainer(session, prompts, held_out[: config.eval.limit])
        tokens, history = 0, []
        for result in trainer.train_steps():
            tokens += result.metrics["tokens_sampled"]
            history.append(result.metrics)
            if tokens >= budget:
                break
        _, evaluation = trainer.measure()
    return evaluation.pass_at_1, last_entropy(history), len(history)


def last_entropy(history: list[dict[str, Any]]) -> float:
    """Mean over the last steps that made an update, in nats a token; the others have none."""
    entropies = [metrics["entropy"] for metrics in history if "entropy" in metrics]
    return statistics.mean(entropies[-LAST_STEPS:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tokens", type=int, default=200_000)
    args = parser.parse_args()
    print("| rung | pass@1 of each seed | mean | entropy | steps |")
    print("| --- | --- | --- | --- | --- |")
    rungs = itertools.accumulate(TECHNIQUES.values())
    for name, settings in zip(TECHNIQUES, rungs, strict=True):
        passes, entropies, steps = zip(
            *(climb(settings, seed, args.tokens) for seed in args.seeds), strict=True
        )
        listed = " ".join(f"{value:.3f}" for value in passes)
        print(f"| {name} | {listed} | {statistics.mean(passes):.3f} |", end="")
        print(f" {statistics.mean(entropies):.3f} | {statistics.mean(steps):.1f} |", flush=True)


if __name__ == "__main__":
    main()
