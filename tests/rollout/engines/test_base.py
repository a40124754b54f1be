"""Prompts that no engine can continue."""

import re

import pytest

from rlvr_cli.core.errors import UserError
from rlvr_cli.rollout.engines.base import refuse_prompts


def test_a_prompt_and_its_response_may_fill_the_context():
    refuse_prompts([[1, 2, 3], [1]], max_tokens=5, context=8)
    refuse_prompts([], max_tokens=5, context=1)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ([[1], [], [1]], "prompt 2 of 3 is empty"),
        (
            [[1, 2, 3, 4]],
            "prompt 1 of 1 has 4 tokens, which with a response of 5 is more than the ",
        ),
        ([[1], [1, 2, 3, 4], []], "prompt 2 of 3 has 4 tokens"),
    ],
)
def test_the_first_that_does_not_fit_is_named(prompts, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        refuse_prompts(prompts, max_tokens=5, context=8)
