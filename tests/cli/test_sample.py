"""`rlvr sample` as people run it: on a terminal, with models and texts of their own."""

import json
import os
import pty
import re
import shutil
from contextlib import suppress
from pathlib import Path

from conftest import invoke, jsonl, refused
from forked import Fork

import rlvr_cli

TINY = Path(rlvr_cli.__file__).parent / "tiny"


def on_a_terminal(directory, *args):
    """Run `rlvr ARGS…` on a terminal, and return what it shows."""
    reader, writer = pty.openpty()
    # NO_COLOR counts where it is not empty.
    environment = {"TERM": "xterm-256color", "COLUMNS": "200", "NO_COLOR": ""}
    process = Fork(args, directory, stdout=writer, environment=environment)
    os.close(writer)
    screen = b""
    with suppress(OSError):  # the terminal's other end is closed
        while part := os.read(reader, 4096):
            screen += part
    os.close(reader)
    assert process.done().rc == 0
    return screen.decode().replace("\r\n", "\n")


def test_sample_on_a_terminal_shows_each_response_while_it_is_written(rlvr, tmp_path):
    problems = (
        {"problem": f"Start at {n}, keep last digits: (a) +4 (b) *3", "answer": (n + 4) * 3 % 10}
        for n in (3, 5)
    )
    (tmp_path / "p.jsonl").write_text(jsonl(*problems))
    text = on_a_terminal(tmp_path, "sample", "p.jsonl", "-n", "2")
    piped = rlvr("sample", "p.jsonl", "-n", "2").stdout
    rows = [json.loads(line) for line in piped.splitlines()]
    unread = re.sub(r"\x1b\[[0-9;]*m", "", text)
    for row in rows:
        expected = f"{row['response']}\n{row['n_tokens']} tokens  {row['verdict']}: "
        _, found, unread = unread.partition(expected)
        assert found
    assert text.count("\x1b[2m") > 2 * len(rows)  # the thought, dimmed piece by piece
    assert text.count("\x1b[36m") == len(rows)
    assert '"response"' not in text


def test_a_model_without_a_chat_template_is_sampled(rlvr, tmp_path):
    shutil.copytree(TINY, tmp_path / "base")
    (tmp_path / "base" / "chat_template.jinja").unlink()
    (tmp_path / "prompt.txt").write_text("Q: {problem}\nA:")
    result = rlvr(
        "sample", "What is 2 + 2?", "--model", "base", "--prompt", "prompt.txt", "-n", "2"
    )
    assert result.returncode == 0, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["prompt"] for row in rows] == ["Q: What is 2 + 2?\nA:\n"] * 2


def test_responses_to_several_texts_can_be_judged(rlvr):
    result = rlvr("sample", "What is 2 + 2?", "What is 1 + 1?", "--max-tokens", "4")
    actual = [{**json.loads(line), "answer": "2"} for line in result.stdout.splitlines()]
    assert [row["id"] for row in actual] == ["prompt-1", "prompt-2"]
    judged = rlvr("eval", "--responses", "-", stdin=jsonl(*actual))
    assert judged.returncode == 0, judged.stderr


def test_rows_go_to_a_new_file(tmp_path):
    path = tmp_path / "rows"
    prompt = "Start at 2, keep last digits: (a) +1 é"
    result = invoke("sample", prompt, "--out", path, "-q")
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    written = path.read_bytes()
    assert json.loads(written)["problem"].endswith("é")
    assert "exists already; name another or remove it" in refused(
        "sample", prompt, "--out", path, "-q"
    )
    message = refused("sample", prompt, "--out", tmp_path / "no" / "rows", "-q")
    assert "cannot be written (No such file" in message
    assert path.read_bytes() == written
