"""`rlvr eval` and `rlvr sample` with a server in place of a model."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter

import pytest
from conftest import jsonl
from faulty_server import MODEL, faulty_server
from forked import Fork

pytest.importorskip("openai")
SUMS = [
    {"id": f"sum-{left}", "problem": f"{left} + 3?", "answer": str(left + 3)} for left in range(6)
]
WRONG = {"id": "odd", "problem": "1 + 1?", "answer": "3"}


@pytest.fixture(scope="module")
def running():
    with faulty_server() as server:
        yield server


@pytest.fixture
def sums(tmp_path):
    path = tmp_path / "sums.jsonl"
    path.write_text(jsonl(*SUMS, WRONG))
    return path


def served(running, kind=""):
    return ("--endpoint", running.url(kind), "--model", MODEL)


def test_a_server_is_measured_as_a_model_is(rlvr, running, sums, tmp_path):
    result = rlvr("eval", sums.name, *served(running), "-n", "2", "--out", "result")
    assert result.returncode == 0, result.stderr
    assert (
        "7 problems x 2 samples, temperature 0.6, top-p 0.95, the server's limit" in result.stderr
    )
    report = json.loads((tmp_path / "result" / "report.json").read_text())
    assert report["speed"][0]["tokens"] == 7 * 14  # seven a response
    (entry,) = report["results"]
    assert entry["pass@k"]["1"]["value"] == pytest.approx(6 / 7)
    assert entry["fingerprint"]["server"]["model"] == MODEL
    assert entry["fingerprint"]["server"]["endpoint"] == running.url()
    assert entry["fingerprint"]["sampling"]["max_tokens"] is None
    (file,) = (tmp_path / "result" / "responses").iterdir()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(row["id"], row["sample"]) for row in rows[:3]] == [
        ("sum-0", 0),
        ("sum-0", 1),
        ("sum-1", 0),
    ]
    assert rows[0]["response"] == "\\boxed{3}"
    bodies = [body for method, _, _, body in running.seen if method == "POST"]
    assert "within \\boxed{}" in bodies[-1]["messages"][-1]["content"]
    assert "max_tokens" not in bodies[-1]


def test_what_has_a_reply_is_kept_and_only_the_rest_is_asked_again(rlvr, running, tmp_path):
    bad = {"id": "bad", "problem": "bad 2 + 2?", "answer": "4"}
    problems = tmp_path / "some.jsonl"
    problems.write_text(jsonl(*SUMS, bad))
    command = ("eval", problems.name, *served(running, "refused"), "--out", "kept", "-n", "1")
    stopped = rlvr(*command)
    assert stopped.returncode == 2
    assert "no reply to 1 problem (bad: 400 this prompt is too long)" in stopped.stderr
    assert "the others are kept" in stopped.stderr
    before = len(running.seen)
    repeated = rlvr(*command)
    assert repeated.returncode == 2
    assert "6 of 7 problems are done already" in repeated.stderr
    asked = [body for method, _, _, body in running.seen[before:] if method == "POST"]
    assert len(asked) == 1
    finished = rlvr(*command, "--skip-bad")
    assert finished.returncode == 0, finished.stderr
    assert "no reply to 1 problem of 7, which the figures leave out (bad: 400" in finished.stderr
    (entry,) = json.loads((tmp_path / "kept" / "report.json").read_text())["results"]
    assert (entry["problems"], entry["pass@k"]["1"]["value"]) == (6, 1.0)
    piped = rlvr("eval", problems.name, *served(running, "refused"), "-n", "1")
    assert piped.returncode == 0
    assert "which the figures leave out" in piped.stderr
    assert {json.loads(line)["verdict"] for line in piped.stdout.splitlines()} == {"correct"}


def test_neither_a_server_nor_a_file_of_responses_needs_torch(running, sums):
    code = (
        "import json, sys\n"
        "from rlvr_cli.__main__ import main\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    sys.argv = ['rlvr', *command]\n"
        "    try:\n        main()\n"
        "    except SystemExit as end:\n        assert not end.code\n"
        "    print({'torch', 'transformers', 'vllm'} & set(sys.modules))"
    )
    row = {"problem": "1 + 1?", "answer": "2", "response": "\\boxed{2}"}
    sums.with_name("made.jsonl").write_text(jsonl(row))
    commands = (
        ["eval", "--responses", "made.jsonl", "--out", "judged"],
        ["eval", sums.name, *served(running), "--out", "result"],
        ["sample", sums.name, *served(running), "--out", "rows.jsonl"],
    )
    result = subprocess.run(
        [sys.executable, "-c", code, json.dumps(commands)],
        capture_output=True,
        text=True,
        cwd=sums.parent,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["set()"] * 3


def test_a_name_that_looks_like_a_path_is_the_servers(rlvr, running, sums):
    name = "accounts/us/models/mine"
    result = rlvr("eval", sums.name, "--endpoint", running.url("no-list"), "--model", name)
    assert result.returncode == 0, result.stderr
    assert running.seen[-1][3]["model"] == name


def test_no_answer_at_all_is_an_error(rlvr, running, sums):
    broken = ("--set", "server.tries=1", *served(running, "broken"))
    result = rlvr("eval", sums.name, *broken)
    assert result.returncode == 2
    assert re.search(r"no request was answered \(\S+: 500 out of luck\)", result.stderr)
    result = rlvr("sample", sums.name, *broken)
    assert (result.returncode, result.stdout) == (2, "")
    assert "warning    odd: no reply: 500 out of luck" in result.stderr


def test_samples_are_rows_in_order(rlvr, running, sums):
    result = rlvr("sample", sums.name, *served(running, "thinks"), "-n", "2", "--max-tokens", "9")
    assert result.returncode == 0, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["id"] for row in rows[::2]] == [row["id"] for row in [*SUMS, WRONG]]
    assert rows[0]["response"] == "<think>add them</think>\\boxed{3}"
    bodies = [body for _, path, _, body in running.seen if path.startswith("/thinks")]
    assert bodies[-1]["max_tokens"] == 9


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_command_goes_on_and_asks_for_nothing_that_it_has(rlvr, tmp_path, number):
    sums = [{"problem": f"{left} + 3?", "answer": left + 3 - left % 2} for left in range(60)]
    (tmp_path / "many.jsonl").write_text(jsonl(*sums))
    in_flight = 4
    command = ["eval", "many.jsonl", "-n", "2", "--set", f"server.in_flight={in_flight}"]
    rows = "responses/many.jsonl--org_model.jsonl"
    with faulty_server(seconds=0.05) as server:
        unbroken = rlvr(*command, *served(server), "--out", "whole")
        assert unbroken.returncode == 0, unbroken.stderr
        expected = (tmp_path / "whole" / rows).read_text()
        server.counts.clear()

        unfinished = tmp_path / "broken" / "unfinished" / "many.jsonl--org_model.jsonl"
        process = Fork([*command, *served(server), "--out", "broken"], tmp_path)
        process.await_(lambda: unfinished.exists() and unfinished.read_text().count("\n") > 10)
        os.kill(process.pid, number)
        result = process.done()
        assert result.rc == (130 if number == signal.SIGINT else -signal.SIGKILL)
        lines = unfinished.read_text().splitlines()
        on_disk = {json.loads(line)["rows"][0]["problem"] for line in lines}
        assert 10 < len(on_disk) < 60
        before = asked(server)
        assert on_disk <= before.keys()
        if number == signal.SIGINT:  # all that came was written, also what came since the last time
            assert "broken keeps the sampled responses; give the same command again" in result.err
            assert "Traceback" not in result.err
            assert len(before) - len(on_disk) <= in_flight

        repeated = rlvr(*command, *served(server), "--out", "broken")
        assert repeated.returncode == 0, repeated.stderr
        assert f"{len(on_disk)} of 60 problems are done already" in repeated.stderr
        assert (tmp_path / "broken" / rows).read_text() == expected
        assert (asked(server) - before).keys() == {row["problem"] for row in sums} - on_disk
        assert max((asked(server) - before).values()) == 1


def asked(server) -> Counter[str]:
    """How often the server was asked each problem, without the words around it."""
    with server.lock:
        return Counter({text.partition("?")[0] + "?": n for text, n in server.counts.items()})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("eval", "chains", "--endpoint", "localhost:8000"), "give a URL such as"),
        (("eval", "chains", "--endpoint", "https://me:pw@host/v1"), "does not belong into the URL"),
        (("train", "--endpoint", "http://localhost:1/v1"), "has to take the weights"),
        (
            ("eval", "chains", "--endpoint", "http://localhost:1/v1", "--set", "server.tries=1"),
            "--endpoint http://localhost:1/v1: ",
        ),
    ],
)
def test_bad_input_is_one_line(rlvr, arguments, message):
    result = rlvr(*arguments)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert message in line
    assert "pw" not in line
