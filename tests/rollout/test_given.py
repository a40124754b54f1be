"""Responses of the data's rows as completions."""

from rlvr_cli.core.types import Problem, Prompt
from rlvr_cli.model.loading import LoadedModel
from rlvr_cli.rollout.given import given_completions


class Letters:
    """One token a character; the end is 0."""

    eos_token_id = 0

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [ord(letter) for letter in text]


def prompt(think_open: bool = False, **row: str) -> Prompt:
    return Prompt(Problem("1", "?", None, row), "?", (5,), think_open)


def tokens(*prompts: Prompt, stop_ids: tuple[int, ...] = (9, 0)) -> list[list[int]]:
    policy = LoadedModel(None, Letters(), stop_ids, 128, "")
    return [list(one.token_ids) for one in given_completions(prompts, policy, 20)]


def test_a_response_ends_unless_it_was_cut_off():
    whole, cut = prompt(response="ab"), prompt(response="ab", finish_reason="length")
    assert tokens(whole, cut) == [[97, 98, 0], [97, 98]]
    assert tokens(whole, stop_ids=(9, 7)) == [[97, 98, 9]]  # the model has another end token


def test_a_thought_that_the_template_has_opened_is_not_opened_again():
    text = "<think>a"
    assert tokens(prompt(think_open=True, response=text)) == [[97, 0]]
    assert len(tokens(prompt(response=text))[0]) == len(text) + 1
