"""`rlvr train`, once its settings are resolved."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from rlvr_cli.algorithm.choices import without_ratio
from rlvr_cli.config import Config, as_yaml, changed_cells
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import refuse_links, write_atomically
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.core.types import PROBLEM_SET, Prompt
from rlvr_cli.data.problems import ProblemSet, load_all
from rlvr_cli.data.sources import bare_name, canonical, has_split
from rlvr_cli.model.adapter import merged_parameters
from rlvr_cli.ranks.group import decided, is_first, world
from rlvr_cli.rollout.plan import plan_for
from rlvr_cli.rollout.session import Session, open_session, prompts_for
from rlvr_cli.runs.checkpoint import (
    Checkpoint,
    OtherRunError,
    check_savable,
    checkpoint_at,
    checkpoints,
    latest_valid,
    load_weights,
    remove_checkpoints,
    restore,
)
from rlvr_cli.runs.fitting import fitted
from rlvr_cli.runs.lifecycle import RunLifecycle
from rlvr_cli.runs.narration import refuse_existing, warn_of_bad_golds
from rlvr_cli.runs.preflight import preflight
from rlvr_cli.runs.run_dir import Run, create_run, default_directory, kept_problems, refuse_unshared
from rlvr_cli.runs.track import check_trackers
from rlvr_cli.training.trainer import Trainer


def start(
    config: Config,
    out: Path | None,
    display: Display,
    trackers: Sequence[str] = (),
    again: bool = False,
    check_only: bool = False,
) -> None:
    """Begin a run in a new directory, or go on (`again`) with the one in `out` from its newest
    whole checkpoint; `check_only` ends before the first step. Raises UserError where that cannot
    be."""
    check_trackers(trackers)
    directory = out or default_directory(config.algo, config.data.sources)
    checkpoint = None
    with ExitStack() as stack:
        if again:
            run = stack.enter_context(closing(Run(directory)))
            checkpoint = _newest_checkpoint(config, directory, display)
        elif not check_only:
            if is_first():
                refuse_existing(directory)
            if world() > 1:
                refuse_unshared(directory)
        problems = _training_problems(config, directory if again else None)
        plan = plan_for(config, problems)
        session = fitted(stack.enter_context(open_session(plan, training=True)))
        _say_model(session, display)
        begins = checkpoint is None or config.algorithm.has_reference_model
        parent = _parent_loaded(session) if begins else None
        check_savable(session.policy)
        prompts, held_out = _prompts(session, problems, display)
        if not again:
            _check(session, prompts, check_only, display)
        if check_only:
            return
        trainer = Trainer(session, prompts, held_out)
        if checkpoint is None:
            _inherit(trainer, parent, display)
        if not again:
            kept = problems.problems if "-" in config.data.sources else None
            run = stack.enter_context(closing(create_run(directory, session.plan.config, kept)))
            display.say("run", f"{directory}")
        loop = RunLifecycle(trainer, run, display, trackers)
        if again:
            _go_on(trainer, loop, checkpoint)
        loop.run_to_end()


def _newest_checkpoint(config: Config, directory: Path, display: Display) -> Checkpoint | None:
    """Return the checkpoint that a run goes on from, if it has one. Raises UserError for a run that
    is done already, or whose parts lie elsewhere."""
    checkpoint, damaged = latest_valid(directory)
    if decided(step := checkpoint and checkpoint.step) != step:
        raise UserError(f"{directory}: not the same for all processes; they need one directory")
    for line in damaged:
        display.warn(line)
    if checkpoint is not None and config.steps < checkpoint.step:
        raise UserError(
            f"--resume {directory}: {checkpoint.step} steps are done, more than the "
            f"{config.steps} asked for; give more or leave --steps out"
        )
    listed = checkpoints(directory)
    refuse_links(directory, ("rollouts", "checkpoints"))
    refuse_links(directory / "checkpoints", (one.path.name for one in listed))
    return checkpoint


def _go_on(trainer: Trainer, loop: RunLifecycle, checkpoint: Checkpoint | None) -> None:
    """Put trainer and run directory where they were at the checkpoint, or at the beginning."""
    directory = loop.run.directory
    if checkpoint is None:
        loop.run.truncate_to(0)
        loop.display.say("resume", f"{directory}: no step was saved yet, so from the start")
    else:
        _restore(trainer, loop, checkpoint)
        loop.display.say("resume", f"{directory}: from the end of step {trainer.step}")
    if is_first():
        write_atomically(directory / "config.yaml", as_yaml(trainer.session.plan.config))


def _parent_loaded(session: Session) -> Checkpoint | None:
    """Load the weights of the run's parent, if it has one, before anything is made of them."""
    if (path := session.plan.config.parent) is None:
        return None
    parent = checkpoint_at(Path(path))
    try:
        load_weights(parent, session.policy.model)
    except (ValueError, RuntimeError):
        rank = session.plan.config.lora.rank
        wrong = f"{path}: its weights are not those of a model with lora.rank {rank}"
        raise UserError(wrong) from None
    session.engine.sync_weights(merged_parameters(session.policy.model))
    return parent


def _inherit(trainer: Trainer, parent: Checkpoint | None, display: Display) -> None:
    """Take over the parent's optimizer, or say why it begins anew."""
    if parent is None:
        return
    try:
        trainer.updater.inherit(parent.load_state())
    except Exception as error:  # whatever a state may hold
        trainer.updater.reset_optimizer()
        reason = shortened(" ".join(str(error).split()))
        display.warn(f"{parent.path}: its optimizer does not fit and begins anew ({reason})")
    display.say("parent", f"{parent.path}")


def _restore(trainer: Trainer, loop: RunLifecycle, checkpoint: Checkpoint) -> None:
    """Put trainer and run directory where they were when the checkpoint was written, or the newest
    one before it that can be read. Raises UserError if none can, or it is of another run."""
    directory, said = loop.run.directory, set[str]()
    unreadable: dict[int, str] = {}
    while True:
        try:
            state = checkpoint.load_state()
            load_weights(checkpoint, trainer.session.policy.model)
            restore(trainer, state)
            break
        except (OtherRunError, MemoryError):
            raise
        except Exception as error:  # whatever a state may hold
            reason = shortened(" ".join(str(error).split()))
            unreadable[checkpoint.step] = f"it cannot be read ({type(error).__name__}: {reason})"
            found, lines = latest_valid(directory, unreadable)
            for line in (line for line in lines if line not in said):
                loop.display.warn(line)
            said |= set(lines)
            assert found is not None
            checkpoint = found
    trainer.step = checkpoint.step
    trainer.session.engine.sync_weights(merged_parameters(trainer.session.policy.model))
    if is_first():
        newer = {other.step for other in checkpoints(directory)} - {checkpoint.step}
        remove_checkpoints(directory, {step for step in newer if step > checkpoint.step})
    if changed := loop.run.rollouts_error(checkpoint.step):
        loop.display.warn(f"{directory}/rollouts: not as the run wrote it: {changed}")
    history = loop.run.truncate_to(checkpoint.step)
    if len(history) < checkpoint.step:
        loop.display.warn(
            f"{directory}/metrics.jsonl: {len(history)} of {checkpoint.step} steps can be read; "
            "guards and curves go without the others"
        )
    loop.resume(history, state.values["progress"])


def _say_model(session: Session, display: Display) -> None:
    display.say("policy", f"{session.plan.config.model}: {session.description}")
    display.say("model", f"{type(session.policy.model).__name__}: {session.forward}")
    rewarder = session.rewarder
    if rewarder.asked.functions != ("math",):
        hashes = {name: f" ({one[:8]})" for name, one in rewarder.sources.items()}
        terms = [f"{r.weight:g} x {r.name}{hashes.get(r.name, '')}" for r in rewarder.asked.terms]
        display.say("reward", " + ".join(terms))


def _prompts(
    session: Session, problems: ProblemSet, display: Display
) -> tuple[list[Prompt], list[Prompt]]:
    """Return the problems to train on and those held out; says what the run is going to do."""
    config = session.plan.config
    held_out = _held_out_prompts(session)
    prompts = prompts_for(problems, session.policy, config, config.rollout.max_tokens)
    trained = [] if config.algorithm.reads_responses else prompts
    warn_of_bad_golds([*trained, *held_out], session.sampler.verifier, display)
    known = {prompt.problem.problem for prompt in prompts}
    shared = sum(prompt.problem.problem in known for prompt in held_out)
    if shared:
        display.warn(
            f"{shared} of {len(held_out)} held-out problems are also trained on, so pass@1 on them "
            "says little; take another eval.source"
        )
    taken = f"; {problems.taken}" if problems.taken else ""
    of_sets = f" ({', '.join(sets)})" if len(sets := config.eval.sources) > 1 else ""
    count = f"{len(prompts)} of {problems.name}; {len(held_out)} held out{of_sets}"
    display.say("problems", f"{count}{taken}")
    cells = (f"{name} {old} -> {new}" for name, (old, new) in changed_cells(config).items())
    changed = ", ".join(cells) or "nothing"
    display.say("algorithm", f"{config.algo}: {config.algorithm}; changed: {changed}")
    if note := without_ratio(config.algo, config.algorithm):
        display.say("", note)
    display.say("optimizer", _optimizer_line(config))
    return prompts, held_out


def _check(session: Session, prompts: Sequence[Prompt], strict: bool, display: Display) -> None:
    """Run the preflight. Raises UserError if the run cannot go well; `strict` (--check) counts a
    probe without a signal as such."""
    for stage in preflight(session, prompts):
        for label, text in stage.lines:
            display.say(label, text)
        errors = [finding.text for finding in stage.findings if finding.is_error]
        for finding in stage.findings:
            if not finding.is_error:
                display.warn(finding.text)
        if strict and not stage.has_signal:
            errors.append("a run like this would learn nothing: see the warning about the probe")
        if errors:
            raise UserError("\n".join(errors))
    if strict:
        display.result("check", "nothing stands in the way of this run")


def _training_problems(config: Config, run: Path | None) -> ProblemSet:
    """Return the problems of the sources; of a run that began with stdin, its own copy."""
    if run is not None and "-" in config.data.sources:
        return ProblemSet("stdin", tuple(kept_problems(run)), config.data.prompt or "")
    learns_rows = config.algorithm.reads_responses
    return load_all(
        config.data.sources,
        config.data.split or "train",
        config.data,
        need_answer=not learns_rows,
        need_response=learns_rows,
    )


def _held_out_prompts(session: Session) -> list[Prompt]:
    """Return the held-out problems; none where the sources have no test split or train on it. Those
    of several sets that eval.source names say of which they are."""
    config, found = session.plan.config, list[Prompt]()
    limit, room, named = config.eval.limit, config.rollout.max_tokens, config.eval.sources
    if limit == 0:
        return []
    names = list(map(bare_name, named))
    for source, name in zip(map(canonical, named), names, strict=True):
        problems = load_all([source], "test", config.data, limit=limit, where=None)
        if len(named) > 1:
            label = {PROBLEM_SET: name if names.count(name) == 1 else source}
            of_set = (replace(p, extra=p.extra | label) for p in problems.problems)
            problems = replace(problems, problems=tuple(of_set))
        found += prompts_for(problems, session.policy, config, room)
    if not named and config.data.split != "test":
        sources = [source for source in config.data.sources if has_split(source, "test")]
        if sources:
            problems = load_all(sources, "test", config.data, limit=-(-limit // len(sources)))
            found = prompts_for(problems, session.policy, config, room)
    return found


def _optimizer_line(config: Config) -> str:
    rollout, optim, algo = config.rollout, config.optim, config.algorithm
    drawn, responses = f"problems x {rollout.samples} samples", rollout.prompts * rollout.samples
    if algo.reads_responses:
        drawn, responses = "rows with their responses", rollout.prompts
    updates = algo.epochs * min(algo.mini_batches, responses)
    return (
        f"{config.steps} steps of {rollout.prompts} {drawn}, at most {rollout.max_tokens} tokens, "
        f"temperature {rollout.temperature:g}; {plural(updates, 'update')} a step, learning rate "
        f"{optim.lr:g}" + f" after {plural(optim.warmup_steps, 'step')}" * bool(optim.warmup_steps)
    )
