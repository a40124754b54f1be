"""How a command ends that nobody foresaw."""

import re
from pathlib import Path

import pytest
import typer

from rlvr_cli.cli.errors import reported_errors

FAULTS = {
    "a fault": (KeyError("verdicts"), "KeyError: 'verdicts'"),
    "escapes": (RuntimeError("\x1b[2J\nx"), "RuntimeError: \ufffd\\[2J x"),
    "long": (ValueError("x" * 10_000), "ValueError: x{300} "),
    "no words": (ZeroDivisionError(), "ZeroDivisionError"),
    "deep": (RecursionError("maximum recursion depth exceeded"), "RecursionError"),
}


@pytest.mark.parametrize(("error", "message"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_one_line_and_its_traceback_a_file(error, message, capfd, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(typer.Exit) as end, reported_errors():
        raise error
    assert end.value.exit_code == 2
    line = capfd.readouterr().err
    assert re.fullmatch(rf"rlvr: error: {message}.*\(a fault that was not foreseen; .*\)\n", line)
    details = re.search(r"details: (\S+)\)", line)
    assert details is not None
    assert "Traceback" in Path(details[1]).read_text()
    assert Path(details[1]).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to"),
        RuntimeError("CUDA out of memory. Tried to allocate 20 GiB"),
    ],
)
def test_no_memory_is_said_as_such(error, capfd):
    with pytest.raises(typer.Exit) as end, reported_errors():
        raise error
    assert end.value.exit_code == 2
    assert capfd.readouterr().err.startswith("rlvr: error: out of memory: take a smaller model")


def test_where_no_details_can_be_written(capfd, monkeypatch):
    def refuse(**options):
        raise FileNotFoundError

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(typer.Exit), reported_errors():
        raise KeyError("x")
    assert "its details could not be written" in capfd.readouterr().err
