"""The value that words speak for, where no rule reads one."""

import pytest

from verifiers.extraction.most_likely import before_remarks, likelier, most_likely


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("So Tom ends up with 7 apples.", "7"),
        ("Altogether they collected $42$ stamps, as shown above.", "42"),
        ("Every pupil except Paul handed in the form, and the class has 30 pupils.", None),
        ("So he has 3 times 7 apples", None),
        ("So A ∩ B = {2, 4}.", None),
        ("So a week has 10 080 minutes.", None),
        ("The answer is about 7 or so.", None),
        ("They have 45 apples left. Now they divide them and each gets", None),
        ("So Tom ends up with 5 divided by 7 apples.", None),
        ("So Tom ends up with ¬7 apples.", None), ("So Tom ends up with not 7 apples.", None),
        ("So Tom ends up with 7? apples.", None), ("So Tom ends up with 7 apples. ❌", None),
        ("", None),
    ],
)  # fmt: skip
def test_the_number_whose_words_speak_for_it(text: str, value: str | None) -> None:
    assert most_likely(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("So Tom ends up with 7 apples. His sister has 11, but nobody asked about her.", "7"),
        ("So Tom ends up with 7 apples. He then buys 4 more, which makes 11 apples.", None),
        ("So Tom ends up with 7 apples. No, that is wrong.", None),
        ("So Tom ends up with 7 apples. Well done! ❌", None),
        ("So Tom ends up with 7 apples. Now we have to find how many", None),
        ("So Tom ends up with 7 apples.", None),
        ("", None),
    ],
)
def test_a_value_before_sentences_that_only_remark(text: str, value: str | None) -> None:
    assert before_remarks(text, concluded=False) == value


@pytest.mark.parametrize(
    ("text", "read", "found"),
    [
        ("So Tom ends up with 7 apples.", "7", None),
        ("So Tom ends up with 7 apples.", None, ("7", "most likely")),
        (
            "So Tom ends up with 7 apples. His sister has 11, but nobody asked about her.",
            None,
            ("7", "before remarks"),
        ),
    ],
)
def test_words_are_asked_where_they_do_not_speak_for_what_was_read(
    text: str, read: str | None, found: tuple[str, str] | None
) -> None:
    assert likelier(text, read) == found
