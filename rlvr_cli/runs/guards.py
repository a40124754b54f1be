"""Detect in a run's metrics that it is failing. Pure functions of the steps so far."""

import math
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from statistics import median

from rlvr_cli.algorithm.reward import MAJORITY
from rlvr_cli.config.sections import GuardsConfig
from rlvr_cli.core.errors import Finding
from rlvr_cli.core.step_figures import History, StepFigures, Value
from rlvr_cli.evaluation.estimators import mean
from rlvr_cli.training.update import ROUNDING
from verifiers import Verdict

MORE_SIGNAL = "take easier or harder problems, a stronger model, more samples (-n) or --max-tokens"
MATH_EARNS_NOTHING = "what trains is another reward than math, on wrong responses alone"
REJECTS_LESS = (
    "widen its bounds, or leave algorithm.importance_correction out, whose default rejects nothing"
)
_WINDOW = 3
"""Steps over which a warning averages, so that a single odd step does not raise it."""
_USUAL = 5
"""Steps whose median is the usual gap. It follows the entropy, which changes as a run learns."""
_GAP_DEVIATION = 1.0
"""Of one token's gap, as a share of the mean: 0.75 of a normal one, 0.95 of a 135M model's in
bfloat16 (`benchmarks/precision.py`)."""
_MOSTLY_RIGHT = 0.9
"""pass@1 from which low entropy is not called a collapse: the policy may be sure of its tokens."""


def check(history: History, config: GuardsConfig) -> list[Finding]:
    """Return the findings of the newest step, one line each. Errors stop the run.

    A warning is given when its condition begins to hold, and not repeated while it lasts.
    """
    step = history[-1].step
    warned_before = dict(_warnings(history[:-1], config))
    findings = [
        Finding(f"step {step}: {text}", is_error=True) for text in _reasons_to_stop(history, config)
    ]
    for name, text in _warnings(history, config):
        if name not in warned_before:
            findings.append(Finding(f"step {step}: {text}"))
    return findings


def _reasons_to_stop(history: History, config: GuardsConfig) -> Iterator[str]:
    """Yield a text for each condition that has lasted too many steps for the run to go on."""
    silent = _in_a_row(history, _is_silent)
    if silent >= config.no_signal_steps:
        yield f"no signal for {silent} steps: {MORE_SIGNAL}, or raise guards.no_signal_steps"
    skipped = _in_a_row(history, lambda figures: bool(figures.update.updates_skipped))
    if skipped >= config.not_finite_steps:
        yield (
            f"loss or gradient was not finite in {skipped} steps in a row; lower --lr, or go back "
            "to an earlier checkpoint with --model"
        )


def _warnings(history: History, config: GuardsConfig) -> Iterator[tuple[str, str]]:
    """Yield a name and a text with its remedy for each condition that holds at the newest step."""
    if history and history[-1].update.updates_skipped:
        yield (
            "not finite",
            "the loss or the gradient is not finite, so the update was skipped; lower --lr if it "
            "comes again (guards.not_finite_steps)",
        )
    cut_off = _recent(history, lambda figures: figures.sampled.cut_off_share)
    if cut_off is not None and cut_off > config.cut_off_share:
        yield (
            "cut off",
            f"{cut_off:.0%} of the responses are cut off; raise --max-tokens "
            "(guards.cut_off_share)",
        )
    newest = history[-_WINDOW:]
    has_right = any(
        figures.batch.no_update or figures.sampled.verdicts.get(Verdict.CORRECT)
        for figures in newest
    )
    if (
        len(newest) == _WINDOW
        and not has_right
        and any(figures.sampled.verdicts for figures in newest)
        and newest[-1].sampled.rewards
    ):
        yield "none right", f"no response is right: {MATH_EARNS_NOTHING}: {MORE_SIGNAL}"
    share = _recent(history, lambda figures: figures.sampled.rewards.get(f"{MAJORITY}/share"))
    right_share = _recent(history, _majority_right)
    right_at_first = _recent(history[::-1], _majority_right)
    has_grown = right_share is not None and right_share >= (right_at_first or 0.0)
    if share is not None and share > config.majority_share and not has_grown:
        fall = "" if right_share is None else f", and its right share fell to {right_share:.0%}"
        yield (
            "majority",
            f"the majority has {share:.0%} of the responses{fall}: the policy agrees with "
            "itself and learns no more; stop here, or lower --lr (guards.majority_share)",
        )
    rejected = history[-1].batch.rejected_share if history else None
    if rejected is not None and rejected > config.rejected_share:
        yield (
            "rejected",
            f"the correction rejects {rejected:.0%} of the responses, which do not train; "
            f"{REJECTS_LESS} (guards.rejected_share)",
        )
    growth = _gap_growth(history, config.gap_growth)
    if growth is not None:
        yield (
            "gap",
            f"engine and trainer differ by {history[-1].update.mismatch:.2g} nats a token, "
            f"{growth:.1f} times as much as in the steps before: the engine may have sampled with "
            "stale or incomplete weights; if it lasts, stop and run again with --engine "
            "transformers (guards.gap_growth)",
        )
    entropy = _recent(history, lambda figures: figures.sampled.sampled_entropy)
    if entropy is None:  # an older run, or responses that were not sampled
        entropy = _recent(history, lambda figures: figures.update.entropy)
    right = _recent(history, lambda figures: figures.sampled.pass_at_1) or 0.0
    if entropy is not None and entropy < config.min_entropy and right < _MOSTLY_RIGHT:
        clips = _recent(history, lambda figures: figures.update.clip_fraction)
        remedy = "raise algorithm.surrogate.high" if clips else "set algorithm.entropy_coef"
        yield (
            "entropy",
            f"entropy has collapsed to {entropy:.2g} nats a token, with {right:.0%} right; lower "
            f"--lr or {remedy} (guards.min_entropy)",
        )
    # A teacher may be far away at first: a policy that comes nearer does not run away.
    first = next((figures.update.ref_kl for figures in history if figures.update.ref_kl), 0.0)
    for other, least, value in (
        ("the policy that sampled", 0.0, lambda figures: figures.update.approx_kl),
        ("the policy that sampled", 0.0, lambda figures: figures.update.approx_kl_after),
        ("the reference policy", first, lambda figures: figures.update.ref_kl),
    ):
        kl = _recent(history, value)
        if kl is not None and kl > config.max_kl and kl >= least:
            yield (
                "kl",
                f"KL to {other} is {kl:.2g} nats a token and running away; lower --lr or "
                "algorithm.epochs, or raise algorithm.kl.coef (guards.max_kl)",
            )
            break
    verdicts = [figures.sampled.verdicts for figures in history[-_WINDOW:]]
    judged = max(1, sum(sum(counts.values()) for counts in verdicts))
    late = sum(counts.get(Verdict.TIMEOUT, 0) for counts in verdicts) / judged
    if len(verdicts) == _WINDOW and late > config.timeout_share:
        yield (
            "timeouts",
            f"the verifier ran out of time on {late:.0%} of the responses, which do not train; "
            "leave such problems out (guards.timeout_share)",
        )


def _gap_growth(history: History, limit: float) -> float | None:
    """Return how many times larger the newest gap between engine and trainer is than the median of
    those before, if it is beyond the limit.

    A mean over few tokens is beyond it by chance, so three standard errors are added. Return None
    if the newest step has no gap, or none but rounding.
    """
    gaps = []
    tokens = []
    for figures in history[-1 - _USUAL :]:
        if figures.update.mismatch is not None:
            gaps.append(figures.update.mismatch)
            tokens.append(figures.update.mismatch_tokens or math.inf)
    if len(gaps) < 2 or history[-1].update.mismatch is None or gaps[-1] <= ROUNDING:
        return None
    growth = gaps[-1] / max(ROUNDING, median(gaps[:-1]))
    error = _GAP_DEVIATION * math.sqrt(1 / tokens[-1] + 1 / sum(tokens[:-1]))
    return growth if growth > limit + 3 * error else None


def _is_silent(figures: StepFigures) -> bool:
    """Return whether no group of a step had a signal."""
    return bool(figures.batch.no_update and not figures.sampled.mixed_share)


def _majority_right(figures: StepFigures) -> float | None:
    """Return the share of the problems whose majority is right."""
    return figures.sampled.rewards.get(f"{MAJORITY}/right")


def _in_a_row(history: History, holds: Callable[[StepFigures], bool]) -> int:
    """Count how many steps in a row the condition has held, up to the newest."""
    return sum(1 for _ in takewhile(holds, reversed(history)))


def _recent(history: History, value: Value) -> float | None:
    """Average over the last steps that have the figure. Return None before there are enough."""
    values = (value(figures) for figures in reversed(history))
    newest = list(islice((number for number in values if number is not None), _WINDOW))
    if len(newest) < _WINDOW:
        return None
    return mean(newest)
