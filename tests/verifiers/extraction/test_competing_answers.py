"""What stands beside a stated answer, corrects it or takes it back."""

import pytest

from verifiers import verify
from verifiers.extraction.competing_answers import changed_to, offered_after, stands_beside
from verifiers.grammar.normalize import normalize


@pytest.mark.parametrize(
    ("after", "offered"),
    [
        (" or 5.", ["5"]),
        (", maybe 5", ["5"]),
        (" or approximately 0.33.", []),
        (" or approximately 0.34.", ["approximately 0.34"]),
        (" for all of them", []),
        (" or so they say", []),
    ],
)
def test_offers(after: str, offered: list[str]) -> None:
    found = offered_after(after, 0, "1/3")
    assert [normalize(value) for value in found] == offered


@pytest.mark.parametrize(
    ("after", "changed"),
    [
        (". Wait, 5.", "5"),
        (". Sorry, I meant 5.", "5"),
        (". That is wrong. It must be 5.", "5"),
        (". That was a mistake.", ""),
        (". Just kidding!", ""),
        (". That is all.", None),
        (". It is wrong to stop here", None),
    ],
)
def test_changes(after: str, changed: str | None) -> None:
    found = changed_to(after, 0)
    assert (found if found is None else normalize(found)) == changed


@pytest.mark.parametrize(
    ("between", "certain", "beside"),
    [
        (" or ", (True, True), True),
        (" , ", (True, True), True),
        (". Then we find ", (True, True), False),
        (". Then maybe ", (True, True), True),
        (". Wait, or ", (True, True), False),
        (". If that is wrong, ", (True, True), True),
        (". The answer is ", (True, False), True),
        (". The answer is ", (False, False), False),
    ],
)
def test_both_stand(between: str, certain: tuple[bool, bool], beside: bool) -> None:
    assert stands_beside(between, certain=certain) is beside


@pytest.mark.parametrize(
    "after",
    [
        " Adding the bonus round, which the question includes, the total becomes 15.",
        " hence the diameter, which is what we are looking for, is 20.",
        " The problem is about Tuesday, whose answer is 80.", " Lopullinen vastaus on 15.",
    ],
)  # fmt: skip
def test_what_is_asked_for_later_is_another_answer(after: str) -> None:
    assert verify(r"\boxed{12}." + after, "12").verdict != "correct"


@pytest.mark.parametrize(
    "after", [" This is what we were asked for.", " The total is 12, as asked."]
)
def test_what_is_asked_for_may_be_the_answer_itself(after: str) -> None:
    assert verify(r"\boxed{12}." + after, "12").verdict == "correct"
