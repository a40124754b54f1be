"""A child process is capped in memory, answers rows with rows, and never outlives its parent."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SLACK_S = 10.0


def test_memory_is_capped() -> None:
    script = (
        "import os\n"
        "from verifiers.workers.child import confine\n"
        "confine(os.getppid(), 512)\n"
        "try:\n    bytearray(2 * 1024**3)\nexcept MemoryError:\n    print('refused')\n"
    )
    out = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert out.stdout.strip() == "refused"


def test_a_question_a_line_gets_a_reply_a_line():
    questions = [
        {"gold": "x/2", "answer": "0.5x", "limit": 20.0},
        {"gold": "x/2", "answer": "0.6x", "limit": 20.0},
    ]
    result = subprocess.run(
        [sys.executable, "-m", "verifiers.workers.child", str(os.getpid()), "1024", "rlvr"],
        input="".join(json.dumps(question) + "\n" for question in questions),
        capture_output=True,
        cwd=ROOT,
        text=True,
    )
    ready, *replies = [json.loads(line) for line in result.stdout.splitlines()]
    assert ready == {"ready": True}
    assert [reply["equal"] for reply in replies] == [True, False]


def test_a_child_of_another_parent_ends_at_once():
    result = subprocess.run(
        [sys.executable, "-m", "verifiers.workers.child", "1", "1024", "rlvr"],
        input="",
        capture_output=True,
        cwd=ROOT,
        text=True,
    )
    assert (result.returncode, result.stdout) == (1, "")


def test_workers_die_with_a_killed_parent() -> None:
    script = (
        "import verifiers.api, os, subprocess, time\n"
        "verifiers.api.EFFORT_HERE_S = -1.0\n"
        "v = verifiers.api.Verifier()\n"
        "v.equal('x+3', '3+x')\n"
        "out = subprocess.run(['ps', '-o', 'pid=,args=', '--ppid', str(os.getpid())],"
        " capture_output=True, text=True).stdout\n"
        "print(*[l.split()[0] for l in out.splitlines() if 'workers.child' in l], flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    assert parent.stdout is not None
    (pid,) = map(int, parent.stdout.readline().split())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + SLACK_S
    while time.monotonic() < deadline and _alive(pid):
        time.sleep(0.05)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(state.stdout.strip()) and not state.stdout.strip().startswith("Z")
