"""Responses from elsewhere are judged as a live run judges its own."""

from rlvr_cli.core.types import Problem
from rlvr_cli.evaluation.responses import ImportedResponse, judged_rows
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
