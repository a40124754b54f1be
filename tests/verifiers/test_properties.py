"""Properties that hold for every answer, not only for the listed ones."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifiers import Attempt, Verdict, Verifier, check_format
from verifiers.equality.compare import compare

numbers = st.integers(-(10**12), 10**12)
letters = st.sampled_from(["x", "y", "a", "b", "n"])


@pytest.fixture(scope="module")
def verifier():
    with Verifier() as shared:
        yield shared


@st.composite
def expressions(draw, depth: int = 3) -> tuple[str, str]:
    """An expression and a respelling of it: spacing, \\dfrac, reordered sums and products."""
    if depth == 0 or draw(st.booleans()) is False:
        leaf = draw(st.one_of(st.integers(1, 99).map(str), letters))
        return leaf, draw(st.sampled_from([leaf, f"{{{leaf}}}", rf"\, {leaf}", f"({leaf})"]))
    left, left_again = draw(expressions(depth - 1))
    right, right_again = draw(expressions(depth - 1))
    kind = draw(st.sampled_from(["sum", "product", "fraction", "root", "square"]))
    if kind == "sum":
        return f"{left}+{right}", rf"{right_again} \; + {left_again}"
    if kind == "product":
        return f"({left})({right})", rf"\left({right_again}\right) \cdot \left({left_again}\right)"
    if kind == "fraction":
        return rf"\frac{{{left}}}{{{right}}}", rf"\dfrac {{{left_again}}} {{{right_again}}}"
    if kind == "root":
        return rf"\sqrt{{{left}}}", rf"({left_again})^{{\frac{{1}}{{2}}}}"
    return f"({left})^2", rf"({left_again})^{{2}}"


@settings(max_examples=150, deadline=None)
@given(expressions())
def test_an_answer_equals_its_respelling(pair: tuple[str, str]) -> None:
    first, second = pair
    assert compare(first, first).equal
    assert compare(first, second).equal, compare(first, second).reason
    assert compare(second, first).equal


@settings(max_examples=100, deadline=None)
@given(expressions(), expressions())
def test_equality_is_symmetric(left: tuple[str, str], right: tuple[str, str]) -> None:
    assert compare(left[0], right[0]).equal == compare(right[0], left[0]).equal


@settings(max_examples=80, deadline=None)
@given(expressions(), st.integers(1, 9))
def test_adding_a_number_makes_another_answer(pair: tuple[str, str], extra: int) -> None:
    assert not compare(pair[0], f"{pair[1]}+{extra}").equal


@settings(max_examples=150, deadline=None)
@given(numbers, st.integers(0, 15), st.sampled_from([-1, 1]))
def test_numbers_off_by_one_in_the_last_digit_are_unequal(
    digits: int, places: int, step: int
) -> None:
    def decimal(value: int) -> str:
        sign = "-" if value < 0 else ""
        plain = str(abs(value)).zfill(places + 1)
        return f"{sign}{plain[: len(plain) - places]}.{plain[len(plain) - places :]}".rstrip(".")

    assert not compare(decimal(digits), decimal(digits + step)).equal
    assert compare(decimal(digits), decimal(digits) + ("0" if places else ".0")).equal


@settings(max_examples=100, deadline=None)
@given(numbers)
def test_an_integer_equals_its_spellings(value: int) -> None:
    sign = "-" if value < 0 else ""
    for spelling in (f"{value:,}", f"{value}.0", f"${value}$", rf"\text{{{value}}}",
                     f"x = {value}", rf"{sign}\frac{{{abs(value) * 3}}}{{3}}"):  # fmt: skip
        assert compare(str(value), spelling).equal, spelling


@settings(max_examples=100, deadline=None)
@given(st.fractions(max_denominator=10**6))
def test_a_fraction_is_exact(value: Fraction) -> None:
    text = rf"\frac{{{value.numerator}}}{{{value.denominator}}}"
    assert compare(text, f"{value.numerator}/{value.denominator}").equal
    near = value + Fraction(1, value.denominator * 10**7)
    assert not compare(text, f"{near.numerator}/{near.denominator}").equal


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-50, 50), min_size=2, max_size=6, unique=True), st.randoms())
def test_lists_have_no_order_and_tuples_have_one(items: list[int], source) -> None:
    shuffled = items[:]
    source.shuffle(shuffled)
    joined, repeated = ", ".join(map(str, items)), ", ".join(map(str, shuffled))
    assert compare(joined, repeated).equal
    assert compare(f"({joined})", f"({repeated})").equal == (items == shuffled)
    assert not compare(joined, ", ".join(map(str, items[1:]))).equal


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["", r"\boxed{%s}", "<answer>%s</answer>"]))
def test_any_bytes_give_a_verdict(verifier, data: bytes, frame: str) -> None:
    text = data.decode("utf-8", "surrogateescape")
    response = frame.replace("%s", text) if frame else text
    for gold in ("42", text):
        assert isinstance(verifier.verify(Attempt(response, gold)).verdict, Verdict)
    assert check_format(response) in (True, False)


FRAGMENTS = st.sampled_from(
    [r"\frac", "{", "}", "(", ")", "[", "]", "|", r"\{", r"\}", "^", "_", "!", "%", ",", "1", "2.5",
     "x", r"\sqrt", r"\sin", r"\text", r"\begin{pmatrix}", r"\end{pmatrix}", "&", r"\\", "=", "<",
     r"\cup", r"\pm", r"\infty", "i", "e", "-", "+", "/", "$", r"\$", "cm", "and", " ", ".", ":"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(FRAGMENTS, max_size=25).map("".join), st.lists(FRAGMENTS, max_size=25).map("".join))
def test_any_mathematics_gives_a_judgement(gold: str, answer: str) -> None:
    assert compare(gold, answer).equal in (True, False)
    assert compare(gold, gold).equal in (True, False)
