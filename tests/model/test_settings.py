"""Settings of what is trained that make no sense are refused in a line."""

import pytest

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.errors import UserError


@pytest.mark.parametrize(
    ("assignments", "says"),
    [
        (["lora.rank=0"], "lora.rank must be 1 or more, not 0"),
        (["lora.alpha=0"], "lora.alpha must be 1 or more"),
        (["optim.offload=half"], "optim.offload must be 'none' or 'all'"),
        (["optim.weights=half"], "optim.weights must be"),
        (["optim.weights=float16"], "without lora.rank: AdamW would lose its updates in float16"),
        (
            ["optim.weights=float16", "lora.rank=2", "optim.precision=bfloat16"],
            "weights in float16 are computed with in float16",
        ),
        (
            ["optim.weights=bfloat16", "optim.precision=float16"],
            "weights in bfloat16 are computed with in bfloat16",
        ),
    ],
)
def test_bad_settings(assignments, says):
    with pytest.raises(UserError, match=says):
        resolve(set_layer(assignments))


def test_targets_are_a_word_or_a_list():
    for given, retained in (("q_proj", "q_proj"), ("[q_proj, v_proj]", ("q_proj", "v_proj"))):
        assert resolve(set_layer([f"lora.targets={given}"])).lora.targets == retained
