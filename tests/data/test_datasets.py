"""The shipped problem sets: rows in the shape of the hub, local copies, every gold at hand."""

import json

import pytest

from rlvr_cli.config.built_in import canonical, known_sets
from rlvr_cli.config.sections import DataConfig
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Problem
from rlvr_cli.data.problems import ProblemSet, load_problems
from rlvr_cli.data.sources import find_spec
from rlvr_cli.setup.plan import choose_format
from verifiers import Verdict, Verifier

SOLUTION = r"First \boxed{1}? No: $\boxed{\frac{3}{4}}$."
HUB_ROWS = {
    "gsm8k": ({"question": "p", "answer": "2 + 2 = 4\n#### 4"}, "4"),
    "math500": ({"problem": "p", "answer": r"\frac12", "unique_id": "u", "level": 2}, r"\frac12"),
    "math": ({"problem": "p", "solution": SOLUTION, "type": "Algebra"}, r"\frac{3}{4}"),
    "aime24": ({"id": 60, "problem": "p", "answer": "204", "year": "2024"}, "204"),
    "aime25": ({"id": 0, "problem": "p", "answer": "70"}, "70"),
    "aime26": ({"problem_idx": 1, "problem": "p", "answer": 277}, "277"),
    "hmmt-feb25": ({"problem_idx": 1, "problem": "p", "answer": "103", "problem_type": []}, "103"),
    "brumo25": ({"problem_idx": 1, "problem": "p", "answer": "30", "problem_type": []}, "30"),
    "olymmath-easy": ({"unique_id": "u", "problem": "p", "answer": "1", "subject": "s"}, "1"),
    "olymmath-hard": ({"unique_id": "u", "problem": "p", "answer": "1", "subject": "s"}, "1"),
    "gsm-plus": ({"question": "p", "answer": "None", "perturbation_type": "t"}, "None"),
    "amc23": ({"id": 0, "question": "p", "answer": 27.0}, "27"),
    "minerva": ({"question": "p", "answer": "1e-3"}, "1e-3"),
    "olympiadbench": ({"id": 1606, "question": "p", "final_answer": ["$2$", "$3$"]}, "$2$, $3$"),
    "dapo-math-17k": ({"prompt": "p", "solution": "34", "ability": "MATH"}, "34"),
    "mmlu": ({"question": "p", "choices": ["1", "2"], "answer": 1, "subject": "s"}, "B"),
    "mmlu-pro": ({"question": "p", "options": ["1", "2", "4"], "answer": "C"}, "C"),
    "deepscaler": ({"problem": "p", "answer": "-\\frac{2}{3}", "solution": ""}, "-\\frac{2}{3}"),
}


def test_every_shipped_set_is_tested():
    assert set(HUB_ROWS) | {"chains"} == set(known_sets())


@pytest.mark.parametrize("name", HUB_ROWS)
def test_a_row_of_the_hub_is_read_from_a_local_copy(tmp_path, name):
    row, gold = HUB_ROWS[name]
    spec = find_spec(name)
    split = spec.split_names()[0]
    (tmp_path / f"{name}_{split}.jsonl").write_text(json.dumps(row) + "\n")
    problems = load_problems(name, split, root=str(tmp_path))
    (problem,) = problems.problems
    options = row.get("choices", row.get("options", []))
    lines = [f"{letter}. {text}" for letter, text in zip("ABC", options, strict=False)]
    assert (problem.problem, problem.answer) == ("\n".join(["p", *lines]), gold)
    assert (problems.prompt, problems.answer_format) == (
        spec.prompt,
        spec.answer_format,
    )
    with Verifier() as verifier:
        assert verifier.check_gold(gold)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("AIME_2026", "aime26"),
        ("hmmt_feb_2025", "hmmt-feb25"),
        ("BRUMO-2025", "brumo25"),
        ("OlymMATH_hard", "olymmath-hard"),
        ("GSMPlus", "gsm-plus"),
    ],
)
def test_names_that_people_type_find_their_set(asked, name):
    assert canonical(asked) == name
    assert find_spec(name).license.startswith(("CC BY", "MIT"))


def test_the_levels_of_math_are_chosen_by_their_field(tmp_path):
    rows = [{"problem": f"p{n}", "solution": SOLUTION, "level": f"Level {n}"} for n in range(1, 6)]
    (tmp_path / "math_test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    actual = load_problems("math", "test", root=str(tmp_path), where="level=Level 4,Level 5")
    assert [problem.problem for problem in actual.problems] == ["p4", "p5"]


def test_a_local_copy_may_be_named_plainly_or_lie_in_a_folder(tmp_path):
    (tmp_path / "aime24.jsonl").write_text('{"problem": "p", "answer": 1}\n')
    assert load_problems("aime24", "test", root=str(tmp_path)).problems[0].answer == "1"
    (tmp_path / "gsm8k").mkdir()
    (tmp_path / "gsm8k" / "train.csv").write_text("question,answer\np,#### 3\n")
    assert load_problems("gsm8k", "train", root=str(tmp_path)).problems[0].answer == "3"
    with pytest.raises(UserError, match=r"holds no gsm8k_test.jsonl or gsm8k/test.jsonl"):
        load_problems("gsm8k", "test", root=str(tmp_path))


@pytest.mark.parametrize(
    ("name", "row", "reason"),
    [
        ("math", {"problem": "p", "solution": "so it is 3"}, "field solution has no box around"),
        ("gsm8k", {"question": "p", "answer": "so it is 3"}, "field answer has no ####"),
        ("olympiadbench", {"question": "p", "final_answer": []}, "neither a text nor a number"),
        ("minerva", {"question": "p"}, "no field answer; it has question"),
    ],
)
def test_a_gold_that_is_not_found_is_a_bad_line(tmp_path, name, row, reason):
    (tmp_path / f"{name}_test.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(UserError, match=reason):
        load_problems(name, "test", root=str(tmp_path))


@pytest.mark.parametrize(
    ("name", "count"), [("aime24", 30), ("amc23", 40), ("math500", 500), ("gsm8k", 1319)]
)
def test_every_gold_at_hand_is_read_and_equals_itself(shared_data, name, count):
    problems = load_problems(name, "test", root=str(shared_data)).problems
    assert len(problems) == count
    assert len({problem.id for problem in problems}) == count
    with Verifier() as verifier:
        unreadable = [p.id for p in problems if not verifier.check_gold(p.answer)]
        unequal = [p.id for p in problems if verifier.equal(p.answer, p.answer) != Verdict.CORRECT]
    assert (unreadable, unequal) == ([], [])


@pytest.mark.parametrize(
    ("chosen", "template", "expected"),
    [
        ({}, ("plain", "think_answer"), "think_answer"),
        ({}, ("think_answer", None), "think_answer"),
        ({"prompt": "boxed"}, ("think_answer", "think_answer"), "boxed"),
        ({"prompt": "mine.txt"}, ("think_answer", "think_answer"), "any"),
        ({"prompt": "plain"}, ("think_answer", "think_answer"), "any"),
        ({"prompt": "boxed", "answer_format": "any"}, ("plain", None), "any"),
    ],
)
def test_answers_are_judged_as_the_prompt_asks_for_them(chosen, template, expected):
    problems = ProblemSet("set", (Problem("1", "p", "1"),), *template)
    assert choose_format(problems, DataConfig(**chosen)) == expected
