"""What a row of a result has to be, where it is read."""

import pytest
from pydantic import ValidationError

from rlvr_cli.evaluation.stored import Group, Header, JudgedRow, OwnRow, Report
from verifiers import Verdict

JUDGED = {"id": 7, "verdict": "correct"}
OWN = {
    "id": "7",
    "verdict": "wrong",
    "response": "x",
    "finish_reason": None,
    "n_tokens": 3,
    "format_ok": True,
    "reward": -1.0,
}


def test_a_row_of_any_tool_keeps_its_id_and_what_else_it_has():
    row = JudgedRow.model_validate(JUDGED | {"level": 3})
    assert (row.id, row.verdict, row.problem, row.extracted) == (7, Verdict.CORRECT, None, None)
    own = OwnRow.model_validate(OWN)
    assert (own.id, own.n_tokens, own.verdict) == ("7", 3, Verdict.WRONG)


@pytest.mark.parametrize(
    ("schema", "base", "changed"),
    [
        (JudgedRow, JUDGED, {"verdict": "right"}),
        (JudgedRow, JUDGED, {"id": None}),
        (JudgedRow, JUDGED, {"id": float("nan")}),
        (JudgedRow, JUDGED, {"problem": 3}),
        (JudgedRow, JUDGED, {"extracted": 4}),
        (OwnRow, OWN, {"id": 7}),
        (OwnRow, OWN, {"n_tokens": -1}),
        (OwnRow, OWN, {"n_tokens": 2**31}),
        (OwnRow, OWN, {"n_tokens": "3"}),
        (OwnRow, OWN, {"format_ok": 1}),
        (OwnRow, OWN, {"reward": float("inf")}),
        (OwnRow, OWN, {"response": None}),
        (Group, {"sha256": "0", "rows": [OWN]}, {"rows": [OWN, {}]}),
        (Group, {"sha256": "0", "rows": [OWN]}, {"sha256": 0}),
        (Header, {"fingerprint": {"a": 1}}, {"fingerprint": []}),
        (Report, {"results": []}, {"results": [{"model": "m"}]}),
    ],
)
def test_each_mistake_is_refused_and_nothing_else(schema, base, changed):
    schema.model_validate(base)
    with pytest.raises(ValidationError):
        schema.model_validate(base | changed)


@pytest.mark.parametrize("name", ["response", "finish_reason", "n_tokens", "format_ok", "reward"])
def test_no_part_of_our_own_row_may_be_missing(name):
    with pytest.raises(ValidationError):
        OwnRow.model_validate({key: value for key, value in OWN.items() if key != name})
