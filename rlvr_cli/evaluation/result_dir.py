"""Read and write a result directory: `report.json`, `responses/*.jsonl`, `unfinished/*.jsonl`.

Each problem's rows are a line of `unfinished/NAME.jsonl` as soon as they are judged. After a stop
the same command goes on from there and samples nothing twice.
"""

import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import IO, Annotated

from pydantic import BaseModel, ConfigDict, Field

from rlvr_cli.core import files
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import JsonObject, jsonl_line, parse_json
from rlvr_cli.core.report import Fingerprint, Report
from rlvr_cli.core.text import shortened
from rlvr_cli.core.types import Label, Response, by_key
from rlvr_cli.data.rows import JudgedRow, as_row, stored_responses
from rlvr_cli.data.sources import bare_name
from rlvr_cli.evaluation.figures import Cluster, judged_problems
from rlvr_cli.evaluation.fingerprint import fingerprint_differences
from rlvr_cli.evaluation.report import Result

_REPORT = "report.json"
_RESPONSES = "responses"
_UNFINISHED = "unfinished"
_SHOWN = 10
_LARGEST_REPORT = 256 << 20
_LONGEST_NAME = 180
"""Bytes of a file's name. A file system allows 255 with the ending."""


class _Stored(BaseModel):
    """A part of a result's files, with unknown keys allowed."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class _Beginning(_Stored):
    """What any line of an unfinished result says of its beginning."""

    began: str


class _DoneProblem(_Stored):
    """A line of an unfinished result: the rows of one problem and their fingerprint."""

    fingerprint: JsonObject
    rows: Annotated[list[JudgedRow], Field(min_length=1)]


class _Entry(_Stored):
    model: str
    data: str
    fingerprint: JsonObject


class _Names(_Stored):
    """What a row of several results says of its own, among the other fields of its problem."""

    model: object = None
    problem_set: object = None


class _Report(_Stored):
    """A finished report.json."""

    results: list[_Entry]


class PartialResult:
    """The judged responses of one result by problem, also in a file if there is a `path`.

    Each line of the file has the fingerprint and the rows of one problem, so that only the problem
    of a line torn by a power cut is sampled again. Raises UserError if the file has other settings.
    """

    def __init__(
        self,
        path: Path | None,
        fingerprint: Fingerprint,
        samples: int,
        began: datetime | None = None,
    ) -> None:
        self.path = path
        self.fingerprint = fingerprint
        self.began = began
        self.responses_to: dict[str, Sequence[Response]] = {}
        """The responses by the problem's id."""
        self.dropped = 0
        """Lines of the file that could not be read, whose problems are sampled again."""
        if path is None:
            return
        lines = b""
        if path.is_symlink() or path.exists():
            with files.open_regular(path, follow=False) as file:
                lines = file.read()
        current = parse_json(jsonl_line(fingerprint.row))  # as a file gives it back
        for line in filter(None, lines.split(b"\n")):
            try:
                problem = _DoneProblem.model_validate(parse_json(line))
            except ValueError:
                self.dropped += 1
                continue
            _refuse_other_settings(path, current, problem.fingerprint)
            ids = {row.id for row in problem.rows}
            if len(ids) == 1 and len(problem.rows) == samples:
                # What has the name `rewards` in a result is a field of the problem.
                answered = [replace(row.answered, rewards={}) for row in problem.rows]
                self.responses_to[ids.pop()] = answered
            else:
                self.dropped += 1
        files.write_atomically(path, "".join(map(self._line, self.responses_to.values())))

    def _line(self, responses: Sequence[Response]) -> str:
        rows = [as_row(response) for response in responses]
        return jsonl_line({"fingerprint": self.fingerprint.row, "began": self.began, "rows": rows})

    def add(self, problems: Mapping[str, Sequence[Response]]) -> None:
        """Store the responses to finished problems by their ids. They are on the disk when this
        returns: one wait for it does for all."""
        if self.path is not None and problems:
            files.append_line(self.path, "".join(map(self._line, problems.values())))
        self.responses_to.update(problems)

    def responses(self, identities: Iterable[str]) -> list[Response]:
        """Return the responses to these problems, in their order."""
        return [response for key in identities for response in self.responses_to[key]]


def _refuse_other_settings(path: Path, current: JsonObject, stored: JsonObject) -> None:
    """Raise UserError if the fingerprint of a line of an unfinished result is another."""
    differing = fingerprint_differences(current, stored)
    if differing:
        raise UserError(
            f"--out {path.parents[1]}: begun with other settings, which cannot be mixed "
            f"({'; '.join(differing[:_SHOWN])}); repeat those, or name another directory"
        )


class ResultDirectory:
    """The `--out` directory, locked by this process from the first write, or at once if it has
    partial results. Raises UserError if it is finished, locked, or has anything else."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock: IO[str] | None = None
        files.refuse_links(directory, (_UNFINISHED, _RESPONSES))
        self.began = self._beginning()
        """When the evaluation began: as its unfinished rows say, else when its first file was
        written, or now without a file."""
        if (directory / _UNFINISHED).is_dir():
            self.hold()
        elif directory.exists():
            raise UserError(f"--out {directory}: it exists already; name another or remove it")
        with files.writing(f"--out {directory}"):
            files.try_place(directory)

    def hold(self) -> None:
        """Create and lock the directory until the process ends. Raises UserError if that fails."""
        if self._lock is None:
            with files.writing(f"--out {self.directory}"):
                (self.directory / _UNFINISHED).mkdir(parents=True, exist_ok=True)
            self._lock = files.lock_directory(self.directory / _UNFINISHED)
            if (self.directory / _REPORT).exists():
                raise UserError(
                    f"--out {self.directory}: it exists already, finished; name another"
                )

    def _beginning(self) -> datetime:
        for path in sorted((self.directory / _UNFINISHED).glob("*.jsonl")):
            with (
                suppress(OSError, ValueError),
                files.open_regular(path) as file,
            ):
                first = _Beginning.model_validate(parse_json(file.readline()))
                return datetime.fromisoformat(first.began)
        return files.first_written(self.directory)

    def unfinished(self, name: str, fingerprint: Fingerprint, samples: int) -> PartialResult:
        """Return the partial result of this name, which is empty at first."""
        self.hold()
        with files.writing(f"--out {self.directory}"):
            path = self.directory / _UNFINISHED / f"{name}.jsonl"
            return PartialResult(path, fingerprint, samples, self.began)

    def finish(self, report: Report, results: Sequence[Result]) -> None:
        """Write the rows in order and then the report, atomically. Remove partial results."""
        self.hold()
        with files.writing(f"--out {self.directory}"):
            (self.directory / _RESPONSES).mkdir(parents=True, exist_ok=True)
            names = file_names([(result.model, result.data) for result in results])
            for name, result in zip(names, results, strict=True):
                text = "".join(jsonl_line(as_row(response)) for response in result.responses)
                files.write_atomically(self.directory / _RESPONSES / f"{name}.jsonl", text)
            text = json.dumps(report.row, indent=2, ensure_ascii=False, default=str) + "\n"
            files.write_atomically(self.directory / _REPORT, text)
        shutil.rmtree(self.directory / _UNFINISHED, ignore_errors=True)


def file_names(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return a different, valid file name for each (model, data). Long ones end in a checksum."""
    names: dict[str, None] = {}
    repeats: Counter[str] = Counter()
    for model, data in pairs:
        parts = (re.sub(r"[^\w.-]+", "_", part).strip("_.-") for part in (data, model))
        base = "--".join(parts)
        raw = base.encode()
        if len(raw) > _LONGEST_NAME:
            digest = hashlib.sha256(raw).hexdigest()
            base = f"{raw[:_LONGEST_NAME].decode(errors='ignore')}-{digest[:16]}"
        name = base
        while name in names:
            repeats[base] += 1
            name = f"{base}-{repeats[base] + 1}"
        names[name] = None
    return list(names)


def read_results(path: Path, cluster: Cluster, option: str = "--against") -> list[Result]:
    """Read the results of a finished directory (or its report), or of a file of judged rows.

    Rows of several results in one file are told apart by `model` and `problem_set`. Raises
    UserError, beginning with the `option` that names the path, if it is neither.
    """
    if path.name == _REPORT:
        path = path.parent
    if not path.exists():
        raise UserError(f"{option} {path}: no such result or file")

    def read(file: Path) -> list[Response]:
        responses = list(stored_responses(file))
        if not responses:
            raise UserError(f"{option} {file}: no rows in it")
        return responses

    if not path.is_dir():
        parts = by_key(read(path), lambda response: _label(response, path))
        return [
            Result(*label, Fingerprint(), judged_problems(responses, cluster))
            for label, responses in parts.items()
        ]
    try:
        text = files.read_regular(path / _REPORT, _LARGEST_REPORT)
        entries = _Report.model_validate(parse_json(text)).results
    except (OSError, ValueError):
        raise UserError(f"{option} {path}: no report.json of rlvr eval in it") from None
    results = []
    names = file_names([(entry.model, entry.data) for entry in entries])
    for entry, name in zip(entries, names, strict=True):
        judged = judged_problems(read(path / _RESPONSES / f"{name}.jsonl"), cluster)
        results.append(Result(entry.model, entry.data, Fingerprint(entry.fingerprint), judged))
    return results


def _label(response: Response, path: Path) -> Label:
    """Return the model and the problem set that the row of a response names."""
    names = _Names.model_validate(response.problem.extra)
    return Label(str(names.model or path), str(names.problem_set or ""))


def find_match(model: str, data: str, baselines: Sequence[Result], path: Path) -> Result:
    """Find the baseline on this problem set, or on one without a name.

    If there is more than one, it must be of this model. A single baseline matches any set. Raises
    UserError, which names the `path` of the baselines, unless exactly one matches.
    """
    name = bare_name(data)
    same_data = [result for result in baselines if bare_name(result.data) in (name, "")]
    same_model = [result for result in same_data if result.model == model]
    matches: Sequence[Result] = same_model or same_data
    if not matches and len(baselines) == 1:
        matches = baselines
    if len(matches) != 1:
        names = [
            shortened(f"{result.model} on {result.data or 'a set without name'}")
            for result in baselines[:_SHOWN]
        ]
        if len(baselines) > _SHOWN:
            names.append("…")
        count = f"{len(matches)} results" if matches else "none"
        raise UserError(f"--against {path}: it has {count} for {data}; it holds {', '.join(names)}")
    return matches[0]
