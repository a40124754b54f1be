"""Failures of whoever gave the responses are counted apart: they are not wrong answers."""

import json

import pytest
from conftest import invoke, jsonl

from rlvr_cli.core.types import Problem, Response
from rlvr_cli.data.rows import as_row, stored_responses
from rlvr_cli.evaluation.figures import figures_of, judged_problems
from rlvr_cli.evaluation.imported import judged, names_an_error, read_responses
from verifiers import Verifier

GOOD = {"problem": "1 + 1?", "answer": "2", "response": "\\boxed{2}"}
LATE = {"problem": "2 + 2?", "answer": "4"}


def batch(**fields: object) -> dict[str, object]:
    """A row of the output of a batch of chat completions."""
    choice = {"message": {"role": "assistant", "content": "It is"}, "finish_reason": "stop"}
    body = {"model": "m", "choices": [choice | fields]}
    return {"custom_id": "1", "answer": "4", "response": {"status_code": 200, "body": body}}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({**LATE, "response": "", "finish_reason": "error"}, "error"),
        ({**LATE, "response": "It is", "finish_reason": "abort"}, "abort"),
        ({**LATE, "response": "It", "finish_reason": "CONTENT_FILTER"}, "content_filter"),
        ({**LATE, "response": "It", "finish_reason": "SAFETY"}, "safety"),
        ({**LATE, "response": "", "stop_reason": "cancelled"}, "cancelled"),
        ({**LATE, "response": "", "stop_reason": "guardrail_intervened"}, "guardrail_intervened"),
        ({**LATE, "response": "", "finish_reason": "internal_error"}, "internal_error"),
        ({**LATE, "output": "", "finish_reason": {"type": "abort", "message": "x"}}, "abort"),
        ({**LATE, "response": "", "error": "rate limit"}, "error"),
        ({**LATE, "response": None, "error": {"message": "down", "code": 503}}, "error"),
        ({**LATE, "completion": "half of", "error": True}, "error"),
        ({**LATE, "Error": {"type": "TimeoutError"}}, "error"),
        ({**LATE, "response": "", "exception": "ReadTimeout()"}, "error"),
        ({**LATE, "response": "", "error_message": "the provider is away"}, "error"),
        ({"problem": "2 + 2?", "error": "no gold and no response"}, "error"),
        ({**LATE, "response": {"error": {"code": 429}}}, "error"),
        ({**LATE, "response": '{"error": {"message": "overloaded"}}'}, "error"),
        ({**LATE, "text": "", "prediction": '{"error": "x"}'}, "error"),
        (batch(finish_reason="error"), "error"),
        (batch(error={"message": "upstream"}), "error"),
    ],
)
def test_a_row_that_failed_is_in_no_figure(tmp_path, row, reason):
    path = tmp_path / "r.jsonl"
    path.write_text(jsonl(GOOD, row) if "custom_id" not in row else jsonl(batch(), row))
    responses = read_responses(str(path), None, skip_bad=False)
    assert [response.has_failed for response in responses] == [False, True]
    assert responses[1].finish_reason == reason
    report = invoke("eval", "--responses", str(path), "--format", "json")
    assert report.exit_code == 0, report.stderr
    (entry,) = json.loads(report.stdout)["results"]
    assert (entry["responses"], entry["failed"]) == (1, {reason: 1})
    said = " ".join(report.stderr.split())
    assert f"1 response failed (1 {reason}; the first at {path}:2), which no figure counts" in said
    assert "1 response, 1 missing" in said


@pytest.mark.parametrize(
    "more",
    [
        {"error": None},
        {"error": ""},
        {"error": "None"},
        {"error_message": "N/A"},
        {"error": "1e-3"},
        {"error": []},
        {"error": {"code": None, "message": ""}},
        {"error": False},
        {"error": 0.25},  # a figure of the problem
        {"finish_reason": "stop", "errors_made": "two"},
        {"finish_reason": "finished"},
        {"response": '{"answer": 2, "error": null} \\boxed{2}'},
    ],
)
def test_what_names_no_error_is_judged(tmp_path, more):
    path = tmp_path / "r.jsonl"
    path.write_text(jsonl(GOOD | more))
    (response,) = read_responses(str(path), None, skip_bad=False)
    assert not response.has_failed


def test_a_problems_own_field_in_our_rows_is_no_error(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(jsonl({**GOOD, "error": "at most 0.1", "row_version": 1, "verdict": "wrong"}))
    (response,) = read_responses(str(path), None, skip_bad=False)
    assert not response.has_failed


def test_each_response_of_a_list_may_fail_alone(tmp_path):
    several = {"problem": "1 + 1?", "answer": "2", "responses": ["\\boxed{2}", "", "\\boxed{3}"]}
    path = tmp_path / "r.jsonl"
    ends = {"finish_reason": ["stop", "error", "stop"]}
    for row in (several | ends, {**several, "error": [None, "timed out", None]}):
        path.write_text(jsonl(row))
        responses = read_responses(str(path), None, skip_bad=False)
        assert [response.has_failed for response in responses] == [False, True, False]


def test_a_file_of_failures_alone_has_no_figure(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(jsonl(*[{**LATE, "response": "", "error": "down"}] * 3))
    result = invoke("eval", "--responses", str(path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no response to judge: 3 responses failed (3 error; the first at" in result.stderr


def test_a_limit_leaves_out_the_failures_of_other_problems(tmp_path):
    path = tmp_path / "r.jsonl"
    later = {"problem": "9 + 9?", "answer": "18", "error": "down"}
    path.write_text(jsonl(GOOD, {**LATE, "error": "down"}, later))
    responses = read_responses(str(path), 2, skip_bad=False)
    assert [response.problem.problem for response in responses] == ["1 + 1?", "2 + 2?"]


def test_failures_that_an_earlier_version_judged_are_left_out(tmp_path):
    path = tmp_path / "r.jsonl"
    problem = Problem("1", "1 + 1?", "2")
    ends = ("stop", "error", "abort")
    rows = [Response(problem=problem, text="\\boxed{3}", finish_reason=end) for end in ends]
    with Verifier() as verifier:
        path.write_text(jsonl(*[as_row(response) for response in judged(rows, verifier)]))
    assert [response.finish_reason for response in stored_responses(path)] == ["stop"]


def test_answers_without_an_answer_are_wrong_and_counted():
    problem = Problem("1", "1 + 1?", "2")
    silent = [
        ("I cannot help.", "refusal"),
        ("", "tool_calls"),
        ("", "stop"),
        (" \n", None),
        ("", "length"),
        ("no idea", "stop"),
        ("\\boxed{2}", "tool_calls"),
    ]
    rows = [Response(problem=problem, text=text, finish_reason=end) for text, end in silent]
    with Verifier() as verifier:
        figures = figures_of(judged_problems(judged(rows, verifier)), [1])
    assert figures.without_answer == {"empty text": 2, "refusal": 1, "tool call": 1}
    assert figures.pass_at[1].value == pytest.approx(1 / 7)


def test_a_refusal_of_a_batch_is_one(tmp_path):
    path = tmp_path / "r.jsonl"
    message = {"role": "assistant", "content": None, "refusal": "I must not."}
    path.write_text(jsonl(batch(message=message)))
    (response,) = read_responses(str(path), None, skip_bad=False)
    assert response.finish_reason == "refusal"
    result = invoke("eval", "--responses", str(path))
    assert "no answer  1 refusal: they count as wrong" in result.stderr


@pytest.mark.parametrize("value", [3, 0, 1.5, None, {}, "", "null", "No", [None, ""]])
def test_what_is_no_error(value):
    assert not names_an_error(value)
