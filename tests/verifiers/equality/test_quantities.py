"""Numbers with units, marks and bases."""

import pytest

from verifiers.equality.compare import compare
from verifiers.equality.quantities import joined_units, read_quantity, same_quantity
from verifiers.grammar.parse import parse


@pytest.mark.parametrize(
    ("gold", "answer", "same", "reason"),
    [
        ("5 cm", "5 cm", True, "value in the same unit"),
        ("500 cm", "5 m", True, "value in another unit"),
        (r"36 \text{ km/h}", "10 m/s", True, "value in another unit"),
        ("5 cm", "5 kg", False, "contradicting units"),
        ("5 apples", "5 pears", True, "value, nouns ignored"),
        ("5", "5 cm", True, "value"),
        ("20", "20\\%", True, "per cent"),
        ("1/5", "20\\%", True, "per cent"),
        ("1/4", "20\\%", False, "per cent"),
        ("90^\\circ", "90", True, "degrees"),
        ("90^\\circ", "\\pi/2", True, "degrees"),
        ("90^\\circ", "\\pi/3", False, "degrees"),
        ("20\\%", "20 cm", False, "contradicting units"),
        ("1:2", "2:4", True, "ratio"),
        ("1:2", "2:1", False, "ratio"),
        ("1:12", "5:60", True, "ratio"),  # no time of day has 60 minutes
        ("\\$5", "€5", False, "contradicting units"),
        ("\\$5", r"500 \text{ cents}", True, "value in another unit"),
        ("n \\pmod 3", "n \\pmod 4", False, "another modulus"),
    ],
)
def test_same_quantity(gold: str, answer: str, same: bool, reason: str) -> None:
    assert same_quantity(parse(gold), parse(answer)) == (same, reason)


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        ("101_2", "101_2", True),
        ("101_2", "101_3", False),
        ("101_2", "5", False),
        ("54_{10}", "54", True),
        ("3:15 pm", "15:15", True),
        ("3:15 pm", "3:15 am", False),
    ],
)
def test_bases_and_times(gold: str, answer: str, same: bool) -> None:
    assert same_quantity(parse(gold), parse(answer))[0] is same


@pytest.mark.parametrize(
    ("text", "mark", "unit"),
    [
        ("5", "", ()),
        ("5\\%", "pct", ()),
        ("5^\\circ", "deg", ()),
        ("5 cm", "unit", (("cm", 1),)),
        (r"3 \text{radians}", "rad", ()),
        (r"\$3 \text{ million}", "unit", (("dollar", 1),)),
        ("(n-2) 180^\\circ", "deg", ()),
        (r"5 \text{ft} 6 \text{in}", "unit", (("foot", 1),)),
    ],
)
def test_marks(text: str, mark: str, unit: tuple) -> None:
    quantity = read_quantity(parse(text))
    assert (quantity.mark, quantity.unit) == (mark, unit)


def test_two_units_of_one_kind_are_one_quantity() -> None:
    assert joined_units(parse("2 hours and 15 minutes")).kind == "compound"
    assert joined_units(parse("15 minutes and 2 hours")).kind == "list"
    assert joined_units(parse("2 boys and 3 girls")).kind == "list"


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        ("3", r"3 \pmod 7", True), ("100", r"100 \bmod 7", False), ("0.35", "0.35%", False),
        ("0.35", "35%", True), ("20", "20%", True), ("65", "65 lei", True),
        ("7 days", "1 week", True), ("7 days", "2 weeks", False),
    ],
)  # fmt: skip
def test_residues_proportions_and_units(gold: str, answer: str, equal: bool) -> None:
    assert compare(gold, answer).equal is equal
