"""Workers are killed at the limit and replaced; no row is lost."""

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

import verifiers.api
from verifiers import Attempt, Verdict, Verifier
from verifiers.workers.pool import ENVIRONMENT, Pool


@pytest.fixture
def only_workers(monkeypatch):
    """Leave no effort for this process, so that a worker is asked for everything."""
    monkeypatch.setattr(verifiers.api, "EFFORT_HERE_S", -1.0)


def children() -> set[int]:
    listing = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True
    )
    return {int(line.split()[0]) for line in listing.stdout.splitlines() if "workers.child" in line}


def test_easy_answers_start_no_worker() -> None:
    before = children()
    with Verifier() as verifier:
        assert verifier.equal("1/2", "0.5") is Verdict.CORRECT
        assert verifier.equal(r"(x+1)^2", "x^2+2x+1") is Verdict.CORRECT
        assert children() == before


def test_a_worker_decides(only_workers) -> None:
    with Verifier() as verifier:
        assert verifier.equal("x/2", "0.5x") is Verdict.CORRECT
        assert verifier.equal("x/2", "0.51x") is Verdict.WRONG


def test_a_late_worker_costs_one_row_and_is_replaced() -> None:
    pool = Pool(workers=1, timeout=0.0, memory_mb=1024)
    try:
        late = pool.ask("2", "2.0")
        assert (late.equal, late.reason) == (None, "time limit")
        assert not children()
        pool._timeout = 20.0
        assert pool.ask("2", "2.0").equal is True
    finally:
        pool.close()


def test_no_secret_of_the_environment_reaches_a_worker(only_workers, monkeypatch) -> None:
    for name in (
        "HF_TOKEN",
        "WANDB_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "PYTHONSTARTUP",
        "LD_PRELOAD",
    ):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    with Verifier(timeout=20) as verifier:
        assert verifier.equal("x+3", "3+x") is Verdict.CORRECT
        (pid,) = children()
        pairs = Path(f"/proc/{pid}/environ").read_text().rstrip("\0").split("\0")
    environment = dict(pair.split("=", 1) for pair in pairs)
    assert {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "7"}.items() <= environment.items()
    assert all(ENVIRONMENT.fullmatch(name) or name == "PYTHONPATH" for name in environment)
    assert (
        not {"HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "PYTHONSTARTUP"}
        & environment.keys()
    )


def test_a_killed_worker_costs_one_row(only_workers) -> None:
    with Verifier(timeout=20) as verifier:
        assert verifier.equal("x+3", "3+x") is Verdict.CORRECT
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        assert verifier.equal("x+4", "4+x") is Verdict.TIMEOUT
        assert verifier.equal("x+5", "5+x") is Verdict.CORRECT


def test_threads_share_one_verifier(only_workers) -> None:
    results: dict[int, Verdict] = {}
    with Verifier(workers=2, timeout=20) as verifier:

        def judge(number: int) -> None:
            answer = number if number % 2 else number + 1
            results[number] = verifier.equal(f"x+{number}", f"{answer}+x")

        threads = [threading.Thread(target=judge, args=(n,)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == {n: Verdict.CORRECT if n % 2 else Verdict.WRONG for n in range(12)}


def test_a_worker_outlives_the_thread_that_asked_first(only_workers) -> None:
    with Verifier(timeout=20) as verifier:
        first = threading.Thread(target=verifier.equal, args=("x+3", "3+x"))
        first.start()
        first.join()
        before = children()
        assert verifier.equal("x+4", "4+x") is Verdict.CORRECT
        assert children() == before


def test_many_keeps_order_and_rows(only_workers) -> None:
    attempts = [Attempt(rf"\boxed{{{n}+x}}", f"x+{n + n % 3}") for n in range(30)]
    with Verifier(workers=2, timeout=20) as verifier:
        verifications = verifier.verify_many(attempts)
    assert [item.extracted for item in verifications] == [f"{n}+x" for n in range(30)]
    assert [item.verdict is Verdict.CORRECT for item in verifications] == [
        n % 3 == 0 for n in range(30)
    ]


def test_close_ends_the_workers(only_workers) -> None:
    verifier = Verifier()
    verifier.equal("x+3", "3+x")
    assert children()
    verifier.close()
    verifier.close()
    assert not children()
    with pytest.raises(RuntimeError):
        verifier.equal("x+6", "6+x")
