"""The table of judges."""

import pytest

from verifiers import JUDGES
from verifiers.judges import in_dollars


def test_a_judge_says_the_versions_it_depends_on():
    assert JUDGES["rlvr"].versions() == {}
    assert list(JUDGES["math-verify"].versions()) == [
        "math-verify",
        "latex2sympy2_extended",
        "sympy",
    ]


@pytest.mark.parametrize(
    ("answer", "wrapped"), [("5", "$5$"), (" $5$ ", "$5$"), ("$", "$$$"), (r"\$5", r"$\$5$")]
)
def test_a_bare_answer_is_put_in_dollars_once(answer, wrapped):
    assert in_dollars(answer) == wrapped
