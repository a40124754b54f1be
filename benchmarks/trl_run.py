"""Train with TRL's GRPOTrainer on the built-in problems: same policy, reward and sizes as ours.

TRL_VENV/bin/python benchmarks/trl_run.py DIRECTORY --our-python PY [--seed 0] [--steps 90] [--all]

32 problems x 8 responses a step, four updates on them, learning rate 1e-4 with the same warm-up, no
KL term, TRL's own loss and advantage. One thread, seconds of the processor. The weights are written
to DIRECTORY after some of the steps and measured by `rlvr eval` as ours are, once training is over.
One JSON object on stdout has the figures as `claims.py` keeps them. The problems are those of the
levels 1 to 8, or with --all those of the default run.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from trl_alike import ALIKE

ROOT = Path(__file__).parents[1]
TINY = ROOT / "rlvr_cli" / "tiny"
KNOWN = "level=1,2,3,4,5,6,7,8"
PROMPTS = 32
GROUP = 8
UPDATES = 4
MAX_TOKENS = 80
WARMUP = 5


def rewards(completions: list, answer: list[str], **_: object) -> list[float]:
    """Return +1 for a right answer in the format, else -1, by our own verifier."""
    from verifiers import Verdict, verify

    texts = [completion[0]["content"] for completion in completions]
    verifications = (
        verify(text, gold, format="think_answer") for text, gold in zip(texts, answer, strict=True)
    )
    return [
        1.0 if verification.verdict is Verdict.CORRECT else -1.0 for verification in verifications
    ]


def train(directory: Path, seed: int, steps: int, every: int, problems: list) -> list[dict]:
    """Train, save every few steps, and return the figures of each step."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(TINY, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    data = Dataset.from_list(
        [
            {"prompt": [{"role": "user", "content": problem.problem}], "answer": problem.answer}
            for problem in problems
        ]
    )
    rows: list[dict] = []
    sampled = [0]

    def score(completion_ids: list, **named: object) -> list[float]:
        sampled[0] += sum(map(len, completion_ids))
        return rewards(**named)

    class Watch(TrainerCallback):
        """Counts the processor's seconds of the updates, without those of saving."""

        busy = 0.0

        def on_step_begin(self, *args: object, **kwargs: object) -> None:
            self.started = time.process_time()

        def on_step_end(self, args: object, state: object, *_: object, **kwargs: object) -> None:
            self.busy += time.process_time() - self.started
            if state.global_step % UPDATES:
                return
            step = state.global_step // UPDATES
            rows.append({"step": step, "seconds": self.busy, "tokens": sampled[0]})
            if step % every == 0:
                model.save_pretrained(directory / str(step))
                tokenizer.save_pretrained(directory / str(step))

    args = GRPOConfig(
        **ALIKE,
        output_dir=str(directory / "trl"),
        seed=seed,
        per_device_train_batch_size=PROMPTS * GROUP // UPDATES,
        gradient_accumulation_steps=1,
        steps_per_generation=UPDATES,
        num_generations=GROUP,
        max_completion_length=MAX_TOKENS,
        temperature=1.0,
        learning_rate=1e-4,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=WARMUP * UPDATES,
        weight_decay=0.0,
        max_steps=steps * UPDATES,
    )
    GRPOTrainer(
        model=model, reward_funcs=score, args=args, train_dataset=data,
        processing_class=tokenizer, callbacks=[Watch()],
    ).train()  # fmt: skip
    return rows


def measure(
    python: str, model: str, out: Path, filters: list[str]
) -> tuple[float, dict[str, float]]:
    """Return pass@1 on the held-out problems, in all and by level, as our own runs measure it."""
    command = [python, "-m", "rlvr_cli", "eval", "chains", "--model", model, "--quiet"]
    command += ["--by", "level", "--prompt", "plain", "--max-tokens", str(MAX_TOKENS)]
    command += ["--set", "data.answer_format=think_answer", "--out", str(out), *filters]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (entry,) = json.loads((out / "report.json").read_text())["results"]
    levels = {level: part["pass@k"]["1"]["value"] for level, part in entry["by"]["level"].items()}
    return entry["pass@k"]["1"]["value"], levels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--our-python", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from rlvr_cli.data.problems import load_problems

    levels_filter = None if args.all else KNOWN
    problems = load_problems("chains", "train", where=levels_filter).problems
    rows = train(args.directory, args.seed, args.steps, args.every, list(problems))
    filters = ["--set", f"data.where={levels_filter}"] if levels_filter else []
    start = {"step": 0, "seconds": 0.0, "tokens": 0}
    points = []
    for row in [start, *(row for row in rows if row["step"] % args.every == 0)]:
        model = str(args.directory / str(row["step"])) if row["step"] else "tiny"
        out = args.directory / f"result-{row['step']}"
        value, levels = measure(args.our_python, model, out, filters)
        points.append({**row, "pass@1": value, "by_level": levels})
    print(json.dumps({"measured": points, "steps": rows}))


if __name__ == "__main__":
    main()
