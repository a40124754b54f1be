"""Wrappers, choices and plain words around an answer."""

import pytest

from verifiers.grammar.normalize import choices, gold_text, label_and_text, normalize, plain_words


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("  $12$. ", "12"), ("**12**", "12"), (r"\[ x \]", "x"), ("`7`", "7"), ("Paris!", "Paris"),
        ("5!", "5!"), ("$1$ and $2$", "$1$ and $2$"), ("1, 2, ...", "1, 2, ..."), (r"3\,", "3"),
        ("$$", "$$"),
    ],
)  # fmt: skip
def test_normalise(text: str, plain: str) -> None:
    assert normalize(text) == plain


def test_a_gold_field_may_hold_its_solution() -> None:
    assert gold_text("2 + 2 = 4\n#### 4 ") == "4"
    assert gold_text("\ufeff4") == "4"


def test_plain_words_have_no_markup() -> None:
    assert plain_words(r"\textbf{two  words}.") == "two words"


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("B", "B"), ("(b)", "B"), ("b", ""), ("Option C", "C"), (r"\text{(D)}", "D"),
        ("A and C", "AC"), ("A, C", "AC"), ("ACD", "ACD"), ("CAD", ""), ("K", ""), ("12", ""),
    ],
)  # fmt: skip
def test_choices(text: str, letters: str) -> None:
    assert choices(text) == frozenset(letters)


def test_a_choice_may_stand_with_what_it_labels() -> None:
    assert label_and_text("(C) 7") == ("C", "7")
    assert label_and_text("(C) 7 (D) 8") is None
    assert choices("(C) 7") == frozenset()
    assert choices("(C) 7", with_text=True) == {"C"}
