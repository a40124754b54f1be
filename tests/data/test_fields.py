"""Problems in the shapes that people have them, and in the layouts of published sets."""

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from conftest import invoke

from rlvr_cli.core.errors import UserError
from rlvr_cli.data.chats import is_chat, lone_turn, read_chat
from rlvr_cli.data.fields import FieldReader
from rlvr_cli.data.golds import gold_and_place
from rlvr_cli.data.paths import BadRowError
from rlvr_cli.data.problems import load_problems

SUMS = [(f"What is {n} + {n}?", str(2 * n)) for n in range(2, 10)]
"""The same eight problems in every shape."""
Row = Callable[[str, str], dict]


def lines(row: Row) -> Callable[[Path], None]:
    rows = [row(*item) for item in SUMS]
    return lambda path: path.write_text("".join(json.dumps(item) + "\n" for item in rows))


def table(delimiter: str, *names: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with path.open("w", newline="") as file:
            csv.writer(file, delimiter=delimiter).writerows([names, *SUMS])

    return write


def parquet(row: Row) -> Callable[[Path], None]:
    rows = [row(*item) for item in SUMS]
    return lambda path: pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def packed(write: Callable[[Path], None]) -> Callable[[Path], None]:
    def then_pack(path: Path) -> None:
        write(path)
        path.write_bytes(gzip.compress(path.read_bytes()))

    return then_pack


def array(indent: int | None) -> Callable[[Path], None]:
    rows = [{"problem": p, "answer": a} for p, a in SUMS]
    return lambda path: path.write_text(json.dumps(rows, indent=indent))


def dapo(problem: str, answer: str) -> dict:
    return {
        "data_source": "math_dapo",
        "prompt": [{"content": f"Solve it.\n\n{problem}", "role": "user"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": answer, "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": "9a9b6eb4-a1cb-49d1-8c1e-62eaf2f74079"},
    }


def verl(problem: str, answer: str) -> dict:
    return {
        "data_source": "openai/gsm8k",
        "prompt": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": problem},
        ],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": [answer]},
        "extra_info": {"split": "train", "index": 0, "answer": "long", "question": problem},
    }


def prime(problem: str, answer: str) -> dict:
    return {
        "problem_id": f"vfm_{answer}",
        "task_type": "verifiable_math",
        "prompt": problem,
        "gold_standard_solution": "because",
        "verification_info": json.dumps({"ground_truth": answer}),
        "metadata": "{}",
    }


def chat(problem: str, answer: str) -> dict:
    return {
        "messages": [
            {"role": "system", "content": "You add."},
            {"role": "user", "content": problem},
            {"role": "assistant", "content": f"I add.\nSo \\boxed{{{answer}}}."},
        ]
    }


BOXED = "First \\boxed{{1}}? No: $\\boxed{{{}}}$."
SHAPES: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "csv": ("a.csv", table(",", "problem", "answer"), "problem from problem"),
    "gsm8k on the hub": (
        "a.parquet",
        parquet(lambda p, a: {"question": p, "answer": f"It is <<1+1={a}>>{a}.\n#### {a}"}),
        "problem from question, answer from answer behind ####",
    ),
    "solution": (
        "a.jsonl",
        lines(lambda p, a: {"problem": p, "solution": BOXED.format(a)}),
        "answer from solution's last box",
    ),
    "solution that is the answer": (
        "a.jsonl",
        lines(lambda p, a: {"problem": p, "solution": a}),
        "answer from solution",
    ),
    "ground_truth": ("a.jsonl", lines(lambda p, a: {"question": p, "ground_truth": a}), "_truth"),
    "input, target": ("a.jsonl", lines(lambda p, a: {"input": p, "target": a}), "from target"),
    "instruction, output": (
        "a.jsonl",
        lines(lambda p, a: {"instruction": p, "input": "", "output": a}),
        "problem from instruction, answer from output",
    ),
    "instruction, input, output": (
        "a.jsonl",
        lines(lambda p, a: {"instruction": "Add.", "input": p, "output": a}),
        "problem from instruction+input",
    ),
    "messages": ("a.jsonl", lines(chat), "problem from messages's last user turn"),
    "conversations of parts": (
        "a.jsonl",
        lines(
            lambda p, a: {
                "prompt": [{"role": "user", "content": [{"type": "text", "text": p}]}],
                "gold": a,
            }
        ),
        "answer from gold",
    ),
    "dapo-17k parquet": ("a.parquet", parquet(dapo), "answer from reward_model.ground_truth"),
    "dapo-17k jsonl": ("a.jsonl", lines(dapo), "answer from reward_model.ground_truth"),
    "verl": ("a.parquet", parquet(verl), "answer from reward_model.ground_truth"),
    "prime": ("a.jsonl", lines(prime), "answer from verification_info.ground_truth"),
    "json array": ("a.json", array(None), "problem from problem"),
    "json array over lines": ("a.json", array(2), "problem from problem"),
    "csv with semicolons": ("a.csv", table(";", "problem", "answer"), "problem from problem"),
    "tsv": ("a.tsv", table("\t", "problem", "answer"), "problem from problem"),
    "capitals": ("a.csv", table(",", "Question", "Final Answer"), "answer from final_answer"),
    "gzipped": (
        "a.jsonl.gz",
        packed(lines(lambda p, a: {"problem": p, "answer": a})),
        "problem from problem",
    ),
    "gzipped table": ("a.csv.gz", packed(table(";", "Problem", "Answer")), "problem from problem"),
    "math": (
        "a.jsonl",
        lines(
            lambda p, a: {
                "problem": p,
                "level": "Level 5",
                "type": "Algebra",
                "solution": BOXED.format(a),
            }
        ),
        "answer from solution's last box",
    ),
    "deepscaler": (
        "a.json",
        lines(lambda p, a: {"problem": p, "answer": a, "solution": BOXED.format(a)}),
        "answer from answer",
    ),
    "big-math": (
        "a.parquet",
        parquet(
            lambda p, a: {
                "problem": p,
                "answer": a,
                "source": "cn_k12",
                "domain": ["Algebra"],
                "llama8b_solve_rate": 0.5,
            }
        ),
        "answer from answer",
    ),
    "numinamath-cot": (
        "a.parquet",
        parquet(
            lambda p, a: {
                "source": "cn_k12",
                "problem": p,
                "solution": BOXED.format(a),
                "messages": [
                    {"content": p, "role": "user"},
                    {"content": BOXED.format(a), "role": "assistant"},
                ],
            }
        ),
        "problem from problem, answer from solution's last box",
    ),
    "numinamath-1.5": (
        "a.parquet",
        parquet(
            lambda p, a: {
                "problem": p,
                "solution": "so",
                "answer": a,
                "problem_type": "Algebra",
                "question_type": "math-word-problem",
                "problem_is_valid": "Yes",
                "solution_is_valid": "Yes",
                "source": "amc",
                "synthetic": False,
            }
        ),
        "answer from answer",
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_read_and_said(tmp_path, name):
    file, write, words = SHAPES[name]
    write(tmp_path / file)
    found = load_problems(str(tmp_path / file), "train")
    assert [problem.answer for problem in found.problems] == [answer for _, answer in SUMS]
    for problem, (text, _) in zip(found.problems, SUMS, strict=True):
        assert problem.problem.endswith(text)
    assert words in found.fields_read


def test_the_command_line_reads_every_shape(tmp_path):
    said_of = {}
    has_system = {"messages", "verl"}
    for name in SHAPES.keys() - has_system:
        file, write, words = SHAPES[name]
        (tmp_path / name).mkdir()
        write(tmp_path / name / file)
        said_of[str(tmp_path / name / file)] = words
    result = invoke("eval", *said_of, "-n", 1, "--max-tokens", 1, "--limit", 1)
    assert result.exit_code == 0, result.stderr
    for name in has_system:
        file, write, words = SHAPES[name]
        write(tmp_path / file)
        refusal = invoke("eval", tmp_path / file, "-n", 1, "--max-tokens", 1).stderr
        assert words in refusal
        assert "its chat template leaves out the system turn; put what it says" in refusal
    for path, words in said_of.items():
        assert any(Path(path).name in line and words in line for line in result.stderr.splitlines())


@pytest.mark.parametrize(
    "yaml",
    [
        "source: a.jsonl\nfields: {problem: item.text, answer: 'item.key[1].value'}\n",
        "source: b.json\n",
    ],
)
def test_a_yaml_of_two_lines_and_of_nested_fields(tmp_path, yaml):
    lines(lambda p, a: {"item": {"text": p, "key": [{"value": "x"}, {"value": a}]}})(
        tmp_path / "a.jsonl"
    )
    array(None)(tmp_path / "b.json")
    (tmp_path / "mine.yaml").write_text(yaml)
    found = load_problems(str(tmp_path / "mine.yaml"), "train").problems
    assert [(item.problem, item.answer) for item in found] == SUMS


def test_turns_before_a_problem_are_kept_and_its_prompt_stands(tmp_path):
    for write, turns in (
        (lines(verl), (("system", "Be brief."),)),
        (lines(chat), (("system", "You add."),)),
        (lines(dapo), ()),
    ):
        write(tmp_path / "a.jsonl")
        found = load_problems(str(tmp_path / "a.jsonl"), "train")
        assert (found.problems[0].turns, found.prompt) == (turns, "plain")
        assert "prompt" not in found.problems[0].extra
        assert found.problems[0].is_chat
    lines(lambda p, a: {"problem": p, "answer": a})(tmp_path / "a.jsonl")
    assert load_problems(str(tmp_path / "a.jsonl"), "train").prompt == "think_answer"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "p", "truth": 4}, "no field answer; it has question, truth: .*answer=truth"),
        ({"text": "p", "answer": 4}, "no field problem; it has text, answer: .*problem=text"),
        (
            {"question": "p", "meta": {"label": 4, "n": 1}},
            r"it has question, meta.label, meta.n: .*answer=meta\.label",
        ),
        ({"problem": "p", "solution": "so\nit is 4"}, "field solution has no box and no ####"),
        ({"problem": "p", "answer": "notfound"}, "field answer is notfound"),
        ({"prompt": [{"role": "assistant", "content": "p"}], "answer": 4}, "no user turn"),
        ({"prompt": [{"role": "user", "image": "p"}], "answer": 4}, "a turn without role and text"),
        ({"prompt": ["p"], "answer": 4}, "field prompt is not a text with something in it"),
        ({}, "no field problem; it has no fields"),
    ],
)
def test_a_row_without_its_field_says_what_it_has(tmp_path, row, message):
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(UserError, match=r"a\.jsonl:1: .*" + message):
        load_problems(str(tmp_path / "a.jsonl"), "train")


def test_a_field_that_the_user_names_is_the_only_one(tmp_path):
    rows = [{"q": {"text": "1 + 1"}, "key": ["2"], "answer": 9}, {"q": {"text": "p"}, "answer": 9}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields = {"problem": "Q.text", "answer": "key[0]", "id": "key[-1]"}
    source = str(tmp_path / "a.jsonl")
    with pytest.raises(UserError, match=r"a.jsonl:2: no key\[0\], which --field answer names; it"):
        load_problems(source, "train", fields=fields)
    (found,) = load_problems(source, "train", fields=fields, skip_bad=True).problems
    assert (found.id, found.problem, found.answer) == ("2", "1 + 1", "2")


def test_a_field_of_derivations_has_no_bare_one_behind_the_first(tmp_path):
    answers = ["1 + 1 is 2\n#### 2", "18", "It is 2 + 1.\nSo it is 3.", "#### 4"]
    rows = [{"question": f"p{n}", "answer": answer} for n, answer in enumerate(answers)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = str(tmp_path / "a.jsonl")
    with pytest.raises(UserError, match=r"a\.jsonl:3: field answer has no box and no #### before"):
        load_problems(source, "train")
    found = load_problems(source, "train", skip_bad=True)
    assert [item.answer for item in found.problems] == ["2", "18", "4"]
    assert found.fields_read.endswith("answer from answer behind #### (2), answer (1)")
    unbroken = load_problems(source, "train", fields={"answer": "answer"}).problems[2].answer
    assert unbroken == answers[2]


def test_a_row_to_learn_may_be_a_conversation_of_prompt_and_completion():
    turns = ("user", "1+1"), ("assistant", "2")
    prompt, completion = ([{"role": role, "content": text}] for role, text in turns)
    row = {"prompt": prompt, "completion": completion}
    read = FieldReader().problem(row, "1", need_answer=False, need_response=True)
    assert (read.problem, read.extra) == ("1+1", {"response": "2"})
    with pytest.raises(BadRowError, match="field response is not a text"):
        FieldReader().problem({**row, "completion": prompt}, "1", False, need_response=True)


USER, REPLY = {"role": "user", "content": "q"}, {"from": "gpt", "value": "a"}


def test_a_chat_is_its_turns_the_last_question_and_what_is_said_to_it():
    system = {"role": "developer", "content": [{"text": "be "}, {"text": "brief"}]}
    assert read_chat([system, USER], "f") == ((("system", "be brief"),), "q", None)
    assert read_chat([USER, REPLY, USER, REPLY], "f") == (
        (("user", "q"), ("assistant", "a")),
        "q",
        "a",
    )


@pytest.mark.parametrize("value", [[], "q", ["q"], None, {"role": "user"}])
def test_anything_else_is_none(value):
    assert not is_chat(value)


@pytest.mark.parametrize("chat", [[REPLY], [USER, REPLY, REPLY], [{"role": "user"}]])
def test_a_chat_without_a_question_at_its_end_is_refused(chat):
    with pytest.raises(BadRowError, match="field f"):
        read_chat(chat, "f")


@pytest.mark.parametrize("words", [None, "a", ["a"], [], [USER], [USER, REPLY], [REPLY, REPLY], {}])
def test_only_an_assistants_turn_alone_is_its_text(words):
    assert lone_turn([REPLY], "f") == "a"
    assert lone_turn(words, "f") is words


DERIVED = "1 + 1 is\n2"
BOTH = "so \\boxed{3}\n#### 4"


@pytest.mark.parametrize(
    ("value", "rule", "found"),
    [
        (DERIVED, "text", (DERIVED, "")),
        (BOTH, "text", ("4", " behind ####")),
        (BOTH, "hashes", ("4", " behind ####")),
        ("so \\boxed{3}", "boxed", ("3", "'s last box")),
        (BOTH, "long", ("4", " behind ####")),
        ("\\boxed{1}, no: \\boxed{\\frac12}", "long", ("\\frac12", "'s last box")),
        ("x" * 64, "long", ("x" * 64, "")),
        ([3, 27.0, "\\boxed{5}"], "text", ("3, 27, 5", "")),
        (["so it is\n\\boxed{5}"], "long", ("5", "")),
        ('["1,2"]', "text", ("1,2", "")),  # Skywork-OR1: JSON in a text
        ('["\\\\frac{3}{4}"]', "text", ("\\frac{3}{4}", "")),
        ("[1, 2]", "text", ("[1, 2]", "")),  # an interval, as far as one can see
        (0.5, "text", ("0.5", "")),
        ("\frac{1}{2}", "text", ("\\frac{1}{2}", "")),  # one backslash in JSON
        ("\text{cm}", "text", ("\\text{cm}", "")),
    ],
)
def test_a_gold_answer_and_where_it_stood(value, rule, found):
    assert gold_and_place(value, rule) == found


@pytest.mark.parametrize(
    ("value", "rule", "reason"),
    [
        (DERIVED, "long", "field answer has no box and no #### before the gold answer"),
        ("x" * 65, "long", "field answer has no box and no ####"),
        ("18", "hashes", "field answer has no #### before the gold answer"),
        ("18 #### 18", "boxed", "field answer has no box around the gold answer"),
        (["18"], "hashes", "field answer is neither a text nor a number"),
        ("so\n####  ", "text", "field answer is empty"),
        (True, "text", "field answer is neither a text nor a number"),
        (float("nan"), "text", "field answer is not a finite number"),
        ("1" * 100_000, "text", "field answer is longer than"),
    ],
)
def test_a_field_without_a_gold_answer_says_why(value, rule, reason):
    with pytest.raises(BadRowError, match=reason):
        gold_and_place(value, rule)


def test_a_problem_in_two_fields_is_both():
    row = {"Body": "There are 6 pears.", "Question": "How many halves?", "Answer": "12.0"}
    problem = FieldReader().problem(row, "x")
    assert (problem.problem, problem.answer) == ("There are 6 pears.\n\nHow many halves?", "12.0")


def test_a_box_in_a_proof_is_no_answer():
    row = {"problem": "Prove it.", "solution": "Let \\boxed{1} be the first.", "answer": "proof"}
    with pytest.raises(BadRowError, match="field answer is proof"):
        FieldReader().problem(row, "x")
    assert FieldReader().problem({**row, "answer": ""}, "x").answer == "1"


def test_a_hint_names_no_field_of_positions():
    row = {"doc": {"gold_index": 0, "id": 7, "choices": ["12"]}, "response": "12"}
    with pytest.raises(BadRowError) as refused:
        FieldReader().judged(row, need_answer=True)
    assert "doc.gold_index" in str(refused.value)  # among the fields that the row has
    assert "--field answer=NAME, or the problem set" in str(refused.value)
    with pytest.raises(BadRowError, match=r"--field answer=doc\.gold_text,"):
        FieldReader().judged({**row, "doc": {"gold_index": 0, "gold_text": "12"}}, need_answer=True)
