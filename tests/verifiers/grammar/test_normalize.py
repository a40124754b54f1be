"""Wrappers, choices and plain words around an answer."""

import json

import pytest

from verifiers import Verdict, Verifier, verify
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


@pytest.mark.parametrize(
    ("written", "answer", "other"),
    [
        (r'"\frac{1}{2}"', "0.5", "2"),
        (r'"\text{cm}"', r"\text{cm}", r"\text{km}"),
        (r'"3\times 7"', r"3 \times 7 = 21", "20"),
        (r'"\nu + \rho"', r"\rho + \nu", r"\nu"),
        (r'"\bar{z}"', r"\bar{z}", "z"),
        (r'"x \neq 3"', r"x \ne 3", "3"),
        (r'"4\\\\pi"', r"4\pi", r"4, \pi"),
        (r'"5\\\\sqrt{2}"', r"5\sqrt2", r"5, \sqrt{2}"),
        (r'"\\\\frac{3}{8}"', r"\frac38", "3, 8"),
        (r'"50\\\\%"', r"50\%", r"5\%"),
        (r'"\\\\begin{pmatrix} 1 \\\\\\\\ 2 \\\\end{pmatrix}"', "(1, 2)", "(2, 1)"),
        (r'"\\begin{pmatrix} 1 \\\\\\pi \\end{pmatrix}"', r"(1, \pi)", r"\pi"),
        (r'"x = 1 \\\\ y = 2"', "x = 1, y = 2", "x = 1"),
    ],
)
def test_a_gold_that_json_has_bent_is_mended(written: str, answer: str, other: str) -> None:
    gold = json.loads(written)
    assert verify(rf"\boxed{{{answer}}}", gold).verdict is Verdict.CORRECT
    assert verify(rf"\boxed{{{other}}}", gold).verdict is not Verdict.CORRECT


def test_a_control_character_without_a_command_is_never_readable() -> None:
    with Verifier() as verifier:
        assert [verifier.check_gold(gold) for gold in ("2\f3", "2\b{3}", "2 3/4")] == [
            False,
            False,
            True,
        ]
