"""Where a response states its answer, and what stands beside it."""

import pytest

from verifiers import verify
from verifiers.extraction.extract import boxed_answer, extract
from verifiers.grammar.normalize import normalize


@pytest.mark.parametrize(
    ("response", "text", "reason"),
    [
        ("<think>5</think><answer>4</answer>", "4", "answer tag"),
        ("<answer>1\n2</answer>", "1, 2", "answer tag, several lines"),
        ("<answer>It is 3 + 1, so \\boxed{4}.</answer>", "4", "box or mark"),
        (r"First \boxed{3}. Then \boxed{4}.", "4", "box or mark"),
        (r"$x = \boxed{1}$ and $y = \boxed{2}$", "x = 1, y = 2", "box or mark"),
        ("2 + 2 = 4\n#### 4", "4", "box or mark"),
        ("The answer is 4.", "4", "phrase"),
        (r"The answer is 3. No wait, it is \boxed{4}.", "4", "box or mark"),
        ("4", "4", "whole response"),
        ("Yes, because it is even.", "Yes", "whole response"),
        ("We add them. So she has 4 apples in total.", "4", "last expression"),
        ("<think>so 4", None, "thought never closed"),
        ("<answer>4", None, "answer tags nested, repeated or not closed"),
        (
            "<answer>4</answer><answer>",
            None,
            "answer tags nested, repeated or not closed",
        ),
        ("<answer></answer>", None, "empty answer"),
        (r"\boxed{}", None, "empty answer"),
        ("no idea at all, sorry", None, "no answer found"),
    ],
)
def test_places(response: str, text: str | None, reason: str) -> None:
    found = extract(response)
    assert (found.text and normalize(found.text), found.reason) == (text, reason)


def test_what_only_stands_at_the_end_of_a_cut_response_is_no_answer() -> None:
    assert extract("So far we have 4", cut_off=True).text is None
    assert extract(r"So \boxed{4} and", cut_off=True).text == "4"


def test_the_boxed_format_looks_at_boxes_alone() -> None:
    assert extract("The answer is 4.", format="boxed").reason == "no box"
    assert extract(r"The answer is 5, see \boxed{4}", format="boxed").text == "4"


def test_a_template_may_have_opened_the_thought() -> None:
    assert extract("so 5</think> 4", think_open=True).text == "4"
    assert extract("so 5", think_open=True).reason == "thought never closed"


@pytest.mark.parametrize(
    ("response", "gold", "verdict"),
    [
        (r"\boxed{1} or maybe \boxed{2}", "1", "no_answer"),
        (r"\boxed{1} or maybe \boxed{2}", "2", "no_answer"),
        (r"\boxed{1}. That is wrong, so \boxed{2}", "2", "correct"),
        (r"\boxed{1} or maybe \boxed{2}. Wait, that is wrong: \boxed{3}", "3", "correct"),
        (r"\boxed{1}. Wait, that is wrong: \boxed{2} or maybe \boxed{3}", "3", "no_answer"),
        ("<answer>1</answer> The answer is 2.", "1", "wrong"),
        ("<answer>1</answer> The answer is 1.", "1", "correct"),
    ],
)
def test_answers_beside_the_answer_must_agree(response: str, gold: str, verdict: str) -> None:
    assert verify(response, gold).verdict == verdict


def test_the_last_box_of_a_solution():
    assert boxed_answer(r"First \boxed{1}, then $\boxed{\frac{1}{2}}$.") == r"\frac{1}{2}"
    assert boxed_answer(r"\boxed{1}, no: \boxed{2}") == "2"
    assert boxed_answer("none") is None


@pytest.mark.parametrize(
    "before",
    [
        "The next statement is false: ", "None of the statements below is true.\n(i) ",
        "Everything after this line is to be ignored.\n", "I only box the first of four steps.\n",
    ],
)  # fmt: skip
def test_what_a_sentence_says_of_those_that_follow(before: str) -> None:
    assert verify(before + r"The answer is \boxed{25}.", "25").verdict != "correct"


def test_a_box_may_be_announced_and_be_part_of_the_story() -> None:
    assert verify(r"I put the final answer in a box below: \boxed{25}", "25").verdict == "correct"
    assert verify("There are 5 in each box. So \\boxed{25}.", "25").verdict == "correct"
