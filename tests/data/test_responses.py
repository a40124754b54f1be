"""Responses of a data set as tokens, for supervised fine-tuning."""

import pytest

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Completion, Problem, Prompt
from rlvr_cli.data.responses import tokenize_responses
from rlvr_cli.model.loading import LoadedModel


class Letters:
    """One token a character; the end is 0."""

    eos_token_id = 0

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [ord(letter) for letter in text]


def row_prompt(think_open: bool = False, **row: str) -> Prompt:
    return Prompt(Problem("1", "?", None, row), "?", (5,), think_open)


def tokens(*prompts: Prompt, stop_ids: tuple[int, ...] = (9, 0)) -> list[list[int]]:
    policy = LoadedModel(None, Letters(), stop_ids, 128, "")
    return [list(item.token_ids) for item in tokenize_responses(prompts, policy, 20)]


def test_a_response_ends_unless_it_was_cut_off():
    unbroken, cut = row_prompt(response="ab"), row_prompt(response="ab", finish_reason="length")
    assert tokens(unbroken, cut) == [[97, 98, 0], [97, 98]]
    assert tokens(unbroken, stop_ids=(9, 7)) == [[97, 98, 9]]  # the model has another end token


def test_a_thought_that_the_template_has_opened_is_not_opened_again():
    text = "<think>a"
    assert tokens(row_prompt(think_open=True, response=text)) == [[97, 0]]
    assert len(tokens(row_prompt(response=text))[0]) == len(text) + 1


def test_a_response_says_why_it_ended_and_has_no_log_probabilities():
    policy = LoadedModel(None, Letters(), (0,), 128, "")
    rows = [row_prompt(response="a"), row_prompt(response="a", finish_reason="length")]
    unbroken, cut = tokenize_responses(rows, policy, 2)
    assert unbroken == Completion([97, 0], (), "stop")
    assert cut == Completion([97], (), "length")


def test_responses_that_are_too_long_are_named_with_their_tokens():
    policy = LoadedModel(None, Letters(), (0,), 128, "")
    rows = [
        Prompt(Problem(f"{n}", "?", None, {"response": "a" * n}), "?", (5,), False)
        for n in range(7)
    ]
    with pytest.raises(UserError) as raised:
        tokenize_responses(rows, policy, 2)
    named = "; ".join(f"{n}: its response has {n + 1} tokens" for n in (2, 3, 4))
    assert str(raised.value) == (
        f"5 responses longer than --max-tokens 2, first {named}: raise it, or leave them out"
    )
