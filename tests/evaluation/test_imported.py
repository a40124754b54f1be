"""Responses from elsewhere are judged as a live run judges its own."""

import hashlib
import json
from pathlib import Path

import pytest
from conftest import jsonl

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Label, Origin, Problem, Response, by_key
from rlvr_cli.data.problems import check_problems
from rlvr_cli.data.rows import as_row
from rlvr_cli.evaluation import imported
from rlvr_cli.evaluation.imported import (
    judged,
    read_responses,
    refuse_repeated,
    row_format,
    source_names,
)
from verifiers import Attempt, Verdict, Verification, Verifier


def given(text: str, finish_reason: str | None) -> Response:
    problem = Problem("1", "What is 1 + 1?", "2")
    return Response(problem=problem, text=text, finish_reason=finish_reason)


def test_the_verifier_is_told_what_was_cut_off():
    rows = [given("It goes on and", reason) for reason in ("length", "stop", None)]
    with Verifier() as verifier:
        responses = judged(rows, verifier, lambda count: None)
    assert [each.verdict for each in responses] == ["truncated", "no_answer", "no_answer"]
    assert [each.finish_reason for each in responses] == ["length", "stop", None]


def test_problems_stay_together_and_progress_is_told(monkeypatch):
    monkeypatch.setattr(imported, "_BATCH", 2)
    message = (("1", "2"), ("1", "3"), ("2", "2"), ("1", "2"), ("3", "4"))
    rows = [Response(problem=Problem(name, name, "2"), text=text) for name, text in message]
    told: list[int] = []
    with Verifier() as verifier:
        responses = judged(rows, verifier, told.append)
    assert told == [2, 2, 1]
    actual = [(each.problem.id, each.sample, each.verdict) for each in responses]
    assert actual == [
        ("1", 0, "correct"),
        ("1", 1, "wrong"),
        ("1", 2, "correct"),
        ("2", 0, "correct"),
        ("3", 0, "wrong"),
    ]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("text", "not a JSON object"),
        ({"response": "2"}, "no field answer"),
        ({"answer": "2"}, "no field response; it has answer"),
        ({"answer": "2", "text": "5"}, "--field response=text"),
        ({"answer": "2", "response": None}, "field response is null"),
        (
            {"answer": "2", "response": "2", "responses": ["3"]},
            "it has response and responses: say",
        ),
        ({"answer": "2", "response": 3}, "field response is neither a text nor a list of texts"),
        ({"answer": "2", "responses": []}, "field responses is an empty list"),
        ({"answer": "2", "responses": ["2", 2]}, "field responses is neither"),
        ({"answer": "2", "response": "2", "row_version": 2}, "r.jsonl:1: row_version 2: a newer"),
    ],
)
def test_a_row_that_is_no_response(row, says, tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(UserError, match=says):
        read_responses(str(path), None, skip_bad=False)


@pytest.fixture
def read(tmp_path):
    """Read rows from a file."""

    def reading(*rows: object, limit: int | None = None) -> list[Response]:
        (tmp_path / "r.jsonl").write_text(jsonl(*rows))
        return read_responses(str(tmp_path / "r.jsonl"), limit, skip_bad=False)

    return reading


FULL = {"model": "m", "problem_set": "s", "id": 7, "problem": "p", "answer": 2, "response": "r"}
FULL |= {"finish_reason": "length", "n_tokens": 3, "prompt": "P", "verifier": "boxed"}


def test_every_field_of_a_row_and_none(read, tmp_path):
    path = tmp_path / "r.jsonl"
    bare = {"answer": "2", "responses": ["a", "b"]}
    full, *least = read({**FULL, "reward": 1.0, "level": 1}, bare)
    problem = Problem("7", "p", "2", {"level": 1})
    assert full == Response(
        problem=problem,
        text="r",
        prompt_text="P",
        finish_reason="length",
        n_tokens=3,
        origin=Origin(f"{path}:1", Label("m", "s"), "boxed", "2"),
    )
    problem = Problem("r.jsonl-2", "", "2")
    origin = Origin(f"{path}:2", Label("r", str(path)), None, "2")
    assert least == [Response(problem=problem, text=text, origin=origin) for text in "ab"]


def test_a_problem_may_be_a_question_and_its_hash_is_its_id(read):
    (requested,) = read({"question": "q", "answer": 2, "response": "r"})
    assert requested.problem == Problem("8e35c2cd3bf6", "q", "2")


def test_what_a_row_says_amiss_of_its_response_is_not_known(read):
    amiss = {"finish_reason": 3, "prompt": 3, "verifier": "x"}
    (row,) = read(FULL | amiss)
    assert (row.finish_reason, row.prompt_text, row.origin.answer_format) == (None, None, None)


def test_each_response_of_a_list_has_its_own_end_and_length(read):
    listing = {"id": 1, "answer": "2", "completions": ["a", "b"]}
    ends = {"finish_reason": ["stop", "max_tokens"], "n_tokens": [5, 7]}
    rows = read(listing | ends, {**listing, "stop_reason": "max_tokens"})
    assert [(row.finish_reason, row.n_tokens) for row in rows[:2]] == [("stop", 5), ("length", 7)]
    assert [row.finish_reason for row in rows[2:]] == ["length", "length"]


def test_an_end_that_nobody_knows_is_said(read, caplog):
    rows = read({**FULL, "finish_reason": "MAX_TOKENS"}, {**FULL, "finish_reason": "tired"})
    assert [row.finish_reason for row in rows] == ["length", "tired"]
    (message,) = caplog.messages
    assert message.endswith("r.jsonl: finish_reason tired: not known, taken as not cut off")


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["a.jsonl", "x/b.jsonl"], ["a", "b"]),
        (["A/out.jsonl", "B/out.jsonl"], ["A/out", "B/out"]),
        (["r/A/out.jsonl", "r/B/out.jsonl", "-"], ["A/out", "B/out", "responses"]),
        (["a.json", "a.jsonl"], ["a.json", "a.jsonl"]),
        (["/x.jsonl"], ["x"]),
    ],
)
def test_files_are_named_apart(files, names):
    assert source_names(files) == names


def test_one_file_by_two_ways_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("link.jsonl").symlink_to("r.jsonl")
    refuse_repeated(["r.jsonl", "s.jsonl", "-"])
    for other in ("r.jsonl", "./r.jsonl", str(tmp_path / "r.jsonl"), "link.jsonl"):
        with pytest.raises(UserError, match="given twice; its rows would count twice"):
            refuse_repeated(["s.jsonl", "r.jsonl", other])


def test_a_response_may_be_an_assistants_turn(read):
    """As TRL writes conversations of prompt and completion."""
    turn = {"role": "assistant", "content": "so 2"}
    requested = {
        "prompt": [{"role": "user", "content": "1+1"}],
        "answer": "2",
        "completion": [turn],
    }
    (row,) = read(requested)
    assert (row.problem.problem, row.text) == ("1+1", "so 2")


def test_the_fields_that_are_named_hold_alone(tmp_path):
    path = tmp_path / "r.jsonl"
    row = {"qid": "a", "q": "1+1", "id": "x", "key": "2", "output": "2"}
    path.write_text(jsonl(row, {**row, "id": "y", "output": "3"}))
    names = {"id": "qid", "problem": "q", "answer": "key", "response": "output"}
    first, second = read_responses(str(path), None, False, names)
    assert first.problem == second.problem
    assert (first.problem.id, first.problem.problem, first.problem.answer) == ("a", "1+1", "2")
    assert (first.text, second.text) == ("2", "3")
    for field in names:
        with pytest.raises(UserError, match=f"no nope, which --field {field} names; it has qid, q"):
            read_responses(str(path), None, False, {**names, field: "nope"})


def test_a_response_is_never_its_own_gold_answer(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(jsonl({"problem": "1+1", "output": "3"}))
    with pytest.raises(UserError, match="no field answer"):
        read_responses(str(path), None, False, {"response": "output"})


def test_a_blank_id_is_none(read):
    rows = read(*({"id": " ", "answer": "2", "response": "2"} for _ in range(2)))
    assert [row.problem.id for row in rows] == ["r.jsonl-1", "r.jsonl-2"]


def test_a_cell_of_a_table_may_hold_a_list(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text('id,answer,responses\n1,2,"[""2"", ""3""]"\n')
    assert [row.text for row in read_responses(str(path), None, False)] == ["2", "3"]


def test_the_first_problems_of_each_result_are_kept(read):
    rows = [
        {"model": model, "id": name, "answer": 2, "response": model + name}
        for model, name in ("a1", "a2", "b2", "a1", "a3", "b3", "b1")
    ]
    retained = {n: [row.text for row in read(*rows, limit=n)] for n in (1, 2)}
    assert retained == {1: ["a1", "b2", "a1"], 2: ["a1", "a2", "b2", "a1", "b3"]}
    parts = by_key(read(*rows), lambda row: row.origin.label)
    assert [(label[0], len(part)) for label, part in parts.items()] == [("a", 4), ("b", 3)]


def test_the_result_of_a_file_is_called_as_the_file_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a:b.jsonl").write_text(jsonl({"answer": 2, "response": "r"}))
    (row,) = read_responses("a:b.jsonl", None, skip_bad=False)
    assert (row.origin.label, row.problem.id) == (("a:b", "a:b.jsonl"), "a:b.jsonl-1")


def test_a_file_without_rows(read, tmp_path):
    with pytest.raises(UserError, match=r"r\.jsonl: no responses in it; one JSON object a line"):
        read()


def test_a_file_that_its_run_wrote_otherwise_is_warned_of(read, tmp_path, monkeypatch):
    message: list[str] = []
    monkeypatch.setattr(imported.LOG, "warning", lambda form, *args: message.append(form % args))
    sums = {"r.jsonl": hashlib.sha256(jsonl(FULL).encode()).hexdigest(), "gone.jsonl": ""}
    (tmp_path / "manifest.json").write_text(json.dumps(sums))
    read(FULL)
    assert message == []
    read(FULL, FULL)
    assert message == [f"{tmp_path}: not as the run wrote it: the checksum of r.jsonl differs"]


def test_a_problem_has_one_id_and_one_gold_answer():
    def says(*problems: Problem, repeated: bool = True) -> str:
        with pytest.raises(UserError) as raised:
            check_problems([(f"f:{n}", first) for n, first in enumerate(problems, 1)], repeated)
        return str(raised.value)

    first = Problem("1", "p", "2")
    same = Problem("1", "p", "2")
    untold = Problem("3", "", "4")
    check_problems([("f:1", first), ("f:2", same), ("f:3", untold)], True)
    check_problems([("f:1", first), ("f:1", first), ("f:3", Problem("2", "", "9"))], False)
    check_problems([("f:1", untold), ("f:2", Problem("2", "", "9"))], True)
    another = "f:2: the id 1 is that of another problem (f:1); every problem needs an id of its own"
    assert says(first, same, repeated=False) == another
    assert says(first, Problem("1", "q", "2")) == another
    golds = "has two different gold answers, '3', '2' in f:1"
    assert says(first, Problem("1", "p", "3")) == f"f:2: problem 1 {golds}"
    assert says(first, Problem("2", "p", "3")) == f"f:2: problem 2 {golds}"
    long = says(Problem("1", "p", None), Problem("2", "p", "3" * 50))
    assert long.endswith(f"gold answers, {'3' * 40!r}, '' in f:1")


def test_rows_say_one_form_or_any_or_contradict_each_other(read):
    boxed = FULL
    untold = {**FULL, "verifier": None}
    assert row_format(read(boxed, boxed)) == "boxed"
    assert row_format(read(untold)) == "any"
    with pytest.raises(UserError, match=r"\(.*:1: verifier boxed; .*:2: verifier None\); --set"):
        row_format(read(boxed, untold))


def test_a_judged_row_has_every_key_and_the_problems_own(read):
    class Judge:
        def verify_many(self, attempts):
            self.attempts = attempts
            actual = Verification(Verdict.CORRECT, "2", False, "as made", "boxed")
            return [actual] * len(attempts)

    judge = Judge()
    other = Response(problem=Problem("8", "", "3"), text="s", prompt_text="P<think>\n")
    rows = [*read({**FULL, "level": 1}), other]
    first, second = map(as_row, judged(rows, judge, lambda count: None))
    first_attempt = Attempt("r", "2", truncated=True, problem="p")
    assert judge.attempts == [first_attempt, Attempt("s", "3", think_open=True)]
    assert first == {
        "id": "7",
        "sample": 0,
        "problem": "p",
        "prompt": "P",
        "response": "r",
        "finish_reason": "length",
        "n_tokens": 3,
        "answer": "2",
        "extracted": "2",
        "verdict": "correct",
        "format_ok": False,
        "reward": 1.0,
        "verifier": "boxed",
        "row_version": 1,
        "level": 1,
    }
    assert (second["id"], second["problem"], second["n_tokens"]) == ("8", None, None)
