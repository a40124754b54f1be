"""Time an update that passes only the rows with a gradient, and one that passes all rows.

    python benchmarks/rows_with_gradient.py --model DIR
    python benchmarks/rows_with_gradient.py --model DIR --algo gspo    # with the pass before it

Samples one batch as recipes/smollm2.yaml does. Half of the responses to the first `--signal`
prompts get a reward, and the others nothing. Trains on it both ways, by turns, in this process, in
float32 with one thread. The learning rate is 0, so that each update begins with the same weights.
Seconds are the processor's, medians of `--passes` updates each way. A step is the sampling, which
is the same for both, and the update with the pass for old log-probabilities, if there is one.
Gradients are those of the last mini-batch.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import additions
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))
from rlvr_cli.algorithm import loss
from rlvr_cli.algorithm.advantage import with_advantages
from rlvr_cli.algorithm.choices import ALGORITHMS, Algorithm
from rlvr_cli.algorithm.samples import Samples, to_samples
from rlvr_cli.core.step_figures import UpdateFigures
from rlvr_cli.core.types import Group, Problem, Rollout, SamplingParams
from rlvr_cli.data.prompts import render_prompts
from rlvr_cli.model.loading import LoadedModel, load_model
from rlvr_cli.model.policy import Policy
from rlvr_cli.model.settings import OptimConfig
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
from rlvr_cli.training import update
from rlvr_cli.training.scoring import add_logprobs
from rlvr_cli.training.update import Updater

SEED = 0
MICRO_TOKENS = 1024
TEMPERATURE = 0.7
Chooser = Callable[[Samples, Algorithm], Tensor]


@dataclass(frozen=True)
class Trained:
    """What one update did."""

    seconds: float
    figures: UpdateFigures
    tokens: int
    """Tokens of the responses that it passed."""
    gradient: Tensor
    """Of all weights, as one vector."""


def every_row(samples: Samples, algo: Algorithm) -> Tensor:
    """Choose all rows, as updates did before."""
    return torch.ones(len(samples), dtype=torch.bool)


def sampled_groups(model: LoadedModel, args: argparse.Namespace) -> list[Group]:
    """Sample the batch, and reward every second response to the first prompts."""
    rows = additions.problems()["train"][: args.prompts]
    problems = [Problem(str(n), str(row["problem"]), None) for n, row in enumerate(rows)]
    prompts, _ = render_prompts(problems, model.tokenizer, "plain", 2048, args.max_tokens)
    engine = TransformersEngine(model.model, len(model.tokenizer), model.stop_ids, 1024)
    params = SamplingParams(args.samples, args.max_tokens, TEMPERATURE)
    token_ids = [prompt.token_ids for prompt in prompts]
    groups = []
    for index, completions in engine.generate(token_ids, params, list(range(args.prompts))):
        rollouts = []
        for sample, completion in enumerate(completions):
            reward = float(index < args.signal and sample % 2 == 0)
            rollouts.append(Rollout.of(prompts[index], sample, completion, "", None, reward))
        groups.append(Group(prompts[index], tuple(rollouts), 0))
    return groups


def trained(updater: Updater, groups: list[Group], chooser: Chooser) -> Trained:
    """Take the passes of one step, with rows as `chooser` says."""
    algo = updater.algo
    samples = to_samples(groups, algo, updater.max_tokens, 0)
    busy = time.process_time()
    with mock.patch.object(update, "has_gradient", chooser):
        add_logprobs(samples, algo, MICRO_TOKENS, updater.policy)
        updater.measure_mismatch(samples, 1)
        samples = with_advantages(samples, algo, 0.0)
        figures = updater.update(samples, 1, SEED)
    seconds = time.process_time() - busy
    gradients = [p.grad.flatten() for p in updater.policy.model.parameters() if p.grad is not None]
    tokens = sum(response for _, response in samples.passed_lengths)
    return Trained(seconds, figures, tokens, torch.cat(gradients))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="a model directory")
    parser.add_argument("--algo", default="dr_grpo", choices=ALGORITHMS)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--signal", type=int, default=2, help="prompts whose rewards differ")
    parser.add_argument("--max-tokens", type=int, default=16)
    parser.add_argument("--passes", type=int, default=3, help="updates each way")
    args = parser.parse_args()
    algo = ALGORITHMS[args.algo].decided(computes_alike=True, rewards_verdict=True)
    if not algo.learns_by_advantage_alone or algo.has_reference_model:
        sys.exit(f"--algo {args.algo}: its loss reads all rows, or a reference model")
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    model = load_model(args.model, on_cpu=True)
    busy = time.process_time()
    groups = sampled_groups(model, args)
    sampling = time.process_time() - busy
    policy = Policy(model.model, len(model.tokenizer), TEMPERATURE)
    # A clip that is never reached, so that gradients can be compared as they are.
    optim = OptimConfig(lr=0.0, warmup_steps=0, grad_clip=1e9, micro_tokens=MICRO_TOKENS)
    updater = Updater(policy, None, algo, optim, args.max_tokens, steps=1)
    trained(updater, groups, every_row)  # makes the optimizer's moments and fills caches
    before: list[Trained] = []
    after: list[Trained] = []
    for _ in range(args.passes):
        before.append(trained(updater, groups, every_row))
        after.append(trained(updater, groups, loss.has_gradient))
    rows = args.prompts * args.samples
    print(
        f"{args.algo}, {args.model}: {args.signal * args.samples} of {rows} rows have a gradient, "
        f"responses of up to {args.max_tokens} tokens; torch {torch.__version__}, "
        f"{model.model.dtype}, one thread\n"
    )
    print("| passes | tokens passed | update, s | step, s | gradient's norm |")
    print("| ------ | ------------: | --------: | ------: | --------------: |")
    medians = []
    for name, updates in (("all rows", before), ("rows with a gradient", after)):
        seconds = statistics.median(one.seconds for one in updates)
        medians.append(seconds)
        last = updates[-1]
        print(
            f"| {name} | {last.tokens} | {seconds:.2f} | {sampling + seconds:.2f} | "
            f"{last.figures.grad_norm:.7g} |"
        )
    first = before[-1].gradient
    second = after[-1].gradient
    distance = float((first - second).double().norm() / first.double().norm())
    print(
        f"\nratio of the update {medians[1] / medians[0]:.2f}, of the step "
        f"{(sampling + medians[1]) / (sampling + medians[0]):.2f}; the gradients differ by "
        f"{distance:.1e} of their norm"
    )


if __name__ == "__main__":
    main()
