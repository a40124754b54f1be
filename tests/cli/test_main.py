"""The program as people run it: a process, pipes, files, and every mistake that is easy to make."""

import json
import subprocess
import sys

import pytest
import yaml

import rlvr_cli

PROBLEMS = [
    {"question": "Start at 3, keep last digits: (a) +4", "answer": 7.0, "topic": "sums"},
    {"problem": "Start at 6, keep last digits: (a) *3", "answer": "8"},
    {"prompt": "Start at 0, keep last digits: (a) -2", "answer": "10 less 2 is 8\n#### 8"},
]
STDIN = "".join(json.dumps(row) + "\n" for row in PROBLEMS)
ROW_KEYS = [
    "id",
    "sample",
    "problem",
    "prompt",
    "response",
    "finish_reason",
    "n_tokens",
    "answer",
    "extracted",
    "verdict",
    "format_ok",
    "reward",
    "verifier",
]


def rows(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_eval_pipes_rows_and_says_the_figures(rlvr_process):
    result = rlvr_process("eval", "-", "-n", "3", "--max-tokens", "70", stdin=STDIN)
    assert result.returncode == 0, result.stderr
    actual = rows(result.stdout)
    assert [(row["id"], row["sample"]) for row in actual] == [
        (f"stdin-{line}", sample) for line in (1, 2, 3) for sample in range(3)
    ]
    assert all(list(row)[: len(ROW_KEYS)] == ROW_KEYS for row in actual)
    assert actual[0]["topic"] == "sums"
    assert [row["answer"] for row in actual[::3]] == ["7", "8", "8"]
    correct = sum(row["verdict"] == "correct" for row in actual)
    assert all((row["reward"] == 1.0) == (row["verdict"] == "correct") for row in actual)
    assert f"{correct / 9:.4f} on stdin (3 problems x 3 samples" in result.stderr


def test_eval_gives_the_same_rows_again_and_to_a_directory(rlvr, tmp_path):
    piped = rlvr("eval", "-", stdin=STDIN)
    repeated = rlvr("eval", "-", "--out", "result", stdin=STDIN)
    assert repeated.stdout == ""
    written = tmp_path / "result" / "responses" / "stdin--tiny.jsonl"
    assert written.read_text() == piped.stdout
    third = rlvr("eval", "-", "--out", "result", stdin=STDIN)
    assert third.returncode == 2
    assert "result: it exists already" in third.stderr
    assert written.read_text() == piped.stdout


def test_eval_rows_do_not_depend_on_limit_or_order(rlvr):
    by_problem = {
        row["problem"]: row["response"]
        for row in rows(rlvr("eval", "-", "-n", "1", stdin=STDIN).stdout)
    }
    first = rows(rlvr("eval", "-", "-n", "1", "--limit", "1", stdin=STDIN).stdout)
    assert [by_problem[row["problem"]] for row in first] == [row["response"] for row in first]


def test_eval_samples_the_same_from_a_file_and_a_pipe(rlvr, tmp_path):
    (tmp_path / "p.jsonl").write_text(STDIN)
    piped, from_file = rlvr("eval", "-", stdin=STDIN), rlvr("eval", "p.jsonl")
    responses = [[row["response"] for row in rows(result.stdout)] for result in (piped, from_file)]
    assert responses[0] == responses[1]


def test_a_gold_that_cannot_be_read_is_named_and_left_out(rlvr):
    bad = '{"problem": "What is 1 + 1?", "answer": "((("}\n'
    result = rlvr("eval", "-", "-n", "2", stdin=bad)
    assert result.returncode == 0
    assert "problem stdin-1: the gold answer '(((' cannot be read" in result.stderr
    assert "2 responses could not be judged" in result.stderr
    assert "pass@1     not measured on stdin" in result.stderr
    assert {(row["verdict"], row["reward"]) for row in rows(result.stdout)} == {
        ("unparseable_gold", None)
    }


def test_fields_that_json_does_not_have_come_back_as_well_as_they_can(rlvr):
    odd = '{"problem": "What is 1 + 1?", "answer": 2, "x": NaN, "verdict": "correct"}\n'
    (row,) = rows(rlvr("sample", "-", stdin=odd.replace('"answer": 2, ', "")).stdout)
    assert (row["x"], "verdict" in row) == (None, False)


def test_sample_takes_text_files_and_stdin(rlvr, tmp_path):
    (tmp_path / "p.jsonl").write_text('{"problem": "What is 1 + 1?"}\n')
    result = rlvr("sample", "What is 2 + 2?", "p.jsonl", "-", "-n", "2", stdin=STDIN)
    assert result.returncode == 0, result.stderr
    actual = rows(result.stdout)
    assert [row["problem"] for row in actual[::2]] == [
        "What is 2 + 2?",
        "What is 1 + 1?",
        "Start at 3, keep last digits: (a) +4",
        "Start at 6, keep last digits: (a) *3",
        "Start at 0, keep last digits: (a) -2",
    ]
    assert "verdict" not in actual[0]
    assert "verdict" in actual[-1]


def test_train_on_piped_problems_writes_a_run(rlvr, tmp_path):
    result = rlvr(
        "train",
        "--algo",
        "grpo",
        "-",
        "--steps",
        "2",
        "--prompts",
        "3",
        "--max-tokens",
        "50",
        "--out",
        "run",
        stdin=STDIN,
    )
    assert result.returncode == 0, result.stderr
    assert [row["step"] for row in rows(result.stdout)] == [1, 2]
    run = tmp_path / "run"
    assert rows((run / "metrics.jsonl").read_text()) == rows(result.stdout)
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert (config["algo"], config["steps"], config["model"]) == ("grpo", 2, "tiny")
    responses = rows((run / "rollouts" / "step-000002.jsonl").read_text())
    assert len(responses) == 3 * 8
    assert list(responses[0])[: len(ROW_KEYS)] == ROW_KEYS
    assert (run / "checkpoints" / "step-2" / "model.safetensors").is_file()
    repeated = rlvr("eval", "--model", "run", "-", "-n", "1", stdin=STDIN)
    assert repeated.returncode == 0, repeated.stderr
    assert "at most 50 tokens" in repeated.stderr
    refused = rlvr("train", "-", "--out", "run", stdin=STDIN)
    assert refused.returncode == 2
    assert "--out run: it exists already" in refused.stderr


def test_the_run_is_repeated_by_its_own_configuration(finished_run, rlvr, tmp_path):
    repeated = rlvr("train", "--config", str(finished_run / "config.yaml"), "--out", "again")
    assert repeated.returncode == 0, repeated.stderr
    for name in ("rollouts/step-000004.jsonl", "checkpoints/step-4/model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (finished_run / name).read_bytes()


def test_a_run_without_a_signal_says_so_and_leaves_the_policy_alone(rlvr, tmp_path):
    impossible = '{"problem": "Prove it.", "answer": "no"}\n'
    result = rlvr("train", "-", "--steps", "2", "--prompts", "2", "--out", "run", stdin=impossible)
    assert result.returncode == 0, result.stderr
    assert "no signal in 2 steps: nothing set right responses apart" in result.stderr
    assert [row["groups_trained"] for row in rows(result.stdout)] == [0, 0]


def test_bad_lines_stop_or_are_skipped(rlvr):
    mixed = STDIN + "not json\n"
    stopped = rlvr("eval", "-", stdin=mixed)
    assert (stopped.returncode, stopped.stdout) == (2, "")
    assert "stdin:4: not a JSON object" in stopped.stderr
    skipped = rlvr("eval", "-", "-n", "1", "--skip-bad", stdin=mixed)
    assert skipped.returncode == 0
    assert len(rows(skipped.stdout)) == 3
    assert "bad lines skipped: 1" in skipped.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("eval", "-"), "stdin: no problems in it"),
        (("train", "nothing"), "nothing: no such problem set"),
        (("train", "--set", "data.where=level=0"), "no problem of chains has level 0; others are"),
        (("eval", "--set", "data.where=level=0,1"), "no problem of chains has level 0; others are"),
        (
            ("sample", "x", "--set", "data.where=level=1"),
            "only rlvr train and eval read data.where",
        ),
        (("eval", "missing.jsonl"), "missing.jsonl: cannot be read"),
        (("eval", "--model", "./nowhere"), "--model ./nowhere: no such directory"),
        (("train", "--set", "rollout.promts=3"), "did you mean rollout.prompts?"),
        (("train", "--algo", "nothing"), "--algo nothing: no such algorithm"),
        (("train", "-n", "1"), "a group of one has no advantage"),
        (("train", "--top-p", "0.5"), "rollout.top_p must be 1 in training"),
        (("eval", "--set", "optim.lr=1"), "only rlvr train reads optim.lr"),
        (("eval", "--set", "rollout.samples=3"), "only rlvr train reads rollout.samples"),
        (("eval", "--model", "./nowhere", "--out", "new.jsonl"), "no such directory"),
        (("train", "--config", "none.yaml"), "cannot be read (No such file or directory)"),
        (("eval", "--model", "runs/nope"), "--model runs/nope: no such directory"),
        (("eval", "--model", "a/b"), "--model a/b: no such directory, and as a hub id it cannot"),
        (("eval", "--model", "a/b"), "as a hub id it cannot be loaded (We couldn't connect"),
        (("train", "--config", "recipes/none.yaml"), "recipes/none.yaml: cannot be read"),
        (("eval", "--k", "0"), "--k 0: give numbers from 1 on"),
        (("sample", "x", "-n", "1.5"), "--samples 1.5: eval.samples must be a whole number"),
        (("--no",), "No such option: --no"),
        (("sample", "\udcff\udcfe"), "'\\udcff\\udcfe': not UTF-8 text"),
        (("train", "math500"), "math500: it has no train split"),
        (("sample",), "give a prompt"),
        (("sample", "What is 1 + 1?", "--max-tokens", "2040"), "do not fit the model's context"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(rlvr, tmp_path, args, message):
    result = rlvr(*args)
    assert result.returncode == 2
    assert result.stdout == ""
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("rlvr: error: ")
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_show_and_export_read_a_finished_run(finished_run, rlvr, rlvr_process, tmp_path):
    result = rlvr_process("show", str(finished_run))
    assert result.returncode == 0, result.stderr
    assert "4 of 4 steps" in result.stdout
    result = rlvr("export", str(finished_run), "--out", str(tmp_path / "exported"))
    assert result.returncode == 0, result.stderr
    assert "step 4 of" in result.stdout + result.stderr


@pytest.mark.parametrize("args", [("train", "--list"), ("eval", "--responses", "-")])
def test_a_full_disk_behind_stdout_is_one_line(args):
    command = [sys.executable, "-m", "rlvr_cli", *args]
    row = b'{"answer": 1, "response": "1"}'
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, input=row, stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 2
    assert result.stderr.endswith(b"rlvr: error: output: No space left on device\n")
    assert b"Traceback" not in result.stderr


def test_the_version_is_said(rlvr_process):
    result = rlvr_process("--version")
    assert (result.returncode, result.stdout) == (0, f"rlvr {rlvr_cli.__version__}\n")


@pytest.mark.parametrize("command", ["train", "eval", "sample"])
def test_help_opens_with_examples(rlvr, command):
    help_text = rlvr(command, "--help").stdout
    assert (
        help_text.index("Examples")
        < help_text.index(f"  rlvr {command} ")
        < help_text.index("--model")
    )


def test_gsm8k_is_read_from_a_pipe(rlvr, shared_data):
    first = "".join((shared_data / "gsm8k_test.jsonl").open().readlines()[:3])
    result = rlvr("eval", "-", "-n", "1", "--max-tokens", "8", stdin=first)
    assert result.returncode == 0, result.stderr
    assert [row["answer"] for row in rows(result.stdout)] == ["18", "3", "70000"]
