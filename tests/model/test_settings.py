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
        (["optim.weights=float16"], "optim.weights must be"),
    ],
)
def test_bad_settings(assignments, says):
    with pytest.raises(UserError, match=says):
        resolve(set_layer(assignments))


def test_targets_are_a_word_or_a_list():
    for given, kept in (("q_proj", "q_proj"), ("[q_proj, v_proj]", ("q_proj", "v_proj"))):
        assert resolve(set_layer([f"lora.targets={given}"])).lora.targets == kept
