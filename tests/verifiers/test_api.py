"""One response from text to verdict, golds that do not parse, and many at once."""

import pytest

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
