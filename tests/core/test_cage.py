"""Work in a cage: what it returns, what it may take, what it sees, and what is left of it."""

import faulthandler
import os
import time

import pytest

from rlvr_cli.core.cage import CageError, in_cage
from verifiers.workers.cage import descendants

MIB = 1 << 20


def test_it_returns_what_the_work_returns():
    before = os.getpid()
    assert in_cage(lambda: {"a": [1.5, None, "é"]}, 10, 64 * MIB) == {"a": [1.5, None, "é"]}
    assert in_cage(lambda: "x" * 3_000_000, 10, 64 * MIB) == "x" * 3_000_000
    assert os.getpid() == before


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (lambda: time.sleep(60), "it takes more than 0.3 s"),
        (lambda: bytearray(128 * MIB), "it takes too much memory"),
        (
            lambda: (faulthandler.disable(), os.abort()),
            "it takes more than 0.0625 GiB of memory, or ends by itself",
        ),
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda: exit(3), "SystemExit: 3"),
        (lambda: {1, 2}, "it takes more than 0.0625 GiB of memory, or ends by itself"),
    ],
    ids=["endless", "too large", "dead", "mistake", "end", "no JSON"],
)
def test_work_without_a_result_is_a_reason(work, reason):
    seconds = 0.3 if reason[-1] == "s" else 30
    with pytest.raises(CageError, match=f"^{reason}$"):
        in_cage(work, seconds, 64 * MIB)
    assert not descendants()


def test_it_sees_paths_and_language_alone_and_says_nothing(monkeypatch, capfd):
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("LANG", "C.UTF-8")

    def work():
        os.write(1, b"heard")
        os.write(2, b"heard")
        return dict(os.environ)

    observed = in_cage(work, 10, 64 * MIB)
    assert "HF_TOKEN" not in observed
    assert observed["LANG"] == "C.UTF-8"
    assert os.environ["HF_TOKEN"] == "secret"
    assert capfd.readouterr() == ("", "")


def test_what_it_starts_ends_with_it():
    def work():
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                time.sleep(60)
        return len(descendants())

    assert in_cage(work, 10, 64 * MIB) == 3
    assert not descendants()
