"""Functions of one's own: where they are found, and what they give back."""

import hashlib
import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from rlvr_cli.rewards import functions
from rlvr_cli.rewards.functions import answering

CODE = """
def words(problem, response): return response.count(problem["word"])
def batch(problems, responses): return [len(r) for r in responses]
def fails(problem, response):
    return 1 / len(response)
def nan(problem, response): return float("nan")
def text(problem, response): return "1"
def none(problem, response): pass
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
    for name in [n for n in sys.modules if n == "my" or n.startswith("reward_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.py").write_text(CODE)

    def ask(spec: str, *responses: str) -> dict:
        rows = [{"word": "a"}] * len(responses)
        return answering(str(tmp_path), [spec])(
            {"function": 0, "rows": rows, "responses": list(responses)}
        )

    return ask


def test_a_file_a_module_and_an_entry_point_are_one_function(call_function, monkeypatch):
    points = EntryPoints([EntryPoint("installed", "my:words", functions.GROUP)])
    monkeypatch.setattr(functions, "entry_points", lambda group: points)
    source = hashlib.sha256(CODE.encode()).hexdigest()
    for spec in ("my.py:words", "my:words", "my.words", "installed"):
        assert call_function(spec, "a banana", "b") == {"source": source, "rewards": [4.0, 0.0]}
    assert call_function("my.py:batch", "a banana", "b")["rewards"] == [8.0, 1.0]
    assert call_function("my.py:graded", "b")["rewards"] == [2.0]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("my.py:fails", "line 5: ZeroDivisionError: division by zero"),
        ("my.py:nan", "it returned nan, not a finite number"),
        ("my.py:text", "it returned '1', not a finite number"),
        ("my.py:none", "it returned None, not a finite number"),
        ("my.py:short", "it returned 1 rewards for 2 responses"),
        ("my.py:single", "TypeError: 'float' object is not iterable"),
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
    error = call_function(spec, "", "a")["error"]
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
    assert call_function("own.py", "a")["error"] == f"own.py: {message}"


def test_one_function_needs_no_name(call_function, tmp_path):
    (tmp_path / "json.py").write_text("def _own(x): pass\ndef only(problem, response): return 7")
    assert call_function("json.py", "a")["rewards"] == [7.0]
    (tmp_path / "json.py").write_text("def other(a, b): return 7\ndef reward(a, b): return 8")
    assert call_function("json.py", "a")["rewards"] == [8.0]
    assert "only" not in vars(sys.modules["json"])


def test_one_helper_never_stands_for_another_of_its_name(call_function, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "beside.py").write_text("VALUE = 1.0")
        code = "from beside import VALUE\ndef reward(problem, response): return VALUE"
        (tmp_path / name / f"{name}.py").write_text(code)
    reply = answering(str(tmp_path), ["one/one.py", "two/two.py"])({})
    assert reply["error"] == "two/two.py: beside.py is beside another reward as well; rename one"


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        ("problem, response", 4.0),
        ("response, problem", 4.0),
        ("response, problem, scale=2", 4.0),
        ("problem, completion", 4.0),
        ("row, response", 4.0),
        ("response, answer, **more", "(response, answer, **more)"),
        ("prompt, response", "(prompt, response)"),
        ("response, row", "(response, row)"),
        ("a, problem", "(a, problem)"),
        ("completions, answer, **more", "a function of TRL's form needs three lines around it"),
        ("prompts, completions", "a function of TRL's form needs three lines around it"),
    ],
)
def test_a_parameter_gets_what_its_name_says_or_the_function_is_refused(
    call_function, tmp_path, signature, expected
):
    names = {"response": "len(response)", "completion": "len(completion)"}
    body = next((text for name, text in names.items() if name in signature), "0")
    (tmp_path / "own.py").write_text(f"def own({signature}): return {body}")
    if isinstance(expected, float):
        assert call_function("own.py", "four")["rewards"] == [expected]
    else:
        error = call_function("own.py", "four")["error"]
        assert error.startswith("own.py: a reward takes (problem, response) or (problems, respon")
        assert expected in error


def test_lists_in_the_other_order_and_what_is_no_reward(call_function, tmp_path):
    (tmp_path / "own.py").write_text(
        "def own(responses, problems): return [len(r) + (p['word'] == 'a') for r, p in "
        "zip(responses, problems)]"
    )
    assert call_function("own.py", "four", "")["rewards"] == [5.0, 1.0]
    (tmp_path / "own.py").write_text("async def own(problem, response): return 1")
    assert call_function("own.py", "")["error"].endswith("not async (problem, response)")
    (tmp_path / "own.py").write_text("def own(problem, response): return [0.98] * 99")
    assert call_function("own.py", "")["error"].endswith(
        "0.98, 0.98, 0.98, ...], not a finite number"
    )
