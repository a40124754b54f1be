"""Shapes in which people store problems and responses: chats as JSON text, decimals, an object
around the rows, lists of chats."""

import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlvr_cli.core.errors import UserError
from rlvr_cli.data.fields import FieldReader
from rlvr_cli.data.golds import gold_and_place
from rlvr_cli.data.paths import BadRowError
from rlvr_cli.data.problems import load_problems
from rlvr_cli.evaluation.imported import read_responses

USER = {"role": "user", "content": "What is 1 + 1?"}
REPLY = {"role": "assistant", "content": "It is 2."}


def test_a_chat_stored_as_json_text_is_a_chat():
    system = {"role": "system", "content": "Be brief."}
    row = {"prompt": json.dumps([system, USER]), "answer": "2"}
    problem = FieldReader().problem(row, "1")
    assert (problem.problem, problem.turns) == ("What is 1 + 1?", (("system", "Be brief."),))
    judged, _ = FieldReader().judged({**row, "response": "2"}, need_answer=True)
    assert judged.problem == "What is 1 + 1?"


@pytest.mark.parametrize("text", ["[1, 2] is what?", "[1, 2]", '[{"x": 1}]', '{"role": "user"}'])
def test_other_text_that_looks_like_json_is_text(text):
    assert FieldReader().problem({"problem": text, "answer": "2"}, "1").problem == text


@pytest.mark.parametrize(
    ("number", "text"),
    [("27.00", "27"), ("0.50", "0.5"), ("-1.25", "-1.25"), ("100", "100"), ("1E+2", "100")],
)
def test_a_decimal_is_written_plainly(number, text):
    assert gold_and_place(Decimal(number)) == (text, "")


def test_a_decimal_column_of_parquet_holds_gold_answers(tmp_path):
    long = Decimal("12345678901234567890123456789.25")  # no float has it
    answers = pa.array([Decimal("12.50"), long], pa.decimal128(38, 2))
    pq.write_table(pa.table({"problem": ["a", "b"], "answer": answers}), tmp_path / "p.parquet")
    loaded = load_problems(str(tmp_path / "p.parquet"), "train")
    assert [problem.answer for problem in loaded.problems] == ["12.5", str(long)]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("key", ["data", "rows"])
def test_rows_inside_a_lone_object_are_the_files_rows(tmp_path, indent, key):
    rows = [{"problem": "a", "answer": 1}, {"problem": "b", "answer": 2}]
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"version": "1.0", key: rows}, indent=indent))
    loaded = load_problems(str(path), "train")
    assert [problem.problem for problem in loaded.problems] == ["a", "b"]
    assert loaded.places == (f"{path}:1", f"{path}:2")
    path.write_text(json.dumps({key: [*rows, {"problem": "c"}]}, indent=indent))
    with pytest.raises(UserError, match=r"p\.json:3: no field answer"):
        load_problems(str(path), "train")


def test_a_field_of_that_name_in_one_of_several_rows_stays_a_field(tmp_path):
    rows = [{"problem": name, "answer": 1, "data": [1, 2]} for name in "ab"]
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [p.extra["data"] for p in load_problems(str(path), "train").problems] == [[1, 2]] * 2


def test_a_list_of_chats_is_their_replies():
    row = {"problem": "a", "answer": "2", "responses": [[REPLY], "3", json.dumps([REPLY])]}
    _, texts = FieldReader().judged(row, need_answer=True)
    assert texts == ("It is 2.", "3", json.dumps([REPLY]))  # a text is what the model wrote


def test_what_is_no_response_among_several_has_its_number():
    row = {"problem": "a", "answer": "2", "responses": ["1", None, "3"]}
    with pytest.raises(BadRowError) as refused:
        FieldReader().judged(row, need_answer=True)
    assert str(refused.value) == (
        "field responses is neither a text nor a list of texts (number 2 of 3 is null)"
    )


def test_a_bad_response_costs_no_other_row(tmp_path, caplog):
    rows = [{"answer": 1, "responses": ["1", None]}, {"answer": 1, "responses": ["1", "2"]}]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert len(read_responses(str(path), None, skip_bad=True)) == 2
    assert "r.jsonl:1: field responses is neither a text nor a list" in caplog.text


def test_a_path_that_is_not_there_is_no_set_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sets").mkdir()
    for name in ("sets/mine", f"{tmp_path}/gone", "./gone"):
        with pytest.raises(UserError) as refused:
            load_problems(name, "train")
        assert str(refused.value) == f"{name}: no such file"
    with pytest.raises(UserError, match=r"save a copy as DIR/org/set\.jsonl"):
        load_problems("org/set", "train")
