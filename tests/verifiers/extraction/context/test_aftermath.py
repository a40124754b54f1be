"""What later sentences do to an answer: refuse it, replace it, or nothing."""

import pytest

from verifiers import Verdict, verify
from verifiers.extraction.context.aftermath import announced, overturned

OVERTURNED = [
    "I retract this.",
    "That violates the second condition.",
    "But plugging it back in gives a contradiction.",
    "However, the check fails.",
    "Unfortunately this does not satisfy the equation.",
    "P.S. I lied.",
    "On reflection, the right value is eight.",
    "The sign is off, though.",
    "Falsch.",
    "C'est faux.",
    "Нет, я ошибся, правильный ответ 46.",
    "我算错了。",
]
HARMLESS = [
    "No other value works.",
    "The other root, -7, is rejected.",
    "It is easy to check that this satisfies the equation.",
    "This cannot be simplified further.",
    "If x were 3, the equation would fail.",
    "A common mistake is to forget the sign.",
    "Die anderen Werte sind falsch.",
    "其他选项都是错误的。",
    "I hope this helps! Let me know if you have questions.",
]


@pytest.mark.parametrize("answer", ["The answer is 7.", r"We get $\boxed{7}$.", "So x = 7."])
@pytest.mark.parametrize("later", OVERTURNED)
def test_an_answer_that_is_overturned_is_none(answer: str, later: str) -> None:
    assert verify(f"{answer} {later}", "7").verdict is not Verdict.CORRECT


@pytest.mark.parametrize("answer", ["The answer is 7.", r"We get $\boxed{7}$."])
@pytest.mark.parametrize("later", HARMLESS)
def test_remarks_leave_it(answer: str, later: str) -> None:
    assert verify(f"{answer} {later}", "7").verdict is Verdict.CORRECT


def test_a_value_concluded_later_contradicts_it() -> None:
    assert verify("The answer is 42. Hence the total is 84.", "42").verdict is not Verdict.CORRECT
    assert verify(r"$\boxed{42}$. So the total is 42.", "42").verdict is Verdict.CORRECT


@pytest.mark.parametrize(
    "after",
    [
        ". The question asks for the diameter, which I won't compute.",
        ". You asked for their sum.",
        ", but wanted is the rank, which I did not find.", ", gefragt war aber die Diagonale.",
        " was the figure before; I have not redone it.",
    ],
)  # fmt: skip
def test_another_thing_is_asked_for(after: str) -> None:
    assert verify(rf"\boxed{{12}}{after}", "12").verdict != "correct"


@pytest.mark.parametrize(
    "after",
    [". This is what the question asks for.", ". This answers the question.", ", as asked."],
)
def test_the_thing_is_what_is_asked_for(after: str) -> None:
    assert verify(rf"\boxed{{12}}{after}", "12").verdict == "correct"


@pytest.mark.parametrize(
    "said",
    [
        "I typed this without solving it.", "I haven't begun with it.", "That was my guess.",
        "I could not derive it.", "Das habe ich nur hingeschrieben.", "Je n'ai pas compris.",
        "Ho messo un numero qualsiasi.", "Я поставил это число наугад.", "这个数字是我随便填的。",
        "适当に入れただけです。勘で書きました。",
    ],
)  # fmt: skip
def test_who_speaks_of_himself_speaks_of_the_answer(said: str) -> None:
    assert overturned(f"Answer: 42\n\n{said}", 10, "42")


@pytest.mark.parametrize(
    "said",
    [
        "I hope this helps!", "I double-checked it with a table.", "I used the quadratic formula.",
        "If you want, I can also calculate the angles.", "Here I assumed that x is positive.",
        "Ich kann auch den Rest erklären.", "Je peux aussi détailler.",
        "如果你想了解更多，请告诉我。",
        "where I is the identity", "So there is no need to evaluate the rest.",
        "If it had been weak, we would write [-2, 8].", "If I had added 11, I would have gotten 8.",
    ],
)  # fmt: skip
def test_who_checks_or_offers_help_does_not(said: str) -> None:
    assert not overturned(f"Answer: 42\n\n{said}", 10, "42")


@pytest.mark.parametrize(
    ("before", "announced_so"),
    [
        ("I rolled a die.\n\n", True), ("I will mark what I don't believe.\n", True),
        ("I'll solve this step by step.\n", False), ("I think the answer is ", False),
        ("I rolled 2 dice: 6 * 6 = 36.\n", False), ("We add them.\n", False),
    ],
)  # fmt: skip
def test_who_speaks_of_himself_before_an_answer_and_computes_nothing(
    before: str, announced_so: bool
) -> None:
    assert announced(before) is announced_so
