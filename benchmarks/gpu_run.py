"""A whole training run with vLLM on one GPU, with a random model in the shape of a real one.

    python benchmarks/gpu_run.py --shape 1.5B --steps 6

It is `rlvr train --engine vllm` but for the verdicts: a random model is never right, so responses
are judged by the parity of their bytes, which gives nearly every group a signal. Speed, memory and
the agreement of engine and trainer are those of a real model of that shape whose responses are all
as long as --max-tokens. Prints a line of metrics a step and the figures of all but the first.
"""

import argparse
import dataclasses
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.data.problems import load_problems
from rlvr_cli.model.loading import TINY, model_directory
from rlvr_cli.rollout.plan import plan_for
from rlvr_cli.rollout.sampler import Sampler
from rlvr_cli.rollout.session import open_session, prompts_for
from rlvr_cli.training.throughput import run_throughput
from rlvr_cli.training.trainer import Trainer
from verifiers import Attempt, Verdict, Verification

SHAPES = {  # width, inner width, layers, heads, key heads
    "toy": (64, 128, 2, 2, 1),
    "0.5B": (896, 4864, 24, 14, 2),
    "1.5B": (1536, 8960, 28, 12, 2),
}
VOCABULARY = 151_936


class ByteParity:
    """A verdict that costs nothing and is mixed in nearly every group."""

    def verify_many(self, attempts: Sequence[Attempt]) -> list[Verification]:
        verdicts = (Verdict.CORRECT, Verdict.WRONG)
        return [
            Verification(verdicts[sum(attempt.response.encode()) % 2], None, True, "")
            for attempt in attempts
        ]


def write_model(shape: str, directory: Path) -> None:
    """A random model, with the built-in tokenizer and names for the ids that it does not have."""
    width, inner, layers, heads, kv_heads = SHAPES[shape]
    tokenizer = AutoTokenizer.from_pretrained(model_directory(TINY))
    tokenizer.save_pretrained(directory)
    path = directory / "tokenizer.json"
    content = json.loads(path.read_text())
    known = max(token["id"] for token in content["added_tokens"]) + 1
    vocabulary = content["model"]["vocab"]
    vocabulary.update({f"unused{number}": number for number in range(known, VOCABULARY)})
    path.write_text(json.dumps(content))
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(directory)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=SHAPES, default="1.5B")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=600)
    parser.add_argument("--gpu-share", type=float, default=0.5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        write_model(args.shape, Path(directory) / "model")
        settings = (
            *(f"model={directory}/model", "engine=vllm", f"steps={args.steps}"),
            *(f"rollout.prompts={args.prompts}", f"rollout.samples={args.samples}"),
            *(f"rollout.max_tokens={args.max_tokens}", f"rollout.gpu_share={args.gpu_share}"),
            *("data.prompt=plain", "optim.micro_tokens=16384"),
        )
        config = resolve(set_layer(settings))
        problems = load_problems("chains", "train", limit=1024)
        with open_session(plan_for(config, problems), training=True) as session:
            prompts = prompts_for(problems, session.policy, config, args.max_tokens)
            sampler = Sampler(session.engine, session.policy.tokenizer, ByteParity())
            session = dataclasses.replace(session, sampler=sampler)
            print(session.description)
            trainer = Trainer(session, prompts, [])
            history = []
            for result in trainer.train_steps():
                history.append(result.metrics)
                print(json.dumps(result.metrics), flush=True)
            print(json.dumps(run_throughput(history[1:]), indent=2))


if __name__ == "__main__":
    main()
