"""Texts that once took seconds or minutes, quadratic in what they repeat, take linear time."""

import time

import pytest

from verifiers import Attempt, Verifier

N, TIMES = 800, 8
# What stands before and after a run of a text, the run's piece, and the gold answer.
TEXTS = [
    ("1", "\u00a0", "x", "7"),
    ("We get 5 a", "\u00a0", "b", "7"),
    ("Answer: a", "\t", "b", "7"),
    ("It is 5 ", "<!---->", "b", "7"),
    ("It is 5 ", "[asy][/asy]", " of it", "7"),
    ("It is 5 ", "<<1>> ", "b", "7"),
    ("It is 5 ", "`\\boxed{}`", "b", "7"),
    ("It is 5 ", " \n", "b", "7"),
    ("<answer>1", "\t", "x</answer>", "7"),
    ("<answer>1", "1 ", "x</answer>", "7"),
    ("<answer>", "⇒", "5</answer>", "7"),
    ("Answer: B) a", "\t", "x", "B"),
    ("\\boxed{5}", "\t", "x", "7"),
    ("5 a", "\n", "x.", "7"),
    ("", "x", " \u24b6", "7"),
    ("(a) 1 (b) 2", "-\t", "x", "7"),
    ("(a) 1 (b) 2", "\\quad ", "x", "(a) 1 (b) 2"),
    ("(a) 1 (b) 2", "٣", "x", "3:4"),
    ("答案是", "(2", "。", "B"),
    ("It is 5 ", "x=1, ", "b", "7"),
    ("Answer: a", "$5$ ", "b", "3:4"),
    ("≈ ≈ ≈ 1 ", "1:", "x", "3:4"),
    ("", "*", "", "(a) 1 (b) 2"),
    ("", "<s>", "5", "7"),
    ("<think>", "</s>", "</think>5", "7"),
    ("\\boxed{2x", ", x > 0", "}", "3x"),
    ("\\boxed{5 ", "\\quad ", "x = 5}", "7"),
    ("It is 5 a", "é", "x", "7"),
    ('{"answer": "', 'a\\"', "b", "7"),
    ("{", ', "answer" :', "", "7"),
    ("It is 5 ", "<ab> ", "x", "7"),
    ("It is 5", " \t", "x", "7"),
    ("#### ", "Ab\n", "x", "7"),
    ("A. a\n", "\nb", "x", "B"),
    ("It can ", "be, ", "(B).", "B"),
    ("A is ", "A, ", "x", "B"),
]


def seconds(text: str, gold: str) -> float:
    """The least processor time of three verdicts on one text."""
    seconds = []
    for end in ("", " ", "  "):
        with Verifier() as verifier:
            started = time.process_time()
            verifier.verify(Attempt(text + end, gold))
            seconds.append(time.process_time() - started)
    return min(seconds)


@pytest.mark.parametrize(("before", "piece", "after", "gold"), TEXTS)
def test_a_run_takes_linear_time(before, piece, after, gold):
    short, long = (seconds(before + piece * count + after, gold) for count in (N, N * TIMES))
    assert long < 3 * TIMES * max(short, 0.002)  # a quadratic one takes 64 times as long


def test_a_gold_answer_takes_linear_time():
    short, long = (seconds("7", "(a) 1 (b) 2" + "- " * n + "x") for n in (N, N * TIMES))
    assert long < 3 * TIMES * max(short, 0.002)


def test_code_before_a_box_or_a_block_leaves_them_the_answer():
    code = "```\nprint(r'\\boxed{1}')\n" + "x = 1\n" * 40 + "```\n"
    with Verifier() as verifier:
        for end in (r"So \boxed{18}.", "<answer>18</answer>"):
            assert verifier.verify(Attempt(code + end, "18")).verdict == "correct"
