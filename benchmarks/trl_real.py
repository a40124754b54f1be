"""Train the real model with TRL's GRPOTrainer, with the settings of `real_model.py`.

TRL_VENV/bin/python benchmarks/trl_real.py DIRECTORY --problems 'gym:…' [--seed 0]
rlvr eval 'gym:…' --model DIRECTORY --prompt plain --samples 1 --max-tokens 16 --out RESULT

The settings are those of recipes/smollm2.yaml: the problems, the plain prompt, our verifier's
verdict as the reward, ten updates on 64 responses each, the equations of Dr. GRPO, one thread.
TRL's environment needs trl 1.16, and reasoning-gym for problems that are made. DIRECTORY gets the
trained model. Stdout gets the processor's seconds of the whole process, and the generated tokens.
"""

import argparse
import json
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import smollm
import yaml
from trl_alike import ALIKE

ROOT = Path(__file__).parents[1]
RECIPE = yaml.safe_load((ROOT / "recipes" / "smollm2.yaml").read_text(encoding="utf-8"))
PROMPTS, GROUP = RECIPE["rollout"]["prompts"], RECIPE["rollout"]["samples"]
MAX_TOKENS = RECIPE["rollout"]["max_tokens"]
MICRO = 16
"""Responses in one pass: 16 x 64 tokens with the prompt, which equals the recipe's micro_tokens."""


def config(directory: Path, steps: int, **settings: object) -> Any:
    """Return TRL's configuration of the recipe: the equations of Dr. GRPO, passes of equal size."""
    from trl import GRPOConfig

    return GRPOConfig(
        **ALIKE,
        output_dir=str(directory / "trl"),
        loss_type="dr_grpo",
        scale_rewards="none",
        per_device_train_batch_size=MICRO,
        gradient_accumulation_steps=PROMPTS * GROUP // MICRO,
        num_generations=GROUP,
        max_completion_length=MAX_TOKENS,
        temperature=RECIPE["rollout"]["temperature"],
        learning_rate=RECIPE["optim"]["lr"],
        lr_scheduler_type="constant",
        weight_decay=0.1,
        max_steps=steps,
        **settings,
    )


def train(
    directory: Path,
    model: str,
    problems: list,
    seed: int,
    shuffle: bool = True,
    callbacks: Sequence[object] = (),
) -> int:
    """Train, write the model, and return the number of generated tokens. Without `shuffle` the
    problems are taken in their order."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOTrainer

    from verifiers import Verdict, verify

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    sampled = [0]

    def rewards(completions: list, completion_ids: list, answer: list[str], **_: object) -> list:
        """Return +1 for a right answer that was not cut off, else -1."""
        sampled[0] += sum(map(len, completion_ids))
        earned = []
        for completion, ids, gold in zip(completions, completion_ids, answer, strict=True):
            is_cut_off = ids[-1] != tokenizer.eos_token_id
            verification = verify(completion[0]["content"], gold, truncated=is_cut_off)
            earned.append(1.0 if verification.verdict is Verdict.CORRECT else -1.0)
        return earned

    rows = [
        {"prompt": [{"role": "user", "content": problem.problem}], "answer": problem.answer}
        for problem in problems
    ]
    args = config(directory, RECIPE["steps"], seed=seed, shuffle_dataset=shuffle)
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    GRPOTrainer(
        model=policy,
        reward_funcs=rewards,
        args=args,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        callbacks=list(callbacks),
    ).train()
    policy.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return sampled[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--problems", required=True)
    parser.add_argument("--model", help="a directory; none: the one of smollm.py")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from rlvr_cli.data.problems import load_problems

    problems = list(load_problems(args.problems, "train").problems)
    model = args.model or str(smollm.cached_model())
    tokens = train(args.directory, model, problems, args.seed)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"cpu_seconds": used.ru_utime + used.ru_stime, "tokens": tokens}))


if __name__ == "__main__":
    main()
