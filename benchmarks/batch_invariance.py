"""Measure how often a token depends on the rest of its batch: one batch against other batches.

python benchmarks/batch_invariance.py chains --model tiny -n 16
"""

import argparse
import random

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.types import Group, SamplingParams
from rlvr_cli.data.problems import load_problems
from rlvr_cli.evaluation.sampling import sample_groups
from rlvr_cli.setup.plan import plan_for
from rlvr_cli.setup.prompts import prompts_for
from rlvr_cli.setup.session import open_session


def tokens(groups: list[Group]) -> dict[tuple[str, int], tuple[int, ...]]:
    """Return the tokens of each response, by problem and sample."""
    return {
        (group.prompt.problem.id, rollout.sample): tuple(rollout.completion.token_ids)
        for group in groups
        for rollout in group.rollouts
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", default="chains")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("-n", "--samples", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--limit", type=int, default=256)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 17, 5, 1])
    args = parser.parse_args()
    settings = [f"model={args.model}", f"engine={args.engine}", "data.prompt=plain"]
    config = resolve(set_layer(settings))
    params = SamplingParams(args.samples, args.max_tokens, 0.6, 0.95)
    problems = load_problems(args.data, "test", limit=args.limit)
    with open_session(plan_for(config, problems)) as session:
        prompts = prompts_for(problems, session.policy, config, args.max_tokens)
        complete = tokens(sample_groups(session.sampler, prompts, params, 0))
        count = sum(map(len, complete.values()))
        print(f"one call: {len(prompts)} problems, {len(complete)} responses, {count} tokens")
        for size in args.sizes:
            shuffled = random.Random(size).sample(prompts, len(prompts))
            parts = {}
            for start in range(0, len(shuffled), size):
                part = shuffled[start : start + size]
                parts.update(tokens(sample_groups(session.sampler, part, params, 0)))
            differing = sum(parts[key] != complete[key] for key in complete)
            print(f"{size} shuffled problems at a time: {differing} responses differ", flush=True)


if __name__ == "__main__":
    main()
