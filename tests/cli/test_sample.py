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
    """What a terminal gets of `rlvr ARGS…`."""
    reader, writer = pty.openpty()
    # NO_COLOR counts where it is not empty.
    environment = {"TERM": "xterm-256color", "COLUMNS": "200", "NO_COLOR": ""}
    process = Fork(args, directory, stdout=writer, environment=environment)
    os.close(writer)
    shown = b""
    with suppress(OSError):  # the terminal's other end is closed
        while part := os.read(reader, 4096):
            shown += part
    os.close(reader)
    assert process.done().rc == 0
    return shown.decode().replace("\r\n", "\n")


def test_sample_on_a_terminal_shows_each_response_while_it_is_written(rlvr, tmp_path):
    problems = (
        {"problem": f"Start at {n}, keep last digits: (a) +4 (b) *3", "answer": (n + 4) * 3 % 10}
        for n in (3, 5)
    )
    (tmp_path / "p.jsonl").write_text(jsonl(*problems))
    command = ("sample", "p.jsonl", "-n", "2")
    text = on_a_terminal(tmp_path, *command)
    rows = [json.loads(line) for line in rlvr(*command).stdout.splitlines()]
    plain, place = re.sub(r"\x1b\[[0-9;]*m", "", text), 0
    for row in rows:
        shown = f"{row['response']}\n{row['n_tokens']} tokens  {row['verdict']}: "
        assert shown in plain[place:]
        place = plain.index(shown, place) + len(shown)
    assert text.count("\x1b[2m") > 2 * len(rows)  # the thought, dimmed piece by piece
    assert text.count("\x1b[36m") == len(rows)
    assert '"response"' not in text


def test_a_model_without_a_chat_template_is_sampled(rlvr, tmp_path):
    shutil.copytree(TINY, tmp_path / "base")
    (tmp_path / "base" / "chat_template.jinja").unlink()
    (tmp_path / "prompt.txt").write_text("Q: {problem}\nA:")
    done = rlvr("sample", "What is 2 + 2?", "--model", "base", "--prompt", "prompt.txt", "-n", "2")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["prompt"] for row in rows] == ["Q: What is 2 + 2?\nA:\n"] * 2


def test_responses_to_several_texts_can_be_judged(rlvr):
    done = rlvr("sample", "What is 2 + 2?", "What is 1 + 1?", "--max-tokens", "4")
    actual = [{**json.loads(line), "answer": "2"} for line in done.stdout.splitlines()]
    assert [row["id"] for row in actual] == ["prompt-1", "prompt-2"]
    judged = rlvr("eval", "--responses", "-", stdin=jsonl(*actual))
    assert judged.returncode == 0, judged.stderr


def test_rows_go_to_a_new_file(tmp_path):
    path = tmp_path / "rows"
    asked = ("sample", "Start at 2, keep last digits: (a) +1 é", "--out", path, "-q")
    done = invoke(*asked)
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    written = path.read_bytes()
    assert json.loads(written)["problem"].endswith("é")
    assert "exists already; name another or remove it" in refused(*asked)
    nowhere = refused(*asked[:3], tmp_path / "no" / "rows", "-q")
    assert "cannot be written (No such file" in nowhere
    assert path.read_bytes() == written
