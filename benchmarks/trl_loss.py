"""Put the same responses into our update and into TRL's, and compare gradients and weights.

    TRL_VENV/bin/python benchmarks/trl_loss.py DIRECTORY --model DIR [--problems 'gym:…']

Samples one batch as recipes/smollm2.yaml does, with our engine, pays it by our verifier, and takes
one update of Dr. GRPO on it from the same weights: with our `Updater`, and with TRL's GRPOTrainer,
whose `_generate` returns our tokens. Everything else there is TRL's own: masks, advantages, loss,
clipping of the gradient, AdamW. Float32, one thread. DIRECTORY takes TRL's files. Prints the cosine
of the two gradients after clipping, their norms, and the change of the weights on both sides.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import additions
import torch
from torch import Tensor
from trl_real import GROUP, MAX_TOKENS, PROMPTS, RECIPE, config

sys.path.insert(0, str(Path(__file__).parents[1]))
from rlvr_cli.algorithm.advantage import with_advantages
from rlvr_cli.algorithm.choices import ALGORITHMS
from rlvr_cli.algorithm.samples import to_samples
from rlvr_cli.core.types import Group, Problem, Rollout, SamplingParams
from rlvr_cli.data.problems import load_problems
from rlvr_cli.data.prompts import render_prompts
from rlvr_cli.model.loading import LoadedModel, load_model
from rlvr_cli.model.policy import Policy
from rlvr_cli.model.settings import OptimConfig
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
from rlvr_cli.training.scoring import add_logprobs
from rlvr_cli.training.update import Updater
from verifiers import Verdict, verify

TEMPERATURE = RECIPE["rollout"]["temperature"]
LR = RECIPE["optim"]["lr"]


@dataclass(frozen=True)
class Moved:
    """What one update did to a model, each over all its weights as one vector."""

    gradient: Tensor
    """After it was clipped to the norm 1."""
    change: Tensor
    """New weights minus old ones."""


def vector(parameters: list[Tensor]) -> Tensor:
    """Join tensors to one vector, in float64."""
    return torch.cat([parameter.detach().flatten().double() for parameter in parameters])


def sampled_groups(model: LoadedModel, problems: list[Problem], seed: int) -> list[Group]:
    """Sample and pay a group for each problem."""
    prompts, _ = render_prompts(problems, model.tokenizer, "plain", 2048, MAX_TOKENS)
    engine = TransformersEngine(model.model, len(model.tokenizer), model.stop_ids, 1024)
    params = SamplingParams(GROUP, MAX_TOKENS, TEMPERATURE)
    token_ids = [prompt.token_ids for prompt in prompts]
    seeds = [seed * len(prompts) + place for place in range(len(prompts))]
    groups = []
    for index, completions in engine.generate(token_ids, params, seeds):
        rollouts = []
        for sample, completion in enumerate(completions):
            text = model.tokenizer.decode(completion.token_ids, skip_special_tokens=True)
            is_cut_off = completion.finish_reason == "length"
            verification = verify(text, prompts[index].problem.answer, truncated=is_cut_off)
            reward = 1.0 if verification.verdict is Verdict.CORRECT else -1.0
            rollouts.append(
                Rollout.of(prompts[index], sample, completion, text, verification, reward)
            )
        groups.append(Group(prompts[index], tuple(rollouts), 0))
    return sorted(groups, key=lambda group: problems.index(group.prompt.problem))


def ours(model: LoadedModel, groups: list[Group]) -> Moved:
    """Take our update."""
    algo = ALGORITHMS["dr_grpo"].decided(computes_alike=True, rewards_verdict=True)
    policy = Policy(model.model, len(model.tokenizer), TEMPERATURE)
    optim = OptimConfig(lr=LR, warmup_steps=0, micro_tokens=RECIPE["optim"]["micro_tokens"])
    updater = Updater(policy, None, algo, optim, MAX_TOKENS, steps=1)
    samples = to_samples(groups, algo, MAX_TOKENS, 0)
    add_logprobs(samples, algo, optim.micro_tokens, policy)
    samples = with_advantages(samples, algo, 0.0)
    weights = list(model.model.parameters())
    before = vector(weights)
    updater.update(samples, 1, 0)
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    return Moved(vector(gradients), vector(weights) - before)


def trl(directory: Path, path: str, groups: list[Group]) -> Moved:
    """Take TRL's update on the same tokens."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOTrainer

    tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left")
    policy = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    by_text = {group.prompt.problem.problem: group for group in groups}
    weights = list(policy.parameters())
    before = vector(weights)
    gradients: list[Tensor] = []

    class Replayed(GRPOTrainer):
        """Takes our tokens where it would sample."""

        def _generate(self, prompts: list) -> tuple:
            prompt_ids = []
            completion_ids = []
            texts = []
            number: dict[str, int] = {}
            for prompt in prompts:
                text = prompt[-1]["content"]
                place = number.get(text, 0)
                number[text] = place + 1
                rollout = by_text[text].rollouts[place]
                prompt_ids.append(list(by_text[text].prompt.token_ids))
                completion_ids.append(list(rollout.completion.token_ids))
                texts.append([{"role": "assistant", "content": rollout.text}])
            return prompt_ids, completion_ids, None, texts, None, {}, None, None

    class Keep(TrainerCallback):
        """Keeps the gradient that AdamW takes."""

        def on_pre_optimizer_step(self, *_: object, **__: object) -> None:
            gradients.append(vector([w.grad for w in weights if w.grad is not None]))

    def paid(prompts: list, completions: list, **_: object) -> list[float]:
        """Return the rewards of our rollouts."""
        earned = []
        for prompt, completion in zip(prompts, completions, strict=True):
            rollouts = by_text[prompt[-1]["content"]].rollouts
            text = completion[0]["content"]
            earned.append(next(r.reward for r in rollouts if r.text == text))
        return earned

    rows = [{"prompt": [{"role": "user", "content": text}]} for text in by_text]
    Replayed(
        model=policy,
        reward_funcs=paid,
        args=config(directory, steps=1),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        callbacks=[Keep()],
    ).train()
    return Moved(gradients[0], vector(weights) - before)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--problems", help="a problem set; none: the additions")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.problems:
        problems = list(load_problems(args.problems, "train").problems)
    else:
        rows = additions.problems()["train"]
        problems = [
            Problem(str(number), str(row["problem"]), str(row["answer"]))
            for number, row in enumerate(rows)
        ]
    first = args.seed * PROMPTS
    model = load_model(args.model, on_cpu=True)
    groups = sampled_groups(model, problems[first : first + PROMPTS], args.seed)
    is_right = [rollout.reward == 1 for group in groups for rollout in group.rollouts]
    us = ours(model, groups)
    them = trl(args.directory, args.model, groups)
    figures = {
        "responses": len(is_right),
        "right": sum(is_right),
        "cosine of the gradients": cosine(us.gradient, them.gradient),
        "norms": [float(us.gradient.norm()), float(them.gradient.norm())],
        "cosine of the changes": cosine(us.change, them.change),
        "root mean square of the changes": [rms(us.change), rms(them.change)],
        "largest changes": [float(us.change.abs().max()), float(them.change.abs().max())],
        "root mean square of their difference": rms(us.change - them.change),
    }
    print(json.dumps(figures, indent=1))


def cosine(a: Tensor, b: Tensor) -> float:
    """Return the cosine of the angle between two vectors."""
    return float(a @ b / (a.norm() * b.norm()))


def rms(values: Tensor) -> float:
    """Return the root mean square."""
    return float(values.square().mean().sqrt())


if __name__ == "__main__":
    main()
