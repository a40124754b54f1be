"""The page of rules of `extract.py`, one rule a test, both ways."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifiers import Attempt, Verdict, Verifier, boxed_answer, verify
from verifiers.extraction.extract import extract


@pytest.mark.parametrize(
    ("response", "text", "place"),
    [
        (r"<answer>5</answer> \boxed{6}", "5", "answer block"),
        (r"\boxed{6} #### 7", "6", "last box"),
        (r"\boxed{6} so \boxed{7}", "7", "last box"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}", "last box"),
        (r"\fbox{6}", "6", "last box"),
        (r"\boxed 6", "6", "last box"),
        ("#### 6\n#### 7\nThe answer is 8.", "7", "last ####"),
        ("#### 7 apples", "7 apples", "last ####"),
        ("The answer is 7. Then 8 more.", "7", 'last "answer is"'),
        ("Answer: she has 7", "7", 'last "answer is"'),
        ("The answer is not 7.", "not 7.", 'last "answer is"'),
        ("x + 1", "x + 1", "whole text"),
        ("We add 3. Tom has 7 apples. Are there 9?", "7", "last value"),
        ("12 + 3 = 15", "12 + 3 = 15", "whole text"),
        ("12 + 3 equals 15.", "15", "last value"),
        ("It is option (B).", "B", "last choice"),
        ("Yes, it is.", "Yes", "yes or no"),
        ("The function is odd.", "odd", "last words"),
        ("<answer>She has 7 of them.</answer>", "7", "last value"),
    ],
)
def test_any_takes_the_first_place_that_there_is(response, text, place):
    extraction = extract(response)
    assert (extraction.text.rstrip("."), extraction.place) == (text.rstrip("."), place)


@pytest.mark.parametrize(
    ("response", "format", "place"),
    [
        ("I have no idea how to do this one, sorry.", "any", "no answer found"),
        ("The answer is 7.", "boxed", "no box"),
        (r"\boxed{6} or \boxed{7", "boxed", "the last box never closes"),
        (r"<think>\boxed{7}", "boxed", "the thought never closes"),
        ("<answer>6</answer><answer>7</answer>", "any", "answer tags that repeat or do not close"),
        ("<answer>6</answer>", "think_answer", "not <think>…</think> then <answer>…</answer>"),
        (" ".join(rf"try \boxed{{{n}}}" for n in range(6)), "boxed", "last box: more than 5 diff"),
        ("\n".join(f"#### {n}" for n in range(6)), "any", "last ####: more than 5 different ones"),
        ("\n".join(map(str, range(6))), "any", "last line: more than 5 different ones"),
        (" ".join(f"The answer is {n}." for n in range(6)), "any", 'last "answer is": more than 5'),
    ],
)
def test_there_is_no_answer(response, format, place):
    extraction = extract(response, format=format)
    assert extraction.text is None
    assert extraction.place.startswith(place)


def test_five_different_marks_are_not_too_many():
    assert extract(" ".join(rf"try \boxed{{{n}}}" for n in range(5))).text == "4"
    assert extract(" ".join(r"try \boxed{4}" for _ in range(50))).text == "4"


@pytest.mark.parametrize(
    ("response", "gold", "text"),
    [
        (r"\boxed{1} and \boxed{2}", "7", "1, 2"),
        (r"\boxed{1}, $\boxed{2}$", "7", "1, 2"),
        (r"x = \boxed{1}, y = \boxed{2}", "7", "x = 1, y = 2"),
        (r"first \boxed{1}, then \boxed{2}", "7", "2"),
        (r"first \boxed{1}, then \boxed{2}", "8, 9", "1, 2"),
        (r"first \boxed{1}, then \boxed{1, 2}", "8, 9", "1, 2"),
        ("The answers are 3 and 8.", "7", "3 and 8"),
        ("So x is $3$ or $8$.", "7", "$3$ or $8$"),
    ],
)
def test_values_with_only_joiners_between_are_one_list(response, gold, text):
    assert extract(response, gold=gold).text == text


def test_another_problem_after_the_mark_ends_the_text():
    following = "\n\nQuestion: and 3 + 4?\n"
    assert extract(rf"\boxed{{5}}{following}\boxed{{7}}").text == "5"
    assert extract(rf"First.{following}\boxed{{7}}").text == "7"
    assert extract(r"\boxed{5}<|im_end|>\boxed{7}").text == "5"


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (r"So \boxed{12} and the", "12"),
        (r"So \boxed{1", None),
        ("<answer>12</answer> and", "12"),
        ("#### 12\nand", "12"),
        ("#### 1", None),
        ("The answer is 12.\nand", "12"),
        ("The answer is 1", None),
        ("Tom has 12 apples.\nHe", None),
    ],
)
def test_a_response_that_was_cut_off_states_only_what_is_complete(response, text):
    assert extract(response, cut_off=True).text in (text, text and f"{text}.")
    verification = verify(response, "12", truncated=True)
    assert verification.verdict is (Verdict.CORRECT if text else Verdict.TRUNCATED)


def test_a_block_of_boxes_is_what_they_hold_and_all_else_is_read_whole():
    frame = "<think>t</think><answer>{}</answer>"
    for inside, text in [
        (r"$\boxed{7}$", "7"),
        (r"\boxed{7} and \boxed{8}", "7, 8"),
        (r"It is \boxed{7}", r"It is \boxed{7}"),
        ("**7**", "7"),
    ]:
        assert extract(frame.format(inside), format="think_answer").text == text


def test_the_reason_says_the_rule_and_the_place():
    assert verify(r"\boxed{7}", "7").reason == "last box: exact number"
    assert verify("<answer>7, 8</answer>", "7").reason == "answer block: 2 values"
    assert verify(r"\boxed{3 + 4}", "7").reason == "last box: left undone"
    assert verify(r"\boxed{}", "7").reason == "last box: empty"


def test_look_alike_and_hidden_characters_are_not_the_answer():
    for text in ("4\u200b2", "4\u00ad2"):
        assert verify(rf"\boxed{{{text}}}", "42").verdict is not Verdict.CORRECT


def test_the_last_box_of_a_solution():
    assert boxed_answer(r"First \boxed{5}, no: \boxed{\frac{1}{2}}. I doubt it.") == r"\frac{1}{2}"
    assert boxed_answer("5") is None


HARMLESS = [
    ("Without loss of generality, we get", ""),
    ("Let me see.", "My first try failed."),
    ("", "Hence the total cost is what we need."),
    ("", "Therefore the ratio of the two is 3:2."),
    ("", "But I doubt it. The answer is 13."),
    ("Hold on, is that right? Yes, it is. " * 40, "Hold on, is that right? Yes, it is. " * 40),
    ("No, 41 is wrong. It cannot be", "which is not right, ignore it."),
]
# What rules about words would look at, to be put together at random.
SPOKEN = (
    "no not wrong right never doubt guess maybe perhaps about roughly instead actually however "
    "but wait hold on scratch that is the answer isn't only if unless first try failed ignore "
    "without loss of generality hypothetically someone says suppose either or we need total "
    "ratio cost 13 3:2 $x$ $ = \" ' **Answer:** #### Question: . , ? !"
)
WORDS = (
    st.text(st.characters(codec="utf-8", exclude_characters="<>\\{}"), max_size=80)
    | st.lists(st.sampled_from(SPOKEN.split()), max_size=15).map(" ".join)
    | st.sampled_from([words for pair in HARMLESS for words in pair])
    | st.just("This is wrong, ignore it.\n\nQuestion: what is 3 + 4?\n#### 7\n")
)


@pytest.mark.parametrize(("before", "after"), HARMLESS)
@pytest.mark.parametrize(("answer", "verdict"), [("42", Verdict.CORRECT), ("41", Verdict.WRONG)])
def test_a_sentence_beside_a_box_decides_nothing(before, after, answer, verdict):
    for times in (1, 40):  # a box that is repeated is one value
        response = f"{before} $\\boxed{{{answer}}}$. {after} " * times
        for format in ("boxed", "any"):
            assert verify(response, "42", format=format).verdict is verdict


@settings(max_examples=300, deadline=None)
@given(before=WORDS, after=WORDS, is_right=st.booleans())
def test_words_outside_the_place_of_the_answer_never_change_a_verdict(before, after, is_right):
    answer = "42" if is_right else "41"
    expected = Verdict.CORRECT if is_right else Verdict.WRONG
    boxed = f"{before} $\\boxed{{{answer}}}$ {after}"
    assert SHARED["boxed"].verify(Attempt(boxed, "42")).verdict is expected
    assert SHARED["any"].verify(Attempt(boxed, "42")).verdict is expected
    block = f"<think>{before}{after}</think>\n<answer>{answer}</answer>"
    assert SHARED["think_answer"].verify(Attempt(block, "42")).verdict is expected
    inline = f"{before} <answer>{answer}</answer> {after}"
    assert SHARED["any"].verify(Attempt(inline, "42")).verdict is expected


SHARED = {format: Verifier(format=format) for format in ("think_answer", "boxed", "any")}
