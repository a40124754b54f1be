"""What a sentence without mark and phrase speaks of."""

import pytest

from verifiers.extraction.context.plain import speaks_of_it


@pytest.mark.parametrize(
    ("sentence", "of_it"),
    [
        ("The question asks for 27.", True),
        ("The problem asks for 6·7, which is 42.", False),
        ("Let me set it up: the train leaves at 60 mph", True),
        ("Let me compute: 6 × 7 = 42.", False),
        ("I have spent 25 minutes on this.", True),
        ("I have 25 apples.", False),
        ("It took me 3 attempts.", True),
        ("My answer is 3.", False),
        ("The lower bound is 12.", True),
        ("def f(): return 19", True),
        ("She has 42 apples left.", False),
    ],
)
def test_a_sentence_about_the_task_states_no_answer(sentence: str, of_it: bool) -> None:
    assert speaks_of_it(sentence) is of_it
