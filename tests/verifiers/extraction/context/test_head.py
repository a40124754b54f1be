"""What "the answer is" hangs on: whether it is stated, and whether it is the answer."""

import pytest

from verifiers import Verdict, verify

STATED = [
    "We conclude that the answer is 9.",
    "Since 4 + 5 = 9, the answer is 9.",
    "I believe the answer is 9.",
    "The final numerical answer is 9.",
    "This shows that the answer is 9.",
]
NOT_STATED = [
    "It is a myth that the answer is 9.",
    "Our goal is to show the answer is 9.",
    "My dog thinks that the answer is 9.",
    "Three less than the answer is 9.",
    "The discarded answer is 9.",
    "The answer to a similar problem is 9.",
    "The answer's denominator is 9.",
    "Ignoring the constraint, the answer is 9.",
]


@pytest.mark.parametrize("response", STATED)
def test_stated(response: str) -> None:
    assert verify(response, "9").verdict is Verdict.CORRECT


@pytest.mark.parametrize("response", NOT_STATED)
def test_not_stated(response: str) -> None:
    assert verify(response, "9").verdict is not Verdict.CORRECT
