"""Thoughts and turns of all families of models: what is judged, and what is only counted."""

import pytest

from verifiers import Attempt, ChatMarks, Verdict, Verifier, boxed_answer
from verifiers.extraction.turns import final_text, unknown_marks

THOUGHTS = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>\n\n<|begin_of_solution|>"),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|im_start|>think\n", "\n<|im_start|>answer\n"),
    (
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
    (
        "<|channel|>commentary to=calculator<|message|>",
        "<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>",
    ),
]
ENDS = [
    *["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|end|>", "<|return|>"],
    *[
        "<|eom_id|>",
        "<|user|>",
        "<|observation|>",
        "</s>",
        "<eos><bos>",
        "<end_of_turn>",
        "<turn|>",
    ],
    *["<|END_OF_TURN_TOKEN|>", "<|END_RESPONSE|>", "<|end_of_solution|>", "<｜end▁of▁sentence｜>"],
    *["<start_of_turn>user", "<|im_start|>user", "<|start_header_id|>user", "[|endofturn|]"],
]
TRANSCRIPTS = [
    "<|im_start|>system\nUse boxes.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n"
    "<|im_start|>assistant\n",
    "<bos><start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n",
    "<s>[INST] {} [/INST]",
    "<|start|>system<|message|>You.<|end|><|start|>user<|message|>{}<|end|><|start|>assistant",
    "<｜begin▁of▁sentence｜>Be brief.<｜User｜>{}<｜Assistant｜>",
    "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{}<|END_OF_TURN_TOKEN|>"
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
]


@pytest.mark.parametrize(("opening", "closing"), THOUGHTS)
def test_what_a_thought_holds_is_no_answer(opening: str, closing: str) -> None:
    with Verifier() as verifier:
        for answer in ("The answer is 6.", r"\boxed{6}", "6"):
            unbroken = Attempt(rf"{opening}Is it \boxed{{5}}?{closing}{answer}", "6")
            assert verifier.verify(unbroken).verdict is Verdict.CORRECT
            unfinished = Attempt(f"{opening}Let me see. {answer}", "6")
            assert verifier.verify(unfinished).verdict is Verdict.NO_ANSWER
    assert (final_text(f"I am thinking.{closing}6", think_open=True) or "").strip() == "6"
    assert boxed_answer(rf"No opening mark, \boxed{{5}}{closing}so \boxed{{6}}") == "6"


@pytest.mark.parametrize("end", ENDS)
def test_a_turn_ends(end: str) -> None:
    assert final_text(rf"so \boxed{{6}}{end}" + "\nNow \\boxed{7}") == r"so \boxed{6}"
    assert final_text(f"<think>a page has {end}</think>6{end}7") == "6"
    assert final_text(f"{end}\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n6") != "6"


@pytest.mark.parametrize("prompt", TRANSCRIPTS)
def test_of_a_transcript_the_last_turn_is_judged(prompt: str) -> None:
    response = prompt.format(r"Write <think> first and \boxed{} last.") + "The answer is 6."
    assert (final_text(response) or "").strip() == "The answer is 6."
    chat_marks = ChatMarks()
    chat_marks.add([response, "6", "<|im_start|>assistant\n6<|im_end|>\n<|im_start|>user\nThanks"])
    (line,) = chat_marks.lines()
    assert line.startswith("1 of 3 responses are whole transcripts")


def test_the_header_of_the_own_turn_belongs_to_no_answer() -> None:
    assert final_text("<|im_start|>assistant\n6<|im_end|>") == "\n6"
    assert final_text("<|start_header_id|>assistant<|end_header_id|>\n\n6") == "\n\n6"


def test_a_mark_before_more_of_the_same_turn_ends_nothing() -> None:
    text = "I add.<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nSo 6<|eot_id|>"
    assert final_text(text) == "I add.\n\n\n\nSo 6"
    assert final_text("I add.<|eot_id|>\n<|start_header_id|>user<|end_header_id|>\n7") == "I add."


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ("analysisWe add. Maybe 5?assistantfinalIt is 6.", "It is 6."),
        ("analysisWe add.", "analysisWe add."),
        ("analysis of the sum gives 6", "analysis of the sum gives 6"),
        ("In all, assistantfinal is no word. 6", "In all, assistantfinal is no word. 6"),
        ("Analysis: assistantfinal is no word. 6", "Analysis: assistantfinal is no word. 6"),
    ],
)
def test_harmony_without_its_special_tokens(response: str, text: str) -> None:
    assert final_text(response) == text


def test_s1_is_made_to_answer_by_words() -> None:
    assert final_text("<|im_start|>think\nIs it 5?Final Answer: 6<|im_end|>") == " 6"
    assert final_text("<|im_start|>think\n**Final Answer**\n6") is None
    assert final_text("<think>Final Answer: 6") is None


def test_unknown_marks_are_counted_from_a_tenth_of_the_responses_on() -> None:
    strange = "<|mull_over|>5<|answer_now|>6"
    for usual, lines in ((9, 0), (8, 1)):
        chat_marks = ChatMarks()
        chat_marks.add([strange, *["so 6<|im_end|>"] * usual])
        assert len(chat_marks.lines()) == lines
    assert chat_marks.lines()[0].startswith(f"1 of {1 + usual} responses hold what looks like a")
    assert "<|mull_over|>" in chat_marks.lines()[0]


@pytest.mark.parametrize(
    ("response", "marks"),
    [
        ("<deep:think>5</deep:think>6", {"<deep:think>", "</deep:think>"}),
        ("◁ponder▷6", {"◁ponder▷"}),
        ("[PLAN]5[/PLAN]6", {"[/PLAN]"}),
        ("an interval [A, B] and [/PLAN] alone", set()),
        ("<|start|>assistant<|channel|>final<|message|>6<|return|>", set()),
        ("[asy]draw((0,0));[/asy] [INST] 6 [/INST] |x| < 3, 2 < |y|>", set()),
    ],
)
def test_what_has_the_shape_of_a_mark(response: str, marks: set[str]) -> None:
    assert unknown_marks(response) == marks
