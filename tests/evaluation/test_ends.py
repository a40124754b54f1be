"""How a response ended and how long it is, in the words of engines and services."""

import pytest

from rlvr_cli.data.paths import BadRowError
from rlvr_cli.evaluation.imported import finish_reasons, lengths


@pytest.mark.parametrize(
    ("row", "end"),
    [
        ({"finish_reason": "length"}, "length"),
        ({"finish_reason": "MAX_TOKENS"}, "length"),
        ({"finish_reason": "LENGTH"}, "length"),
        ({"stop_reason": "model_context_window_exceeded"}, "length"),
        ({"finish_reason": None, "stop_reason": "max_output_tokens"}, "length"),
        ({"finish_reason": "stop", "stop_reason": "length"}, "stop"),
        ({"finish_reason": "STOP"}, "stop"),
        ({"finish_reason": ""}, None),
        ({"finish_reason": 3}, None),
        ({}, None),
    ],
)
def test_the_end_of_a_response(row, end):
    assert finish_reasons(row, 1) == (end,)


def test_the_length_of_a_response():
    message = [0, (1 << 31) - 1, 12.0, "12", -1, 1 << 31, True, 1.5, "1" * 5_000, "x", None]
    actual = [lengths({"n_tokens": item}, 1)[0] for item in message]
    assert actual == [0, (1 << 31) - 1, 12, 12, *[None] * 7]
    assert lengths({"n_tokens": [5, None]}, 2) == (5, None)


@pytest.mark.parametrize(
    ("read", "row", "says"),
    [
        (finish_reasons, {"finish_reason": ["length"]}, "finish_reason has 1 values for 2 resp"),
        (finish_reasons, {"stop_reason": []}, "stop_reason has 0 values"),
        (lengths, {"n_tokens": [1, 2, 3]}, "n_tokens has 3 values for 2 responses"),
        (lengths, {"n_tokens": 100}, "n_tokens is one number for 2 responses; a list has one"),
    ],
)
def test_not_one_for_each_response(read, row, says):
    with pytest.raises(BadRowError, match=says):
        read(row, 2)
