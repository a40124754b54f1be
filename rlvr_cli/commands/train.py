"""`rlvr train`, once its settings are resolved."""

import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlvr_cli.checkpoint import save_checkpoint
from rlvr_cli.commands.common import (
    refuse_existing,
    say_figures,
    say_template,
    warn_of_bad_golds,
    warn_of_unjudged,
)
from rlvr_cli.config import Config, changed_cells
from rlvr_cli.display import Display, draw_curves, step_note
from rlvr_cli.evaluate import Evaluation
from rlvr_cli.figures import run_figures
from rlvr_cli.jsonl import write_jsonl_line
from rlvr_cli.problems import ProblemSet, load_problems
from rlvr_cli.session import Session, answer_format, open_session, prompts_for
from rlvr_cli.sources import has_split
from rlvr_cli.tracking import Run, default_directory
from rlvr_cli.trainer import Trainer
from rlvr_cli.types import Prompt

_SHORT = 60


def train(config: Config, out: Path | None, display: Display) -> None:
    """The whole of `rlvr train`. Raises UserError for anything wrong with the input."""
    started = time.monotonic()
    directory = out or default_directory(config.algo, config.data.source)
    refuse_existing(directory)
    problems = _training_problems(config)
    chosen = {
        "prompt": config.data.prompt or problems.prompt,
        "verifier": answer_format(problems, config.data),
    }
    data = config.data.model_copy(update=chosen)
    config = config.model_copy(update={"data": data})
    with open_session(config, training=True) as session:
        held_out = _held_out_prompts(config, session)
        prompts = prompts_for(problems, session.policy, config, config.rollout.max_tokens)
        warn_of_bad_golds([*prompts, *held_out], session, display)
        say_template(prompts, session, display)
        display.say("policy", f"{config.model}: {session.description}")
        display.say("problems", f"{len(prompts)} of {problems.name}; {len(held_out)} held out")
        display.say("algorithm", _algorithm_line(config))
        display.say("optimizer", _optimizer_line(config))
        trainer = Trainer(config, session, prompts, held_out)
        run = Run(directory, config.model_copy(update={"threads": session.threads}))
        display.say("run", f"{directory}")
        _train(trainer, run, display, started)


def _train(trainer: Trainer, run: Run, display: Display, started: float) -> None:
    """Measure, train, measure again, and say how it went."""
    before = _measured(trainer, run, display, "before")
    history: list[dict[str, Any]] = []
    interrupted = False
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with display.progress("training", trainer.config.steps) as bar:
            for metrics in trainer.train_steps(run):
                history.append(metrics)
                bar.tick(step_note(metrics))
                if not sys.stdout.isatty():
                    write_jsonl_line(sys.stdout, metrics)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        model = save_checkpoint(run.directory, len(history), trainer.session.policy, trainer.config)
    after = None if interrupted else _measured(trainer, run, display, "after")
    minutes = (time.monotonic() - started) / 60
    curves = draw_curves(history)
    summary = {
        "steps": len(history),
        "minutes": round(minutes, 3),
        "before": before and before.as_json(),
        "after": after and after.as_json(),
        "model": str(model.relative_to(run.directory)),
        "figures": run_figures(history),
    }
    run.write_summary(summary, curves)
    display.print_curves(curves)
    say_figures(run_figures(history), trainer.figures.peaks.source, display)
    _say_outcome(trainer, history, display)
    if before and after:
        change = f"{before.pass_at_1:.3f} before, {after.pass_at_1:.3f} after training"
        display.result("pass@1", f"{change} ({after.settings})")
    done = "interrupted after" if interrupted else "done:"
    display.result("run", f"{done} {len(history)} steps, {minutes:.2f} minutes; {run.directory}")
    source = trainer.config.eval.source or trainer.config.data.source
    problems = source if trainer.held_out else "PROBLEMS.jsonl"
    display.say("next", f"rlvr eval {problems} --model {run.directory}")
    question = trainer.prompts[0].problem.problem
    if len(question) <= _SHORT:
        display.say("", f"rlvr sample --model {run.directory} {shlex.quote(question)}")
    if interrupted:
        raise KeyboardInterrupt


def _say_outcome(trainer: Trainer, history: Sequence[dict[str, Any]], display: Display) -> None:
    """Plain words where a run learned nothing, skipped steps, or stopped early."""
    steps = len(history)
    short = sum(metrics["no_update"] == "batch not full" for metrics in history)
    without_signal = sum(metrics["no_update"] == "no signal" for metrics in history)
    cap = trainer.config.algorithm.max_gen_batches
    if trainer.stopped:
        display.warn(f"stopped at step {steps} (algorithm.on_cap): see the next line")
    if short:
        display.warn(
            f"{short} of {steps} steps made no update: {cap} generation batches did not fill the "
            "batch with mixed groups (algorithm.max_gen_batches)"
        )
    if without_signal < steps or not steps:
        if without_signal:
            display.warn(f"{without_signal} of {steps} steps had no mixed group and no update")
        return
    verdicts: Counter[str] = Counter()
    for metrics in history:
        verdicts.update(metrics["verdicts"])
    listed = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    display.warn(
        f"no group gave a signal in {steps} steps: in each, all responses were right or all "
        f"were wrong ({listed}). The policy is unchanged. Take easier or harder problems, a "
        "stronger model, more samples a problem (-n), or longer responses (--max-tokens)"
    )


def _measured(trainer: Trainer, run: Run, display: Display, when: str) -> Evaluation | None:
    if not trainer.held_out:
        return None
    groups, evaluation = trainer.measure()
    run.write_rollouts(f"held-out-{when}", groups)
    display.say("pass@1", f"{evaluation.pass_at_1:.3f} {when} training ({evaluation.settings})")
    warn_of_unjudged(evaluation, display)
    return evaluation


def _training_problems(config: Config) -> ProblemSet:
    return load_problems(
        config.data.source,
        config.data.split or "train",
        limit=config.data.limit,
        skip_bad=config.data.skip_bad,
        root=config.data.root,
    )


def _held_out_prompts(config: Config, session: Session) -> list[Prompt]:
    """The problems of the measurement; none where the source has no test split or trains on it."""
    source = config.eval.source or config.data.source
    own_test = config.eval.source is None and (
        config.data.split == "test" or not has_split(source, "test")
    )
    if config.eval.limit == 0 or own_test:
        return []
    problems = load_problems(
        source,
        "test",
        limit=config.eval.limit,
        skip_bad=config.data.skip_bad,
        root=config.data.root,
    )
    return prompts_for(problems, session.policy, config, config.rollout.max_tokens)


def _algorithm_line(config: Config) -> str:
    changed = changed_cells(config)
    listed = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in changed.items())
    return f"{config.algo}: {config.algorithm}; changed: {listed or 'nothing'}"


def _optimizer_line(config: Config) -> str:
    rollout, optim, updates = config.rollout, config.optim, config.algorithm.updates
    return (
        f"{config.steps} steps of {rollout.prompts} problems x {rollout.samples} samples, at most "
        f"{rollout.max_tokens} tokens, temperature {rollout.temperature:g}; {updates} "
        f"update{'s' if updates > 1 else ''} a step, learning rate {optim.lr:g}"
    )
