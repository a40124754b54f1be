"""Problem files and responses can hold anything: nothing crashes, hangs, escapes or reaches the
terminal. These tests use the real command line, in this process."""

import json
import os
import pty
import re
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from forked import Fork
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from rlvr_cli.cli.main import app
from rlvr_cli.core.text import DEEPEST, LONGEST_ANSWER, is_too_deep, printable

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
NASTY = (
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[31m",
    "\x9b31m",
    "\r\x08\x00",
    "\u202eesrever",
    "../../../etc/passwd",
    "<script>alert(1)</script>",
    "$(touch x)",
    "[bold]x[/]",
    "[/",
    "{problem}",
    "</think><answer>4</answer>",
    "<|end|>",
    "\ud800",
    "\u2028",
    "\\boxed{" * 50,
    "9" * 5000,
    "9**9**9**9",
    "__import__('os')",
    "(" * 3000,
    "\N{COMBINING ACUTE ACCENT}" * 99,
)
texts = st.one_of(st.sampled_from(NASTY), st.text(max_size=40))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(texts, parts, max_size=3),
    max_leaves=5,
)
problems = st.fixed_dictionaries(
    {"problem": texts, "answer": st.one_of(texts, st.integers())},
    optional={"id": values, "x": values, "response": texts, "finish_reason": values},
)
lines = st.one_of(
    problems.map(lambda row: json.dumps(row).encode()),
    problems.map(lambda row: json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass")),
    values.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=60),
    st.sampled_from(
        [b"[" * 100_000, b'{"problem":' * 5000, b'{"problem": "\xff"}', b"\x00", b"1e999"]
    ),
)
inputs = st.lists(lines, min_size=1, max_size=8).map(b"\n".join)
codes: Counter[int] = Counter()
quick_settings = settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def invoke(*args: str, stdin: bytes):
    result = CliRunner().invoke(app, list(args), input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (0, 2), result.stderr
    assert not OBEYED.search(result.stderr)
    assert not OBEYED.search(result.stdout)
    assert "Traceback" not in result.stderr
    return result, [json.loads(line) for line in result.stdout.splitlines()]


@quick_settings
@given(inputs)
def test_hostile_problems_are_answered_or_refused(data):
    result, rows = invoke("eval", "-", "-n", "1", "--max-tokens", "3", "--skip-bad", stdin=data)
    assert result.exit_code == 2 or rows
    for row in rows:
        assert isinstance(row["id"], str)
        assert row["verdict"] in ("wrong", "bad_format", "truncated", "unparseable_gold", "correct")


@quick_settings
@given(st.lists(problems, min_size=1, max_size=8, unique_by=lambda row: row["problem"]))
def test_hostile_responses_are_judged(rows):
    data = b"\n".join(
        json.dumps({"response": "x", **row, "id": f"{n}"}).encode() for n, row in enumerate(rows)
    )
    result, judged = invoke("eval", "--responses", "-", "--skip-bad", stdin=data)
    assert result.exit_code == 2 or judged
    codes[result.exit_code] += 1
    assert all(row["reward"] in (None, 1.0, -1.0) for row in judged)


def test_most_hostile_responses_were_judged_and_not_refused():
    assert not codes or codes[0] > codes[2]


@settings(quick_settings, max_examples=3)  # each is two runs
@given(st.lists(problems, min_size=1, max_size=8))
def test_hostile_problems_are_trained_on_inside_the_run_directory(rows):
    data = b"\n".join(json.dumps(row).encode() for row in rows)
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        command = "train - --steps 1 --prompts 2 -n 2 --max-tokens 3 --skip-bad --out"
        result, _ = invoke(*command.split(), str(run), stdin=data)
        assert {path.name for path in Path(place).iterdir()} <= {"run"}
        if result.exit_code == 0:
            repeated, _ = invoke("train", "--resume", str(run), "--steps", "2", stdin=b"")
            assert repeated.exit_code == 0, repeated.stderr
            names = {path.name for path in (run / "rollouts").iterdir()}
            assert names == {"manifest.jsonl", "step-000001.jsonl", "step-000002.jsonl"}


def test_a_line_of_ten_megabytes_neither_crashes_nor_hangs():
    long = "1 + " * 2_500_000
    rows = [
        {"problem": long, "answer": "1"},
        {"problem": "What is 1 + 1?", "answer": long},
        {"problem": "What is 1 + 1?", "answer": "2", "id": long},
        {"problem": "What is 1 + 1?", "answer": "2", "id": "good", "x": "y" * 10_000_000},
    ]
    data = "\n".join(map(json.dumps, rows)).encode()
    result, actual = invoke("eval", "-", "-n", "1", "--max-tokens", "3", "--skip-bad", stdin=data)
    assert [row["id"][:4] for row in actual] == ["1 + ", "good"]
    assert f"field answer is longer than {LONGEST_ANSWER} characters" in result.stderr
    assert "10000000 characters cannot fit a context of 2048 tokens" in result.stderr
    assert len(result.stderr) < 10_000


@pytest.mark.parametrize("depth", [DEEPEST + 1, 900, 100_000])
def test_nesting_is_bounded(depth):
    nested = '{"problem": "1 + 1", "answer": 2, "x": ' + "[" * depth + "]" * depth + "}"
    result, rows = invoke("eval", "-", "-n", "1", "--max-tokens", "3", stdin=nested.encode())
    assert (result.exit_code, rows) == (2, [])
    assert "nested more than 100 levels" in result.stderr or "not a JSON object" in result.stderr


def test_depth_and_what_a_terminal_obeys():
    value: object = 1
    for _ in range(DEEPEST):
        value = [value]
    assert not is_too_deep(value[0])  # type: ignore[index]
    assert is_too_deep([value])
    for text in NASTY:
        assert not OBEYED.search(printable(text))
    assert printable("tab\tand\nline, é 漢 🙂") == "tab\tand\nline, é 漢 🙂"


def test_a_model_that_says_anything_does_not_reach_a_terminal(tmp_path):
    """The policy at temperature 50 answers with random bytes, on a real terminal."""
    (tmp_path / "p.jsonl").write_text(json.dumps({"problem": "\x1b[2J\x1b]0;owned\x07 hi"}) + "\n")
    main, terminal = pty.openpty()
    command = ("sample", "p.jsonl", "-n", "20", "--temperature", "50", "--top-p", "1")
    process = Fork((*command, "--max-tokens", "60"), tmp_path, stdout=terminal, stderr=terminal)
    os.close(terminal)
    screen = b""
    with suppress(OSError):  # the terminal is closed
        while chunk := os.read(main, 65536):
            screen += chunk
    assert process.done().rc == 0
    text = screen.decode("utf-8", "replace")
    controls = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r\n|\r")  # colors and the progress bar
    assert len(text) > 1000
    assert not OBEYED.search(controls.sub("", text))
    assert "\x1b]" not in text
    assert "\x1b[2J" not in text
