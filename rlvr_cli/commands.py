"""What `rlvr train`, `rlvr eval` and `rlvr sample` do, once their settings are resolved."""

import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TextIO

from rlvr_cli.checkpoint import save_checkpoint
from rlvr_cli.config import Config, changed_cells
from rlvr_cli.display import Display, draw_curves, show_response, step_note
from rlvr_cli.evaluate import Evaluation, evaluate, summarise
from rlvr_cli.problems import FILE_TYPES, ProblemSet, has_split, load_problems
from rlvr_cli.reward import NO_SIGNAL
from rlvr_cli.session import Session, open_session, prompts_for
from rlvr_cli.tracking import Run, default_directory, write_jsonl_line, write_rollouts
from rlvr_cli.trainer import Trainer
from rlvr_cli.types import Group, Problem, Prompt, SamplingParams, UserError

_SHORT = 60


def train(config: Config, out: Path | None, display: Display) -> None:
    """The whole of `rlvr train`. Raises UserError for anything wrong with the input."""
    started = time.monotonic()
    directory = out or default_directory(config.algo, config.data.source)
    _refuse_existing(directory)
    problems = _training_problems(config)
    data = config.data.model_copy(update={"prompt": config.data.prompt or problems.prompt})
    config = config.model_copy(update={"data": data})
    with open_session(config) as session:
        held_out = _held_out_prompts(config, session)
        prompts = prompts_for(problems, session.policy, config, config.rollout.max_tokens)
        _warn_of_bad_golds([*prompts, *held_out], session, display)
        display.say("policy", f"{config.model}: {session.description}")
        display.say("problems", f"{len(prompts)} of {problems.name}; {len(held_out)} held out")
        display.say("algorithm", _algorithm_line(config))
        display.say("optimizer", _optimizer_line(config))
        trainer = Trainer(config, session, prompts, held_out)
        run = Run(directory, config.model_copy(update={"threads": session.threads}))
        display.say("run", f"{directory}")
        _train(trainer, run, display, started)


def eval_(config: Config, out: Path | None, display: Display) -> None:
    """The whole of `rlvr eval`: rows to `out` or a pipe, figures to stderr."""
    problems = load_problems(
        config.data.source,
        config.data.split or "test",
        limit=config.data.limit,
        skip_bad=config.data.skip_bad,
    )
    _refuse_existing(out)
    with open_session(config) as session:
        prompts = prompts_for(problems, session.policy, config, config.rollout.max_tokens)
        _warn_of_bad_golds(prompts, session, display)
        display.say("policy", f"{config.model}: {session.description}")
        params = _eval_params(config)
        with display.progress("evaluating", len(prompts)) as bar:
            correct: list[float] = []

            def on_group(group: Group) -> None:
                correct.extend(float(rollout.is_correct) for rollout in group.rollouts)
                bar.tick(f"pass@1 {sum(correct) / len(correct):.3f}", print_note=False)

            groups = evaluate(session.sampler, prompts, params, config.seed, on_group)
    with _opened(out) as file:
        if file is not None:
            write_rollouts(file, groups)
    _show_evaluation(problems.name, summarise(groups, params), display)
    if out:
        display.say("rows", str(out))


def sample(config: Config, inputs: Sequence[str], out: Path | None, display: Display) -> None:
    """The whole of `rlvr sample`: readable on a terminal, JSONL in a pipe or in `out`."""
    sets = [_sample_problems(text, config) for text in inputs]
    problems = ProblemSet("sample", tuple(p for one in sets for p in one.problems), sets[0].prompt)
    _refuse_existing(out)
    with open_session(config) as session:
        prompts = prompts_for(problems, session.policy, config, config.rollout.max_tokens)
        display.say("policy", f"{config.model}: {session.description}")
        groups = evaluate(session.sampler, prompts, _eval_params(config), config.seed)
    with _opened(out) as file:
        for group in groups:
            if file is not None:
                write_rollouts(file, [group])
                continue
            for rollout in group.rollouts:
                display.say("problem", group.prompt.problem.problem)
                show_response(rollout)


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
    }
    run.write_summary(summary, curves)
    display.print_curves(curves)
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
    _warn_of_unjudged(evaluation, display)
    return evaluation


def _warn_of_unjudged(evaluation: Evaluation, display: Display) -> None:
    unjudged = sum(evaluation.verdicts.get(verdict, 0) for verdict in NO_SIGNAL)
    if unjudged:
        display.warn(
            f"{unjudged} responses could not be judged (timeout or unreadable gold answer); "
            "pass@1 leaves them out"
        )


def _warn_of_bad_golds(prompts: Sequence[Prompt], session: Session, display: Display) -> None:
    """Each gold answer that the verifier cannot read, once; its responses never train."""
    verifier = session.sampler.verifier
    for problem in (prompt.problem for prompt in prompts):
        if problem.answer is not None and not verifier.check_gold(problem.answer):
            gold = problem.answer[:_SHORT]
            display.warn(f"problem {problem.id}: the gold answer {gold!r} cannot be read")


def _show_evaluation(name: str, evaluation: Evaluation, display: Display) -> None:
    display.result("pass@1", f"{evaluation.pass_at_1:.4f} on {name} ({evaluation.settings})")
    display.say(
        "responses",
        f"format right {evaluation.format_share:.1%}, cut off {evaluation.cut_off_share:.1%}, "
        f"{evaluation.response_length:.1f} tokens on average",
    )
    counts = ", ".join(f"{count} {verdict}" for verdict, count in evaluation.verdicts.items())
    display.say("verdicts", counts)
    _warn_of_unjudged(evaluation, display)


def _training_problems(config: Config) -> ProblemSet:
    return load_problems(
        config.data.source,
        config.data.split or "train",
        limit=config.data.limit,
        skip_bad=config.data.skip_bad,
    )


def _held_out_prompts(config: Config, session: Session) -> list[Prompt]:
    """The problems of the measurement; none where the source has no test split or trains on it."""
    source = config.eval.source or config.data.source
    own_test = config.eval.source is None and (
        config.data.split == "test" or not has_split(source, "test")
    )
    if config.eval.limit == 0 or own_test:
        return []
    problems = load_problems(source, "test", limit=config.eval.limit, skip_bad=config.data.skip_bad)
    return prompts_for(problems, session.policy, config, config.rollout.max_tokens)


def _sample_problems(text: str, config: Config) -> ProblemSet:
    """Problems of a file or stdin, or the text itself as one; gold answers may be missing."""
    if text == "-" or text.endswith(FILE_TYPES):
        return load_problems(
            text,
            "test",
            limit=config.data.limit,
            skip_bad=config.data.skip_bad,
            need_answer=False,
        )
    if not text.strip():
        raise UserError("the prompt is empty; give a text, a .jsonl file, or - for stdin")
    return ProblemSet("prompt", (Problem("prompt", text, None),), "think_answer")


def _eval_params(config: Config) -> SamplingParams:
    return SamplingParams(
        config.eval.samples, config.rollout.max_tokens, config.eval.temperature, config.eval.top_p
    )


def _refuse_existing(out: Path | None) -> None:
    if out is not None and out.exists():
        raise UserError(f"--out {out}: it exists already; name another or remove it")


def _opened(out: Path | None) -> Any:
    """Where response rows go: a new file, else a piped stdout, else nowhere."""
    if out is None:
        return nullcontext(None if sys.stdout.isatty() else sys.stdout)
    try:
        file: TextIO = out.open("x", encoding="utf-8")
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written ({error.strerror})") from None
    return file


def _algorithm_line(config: Config) -> str:
    cells = config.algorithm.model_dump()
    row = ", ".join(f"{name} {value}" for name, value in cells.items())
    changed = changed_cells(config)
    listed = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in changed.items())
    return f"{config.algo}: {row}; changed: {listed or 'nothing'}"


def _optimizer_line(config: Config) -> str:
    rollout, optim = config.rollout, config.optim
    return (
        f"{config.steps} steps of {rollout.prompts} problems x {rollout.samples} samples, at most "
        f"{rollout.max_tokens} tokens, temperature {rollout.temperature:g}; {optim.updates} "
        f"update{'s' if optim.updates > 1 else ''} a step, learning rate {optim.lr:g}"
    )
