"""Report how a run went, in words."""

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlvr_cli.console.display import Display
from rlvr_cli.core.text import plural
from rlvr_cli.training.trainer import Trainer

_SHORT = 60


def warn_of_outcome(trainer: Trainer, history: Sequence[dict[str, Any]], display: Display) -> None:
    """Warn if a run learned nothing, or skipped steps."""
    steps = len(history)
    short = sum(metrics["no_update"] == "batch not full" for metrics in history)
    without_signal = sum(metrics["no_update"] == "no signal" for metrics in history)
    refill = trainer.config.algorithm.filter
    if short and refill and not trainer.stopped:
        display.warn(
            f"{short} of {steps} steps made no update: {refill.max_gen_batches} generation batches "
            "did not fill the batch with mixed groups (algorithm.filter.max_gen_batches)"
        )
    cause = "nothing set right responses apart from wrong ones"
    if any(metrics["mixed_share"] for metrics in history if metrics["no_update"] == "no signal"):
        cause = (
            "all responses of a group had one reward, right or wrong (reward/… in metrics.jsonl)"
        )
    if without_signal < steps or not steps:
        if without_signal:
            display.warn(f"{without_signal} of {steps} steps had no signal: {cause}")
        return
    verdicts: Counter[str] = Counter()
    for metrics in history:
        verdicts.update(metrics["verdicts"])
    listed = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    display.warn(
        f"no signal in {plural(steps, 'step')}: {cause} "
        f"({listed}), so the policy has learned nothing of them. Take easier or harder problems, a "
        "stronger model, more samples a problem (-n), or longer responses (--max-tokens)"
    )


def say_what_is_next(trainer: Trainer, directory: Path, display: Display) -> None:
    """Print the commands that come after a run."""
    data, named = trainer.config.data, trainer.config.eval.sources
    sources = named or (data.sources if trainer.held_out else ("PROBLEMS.jsonl",))
    words = ["rlvr", "eval", *sources, "--model", str(directory)]
    words += ["--set", f"data.root={data.root}"] if data.root else []
    words += [word for pair in data.fields.items() for word in ("--field", "=".join(pair))]
    words += ["--skip-bad"] if data.skip_bad else []
    display.command("next", shlex.join(words))
    question = trainer.prompts[0].problem.problem
    if len(question) <= _SHORT:
        words = ["rlvr", "sample", "--model", str(directory), question]
        display.command("", shlex.join(words))
    display.command("", shlex.join(["rlvr", "show", str(directory)]))
