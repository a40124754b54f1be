"""Train Qwen2.5-Coder-0.5B-Instruct on GSM8K with one thread: `rlvr train`, or TRL's GRPOTrainer.

    python benchmarks/gsm8k.py ours RUN --model MODEL --data DATA [--resume RUN …]
    TRL_VENV/bin/python benchmarks/gsm8k.py trl DIRECTORY --model MODEL --data DATA --minutes 60
    rlvr eval gsm8k --model RUN … (as the notebook has it)

Ours is recipes/qwen2.5-0.5b-gsm8k.yaml as it is, with any further options of rlvr train. TRL's has
the same model, problems, prompt, reward, adapter, learning rate and sizes, and its own loss,
advantage, sampling and defaults. Groups of equal rewards train too, since TRL drops no group. Both
count the seconds of the processor, which hardly change with what else runs. TRL's environment needs
trl 1.16 and peft. At the end of each step it writes the adapter to DIRECTORY/adapter and the
seconds, tokens and mean reward to DIRECTORY/steps.jsonl. After the given minutes, loading not
counted, it stops and writes DIRECTORY/model, for `rlvr eval --model`. DATA holds gsm8k_train.jsonl
and gsm8k_test.jsonl.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import yaml
from trl_alike import ALIKE

ROOT = Path(__file__).parents[1]
FILE = ROOT / "recipes" / "qwen2.5-0.5b-gsm8k.yaml"
RECIPE = yaml.safe_load(FILE.read_text())
PROMPTS, GROUP = RECIPE["rollout"]["prompts"], RECIPE["rollout"]["samples"]
UPDATES = 4  # mini_batches of dapo
MICRO = 2
"""Responses in one forward pass: TRL keeps the logits of all of them, 151,936 a token, and a thread
gains nothing from more."""


def ours(directory: Path, model: str, data: Path, seed: int, options: list[str]) -> None:
    """Train in this process, with the processor's time as the clock."""
    time.perf_counter = time.process_time  # type: ignore[assignment]
    from rlvr_cli.cli.main import app

    fixed = ["--config", str(FILE), "--out", str(directory), "--engine", "transformers"]
    fixed += ["--model", model, "--set", f"data.root={data}", "--set", "threads=1"]
    fixed += ["--seed", str(seed)]
    app(["train", *([] if "--resume" in options else fixed), *options])


def rewards(texts: list[str], answers: list[str]) -> list[float]:
    """Return +1 for a right answer in a box, else -1, by our own verifier."""
    from verifiers import Verdict, verify

    verdicts = (
        verify(text, gold, format="boxed").verdict
        for text, gold in zip(texts, answers, strict=True)
    )
    return [1.0 if verdict is Verdict.CORRECT else -1.0 for verdict in verdicts]


def trl(directory: Path, model: str, problems: list, seed: int, minutes: float) -> None:
    """Train with TRL until the time is over, and write the figures of each step."""
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from rlvr_cli.config.built_in import TEMPLATES

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    prompts = [
        TEMPLATES[RECIPE["data"]["prompt"]].replace("{problem}", item.problem) for item in problems
    ]
    data = Dataset.from_list(
        [
            {"prompt": [{"role": "user", "content": prompt}], "answer": item.answer}
            for prompt, item in zip(prompts, problems, strict=True)
        ]
    )
    sampled = [0]
    newest_rewards = list[float]()

    def score(completions: list, completion_ids: list, answer: list[str], **_: object) -> list:
        sampled[0] += sum(map(len, completion_ids))
        newest_rewards[:] = rewards(
            [completion[0]["content"] for completion in completions], answer
        )
        return newest_rewards

    class Watch(TrainerCallback):
        """Writes a line per step, and stops once the time is over."""

        def on_train_begin(self, *_: object, **kwargs: object) -> None:
            self.started = time.process_time()

        def on_step_end(self, _: object, state: object, control: object, **kwargs: object) -> None:
            if state.global_step % UPDATES:
                return
            seconds = time.process_time() - self.started
            row = {"step": state.global_step // UPDATES, "seconds": seconds, "tokens": sampled[0]}
            row["reward_mean"] = sum(newest_rewards) / len(newest_rewards)
            with (directory / "steps.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
            kwargs["model"].save_pretrained(directory / "adapter")
            control.should_training_stop = seconds > 60 * minutes

    responses_per_update = PROMPTS * GROUP // UPDATES
    args = GRPOConfig(
        **ALIKE,
        output_dir=str(directory / "trl"),
        seed=seed,
        per_device_train_batch_size=MICRO,
        gradient_accumulation_steps=responses_per_update // MICRO,
        steps_per_generation=PROMPTS * GROUP // MICRO,
        num_generations=GROUP,
        max_completion_length=RECIPE["rollout"]["max_tokens"],
        temperature=RECIPE["rollout"]["temperature"],
        learning_rate=RECIPE["optim"]["lr"],
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=RECIPE["optim"]["warmup_steps"] * UPDATES,
        weight_decay=RECIPE["optim"]["weight_decay"],
        max_steps=1_000_000,
    )
    adapter = LoraConfig(
        r=RECIPE["lora"]["rank"],
        lora_alpha=32,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
        reward_funcs=score, args=args, train_dataset=data, processing_class=tokenizer,
        callbacks=[Watch()], peft_config=adapter,
    )  # fmt: skip
    trainer.train()
    trainer.model.merge_and_unload().save_pretrained(directory / "model")
    tokenizer.save_pretrained(directory / "model")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("side", choices=["ours", "trl"])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60, help="of TRL's run")
    args, options = parser.parse_known_args()
    sys.path.insert(0, str(ROOT))
    if args.side == "ours":
        ours(args.directory, args.model, args.data, args.seed, options)
        return
    from rlvr_cli.data.problems import load_problems

    args.directory.mkdir(parents=True)
    problems = list(load_problems(str(args.data / "gsm8k_train.jsonl"), "train").problems)
    trl(args.directory, args.model, problems, args.seed, args.minutes)


if __name__ == "__main__":
    main()
