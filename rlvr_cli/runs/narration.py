"""Write the messages that several commands share, and those at the end of a run."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvr_cli.console.display import Display, measured
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import NO_SIGNAL, Prompt
from rlvr_cli.evaluation.measure import Evaluation
from rlvr_cli.runs.guards import MORE_SIGNAL
from rlvr_cli.setup.prompts import NO_TEMPLATE, unreadable_golds
from rlvr_cli.setup.session import Session
from rlvr_cli.training.trainer import Trainer
from verifiers import Verifier

# Characters of the name of a problem, or of a gold answer, that are shown.
_SHORT = 60
_SHOWN_GOLDS = 5
# Characters of a question that fits a command line.
_LONGEST_QUESTION = 60


def format_figures(figures: Mapping[str, Any] | None) -> str:
    """Format pass@1 with its interval, and cons@k, of a measurement.

    `figures` is None if nothing was measured.
    """
    figures = figures or {}
    if not figures.get("interval"):
        return measured(figures.get("pass@1"))
    low, high = figures["interval"]
    text = f"{figures['pass@1']:.3f} [{low:.3f}, {high:.3f}]"
    consensus = figures["cons@k"]
    k = figures["samples"]
    if consensus is not None and k > 1:
        text += f", cons@{k} {consensus:.3f}"
    return text


def warn_of_unjudged(evaluation: Evaluation, display: Display) -> None:
    """Warn of responses that pass@1 leaves out, if any."""
    unjudged = sum(evaluation["verdicts"].get(verdict, 0) for verdict in NO_SIGNAL)
    if unjudged:
        responses = plural(unjudged, "response")
        display.warn(f"{responses} could not be judged (timeout, bad gold); pass@1 leaves them out")


def warn_of_bad_golds(prompts: Sequence[Prompt], judge: Verifier, display: Display) -> None:
    """Warn of the first gold answers that the judge cannot read.

    The responses to these problems never count.
    """
    problems = unreadable_golds(prompts, judge)
    for problem in problems[:_SHOWN_GOLDS]:
        gold = (problem.answer or "")[:_SHORT]
        display.warn(f"problem {problem.id[:_SHORT]}: the gold answer {gold!r} cannot be read")
    if len(problems) > _SHOWN_GOLDS:
        display.warn(f"… and {len(problems) - _SHOWN_GOLDS} more gold answers")


def say_policy(name: str, session: Session, display: Display) -> None:
    """Say which policy is sampled, on which device, and with which versions of the libraries."""
    display.say("policy", f"{name}: {session.description}")
    display.say("versions", session.versions)


def say_template(prompts: Sequence[Prompt], session: Session, display: Display) -> None:
    """Warn of a missing chat template, or report one that opens <think> by itself."""
    if session.policy.tokenizer.chat_template is None:
        display.warn(NO_TEMPLATE)
    elif prompts and prompts[0].think_open:
        display.say("template", "opens <think> by itself; responses are judged as if they began so")


def say_throughput(figures: Mapping[str, Any], display: Display) -> None:
    """Print the measured speed of a run.

    With `--verbose`, also print MFU and how far engine and trainer differ.
    """
    words = {
        "tokens_per_second_rollout": "rollout {:,.0f} tokens/s",
        "tokens_per_second_update": "update {:,.0f} tokens/s",
        "signal_share": "{:.0%} of the sampled tokens gave a signal",
        "memory_peak_gib": "peak memory {:.2f} GiB",
    }
    if display.verbose:
        words["mfu"] = "the update at {:.1%} of the GPU's peak (mfu)"
        words["mismatch_max"] = "engine and trainer differ by at most {:.1e} nats a token"
    texts = [form.format(figures[key]) for key, form in words.items() if figures[key] is not None]
    if texts:
        display.say("speed", ", ".join(texts))


def warn_of_outcome(trainer: Trainer, history: Sequence[dict[str, Any]], display: Display) -> None:
    """Warn if a run learned nothing, or skipped steps."""
    steps = len(history)
    not_full = sum(metrics["no_update"] == "batch not full" for metrics in history)
    group_filter = trainer.config.algorithm.filter
    if not_full and group_filter and not trainer.stopped:
        display.warn(
            f"{not_full} of {steps} steps made no update: {group_filter.max_gen_batches} "
            "generation batches did not fill the batch (algorithm.filter.max_gen_batches)"
        )
    silent = [metrics for metrics in history if metrics["no_update"] == "no signal"]
    cause = "nothing set right responses apart from wrong ones"
    if any(metrics["mixed_share"] for metrics in silent):
        cause = "all responses of a group had one reward, right or wrong"
    if 0 < len(silent) < steps:
        display.warn(f"{len(silent)} of {steps} steps had no signal: {cause}")
    elif silent:
        verdicts: Counter[str] = Counter()
        for metrics in silent:
            verdicts.update(metrics["verdicts"])
        listing = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        display.warn(f"no signal in {plural(steps, 'step')}: {cause} ({listing}): {MORE_SIGNAL}")


def say_what_is_next(trainer: Trainer, directory: Path, display: Display) -> None:
    """Print the commands that a user may give after a run."""
    data = trainer.config.data
    sources = trainer.config.eval.sources
    if not sources:
        sources = data.sources if trainer.held_out else ("PROBLEMS.jsonl",)
    words = ["rlvr", "eval", *sources, "--model", str(directory)]
    if data.root:
        words += ["--set", f"data.root={data.root}"]
    for name, field in data.fields.items():
        words += ["--field", f"{name}={field}"]
    if data.skip_bad:
        words.append("--skip-bad")
    display.command("next", shlex.join(words))
    question = trainer.prompts[0].problem.problem
    if len(question) <= _LONGEST_QUESTION:
        words = ["rlvr", "sample", "--model", str(directory), question]
        display.command("", shlex.join(words))
    display.command("", shlex.join(["rlvr", "show", str(directory)]))
