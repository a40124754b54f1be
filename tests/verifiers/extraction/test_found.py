"""What is kept of a value that was found."""

from verifiers.extraction.found import Extraction, beside, checked


def test_a_value_loses_its_label_and_keeps_its_rivals() -> None:
    assert checked("final answer: 12", "phrase").text == "12"
    assert checked("7/2 (or 3.5)", "phrase") == Extraction("7/2", "phrase", ("3.5",))
    assert checked("yes, it is", "phrase").text == "yes"


def test_what_is_empty_cut_off_or_a_denied_box_is_no_answer() -> None:
    assert checked(" . ", "phrase").reason == "empty answer"
    assert checked("5 or", "phrase").reason == "cut off"
    assert checked(r"1\boxed{2}", "phrase").reason == "denied"
    assert checked("1" * 40_000, "phrase").reason == "answer too long"


def test_only_the_last_rivals_are_kept() -> None:
    found = beside(Extraction("1", "phrase"), [str(n) for n in range(40)])
    assert found.rivals[-1] == "39"
    assert len(found.rivals) == 12
