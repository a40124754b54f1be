"""Tables of figures, on entries made by hand."""

import pytest

from rlvr_cli.console.tables import (
    by_field,
    by_k,
    counted,
    differences,
    overview,
    percent,
    shown,
)


def estimate(value: float, problems: int = 9, **more) -> dict:
    return {"value": value, "interval": (value - 0.1, value + 0.1), "problems": problems, **more}


def entry(**more) -> dict:
    return {
        "model": "m",
        "data": "d",
        "problems": 9,
        "pass@k": {"1": estimate(0.5), "2": estimate(0.625), "4": estimate(0.75, 8)},
        "cons@k": {"1": estimate(0.5), "2": estimate(0.5), "4": None},
        "format_share": 1.0,
        "cut_off_share": 0.125,
        "response_length": 12.34,
    } | more


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "-"),
        (estimate(0.5), "0.500 [0.400, 0.600]"),
        (estimate(0.5, error=0.0123), "0.500 ±0.012 [0.400, 0.600]"),
        (estimate(0.5, error=None), "0.500 [0.400, 0.600]"),
    ],
)
def test_an_estimate_with_its_interval(given, expected):
    assert shown(given) == expected


def test_shares_and_counts():
    assert [percent(share) for share in (None, 0.0, 0.1234, 1.0)] == [
        "-",
        "0.0%",
        "12.3%",
        "100.0%",
    ]
    assert [counted(None), counted(estimate(0.5, 7))] == [0, 7]


def test_a_line_for_every_k():
    assert by_k(entry()) == [
        ["k", "problems", "pass@k [95 %]", "cons@k [95 %]"],
        ["1", "9", "0.500 [0.400, 0.600]", "0.500 [0.400, 0.600]"],
        ["2", "9", "0.625 [0.525, 0.725]", "0.500 [0.400, 0.600]"],
        ["4", "8", "0.750 [0.650, 0.850]", "-"],
    ]


def test_several_results_are_shown_at_the_largest_k_of_all():
    other = entry(model="longer", **{"pass@k": {"1": None, "2": estimate(0.25)}})
    other |= {"format_share": None, "cut_off_share": None, "response_length": None}
    header, first, second = overview([entry(), other])
    assert " ".join(header) == (
        "model data problems pass@1 [95 %] pass@2 cons@2 format cut off tokens"
    )
    assert first[:3] == ["m", "d", "9"]
    assert "0.625 [0.525, 0.725]" in first
    assert first[-3:] == ["100.0%", "12.5%", "12.3"]
    assert second[:4] == ["longer", "d", "9", "-"]
    assert second.count("-") == 4


def test_the_values_of_a_field():
    part = {"problems": 4, "pass@k": entry()["pass@k"], "cons@k": entry()["cons@k"]}
    header, line = by_field(entry(by={"level": {"3": part}}), "level")
    assert " ".join(header) == "level problems pass@1 [95 %] pass@4 cons@4"
    assert " ".join(line) == "3 4 0.500 [0.400, 0.600] 0.750 [0.650, 0.850] -"


def test_differences_with_their_tests():
    def difference(p, better, worse):
        return estimate(0.25, 9, p=p, better=better, worse=worse)

    found = {
        "pass@k": {"1": difference(0.0009, 5, 0), "8": difference(0.001, 4, 1)},
        "cons@k": {"1": difference(0.5, 2, 2)},
    }
    lines = differences(found)
    assert [line[0] for line in lines] == ["ours less theirs", "pass@1", "pass@8", "cons@1"]
    assert [line[-3:] for line in lines[1:]] == [
        ["<0.001", "5", "0"],
        ["0.001", "4", "1"],
        ["0.500", "2", "2"],
    ]
