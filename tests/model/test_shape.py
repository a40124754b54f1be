"""The sizes of attention, whatever a configuration says and leaves out."""

from types import SimpleNamespace

import pytest

from rlvr_cli.model.shape import AttentionSizes, attention_sizes


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 5}, (4, 2, 5)),
        ({"num_attention_heads": 4, "num_key_value_heads": 2}, (4, 2, 16)),
        ({"num_attention_heads": 4}, (4, 4, 16)),
        ({"num_attention_heads": 3, "num_key_value_heads": None, "head_dim": None}, (3, 3, 21)),
        ({}, (1, 1, 64)),
    ],
)
def test_what_is_not_said_follows_from_the_rest(said, expected):
    assert attention_sizes(SimpleNamespace(hidden_size=64, **said)) == AttentionSizes(*expected)
