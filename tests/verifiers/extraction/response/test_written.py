"""Turns, letters and digits as a response writes them."""

import pytest

from verifiers.extraction.response.written import own_words, writes_comma


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("User: 3 + 4?\nAssistant: 7", "7"),
        ("<|im_start|>assistant\n7", "7"),
        ("The answer is ｎｏｔ 7", "The answer is not 7"),
        ("n\u200bot 7 — nо", "not 7 — no"),
        ("عدد ٩", "عدد 9"),
        ("٩", "٩"),
        ("à 14 h 35", "à 14:35"),
        ("2 h 40 min", "2 h 40 min"),
        ("plain", "plain"),
    ],
)
def test_own_words(text: str, own: str) -> None:
    assert own_words(text) == own


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("im Punkt S(2|3)", "im Punkt S(2, 3)"), ("Fiyat %20 arttı", "Fiyat 20% arttı"),
        ("boxed{8}", r"\boxed{8}"), (r"\boxed{8}", r"\boxed{8}"), ("Rs 500/-", "500"),
        ("![answer: 16](a.png) 3", "  3"), ("48 cm<sup>2</sup>", "48 cm^2"), ("P(A|B)", "P(A|B)"),
        ("おつりは８００円です。", "おつりは800円です。"), ("４２", "42"),
        ("3.6万吨, 5万3千元, 3万5000元", "36000吨, 53000元, 35000元"),
        ("八分之七, 3分の2", "7/8, 2/3"),
        ("برابر ۳٫۵ است", "برابر 3.5 است"),
    ],
)  # fmt: skip
def test_signs_of_other_pages_and_scripts(text: str, plain: str) -> None:
    assert own_words(text) == plain


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        ("La velocidad media es de 3,5 km/h.", True), ("Đáp số: 2,5 giờ", True),
        ("Antwort: 2,5", True),
        ("The answer is 3,5.", False), ("3,5", False), ("x = 3,5", False), ("答案是3,5", False),
    ],
)  # fmt: skip
def test_languages_with_a_decimal_comma(text: str, writes: bool) -> None:
    assert writes_comma(text) is writes
