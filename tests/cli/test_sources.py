"""A user's problems through the command line: several sources, and what is wrong with them."""

import gzip
import json

import pyarrow
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from rlvr_cli.cli.main import app

SHORT = ("-n", "2", "--max-tokens", "4")


@pytest.fixture
def rlvr(tmp_path, monkeypatch):
    """Run `rlvr ARGS…` in this process, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return lambda *args: CliRunner().invoke(app, args)


def dapo(path):
    rows = [
        {
            "data_source": "math_dapo",
            "prompt": [{"content": f"Solve it. What is {n} + 1?", "role": "user"}],
            "reward_model": {"ground_truth": str(n + 1), "style": "rule"},
        }
        for n in range(3)
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def jsonl(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


CHAT = {"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}
GSM8K = {"question": "What is 3 + 3?", "answer": "3 + 3 = 6\n#### 6"}


def test_several_sources_train_together_and_each_says_its_fields(rlvr, tmp_path):
    dapo(tmp_path / "dapo.parquet")
    (tmp_path / "chat.jsonl").write_text(jsonl(CHAT))
    (tmp_path / "gsm8k.jsonl.gz").write_bytes(gzip.compress(jsonl(GSM8K).encode()))
    sources = "dapo.parquet chat.jsonl gsm8k.jsonl.gz"
    words = f"train {sources} --algo grpo --steps 1 --prompts 5 --out run"
    result = rlvr(*words.split(), *SHORT)
    assert result.exit_code == 0, result.stderr
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("problems")]
    assert "5 of dapo.parquet, chat.jsonl, gsm8k.jsonl.gz" in line
    assert "prompt's last user turn, answer from reward_model.ground_truth" in line
    assert "answer from answer behind ####" in line
    rows = list(map(json.loads, (tmp_path / "run" / "rollouts" / "step-000001.jsonl").open()))
    assert {row["answer"] for row in rows} == {"1", "2", "3", "4", "6"}
    assert "<|user|>Solve it. What is 0 + 1?<|end|><|assistant|>" in {row["prompt"] for row in rows}
    repeated = rlvr("train", "--resume", "run", "--steps", "2")
    assert repeated.exit_code == 0, repeated.stderr


BAD = {
    "some rows only": (
        ("eval", "a.jsonl"),
        {"a.jsonl": jsonl(GSM8K, {"question": "p", "key": 4})},
        "a.jsonl:2: no field answer; it has question, key (rows before it: answer from answer "
        "behind ####): name the one that holds it, --field answer=NAME",
    ),
    "two sources with one id": (
        ("train", "a.jsonl", "b.jsonl", "--check"),
        {"a.jsonl": jsonl({**GSM8K, "id": 7}), "b.jsonl": jsonl({**CHAT, "id": 7})},
        "b.jsonl:1: the id 7 is that of another problem (a.jsonl:1); every problem needs",
    ),
    "a template with another name": (
        ("eval", "a.jsonl", "--prompt", "Q: {problem} {question}"),
        {"a.jsonl": jsonl(GSM8K)},
        "{question} is not known; only {problem} is put in",
    ),
    "a system turn that is left out": (
        ("eval", "a.jsonl", "--system", "Be brief."),
        {"a.jsonl": jsonl(GSM8K)},
        "its chat template",
    ),
    "an argument that the template does not know": (
        ("eval", "a.jsonl", "--set", "data.chat.enable_thinking=false"),
        {"a.jsonl": jsonl(GSM8K)},
        "data.chat.enable_thinking: the chat template of",
    ),
    "a compressed file that ends too soon": (
        ("eval", "a.jsonl.gz"),
        {"a.jsonl.gz": gzip.compress(jsonl(*[GSM8K] * 99).encode())[:-9]},
        "a.jsonl.gz: cannot be read (Compressed file ended before",
    ),
    "a field that is not there": (
        ("eval", "a.jsonl", "--field", "answer=b.c[0]"),
        {"a.jsonl": jsonl(GSM8K)},
        "a.jsonl:1: no b.c[0], which --field answer names; it has question, answer",
    ),
}


@pytest.mark.parametrize(("command", "files", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_said_in_a_line_and_nothing_is_made(rlvr, tmp_path, command, files, message):
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(data)
    result = rlvr(*command, *SHORT)
    assert result.exit_code == 2
    assert any(message in line for line in result.stderr.splitlines()), result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert {path.name for path in tmp_path.iterdir()} == set(files)


def test_files_of_one_name_do_not_share_ids(rlvr, tmp_path):
    for place in ("x", "y"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "a.jsonl").write_text(jsonl(GSM8K))
    result = rlvr("train", "x/a.jsonl", "y/a.jsonl", "--check", "--prompts", "2", *SHORT)
    assert "problems   2 of x/a.jsonl, y/a.jsonl" in result.stderr


def test_free_text_is_sent_as_it_stands(rlvr):
    result = rlvr("sample", "Who are you?", "--model", "tiny", *SHORT)
    assert json.loads(result.stdout.splitlines()[0])["prompt"] == (
        "<|user|>Who are you?<|end|><|assistant|>"
    )
