"""`rlvr eval --responses`: rows of any tool become figures, each under its own label and format."""

import csv
import json

import pytest
from conftest import invoke, jsonl, refused
from typer.testing import CliRunner

from rlvr_cli.cli.main import app

RIGHT = {"id": "a", "answer": "7", "response": "<think>x</think><answer>7</answer>", "level": 1}
LOOSE = {"id": "a", "answer": "7", "response": "It is 7.", "level": 1}


def score(*args, rows) -> tuple[list[dict], str]:
    result = CliRunner().invoke(app, ["eval", "--responses", "-", *args], input=jsonl(*rows))
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()], result.stderr


def verdicts(actual: list[dict]) -> list[str]:
    return [row["verdict"] for row in actual]


def test_the_format_is_what_was_asked_for_else_what_the_rows_say():
    message = {"verifier": "think_answer"}
    actual, words = score(rows=[RIGHT, LOOSE])
    assert verdicts(actual) == ["correct", "correct"]
    assert "judged as  " not in words
    actual, words = score(rows=[RIGHT | message, LOOSE | message])
    assert verdicts(actual)[0] == "correct"
    assert verdicts(actual)[1] != "correct"
    assert "judged as  think_answer, as the rows say" in words
    actual, _ = score("--set", "data.answer_format=any", rows=[RIGHT | message, LOOSE | message])
    assert verdicts(actual) == ["correct", "correct"]


def test_responses_with_chat_marks_are_said_in_one_line_a_file():
    chat = "<|im_start|>user\n3+4<|im_end|>\n<|im_start|>assistant\nIt is 7.<|im_end|>"
    marked = "<|ponder|>Is it 8?<|reply|>It is 7."
    actual, words = score(rows=[{**LOOSE, "response": text} for text in (chat, marked, "It is 7.")])
    assert verdicts(actual) == ["correct", "correct", "correct"]
    assert words.count("1 of 3 responses are whole transcripts") == 1
    assert words.count("1 of 3 responses hold what looks like a chat mark") == 1
    assert "chat mark" not in score(rows=[LOOSE])[1]


def test_each_label_has_its_own_figures_and_rows_in_the_order_of_labels():
    rows = [
        {**LOOSE, "model": model, "problem_set": data, "response": text}
        for model, data, text in (
            ("m", "d", "7"),
            ("n", "d", "8"),
            ("m", "e", "7"),
            ("m", "d", "8"),
        )
    ]
    actual, words = score(rows=rows)
    assert [(r["model"], r["problem_set"]) for r in actual] == [
        ("m", "d"),
        ("m", "d"),
        ("n", "d"),
        ("m", "e"),
    ]
    for figure, label in (("0.5000", "m on d"), ("0.0000", "n on d"), ("1.0000", "m on e")):
        assert f"{figure} with {label} (1 problem, " in words


def test_files_are_joined_to_a_set_by_id_or_text_and_the_figures_are_handed_on(tmp_path):
    golds = [
        {"id": "a", "problem": "What is 3 + 4?", "answer": 7, "level": 1},
        {"id": "b", "problem": "What is 3 + 5?", "answer": 8, "level": 2},
    ]
    (tmp_path / "set.jsonl").write_text(jsonl(*golds))
    first = [{"id": "a", "response": "7"}, {"question": "What is 3 + 5?", "response": "9"}]
    second = [{"id": "a", "responses": ["7", "8"]}, {"id": "b", "responses": ["8", "8"]}]
    for name, rows in (("m", first), ("n", second)):
        (tmp_path / f"{name}.jsonl").write_text(jsonl(*rows))
    given = [part for name in "mn" for part in ("--responses", tmp_path / f"{name}.jsonl")]
    result = invoke("eval", tmp_path / "set.jsonl", *given, "--by", "level", "--format", "csv")
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert [
        (row["model"], row["n"], row["k"], row["value"])
        for row in rows
        if row["metric"] == "pass@k" and not row["level"]
    ] == [("m", "2", "1", "0.5"), ("n", "2", "1", "0.75"), ("n", "2", "2", "1.0")]
    result = invoke("eval", tmp_path / "set.jsonl", *given, "--format", "md")
    assert "| m | " in result.stdout.splitlines()[2]
    assert "| 1 | 2 | 0.500 [" in result.stdout.splitlines()[2]
    result = invoke("eval", tmp_path / "set.jsonl", *given, "--format", "json")
    assert [left["model"] for left in json.loads(result.stdout)["results"]] == ["m", "n"]


def test_files_of_one_name_are_models_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "set.jsonl").write_text(jsonl({"id": "a", "problem": "p", "answer": 7}))
    for folder, response in (("A", "7"), ("B", "8")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "out.jsonl").write_text(jsonl({"id": "a", "response": response}))
    given = ("--responses", "A/out.jsonl", "--responses", "B/out.jsonl")
    result = invoke("eval", "set.jsonl", *given, "--format", "csv", "--out", "r")
    rows = csv.DictReader(result.stdout.splitlines())
    actual = [(row["model"], row["value"]) for row in rows if row["metric"] == "pass@k"]
    assert actual == [("A/out", "1.0"), ("B/out", "0.0")]
    shown = invoke("show", "r").stdout
    assert "r: A/out on set.jsonl" in shown
    assert shown.count("1 of 1") == shown.count("0 of 1") == 1


def test_what_does_not_fit_the_named_set_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    golds = [{"id": n, "problem": f"p{n}", "answer": n} for n in range(3)]
    (tmp_path / "set.jsonl").write_text(jsonl(*golds))
    rows = [{"id": 1.0, "answer": "1.0", "response": "1"}, {"id": 2, "answer": 5, "response": "5"}]
    (tmp_path / "in.jsonl").write_text(jsonl(*rows))
    given = ("eval", "set.jsonl", "--responses", "in.jsonl")
    message = " ".join(invoke(*given).stderr.split())
    assert "in: no response to 1 of the 3 problems of set.jsonl; the figures leave" in message
    assert (
        "1 row with another gold answer than the set's, which counts (in.jsonl:2: 5, 2)" in message
    )
    assert "no response to" not in invoke(*given, "--limit", 2).stderr


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"id": "x", "response": "7"}, "in.jsonl:1: no problem of set.jsonl has its id x"),
        ({"problem": "q", "response": "7"}, "in.jsonl:1: no problem of set.jsonl has its text"),
        ({"id": "a", "problem": "q", "response": "7"}, "problem a of set.jsonl is another one"),
    ],
)
def test_a_row_of_no_problem_of_the_set_is_refused(tmp_path, monkeypatch, row, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "set.jsonl").write_text(jsonl({"id": "a", "problem": "p", "answer": 7}))
    (tmp_path / "in.jsonl").write_text(jsonl(row))
    result = invoke("eval", "set.jsonl", "--responses", "in.jsonl")
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


def test_right_answers_in_another_form_than_asked_are_said():
    form = ("--set", "data.answer_format=boxed")
    boxed = {"id": "a", "answer": "7", "response": "\\boxed{7}"}
    _, words = score(*form, rows=[boxed, {**boxed, "response": "It is 7."}])
    assert "any form   pass@1 1.000 " in words
    assert "50% of the right answers are in another form than asked (boxed)" in words
    _, words = score(*form, rows=[boxed])
    assert "another form" not in words
    _, words = score("--set", "data.answer_format=any", rows=[boxed])
    assert "any form" not in words


@pytest.mark.parametrize("more", [{}, {"problem_set": "d", "model": "n"}, {"id": "b"}])
def test_two_files_that_answer_one_problem_differently_are_refused(tmp_path, monkeypatch, more):
    monkeypatch.chdir(tmp_path)
    row = {"id": "a", "problem": "p", "response": "7", "problem_set": "d"}
    if "problem_set" not in more:
        del row["problem_set"]
    (tmp_path / "one.jsonl").write_text(jsonl({**row, "answer": 7}))
    (tmp_path / "two.jsonl").write_text(jsonl({**row, "answer": 8, **more}))
    files = ("--responses", "one.jsonl", "--responses", "two.jsonl")
    says = "has two different gold answers, '8', '7' in one.jsonl:1"
    assert refused("eval", *files, "--out", "out").endswith(says)
    (tmp_path / "two.jsonl").write_text(jsonl({**row, "answer": 7, **more}))
    assert invoke("eval", *files, "--out", "out").exit_code == 0  # mended, the same command goes on


@pytest.mark.parametrize(("problems", "says"), [(30, True), (3000, False)])
def test_a_comparison_too_small_for_a_few_points_says_so(tmp_path, problems, says):
    rows = [{"id": n, "answer": 1, "response": str(1 + (n % 3 == 0))} for n in range(problems)]
    score("--out", str(tmp_path / "one"), rows=rows)
    _, words = score("--against", str(tmp_path / "one"), rows=rows)
    # All are 0: 30 reach 1 - 0.025^(1/30) = 0.1157, and (0.1157 / 0.05)^2 x 30 = 160.6.
    small = "below 12 points; for 5 take about 161 problems, or more samples"
    assert (small in words) is says
    assert ("cannot show a difference" in words) is says


@pytest.mark.parametrize("judge", ["rlvr", "math-verify"])
def test_the_judge_is_in_the_fingerprint(tmp_path, judge):
    score("--judge", judge, "--out", str(tmp_path / "out"), rows=[RIGHT])
    (entry,) = json.loads((tmp_path / "out/report.json").read_text())["results"]
    verifier = entry["fingerprint"]["verifier"]
    assert verifier["format"] == "any"
    assert verifier.get("judge", "rlvr") == judge
    assert entry["fingerprint"].keys() == {"data", "rlvr", "verifier"}


def test_a_field_is_looked_for_before_anything_is_judged(monkeypatch):
    monkeypatch.setattr("rlvr_cli.program.recorded.judged", lambda *args: pytest.fail("judged"))
    args = ["eval", "--responses", "-", "--by", "lvl"]
    result = CliRunner().invoke(app, args, input=jsonl(RIGHT))
    assert result.exit_code == 2
    assert "lvl" in result.stderr


def test_a_field_that_differs_between_the_rows_of_a_problem_is_not_a_problems():
    rows = [RIGHT, {**RIGHT, "level": 2}]
    line = refused("eval", "--responses", "-", "--by", "level", stdin=jsonl(*rows))
    assert "stdin:2: --by level: rows of problem a have 2 and 1; it must be of the problem" in line


def test_two_files_are_compared_with_what_only_one_has_or_judges_otherwise(tmp_path):
    reference = [{"id": n, "answer": 1, "response": "2"} for n in range(5)]
    score("--out", str(tmp_path / "theirs"), rows=reference)
    ours = [{"id": n, "answer": 1 + (n == 3), "response": "1"} for n in range(1, 5)]
    args = ("--quiet", "--format", "md", "--by", "level,kind", "--against", tmp_path / "theirs")
    result = invoke("eval", "--responses", "-", *args,
                  stdin=jsonl(*({**row, "level": 1, "kind": "x"} for row in ours)))  # fmt: skip
    assert result.exit_code == 0
    assert f"the differences leave out 1 problem only in {tmp_path / 'theirs'}" in result.stderr
    assert "1 problem (such as 3) with another gold answer there" in result.stderr
    assert f"against    responses on stdin ({tmp_path / 'theirs'}), 4 problems" in result.stderr
    by, kinds, compared, _ = result.stdout.split("\n\n")[1:]
    # Wilson at 4 x 0.75 x 0.25 / 0.25 = 3 problems.
    assert by.splitlines()[2] == "| responses | stdin | 1 | 4 | 0.750 [0.256, 0.963] |"
    assert kinds.splitlines()[0] == "| model | data | kind | problems | pass@1 [95 %] |"
    # Three of four better by 1: 3/4, all four signs alike or not: 2 of 8 as far.
    line = compared.splitlines()[2]
    assert f"| responses on stdin ({tmp_path / 'theirs'}) | pass@1 | 4 | 0.750 [" in line
    assert line.endswith("| 3 | 0 |")
    p = float(line.split("|")[7])
    assert p == 0.25


def test_the_same_judging_of_two_files_does_not_make_their_models_one(tmp_path):
    score("--out", str(tmp_path / "one"), rows=[RIGHT])
    _, words = score("--against", str(tmp_path / "one"), rows=[RIGHT])
    assert (
        "differs in nothing of problems and judging; what made the responses is not known" in words
    )


def test_problems_that_hold_responses_are_pointed_to_their_option(tmp_path):
    (tmp_path / "made.jsonl").write_text(jsonl({**RIGHT, "problem": "7?"}))
    result = invoke("eval", tmp_path / "made.jsonl", "-n", 1, "--max-tokens", 2)
    assert f"rlvr eval --responses {tmp_path / 'made.jsonl'} judges them" in result.stderr
