"""Time one RL step of ours and one of TRL's GRPOTrainer: same model, problems, sizes, update.

    python benchmarks/trl_step.py --trl-python TRL_VENV/bin/python
    python benchmarks/trl_step.py --trl-python … --model DIR --prompts 2 --steps 3 --pairs 3

Both sides train the same model (the `tiny` policy, or a directory) on the CPU in float32 with one
thread: 16 problems x 8 responses unless told otherwise, the DAPO loss with equal clips, no
reference model, one AdamW update a batch of passes of at most --rows responses, the same reward (a
parity of the text, so that nearly every group has a signal) and no group filter. Two arms: every
response exactly 64 tokens long, or ended by its own end token (at most 64). The sides alternate as
processes of their own, each first in every other pair. The first step of each is dropped. Medians
of pairs are printed. Tokens a second of the processor's time hardly change with what else runs.

TRL lives in a virtual environment of its own (`pip install 'trl==1.16.*'`), never in ours.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

GROUP, MAX_TOKENS = 8, 64
ROOT = Path(__file__).parents[1]
TINY = ROOT / "rlvr_cli" / "tiny"


def reward(text: str) -> float:
    """Return a cheap reward that is mixed in nearly every group."""
    return 1.0 if (text.count("1") + text.count("4") + len(text)) % 2 else -1.0


@dataclass(frozen=True)
class Shape:
    """Holds the sizes that both sides run with."""

    model: Path
    prompts: int
    steps: int
    fixed: bool
    samples: int = GROUP
    max_tokens: int = MAX_TOKENS
    engine: str = "transformers"
    """What TRL samples with: this, or vLLM in its own process."""
    micro_rows: int = 16
    """The most responses of a pass. All of a step at once would be a matter of memory alone."""

    def questions(self) -> list[str]:
        """Return the same problems in the same order for both sides."""
        sys.path.insert(0, str(ROOT))
        from rlvr_cli.data import chains

        rows = list(chains.problems("train", self.prompts * self.steps, seed=0))
        return [str(row["problem"]) for row in rows]


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ours(shape: Shape) -> dict[str, list[float] | float]:
    sys.path.insert(0, str(ROOT))
    import torch

    from rlvr_cli.algorithm.advantage import with_advantages
    from rlvr_cli.algorithm.choices import ALGORITHMS
    from rlvr_cli.algorithm.objective import Clip
    from rlvr_cli.algorithm.samples import to_samples
    from rlvr_cli.core.types import Group, Problem, Rollout, SamplingParams
    from rlvr_cli.data.prompts import render_prompts
    from rlvr_cli.model.loading import load_model
    from rlvr_cli.model.policy import Policy
    from rlvr_cli.model.settings import OptimConfig
    from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
    from rlvr_cli.training.scoring import add_logprobs
    from rlvr_cli.training.update import Updater

    torch.set_num_threads(1)
    texts = shape.questions()
    imported = peak_mib()
    policy = load_model(str(shape.model))
    engine = TransformersEngine(
        policy.model, len(policy.tokenizer), (-1,) if shape.fixed else policy.stop_ids, 1024
    )
    prompts, _ = render_prompts(
        [Problem("", text, None) for text in texts], policy.tokenizer, "plain", 2048, MAX_TOKENS
    )
    algorithm = ALGORITHMS["dapo"].model_copy(update={"surrogate": Clip(high=0.2)})
    longest = max(len(prompt.token_ids) for prompt in prompts) + MAX_TOKENS
    optim = OptimConfig(
        lr=1e-6, weight_decay=0.0, warmup_steps=0, micro_tokens=shape.micro_rows * longest
    )
    learner = Policy(policy.model, len(policy.tokenizer), 1.0)
    updater = Updater(learner, None, algorithm, optim, MAX_TOKENS, shape.steps)
    params = SamplingParams(GROUP, MAX_TOKENS)
    seconds = []
    cpu = []
    tokens = []
    for step in range(shape.steps):
        started, busy = time.perf_counter(), time.process_time()
        first = step * shape.prompts
        batch = [prompt.token_ids for prompt in prompts[first : first + shape.prompts]]
        seeds = [1000 * (first + p) for p in range(shape.prompts)]
        groups = []
        for index, completions in engine.generate(batch, params, seeds):
            decoded = policy.tokenizer.batch_decode([list(c.token_ids) for c in completions])
            prompt = prompts[first + index]
            rollouts = [
                Rollout.of(prompt, sample, completion, text, None, reward(text))
                for sample, (completion, text) in enumerate(zip(completions, decoded, strict=True))
            ]
            groups.append(Group(prompt, tuple(rollouts), step))
        samples = to_samples(groups, algorithm, MAX_TOKENS, step)
        add_logprobs(samples, algorithm, optim.micro_tokens, learner)
        updater.update(with_advantages(samples, algorithm, 0.0), step + 1, seed=0)
        engine.sync_weights(policy.model.named_parameters())
        seconds.append(time.perf_counter() - started)
        cpu.append(time.process_time() - busy)
        tokens.append(int(samples.mask.sum()))
    return {
        "seconds": seconds[1:],
        "cpu": cpu[1:],
        "tokens": tokens[1:],
        "mib": peak_mib() - imported,
    }


def equal_passes(rows: int, limit: int) -> int:
    """Return the least number of passes of one size, each of at most `limit` rows."""
    return next(n for n in range(-(-rows // limit), rows + 1) if rows % n == 0)


def trl(shape: Shape) -> dict[str, list[float] | float]:
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    on_gpu = torch.cuda.is_available()
    torch.set_num_threads(torch.get_num_threads() if on_gpu else 1)
    texts = shape.questions()
    imported = peak_mib()
    tokenizer = AutoTokenizer.from_pretrained(shape.model, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(shape.model, dtype=torch.float32)
    data = Dataset.from_list([{"prompt": [{"role": "user", "content": text}]} for text in texts])
    seconds: list[float] = []
    cpu: list[float] = []
    tokens: list[int] = []
    rows = shape.prompts * shape.samples
    passes = equal_passes(rows, shape.micro_rows)

    def score(completions: list, completion_ids: list, **_: object) -> list[float]:
        tokens.append(sum(map(len, completion_ids)))
        return [reward(completion[0]["content"]) for completion in completions]

    class Timer(TrainerCallback):
        def on_step_begin(self, *args: object, **kwargs: object) -> None:
            self.started, self.busy = time.perf_counter(), time.process_time()

        def on_step_end(self, *args: object, **kwargs: object) -> None:
            seconds.append(time.perf_counter() - self.started)
            cpu.append(time.process_time() - self.busy)

    with tempfile.TemporaryDirectory() as directory:
        args = GRPOConfig(
            output_dir=directory,
            use_cpu=not on_gpu,
            bf16=on_gpu,
            gradient_checkpointing=on_gpu,
            use_vllm=shape.engine == "vllm",
            vllm_mode="colocate",
            vllm_gpu_memory_utilization=0.5,
            vllm_enable_sleep_mode=on_gpu,
            per_device_train_batch_size=rows // passes,
            gradient_accumulation_steps=passes,
            num_generations=shape.samples,
            max_completion_length=shape.max_tokens,
            generation_kwargs={"min_new_tokens": shape.max_tokens} if shape.fixed else None,
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            beta=0.0,
            num_iterations=1,
            learning_rate=1e-6,
            lr_scheduler_type="constant",
            max_grad_norm=1.0,
            loss_type="dapo",
            scale_rewards="group",
            max_steps=shape.steps,
            logging_strategy="no",
            report_to=[],
            save_strategy="no",
            shuffle_dataset=False,
            disable_tqdm=True,
            dataloader_num_workers=0,
        )
        trainer = GRPOTrainer(
            model=model, reward_funcs=score, args=args, train_dataset=data,
            processing_class=tokenizer, callbacks=[Timer()],
        )  # fmt: skip
        trainer.train()
    peak = torch.cuda.max_memory_reserved() / 2**20 if on_gpu else peak_mib() - imported
    return {
        "seconds": seconds[1:],
        "cpu": cpu[1:],
        "tokens": tokens[1 : shape.steps],
        "mib": peak,
    }


def run_side(python: str, side: str, shape: Shape) -> dict[str, float]:
    command = [python, __file__, "--side", side, *(["--fixed"] if shape.fixed else [])]
    command += ["--model", str(shape.model), "--prompts", str(shape.prompts)]
    command += ["--steps", str(shape.steps), "--rows", str(shape.micro_rows)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        sys.exit(f"{side} failed:\n{process.stderr[-3000:]}")
    figures = json.loads(process.stdout.splitlines()[-1])
    return {
        "tokens/s": sum(figures["tokens"]) / sum(figures["seconds"]),
        "tokens/cpu-s": sum(figures["tokens"]) / sum(figures["cpu"]),
        "step_s": statistics.median(figures["seconds"]),
        "MiB": figures["mib"],
        "tokens": sum(figures["tokens"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trl-python", help="python of a virtual environment with trl 1.16")
    parser.add_argument("--model", type=Path, default=TINY, help="a model directory")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=16, help="the most responses of a pass")
    parser.add_argument("--side", choices=["ours", "trl"])
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    if args.side:
        shape = Shape(args.model, args.prompts, args.steps, args.fixed, micro_rows=args.rows)
        print(json.dumps({"ours": ours, "trl": trl}[args.side](shape)))
        return
    pythons = {"ours": sys.executable, "trl": args.trl_python or sys.executable}
    for fixed in (True, False):
        pairs = []
        for pair in range(args.pairs):
            shape = Shape(args.model, args.prompts, args.steps, fixed, micro_rows=args.rows)
            order = list(pythons) if pair % 2 else list(reversed(pythons))
            by_side = {side: run_side(pythons[side], side, shape) for side in order}
            pairs.append(by_side)
            print(f"{'fixed' if fixed else 'natural'} pair {pair + 1}: {by_side}", flush=True)
        for figure in ("tokens/s", "tokens/cpu-s", "step_s", "MiB"):
            values = {side: statistics.median(p[side][figure] for p in pairs) for side in pythons}
            ratios = [p["ours"][figure] / p["trl"][figure] for p in pairs]
            print(
                f"{'fixed' if fixed else 'natural'} {figure}: ours {values['ours']:.4g}, "
                f"trl {values['trl']:.4g}, median ratio {statistics.median(ratios):.2f} "
                f"(range {min(ratios):.2f} to {max(ratios):.2f})"
            )


if __name__ == "__main__":
    main()
