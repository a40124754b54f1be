"""What `rlvr eval` and `rlvr sample` make of files that are compared, judged again or moved, and of
options that do not fit. Through the real command line, in this process."""

import json

import pytest
from conftest import invoke, jsonl, refused

from rlvr_cli.__main__ import _run
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.report import Fingerprint, Judging
from rlvr_cli.data.rows import JudgedRow
from rlvr_cli.evaluation.figures import judged_problems
from rlvr_cli.evaluation.publish import ReportOptions, publish, report_options
from rlvr_cli.evaluation.report import Result
from rlvr_cli.evaluation.result_dir import ResultDirectory

PROBLEM = {"problem": "What is 3 + 4?", "answer": 7}
QUICK = ("-n", "1", "--max-tokens", "3")


def judged_row(identity, verdict, **more):
    row = {"id": identity, "problem": "p", "verdict": verdict, "extracted": "1"}
    return {**row, "format_ok": True, "n_tokens": 1, "finish_reason": "stop", **more}


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        ({"id": "b"}, "no problem of stdin is in it: the ids here are such as a, there b"),
        ({"id": "a", "problem": "q"}, "problem a of stdin is another problem there"),
    ],
)
@pytest.mark.parametrize("command", ["eval -", "eval --responses -"])
def test_a_comparison_is_checked_before_anything_is_sampled(tmp_path, command, theirs, message):
    path = tmp_path / "rows.jsonl"
    path.write_text(jsonl(judged_row("a", "correct") | theirs))
    ours = jsonl({"id": "a", "problem": "p", "answer": 1, "response": "1"})
    assert message in refused(*command.split(), "--against", path, stdin=ours)


def test_a_comparison_that_fails_loses_nothing(tmp_path):
    def result(verdict):
        response = JudgedRow.model_validate(judged_row("a", verdict)).answered
        fingerprint = Fingerprint(judging=Judging("any", version="1"))
        return Result("m", "d", fingerprint, judged_problems([response]))

    out = tmp_path / "out"
    requested = ReportOptions(against=tmp_path, out=out)
    late = [result("timeout")]
    with pytest.raises(UserError, match="no problem of d has judged responses on both sides"):
        publish([result("correct")], requested, ResultDirectory(out), late, Display(quiet=True))
    assert len(json.loads((out / "report.json").read_text())["results"]) == 1
    assert len((out / "responses/d--m.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("eval --responses - --temperature 1", "--temperature 1: --responses does not read"),
        ("eval --responses - -n 0", "--samples 0"),
        ("eval --responses - --seed 0", "--seed 0: --responses does not read seed"),
        ("eval --responses - --prompt boxed", "--prompt boxed: --responses does not read"),
        ("eval --responses - --set data.where=a=1", "--responses does not read data.where"),
        ("eval --responses - --set optim.lr=1", "only rlvr train reads optim.lr"),
        ("eval --set data.rooot=1", "data.rooot is not a setting; did you mean data.root?"),
        ("sample x --set foo=1", "foo is not a setting; known: algo"),
    ],
)
def test_an_option_that_is_not_read_is_refused(args, message):
    assert message in refused(*args.split())


def test_quiet_results_name_their_model_and_show_what_was_asked_for():
    rows = [{"model": m, "id": 1, "answer": 1, "response": "1", "level": 3} for m in "ab"]
    result = invoke("eval", "--responses", "-", "-q", "--by", "level", stdin=jsonl(*rows))
    assert "1.0000 with a on stdin (1 problem, 1 response, " in result.stderr
    assert "1.0000 with b on stdin (" in result.stderr
    assert result.stderr.count("\nlevel  problems ") == 2


def test_another_judge_takes_answers_of_any_form():
    def checked(judge: str, *assignments: str) -> str:
        return report_options((), (), None, None, judge, "table", assignments).judge

    assert checked("rlvr", "data.answer_format=any") == "rlvr"
    assert checked("math-verify", "data.limit=1") == "math-verify"
    with pytest.raises(UserError, match=r"takes answers of any form; leave data.answer_format out"):
        checked("math-verify", "data.limit=1", " data.answer_format =any")
    with pytest.raises(UserError, match="no such judge"):
        checked("nobody")


def test_what_is_to_be_said_is_checked_at_once(capsys):
    requested = report_options(["1,4", "16"], ["level"], None, None, "rlvr", "md", ())
    assert (requested.ks, requested.by, requested.format) == ((1, 4, 16), ("level",), "md")
    assert _run(["eval", "--format", "xml"]) == 2
    assert "'xml' is not one of" in capsys.readouterr().err


def answered(right: str, **more) -> list[dict]:
    """Rows of a response to each of six problems, right where the digits say so."""
    return [
        {"id": n, "problem": f"{n} + 1?", "answer": n + 1, "response": str(n + int(digit)), **more}
        for n, digit in enumerate(right)
    ]


def test_files_of_one_command_are_paired_with_the_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, right in (("base", "100000"), ("good", "111110"), ("odd", "011100")):
        (tmp_path / f"{name}.jsonl").write_text(jsonl(*answered(right)))
    given = [part for name in ("base", "good", "odd") for part in ("--responses", f"{name}.jsonl")]
    result = invoke("eval", *given, "--format", "json", "--out", "r")
    report = json.loads(result.stdout)
    assert json.loads((tmp_path / "r/report.json").read_text())["paired"] == report["paired"]
    assert [(item["model"], item["against"]) for item in report["paired"]] == [
        ("good", "base"),
        ("odd", "base"),
    ]
    good, odd = (item["pass@k"]["1"] for item in report["paired"])
    # 4 of 6, all better: 2 of 16 signs. 2 of 6, three better and one worse: 10 of 16.
    assert (good["value"], good["p"]) == (pytest.approx(4 / 6), 2 / 16)
    assert (odd["value"], odd["p"]) == (pytest.approx(2 / 6), 10 / 16)
    assert (
        result.stderr.count("paired     a result less its baseline on the same problems; p is n")
        == 1
    )
    lines = result.stderr.splitlines()
    at = next(
        n for n, line in enumerate(lines) if line.startswith("model") and " baseline " in line
    )
    assert [line.split()[:5] for line in lines[at + 1 : at + 3]] == [
        ["good", "good.jsonl", "base", "pass@1", "6"],
        ["odd", "odd.jsonl", "base", "pass@1", "6"],
    ]
    assert "differs in" not in result.stderr
    assert "warning" not in result.stderr
    result = invoke("eval", *given, "--format", "latex", "--quiet")
    assert result.stdout.count(r"\begin{tabular}") == 2
    assert r"good & good.jsonl & base & pass@1 & 6 & 0.667 {\small [" in result.stdout


def test_the_models_of_one_file_are_paired_on_each_of_its_sets():
    rows = [
        {**row, "id": f"{data}{row['id']}", "problem": data + row["problem"]}
        for model, right in (("m", "100000"), ("n", "111110"))
        for data in "de"
        for row in answered(right, model=model, problem_set=data)
    ]
    result = invoke("eval", "--responses", "-", "--format", "json", stdin=jsonl(*rows))
    assert [
        (item["model"], item["data"], item["against"], item["pass@k"]["1"]["better"])
        for item in json.loads(result.stdout)["paired"]
    ] == [("n", "d", "m", 4), ("n", "e", "m", 4)]


def test_what_a_pair_leaves_out_or_judges_otherwise_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = answered("100000")
    (tmp_path / "base.jsonl").write_text(jsonl(*base))
    (tmp_path / "less.jsonl").write_text(jsonl(*answered("1111", verifier="boxed")))
    other = [{**row, "problem": f"other {row['id']}"} for row in base]
    (tmp_path / "other.jsonl").write_text(jsonl(*other))
    given = ("--responses", "base.jsonl", "--responses", "less.jsonl")
    words = invoke("eval", *given).stderr
    assert "warning    less: the differences leave out 2 problems only in base" in words
    assert "differs in less: verifier.format 'boxed', theirs 'any'" in words
    result = invoke("eval", "--responses", "base.jsonl", "--responses", "other.jsonl")
    assert result.exit_code == 0
    assert result.stderr.count("paired     no two results have a problem in common") == 1
    one = invoke("eval", "--responses", "base.jsonl").stderr
    assert "paired" not in one
