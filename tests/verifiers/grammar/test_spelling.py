"""What is rewritten before there are tokens."""

import pytest

from verifiers.grammar.spelling import plain_signs


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("x² − 1", "x^{2} - 1"),
        ("a₁₂", "a_{12}"),
        ("3 × 4", r"3 \times  4"),
        ("½", r"\frac{1}{2}"),
        ("14th", "14"),
        ("11th", "11"),
        ("21st", "21"),
        ("14rd", "14rd"),
        ("11st", "11st"),
        ("USD 5", r"\$5"),
        ("Rs. 50", "₹50"),
        ("f''", "f''"),
        (r"20^\circ C", r"20^\circ \text{C}"),
        ("5 p.m.", "5 pm "),
        (r"3 (mod 7)", r"3 (mod 7)"),
        ("0{,}25", "0.25"),
        ("1{,}234", "1{,}234"),
        ("9{:}30", "9:30"),
        ("]0; 3[", "(0, 3)"),
        ("[0, 3]", "[0, 3]"),
        ("log10(5)", r"\log_{10}(5)"),
        ("plain + 1", "plain + 1"),
    ],
)
def test_plain_signs(text: str, plain: str) -> None:
    assert plain_signs(text) == plain
