"""`rlvr train`, once its settings are resolved."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from rlvr_cli.algorithm.reward import RewardObjects
from rlvr_cli.config import Config
from rlvr_cli.config.built_in import canonical
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import first_written
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.text import shortened
from rlvr_cli.core.types import PROBLEM_SET, OnStep, Prompt
from rlvr_cli.data.holdout import hold_out
from rlvr_cli.data.problems import ProblemSet, check_problems, load_all
from rlvr_cli.data.sources import bare_name, has_split
from rlvr_cli.model.adapter import is_adapter
from rlvr_cli.model.loading import STEP, has_quantized_base
from rlvr_cli.ranks.group import broadcast_from_first
from rlvr_cli.runs.checkpoint import Checkpoint, check_savable, intact_checkpoints, load_weights
from rlvr_cli.runs.lifecycle import RunLifecycle
from rlvr_cli.runs.narration import announce_run
from rlvr_cli.runs.preflight import preflight, review_correction, settle
from rlvr_cli.runs.run_dir import (
    RunDirectory,
    create_run,
    default_directory,
    refuse_place,
    try_run_place,
)
from rlvr_cli.runs.stored import read_problems
from rlvr_cli.runs.track import check_trackers
from rlvr_cli.setup.checks import check_teacher
from rlvr_cli.setup.plan import plan_for
from rlvr_cli.setup.prompts import prompts_for
from rlvr_cli.setup.session import Session, open_session
from rlvr_cli.training.imitation import new_trainer
from rlvr_cli.training.trainer import Trainer


def start_run(
    config: Config,
    out: Path | None,
    display: Display,
    trackers: Sequence[str] = (),
    check_only: bool = False,
    on_step: OnStep | None = None,
    rows: Iterable[object] | None = None,
    objects: RewardObjects | None = None,
) -> Path:
    """Begin a run in a new directory, train, and return the directory.

    With `check_only`, end before the first step. `rows` take the place of stdin, and
    `objects` are the function objects among the rewards, by name. Raises UserError if the run
    cannot begin.
    """
    check_trackers(trackers)
    display.verbose = display.verbose or check_only  # a check shows all that it finds
    directory = out or default_directory(config.algo, config.data.sources)
    if not check_only:
        refuse_place(directory)
    every_problem = load_training_problems(config, rows)
    problems, held_set = _held_out_of(every_problem, config)
    with open_session(
        plan_for(config, problems), training=True, date=datetime.now(), objects=objects
    ) as session:
        parent = _load_parent(session)
        prompts, held_out = _prepare(session, problems, held_set, display)
        probe = preflight(session, prompts, check_only, display)
        trainer = new_trainer(session, prompts, held_out)
        settle(*review_correction(trainer, probe), display)
        if check_only:
            display.result("check", "nothing stands in the way of this run")
            return directory
        _inherit(trainer, parent, display)
        # A resumed run cannot read stdin again, so the run keeps a copy of its problems.
        copied = every_problem.problems if "-" in config.data.sources else None
        with closing(create_run(directory, session.plan.config, copied)) as run:
            display.detail("run", f"{directory}")
            RunLifecycle(trainer, run, display, trackers, on_step).run_to_end()
    return directory


def resume(
    config: Config,
    directory: Path,
    display: Display,
    trackers: Sequence[str] = (),
    on_step: OnStep | None = None,
    objects: RewardObjects | None = None,
) -> None:
    """Go on with a run from its newest intact checkpoint. Raises UserError if that fails."""
    check_trackers(trackers)
    checkpoints = intact_checkpoints(directory, display.warn)
    with closing(RunDirectory(directory)) as run:
        try_run_place(directory)
        newest = next(checkpoints, None)
        steps_done = newest.step if newest else 0
        if broadcast_from_first(steps_done) != steps_done:
            raise UserError(f"{directory}: not the same for all processes; they need one directory")
        if config.steps < steps_done:
            raise UserError(
                f"--resume {directory}: {steps_done} steps are done, more than the {config.steps} "
                "asked for; give more or leave --steps out"
            )
        if "-" in config.data.sources:
            every_problem = ProblemSet(
                "stdin", tuple(read_problems(directory)), config.data.prompt or ""
            )
        else:
            every_problem = load_training_problems(config)
        problems, held_set = _held_out_of(every_problem, config)
        plan = plan_for(config, problems)
        with open_session(
            plan, training=True, date=first_written(directory), objects=objects
        ) as session:
            parent = None
            if newest is None or config.algorithm.has_reference_model:
                parent = _load_parent(session)
            prompts, held_out = _prepare(session, problems, held_set, display)
            trainer = new_trainer(session, prompts, held_out)
            if newest is None:
                _inherit(trainer, parent, display)
            loop = RunLifecycle(trainer, run, display, trackers, on_step)
            loop.resume(newest, checkpoints)
            loop.run_to_end()


def load_training_problems(config: Config, rows: Iterable[object] | None = None) -> ProblemSet:
    """Load the problems to train on, with the answers or responses that the algorithm needs."""
    return load_all(
        config.data.sources,
        config.data.split or "train",
        config.data,
        need_answer=config.algorithm.needs_verdicts and config.data.answers is None,
        need_response=config.algorithm.reads_responses,
        is_verified=config.reward.needs_gold or config.reward.has_majority,
        rows=rows,
    )


def _held_out_of(problems: ProblemSet, config: Config) -> tuple[ProblemSet, ProblemSet | None]:
    """Return the problems to train on, and those that `--holdout` takes out of them. Return None
    for those without it."""
    holdout = config.data.holdout
    if holdout is None:
        return problems, None
    if config.eval.sources:
        raise UserError("--holdout and eval.source both name what to measure: leave one out")
    return hold_out(problems, holdout, config.data.holdout_seed)


def _prepare(
    session: Session, problems: ProblemSet, held_set: ProblemSet | None, display: Display
) -> tuple[list[Prompt], list[Prompt]]:
    """Check the models, and say what the run is going to do.

    Return the prompts to train on and those held out, which are of the `held_set` if there
    are any.
    """
    config = session.plan.config
    if session.teacher is not None:
        check_teacher(session.teacher, session.policy, config.teacher)
    check_savable(session.policy)
    prompts = prompts_for(problems, session.policy, config, config.rollout.max_tokens)
    held_out = _held_out_prompts(session, held_set)
    announce_run(session, problems, prompts, held_out, display)
    return prompts, held_out


def _inherit(trainer: Trainer, parent: Checkpoint | None, display: Display) -> None:
    """Go on with the optimizer of the run's parent, if it has one. Warn if it does not fit."""
    if parent is None:
        return
    try:
        trainer.updater.inherit(parent.load_state())
    except Exception as error:  # whatever a state may hold
        trainer.updater.reset_optimizer()
        display.warn(
            f"{parent.path}: its optimizer does not fit and begins anew ({shortened(str(error))})"
        )
    display.say("parent", f"{parent.path}")


def _held_out_prompts(session: Session, held_set: ProblemSet | None) -> list[Prompt]:
    """Return the prompts of the held-out problems: the first of `held_set`, if there is one.

    Return [] if the sources have no test split, or if the run trains on it. If eval.source names
    several sets, each problem has the name of its set.
    """
    config = session.plan.config
    limit = config.eval.limit
    if limit == 0:
        return []
    sets = _named_sets(config)
    if held_set is not None:
        sets = [replace(held_set, problems=held_set.problems[:limit])]
    elif not sets and config.data.split != "test":
        sources = [source for source in config.data.sources if has_split(source, "test")]
        share = -(-limit // max(1, len(sources)))
        if sources:
            sets = [load_all(sources, "test", config.data, limit=share)]
    prompts = []
    for problems in sets:
        check_problems(zip(problems.places, problems.problems, strict=True), repeated=False)
        prompts += prompts_for(problems, session.policy, config, config.rollout.max_tokens)
    return prompts


def _named_sets(config: Config) -> list[ProblemSet]:
    """Load the held-out sets that eval.source names, each problem with the name of its set."""
    sources = config.eval.sources
    names = [bare_name(source) for source in sources]
    sets = []
    for source, name in zip(map(canonical, sources), names, strict=True):
        problems = load_all([source], "test", config.data, limit=config.eval.limit, where=None)
        if len(sources) > 1:
            label = {PROBLEM_SET: name if names.count(name) == 1 else source}
            labeled = (replace(p, extra=p.extra | label) for p in problems.problems)
            problems = replace(problems, problems=tuple(labeled))
        sets.append(problems)
    return sets


def _load_parent(session: Session) -> Checkpoint | None:
    """Load the weights of the run's parent. Return None if it has no parent.

    Raises UserError if it is damaged, not a checkpoint, or of another kind of model.
    """
    if not session.plan.config.parent:
        return None
    path = Path(session.plan.config.parent)
    step = STEP.fullmatch(path.name)
    parent = Checkpoint(int(step[1]) if step else 0, path)
    damage = parent.integrity_error()
    if damage:
        raise UserError(f"{path}, the parent of this run: {damage}")
    try:
        load_weights(parent, session.policy.model)
    except (ValueError, RuntimeError):
        raise UserError(
            f"{path}: its weights are not those of a model with lora.rank "
            f"{session.plan.config.lora.rank}"
        ) from None
    base = session.plan.config.lora.base
    base_of_parent = "nf4" if has_quantized_base(path) else "full"
    if is_adapter(path) and base != base_of_parent:
        LOG.warning(
            "warning    %s: its adapter was trained with lora.base %s, which is %s here: the run "
            "begins with another policy than it ended with",
            path,
            base_of_parent,
            base,
        )
    session.push_weights()
    return parent
