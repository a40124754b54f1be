"""A gold of parts (a), (b): each is judged on its own, in its order."""

import pytest

from verifiers import verify

GOLD = "(a) 3 (b) 10"


@pytest.mark.parametrize(
    "response",
    [
        "(a) 3\n(b) 10", "3, 10", "The answer is (a) 3 and (b) 10.", r"\boxed{(a) 3, (b) 10}",
        "(a) The slope is 2+1 = 3.\n\n(b) Using part (a), the value is 10.",
        "(a) $\\boxed{3}$\n(b) $\\boxed{10}$", r"\boxed{3}, \boxed{10}",
        "<think>x</think><answer>(a) 3, (b) 10</answer>",
        "(a) 2 + 1\n(b) 5 + 5\n\nFinal answers: (a) 3; (b) 10",
    ],
)  # fmt: skip
def test_each_part_has_its_value(response: str) -> None:
    assert verify(response, GOLD).verdict == "correct"


@pytest.mark.parametrize(
    "response",
    [
        "(a) 10\n(b) 3", "10, 3", r"\boxed{10}, \boxed{3}", "(i) 3 (ii) 10", "3",
        "(a) 3 (b) 10 (c) 4",
        "(a) $\\boxed{10}$\n(b) $\\boxed{3}$", "It is not true that (a) 3 (b) 10",
        "(a) 3 (b) I do not know", "(a) 3 (b) 10. No, this is wrong.",
        "<think>x</think><answer>(a) 10, (b) 3</answer>",
    ],
)  # fmt: skip
def test_swapped_missing_denied_and_other_parts_do_not_count(response: str) -> None:
    assert verify(response, GOLD).verdict != "correct"


def test_a_part_may_be_a_list_or_a_point() -> None:
    response = "(a) It is 2·2 - 1 = 3\n\n(b) So x = 1 or x = 3.\n\n(c) The vertex is (2, −1)."
    assert verify(response, "(a) 3; (b) x=1, x=3; (c) (2,-1)").verdict == "correct"
    assert verify(response, "(a) 3; (b) x=1, x=3; (c) (-1,2)").verdict == "wrong"
