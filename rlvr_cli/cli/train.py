"""`rlvr train`, once its settings are resolved."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from rlvr_cli.algorithm.choices import without_ratio
from rlvr_cli.config import Config, overrides
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import first_written
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.core.types import PROBLEM_SET, Prompt
from rlvr_cli.data.problems import ProblemSet, load_all
from rlvr_cli.data.sources import bare_name, canonical, has_split
from rlvr_cli.evaluation.imported import check_problems
from rlvr_cli.model.adapter import merged_parameters
from rlvr_cli.model.loading import STEP
from rlvr_cli.ranks.group import broadcast_from_first
from rlvr_cli.runs.checkpoint import Checkpoint, check_savable, intact_checkpoints, load_weights
from rlvr_cli.runs.lifecycle import RunLifecycle
from rlvr_cli.runs.narration import say_policy, warn_of_bad_golds
from rlvr_cli.runs.preflight import preflight, to_judge
from rlvr_cli.runs.run_dir import Run, create_run, default_directory, read_problems, refuse_place
from rlvr_cli.runs.track import check_trackers
from rlvr_cli.setup.plan import plan_for
from rlvr_cli.setup.session import (
    Session,
    check_teacher,
    open_session,
    prompts_for,
    with_date,
)
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
    whole checkpoint; `check_only` ends before the first step. Raises UserError if that fails."""
    check_trackers(trackers)
    directory, newest = out or default_directory(config.algo, config.data.sources), None
    checkpoints = intact_checkpoints(directory, display.warn)
    with ExitStack() as stack:
        if again:
            run = stack.enter_context(closing(Run(directory)))
            newest = next(checkpoints, None)
            done = newest.step if newest else 0
            if broadcast_from_first(done) != done:
                text = "not the same for all processes; they need one directory"
                raise UserError(f"{directory}: {text}")
            if config.steps < done:
                text = f"{done} steps are done, more than the {config.steps} asked for"
                raise UserError(f"--resume {directory}: {text}; give more or leave --steps out")
        elif not check_only:
            refuse_place(directory)
        data, from_stdin = config.data, "-" in config.data.sources
        if again and from_stdin:  # of which the run keeps a copy
            problems = ProblemSet("stdin", tuple(read_problems(directory)), data.prompt or "")
        else:
            algo = config.algorithm
            needs = {"need_answer": algo.needs_verdicts, "need_response": algo.reads_responses}
            problems = load_all(data.sources, data.split or "train", data, **needs)
        plan = plan_for(config, problems)
        began = first_written(directory) if again else datetime.now()
        session = stack.enter_context(open_session(plan, training=True))
        session = with_date(session, began)
        config = session.plan.config
        parent = None
        if config.parent and (newest is None or config.algorithm.has_reference_model):
            parent = _load_parent(session, Path(config.parent))
        check_teacher(session)
        check_savable(session.policy)
        prompts = prompts_for(problems, session.policy, config, config.rollout.max_tokens)
        held_out = _held_out_prompts(session)
        _announce(session, problems, prompts, held_out, display)
        if not again:
            preflight(session, prompts, check_only, display)
        if check_only:
            display.result("check", "nothing stands in the way of this run")
            return
        trainer = Trainer(session, prompts, held_out)
        if newest is None and parent is not None:
            try:
                trainer.updater.inherit(parent.load_state())
            except Exception as error:  # whatever a state may hold
                trainer.updater.reset_optimizer()
                reason = f"its optimizer does not fit and begins anew ({shortened(str(error))})"
                display.warn(f"{parent.path}: {reason}")
            display.say("parent", f"{parent.path}")
        if not again:
            copied = problems.problems if from_stdin else None
            run = stack.enter_context(closing(create_run(directory, config, copied)))
            display.say("run", f"{directory}")
        loop = RunLifecycle(trainer, run, display, trackers)
        if again:
            loop.resume(newest, checkpoints)
        loop.run_to_end()


def _held_out_prompts(session: Session) -> list[Prompt]:
    """Return the held-out problems; none where the sources have no test split or train on it. Each
    problem of several sets that eval.source names has the name of its set."""
    config = session.plan.config
    limit, named = config.eval.limit, config.eval.sources
    if limit == 0:
        return []
    sets, names = list[ProblemSet](), list(map(bare_name, named))
    for source, name in zip(map(canonical, named), names, strict=True):
        problems = load_all([source], "test", config.data, limit=limit, where=None)
        if len(named) > 1:
            label = {PROBLEM_SET: name if names.count(name) == 1 else source}
            of_set = (replace(p, extra=p.extra | label) for p in problems.problems)
            problems = replace(problems, problems=tuple(of_set))
        sets.append(problems)
    if not named and config.data.split != "test":
        sources = [source for source in config.data.sources if has_split(source, "test")]
        share = -(-limit // max(1, len(sources)))
        sets = [load_all(sources, "test", config.data, limit=share)] if sources else []
    for problems in sets:
        check_problems(zip(problems.places, problems.problems, strict=True), repeated=False)
    room = config.rollout.max_tokens
    return [p for problems in sets for p in prompts_for(problems, session.policy, config, room)]


def _load_parent(session: Session, path: Path) -> Checkpoint:
    """Load the weights of the run's parent. Raises UserError if it is no checkpoint, damaged, or of
    another kind of model."""
    step = STEP.fullmatch(path.name)
    parent = Checkpoint(int(step[1]) if step else 0, path)
    if reason := parent.integrity_error():
        raise UserError(f"{path}, the parent of this run: {reason}")
    try:
        load_weights(parent, session.policy.model)
    except (ValueError, RuntimeError):
        rank = session.plan.config.lora.rank
        wrong = f"{path}: its weights are not those of a model with lora.rank {rank}"
        raise UserError(wrong) from None
    session.engine.sync_weights(merged_parameters(session.policy.model))
    return parent


def _announce(
    session: Session,
    problems: ProblemSet,
    prompts: Sequence[Prompt],
    held_out: Sequence[Prompt],
    display: Display,
) -> None:
    """Say what the run is going to do, and warn of problems that will not do what is asked."""
    config, rewarder = session.plan.config, session.rewarder
    algo, rollout, optim = config.algorithm, config.rollout, config.optim
    say_policy(config.model, session, display)
    display.say("model", f"{type(session.policy.model).__name__}: {session.forward}")
    if session.teacher is not None:
        kind = type(session.teacher.model).__name__
        display.say("teacher", f"{config.teacher}: {kind}: {session.teacher_forward}")
    if rewarder.config.functions != ("math",):
        hashes = {name: f" ({sha[:8]})" for name, sha in rewarder.sources.items()}
        terms = [f"{r.weight:g} x {r.name}{hashes.get(r.name, '')}" for r in rewarder.config.terms]
        display.say("reward", " + ".join(terms))
    warn_of_bad_golds([*to_judge(prompts, algo), *held_out], session.sampler.verifier, display)
    texts = {prompt.problem.problem for prompt in prompts}
    if shared := sum(prompt.problem.problem in texts for prompt in held_out):
        text = f"{shared} of {len(held_out)} held-out problems are also trained on"
        display.warn(f"{text}, so pass@1 on them says little; take another eval.source")
    taken = f"; {problems.taken}" if problems.taken else ""
    of_sets = f" ({', '.join(sets)})" if len(sets := config.eval.sources) > 1 else ""
    count = f"{len(prompts)} of {problems.name}; {len(held_out)} held out{of_sets}"
    display.say("problems", f"{count}{taken}")
    cells = (f"{name} {old} -> {new}" for name, (old, new) in overrides(config).items())
    display.say("algorithm", f"{config.algo}: {algo}; changed: {', '.join(cells) or 'nothing'}")
    if note := without_ratio(algo):
        display.say("", note)
    drawn, responses = f"problems x {rollout.samples} samples", rollout.prompts * rollout.samples
    if algo.reads_responses:
        drawn, responses = "rows with their responses", rollout.prompts
    updates = algo.epochs * min(algo.mini_batches, responses)
    warmup = f" after {plural(optim.warmup_steps, 'step')}" if optim.warmup_steps else ""
    display.say(
        "optimizer",
        f"{config.steps} steps of {rollout.prompts} {drawn}, at most {rollout.max_tokens} tokens, "
        f"temperature {rollout.temperature:g}; {plural(updates, 'update')} a step, learning rate "
        f"{optim.lr:g}{warmup}",
    )
