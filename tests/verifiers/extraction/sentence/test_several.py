"""Values given to several things."""

import pytest

from verifiers.extraction.sentence.several import named_values


@pytest.mark.parametrize(
    ("sentence", "values"),
    [
        ("So Tom has 5 apples and Ann has 3.", ("5", "3")), ("She ran 5 km in 25 minutes.", ()),
        ("The angles measure 40°, 60° and 80°.", ("40°", "60°", "80°")), ("It is 5.", ()),
        ("Tom does not have 5 apples and Ann 3.", ()), ("5 times 3 and 4", ()),
    ],
)  # fmt: skip
def test_values_that_a_sentence_gives_to_several_things(
    sentence: str, values: tuple[str, ...]
) -> None:
    assert named_values(sentence) == values
