"""Make the runs of an ablation side by side, each an ordinary run directory, and read them again.

An ablation's directory has a run ARM-SEED for each arm and seed, with its configuration in
ARM-SEED.yaml and its messages in ARM-SEED.log, `probe` for the time of a step, and `ablation.yaml`
with the plan.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated

import yaml
from pydantic import Field

from rlvr_cli.config import Config, as_yaml, flat_settings, resolve, run_layer
from rlvr_cli.config.built_in import TEMPLATES
from rlvr_cli.console.display import Display, measured
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import (
    open_regular,
    read_regular,
    reading,
    refuse_links,
    remove,
    replaced_log,
    write_atomically,
)
from rlvr_cli.core.jsonl import bounded_lines, parse_json
from rlvr_cli.core.step_figures import StepFigures, values_of
from rlvr_cli.core.stored import Stored
from rlvr_cli.core.text import format_value, plural
from rlvr_cli.core.types import by_key
from rlvr_cli.core.yaml_text import read_yaml
from rlvr_cli.data.prompts import template_text
from rlvr_cli.data.rows import stored_responses
from rlvr_cli.evaluation.curves import STEPS, Figure, MeasuredRun, Point, Seeds, compare_arms
from rlvr_cli.evaluation.estimators import detectable, least_seen, mean
from rlvr_cli.evaluation.figures import UNJUDGED
from rlvr_cli.ranks.launch import LAUNCHER
from rlvr_cli.runs.stored import read_steps
from rlvr_cli.runs.summary import read_summary

PLAN = "ablation.yaml"
PROBE = "probe"
PROBE_STEPS = 2
"""The first step of a process takes longer, since some things are prepared once."""
TYPICAL_SPREAD = 0.12
"""Standard deviation of a difference of two arms in pass@1 over seeds: the median of twelve pairs
of arms with five seeds in benchmarks/claims.md, which range from 0.02 to 0.23."""
_POLL_S = 0.2
_ERROR = "rlvr: error: "
"""How the line begins with which a command says why it fails."""
_FREE = ("threads", "steps", "checkpoint", "guards", "engine", "server", "track")
"""Settings in which a run that is there may differ from the plan."""
_DECIDED = {
    "data.prompt",
    "data.answer_format",
    "data.date",
    "rollout.ends",
    "rollout.kv_budget_mb",
    "optim.micro_tokens",
}
"""Settings that a plan leaves open and a run decides."""
ARM_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,39}$"


class Names(Stored):
    """What ablation.yaml has."""

    title: str
    figure: Figure
    base: str
    arms: list[Annotated[str, Field(pattern=ARM_NAME)]]
    seeds: list[int]


@dataclass(frozen=True)
class AblationPlan:
    """What an ablation compares: arms that differ in some settings, each with the same seeds."""

    base: str
    """The arm from which differences are taken."""
    arms: Mapping[str, Config]
    seeds: tuple[int, ...]
    out: Path
    title: str = ""
    figure: Figure = "entropy"

    @property
    def runs(self) -> list[tuple[str, int]]:
        """Return each arm with each seed, all arms of a seed before the next seed."""
        return [(arm, seed) for seed in self.seeds for arm in self.arms]

    def config(self, arm: str, seed: int) -> Config:
        """Return the configuration of a run."""
        return self.arms[arm].model_copy(update={"seed": seed, "threads": 1})

    def directory(self, arm: str, seed: int) -> Path:
        """Return the directory of a run."""
        return self.out / f"{arm}-{seed}"

    def store(self) -> None:
        """Write what `rlvr show` needs of the plan."""
        names = Names(
            title=self.title,
            figure=self.figure,
            base=self.base,
            arms=list(self.arms),
            seeds=list(self.seeds),
        )
        write_atomically(self.out / PLAN, yaml.safe_dump(names.model_dump(), sort_keys=False))

    def missing(self) -> list[tuple[str, int]]:
        """Return the runs that are not there to their end. Raises UserError for a run that is
        another's, or a link."""
        refuse_links(self.out, (f"{arm}-{seed}" for arm, seed in self.runs))
        return [(arm, seed) for arm, seed in self.runs if not self._has_ended(arm, seed)]

    def _has_ended(self, arm: str, seed: int) -> bool:
        run = self.directory(arm, seed)
        config = self.config(arm, seed)
        if not run.exists():
            return False
        difference = deviation_from_plan(config, resolve(run_layer(run, "ablate")))
        if difference:
            raise UserError(
                f"{run}: another's run, with {difference}; move it away or name another --out"
            )
        summary = read_summary(run)
        return summary.after is not None and summary.steps >= config.steps


def deviation_from_plan(planned: Config, stored: Config) -> str:
    """Describe the first setting of a stored run that is not the planned one.

    Return "" if they agree. A run has decided what the plan leaves open.
    """
    stored_values = flat_settings(stored)
    for name, value in flat_settings(planned).items():
        if name == "data.prompt" and value is not None and value not in TEMPLATES:
            value = template_text(value)
        is_open = value == "auto" or (value is None and name in _DECIDED)
        if is_open or name.startswith(_FREE):
            continue
        stored_value = _stored_value(name, value, stored_values)
        if stored_value != value:
            return f"{name} {format_value(stored_value)} where {format_value(value)} is planned"
    return ""


def _stored_value(name: str, planned_value: object, stored_values: Mapping[str, object]) -> object:
    """Return the value that a stored run has for a planned setting.

    Of a choice or mapping that is empty in the plan alone, it is the first field. A setting that
    the stored run lacks, as that of another kind, has the planned value: the kind deviates.
    """
    if name in stored_values:
        return stored_values[name]
    section = name.rpartition(".")[0]
    if section in stored_values:  # the run has none of this choice
        return None
    if planned_value is None or (planned_value == {} and name.endswith("settings")):
        for field, value in stored_values.items():
            if field.startswith(f"{name}."):
                return value
    return planned_value


def probe(plan: AblationPlan, missing: int, display: Display) -> None:
    """Say what the missing runs will take, from two steps of the base, and what they could show.

    Raises UserError if the base cannot run, or measures no held-out problems.
    """
    smallest = detectable(len(plan.seeds)) * TYPICAL_SPREAD / len(plan.seeds) ** 0.5
    seeds = plural(len(plan.seeds), "seed")
    could_show = f"a difference of {smallest:.2f} in pass@1 with {seeds}"
    if smallest >= 1:
        could_show = f"nothing: {seeds} tell no difference in pass@1 from chance; take 3 or more"
    display.say(
        "could show",
        f"{could_show}, if it varies over seeds by a standard deviation of {TYPICAL_SPREAD} (0.02 "
        "to 0.23 were measured on the built-in problems)",
    )
    n_ended = len(plan.runs) - missing
    if not missing:
        display.say("runs", f"all {n_ended} are there")
        return
    run = plan.out / PROBE
    display.say("probe", f"two steps of {plan.base}: {run}")
    remove(run)  # that of another plan, or one that failed
    config = plan.config(plan.base, plan.seeds[0])
    without_measuring = config.eval.model_copy(update={"every": 0})
    two_steps = {"steps": PROBE_STEPS, "eval": without_measuring}
    process = _start(run, _begin(run, config.model_copy(update=two_steps)))
    try:
        process.wait()
    finally:
        _stop([process])
    if process.returncode:
        raise UserError(f"{plan.base}: {_last_words(run)}")
    summary = read_summary(run)
    if summary.after is None:
        raise UserError(
            f"{plan.base}: no held-out problems to compare on; name a set with --set eval.source="
        )
    steps = list(read_steps(run / "metrics.jsonl"))
    in_steps = sum(values_of(steps, lambda figures: figures.seconds.step))
    measuring = max(0.0, 60 * summary.minutes - in_steps) / 2
    measurements = 2
    if config.eval.every:
        measurements += config.steps // config.eval.every
    newest = steps[-1]
    step_seconds = newest.seconds.step or 0.0
    step_tokens = newest.tokens_decoded or 0
    _say_least(plan, list(run_figures(run).measured[-1].shares.values()), display)
    seconds = config.steps * step_seconds + measurements * measuring
    tokens = missing * config.steps * step_tokens
    display.say(
        "runs",
        f"{missing} to make, {n_ended} there; about {missing * seconds / 60:,.1f} minutes of a "
        f"process and {tokens:,} sampled tokens",
    )


def _say_least(plan: AblationPlan, shares: Sequence[float], display: Display) -> None:
    """Say which differences the answers to the held-out problems hide, however alike seeds are."""
    answers = plan.arms[plan.base].eval.samples
    hidden = least_seen(shares, answers, len(plan.seeds))
    if hidden:
        display.say(
            "could show",
            f"not less than {hidden:.3f} in pass@1 with {plural(len(plan.seeds), 'seed')}: "
            f"{plural(answers, 'answer')} to each of {plural(len(shares), 'problem')} vary by so "
            "much alone, and seeds add to it",
        )


def _say_seen(plan: AblationPlan, said: set[str], display: Display) -> None:
    """Say what could be seen of each arm of which two seeds have ended, as of the base. `said` has
    the arms of which it is said already."""
    paths = run_paths(plan.out)
    seeds_of_base = paths.get(plan.base, {}).keys()
    ready = {arm for arm, seeds in paths.items() if len(seeds.keys() & seeds_of_base) > 1}
    if ready <= {plan.base, *said}:
        return
    for compared in compare_arms(read_runs(plan.out), plan.base):
        difference = compared.difference
        if compared.axis != STEPS or difference is None or compared.arm in said:
            continue
        said.add(compared.arm)
        smallest = difference.seen_with(len(plan.seeds))
        could_show = "nothing" if smallest >= 1 else f"a difference of {smallest:.2f}"
        display.say(
            "could show",
            f"{compared.arm}: {could_show} in pass@1 with {plural(len(plan.seeds), 'seed')}, if "
            f"all vary as the first {difference.seeds} do",
        )


def make_runs(
    plan: AblationPlan, missing: Iterable[tuple[str, int]], jobs: int, display: Display
) -> list[str]:
    """Make the missing runs, `jobs` at a time, and return why some failed.

    A run that was begun goes on from its checkpoint. After an interruption the runs under way save
    their step.
    """
    queue = list(missing)
    running: dict[Path, subprocess.Popen[bytes]] = {}
    failures = []
    said: set[str] = set()
    with display.progress("runs", len(plan.runs), len(plan.runs) - len(queue)) as bar:
        try:
            while queue or running:
                while queue and len(running) < jobs:
                    arm, seed = queue.pop(0)
                    run = plan.directory(arm, seed)
                    options_of = _resume if run.exists() else _begin
                    running[run] = _start(run, options_of(run, plan.config(arm, seed)))
                time.sleep(_POLL_S)
                for run in [run for run in running if running[run].poll() is not None]:
                    if running.pop(run).returncode:
                        failures.append(f"{run.name}: {_last_words(run)}")
                        display.warn(failures[-1])
                    else:
                        value = read_summary(run).pass_at_1
                        display.say("run", f"{run}: pass@1 {measured(value)}")
                        _say_seen(plan, said, display)
                    bar.tick(run.name)
        finally:
            _stop(running.values())
    return failures


def _begin(run: Path, config: Config) -> list[str]:
    """Write the configuration of a run next to its directory, and return the options of
    `rlvr train` that begin it."""
    file = run.with_name(f"{run.name}.yaml")
    write_atomically(file, as_yaml(config))
    return [f"--config={file}", f"--out={run}", "--quiet"]


def _resume(run: Path, config: Config) -> list[str]:
    """Return the options of `rlvr train` that go on with a run, and name the plan's own code."""
    functions = config.algorithm.custom_functions
    code = [f"--set=algorithm.{name}={spec}" for name, spec in functions.items()]
    if any(term.is_user_code for term in config.reward.terms):
        code += [f"--reward={text}" for text in config.reward.functions]
    return [f"--resume={run}", f"--steps={config.steps}", *code]


def _start(run: Path, options: Iterable[str]) -> subprocess.Popen[bytes]:
    """Start `rlvr train` for a run with one thread, which ends if this process is killed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", LAUNCHER: str(os.getpid())}
    with replaced_log(_log(run)) as log:
        return subprocess.Popen(
            [sys.executable, "-m", "rlvr_cli", "train", *options],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )


def _log(run: Path) -> Path:
    return run.with_name(f"{run.name}.log")


def _last_words(run: Path) -> str:
    """Return why a run failed."""
    return _last_line(run).removeprefix(_ERROR) or f"failed, see {_log(run)}"


def _last_line(run: Path) -> str:
    """Return the last line of a run's log, or nothing of an empty one."""
    with reading(_log(run)):
        lines = read_regular(_log(run), 1 << 24).decode(errors="replace").split("\n")
    said = [line for line in lines if line.strip()]
    return said[-1] if said else ""


def _stop(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Let processes save their step and end."""
    alive = [process for process in processes if process.poll() is None]
    for process in alive:
        process.terminate()
    for process in alive:
        process.wait()


def read_names(directory: Path) -> Names:
    """Read the plan of an ablation's directory. Raises UserError if it cannot be read."""
    return read_yaml(directory / PLAN, Names)


def run_paths(directory: Path) -> dict[str, dict[int, Path]]:
    """Return the runs of an ablation that have ended, by arm and seed."""
    runs: dict[str, dict[int, Path]] = {}
    names = read_names(directory)
    for arm in names.arms:
        for seed in sorted(names.seeds):
            path = directory / f"{arm}-{seed}"
            if read_summary(path).after is not None:
                runs.setdefault(arm, {})[seed] = path
    return runs


def failures_of(directory: Path) -> dict[str, list[str]]:
    """Return why runs of an ablation failed, by arm: the error at the end of each log."""
    failures: dict[str, list[str]] = {}
    names = read_names(directory)
    ended = run_paths(directory)
    for arm in names.arms:
        for seed in names.seeds:
            run = directory / f"{arm}-{seed}"
            if seed in ended.get(arm, {}) or not _log(run).is_file():
                continue
            words = _last_line(run)
            if words.startswith(_ERROR):
                failures.setdefault(arm, []).append(words.removeprefix(_ERROR))
    return failures


def read_runs(directory: Path) -> dict[str, Seeds]:
    """Read the runs of an ablation that have ended, on the problems that all have judged.

    Raises UserError without a run of the base, or without a problem that all have judged.
    """
    base = read_names(directory).base
    paths = run_paths(directory)
    if base not in paths:
        raise UserError(f"{directory}: no run of {base} has ended yet; give rlvr ablate again")
    runs = {
        arm: {seed: run_figures(run) for seed, run in seeds.items()} for arm, seeds in paths.items()
    }
    points = [point for seeds in runs.values() for run in seeds.values() for point in run.measured]
    measurements = Counter(problem for point in points for problem in point.shares)
    problems = sorted(problem for problem, count in measurements.items() if count == len(points))
    if not problems:
        raise UserError(f"{directory}: its runs have no held-out problem in common")
    return {
        arm: {seed: _on_problems(run, problems) for seed, run in seeds.items()}
        for arm, seeds in runs.items()
    }


def _on_problems(run: MeasuredRun, problems: Sequence[str]) -> MeasuredRun:
    """Return a run as it would be on these problems alone."""
    import numpy

    measured = []
    for point in run.measured:
        shares = {problem: point.shares[problem] for problem in problems}
        value = float(numpy.array(list(shares.values())).mean())
        measured.append(replace(point, shares=shares, pass_at_1=value))
    return replace(run, measured=measured)


def run_figures(run: Path) -> MeasuredRun:
    """Return the figures of a run: of each step, and of the held-out problems where measured.

    Seconds are the processor's. Raises UserError for a run whose files cannot be read.
    """
    files = run / "rollouts"
    measured = [_point(0, 0.0, 0, files / "held-out-before.jsonl")]
    steps = _all_steps(run)
    seconds = 0.0
    tokens = 0
    step = 0
    for figures in steps:
        step = figures.step
        if figures.seconds.processor is None or figures.tokens_decoded is None:
            raise UserError(f"{run}: step {step} has no processor seconds; make it again")
        seconds += figures.seconds.processor
        tokens += figures.tokens_decoded
        if figures.measured is not None:
            levels = figures.held_out[""].by_level
            path = files / f"held-out-step-{step:06d}.jsonl"
            measured.append(replace(_point(step, seconds, tokens, path), by_level=levels))
    if measured[-1].step < step:
        measured.append(_point(step, seconds, tokens, files / "held-out-after.jsonl"))
    return MeasuredRun(measured, steps)


def _all_steps(run: Path) -> list[StepFigures]:
    """Return the figures of each step of a run. Raises UserError, with the line, if one is missing:
    seconds and tokens up to a later step would be too few."""
    path = run / "metrics.jsonl"
    steps = list(read_steps(path))
    last = max(read_summary(run).steps, steps[-1].step if steps else 0)
    present = {figures.step for figures in steps}
    for step in range(1, last + 1):
        if step not in present:
            raise UserError(
                f"{path}:{_line_without(path, step)}: step {step} is missing or cannot be read, so "
                "that nothing can be compared at equal seconds or tokens; move the run away and "
                "give rlvr ablate again"
            )
    return steps


def _line_without(path: Path, step: int) -> int:
    """Return the number of the line that should have a step: the first one that cannot be read or
    has a later step, or the one after the end."""
    number = 0
    with suppress(OSError), open_regular(path, follow=False) as file:
        for number, line in enumerate(bounded_lines(str(path), file), 1):
            try:
                figures = StepFigures.from_row(parse_json(line))
            except ValueError:
                return number
            if figures.step > step:
                return number
    return number + 1


def _point(step: int, seconds: float, tokens: int, path: Path) -> Point:
    """Return a measured point, with the share of right responses of each problem of which any was
    judged, by its set and id."""
    judged = (response for response in stored_responses(path) if response.verdict not in UNJUDGED)
    by_problem = by_key(
        judged, lambda response: f"{response.problem.problem_set} {response.problem.id}"
    )
    shares = {
        name: fmean(response.is_correct for response in responses)
        for name, responses in by_problem.items()
    }
    return Point(step, seconds, tokens, mean(shares.values()), shares)
