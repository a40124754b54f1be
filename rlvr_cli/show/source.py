"""Read runs and results from disk, also unfinished ones: settings, metrics, responses."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from rlvr_cli.algorithm.filters import CustomFilter
from rlvr_cli.algorithm.group_advantage import GROUP_ADVANTAGES
from rlvr_cli.algorithm.group_filter import candidates, trains
from rlvr_cli.algorithm.reward import shaped_reward
from rlvr_cli.config import Config, resolve, run_layer
from rlvr_cli.console.display import Display
from rlvr_cli.console.steps import with_ends
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.step_figures import HeldOut, History, StepFigures
from rlvr_cli.core.text import shortened
from rlvr_cli.core.types import Problem, Response, ResponseGroup, by_key
from rlvr_cli.data.rows import stored_responses
from rlvr_cli.evaluation.estimators import pass_estimate
from rlvr_cli.evaluation.figures import JudgedProblem, judged_problems
from rlvr_cli.evaluation.report import Result
from rlvr_cli.evaluation.result_dir import read_results
from rlvr_cli.runs.stored import StoredTokens, read_steps, read_tokens
from rlvr_cli.runs.track import Mirrors, check_trackers

UNKNOWN_FATE = "filtered by custom code"
"""The fate of a group in a run whose filter is a custom function."""
REASONS = {
    "correct": "{extracted} equals the gold answer {answer}",
    "wrong": "{extracted} is not the gold answer {answer}",
    "no_answer": "no answer is stated",
    "bad_format": "not in the form {verifier}",
    "truncated": "cut off before an answer",
    "timeout": "the verifier ran out of time",
    "unparseable_gold": "the gold answer {answer} cannot be read",
}
"""The reason of a verdict, in words."""


def reason(response: Response) -> str:
    """Say why a response has its verdict."""
    verification = response.verification
    assert verification is not None
    return REASONS[verification.verdict].format(
        extracted=shortened(str(verification.extracted)),
        answer=shortened(str(response.problem.answer)),
        verifier=shortened(verification.format),
    )


class Numbers(tuple[float, ...]):
    """Numbers that compute as a tensor does, in the formulas of advantages."""

    def mean(self) -> float:
        """Return their mean."""
        return math.fsum(self) / len(self)

    def std(self, *, correction: int) -> float:
        """Return their standard deviation, with the number less the correction below the root."""
        mean = self.mean()
        squares = math.fsum((value - mean) ** 2 for value in self)
        return math.sqrt(squares / (len(self) - correction))

    def min(self) -> float:
        """Return the smallest."""
        return min(self)

    def max(self) -> float:
        """Return the largest."""
        return max(self)

    def __sub__(self, other: float) -> "Numbers":
        return Numbers(value - other for value in self)

    def __mul__(self, other: float) -> "Numbers":  # type: ignore[override]
        return Numbers(value * other for value in self)

    def __truediv__(self, other: float) -> "Numbers":
        return Numbers(value / other for value in self)


class Score(NamedTuple):
    """The reward of a response, shaped by its length, and its advantage.

    An advantage that also depends on the batch, a critic or a reference is unknown (None), as is
    that of a response that does not train.
    """

    reward: float
    advantage: float | None


@dataclass(frozen=True)
class StoredGroup(ResponseGroup[Response]):
    """The responses to one problem that were sampled together, in a run with these settings.

    A group of a result has no settings and step 0.
    """

    step: int
    number: int
    members: tuple[Response, ...]
    config: Config | None = None
    result: str = ""
    """The name of its result, if a directory holds several."""

    @property
    def responses(self) -> Sequence[Response]:
        """Return the responses in the order of their numbers."""
        return self.members

    @property
    def problem(self) -> Problem:
        """Return the problem."""
        return self.members[0].problem

    @cached_property
    def right(self) -> int:
        """Return the number of right responses."""
        return sum(response.is_correct for response in self.members)

    @property
    def fate(self) -> str:
        """Return `trained`, or why the group did not train. Return "" for a group of a result.

        A custom filter decided by code, which is not run here.
        """
        if self.config is None:
            return ""
        if isinstance(self.config.algorithm.filter, CustomFilter):
            return UNKNOWN_FATE
        if trains(self, self.config.algorithm):
            return "trained"
        if not self.judged:
            return "not judged"
        ends = {0: "dropped, all wrong", len(self.judged): "dropped, all right"}
        return ends.get(self.right, "dropped, mixed")

    @cached_property
    def scores(self) -> dict[int, Score]:
        """Compute {sample: score} of each judged response, by the run's own functions.

        Return {} for a group of a result.
        """
        if self.config is None:
            return {}
        algo = self.config.algorithm
        judged = candidates(self, algo)
        max_tokens = self.config.rollout.max_tokens
        rewards = [shaped_reward(response, algo, max_tokens) for response in judged]
        advantages: list[float | None] = [None] * len(judged)
        formula = GROUP_ADVANTAGES.get(algo.advantage.component)  # none for one that is not ours
        if formula is not None and not algo.compares_batch and len(judged) > 1:
            values = Numbers(rewards)
            advantages = list(formula(values, values, **algo.advantage.fields))
        scores = {}
        for response, reward, advantage in zip(judged, rewards, advantages, strict=True):
            is_masked = algo.masks_cut_off and response.is_cut_off
            scores[response.sample] = Score(reward, None if is_masked else advantage)
        return scores


@dataclass(frozen=True)
class Source:
    """A run with its settings, or the results that `rlvr eval` measured."""

    path: Path
    config: Config | None
    results: Sequence[Result] = ()

    @property
    def metrics(self) -> list[StepFigures]:
        """Return the steps that can be read so far. Raises UserError if they are not in a file."""
        path = self.path / "metrics.jsonl"
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise UserError(f"{path}: cannot be read (not a regular file)")
        return list(read_steps(path)) if self.config else []

    @property
    def files(self) -> dict[int, Path]:
        """Return a run's files of responses by step."""
        paths = sorted((self.path / "rollouts").glob("step-*.jsonl"))
        return {int(path.stem[5:]): path for path in paths if path.stem[5:].isdecimal()}

    def groups(self, step: int | None = None) -> Iterator[StoredGroup]:
        """Yield the groups of a step, or of all. Raises UserError if no responses were stored."""
        files = self.files
        if self.config and not files:
            raise UserError(f"{self.path}: it has no responses yet")
        if step is not None and step not in files:
            steps = f"{min(files)} to {max(files)}" if files else "no steps"
            raise UserError(f"--step {step}: {self.path} has no such step; it has {steps}")
        if self.config is None:
            sets = self.held_out().items()
            parts = [(name, problem) for name, problems in sets for problem in problems]
            for number, (name, problem) in enumerate(parts, 1):
                yield StoredGroup(0, number, problem.responses, None, name)
            return
        numbers = sorted(files) if step is None else [step]
        for stored_step in numbers:
            for number, rows in enumerate(grouped(stored_responses(files[stored_step])), 1):
                yield StoredGroup(stored_step, number, rows, self.config)

    def tokens(self, step: int) -> dict[int, list[StoredTokens]]:
        """Return the figures of single tokens in a step's update, by group. Few groups have any."""
        path = self.path / "rollouts" / f"tokens-step-{step:06d}.json"
        responses = read_tokens(path) if self.config and path.exists() else ()
        return by_key(responses, lambda response: response.group)

    def held_out(self, before_training: bool = False) -> dict[str, tuple[JudgedProblem, ...]]:
        """Return the held-out sets of a run as last measured since its first step, or each result.

        A single set has an empty name.
        """
        if self.config is None:
            if len(self.results) == 1:
                return {"": self.results[0].problems}
            return {
                f"{result.model} on {result.data}".removesuffix(" on "): result.problems
                for result in self.results
            }
        before = self.path / "rollouts" / "held-out-before.jsonl"
        file = before if before_training else self._newest_file
        responses = [] if file is None or not file.exists() else list(stored_responses(file))
        has_sets = len(self.config.eval.sources) > 1
        sets = by_key(responses, lambda response: response.problem.problem_set if has_sets else "")
        if len(sets) == 1:
            sets = {"": responses}
        return {name: judged_problems(part) for name, part in sets.items()}

    @property
    def _newest_file(self) -> Path | None:
        """Return the file of a run's newest measurement since its first step, if there is one."""
        folder = self.path / "rollouts"
        files = [*sorted(folder.glob("held-out-step-*.jsonl")), folder / "held-out-after.jsonl"]
        present = [file for file in files if file.exists()]
        return present[-1] if present else None

    @property
    def newest_moment(self) -> str:
        """Return when a run was last measured: `after training`, or `at step N`. Return "" for a
        result, and for a run that was not measured since its first step."""
        file = self._newest_file
        if file is None:
            return ""
        number = file.stem.removeprefix("held-out-step-")
        return f"at step {int(number)}" if number.isdecimal() else "after training"

    @property
    def curves(self) -> History:
        """Return the steps of a run, with what was measured before the first and after the last."""
        history = self.metrics
        if not history:
            return history
        ends = {0: self.held_out_figures(before_training=True)}
        has_end = (self.path / "rollouts" / "held-out-after.jsonl").exists()
        if has_end and not history[-1].held_out:
            ends[history[-1].step] = self.held_out_figures()
        return with_ends(history, ends)

    def held_out_figures(self, before_training: bool = False) -> dict[str, HeldOut]:
        """Compute pass@1 of the held-out sets of a run that were measured, by their names in a
        step, where the first has an empty one."""
        sets = {}
        for number, (name, problems) in enumerate(self.held_out(before_training).items()):
            estimate = pass_estimate([problem.tally for problem in problems], 1)
            if estimate is not None:
                low, high = estimate.interval
                named = HeldOut(pass_at_1=estimate.value, low=low, high=high)
                sets[name if number else ""] = named
        return sets


def open_source(path: Path) -> Source:
    """Open a run, a result, or a file of judged rows. Raises UserError for anything else."""
    if path.name == "report.json":
        path = path.parent
    if (path / "config.yaml").is_file():
        return Source(path, resolve(run_layer(path, "show")))
    if (path / "report.json").is_file() or path.is_file():
        return Source(path, None, read_results(path, None, "show"))
    if (path / "unfinished").is_dir():
        raise UserError(f"show {path}: not finished; give its rlvr eval command again to go on")
    raise UserError(
        f"show {path}: neither a run (no config.yaml) nor a result (no report.json) is there"
    )


def runs_in(path: Path) -> list[Path]:
    """Return the runs in a directory of runs, in the order of their names. Return any other path
    alone."""
    if any((path / name).exists() for name in ("config.yaml", "report.json", "unfinished")):
        return [path]
    return sorted(file.parent for file in path.glob("*/config.yaml")) or [path]


def send_to(trackers: Sequence[str], runs: Sequence[Source], display: Display) -> None:
    """Send the metrics and responses of stored runs to trackers."""
    check_trackers(trackers)
    for run in runs:
        assert run.config is not None
        history = run.metrics
        files = run.files
        mirrors = Mirrors(trackers, run.path, run.config, 1, display.warn)
        mirrors.send_measured(0, run.held_out_figures(before_training=True))
        for figures in history:
            groups = run.groups(figures.step) if figures.step in files else ()
            mirrors.send(figures, (response for group in groups for response in group.members))
        if history and (run.path / "rollouts" / "held-out-after.jsonl").exists():
            mirrors.send_measured(history[-1].step, run.held_out_figures())
        if mirrors.close():
            display.result("tracked", f"{len(history)} steps of {run.path}: {', '.join(trackers)}")


def grouped(responses: Iterable[Response]) -> Iterator[tuple[Response, ...]]:
    """Yield the responses that were sampled together: one problem, numbers that rise."""
    part: list[Response] = []
    for response in responses:
        is_next = part and (
            response.problem.id != part[0].problem.id or response.sample <= part[-1].sample
        )
        if is_next:
            yield tuple(part)
            part = []
        part.append(response)
    if part:
        yield tuple(part)
