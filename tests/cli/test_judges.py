"""`--judge math-verify`, through the real command line."""

import json
import shutil
import subprocess
import sys

import pytest
from conftest import invoke, jsonl, refused

from rlvr_cli.core.report import Fingerprint
from rlvr_cli.data.rows import JudgedRow
from rlvr_cli.evaluation.result_dir import PartialResult

RIGHT_BY_RULES = {"id": "a", "answer": "Friday", "response": "The answer is Friday.", "level": 1}
RIGHT_BY_PEER = {"id": "b", "answer": r"\frac13", "response": r"\boxed{0.3333333}", "level": 2}
RIGHT = {"id": "c", "answer": "9", "response": r"\boxed{9}", "level": 2}
WRONG = {"id": "c", "answer": "9", "response": r"\boxed{8}", "level": 2}
JUDGED_BY_PEER = ("eval", "--responses", "-", "--judge", "math-verify")
ROWS = jsonl(RIGHT_BY_RULES, RIGHT_BY_PEER, RIGHT, WRONG)
TINY = ("-n", "1", "--max-tokens", "3", "--limit", "2", "--judge", "math-verify")


def test_two_judges_are_compared_by_two_commands(tmp_path):
    result = invoke("eval", "--responses", "-", "--out", tmp_path / "rules", stdin=ROWS)
    assert result.exit_code == 0, result.stderr
    result = invoke(
        *JUDGED_BY_PEER, "--against", tmp_path / "rules", "--format", "json", stdin=ROWS
    )
    assert result.exit_code == 0, result.stderr
    (compared,) = json.loads(result.stdout)["against"]["results"]
    at_1 = compared["pass@k"]["1"]
    assert (at_1["value"], at_1["better"], at_1["worse"], at_1["problems"]) == (0, 1, 1, 3)
    assert "verifier.judge 'math-verify', theirs none" in compared["differs"]
    assert "pass@1     0.5000 on stdin (3 problems, 4 responses, answers judged by" in result.stderr


def test_comparing_judges_in_one_command_is_refused_with_what_to_do():
    message = refused("eval", "--responses", "-", "--judge", "both", stdin=ROWS)
    assert "--judge both: no such judge; choose from rlvr, math-verify. To compare two, " in message
    assert "judge with one and --out DIR, then with the other and --against DIR" in message


@pytest.mark.parametrize(
    ("args", "stdin", "message"),
    [
        (JUDGED_BY_PEER, "", "stdin: no responses in it"),
        ((*JUDGED_BY_PEER, "--by", "x"), ROWS, "--by x: no such field in stdin; it has level"),
        (
            ["eval", "--responses", "-", "--judge", "prime"],
            ROWS,
            "--judge prime: no such judge; choose from rlvr, math-verify. To",
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
    result = invoke(*JUDGED_BY_PEER, stdin=jsonl(row, RIGHT))
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    result = invoke(*JUDGED_BY_PEER, "--skip-bad", stdin=jsonl(row, RIGHT))
    assert result.exit_code == 0
    assert "(1 problem, 1 response, " in result.stderr


def test_a_field_of_the_rows_is_named():
    row = {"id": "a", "gold_text": "5", "response": "\\boxed{5}"}
    result = invoke(*JUDGED_BY_PEER, "--field", "answer=gold_text", stdin=jsonl(row))
    assert result.exit_code == 0, result.stderr
    assert "(1 problem, 1 response, " in result.stderr


def test_a_library_that_is_not_there_is_one_line(monkeypatch):
    def missing(name):
        from importlib.metadata import PackageNotFoundError

        raise PackageNotFoundError(name)

    monkeypatch.setattr("verifiers.judges.version", missing)
    assert "--judge math-verify: math-verify is not installed" in refused(
        *JUDGED_BY_PEER, stdin=ROWS
    )


def test_another_judge_gives_the_figures(tmp_path):
    half = {"id": "d", "answer": "3", "responses": [r"\boxed{0.5}", r"\boxed{\frac12}", "$3$"]}
    rows = jsonl(
        half, {**RIGHT_BY_PEER, "responses": [RIGHT_BY_PEER["response"]] * 3, "response": None}
    )
    judged = ("eval", "--responses", "-", "--judge", "math-verify", "--k", "3")
    result = invoke(*judged, "--out", tmp_path / "out", stdin=rows)
    assert result.exit_code == 0, result.stderr
    (entry,) = json.loads((tmp_path / "out/report.json").read_text())["results"]
    assert entry["pass@k"]["1"]["value"] == pytest.approx((1 / 3 + 1) / 2)
    assert entry["cons@k"]["3"]["value"] == 0.5  # one half twice outvotes 3
    verifier = entry["fingerprint"]["verifier"]
    assert (verifier["judge"], verifier["format"]) == ("math-verify", "any")
    assert verifier["versions"]["math-verify"].startswith("0.9")
    assert f"judged by math-verify {verifier['versions']['math-verify']}" in result.stderr
    (file,) = (tmp_path / "out/responses").iterdir()
    assert {json.loads(line)["verifier"] for line in file.open()} == {"math-verify"}
    repeated = invoke("eval", "--responses", file, stdin="")
    assert "answers judged as any" in repeated.stderr


def test_another_version_does_not_go_on_with_a_result(tmp_path, monkeypatch):
    out = tmp_path / "out"
    result = invoke("eval", *TINY, "--out", out)
    assert result.exit_code == 0, result.stderr
    (entry,) = json.loads((out / "report.json").read_text())["results"]
    (file,) = (out / "responses").iterdir()
    rows = file.read_text().splitlines(keepends=True)
    assert {json.loads(row)["verifier"] for row in rows} == {"math-verify"}
    (out / "unfinished").mkdir()
    first = JudgedRow.model_validate_json(rows[0])
    fingerprint = Fingerprint(entry["fingerprint"])
    begun = PartialResult(out / "unfinished" / file.name, fingerprint, 1)
    begun.add({first.id: [first.answered]})
    (out / "report.json").unlink()
    shutil.rmtree(out / "responses")
    same = shutil.copytree(out, tmp_path / "same")
    with monkeypatch.context() as patched:
        patched.setattr("verifiers.judges.version", lambda name: "9.9")
        result = invoke("eval", *TINY, "--out", out)
    assert result.exit_code == 2
    assert "verifier.versions.math-verify '9.9', theirs '0.9" in result.stderr.splitlines()[-1]
    result = invoke("eval", *TINY, "--out", same)
    assert result.exit_code == 0, result.stderr
    assert "1 of 2 problems are done already" in result.stderr


def test_judging_without_a_model_loads_no_torch():
    code = (
        "import sys, rlvr_cli.program.recorded\n"
        "print({'torch', 'transformers', 'sympy', 'math_verify'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"


def test_the_judge_that_was_chosen_says_which_golds_it_reads():
    odd = jsonl({"problem": "What is 1 + 1?", "answer": "((("})
    warned = ["cannot be read" in invoke("eval", "-", *TINY[:-2], stdin=odd).stderr]
    warned += ["cannot be read" in invoke("eval", "-", *TINY, stdin=odd).stderr]
    assert warned == [True, False]  # math-verify takes any text for a gold answer
