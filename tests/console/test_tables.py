"""Tables of figures, on entries made by hand."""

import pytest

from rlvr_cli.console.tables import (
    by_field,
    by_k,
    counted,
    differences,
    in_words,
    percent,
)


def estimate(value: float, problems: int = 9, **more) -> dict:
    return {"value": value, "interval": (value - 0.1, value + 0.1), "problems": problems, **more}


def entry(**more) -> dict:
    return {
        "model": "m",
        "data": "d",
        "data_version": None,
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
    assert in_words(given) == expected


def test_shares_and_counts():
    assert [percent(share) for share in (None, 0.0, 0.1234, 1.0)] == [
        "-",
        "0.0%",
        "12.3%",
        "100.0%",
    ]
    assert [counted(None), counted(estimate(0.5, 7))] == [0, 7]


def test_a_line_for_every_k():
    assert by_k([entry()], ["k", "problems", "pass@k [95 %]", "cons@k [95 %]"]) == [
        ["k", "problems", "pass@k [95 %]", "cons@k [95 %]"],
        ["1", "9", "0.500 [0.400, 0.600]", "0.500 [0.400, 0.600]"],
        ["2", "9", "0.625 [0.525, 0.725]", "0.500 [0.400, 0.600]"],
        ["4", "8", "0.750 [0.650, 0.850]", "-"],
    ]


def test_several_results_stand_beside_one_another_at_each_k():
    other = entry(model="n", data_version=3, any_form=estimate(0.75))
    other |= {"pass@k": {"1": None, "2": estimate(0.25)}}
    header, *lines = by_k([entry(), other])
    assert header == [*("model", "data", "version", "problems", "k"), *header[5:]]
    assert [[line[0], *line[2:5]] for line in lines] == [
        ["m", "", "9", "1"],
        ["n", 3, "0", "1"],
        ["m", "", "9", "2"],
        ["n", 3, "9", "2"],
        ["m", "", "8", "4"],
    ]
    assert [line[5][:5] for line in lines] == ["0.500", "-", "0.625", "0.250", "0.750"]
    assert [line[7][:5] for line in lines] == ["-", "0.750", "", "", ""]


def test_the_values_of_a_field():
    part = {"problems": 4, "pass@k": entry()["pass@k"], "cons@k": entry()["cons@k"]}
    header, line = by_field(entry(by={"level": {"3": part}}), "level")
    assert " ".join(header) == "level problems pass@1 [95 %] pass@4 cons@4"
    assert " ".join(line) == "3 9 0.500 [0.400, 0.600] 0.750 [0.650, 0.850] of 8 -"


def test_differences_with_their_tests():
    def difference(p, better, worse):
        return estimate(0.25, 9, p=p, better=better, worse=worse)

    actual = {
        "pass@k": {"1": difference(0.0009, 5, 0), "8": difference(0.001, 4, 1)},
        "cons@k": {"1": difference(0.5, 2, 2)},
    }
    lines = differences(actual)
    assert [line[0] for line in lines] == ["ours less theirs", "pass@1", "pass@8", "cons@1"]
    assert [line[-3:] for line in lines[1:]] == [
        ["<0.001", "5", "0"],
        ["0.001", "4", "1"],
        ["0.500", "2", "2"],
    ]
