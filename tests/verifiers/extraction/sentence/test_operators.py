"""Numbers in prose that something beside them makes a part of a value."""

import pytest

from verifiers.extraction.sentence.operators import is_share, touches_nothing


@pytest.mark.parametrize(
    ("sentence", "value"),
    [
        ("It has length 4*sqrt(5).", "5"), ("It costs √(5).", "5"), ("We get 5⁻¹.", "5"),
        ("We get ⌊5.7⌋.", "5.7"), ("We get 5 x 6.", "6"), ("We get 5 mod 7.", "7"),
        ("We get 5 to 3.", "3"), ("It is 5pi.", "5"), ("It is (32/3)π.", "32/3"),
        ("We get C(5, 2) pairs.", "(5, 2)"), ("It is 5+, as required.", "5"),
        ("It is 1 + √5.", "1"), ("We have 5 ≡ 1.", "1"),
        ("We get x + 5 = 7.", "7"), ("He ate 5 of 6.", "6"), ("Then 2x - 3 = 7.", "7"),
    ],
)  # fmt: skip
def test_part_of_something(sentence: str, value: str) -> None:
    assert not touches_nothing(sentence, value)


@pytest.mark.parametrize(
    ("sentence", "value"),
    [
        ("It costs 5 dollars.", "5"), ("The time went from 5 to 7 hours.", "7"),
        ("They meet at P(2, 3).", "(2, 3)"), ("She has five (5) apples.", "5"),
        ("So x = 5.", "5"), ("Il y a 5 pièces.", "5"),
        ("So 2 + 3 = 5.", "5"), ("Then y = x + 5 = 7.", "7"),
    ],
)  # fmt: skip
def test_alone(sentence: str, value: str) -> None:
    assert touches_nothing(sentence, value)


@pytest.mark.parametrize(
    ("value", "after", "share"),
    [("5%", " of 80.", True), ("5 percent", " of $80", True), ("5%", " of them", False),
     ("5", " of 80", False)],
)  # fmt: skip
def test_share(value: str, after: str, share: bool) -> None:
    assert is_share(value, after) is share
