"""Which decimal is a rounding of which value."""

import pytest

from verifiers.equality.rounding import is_rounding


@pytest.mark.parametrize(
    ("exact", "decimal", "expected"),
    [
        (r"\sqrt 2", "1.41", True),
        (r"\sqrt 2", "1.42", False),
        (r"\sqrt 2", "1.414", True),
        ("2/3", "0.67", True),
        ("2/3", "0.66", False),
        ("-2/3", "-0.67", True),
        ("10/3", "3", False),
        ("2/3", "66.67\\%", True),
        ("2/3", "0.67\\%", False),
        ("x", "0.67", False),
        ("(", "0.67", False),
        ("1/0", "0.67", False),
    ],
)
def test_roundings(exact: str, decimal: str, expected: bool) -> None:
    assert is_rounding(exact, decimal) is expected
