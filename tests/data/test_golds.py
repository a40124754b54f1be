"""Gold answers as they stand in their fields, by each rule of a set."""

import pytest

from rlvr_cli.data.files import BadRowError
from rlvr_cli.data.golds import gold_and_place

DERIVED = "1 + 1 is\n2"
BOTH = "so \\boxed{3}\n#### 4"


@pytest.mark.parametrize(
    ("value", "rule", "found"),
    [
        (DERIVED, "text", (DERIVED, "")),
        (BOTH, "text", ("4", " behind ####")),
        (BOTH, "hashes", ("4", " behind ####")),
        ("so \\boxed{3}", "boxed", ("3", "'s last box")),
        (BOTH, "long", ("4", " behind ####")),
        ("\\boxed{1}, no: \\boxed{\\frac12}", "long", ("\\frac12", "'s last box")),
        ("x" * 64, "long", ("x" * 64, "")),
        ([3, 27.0, "\\boxed{5}"], "text", ("3, 27, 5", "")),
        (0.5, "text", ("0.5", "")),
    ],
)
def test_a_gold_answer_and_where_it_stood(value, rule, found):
    assert gold_and_place(value, rule) == found


@pytest.mark.parametrize(
    ("value", "rule", "reason"),
    [
        (DERIVED, "long", "field answer has no box and no #### before the gold answer"),
        ("x" * 65, "long", "field answer has no box and no ####"),
        ("18", "hashes", "field answer has no #### before the gold answer"),
        ("18 #### 18", "boxed", "field answer has no box around the gold answer"),
        (["18"], "hashes", "field answer is neither a text nor a number"),
        ("so\n####  ", "text", "field answer is empty"),
        (True, "text", "field answer is neither a text nor a number"),
        (float("nan"), "text", "field answer is not a finite number"),
        ("1" * 100_000, "text", "field answer is longer than"),
    ],
)
def test_a_field_without_a_gold_answer_says_why(value, rule, reason):
    with pytest.raises(BadRowError, match=reason):
        gold_and_place(value, rule)
