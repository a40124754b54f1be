"""Every rule both ways, on invented answers and responses."""

import pytest
from verifier_response_cases import CASES as RESPONSES

from verifiers import Attempt, Verdict, Verifier
from verifiers.equality.compare import compare

SPOKEN = [(kind, *case) for kind, cases in RESPONSES.items() for case in cases]


@pytest.fixture(scope="module")
def verifier():
    with Verifier() as shared:
        yield shared


@pytest.mark.parametrize("kind", dict.fromkeys(kind for kind, *_ in SPOKEN))
def test_response(verifier, kind: str) -> None:
    wrong = []
    for response, gold, verdict in (case for name, *case in SPOKEN if name == kind):
        verification = verifier.verify(Attempt(response, gold))
        if (verification.verdict == "correct") != (verdict == "correct"):
            wrong.append((response, gold, verification))
    assert not wrong


@pytest.mark.parametrize(
    "hidden", ["\u200b", "\u200d", "\u2060", "\u202e", "\ufeff", "\x00", "\xad"]
)
def test_hidden_characters_inside_a_number_do_not_pass(hidden: str) -> None:
    assert compare("48", f"4{hidden}8").equal is False
    assert compare("48", f"{hidden}4{hidden}8").equal is False


def test_a_trick_is_never_correct_with_the_strict_format() -> None:
    with Verifier(format="think_answer") as strict:
        for kind, response, gold, verdict in SPOKEN:
            wrapped = f"<think>t</think>\n<answer>{response}</answer>"
            if kind == "tricks" and "<" not in response:
                assert strict.verify(Attempt(wrapped, gold)).verdict is not Verdict.CORRECT, (
                    response
                )
                assert verdict != "correct"


@pytest.mark.parametrize(
    "filler", ["\n", " ", "so it goes. ", "$x$ ", "The answer is 7. ", "\\(", '"a ']
)
def test_a_long_response_hides_no_box(verifier, filler: str) -> None:
    padding = filler * (1_000_000 // len(filler))
    verification = verifier.verify(Attempt(padding + r"\boxed{42}", "42"))
    assert verification.verdict is Verdict.CORRECT
    if not filler.strip() or "answer" not in filler:
        assert verifier.verify(Attempt(r"\boxed{42} " + padding, "42")).verdict is Verdict.CORRECT
