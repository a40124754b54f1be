"""What the sentence around a value says of it; @ is the value."""

import pytest

from verifiers.extraction.context.standing import not_stated, only_offered, taken_back

STATED = [
    "The answer is @.",
    "It is not hard to see that the answer is @.",
    "Since 4 is not prime, the answer is @.",
    "There are @ integers not divisible by 3.",
    "@ is the answer.",
    "The problem asks for m+n = @.",
    "Therefore @ is correct.",
    "If x=3, the answer is @.",
    "@. This is correct.",
    "@, which is not prime.",
    "@ because 4 is not prime",
    "So the sum is @. That is the answer.",
    "We get @. It is right.",
    "I think the answer is @.",
    "Ответ: @, а не 24.",
    "La réponse est @ et non 8.",
    "The common value is @.",
    "The initial value is @.",
    "Thus @. Note that this is not an integer.",
    "If we add them then we get @.",
    "The question asks for the area, which is @.",
    "@ (not 5)",
    "there is no remainder, so it is @",
    "@ numbers do not have that.",
    "答案是@，而不是7",
    "Da 4 nicht passt, ist die Antwort @.",
    "@. Wait, let me double check.",
    "The first answer @ fits",
    "@ is it.",
    "We do not need the other case. @",
    "@, as required. The other root is not valid.",
]
TAKEN_AWAY = [
    "The answer is not @.",
    "@ is incorrect.",
    "@ is wrong.",
    "@? No",
    "@ isn't right",
    "I do not believe the answer is @.",
    "A common wrong answer is @.",
    "Some say @; I say 8",
    "Some say the answer is @",
    "The answer key says @, but I obtain 54.",
    "The grader expects @. I",
    "Suppose the answer is @.",
    "Is the answer @?",
    "答案不是 @。",
    "@ est faux.",
    "@ es incorrecto.",
    "Ответ @ неверен.",
    "@ — это неверно.",
    "La risposta non è @.",
    "@ ist falsch.",
    "@ was rejected by the check",
    "정답은 @가 아닙니다.",
    "答えは @ ですか？",
    "@ would be wrong.",
    "By no means is the answer @.",
    "You claim that the answer is @. Why?",
    "@ unless n is odd",
    "@ if n is odd, 8 otherwise",
    "A typical mistake is to answer @.",
    "My first guess was @",
    "The answer is definitely not equal to @",
    "One might think it is @.",
    "Neither 3 nor @ is the answer.",
    "@? I doubt it.",
    "@ n'est pas la réponse",
]
OFFERED = [
    "It might be @.",
    "Peut-être @",
    "Perhaps @",
    "It could be @",
    "Vielleicht @",
    "可能是 @",
]


def around(sentence: str) -> tuple[str, int, int]:
    start = sentence.index("@")
    return sentence.replace("@", "$5$"), start, start + 3


@pytest.mark.parametrize("sentence", STATED)
def test_stated(sentence: str) -> None:
    assert not not_stated(*around(sentence))


@pytest.mark.parametrize("sentence", TAKEN_AWAY)
def test_taken_away(sentence: str) -> None:
    assert not_stated(*around(sentence))


@pytest.mark.parametrize("sentence", OFFERED)
def test_only_offered(sentence: str) -> None:
    assert only_offered(*around(sentence)[:2])


@pytest.mark.parametrize(
    "sentence", ["It is 5", "The answer is 5", "Perhaps surprisingly, it is 5"]
)
def test_not_only_offered(sentence: str) -> None:
    assert not only_offered(sentence, sentence.index("5"))


def test_what_follows_may_take_it_back() -> None:
    for said in (". That is wrong.", "? No.", ". Wrong.", ". This is not right."):
        assert taken_back(said)
    for said in (". That is right.", ". It is wrong to say 6.", ". No other value works.", ""):
        assert not taken_back(said)
