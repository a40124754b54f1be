"""The think/answer format holds exactly, and what verdict its absence gives."""

import pytest

from verifiers import Attempt, Verdict, Verifier, check_format

GOOD = ["<think>a</think><answer>b</answer>", " <think>\na\n</think>\n\n<answer>\nb\n</answer>\n",
        "<think></think><answer></answer>"]  # fmt: skip
BAD = [
    "", "b", "<answer>b</answer>", "<think>a</think>", "<think>a<answer>b</answer>",
    "<think>a</think><answer>b", "<think>a</think>b</answer>", "<answer>b</answer><think>a</think>",
    "<think>a</think><answer>b</answer>.", "x<think>a</think><answer>b</answer>",
    "<think>a</think> so <answer>b</answer>", "<think>a</think><think>a</think><answer>b</answer>",
    "<think>a</think><answer>b</answer><answer>b</answer>",
    "<think><think>a</think></think><answer>b</answer>",
    "<think>a</think><answer><answer>b</answer></answer>", "<think>a<answer>b</answer></think>",
    "<Think>a</Think><answer>b</answer>", "<think >a</think><answer>b</answer>",
    "<think>a</think><answer>b</answer>\u200b", "<think>a</think>\u200b<answer>b</answer>",
]  # fmt: skip


@pytest.mark.parametrize("response", GOOD)
def test_good(response: str) -> None:
    assert check_format(response)
    assert not check_format(response, think_open=True)
    assert check_format(response.replace("<think>", ""), think_open=True)


@pytest.mark.parametrize("response", BAD)
def test_bad(response: str) -> None:
    assert not check_format(response)


def verdict(response: str, **options: bool) -> Verdict:
    with Verifier(format="think_answer") as verifier:
        return verifier.verify(Attempt(response, "3", **options)).verdict


def test_verdicts_of_the_strict_format() -> None:
    assert verdict("<think>a</think><answer>3</answer>") is Verdict.CORRECT
    assert verdict("<think>a</think><answer>4</answer>") is Verdict.WRONG
    assert verdict("<answer>3</answer>") is Verdict.BAD_FORMAT
    assert verdict("<think>3") is Verdict.BAD_FORMAT
    assert verdict("<think>3", truncated=True) is Verdict.TRUNCATED
    assert verdict("<think>3</think><think>", truncated=True) is Verdict.BAD_FORMAT
    assert verdict("<think>a</think><answer></answer>") is Verdict.NO_ANSWER
    assert verdict("a</think><answer>3</answer>", think_open=True) is Verdict.CORRECT
    assert verdict("a</think><answer>3</answer>") is Verdict.BAD_FORMAT


def test_any_format_reports_the_check_without_using_it() -> None:
    with Verifier() as verifier:
        found = verifier.verify(Attempt("The answer is 3.", "3"))
        assert found.verdict is Verdict.CORRECT
        assert not found.format_ok
        cut = verifier.verify(Attempt("First we compute 3", "3", truncated=True))
        assert cut.verdict is Verdict.TRUNCATED
        thought = verifier.verify(Attempt("so it is 3", "3", think_open=True))
        assert thought.verdict is Verdict.NO_ANSWER


def test_boxed_format_takes_only_boxes() -> None:
    with Verifier(format="boxed") as verifier:
        assert verifier.verify(Attempt(r"\boxed{3}", "3")).verdict is Verdict.CORRECT
        assert verifier.verify(Attempt("The answer is 3.", "3")).verdict is Verdict.NO_ANSWER


@pytest.mark.parametrize(
    ("response", "format_ok", "verdict"),
    [
        (r"so \boxed{4}", True, "correct"),
        (r"<think>\boxed{5}</think> \boxed{4}", True, "correct"),
        ("the answer is 4", False, "no_answer"),
        ("<think>2 + 2</think><answer>4</answer>", False, "no_answer"),
        (r"\boxed{}", False, "no_answer"),
    ],
)
def test_the_boxed_format_is_a_box(response, format_ok, verdict):
    with Verifier(format="boxed") as verifier:
        found = verifier.verify(Attempt(response, "4"))
        unreadable = verifier.verify(Attempt(response, "a sentence that is no answer ("))
    assert (found.format_ok, found.verdict) == (format_ok, verdict)
    assert (unreadable.format_ok, unreadable.verdict) == (format_ok, "unparseable_gold")
