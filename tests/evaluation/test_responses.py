"""Responses from elsewhere are judged as a live run judges its own."""

import json

import pytest

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Problem
from rlvr_cli.evaluation import responses
from rlvr_cli.evaluation.responses import ImportedResponse, judged_rows, read_responses
from verifiers import Verifier


def given(text: str, finish_reason: str | None) -> ImportedResponse:
    problem = Problem("1", "What is 1 + 1?", "2")
    return ImportedResponse("f:1", ("m", "d"), problem, (text,), finish_reason, None, None, None)


def test_the_verifier_is_told_what_was_cut_off():
    rows = [given("It goes on and", reason) for reason in ("length", "stop", None)]
    with Verifier() as verifier:
        judged = judged_rows(rows, verifier, lambda count: None)
    assert [row["verdict"] for row in judged] == ["truncated", "no_answer", "no_answer"]
    assert [row["finish_reason"] for row in judged] == ["length", "stop", None]


def test_problems_stay_together_and_progress_is_told(monkeypatch):
    monkeypatch.setattr(responses, "_BATCH", 2)
    rows = [
        ImportedResponse("f", ("m", "d"), Problem(name, name, "2"), texts, None, None, None, None)
        for name, texts in (("1", ("2", "3")), ("2", ("2",)), ("1", ("2",)), ("3", ("4",)))
    ]
    told: list[int] = []
    with Verifier() as verifier:
        judged = judged_rows(rows, verifier, told.append)
    assert told == [2, 2, 1]
    found = [(row["id"], row["sample"], row["verdict"]) for row in judged]
    assert found == [
        ("1", 0, "correct"),
        ("1", 1, "wrong"),
        ("1", 2, "correct"),
        ("2", 0, "correct"),
        ("3", 0, "wrong"),
    ]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ([], "not a JSON object"),
        ({"response": "2"}, "no field answer"),
        ({"answer": "2"}, r"no field response \(or responses, a list\)"),
        ({"answer": "2", "response": 3}, "field response is neither a text nor a list of texts"),
        ({"answer": "2", "responses": []}, "field responses is neither"),
    ],
)
def test_a_row_that_is_no_response(row, says, tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(UserError, match=says):
        read_responses(str(path), None, skip_bad=False)
