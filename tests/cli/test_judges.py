"""`--judge math-verify` and `--judge both`, through the real command line."""

import json
import shutil
import subprocess
import sys

import pytest
from conftest import invoke, jsonl, refused

from rlvr_cli.evaluation.result_dir import PartialResult

OURS_ONLY = {"id": "a", "answer": "Friday", "response": "The answer is Friday.", "level": 1}
THEIRS_ONLY = {"id": "b", "answer": r"\frac13", "response": r"\boxed{0.3333333}", "level": 2}
BOTH = {"id": "c", "answer": "9", "response": r"\boxed{9}", "level": 2}
NEITHER = {"id": "c", "answer": "9", "response": r"\boxed{8}", "level": 2}
JUDGED_BY_BOTH = ("eval", "--responses", "-", "--judge", "both")
ROWS = jsonl(OURS_ONLY, THEIRS_ONLY, BOTH, NEITHER)
TINY = ("-n", "1", "--max-tokens", "3", "--limit", "2", "--judge", "math-verify")


def test_both_judges_pipe_the_rows_on_which_they_differ(rlvr):
    done = rlvr(*JUDGED_BY_BOTH, "--by", "level", stdin=ROWS)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    message = [(row["id"], row["verdict"], row["judge"]["verdict"]) for row in rows]
    assert message == [("a", "correct", "no_answer"), ("b", "wrong", "correct")]
    assert rows[1]["judge"] == {
        "name": rows[0]["judge"]["name"],
        "verdict": "correct",
        "extracted": "0.3333333",
    }
    assert rows[0]["judge"]["name"].startswith("math-verify 0.9")
    assert rows[0]["response"] == OURS_ONLY["response"]
    assert "agreement  0.333 [" in done.stderr  # 0, 0 and 2 of 2
    assert "pass@1     0.5000 with responses on stdin (3 problems, 4 responses," in done.stderr
    assert "pass@1     0.5000 with responses (math-verify) on stdin" in done.stderr
    assert (
        "4 judged by both, 1 both right, 1 only ours, 1 only math-verify, 1 neither" in done.stderr
    )


def test_the_report_has_both_figures_and_the_agreement(tmp_path):
    done = invoke(*JUDGED_BY_BOTH, "--out", tmp_path / "out", "-q", stdin=ROWS)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.splitlines()[-1].startswith("agreement  0.333 [")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [entry["model"] for entry in report["results"]] == [
        "responses",
        "responses (math-verify)",
    ]
    assert report["agreement"]["only ours"] == report["agreement"]["only math-verify"] == 1
    actual = [path.read_text() for path in sorted((tmp_path / "out" / "responses").iterdir())]
    assert [text.count("\n") for text in actual] == [4, 4]
    again = invoke(*JUDGED_BY_BOTH, "--against", tmp_path / "out", "-q", stdin=ROWS)
    assert again.exit_code == 0, again.stderr


def test_a_format_is_ours_alone():
    form = {"id": 1, "answer": "5", "verifier": "think_answer"}
    good = form | {"response": "<think>2 + 3</think><answer>5</answer>"}
    done = invoke(*JUDGED_BY_BOTH, stdin=jsonl(good, form | {"response": r"\boxed{5}"}))
    assert done.stdout == ""
    assert "agreement  1.000 [" in done.stderr
    assert "1 judged by both, 1 both right, 0 only ours, 0 only math-verify, 0 neither, 1 not" in (
        done.stderr
    )


def test_what_was_not_judged_is_counted_apart():
    row = {"id": 1, "answer": "((", "response": "5"}
    done = invoke(*JUDGED_BY_BOTH, stdin=jsonl(row, BOTH))
    assert done.stdout == ""
    assert "1 response not judged by one or both" in done.stderr
    assert "agreement  1.000 [" in done.stderr


@pytest.mark.parametrize(
    ("args", "stdin", "message"),
    [
        (JUDGED_BY_BOTH, "", "stdin: no responses in it"),
        ((*JUDGED_BY_BOTH, "--by", "x"), ROWS, "--by x: no such field in stdin; it has level"),
        (["eval", "--judge", "both"], "", "--judge both compares verdicts on responses that are"),
        (
            ["eval", "--responses", "-", "--judge", "prime"],
            ROWS,
            "--judge prime: no such judge; choose from rlvr, math-verify, both",
        ),
        (
            ["eval", "--judge", "math-verify", "--set", "data.answer_format=boxed"],
            "",
            "--judge math-verify takes answers of any form; leave data.answer_format out",
        ),
    ],
)
def test_a_mistake_is_one_line(tmp_path, monkeypatch, args, stdin, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused(*args, stdin=stdin)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"response": "5"}, "stdin:1: no field answer; it has response: name the one"),
        ({"answer": "5"}, "stdin:1: no field response; it has answer: name"),
    ],
)
def test_a_row_that_cannot_be_judged_is_named(row, message):
    done = invoke(*JUDGED_BY_BOTH, stdin=jsonl(row, BOTH))
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    done = invoke(*JUDGED_BY_BOTH, "--skip-bad", stdin=jsonl(row, BOTH))
    assert done.exit_code == 0
    assert "(1 problem, 1 response, " in done.stderr


def test_a_field_of_the_rows_is_named():
    row = {"id": "a", "gold_text": "5", "response": "\\boxed{5}"}
    done = invoke(*JUDGED_BY_BOTH, "--field", "answer=gold_text", stdin=jsonl(row))
    assert done.exit_code == 0, done.stderr
    assert "(1 problem, 1 response, " in done.stderr


def test_a_library_that_is_not_there_is_one_line(monkeypatch):
    def missing(name):
        from importlib.metadata import PackageNotFoundError

        raise PackageNotFoundError(name)

    monkeypatch.setattr("verifiers.judges.version", missing)
    assert "--judge math-verify: math-verify is not installed" in refused(
        *JUDGED_BY_BOTH, stdin=ROWS
    )


def test_another_judge_gives_the_figures(tmp_path):
    half = {"id": "d", "answer": "3", "responses": [r"\boxed{0.5}", r"\boxed{\frac12}", "$3$"]}
    rows = jsonl(half, THEIRS_ONLY | {"responses": [THEIRS_ONLY["response"]] * 3, "response": None})
    judged = ("eval", "--responses", "-", "--judge", "math-verify", "--k", "3")
    done = invoke(*judged, "--out", tmp_path / "out", stdin=rows)
    assert done.exit_code == 0, done.stderr
    (entry,) = json.loads((tmp_path / "out/report.json").read_text())["results"]
    assert entry["pass@k"]["1"]["value"] == pytest.approx((1 / 3 + 1) / 2)
    assert entry["cons@k"]["3"]["value"] == 0.5  # one half twice outvotes 3
    verifier = entry["fingerprint"]["verifier"]
    assert (verifier["judge"], verifier["format"]) == ("math-verify", "any")
    assert verifier["versions"]["math-verify"].startswith("0.9")
    assert f"judged by math-verify {verifier['versions']['math-verify']}" in done.stderr
    (file,) = (tmp_path / "out/responses").iterdir()
    assert {json.loads(line)["verifier"] for line in file.open()} == {"math-verify"}
    again = invoke("eval", "--responses", file, stdin="")
    assert "answers judged as any" in again.stderr


def test_another_version_does_not_go_on_with_a_result(tmp_path, monkeypatch):
    out = tmp_path / "out"
    done = invoke("eval", *TINY, "--out", out)
    assert done.exit_code == 0, done.stderr
    (entry,) = json.loads((out / "report.json").read_text())["results"]
    (file,) = (out / "responses").iterdir()
    rows = file.read_text().splitlines(keepends=True)
    assert {json.loads(row)["verifier"] for row in rows} == {"math-verify"}
    (out / "unfinished").mkdir()
    first = json.loads(rows[0])
    begun = PartialResult(out / "unfinished" / file.name, entry["fingerprint"], 1)
    begun.add(first["id"], [first])
    (out / "report.json").unlink()
    shutil.rmtree(out / "responses")
    same = shutil.copytree(out, tmp_path / "same")
    with monkeypatch.context() as patched:
        patched.setattr("verifiers.judges.version", lambda name: "9.9")
        done = invoke("eval", *TINY, "--out", out)
    assert done.exit_code == 2
    assert "verifier.versions.math-verify '9.9', theirs '0.9" in done.stderr.splitlines()[-1]
    done = invoke("eval", *TINY, "--out", same)
    assert done.exit_code == 0, done.stderr
    assert "1 of 2 problems are done already" in done.stderr


def test_judging_without_a_model_loads_no_torch():
    code = (
        "import sys, rlvr_cli.evaluation.publish\n"
        "print({'torch', 'transformers', 'sympy', 'math_verify'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_judge_that_was_chosen_says_which_golds_it_reads():
    odd = jsonl({"problem": "What is 1 + 1?", "answer": "((("})
    warned = ["cannot be read" in invoke("eval", "-", *TINY[:-2], stdin=odd).stderr]
    warned += ["cannot be read" in invoke("eval", "-", *TINY, stdin=odd).stderr]
    assert warned == [True, False]  # math-verify takes any text for a gold answer
