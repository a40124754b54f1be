"""Rows of responses: what is written of one, and what may be read."""

import os

import pytest
from pydantic import ValidationError
from small_groups import RIGHT, made_rollout
from small_runs import made_row, write_rows

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Completion, Problem, Prompt, Rollout
from rlvr_cli.data.rows import ROW_KEYS, JudgedRow, as_row, stored_responses


def test_a_row_has_the_keys_that_are_said_in_their_order():
    assert tuple(as_row(made_rollout(RIGHT))) == ROW_KEYS
    assert tuple(as_row(made_rollout(None))) == (*ROW_KEYS[:8], "row_version")


def test_a_row_says_it_all_and_a_problems_own_fields_replace_nothing():
    problem = Problem("p", "?", "1", {"level": 3, "reward": "mine", "id": 7})
    prompt = Prompt(problem, "<?>", (1,), False)
    row = as_row(made_rollout(RIGHT, 4, "length", prompt=prompt, sample=2))
    assert row == {
        "id": "p",
        "sample": 2,
        "problem": "?",
        "prompt": "<?>",
        "response": "text",
        "finish_reason": "length",
        "n_tokens": 4,
        "answer": "1",
        "extracted": "1",
        "verdict": "correct",
        "format_ok": True,
        "reward": 1.0,
        "verifier": row["verifier"],
        "row_version": 1,
        "level": 3,
    }
    bare = as_row(Rollout.of(prompt, 0, Completion([4], [-1.0], "stop"), "x", None, None))
    assert "verdict" not in bare
    assert "reward" not in bare


JUDGED = {"id": "7", "verdict": "correct"}


def test_a_row_of_any_tool_keeps_what_else_it_has():
    row = as_row(JudgedRow.model_validate({**JUDGED, "id": 7, "level": 3}).answered)
    assert row == {
        **(dict.fromkeys(ROW_KEYS) | JUDGED),
        "sample": 0,
        "response": "",
        "format_ok": True,
        "verifier": "any",
        "row_version": 1,
        "level": 3,
    }
    assert tuple(row) == (*ROW_KEYS, "level")


def test_of_rewards_that_others_wrote_the_finite_numbers_count_and_all_else_stays_the_problems():
    reference = {"a": 1, "b": True, "c": "x", "d": 10**400, "e": None}
    fields = {"rewards": reference, "places": "Paris"}
    response = JudgedRow.model_validate(JUDGED | fields).answered
    assert response.rewards == {"a": 1.0, "b": 1.0}
    assert response.problem.extra == fields
    assert JudgedRow.model_validate({**JUDGED, "rewards": [1]}).answered.rewards == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"verdict": "right"},
        {"verdict": None},
        {"id": None},
        {"id": float("nan")},
        {"id": True},
        {"problem": 3},
        {"extracted": 4},
        {"sample": -1},
        {"n_tokens": -1},
        {"n_tokens": 2**31},
        {"n_tokens": "3"},
        {"format_ok": 1},
        {"reward": float("inf")},
        {"response": None},
        {"row_version": 2},
    ],
)
def test_each_mistake_is_refused(changed):
    with pytest.raises(ValidationError):
        JudgedRow.model_validate(JUDGED | changed)


def test_half_a_line_is_left_out_and_a_bad_one_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    write_rows(path, [made_row("a", 0, "wrong"), made_row("a", 1, "correct")])
    unbroken = path.read_text()
    path.write_text(unbroken[:-20])
    assert [response.sample for response in stored_responses(path)] == [0]
    path.write_text(unbroken[:-20] + "\n" + unbroken)
    with pytest.raises(UserError, match=r"rows.jsonl:2: not a JSON object"):
        list(stored_responses(path))
    path.write_text('{"id": "a", "verdict": "great"}\n')
    with pytest.raises(UserError, match=r"rows.jsonl:1: verdict"):
        list(stored_responses(path))


def test_what_a_file_of_rows_may_not_be(tmp_path):
    path = tmp_path / "rows.jsonl"
    for content in (b"\xff\xfe\n", b"[1]\n", b'{"id": 1}\n', b'{"a": 1, "a": 2}\n'):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"rows.jsonl:1: "):
            list(stored_responses(path))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UserError, match="cannot be read"):
        list(stored_responses(path))
