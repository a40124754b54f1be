"""Every write, sync and rename of a run and of an evaluation fails, once or from then on; every
file is torn: one line, and the same command line goes on to the same end.

A few of them by default; all with `make fuzz`.
"""

import errno
import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from forked import Done, forked
from fuzz import THOROUGH
from limits import Situation, check
from small_runs import repeatable

from rlvr_cli.runs.checkpoint import checkpoints

SMALL = ("--prompts", "2", "-n", "4", "--max-tokens", "24", "--limit", "16", "-q")
TRAIN = ("train", "--steps", "2", *SMALL, "--lr", "0.001", "--set", "eval.limit=2", "--out", "run")
RESUME = ("train", "--resume", "run", "-q")
EVAL = ("eval", "--limit", "4", "-n", "2", "--max-tokens", "16", "--out", "run")
KINDS = ("write", "fsync", "rename")
A_FEW = 2


class Faults:
    """Count the writes, syncs and renames of this process, and let the n-th of a kind fail; a write
    leaves half of its bytes."""

    def __init__(self, kind: str | None = None, number: int = 0, for_good: bool = False) -> None:
        self.kind, self.number, self.for_good = kind, number, for_good
        self.seen: Counter[str] = Counter()

    def install(self) -> None:
        write = os.write
        fsync = os.fsync
        rename = Path.rename
        write_text = Path.write_text

        def half_written(descriptor, data):
            if self.fails("write"):
                write(descriptor, data[: len(data) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(descriptor, data)

        def half_text(path, text, **options):
            if self.fails("write"):
                write_text(path, text[: len(text) // 2], **options)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            return write_text(path, text, **options)

        def unsynced(descriptor):
            if self.fails("fsync"):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            fsync(descriptor)

        def unnamed(path, target):
            if self.fails("rename"):
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            return rename(path, target)

        os.write, os.fsync = half_written, unsynced
        Path.rename, Path.write_text = unnamed, half_text

    def fails(self, kind: str) -> bool:
        self.seen[kind] += 1
        late = self.seen[kind] - self.number
        return kind == self.kind and (late == 0 or (self.for_good and late > 0))


def life(command: tuple[str, ...], place: Path, faults: Faults) -> Done:
    """The command with these faults; what was counted stands in `place/../seen.json`."""

    def program() -> None:
        from rlvr_cli.__main__ import main

        faults.install()
        try:
            main()
        finally:
            with (place.parent / "seen.json").open("w") as file:
                json.dump(faults.seen, file)

    return forked(command, place, program=program, seconds=60)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> dict[tuple[str, ...], tuple[Path, Counter[str]]]:
    """Each command's end without a fault, and how often it writes."""
    actual = {}
    for command in (TRAIN, EVAL):
        place = tmp_path_factory.mktemp("unbroken") / "place"
        place.mkdir()
        assert life(command, place, Faults()).rc == 0
        actual[command] = (
            place / "run",
            Counter(json.loads((place.parent / "seen.json").read_text())),
        )
    return actual


def some(count: int, offset: int) -> list[int]:
    """All of 1 … count, or a few of them."""
    if THOROUGH:
        return list(range(1, count + 1))
    return sorted({1 + (offset + part * count // A_FEW) % count for part in range(A_FEW)})


def outcome(run: Path) -> object:
    """What has to be equal in the end."""
    metrics, report = run / "metrics.jsonl", run / "report.json"
    rows = metrics.read_text().splitlines() if metrics.exists() else []
    results = json.loads(report.read_text())["results"] if report.exists() else []
    return (
        [repeatable(json.loads(row)) for row in rows],
        results,
        {
            str(path.relative_to(run)): path.read_bytes()
            for pattern in ("rollouts/*", "responses/*", "checkpoints/*/model.saf*")
            for path in run.glob(pattern)
        },
    )


@pytest.mark.parametrize("part", range(A_FEW))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", [TRAIN, EVAL], ids=["train", "eval"])
def test_what_fails_is_one_line_and_goes_on(command, kind, part, unbroken, tmp_path):
    complete, observed = unbroken[command]
    assert observed[kind] >= (5 if command is TRAIN else 2)
    for number in some(observed[kind], KINDS.index(kind))[part::A_FEW]:
        place = tmp_path / f"{number}" / "place"
        place.mkdir(parents=True)
        result = life(command, place, Faults(kind, number, for_good=number % 2 == 0))
        where = f"{kind} {number}"
        assert result.rc == 2, (where, result.err)
        assert "Traceback" not in result.err, (where, result.err)
        assert result.err.strip().splitlines()[-1].startswith("rlvr: error: "), (where, result.err)
        if command is TRAIN and (place / "run").exists():
            steps = len(list((place / "run/rollouts").glob("step-*.jsonl")))
            retained = max((item.step for item in checkpoints(place / "run")), default=0)
            assert retained >= steps - 1, (where, "more than the step under way is lost")
            repeated = forked(RESUME, place)
        else:
            repeated = forked(command, place)
        finished = command is EVAL and "it exists already" in repeated.err
        assert repeated.rc == 0 or finished, (where, repeated.err)
        assert outcome(place / "run") == outcome(complete), where
        left = {path.name for path in (place / "run").rglob(".*")} - {".lock"}
        assert not left, (where, left)
        shutil.rmtree(place)


ESSENTIAL = ("run/config.yaml",)


@pytest.mark.slow
def test_a_torn_end_of_any_file_of_a_run_is_one_line_or_no_matter(unbroken, tmp_path):
    complete, _ = unbroken[TRAIN]
    names = [str(path.relative_to(complete.parent)) for path in sorted(complete.rglob("*"))]
    files = [name for name in names if (complete.parent / name).is_file() and ".lock" not in name]
    assert len(files) > 20
    for name in files if THOROUGH else files[::4]:
        place = tmp_path / "place"
        shutil.copytree(complete, place / "run")
        path = place / name
        size = min(512, path.stat().st_size)
        path.write_bytes(path.read_bytes()[: path.stat().st_size - size] + b"\0" * size)
        rc = 2 if name in ESSENTIAL else 0
        check(Situation(name, RESUME, "error" if rc else "run ", rc, changes=r"run/.*"), place)
        if rc == 0:
            final = "run/checkpoints/step-2/model.safetensors"
            assert (place / final).read_bytes() == (complete.parent / final).read_bytes(), name
        shutil.rmtree(place)
