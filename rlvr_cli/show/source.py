"""Read what runs and results left on disk, also while they go on: settings, metrics, responses."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rlvr_cli.algorithm.group_filter import trains
from rlvr_cli.config import Config, resolve, run_layer
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import shortened
from rlvr_cli.core.types import PROBLEM_SET, Completion, Group, Problem, Prompt, Rollout, by_key
from rlvr_cli.data.rows import ResponseRow, stored_rows
from rlvr_cli.evaluation.report import UNJUDGED, JudgedProblem, apart, judged_problems
from rlvr_cli.evaluation.responses import LABELS
from rlvr_cli.runs.stored import StoredTokens, read_metrics, read_tokens
from verifiers import Verdict, Verification

REASONS = {
    "correct": "{extracted} equals the gold answer {answer}",
    "wrong": "{extracted} is not the gold answer {answer}",
    "no_answer": "no answer is stated",
    "bad_format": "not in the form {verifier}",
    "truncated": "cut off before an answer",
    "timeout": "the verifier ran out of time, so it never trains",
    "unparseable_gold": "the gold answer {answer} cannot be read, so it never trains",
}
"""What a verdict says about a response."""


@dataclass(frozen=True)
class ShownGroup:
    """The responses to one problem, sampled together; `step` is 0 in a result."""

    step: int
    number: int
    rows: tuple[ResponseRow, ...]
    result: str = ""
    """Which of a directory's results it is of, where there are several."""

    @cached_property
    def judged(self) -> list[ResponseRow]:
        """Return the responses with a verdict of their own."""
        return [row for row in self.rows if row["verdict"] not in UNJUDGED]

    @cached_property
    def right(self) -> int:
        """Return the number of right responses."""
        return sum(row["verdict"] == "correct" for row in self.rows)

    @cached_property
    def group(self) -> Group:
        """Return it as it trained, but for prompts and ids of tokens."""
        first = self.rows[0]
        prompt = Prompt(Problem(first["id"], first["problem"], first["answer"]), "", (), False)
        return Group(prompt, tuple(_rollout(prompt, row) for row in self.rows), 0)

    @property
    def fate(self) -> str:
        """Return whether rewards tell its responses apart: mixed, all right, all wrong."""
        if not self.judged:
            return "not judged"
        mixed = "all right" if self.right else "all wrong"
        return mixed if self.right in (0, len(self.judged)) else "mixed"


@dataclass(frozen=True)
class Source:
    """A run (with its settings) or a result of `rlvr eval` (without)."""

    name: str
    path: Path
    config: Config | None

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Return the steps that can be read so far. Raises UserError where they are in no file."""
        path = self.path / "metrics.jsonl"
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise UserError(f"{path}: cannot be read (not a regular file)")
        return list(read_metrics(path)) if self.config else []

    @property
    def files(self) -> dict[int, list[Path]]:
        """Return the files of responses by step; those of a result are of step 0."""
        if self.config is None:
            folder = self.path / "responses"
            return {0: sorted(folder.glob("*.jsonl")) if self.path.is_dir() else [self.path]}
        found = sorted((self.path / "rollouts").glob("step-*.jsonl"))
        return {int(path.stem[5:]): [path] for path in found if path.stem[5:].isdecimal()}

    def groups(self, step: int | None = None) -> Iterator[ShownGroup]:
        """Yield the groups of a step, or of all. Raises UserError where there are none."""
        files = self.files
        if not any(files.values()):
            raise UserError(f"{self.path}: it has no responses yet")
        if step is not None and step not in files:
            known = f"{min(files)} to {max(files)}" if max(files) else "no steps"
            raise UserError(f"--step {step}: {self.path} has no such step; it has {known}")
        for number in [step] if step is not None else sorted(files):
            parts = (
                (path, group)
                for path in files[number]
                for group in grouped(number, stored_rows(path))
            )
            several = len(files[number]) > 1
            for at, (path, group) in enumerate(parts, 1):
                of = "" if self.config else result_of(path if several else None, group.rows[0])
                yield replace(group, number=at, result=of)

    def tokens(self, step: int) -> dict[int, list[StoredTokens]]:
        """Return what the update of a step saw of single tokens, by group; often of a few only."""
        path = self.path / "rollouts" / f"tokens-step-{step:06d}.json"
        found = read_tokens(path) if self.config and path.exists() else ()
        return by_key(found, lambda one: one.group)

    def held_out(self, when: str = "newest") -> dict[str, tuple[JudgedProblem, ...]]:
        """Return each held-out set as measured before training, or last; or each result of a
        directory. Of a single one the name is empty."""
        if self.config is None:
            rows = [(path, row) for path in self.files[0] for row in stored_rows(path)]
            parts = by_key(rows, lambda pair: result_of(*pair))
            listed = {name: [row for _, row in part] for name, part in parts.items()}
        else:
            listed = self._measured(when)
        return {
            name if len(listed) > 1 else "": judged_problems(
                sorted(rows, key=lambda row: row["id"]), apart
            )
            for name, rows in listed.items()
        }

    def _measured(self, when: str) -> dict[str, list[ResponseRow]]:
        folder = self.path / "rollouts"
        paths = [folder / "held-out-before.jsonl"]
        if when == "newest":
            paths += sorted(folder.glob("held-out-step-*.jsonl"))
            paths.append(folder / "held-out-after.jsonl")
        paths = [path for path in paths if path.exists()][-1:]
        rows = [row for path in paths for row in stored_rows(path)]
        are_several = self.config is not None and len(self.config.eval.sources) > 1
        return by_key(rows, lambda row: str(row.get(PROBLEM_SET, "")) if are_several else "")


def result_of(path: Path | None, row: ResponseRow) -> str:
    """Return which result a row is of: what it says of its model and set, else its file's name."""
    said = [str(row[key]) for key in LABELS if row.get(key)]
    return " on ".join(said) or (path.stem if path else "")


def open_source(path: Path) -> Source:
    """Open a run, a result, or a file of judged rows. Raises UserError for anything else."""
    if path.name == "report.json":
        path = path.parent
    if (path / "config.yaml").is_file():
        return Source(str(path), path, resolve(run_layer(path, "show")))
    if (path / "report.json").is_file() or path.is_file():
        return Source(str(path), path, None)
    if (path / "unfinished").is_dir():
        raise UserError(f"show {path}: not finished; give its rlvr eval command again to go on")
    raise UserError(
        f"show {path}: neither a run (no config.yaml) nor a result (no report.json) is there"
    )


def grouped(step: int, rows: Iterator[ResponseRow]) -> Iterator[ShownGroup]:
    """Yield the groups of rows that follow one another, numbered from 1."""
    number, part = 1, list[ResponseRow]()
    for row in rows:
        if part and (row["id"] != part[0]["id"] or row["sample"] <= part[-1]["sample"]):
            yield ShownGroup(step, number, tuple(part))
            number, part = number + 1, []
        part.append(row)
    if part:
        yield ShownGroup(step, number, tuple(part))


def _rollout(prompt: Prompt, row: ResponseRow) -> Rollout:
    completion = Completion(range(row["n_tokens"] or 1), (), row["finish_reason"])
    verdict = Verdict(row["verdict"])
    judged = Verification(verdict, row["extracted"], True, "", row["verifier"])
    reward = None if verdict in UNJUDGED else row["reward"] or 0.0
    own = row["rewards"].items() if isinstance(row.get("rewards"), dict) else ()
    own = {key: value for key, value in own if isinstance(value, int | float)}
    return Rollout(prompt, row["sample"], completion, row["response"], judged, reward, own)


def reason(row: ResponseRow) -> str:
    """Say why the verdict is as it is."""
    said = ("extracted", "answer", "verifier")
    return REASONS[row["verdict"]].format_map({key: shortened(str(row[key])) for key in said})


def trained(group: ShownGroup, config: Config) -> str:
    """Say whether a group trains: `trained`, or why it does not."""
    if trains(group.group, config.algorithm):
        return "trained"
    return f"dropped, {group.fate}" if group.judged else group.fate


def as_trained(group: ShownGroup, config: Config) -> dict[int, tuple[float, float | None]]:
    """Return the reward, shaped by length, and the advantage of each judged response by its number,
    by the run's own functions; None for advantages that also depend on the batch, a critic or a
    reference, or of responses that do not train."""
    import torch

    from rlvr_cli.algorithm.advantage import ADVANTAGES, AdvantageInputs
    from rlvr_cli.algorithm.reward import shaped_reward

    algo = config.algorithm
    judged = group.group.rollouts if algo.reads_responses else group.group.judged
    paid = {one.sample: shaped_reward(one, algo, config.rollout.max_tokens) for one in judged}
    found: dict[int, float] = {}
    if algo.advantage.needs_group and not (algo.whiten or algo.rewards_kl) and len(judged) > 1:
        rewards = torch.tensor([[value] for value in paid.values()], dtype=torch.float64)
        zeros = torch.zeros_like(rewards)  # one token a response: n_tokens is only a claim
        inputs = AdvantageInputs(
            rewards, zeros + 1, zeros[:, 0], zeros, zeros[:, 0], zeros[:, 0] > 0
        )
        advantages = ADVANTAGES[algo.advantage.kind](inputs, **algo.advantage.cells)[:, 0].tolist()
        found = {
            one.sample: advantage
            for one, advantage in zip(judged, advantages, strict=True)
            if not (algo.masks_cut_off and one.completion.finish_reason == "length")
        }
    return {sample: (reward, found.get(sample)) for sample, reward in paid.items()}
