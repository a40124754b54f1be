"""One response from text to verdict, golds that do not parse, and many at once."""

import pytest

import verifiers
from verifiers import Attempt, Verdict, Verifier, check_format, verify


def test_answer_tag_and_number() -> None:
    verification = verify("<think>a</think><answer>1,200</answer>", "1200", format="think_answer")
    assert verification.verdict is Verdict.CORRECT
    assert verification.format_ok
    assert verify("<answer>1201</answer>", "1200").verdict is Verdict.WRONG


def test_format_comes_first() -> None:
    assert verify("<answer>3</answer>", "3", format="think_answer").verdict is Verdict.BAD_FORMAT
    assert check_format("b</think>\n<answer>3</answer>", think_open=True)


def test_worker_decides_what_strings_cannot() -> None:
    with Verifier() as verifier:
        verifications = verifier.verify_many([Attempt(r"\boxed{(x+1)^2}", "x^2+2x+1")])
    assert verifications[0].verdict is Verdict.CORRECT


@pytest.mark.parametrize("gold", ["", "  ", "$$", r"\frac{1}{", r"\frac{3}{0}", "{", "####"])
def test_a_gold_that_does_not_parse_is_not_the_models_fault(gold: str) -> None:
    with Verifier(format="think_answer") as verifier:
        assert verifier.verify(Attempt("no format", gold)).verdict is Verdict.UNPARSEABLE_GOLD
        assert not verifier.check_gold(gold)


@pytest.mark.parametrize(
    "gold", ["3", r"\frac12", "Tuesday", "we add\n#### 12", "(1,2]", "9^{9^{9}}"]
)
def test_a_good_gold_equals_itself(gold: str) -> None:
    with Verifier() as verifier:
        assert verifier.check_gold(gold)
        assert verifier.equal(gold, gold) is Verdict.CORRECT


@pytest.mark.parametrize(
    "text",
    [
        r"\dot{x}_{0}", r"\dot{\theta} t", r"\overline{AB} \parallel \overline{CD}",
        r"p \Rightarrow q",
    ],
)  # fmt: skip
def test_the_same_text_outside_of_the_grammar_is_equal(text: str) -> None:
    with Verifier(format="boxed") as verifier:
        assert verifier.verify(rf"\boxed{{ {text} }}", text).verdict is Verdict.CORRECT
        for other in ("7", rf"{text} 2", r"\dot{x}_{1}"):
            verdict = verifier.verify(rf"\boxed{{{other}}}", text).verdict
            assert verdict is Verdict.UNPARSEABLE_GOLD


def test_a_gold_without_a_value_does_not_equal_itself() -> None:
    for gold in ("1/0", "2\f3"):
        assert verify(rf"\boxed{{{gold}}}", gold).verdict is Verdict.UNPARSEABLE_GOLD


def test_the_method_takes_what_the_function_takes() -> None:
    with Verifier() as verifier:
        assert verifier.verify("It is 3.", "3") == verifier.verify(Attempt("It is 3.", "3"))
        assert verifier.verify("So 3</think>3", "3", think_open=True).verdict is Verdict.CORRECT
        assert verifier.verify("So 3", "3", truncated=True).verdict is Verdict.TRUNCATED
        with pytest.raises(TypeError, match="gold must be a text or a number, not null"):
            verifier.verify("It is 3.")
        with pytest.raises(TypeError, match="an Attempt holds its gold"):
            verifier.verify(Attempt("3", "3"), "3")


def test_an_attempt_takes_texts_and_numbers() -> None:
    assert Attempt("3", 3) == Attempt("3", "3")  # type: ignore[arg-type]
    assert verify("3.5", 3.5).verdict is Verdict.CORRECT  # type: ignore[arg-type]
    for response, gold, message in (
        (None, "3", "response must be a text or a number, not null"),
        ("3", True, "gold must be a text or a number, not true"),
        ("3", ["3"], "gold must be a text or a number"),
        ("3", float("inf"), "gold is too large a number"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            Attempt(response, gold)  # type: ignore[arg-type]


def test_the_names_that_are_there_are_listed() -> None:
    assert dir(verifiers) == sorted(verifiers.__all__)
    assert all(hasattr(verifiers, name) for name in dir(verifiers))
