"""Messages and output files that several commands share."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rlvr_cli.algorithm.reward import NO_SIGNAL
from rlvr_cli.console.display import Display, measured
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import writing
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import Prompt
from rlvr_cli.evaluation.measure import Evaluation
from rlvr_cli.rollout.session import NO_TEMPLATE, Session, unreadable_golds
from verifiers import Verifier

_SHORT, _SHOWN = 60, 5


def in_words(found: Mapping[str, Any] | None) -> str:
    """Return pass@1 with its interval, and cons@k, of a measurement."""
    found = found or {}
    if not found.get("interval"):
        return measured(found.get("pass@1"))
    low, high = found["interval"]
    agreed, k = found["cons@k"], found["samples"]
    cons = "" if agreed is None or k == 1 else f", cons@{k} {agreed:.3f}"
    return f"{found['pass@1']:.3f} [{low:.3f}, {high:.3f}]{cons}"


def warn_of_unjudged(evaluation: Evaluation, display: Display) -> None:
    """Warn of responses that pass@1 leaves out, if any."""
    unjudged = sum(evaluation["verdicts"].get(verdict, 0) for verdict in NO_SIGNAL)
    if unjudged:
        display.warn(
            f"{plural(unjudged, 'response')} could not be judged (timeout or unreadable gold "
            "answer); pass@1 leaves them out"
        )


def warn_of_bad_golds(prompts: Sequence[Prompt], judge: Verifier, display: Display) -> None:
    """Warn of the first gold answers that the judge cannot read; their responses never count."""
    bad = unreadable_golds(prompts, judge)
    for problem in bad[:_SHOWN]:
        name, gold = problem.id[:_SHORT], (problem.answer or "")[:_SHORT]
        display.warn(f"problem {name}: the gold answer {gold!r} cannot be read")
    if len(bad) > _SHOWN:
        display.warn(f"… and {len(bad) - _SHOWN} more gold answers")


def say_template(prompts: Sequence[Prompt], session: Session, display: Display) -> None:
    """Warn of a missing chat template, or report one that opens <think> by itself."""
    if session.policy.tokenizer.chat_template is None:
        display.warn(NO_TEMPLATE)
    elif prompts and prompts[0].think_open:
        display.say("template", "opens <think> by itself; responses are judged as if they began so")


def say_throughput(figures: Mapping[str, Any], peaks: str, display: Display) -> None:
    """Report the speed of a whole run as far as it was measured; when verbose, how near it came to
    the machine's limits."""

    def shown(key: str, form: str) -> str:
        return "-" if figures[key] is None else format(figures[key], form)

    def share(key: str) -> str:
        is_above = figures[key] is None and figures["machine_busy"]
        return f"{key} {'machine busy' if is_above else shown(key, '.1%')}"

    speed = [
        words.format(shown(key, form))
        for key, form, words in (
            ("tokens_per_second_rollout", ",.0f", "rollout {} tokens/s"),
            ("tokens_per_second_update", ",.0f", "update {} tokens/s"),
            ("signal_share", ".0%", "{} of the sampled tokens gave a signal"),
            ("memory_peak_gib", ".2f", "peak memory {} GiB"),
        )
        if figures[key] is not None
    ]
    if speed:
        display.say("speed", ", ".join(speed))
    if display.verbose:
        display.say(
            "machine",
            f"{share('roof_gen')} (the least time that this machine can sample in, over the time "
            f"it took), {share('mfu')} (the same of the update), {share('roof_step')} (of the "
            f"whole step); peaks by {peaks}; engine and trainer differ by at most "
            f"{shown('mismatch_max', '.1e')} nats a token",
        )


def refuse_existing(out: Path | None) -> None:
    """Raise UserError if `out` exists."""
    if out is not None and out.exists():
        raise UserError(f"--out {out}: it exists already; name another or remove it")


def opened(out: Path | None) -> Any:
    """Open the destination of response rows: a new file, else stdout."""
    if out is None:
        return nullcontext(sys.stdout)
    with writing(f"--out {out}"):
        return out.open("x", encoding="utf-8")
