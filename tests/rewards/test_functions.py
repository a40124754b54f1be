"""Custom functions: where they are found, and what they give back."""

import hashlib
import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from rlvr_cli.core import code
from rlvr_cli.rewards import functions
from rlvr_cli.rewards.forms import Question
from rlvr_cli.rewards.functions import (
    FunctionsHere,
    Given,
    Loaded,
    Rewards,
    answering,
)

CODE = """
def words(problem, response): return response.count(problem["word"])
def batch(problems, responses): return [len(r) for r in responses]
def fails(problem, response):
    return 1 / len(response)
def nan(problem, response): return float("nan")
def text(problem, response): return "1"
def short(problems, responses): return [1.0]
def single(problems, responses): return 1.0
def one(problem): return 1
number = 3
class Graded:
    def __call__(self, problem, response, scale=2): return scale
graded = Graded()
"""


@pytest.fixture
def call_function(tmp_path, monkeypatch):
    """Ask a function of the file for two responses, as a worker would."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in [n for n in sys.modules if n == "my" or n.startswith("user_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.py").write_text(CODE)

    def ask(spec: str, *responses: str) -> Rewards:
        question = Question(0, [{"word": "a"}] * len(responses), list(responses))
        return Rewards.model_validate(answering(str(tmp_path), [spec])(vars(question)))

    return ask


def given(reply: Rewards | dict) -> list:
    """Each reward, with the figures beside it if there are any."""
    rewards = Rewards.model_validate(reply).by_response
    return [{"score": one.score, **one.figures} if one.figures else one.score for one in rewards]


def test_a_file_a_module_and_an_entry_point_are_one_function(call_function, monkeypatch):
    points = EntryPoints([EntryPoint("installed", "my:words", functions.GROUP)])
    monkeypatch.setattr(code, "entry_points", lambda group: points)
    source = hashlib.sha256(CODE.encode()).hexdigest()
    for spec in ("my.py:words", "my:words", "my.words", "installed"):
        reply = call_function(spec, "a banana", "b")
        assert reply == Rewards(source=source, by_response=[Given(score=4.0), Given(score=0.0)])
    assert given(call_function("my.py:batch", "a banana", "b")) == [8.0, 1.0]
    assert given(call_function("my.py:graded", "b")) == [2.0]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("my.py:fails", "line 5: ZeroDivisionError: division by zero"),
        ("my.py:nan", "it returned nan, not a finite number"),
        ("my.py:text", "it returned '1', not a finite number"),
        ("my.py:short", "it returned 1 rewards for 2 responses"),
        ("my.py:single", "it returned 1.0, not a list of rewards"),
        ("my.py:one", "my.py:one: a reward takes (problem, response) or (problems, responses)"),
        ("my.py:number", "my.py:number: number is not a function"),
        ("my.py:gone", "my.py:gone: it has no function gone"),
        ("my.py", "my.py: name one of its functions after a colon; it has words, batch, fails,"),
        ("gone.py", "gone.py: no such file"),
        ("gone.module:f", "gone.module:f: ModuleNotFoundError: No module named 'gone'"),
        ("installed", "installed: no such reward; installed are none"),
    ],
)
def test_what_goes_wrong_is_said_in_a_line(call_function, spec, message):
    error = call_function(spec, "", "a").error
    assert error.startswith(message)
    assert "\n" not in error


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f(:", "SyntaxError: invalid syntax (own.py, line 1)"),
        ("import sys\nsys.exit(1)", "line 2: SystemExit: 1"),
        ("x = 1", "name one of its functions after a colon; it has none"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_said_in_a_line(call_function, tmp_path, code, message):
    (tmp_path / "own.py").write_text(code)
    assert call_function("own.py", "a").error == f"own.py: {message}"


def test_one_function_needs_no_name(call_function, tmp_path):
    (tmp_path / "json.py").write_text("def _own(x): pass\ndef only(problem, response): return 7")
    assert given(call_function("json.py", "a")) == [7.0]
    (tmp_path / "json.py").write_text("def other(a, b): return 7\ndef reward(a, b): return 8")
    assert given(call_function("json.py", "a")) == [8.0]
    assert "only" not in vars(sys.modules["json"])


def test_one_helper_never_stands_for_another_of_its_name(call_function, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "beside.py").write_text("VALUE = 1.0")
        code = "from beside import VALUE\ndef reward(problem, response): return VALUE"
        (tmp_path / name / f"{name}.py").write_text(code)
    reply = answering(str(tmp_path), ["one/one.py", "two/two.py"])({})
    assert reply["error"] == "two/two.py: beside.py is beside another such file as well; rename one"


def test_lists_in_the_other_order_and_what_is_no_reward(call_function, tmp_path):
    (tmp_path / "own.py").write_text(
        "def own(responses, problems): return [len(r) + (p['word'] == 'a') for r, p in "
        "zip(responses, problems)]"
    )
    assert given(call_function("own.py", "four", "")) == [5.0, 1.0]
    (tmp_path / "own.py").write_text("def own(problem, response): return [0.98] * 99")
    assert call_function("own.py", "").error.endswith(
        "0.98, 0.98, 0.98, ...], not a finite number or [(characters, reward), …]"
    )


ROWS = [{"id": "p", "problem": "1 + 1?", "answer": "2", "level": 3}] * 2
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1?"}]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("f(completions): return [len(c) for c in completions]", [1.0, 3.0]),
        ("f(completions, answer, level): return [n + int(answer[0]) for n in level]", [5, 5]),
        ("f(completions, ground_truth, **more): return [float(g) for g in ground_truth]", [2, 2]),
        ("f(completions, **columns): return columns['level']", [3.0, 3.0]),
        ("f(prompts, completions, level=None): return [p == '1 + 1?' for p in prompts]", [1, 1]),
        ("f(completions, step, other=5): return [step + other] * 2", [12.0, 12.0]),
        ("f(completions): return [None, True]", [None, 1.0]),
        ("f(solution_str, ground_truth, score=1.5): return score * (solution_str == ground_truth)",
         [1.5, 0.0]),
        ("f(data_source, solution_str, ground_truth, extra_info=None): return extra_info['level']",
         [3.0, 3.0]),
        ("f(solution_str): return {'score': len(solution_str), 'acc': True, 'pred': 'a'}",
         [{"score": 1.0, "acc": 1.0}, {"score": 3.0, "acc": 1.0}]),
        ("f(response, problem, step): return step", [7.0, 7.0]),
        ("f(problem, response, step=0): return step", [7.0, 7.0]),
        ("f(problems, responses, step): return [step, None]", [7.0, None]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("definition", ["def", "async def"])
def test_every_form_gets_its_arguments_by_name(tmp_path, call_function, code, expected, definition):
    (tmp_path / "own.py").write_text(f"{definition} {code}")
    question = {"function": 0, "rows": ROWS, "responses": ["2", "not"], "step": 7}
    answer = answering(str(tmp_path), ["own.py"])
    assert given(answer(question)) == expected
    is_trl = "completions" in code
    form = "TRL's form" if is_trl else "verl's form" if "solution_str" in code else None
    (about,) = Loaded.model_validate(answer({})).functions
    assert form is None or about.form == form
    assert about.takes_group == (is_trl or "problems" in code or definition != "def")
    names = {}
    exec(f"{definition} {code}", names)  # the same function as an object
    here = FunctionsHere({"f": names["f"]})
    assert given(here(question)) == expected
    (about_object,) = Loaded.model_validate(here({})).functions
    assert about_object == about.model_copy(update={"source": ""})  # Python does not know its text


def test_a_chat_is_a_list_of_turns_in_trl_s_form(tmp_path, call_function):
    (tmp_path / "own.py").write_text(
        "def own(prompts, completions, seen=[]):\n"
        "    assert [p[-1]['content'] for p in prompts] == ['1 + 1?'] * 2\n"
        "    return [c[0]['role'] == 'assistant' and len(c[0]['content']) for c in completions]\n"
    )
    answer = answering(str(tmp_path), ["own.py"])
    question = {"function": 0, "rows": ROWS, "responses": ["2", "not"]}
    assert given(answer({**question, "chat": CHAT})) == [1.0, 3.0]
    assert given(answer(question)) == [1.0, 3.0]  # of texts too, since it fails on them
    (tmp_path / "own.py").write_text("def own(completions): return [c.role for c in completions]")
    error = answering(str(tmp_path), ["own.py"])(question)["error"]
    assert error.startswith("line 1: AttributeError: 'str' object has no attribute 'role'")
    assert error.endswith("; its completions are texts")


def test_a_fault_on_chats_of_a_function_of_chats_is_said(tmp_path, call_function):
    (tmp_path / "own.py").write_text(
        "def own(completions): return [float(c[0]['content']) for c in completions]"
    )
    error = call_function("own.py", "2", "not").error
    start = (
        "line 1: ValueError: could not convert string to float: 'not'; its completions are chats"
    )
    assert error.startswith(f"{start}, since it fails on the other kind (line 1: TypeError: string")


def test_a_fault_on_texts_is_no_reason_to_take_chats(tmp_path, call_function):
    (tmp_path / "own.py").write_text(
        "def own(completions): return [1 / (len(c) - 3) for c in completions]"
    )
    error = call_function("own.py", "2", "not").error
    assert error == "line 1: ZeroDivisionError: division by zero; its completions are texts"


def test_coroutines_of_a_call_run_together(tmp_path, call_function):
    (tmp_path / "own.py").write_text(
        "import asyncio\nbarrier = asyncio.Barrier(2)\n"
        "async def own(problem, response): return await barrier.wait() >= 0\n"
    )
    answer = answering(str(tmp_path), ["own.py"])
    for _ in range(2):  # one event loop, so that what a module keeps can be used again
        question = {"function": 0, "rows": ROWS, "responses": ["a", "b"]}
        assert given(answer(question)) == [1.0, 1.0]
