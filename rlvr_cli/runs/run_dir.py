"""Write a run directory: settings, metrics, rollouts, tokens and problems."""

import hashlib
import json
import re
import time
from collections.abc import Container, Iterable, Sequence
from contextlib import nullcontext, suppress
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile

from rlvr_cli.config import Config, as_yaml
from rlvr_cli.core import files
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import JsonObject, jsonl_line
from rlvr_cli.core.step_figures import StepFigures
from rlvr_cli.core.types import Problem, Response
from rlvr_cli.data.rows import as_row
from rlvr_cli.model.loading import step_directories
from rlvr_cli.ranks.group import broadcast_from_first, by_the_first, gather, is_first, world
from rlvr_cli.runs.stored import PROBLEMS, read_steps
from rlvr_cli.training.record import StepResult

_NUMBER = re.compile(r"step-(\d{1,9})\Z", re.ASCII)
_ROLLOUTS = re.compile(r"(tokens-|held-out-)?step-\d{6,9}\.jsonl?", re.ASCII)
"""The names of the files of a step."""
_EXISTS = "--out {0}: it exists already; name another directory, or go on with --resume {0}"


class RunDirectory:
    """A run directory, locked by this process until it ends or calls `close`.

    With several processes only the first locks it and writes. Raises UserError if another process
    holds it, or if a part of it is a link. Writing raises OSError if it fails.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._rollouts = directory / "rollouts"
        self._checksums: JsonObject = {}
        """What the manifest has, once this process has written it."""
        self._lock = files.lock_directory(directory) if is_first() else None
        _check_shared(directory.is_dir(), directory)
        files.refuse_links(directory, ("rollouts", "checkpoints"))
        names = [path.name for _, path in step_directories(directory)]
        files.refuse_links(directory / "checkpoints", names)

    def close(self) -> None:
        """Release the directory for other processes."""
        if self._lock is not None:
            self._lock.close()

    def write(self, name: str, text: str) -> None:
        """Write a whole file of the directory."""
        if is_first():
            files.write_atomically(self.directory / name, text)

    def record(self, result: StepResult) -> None:
        """Write the step's rollouts and tokens and append its metrics."""
        number = f"step-{result.step:06d}"
        if result.tokens:
            self._write_with_checksum(f"tokens-{number}.json", json.dumps(result.tokens))
        if result.held_out:
            self.write_rollouts(f"held-out-{number}", result.held_out)
        self.write_rollouts(number, chain.from_iterable(g.rollouts for g in result.sampled))
        if is_first():
            files.append_line(self.directory / "metrics.jsonl", jsonl_line(result.figures.row))

    def write_rollouts(self, name: str, responses: Iterable[Response]) -> None:
        """Write `rollouts/NAME.jsonl`, one line per response, and its checksum."""
        lines = (jsonl_line(as_row(response)) for response in responses)
        self._write_with_checksum(f"{name}.jsonl", "".join(lines))

    def _write_with_checksum(self, name: str, text: str) -> None:
        self.write(f"rollouts/{name}", text)
        checksum = hashlib.sha256(text.encode()).hexdigest()
        if is_first() and self._checksums.get(name) != checksum:
            line = files.manifest_line(name, checksum)
            files.append_line(self._rollouts / files.MANIFEST_LINES, line)
            self._checksums[name] = checksum

    def rollouts_error(self, step: int) -> str | None:
        """Describe what was changed in the rollouts up to that step. Return None if nothing was."""
        later = {path.name for path in self._rollouts_after(step)}
        present = {path.name for path in self._rollouts.glob("*.json*")}
        return files.integrity_error(
            self._rollouts,
            lambda name: name not in later,
            # A checkpoint comes after the lines of its files, unless a power cut took them.
            needed=[name for name in sorted(present - later) if _ROLLOUTS.fullmatch(name)],
            read=files.read_growing_manifest,
        )

    def _rollouts_after(self, step: int) -> list[Path]:
        """List the files of rollouts that were written after that step."""
        later = []
        for path in self._rollouts.glob("*.json*"):
            number = _NUMBER.search(path.stem)
            if path.stem == "held-out-after" or (number and int(number[1]) > step):
                later.append(path)
        return later

    def truncate_to(self, step: int) -> list[StepFigures]:
        """Truncate the files to the end of that step. Return the steps up to it."""
        rows = []
        if is_first():
            self._rollouts.mkdir(exist_ok=True)
            for part in (".", "rollouts", "checkpoints"):
                files.clear_leftovers(self.directory / part)
            later = self._rollouts_after(step)
            self._cut_manifest({path.name for path in later})
            for path in [*later, self.directory / "summary.json"]:
                files.remove(path)
            stored = read_steps(self.directory / "metrics.jsonl")
            rows = [figures.row for figures in stored if figures.step <= step]
            self.write("metrics.jsonl", "".join(map(jsonl_line, rows)))
        return [StepFigures.from_row(row) for row in broadcast_from_first(rows)]

    def _cut_manifest(self, removed: Container[str]) -> None:
        """Write the manifest again without the files that are removed, in the present form."""
        with suppress(OSError, ValueError):
            checksums = files.read_growing_manifest(self._rollouts)
            self._checksums = {
                name: checksum for name, checksum in checksums.items() if name not in removed
            }
        lines = [files.manifest_line(*line) for line in self._checksums.items()]
        self.write(f"rollouts/{files.MANIFEST_LINES}", "".join(lines))
        files.remove(self._rollouts / files.MANIFEST)


def _check_shared(is_visible: bool, directory: Path) -> None:
    """Raise UserError in all processes if the directory is not visible to one of them."""
    if not all(gather(is_visible)):
        raise UserError(
            f"{directory}: not seen by all processes: name a directory that all nodes share"
        )


def refuse_place(directory: Path) -> None:
    """Raise UserError for a directory that exists, cannot be made, or would not be seen by all
    processes."""
    if is_first() and directory.exists():
        raise UserError(_EXISTS.format(directory))
    try_run_place(directory, "--out ")
    if world() == 1:
        return
    # The first process writes a file next to it, and the others look for that file.
    parent = next(parent for parent in directory.absolute().parents if parent.is_dir())
    with NamedTemporaryFile(dir=parent, prefix=".") if is_first() else nullcontext() as file:
        name = broadcast_from_first(Path(file.name).name if file else "")
        _check_shared((parent / name).exists(), directory)


def try_run_place(directory: Path, option: str = "") -> None:
    """Raise UserError if a run cannot be written in a directory. Warn of what its file system
    lacks."""
    try:
        by_the_first(lambda: files.try_place(directory))
    except OSError as error:
        raise UserError(f"{option}{directory}: cannot be made ({error.strerror})") from None


def create_run(
    directory: Path, config: Config, problems: Iterable[Problem] | None = None
) -> RunDirectory:
    """Create a run directory, with a copy of the problems if they cannot be read again.

    Raises UserError if it exists, since nothing is ever overwritten, or if it cannot be made.
    """

    def fill(aside: Path) -> None:
        if directory.exists():  # an empty one, too
            raise FileExistsError
        (aside / "rollouts").mkdir()
        files.write_new(aside / "config.yaml", as_yaml(config))
        if problems is not None:
            lines = (jsonl_line(vars(problem)) for problem in problems)
            files.write_new(aside / PROBLEMS, "".join(lines))

    try:
        by_the_first(lambda: files.make_directory(directory, fill))
    except FileExistsError:
        raise UserError(_EXISTS.format(directory)) from None
    except OSError as error:
        raise UserError(f"--out {directory}: cannot be made ({error.strerror})") from None
    return RunDirectory(directory)


def default_directory(algo: str, sources: Sequence[str]) -> Path:
    """Return a `runs/ALGO-DATA-TIME` that does not exist yet, the same in all processes."""
    data = "stdin" if sources[0] == "-" else Path(sources[0]).stem
    if len(sources) > 1:
        data += f"-and-{len(sources) - 1}-more"
    base = Path("runs") / f"{algo}-{data}-{time.strftime('%Y%m%d-%H%M%S')}"
    path = base
    number = 1
    while path.exists():
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return Path(broadcast_from_first(str(path)))
