"""What a sentence states as its answer."""

import pytest

from verifiers import Verdict, verify
from verifiers.extraction.readable import is_value
from verifiers.extraction.sentence.prose import last_expression, only_value, words_stated
from verifiers.extraction.statements import read_statement
from verifiers.grammar.normalize import normalize


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", True), ("$x^2$", True), ("5 cm", True), ("(", False), ("", False),
        ("the number of apples", False), ("hello", False),
    ],
)  # fmt: skip
def test_values(text: str, expected: bool) -> None:
    assert is_value(text) is expected


@pytest.mark.parametrize(
    ("rest", "value"),
    [
        (" 12.", "12"),
        (": $12$, because it is even.", "12"),
        (" $3$ and $8$.", "3, 8"),
        (" $3$ or $8$.", "3 or 8"),
        (" minus 5.", "-5"),
        (" option (B).", "(B)"),
        (" yes, since 5 is odd.", "yes"),
        (" 5, not 6.", "5"),
        (" at least 5.", "at least 5"),
        (" Tuesday.", "Tuesday"),
    ],
)
def test_statements(rest: str, value: str) -> None:
    assert normalize(read_statement(rest) or "") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("First 3. Then she has 12 apples.", "12"),
        ("So $x = 5$.", "x = 5"),
        ("The sum of $a$ and $b$ is 7.", "7"),
        ("They are 3, 4 and 5.", "3, 4 and 5"),
        ("It is not 5.", None),
        ("Nothing here.", None),
    ],
)
def test_last_expressions(text: str, value: str | None) -> None:
    found = last_expression(text)
    assert (found and normalize(found)) == value


def test_words() -> None:
    assert words_stated("We compare. So option B is correct.") == "B"
    assert words_stated("Therefore the function is odd.") == "odd"
    assert words_stated("Then x = 5. The function is odd.") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("She has 12 apples left", "12"), ("12 because it is even", "12"),
     ("3 apples 12 pears", None), ("print(12)", None), ("no, it is 5", "no")],
)  # fmt: skip
def test_only_one_value(text: str, value: str | None) -> None:
    found = only_value(text)
    assert (found and normalize(found)) == value


@pytest.mark.parametrize(
    ("response", "stated"),
    [
        ("We conclude that the answer is 9.", True),
        ("Since 4 + 5 = 9, the answer is 9.", True),
        ("I believe the answer is 9.", True),
        ("The final numerical answer is 9.", True),
        ("This shows that the answer is 9.", True),
        ("It is a myth that the answer is 9.", False),
        ("Our goal is to show the answer is 9.", False),
        ("My dog thinks that the answer is 9.", False),
        ("Three less than the answer is 9.", False),
        ("The discarded answer is 9.", False),
        ("The answer to a similar problem is 9.", False),
        ("The answer's denominator is 9.", False),
        ("Ignoring the constraint, the answer is 9.", False),
    ],
)
def test_what_the_answer_is_hangs_on(response: str, stated: bool) -> None:
    assert (verify(response, "9").verdict is Verdict.CORRECT) is stated
