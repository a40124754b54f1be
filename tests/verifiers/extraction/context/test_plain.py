"""What a sentence without mark and phrase states, and what is only a circumstance in it."""

import pytest

from verifiers.extraction.context.plain import speaks_of_it, stated_plainly


@pytest.mark.parametrize(
    ("sentence", "value", "stated"),
    [
        ("She ran 5 km in 25 minutes.", "25", False),
        ("In 2 hours he can bike 24 miles.", "24", True),
        ("He bought 7 of them at 8 dollars each.", "8", False),
        ("At 3 dollars each, 6 tickets cost 18 dollars.", "18", True),
        ("x is 12 when y is 5.", "5", False),
        ("When x is 3, y is 18.", "18", True),
        ("The largest is 100 and the smallest is 30 degrees.", "30", False),
        ("He has 5 red and 13 blue ones, so 18.", "18", True),
        ("Each of the 6 rows is checked.", "6", False),
        ("There are 6 rows.", "6", True),
        ("Tom, aged 12, asks for help.", "12", False),
        ("There were 36 pupils, and the question is how many left.", "36", False),
        ("In 2023, we saw this.", "2023", False),
        ("It is 5 + 2 in 7 = 7", "7", True),
    ],
)
def test_a_circumstance_is_not_stated(sentence: str, value: str, stated: bool) -> None:
    start = sentence.rindex(value)
    assert stated_plainly(sentence, start, start + len(value)) is stated


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
