"""Places: boxes, lines of ####, phrases."""

import pytest

from verifiers import verify
from verifiers.extraction.places import marked, phrased, without_denied


def test_boxes_that_stand_together_are_one_place() -> None:
    (place,) = marked(r"$x = \boxed{2}$ and $y = \boxed{3}$")
    assert place.value == "x = 2, y = 3"
    assert place.certain


def test_an_operand_is_no_place() -> None:
    assert marked(r"$2 \cdot \boxed{7}$") == []
    assert marked(r"$(\boxed{3}, 4)$") == []


def test_a_line_of_hashes_is_a_place_where_it_holds_a_value() -> None:
    assert [place.value for place in marked("so\n#### 12\n")] == ["12"]
    assert marked("#### Step one of the solution\nThen we add.") == []


def test_denied_boxes_are_blanked_with_their_like() -> None:
    text = r"\boxed{7}. No, \boxed{7} is wrong. \boxed{8}"
    kept = without_denied(text)
    assert len(kept) == len(text)
    assert [place.value for place in marked(kept)] == ["8"]


def test_beside_a_box_a_phrase_counts_only_with_a_value() -> None:
    text = r"\boxed{7} The answer is on the last page."
    assert phrased(text, marked(text)) == []


@pytest.mark.parametrize(
    ("response", "verdict"),
    [
        (r"The answer is \boxed{5}, not \boxed{7}.", "correct"),
        (r"The answer is \boxed{5}. (A common mistake gives \boxed{7}.)", "correct"),
        (r"It might be \boxed{7}, hmm. \boxed{5}", "correct"),
        (r"\boxed{5}. Perhaps \boxed{7}.", "no_answer"),
        (r"\boxed{5}. Richtig wäre \boxed{-5}.", "no_answer"),
    ],
)
def test_a_later_box_that_is_only_supposed_leaves_none(response: str, verdict: str) -> None:
    assert verify(response, "5").verdict == verdict
