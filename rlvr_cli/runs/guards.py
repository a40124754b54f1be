"""Guards: detect in a run's metrics that it is failing. Pure functions of the steps so far."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlvr_cli.config import GuardsConfig
from rlvr_cli.core.errors import Finding
from rlvr_cli.evaluation.metrics import mean

History = Sequence[Mapping[str, Any]]
"""The metrics of each step, oldest first."""
Guard = Callable[[History, GuardsConfig], str | None]
"""A check of the newest step: what is wrong and its remedy, or None."""

MORE_SIGNAL = (
    "take easier or harder problems, a stronger model, more samples a problem (-n), or longer "
    "responses (--max-tokens)"
)
_WINDOW = 3
_MOSTLY_RIGHT = 0.9


def check(history: History, config: GuardsConfig) -> list[Finding]:
    """Return the findings of the newest step, one line each.

    A warning is given when its condition begins to hold and not again while it lasts.
    """
    step = history[-1]["step"]
    found = [Finding(text, True) for guard in STOPPING if (text := guard(history, config))]
    for guard in WARNING:
        if (text := guard(history, config)) and not guard(history[:-1], config):
            found.append(Finding(text))
    return [Finding(f"step {step}: {finding.text}", finding.is_error) for finding in found]


def no_signal(history: History, config: GuardsConfig) -> str | None:
    """Detect many steps whose rewards told no response from another."""
    steps = _run_length(history, lambda row: row["no_update"] and not row["mixed_share"])
    if steps < config.no_signal_steps:
        return None
    return (
        f"no signal for {steps} steps: nothing set right responses apart from wrong ones; "
        f"{MORE_SIGNAL}, or wait longer (guards.no_signal_steps)"
    )


def not_finite(history: History, config: GuardsConfig) -> str | None:
    """Detect a loss or gradient that is not finite for a few steps; each was skipped."""
    steps = _run_length(history, lambda row: (row.get("updates_skipped") or 0) > 0)
    if steps < config.not_finite_steps:
        return None
    return (
        f"loss or gradient was not finite in {steps} steps in a row, whose updates were skipped; "
        "lower --lr, or go back to an earlier checkpoint with --model"
    )


def skipped_updates(history: History, config: GuardsConfig) -> str | None:
    """Detect that the newest step was skipped for a loss or gradient that is not finite."""
    if not history or not history[-1].get("updates_skipped", 0):
        return None
    return (
        "the loss or the gradient is not finite, so the update was skipped; after "
        f"{config.not_finite_steps} such steps in a row the run stops; lower --lr if it comes again"
    )


def cut_off(history: History, config: GuardsConfig) -> str | None:
    """Detect that most responses reach the length limit."""
    share = _recent(history, "cut_off_share")
    if share is None or share <= config.cut_off_share:
        return None
    return f"{share:.0%} of the responses are cut off; raise --max-tokens (guards.cut_off_share)"


def entropy_collapsed(history: History, config: GuardsConfig) -> str | None:
    """Detect that the entropy has collapsed without the policy being right."""
    entropy, right = _recent(history, "entropy"), _recent(history, "pass@1")
    if entropy is None or entropy >= config.min_entropy or (right or 0.0) >= _MOSTLY_RIGHT:
        return None
    clips = _recent(history, "clip_fraction")
    remedy = "raise algorithm.surrogate.high" if clips else "set algorithm.entropy_coef"
    return (
        f"entropy has collapsed to {entropy:.2g} nats a token, with {right or 0.0:.0%} right: "
        f"nothing new is tried; lower --lr or {remedy} (guards.min_entropy)"
    )


def kl_running_away(history: History, config: GuardsConfig) -> str | None:
    """Detect that the policy diverges from the one that sampled, or from the reference."""
    for key, other in (
        ("approx_kl", "the policy that sampled"),
        ("approx_kl_after", "the policy that sampled"),
        ("ref_kl", "the reference policy"),
    ):
        kl = _recent(history, key)
        if kl is not None and kl > config.max_kl:
            return (
                f"KL to {other} is {kl:.2g} nats a token and running away; lower --lr, "
                "algorithm.epochs or mini_batches, or raise algorithm.kl.coef (guards.max_kl)"
            )
    return None


def verifier_timeouts(history: History, config: GuardsConfig) -> str | None:
    """Detect that the verifier times out on many responses, which then cannot train."""
    recent = [row["verdicts"] for row in history[-_WINDOW:]]
    judged = sum(sum(verdicts.values()) for verdicts in recent)
    share = sum(verdicts.get("timeout", 0) for verdicts in recent) / max(1, judged)
    if len(history) < _WINDOW or share <= config.timeout_share:
        return None
    return (
        f"the verifier ran out of time on {share:.0%} of the responses, which do not train; look "
        "at their rows in rollouts/ and leave such problems out (guards.timeout_share)"
    )


STOPPING: tuple[Guard, ...] = (no_signal, not_finite)
WARNING: tuple[Guard, ...] = (
    skipped_updates,
    cut_off,
    entropy_collapsed,
    kl_running_away,
    verifier_timeouts,
)


def _run_length(history: History, holds: Callable[[Mapping[str, Any]], Any]) -> int:
    """Count how many steps in a row the condition has held, up to the newest."""
    return sum(1 for _ in itertools.takewhile(holds, reversed(history)))


def _recent(history: History, key: str) -> float | None:
    """Average over the last steps that have the metric; None before there are enough."""
    values = (row[key] for row in reversed(history) if row.get(key) is not None)
    newest = list(itertools.islice(values, _WINDOW))
    return mean(newest) if len(newest) == _WINDOW else None
