"""What a row adds to its problem: options, an opening, rules of its own, and what becomes of it."""

import pytest
from conftest import invoke, jsonl

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Problem
from rlvr_cli.data.problems import load_problems
from rlvr_cli.data.prompts import render_prompts
from rlvr_cli.data.signs import openings
from rlvr_cli.evaluation.imported import read_responses
from rlvr_cli.model.loading import load_model
from verifiers import Attempt, Verifier, gold_value, stated_value

CHOICES = ["4", "7", "9", "15"]


def question(number, answer, **fields):
    return {"question": f"Prime {number}?", "choices": CHOICES, "answer": answer, **fields}


def test_the_opening_ends_the_prompt_and_no_thought_is_opened_twice():
    problem = Problem("1", "1+1", "2", opening="Let me see.\n<think>")
    tokenizer = load_model("tiny").tokenizer
    (prompt,), _ = render_prompts([problem], tokenizer, "plain", 256, 8)
    assert prompt.text.endswith("Let me see.\n<think>")
    assert prompt.think_open


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        (["So:", "So:", "No."], ["So:", "So:", ""]),
        (["So:", None, "No."], ["", "", ""]),
        (["x" * 201] * 2, ["", ""]),
        (["It is 7", "It is 7"], ["", ""]),
        (["In 17 steps:"] * 2, ["In 17 steps:"] * 2),
        (["#### 3"] * 2, ["", ""]),
        (["Step 7:", "Step 7:", "Step 7:"], ["", "", ""]),
    ],
)
def test_an_opening_is_short_unfinished_and_common(replies, expected):
    assert openings([(Problem("1", "p", "7"), reply) for reply in replies]) == expected


def test_an_opening_may_hold_the_gold_answer_of_a_few_rows():
    problems = [Problem(str(n), "p", str(n)) for n in range(5)]
    assert openings([(problem, "Step 1:") for problem in problems]) == ["Step 1:"] * 5


def test_what_becomes_of_the_last_turns_is_said():
    chat = [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "So:"}]
    rows = [{"prompt": chat, "answer": 2}, {"prompt": [*chat[:1], {**chat[1], "content": "2"}]}]
    found = load_problems("-", "train", rows=[rows[0]] * 2)
    assert found.fields_read.endswith("; 2 responses go on from 'So:'")
    found = load_problems("-", "train", rows=[{**rows[1], "answer": 2}])
    assert found.fields_read.endswith("; 1 last turn of the assistant left out")


def test_a_letter_that_is_right_too_often_is_warned_of(caplog):
    load_problems("-", "train", rows=[question(n, n % 4) for n in range(8)])
    assert caplog.text == ""
    load_problems("-", "train", rows=[question(n, min(n, 1)) for n in range(8)])
    assert "the right option is B in 7 of 8 problems" in caplog.text


def test_options_are_judged_in_a_file_of_responses(tmp_path):
    rows = [question(1, 1, response="Answer: B"), question(2, 0, response="Answer: B")]
    path = tmp_path / "r.jsonl"
    path.write_text(jsonl(*rows))
    read = read_responses(str(path), None, False)
    assert [response.problem.answer for response in read] == ["B", "A"]
    path.write_text(jsonl(question(1, 1, response="B"), question(2, 4, response="B")))
    with pytest.raises(UserError, match="names an option by its number from 1, and the rows"):
        read_responses(str(path), None, False)


def test_the_figures_of_a_set_of_choices_are_by_subject(tmp_path):
    rows = [question(n, 1, subject="number" if n % 2 else "sum") for n in range(4)]
    (tmp_path / "mmlu_test.jsonl").write_text(jsonl(*rows))
    result = invoke(
        *("eval", "mmlu", "--by", "subject", "-n", 1, "--max-tokens", 1),
        *("--set", f"data.root={tmp_path}"),
    )
    assert result.exit_code == 0, result.stderr
    by_subject = result.stderr.partition("subject")[2]
    assert {"number", "sum"} <= set(by_subject.split())


def test_a_countdown_is_scored_by_its_numbers():
    row = {"prompt": "Make 98 of 44, 19 and 35.", "nums": [44, 19, 35], "target": 98}
    (problem,) = load_problems("-", "train", rows=[row]).problems
    from verifiers.gym import place_of

    place = place_of(problem.row)
    with Verifier(format="any") as verifier:
        texts = ("44+35+19", "98", "44+54", "19+35+44+0")
        verdicts = [
            verifier.verify(Attempt(f"<answer>{text}</answer>", "98", place=place)).verdict.value
            for text in texts
        ]
    assert verdicts == ["correct", "wrong", "wrong", "wrong"]


def test_an_unreadable_gold_is_named_with_its_line(tmp_path):
    rows = [{"problem": "1+1", "answer": 2}, {"problem": "2+2", "answer": "Use the sum of both."}]
    path = tmp_path / "p.jsonl"
    path.write_text(jsonl(*rows))
    said = invoke("eval", path, "-n", 1, "--max-tokens", 1).stderr
    assert f"{path}:2: problem p.jsonl-2: the gold answer 'Use the sum of both.' cannot be" in said
    path.write_text(jsonl(*({**row, "response": "so 2"} for row in rows)))
    said = invoke("eval", "--responses", path).stderr
    assert f"{path}:2: problem " in said


def test_golds_that_another_reward_reads_are_left_as_they_are():
    row = {"problem": "Name a town.", "answer": "The answer is Rome."}
    for is_verified, gold in ((True, "Rome"), (False, "The answer is Rome.")):
        (problem,) = load_problems("-", "train", rows=[row], is_verified=is_verified).problems
        assert problem.answer == gold
    (problem,) = load_problems(
        "-", "train", rows=[{"problem": "p", "answer": {"x": 1}}], need_answer=False
    ).problems
    assert problem.answer is None


NEMO = {
    "responses_create_params": {"input": [{"role": "user", "content": "1+1"}]},
    "response": {
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "message", "content": [{"type": "output_text", "text": "It is 2."}]},
        ],
        "usage": {"output_tokens": 5},
    },
    "expected_answer": "2",
}
BATCH = {
    "custom_id": "a",
    "answer": "2",
    "response": {"body": {"model": "m", "output": NEMO["response"]["output"]}},
}
EVALSCOPE = {
    "index": 0,
    "model": "m",
    "input": "1+1",
    "target": "2",
    "model_output": {"choices": [{"message": {"role": "assistant", "content": "It is 2."}}]},
}


@pytest.mark.parametrize("row", [NEMO, BATCH, EVALSCOPE])
def test_the_responses_of_a_program_are_found(tmp_path, row):
    path = tmp_path / "r.jsonl"
    path.write_text(jsonl(row))
    (response,) = read_responses(str(path), None, False)
    assert (response.text, response.problem.answer) == ("It is 2.", "2")


@pytest.mark.parametrize("field", ["response", "completion"])
def test_an_error_beside_an_empty_response_is_no_wrong_answer(tmp_path, field):
    row = {"problem": "1+1", "answer": "2", field: "", "error": {"message": "busy"}}
    path = tmp_path / "r.jsonl"
    path.write_text(jsonl(row))
    result = invoke("eval", "--responses", path)
    assert result.exit_code == 2
    assert "no response to judge: 1 response failed (1 error; the first at" in result.stderr
    path.write_text(jsonl({**row, "error": None}))
    assert len(read_responses(str(path), None, False)) == 1


@pytest.mark.parametrize(
    ("gold", "value"),
    [
        ("The answer is 336.", "336"),
        ("336", "336"),
        ("Use the quadratic formula.", None),
        ("n and m are both odd, and their sum is even, which was to be shown here", None),
        ("All real numbers.", "All real numbers."),
        ("Mr. Smith", "Mr. Smith"),
        ("7 hours: 30 minutes", "7 hours: 30 minutes"),
        ("Let x be the number. Then x = 12.", "x = 12"),
        ("Alice: 3, Bob: 4", None),
        ("It does not matter which point is taken.", None),
        ("There is no solution.", "no solution"),
    ],
)
def test_the_value_of_a_gold(gold, value):
    assert gold_value(gold) == value
    with Verifier() as verifier:
        assert verifier.check_gold(gold) is (value is not None)


@pytest.mark.parametrize(
    ("derivation", "value"),
    [
        ("I add.\nThe answer is 12.", "12"),
        ("12", "12"),
        ("no solution", "no solution"),
        ("Use the formula", None),
        ("Use formula 3.", None),
        ("Factor.", None),
        ("I add.\nSo it is 12", None),
    ],
)
def test_what_a_derivation_states(derivation, value):
    assert stated_value(derivation) == value
