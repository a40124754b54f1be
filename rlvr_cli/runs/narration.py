"""Say what a run is going to do and what came of it, and what several commands say alike."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlvr_cli.algorithm.choices import without_ratio
from rlvr_cli.config import Config, overrides
from rlvr_cli.console.display import Display, measured
from rlvr_cli.console.tables import by_level
from rlvr_cli.core.signals import NO_SIGNALS, in_main_thread
from rlvr_cli.core.step_figures import History
from rlvr_cli.core.text import GIB, counts_in_words, plural
from rlvr_cli.core.types import Prompt
from rlvr_cli.data.problems import ProblemSet, warn_of_bad_golds
from rlvr_cli.evaluation.held_out import Measured, MeasuredSets
from rlvr_cli.runs.guards import MORE_SIGNAL
from rlvr_cli.runs.preflight import to_judge
from rlvr_cli.runs.summary import Best
from rlvr_cli.setup.session import Session
from rlvr_cli.training.throughput import RunThroughput
from rlvr_cli.training.trainer import Trainer

# Characters of a question that fits a command line.
_LONGEST_QUESTION = 60


def format_figures(figures: Measured | None) -> str:
    """Format pass@1 of a measurement with its interval, and cons@k. None means not measured."""
    if figures is None or figures.pass_at_1 is None or figures.interval is None:
        return measured(None if figures is None else figures.pass_at_1)
    low, high = figures.interval
    text = f"{figures.pass_at_1:.3f} [{low:.3f}, {high:.3f}]"
    if figures.cons_at_k is not None and figures.samples > 1:  # earlier versions stored cons@1
        text += f", cons@{figures.samples} {figures.cons_at_k:.3f}"
    return text


def warn_of_unjudged(figures: Measured, display: Display) -> None:
    """Warn of responses that pass@1 leaves out, if any."""
    if figures.unjudged:
        display.warn(
            f"{plural(figures.unjudged, 'response')} could not be judged (timeout, bad gold); "
            "pass@1 leaves them out"
        )


def announce_run(
    session: Session,
    problems: ProblemSet,
    prompts: Sequence[Prompt],
    held_out: Sequence[Prompt],
    display: Display,
) -> None:
    """Say what a run is going to do, and warn of problems that will not do what is asked."""
    config = session.plan.config
    algo = config.algorithm
    _say_models_and_rewards(session, display)
    judged = [prompt.problem for prompt in [*to_judge(prompts, config), *held_out]]
    warn_of_bad_golds(judged, session.sampler.verifier, display)
    texts = {prompt.problem.problem for prompt in prompts}
    shared = sum(prompt.problem.problem in texts for prompt in held_out)
    if shared:
        display.warn(
            f"{shared} of {len(held_out)} held-out problems are also trained on, so pass@1 on them "
            "says little; take another eval.source"
        )
    count = f"{len(prompts)} of {problems.name}; {len(held_out)} held out"
    if config.data.holdout is not None:
        count += f" by --holdout {config.data.holdout:g}"
    elif not held_out and config.eval.limit:
        count += " (--holdout 0.1 holds out a tenth)"
    if len(config.eval.sources) > 1:
        count += f" ({', '.join(config.eval.sources)})"
    if problems.fields_read:
        count += f"; {problems.fields_read}"
    display.say("problems", count)
    changes = (f"{name} {old} -> {new}" for name, (old, new) in overrides(config).items())
    display.say("algorithm", f"{config.algo}; changed: {', '.join(changes) or 'nothing'}")
    display.detail("", str(algo))
    note = without_ratio(algo, has_older_tokens=config.rollout.trains_on_older)
    if note:
        display.detail("", note)
    need = session.memory.needed(config).peak / GIB
    free = session.memory.machine.free / GIB
    display.say("takes", f"{_run_in_words(config)}; {need:.1f} of {free:.1f} GiB")
    display.detail("optimizer", _optimizer_in_words(config))
    partial = config.rollout.partial
    if partial is not None:
        end = "cut off" if partial.too_old == "cut" else "dropped"
        display.detail(
            "rounds",
            f"of {config.rollout.round_tokens} tokens a response; the unfinished go on after the "
            f"update, and are {end} after {plural(partial.age, 'update')}",
        )
    if config.rollout.ahead:
        place = "beside the update" if config.samples_beside else "before the update, in turn"
        display.detail(
            "ahead", f"the batch of the next step is sampled {place}, by the weights from before it"
        )
    if not config.computes_alike:
        display.detail(
            "numbers",
            f"the trainer computes in {config.optim.precision}, with weights in "
            f"{config.optim.weights}; the engine in {config.rollout.precision}",
        )


def _say_models_and_rewards(session: Session, display: Display) -> None:
    """Say which models a run trains and learns from, and what it rewards if not only the answer."""
    config = session.plan.config
    display.say("model", f"{config.model}: {session.description}")
    display.detail("", f"{type(session.policy.model).__name__}: {session.forward}")
    display.detail("versions", session.versions)
    if session.teacher is not None:
        display.say(
            "teacher",
            f"{config.teacher}: {type(session.teacher.model).__name__}: {session.teacher_forward}",
        )
    rewarder = session.rewarder
    if rewarder.config.functions != ("math",):
        notes = {}
        for term in rewarder.user_rewards:
            parts = [rewarder.sources[term.name][:8] or "its text is not known"]
            form = rewarder.forms[term.name]
            if "form" in form:
                parts.append(f"in {form}")
            if term.is_object:
                parts.append("runs in this process, without limits")
                if config.samples_beside:
                    parts.append("in a thread beside the update, in which signals do not work")
                elif not in_main_thread():
                    parts.append(NO_SIGNALS)
            notes[term.name] = f" ({', '.join(parts)})"
        terms = [f"{r.weight:g} x {r.name}{notes.get(r.name, '')}" for r in rewarder.config.terms]
        display.say("reward", " + ".join(terms))
    for name, function in config.algorithm.custom_functions.items():
        sha = config.algorithm.sources[name][:8]
        display.say(name, f"{function} ({sha}), in the trainer's process, without limits")


def _run_in_words(config: Config) -> str:
    """Return how many steps a run has, and of what."""
    rollout = config.rollout
    batch = f"{rollout.prompts} problems x {rollout.samples} responses"
    if config.algorithm.reads_responses:
        batch = f"{rollout.prompts} rows with their responses"
    return f"{plural(config.steps, 'step')} of {batch} of at most {rollout.max_tokens} tokens"


def _optimizer_in_words(config: Config) -> str:
    """Return how each step samples and updates."""
    algo = config.algorithm
    rollout = config.rollout
    responses = rollout.prompts * (1 if algo.reads_responses else rollout.samples)
    updates = algo.epochs * min(algo.mini_batches, responses)
    optim = config.optim
    warmup = f" after {plural(optim.warmup_steps, 'step')}" if optim.warmup_steps else ""
    return (
        f"temperature {rollout.temperature:g}; {plural(updates, 'update')} a step, learning rate "
        f"{optim.lr:g}{warmup}"
    )


def say_measured(sets: Mapping[str, Measured], moment: str, display: Display) -> None:
    """Print the figures of every held-out set, and warn of responses that they leave out."""
    for name, figures in sets.items():
        text = f"{format_figures(figures)} {moment} training ({figures.settings})"
        display.say("pass@1", f"{name}: {text}" if name else text)
        warn_of_unjudged(figures, display)


def say_results(
    before: MeasuredSets | None,
    after: MeasuredSets | None,
    best: Best | None,
    display: Display,
) -> None:
    """Print pass@1 of every held-out set before and after training, by level, and the best."""
    if before and after:
        for name, figures in after.by_name.items():
            change = (
                f"{format_figures(before.by_name.get(name))} before, {format_figures(figures)} "
                f"after training ({figures.settings})"
            )
            display.result("pass@1", f"{name}: {change}" if name else change)
        if after.by_level and before.by_level.keys() == after.by_level.keys():
            display.table(by_level(before.by_level, after.by_level))
    if best:
        display.say("best", f"pass@1 {best.pass_at_1:.3f} at checkpoints/step-{best.step}")


def say_throughput(figures: RunThroughput, display: Display) -> None:
    """Print the measured speed of a run. Verbose, add MFU and how engine and trainer differ."""
    rates = figures.rates
    words = [
        ("rollout {:,.0f} tokens/s", rates.tokens_per_second_rollout),
        ("update {:,.0f} tokens/s", rates.tokens_per_second_update),
        ("{:.0%} of the sampled tokens gave a signal", rates.signal_share),
        ("peak memory {:.2f} GiB", figures.memory_peak_gib),
    ]
    if display.verbose:
        words.append(("the update at {:.1%} of the GPU's peak (mfu)", figures.mfu))
        gap_text = "engine and trainer differ by at most {:.1e} nats a token"
        words.append((gap_text, figures.mismatch_max))
    texts = [form.format(value) for form, value in words if value is not None]
    if texts:
        display.say("speed", ", ".join(texts))


def warn_of_outcome(trainer: Trainer, history: History, display: Display) -> None:
    """Warn if a run learned nothing, or skipped steps."""
    steps = len(history)
    short = sum(figures.batch.no_update == "batch not full" for figures in history)
    refill = trainer.config.algorithm.filter
    if short and refill and not trainer.is_stopped:
        display.warn(
            f"{short} of {steps} steps made no update: {refill.max_gen_batches} generation batches "
            "did not fill the batch (algorithm.filter.max_gen_batches)"
        )
    silent = [figures for figures in history if figures.batch.no_update == "no signal"]
    cause = "nothing set right responses apart from wrong ones"
    if any(figures.sampled.mixed_share for figures in silent):
        cause = "all responses of a group had one reward, right or wrong"
    if 0 < len(silent) < steps:
        display.warn(f"{len(silent)} of {steps} steps had no signal: {cause}")
    elif silent:
        verdicts: Counter[str] = Counter()
        for figures in silent:
            verdicts.update(figures.sampled.verdicts)
        display.warn(
            f"no signal in {plural(steps, 'step')}: {cause} ({counts_in_words(verdicts)}): "
            f"{MORE_SIGNAL}"
        )


def say_what_is_next(trainer: Trainer, directory: Path, display: Display) -> None:
    """Print the commands that a user may give after a run."""
    data = trainer.config.data
    sources = trainer.config.eval.sources
    if not sources:
        sources = data.sources if trainer.held_out else ("PROBLEMS.jsonl",)
    words = ["rlvr", "eval", *sources, "--model", str(directory)]
    if data.root:
        words += ["--set", f"data.root={data.root}"]
    for name, path in data.fields.items():
        words += ["--field", f"{name}={path}"]
    if data.skip_bad:
        words.append("--skip-bad")
    display.command("next", words)
    question = trainer.prompts[0].problem.problem
    if len(question) <= _LONGEST_QUESTION:
        words = ["rlvr", "sample", "--model", str(directory), question]
        display.command("", words)
    display.command("", ["rlvr", "show", str(directory)])
