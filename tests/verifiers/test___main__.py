"""`python -m verifiers` from rows to rows."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(text: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "verifiers", *options]
    return subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT)


def test_one_row_out_for_each_row_in() -> None:
    rows = [
        {"id": "a", "answer": 12, "response": r"\boxed{12.0}"},
        {"id": "b", "answer": "12", "response": "The answer is 13."},
        {"answer": "12", "response": "I have no idea how to do this one, sorry"},
        {"problem": "Find $6+6$.", "answer": "12", "response": r"\boxed{6 + 6 + 0}"},
        {"question": "Solve $|x|<2$.", "answer": "(-2, 2)", "response": r"\boxed{2 > |x|}"},
        {"problem": None, "answer": "(-2, 2)", "response": r"\boxed{2 > |x|}"},
    ]
    result = run("\n".join(map(json.dumps, rows)))
    out = [json.loads(line) for line in result.stdout.splitlines()]
    verdicts = ["correct", "wrong", "no_answer", "no_answer", "no_answer", "correct"]
    assert [row["verdict"] for row in out] == verdicts
    assert [row["id"] for row in out] == ["a", "b", None, None, None, None]
    assert out[4]["reason"] == "last box: a formula of the problem"
    assert list(out[0]) == ["id", "verdict", "extracted", "format_ok", "reason"]
    assert result.returncode == 0


def test_a_bad_line_is_reported_and_loses_no_other_row() -> None:
    good = json.dumps({"answer": "1", "response": "1"})
    null = json.dumps({"answer": None, "response": None})
    lines = (good, "{", json.dumps({"answer": "1"}), "", null, "[1]", good)
    result = run("\n".join(lines), "--workers", "2")
    assert len(result.stdout.splitlines()) == 2
    assert "line 2" in result.stderr
    assert "line 3: no field 'response'" in result.stderr
    assert "line 5: answer must be a text or a number, not null" in result.stderr
    assert "line 6: not a JSON object" in result.stderr
    assert result.returncode == 2


def test_what_is_no_json_is_no_row() -> None:
    lines = ('{"answer": NaN, "response": "1"}', '{"answer": 1e999, "response": "1"}')
    result = run("\n".join((*lines, '{"id": NaN, "answer": 1, "response": "1"}')))
    assert (result.returncode, result.stdout) == (2, "")
    assert "line 1: NaN is not JSON" in result.stderr
    assert "line 2: answer is too large a number" in result.stderr
    assert "line 3: NaN is not JSON" in result.stderr


def test_the_strict_format_can_be_asked_for() -> None:
    row = json.dumps({"answer": "1", "response": "1"})
    assert json.loads(run(row, "--format", "think_answer").stdout)["verdict"] == "bad_format"


def test_the_package_needs_neither_torch_nor_the_trainer() -> None:
    script = "import sys, verifiers; print([m for m in ('torch', 'rlvr_cli') if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT
    )
    assert result.stdout.strip() == "[]"


def test_chat_marks_that_hide_answers_are_said_in_one_line() -> None:
    chat = "<|im_start|>user\n2+4<|im_end|>\n<|im_start|>assistant\n6<|im_end|>"
    responses = ("<|ponder|>5<|reply|>6", chat, "6")
    result = run("\n".join(json.dumps({"answer": 6, "response": text}) for text in responses))
    assert [json.loads(line)["verdict"] for line in result.stdout.splitlines()][1:] == 2 * [
        "correct"
    ]
    transcripts, unknown, counts = result.stderr.splitlines()
    assert "1 of 3 responses are whole transcripts" in transcripts
    assert "1 of 3 responses hold what looks like a chat mark" in unknown
    assert counts == "verifiers: 3 responses: 2 correct, 1 wrong"
    assert result.returncode == 0


def test_rows_have_the_names_that_eval_reads_and_each_response_a_line(tmp_path) -> None:
    rows = [
        {"id": 1, "gold_answer": "2", "output": "It is 2."},
        {"id": 2, "gt": 3, "responses": ["3", "4"]},
        {"id": 3, "reward_model": {"ground_truth": "5"}, "completion": "5", "output": "long"},
        {"id": 4, "solution": "It is\n\\boxed{4}. Done", "response": "4", "prediction": "5"},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run("", str(path))
    verdicts = [(row["id"], row["verdict"]) for row in map(json.loads, result.stdout.splitlines())]
    assert verdicts[:3] == [(1, "correct"), (2, "correct"), (2, "wrong")]
    assert verdicts[3:] == [(3, "correct"), (4, "correct")]  # a derivation has its gold in a box
    assert result.stderr == "verifiers: 5 responses: 4 correct, 1 wrong\n"


def test_a_row_with_two_responses_and_a_file_that_is_not_there_are_one_line(tmp_path) -> None:
    row = {"answer": 1, "prediction": "1", "completion": "2"}
    result = run(json.dumps(row))
    assert "line 1: it has completion and prediction: leave one of them out" in result.stderr
    result = run(json.dumps({"answer": 1, "responses": []}))
    assert "line 1: responses is an empty list" in result.stderr
    result = run("", str(tmp_path / "no.jsonl"))
    assert result.returncode == 2
    assert result.stderr == f"verifiers: {tmp_path}/no.jsonl: No such file or directory\n"
