"""JSON lines that any reader takes, and bounds on those that others wrote."""

import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_cli.core import jsonl
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import bounded_lines, jsonl_line, parse_json, write_jsonl_line
from rlvr_cli.core.text import DEEPEST

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def as_json_has_it(value):
    if isinstance(value, float) and value - value != 0:
        return None
    if isinstance(value, dict):
        return {key: as_json_has_it(part) for key, part in value.items()}
    return [as_json_has_it(part) for part in value] if isinstance(value, list) else value


@settings(max_examples=30)
@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_a_row_is_one_line_and_comes_back_without_what_json_does_not_have(row):
    line = jsonl_line(row)
    assert line.isascii()
    assert (line.count("\n"), line[-1]) == (1, "\n")
    assert parse_json(line) == as_json_has_it(row)


def test_what_json_does_not_have_is_null_and_other_values_are_text():
    row = {"a": float("nan"), "b": (1, float("-inf")), "c": {"d": float("inf")}, "e": Path("x")}
    assert json.loads(jsonl_line(row)) == {"a": None, "b": [1, None], "c": {"d": None}, "e": "x"}
    assert json.loads(jsonl_line({"e": Path("x")})) == {"e": "x"}


def test_a_line_is_flushed_as_it_is_written(tmp_path):
    with (tmp_path / "lines").open("w") as file:
        write_jsonl_line(file, {"a": 1})
        assert (tmp_path / "lines").read_text() == '{"a": 1}\n'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "b": 2, "b": 3}', "the key b stands twice"),
        ('[{"a": {"c": 1, "c": 1}}]', "the key c stands twice"),
        ("{", "not a JSON object"),
        (b'"\xff"', "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), f"nested more than {DEEPEST} levels deep"),
        ("9" * 5000, "not a JSON object"),
    ],
)
def test_what_is_refused_is_said_in_one_line(text, reason):
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        parse_json(text)


def test_the_deepest_that_is_taken():
    text = "[" * DEEPEST + "]" * DEEPEST
    assert json.dumps(parse_json(text)) == text


def test_a_line_beyond_the_bound_is_named_by_its_number(monkeypatch):
    monkeypatch.setattr(jsonl, "LONGEST_LINE", 1 << 20)
    longest = b"x" * ((1 << 20) - 1) + b"\n"
    assert list(bounded_lines("f", io.BytesIO(b"a\n" + longest + b"b"))) == [b"a\n", longest, b"b"]
    read = bounded_lines("f", io.BytesIO(b"a\n" + b"x" + longest))
    assert next(read) == b"a\n"
    with pytest.raises(UserError, match=r"^f:2: a line of more than 1 MB$"):
        next(read)
