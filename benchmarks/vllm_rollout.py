"""Time our rollout through vLLM and bare `LLM.generate`: same engine, prompts, and lengths.

    python benchmarks/vllm_rollout.py [--model MODEL] [--prompts 32] [--samples 8] [--rounds 9]
                                      [--eval] [--lengths 24 384]

Three sides alternate in one process on one vLLM: our rollout (prompts to judged groups, with the
log-probabilities and a seed a response), `LLM.generate` with the same sampling settings, and
`LLM.generate` for tokens alone. Every response has exactly as many tokens as asked. With `--eval`
ours is what `rlvr eval --out` does instead, compared with the second alone: its sampling settings,
judged rows, each problem synced to disk. Printed are medians of the rounds' ratios of tokens a
second, with their range, by the clock and by the processor (read these on a shared machine).
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from rlvr_cli.core.report import Fingerprint
from rlvr_cli.core.seeds import response_seed
from rlvr_cli.core.types import Group, Prompt, SamplingParams
from rlvr_cli.data.problems import load_problems
from rlvr_cli.data.prompts import render_prompts
from rlvr_cli.evaluation.result_dir import PartialResult
from rlvr_cli.evaluation.sampling import sample_groups
from rlvr_cli.model.card import present_card
from rlvr_cli.model.loading import default_device, load_model
from rlvr_cli.rollout.engines.vllm_engine import VllmEngine, import_vllm
from rlvr_cli.rollout.sampler import Sampler
from rlvr_cli.setup.plan import precision_on
from verifiers import Verifier

CLOCKS = {"the clock": time.perf_counter, "the processor": time.process_time}


def tokens_per_second(side: Callable[[], int]) -> dict[str, float]:
    """Return the speed by each clock."""
    started = {name: clock() for name, clock in CLOCKS.items()}
    tokens = side()
    return {name: tokens / (clock() - started[name]) for name, clock in CLOCKS.items()}


def evaluated(sampler: Sampler, prompts: Sequence[Prompt], params: SamplingParams) -> int:
    """Evaluate as `rlvr eval --out` does, and return the tokens."""
    with tempfile.TemporaryDirectory() as directory:
        partial = PartialResult(Path(directory) / "rows.jsonl", Fingerprint(), params.samples)

        def on_group(group: Group) -> None:
            partial.add({group.prompt.problem.id: group.rollouts})

        groups = sample_groups(sampler, prompts, params, 0, on_group)
    return sum(len(r.completion.token_ids) for group in groups for r in group.rollouts)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--lengths", type=int, nargs="+", default=[24, 384])
    parser.add_argument("--eval", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    policy = load_model(args.model)
    card = present_card() if default_device() == "cuda" else None
    precision = precision_on(card, "auto")
    engine = VllmEngine(policy.model, len(policy.tokenizer), (), 1024, 0.5, precision)
    problems = load_problems("chains", "train", limit=args.prompts).problems
    longest = max(args.lengths)
    law = (0.6, 0.95) if args.eval else (1.0, 1.0)
    prompts, _ = render_prompts(problems, policy.tokenizer, "plain", policy.context, longest)
    ids: Any = [{"prompt_token_ids": list(prompt.token_ids)} for prompt in prompts]

    with Verifier(format="think_answer") as verifier:
        sampler = Sampler(engine, policy.tokenizer, verifier)
        for length in args.lengths:
            params = SamplingParams(args.samples, length, *law)
            seeds = [response_seed(0, "bench", draw) for draw in range(len(prompts))]
            alike_params = [engine.request(params, seed) for seed in seeds]
            bare_params = import_vllm().SamplingParams(
                n=args.samples,
                max_tokens=length,
                temperature=law[0],
                top_p=law[1],
                ignore_eos=True,
                detokenize=False,
            )

            def ours(params: Any = params, seeds: Any = seeds) -> int:
                if args.eval:
                    return evaluated(sampler, prompts, params)
                groups = sampler.judge(prompts, sampler.stream(prompts, params, seeds))
                return sum(len(r.completion.token_ids) for g in groups for r in g.rollouts)

            def bare(settings: Any) -> Callable[[], int]:
                def generate() -> int:
                    outputs = engine.llm.generate(ids, settings, use_tqdm=False)
                    return sum(len(c.token_ids) for o in outputs for c in o.outputs)

                return generate

            sides = {"ours": ours, "same": bare(alike_params)}
            if not args.eval:
                sides["plain"] = bare(bare_params)
            for side in sides.values():
                side()
            rounds = []
            for number in range(args.rounds):
                order = list(sides) if number % 2 else list(reversed(sides))
                rounds.append({side: tokens_per_second(sides[side]) for side in order})
            print(f"{len(prompts)} x {args.samples} responses of {length} tokens")
            for clock in CLOCKS:
                for side in sides:
                    speed = statistics.median(figures[side][clock] for figures in rounds)
                    print(f"  {side:<6} {speed:10,.0f} tokens a second of {clock} (median)")
                for side in list(sides)[1:]:
                    ratios = sorted(times["ours"][clock] / times[side][clock] for times in rounds)
                    middle = statistics.median(ratios)
                    print(f"  ours / {side}: {middle:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")
    engine.close()


if __name__ == "__main__":
    main()
