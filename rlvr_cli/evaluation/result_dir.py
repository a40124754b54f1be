"""A result directory: `report.json`, `responses/*.jsonl`, and what a stopped evaluation left.

While it is measured, a result lies in `unfinished/NAME.jsonl`: its fingerprint, then the rows of
each problem as it is done. The same command goes on there, and nothing is sampled twice.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from rlvr_cli.core.files import lock_directory, write_atomically
from rlvr_cli.core.jsonl import jsonl_line
from rlvr_cli.core.types import UserError
from rlvr_cli.data.sources import BadRowError, bare_name, file_rows
from rlvr_cli.evaluation.fingerprint import Fingerprint, differences
from rlvr_cli.evaluation.report import Cluster, ResponseRow, Result, judged_problems

_REPORT, _RESPONSES, _UNFINISHED = "report.json", "responses", "unfinished"


class Unfinished:
    """The rows of one result, problem by problem; kept in a file if there is one."""

    def __init__(self, path: Path | None, fingerprint: Fingerprint, samples: int) -> None:
        self.path = path
        self.lines: dict[str, list[str]] = {}
        """Rows as they are written, by the problem's id."""
        if path is None:
            return
        header = jsonl_line({"fingerprint": fingerprint})
        kept = header + "".join(self._read(path, header, samples)) if path.exists() else header
        write_atomically(path, kept)

    def _read(self, path: Path, header: str, samples: int) -> Iterable[str]:
        """The whole groups of the file; what was cut off in the middle of writing is dropped."""
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        if lines and lines[0] != header:
            ours, theirs = (json.loads(line)["fingerprint"] for line in (header, lines[0]))
            raise UserError(
                f"--out {path.parents[1]}: begun with other settings, which cannot be mixed "
                f"({'; '.join(differences(ours, theirs))}); repeat those, or name another directory"
            )
        for line in lines[1:]:
            if line.endswith("\n"):
                self.lines.setdefault(json.loads(line)["id"], []).append(line)
        self.lines = {key: rows for key, rows in self.lines.items() if len(rows) == samples}
        return [line for rows in self.lines.values() for line in rows]

    def add(self, identity: str, rows: Sequence[ResponseRow]) -> None:
        """Keep the rows of a problem that is done; they reach the disk before this returns."""
        self.lines[identity] = [jsonl_line(row) for row in rows]
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write("".join(self.lines[identity]))
                file.flush()
                os.fsync(file.fileno())

    def rows(self, identities: Iterable[str]) -> list[ResponseRow]:
        """The rows of these problems, in their order."""
        return [json.loads(line) for key in identities for line in self.lines[key]]


class ResultDirectory:
    """Where `--out` points; held by this process from the first write, or where something is there
    to go on with. Raises UserError if something else is there, it is finished, or held by another.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock: IO[str] | None = None
        self._refuse_finished()
        if (directory / _UNFINISHED).is_dir():
            self._hold()
        elif directory.exists():
            raise UserError(f"--out {directory}: it exists already; name another or remove it")

    def _refuse_finished(self) -> None:
        if (self.directory / _REPORT).exists():
            raise UserError(f"--out {self.directory}: it exists already, finished; name another")

    def _hold(self) -> None:
        """Hold the directory until the process ends. Raises OSError if it cannot be made."""
        if self._lock is None:
            (self.directory / _UNFINISHED).mkdir(parents=True, exist_ok=True)
            self._lock = lock_directory(self.directory / _UNFINISHED)
            self._refuse_finished()

    def unfinished(self, name: str, fingerprint: Fingerprint, samples: int) -> Unfinished:
        """What is there of a result; `name` is that of its file."""
        try:
            self._hold()
            path = self.directory / _UNFINISHED / f"{name}.jsonl"
            return Unfinished(path, fingerprint, samples)
        except OSError as error:
            raise UserError(
                f"--out {self.directory}: cannot be written ({error.strerror})"
            ) from None

    def finish(self, report: Mapping[str, Any], rows: Mapping[str, Sequence[ResponseRow]]) -> None:
        """Write the rows in the order of the problems, then the report, each whole or not at all;
        what lay unfinished is removed."""
        try:
            self._hold()
            (self.directory / _RESPONSES).mkdir(parents=True, exist_ok=True)
            for name, listed in rows.items():
                text = "".join(map(jsonl_line, listed))
                write_atomically(self.directory / _RESPONSES / f"{name}.jsonl", text)
            text = json.dumps(report, indent=2, ensure_ascii=False, default=str) + "\n"
            write_atomically(self.directory / _REPORT, text)
        except OSError as error:
            raise UserError(
                f"--out {self.directory}: cannot be written ({error.strerror})"
            ) from None
        shutil.rmtree(self.directory / _UNFINISHED, ignore_errors=True)


def file_names(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """A file name for each (model, data), all different."""
    names: list[str] = []
    for model, data in pairs:
        base = "--".join(re.sub(r"[^\w.-]+", "_", part).strip("_.-") for part in (data, model))
        name, number = base, 2
        while name in names:
            name, number = f"{base}-{number}", number + 1
        names.append(name)
    return names


def read_results(path: Path, cluster: Cluster) -> list[Result]:
    """The results of a finished directory (or its report), or of a file of judged rows.

    Rows of a file say by `model` and `problem_set` which result they are of, if there are several.
    Raises UserError if it is neither.
    """
    if path.name == _REPORT:
        path = path.parent
    if not path.is_dir():
        return [
            Result(*label, {}, judged_problems(rows, cluster))
            for label, rows in _by_label(path).items()
        ]
    try:
        report = json.loads((path / _REPORT).read_text(encoding="utf-8"))
        entries = report["results"]
        pairs = [(entry["model"], entry["data"]) for entry in entries]
    except (OSError, ValueError, KeyError):
        raise UserError(f"--against {path}: no report.json of rlvr eval in it") from None
    return [
        Result(
            entry["model"],
            entry["data"],
            entry["fingerprint"],
            judged_problems(_judged_file(path / _RESPONSES / f"{name}.jsonl"), cluster),
        )
        for entry, name in zip(entries, file_names(pairs), strict=True)
    ]


def matching(model: str, data: str, theirs: Sequence[Result], where: Path) -> Result:
    """The one of their results that is on this problem set (or on one without a name; a file may
    lie elsewhere), of this model if there are several; a lone result is taken whatever its name.
    Raises UserError if it cannot be told which.
    """
    name = bare_name(data)
    same_data = [result for result in theirs if bare_name(result.data) in (name, "")]
    same_model = [result for result in same_data if result.model == model]
    found = same_model or same_data or theirs[: len(theirs) == 1]
    if len(found) != 1:
        names = ", ".join(
            f"{result.model} on {result.data or 'a set without name'}" for result in theirs
        )
        count = "none" if not found else f"{len(found)} results"
        raise UserError(f"--against {where}: it has {count} for {data}; it holds {names}")
    return found[0]


def _by_label(path: Path) -> dict[tuple[str, str], list[ResponseRow]]:
    """The rows of a file by model (else the file's name) and problem set (else none)."""
    parts: dict[tuple[str, str], list[ResponseRow]] = {}
    for row in _judged_file(path):
        label = str(row.get("model") or path), str(row.get("problem_set") or "")
        parts.setdefault(label, []).append(row)
    return parts


def _judged_file(path: Path) -> list[ResponseRow]:
    rows = []
    for where, _, row in file_rows(path):
        if isinstance(row, BadRowError):
            raise UserError(f"{where}: {row}")
        if not isinstance(row, dict) or "verdict" not in row or row.get("id") is None:
            raise UserError(
                f"{where}: no id or no verdict; judge it first with rlvr eval --responses"
            )
        rows.append({"problem": None, "extracted": None, **row, "id": str(row["id"])})
    if not rows:
        raise UserError(f"--against {path}: no rows in it")
    return sorted(rows, key=lambda row: row["id"])
