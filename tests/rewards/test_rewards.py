"""The user's reward functions during sampling: values, limits, and files that change."""

import asyncio
import hashlib
import inspect
import os
import signal
import sys
import threading
from dataclasses import asdict, replace

import pytest
from small_groups import RIGHT, WRONG, made_group, made_prompt
from small_trainer import Judge, Tokenizer

from rlvr_cli.algorithm.choices import ALGORITHMS
from rlvr_cli.algorithm.kinds import Advantage
from rlvr_cli.algorithm.reward import RewardConfig
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Completion, Problem
from rlvr_cli.evaluation.measure import rollout_metrics
from rlvr_cli.rewards.forms import Question
from rlvr_cli.rewards.functions import answering
from rlvr_cli.rewards.rewarder import Rewarder
from rlvr_cli.rollout.sampler import Sampler
from verifiers import Verdict


@pytest.fixture
def make_rewarder(tmp_path, monkeypatch):
    """Open the rewards of a file; all is closed at the end."""
    opened = []
    monkeypatch.chdir(tmp_path)

    def make(
        code: str, *functions: str, advantage: Advantage | None = None, **settings
    ) -> Rewarder:
        (tmp_path / "my.py").write_text(code)
        config = RewardConfig(functions=functions or ("my.py",), workers=1, **settings)
        opened.append(Rewarder(config, max_tokens=10, advantage=advantage))
        return opened[-1]

    yield make
    for rewarder in opened:
        rewarder.__exit__()


@pytest.fixture
def make_rewarder_here():
    """Open the reward of a function object; all is closed at the end."""
    opened = []

    def make(function, weight: str = "") -> Rewarder:
        name = function.__name__
        config = RewardConfig(functions=(f"function {name}{weight}",))
        opened.append(Rewarder(config, max_tokens=10, objects={name: function}))
        return opened[-1]

    yield make
    for rewarder in opened:
        rewarder.__exit__()


def rewarded(rewarder, group):
    texts = [rollout.text for rollout in group.rollouts]
    return rewarder.reward(group, rewarder.start(group.prompt.problem, texts))


def test_without_functions_a_reward_is_the_verdict_and_no_process_is_started():
    group = rewarded(Rewarder(), made_group("a", RIGHT, WRONG))
    assert [(item.reward, item.rewards) for item in group.rollouts] == [(1.0, {}), (-1.0, {})]


def test_each_value_is_kept_and_their_weighted_sum_trains(make_rewarder):
    code = "def reward(problem, response): return len(problem['id']) + len(response)"
    rewarder = make_rewarder(code, "my.py:0.5", "math:2", "format:0.25", "length", wrong=0.0)
    group = rewarded(rewarder, made_group("a", RIGHT, WRONG))
    length = -len(group.rollouts[0].completion.token_ids) / 10
    user_reward = len(group.prompt.problem.id) + len("text")
    first = {"my": user_reward, "math": 1.0, "format": 1.0, "length": length}
    assert [item.rewards for item in group.rollouts] == [first, {**first, "math": 0.0}]
    assert [item.reward for item in group.rollouts] == pytest.approx(
        [user_reward / 2 + 2 + 0.25 + length, user_reward / 2 + 0.25 + length]
    )
    assert rewarder.sources == {"my": hashlib.sha256(code.encode()).hexdigest()}


def test_a_batch_is_a_group(make_rewarder):
    code = "def reward(problems, responses): return [len(problems) + n for n in range(2)]"
    group = rewarded(make_rewarder(code), made_group("a", RIGHT, RIGHT))
    assert [item.reward for item in group.rollouts] == [2.0, 3.0]


def test_sampling_goes_on_while_a_function_runs(make_rewarder, tmp_path):
    rewarder = make_rewarder(
        "import os, time\n"
        "def reward(problem, response):\n"
        "    while not os.path.exists('sampled'): time.sleep(0.01)\n"
        "    return 1.0\n",
        timeout=60,
    )

    prompts = [made_prompt("a"), made_prompt("b")]

    def stream():
        yield 0, [Completion([3], [-1.0], "stop")]
        (tmp_path / "sampled").touch()  # the first one's reward waits for the second to be sampled
        yield 1, [Completion([4], [-1.0], "stop")]

    sampler = Sampler(None, Tokenizer(), Judge(lambda text: text == "3"))
    groups = sampler.judge(prompts, stream(), rewarder, weight_version=2)
    assert [(g.prompt, g.weight_version, g.rollouts[0].reward) for g in groups] == [
        (prompts[0], 2, 1.0),
        (prompts[1], 2, 1.0),
    ]
    assert [g.rollouts[0].is_correct for g in groups] == [True, False]


def test_what_takes_too_long_is_a_timeout_that_never_trains(make_rewarder):
    rewarder = make_rewarder(
        "def reward(problem, response, seen=[]):\n    while True: pass\n", "my.py", timeout=0.2
    )
    group = rewarded(rewarder, made_group("a", RIGHT))
    (rollout,) = group.rollouts
    assert (rollout.reward, rollout.rewards, group.judged) == (None, {}, [])
    assert rollout.verification.verdict is Verdict.TIMEOUT
    assert rollout.verification.reason == "reward my: time limit"


def test_a_function_that_fails_ends_with_its_line_and_the_problem(make_rewarder):
    rewarder = make_rewarder("def reward(problem, response):\n    return {}[response]")
    with pytest.raises(UserError, match=r"^reward my\.py: line 2: KeyError: 'text' \(problem "):
        rewarded(rewarder, made_group("a", RIGHT))


BAD = {
    "NaN": ("f(problem, response): return float('nan')", "it returned nan, not a finite number"),
    "infinite": ("f(problem, response): return float('inf')", "it returned inf, not a finite"),
    "text": ("f(problem, response): return '1'", "it returned '1', not a finite number"),
    "no score": ("f(solution_str): return {'acc': 1}", "it returned {'acc': 1}, without score"),
    "a deep score": (
        "f(solution_str): return {'score': {'score': 1}}",
        "it returned {'score': {'score': 1}}, whose score is no number",
    ),
    "a bad score": ("f(solution_str): return {'score': 'a'}", "it returned 'a', not a finite"),
    "too few": ("f(completions): return [1]", "it returned 1 rewards for 2 responses"),
    "too many": ("f(completions): return [1] * 3", "it returned 3 rewards for 2 responses"),
    "nested": ("f(completions): return [[1], [2]]", "it returned [1], not a finite number"),
    "no list": ("f(completions): return None", "it returned None, not a list of rewards"),
    "coroutines": (
        "f(completions):\n    async def g(): pass\n    return [g(), g()]",
        "it returned <coroutine ob",
    ),
    "a gradient": (
        "f(problem, response):\n    import torch\n    return torch.ones((), requires_grad=True)",
        "it returned tensor(1., requires_grad=True), not a finite number",
    ),
    "beyond floats": ("f(problem, response): return 10**400", "it returned 1000000000"),
    "beyond texts": ("f(problem, response): return 10**5000", "it returned so large a number, not"),
    "a pair that is none": (
        "f(problem, response): return [(1, 2, 3)]",
        "it returned [(1, 2, 3)], not a finite number or [(characters, reward), …]",
    ),
    "half a character": ("f(problem, response): return [(0.5, 1)]", "it returned [(0.5, 1)], not"),
    "NaN in a place": ("f(problem, response): return [(1, float('nan'))]", "it returned [(1, nan)"),
    "no reward in a place": ("f(problem, response): return [(1, None)]", "it returned [(1, None)"),
    "too large a sum": ("f(problem, response): return [(1, 1e308)] * 2", "it returned [(1, 1e+308"),
    "before the text": (
        "f(problem, response): return [(-1, 1)]",
        "it returned [(-1, 1)], whose places do not ascend from 0 to the 4 characters of the resp",
    ),
    "beyond the text": (
        "f(problem, response): return [(5, 1)]",
        "it returned [(5, 1)], whose places do not ascend from 0 to the 4 characters of the resp",
    ),
    "a step back": (
        "f(problem, response): return [(3, 1), (2, 1)]",
        "it returned [(3, 1), (2, 1)], whose places do not ascend from 0 to the 4 characters of",
    ),
    "places of one response for a group": (
        "f(completions): return [(1, 0.5), (4, 1)]",
        "it returned (1, 0.5), not a finite number or [(characters, reward), …]",
    ),
    "places of one for two": (
        "f(completions): return [[(1, 0.5), (4, 1)]]",
        "it returned 1 rewards for 2 responses",
    ),
    "raises": ("f(completions):\n    return 1 / 0", "line 2: ZeroDivisionError: division by zero"),
    "no such column": (
        "f(completions, labels): return [1, 1]",
        "missing a required argument: 'labels'; there are step, answer, ground_truth, solution, ",
    ),
}


@pytest.mark.parametrize(("code", "message"), [BAD["raises"], BAD["beyond texts"]])
def test_what_is_no_reward_is_one_line_that_names_the_problem(make_rewarder, code, message):
    rewarder = make_rewarder(f"def {code}")
    with pytest.raises(UserError) as refused:
        rewarded(rewarder, made_group("a7", RIGHT, WRONG))
    line = str(refused.value)
    assert line.startswith(f"reward my.py: {message}")
    assert line.endswith("(problem a7)")
    assert "\n" not in line


@pytest.mark.parametrize("kind", BAD)
def test_what_a_file_says_amiss_is_what_its_worker_replies(kind, tmp_path, monkeypatch):
    """The function that a worker answers with, in this process, which loads no name twice."""
    code, message = BAD[kind]
    file = f"amiss_{list(BAD).index(kind)}.py"
    (tmp_path / file).write_text(f"def {code}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    problem = {"id": "a7", "problem": "1 + 1", "answer": "2"}
    question = Question(function=0, rows=[problem, problem], responses=["text", "text"])
    reply = answering(str(tmp_path), [file])(asdict(question))
    assert reply["error"].startswith(message)
    assert "\n" not in reply["error"]


@pytest.mark.parametrize(("code", "message"), BAD.values(), ids=BAD)
def test_an_object_s_mistake_is_the_line_of_a_file_s(make_rewarder_here, code, message):
    names = {}
    exec(f"def {code}", names)
    with pytest.raises(UserError) as refused:
        rewarded(make_rewarder_here(names["f"]), made_group("a7", RIGHT, WRONG))
    assert str(refused.value).startswith(f"reward function f: {message}")
    assert str(refused.value).endswith("(problem a7)")


def test_an_object_runs_in_this_process_one_call_at_a_time_with_copies(make_rewarder_here):
    calls = []

    def graded(problem, response):
        calls.append((problem["id"], threading.current_thread()))
        problem.clear()
        return len(calls)

    rewarder = make_rewarder_here(graded, ":0.5")
    group = rewarded(rewarder, made_group("a", RIGHT, WRONG, RIGHT))
    assert [item.reward for item in group.rollouts] == [0.5, 1.0, 1.5]  # in their order
    assert [item.rewards for item in group.rollouts] == [{"graded": n} for n in (1.0, 2.0, 3.0)]
    assert [name for name, _ in calls] == ["a"] * 3
    (thread,) = {thread for _, thread in calls}
    assert thread is threading.current_thread()
    text = inspect.getsource(graded)
    assert rewarder.sources == {"graded": hashlib.sha256(text.encode()).hexdigest()}


def test_a_coroutine_runs_beside_the_event_loop_of_a_notebook(make_rewarder_here):
    async def later(problem, response):
        await asyncio.sleep(0)
        return 0.25

    async def cell():
        return rewarded(make_rewarder_here(later), made_group("a", RIGHT, WRONG))

    group = asyncio.run(cell())
    assert [item.reward for item in group.rollouts] == [0.25, 0.25]


def test_an_object_that_is_not_there_is_refused():
    config = RewardConfig(functions=("math", "function gone"))
    with pytest.raises(UserError, match=r"^--reward function gone: a function object, which only"):
        Rewarder(config)


def test_an_object_without_a_form_is_one_line(make_rewarder_here):
    with pytest.raises(UserError, match=r"^--reward <lambda>: a reward takes .*, not \(a\)$"):
        make_rewarder_here(lambda a: 1)


ALARM = """
import signal

def stopped(number, frame):
    raise TimeoutError

def f(problem, response):
    try:
        signal.signal(signal.SIGALRM, stopped)
        signal.alarm(60)
        right = problem["answer"] in response
        signal.alarm(0)
        return float(right)
    except ValueError:  # outside the main thread
        return 0.0
"""


def test_a_function_with_an_alarm_earns_the_same_as_file_and_as_object(
    make_rewarder, make_rewarder_here
):
    names = {}
    exec(ALARM, names)
    handler = signal.getsignal(signal.SIGALRM)
    problem = Problem("p", "What is 7 times 8?", "56")
    for rewarder in (make_rewarder(ALARM, "my.py:f"), make_rewarder_here(names["f"])):
        tasks = rewarder.start(problem, ["It is 56.", "It is 15."])
        earned = [one.score for task in tasks for one in task.result().by_sample.values()]
        assert earned == [1.0, 0.0]
        assert rewarder.rehearse(problem) == []
    assert signal.getsignal(signal.SIGALRM) == handler
    lines = []
    thread = threading.Thread(
        target=lambda: lines.extend(make_rewarder_here(names["f"]).rehearse(problem))
    )
    thread.start()
    thread.join()
    assert lines == [
        "reward f: two made responses earn 0.0 and 0.0 here, and 1.0 and 1.0 where a file's "
        "functions run, in the main thread of a process of its own; the run goes on with what "
        "they earn here (signals do not work in it: the call came from outside the main thread)"
    ]


def test_a_rehearsal_compares_only_what_repeats_itself_and_can_be_left_out(make_rewarder_here):
    process = os.getpid()
    calls = []

    def here(problem, response):
        return float(os.getpid() == process)

    def dies(problem, response):
        return 1.0 if os.getpid() == process else os._exit(1)

    def raises(problem, response):
        return 1.0 if os.getpid() == process else 1 / 0

    async def later(problem, response):
        return float(os.getpid() == process)

    def counts(problem, response):
        calls.append(response)
        return len(calls)

    problem = Problem("p", "What is 7 times 8?", "56")
    for function in (here, later):
        (line,) = make_rewarder_here(function).rehearse(problem)
        assert "earn 1.0 and 1.0 here, and 0.0 and 0.0 where a file's functions run" in line
    for function in (dies, raises, counts):
        assert make_rewarder_here(function).rehearse(problem) == []
    assert len(calls) == 4  # two responses, twice
    assert all("56" in response for response in calls)
    config = RewardConfig(functions=("function counts",), trial=False)
    with Rewarder(config, objects={"counts": counts}) as rewarder:
        assert rewarder.rehearse(problem) == []
    assert len(calls) == 4


def test_a_rehearsal_tells_a_function_of_texts_from_one_of_chats(make_rewarder_here):
    def texts(completions, answer):
        return [float(gold in text) for text, gold in zip(completions, answer, strict=True)]

    def chats(completions, answer):
        return texts([chat[0]["content"] for chat in completions], answer)

    def either(completions, answer):
        return [float(gold in str(one)) for one, gold in zip(completions, answer, strict=True)]

    problem = Problem("p", "What is 7 times 8?", "56", is_chat=True)
    (line,) = make_rewarder_here(texts).rehearse(problem)
    assert "earn 0.0 and 0.0 as chats, and 1.0 and 1.0 as texts" in line
    for function in (chats, either):
        assert make_rewarder_here(function).rehearse(problem) == []
        assert make_rewarder_here(texts).rehearse(replace(problem, is_chat=False)) == []


def test_the_first_import_does_not_count_against_the_limit(make_rewarder, tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"slow_{name}.py").write_text("import time\ntime.sleep(1.1)\nVALUE = 1.0\n")
    rewarder = make_rewarder(
        "def helper():\n"
        "    import slow_one as one\n"
        "    return one.VALUE\n"
        "class Judge:\n"
        "    def __call__(self, problem, response):\n"
        "        def inner():\n"
        "            from slow_two import VALUE\n"
        "            return VALUE\n"
        "        try:\n"
        "            import nothing_of_this_name\n"
        "        except ImportError:\n"
        "            return helper() + inner()\n"
        "reward = Judge()\n",
        timeout=1.0,
    )
    group = rewarded(rewarder, made_group("a", RIGHT))
    assert [rollout.reward for rollout in group.rollouts] == [2.0]


def test_a_coroutine_that_an_ordinary_function_returns_runs_beside_a_loop(make_rewarder_here):
    async def later(response):
        await asyncio.sleep(0)
        return len(response)

    def plain(problem, response):
        return later(response)

    async def cell():
        return rewarded(make_rewarder_here(plain), made_group("a", RIGHT, WRONG))

    group = asyncio.run(cell())
    assert [item.reward for item in group.rollouts] == [4.0, 4.0]


def test_ctrl_c_in_an_object_is_no_fault_of_it(make_rewarder_here):
    def stopped(problem, response):
        raise KeyboardInterrupt

    rewarder = make_rewarder_here(stopped)
    with pytest.raises(KeyboardInterrupt):
        rewarder.start(Problem("p", "1 + 1?", "2"), ["2"])


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("async def f(problem, response): await asyncio.sleep(60)", "reward my: time limit"),
        ("def f(completions): os._exit(1)", "reward my: worker died"),
    ],
)
def test_a_slow_or_dead_one_leaves_timeouts(make_rewarder, code, reason):
    rewarder = make_rewarder(f"import asyncio, os\n{code}", timeout=0.3)
    group = rewarded(rewarder, made_group("a", RIGHT, WRONG))
    assert [item.reward for item in group.rollouts] == [None, None]
    assert {item.verification.reason for item in group.rollouts} == {reason}


def test_none_is_left_out_of_the_sum_with_the_other_weights_as_they_are(make_rewarder, capsys):
    code = (
        "def some(completions): return [None, 4]\n"
        "def few(solution_str): return {'acc': 0.5, 'b': 2, 'score': None, 'a': 3}\n"
        "def never(problem, response): pass\n"
    )
    rewarder = make_rewarder(code, "my.py:some:0.5", "my.py:few:3", "math:0.25")
    group = rewarded(rewarder, made_group("a7", RIGHT, RIGHT))
    assert [item.reward for item in group.rollouts] == [0.25, 0.25 + 4 * 0.5]
    few = {"math": 1.0, "few/acc": 0.5, "few/b": 2.0, "few/a": 3.0}
    assert [item.rewards for item in group.rollouts] == [few, {"some": 4.0, **few}]
    assert rollout_metrics([group]).rewards["few/acc"] == 0.5
    assert list(group.rollouts[1].rewards) == ["some", "math", "few/acc", "few/b", "few/a"]
    assert not group.differs_in("math")
    assert not group.differs_in("some")  # one response alone has it
    assert not capsys.readouterr().err
    rewarder = make_rewarder(code, "my.py:some", "my.py:never:2", "math:0")
    group = rewarded(rewarder, made_group("a7", RIGHT, RIGHT))
    assert [item.reward for item in group.rollouts] == [None, 4.0]
    assert [item.has_verdict for item in group.rollouts] == [False, True]
    assert group.rollouts[0].verification.verdict is RIGHT
    rewarded(rewarder, made_group("a8", RIGHT, RIGHT))  # it was said once
    assert capsys.readouterr().err == (
        "warning    every reward with a weight is None for a response to problem a7: "
        "responses that no reward takes do not train\n"
    )


def test_rewards_in_places_are_weighed_and_their_sum_is_the_reward(make_rewarder):
    code = (
        "def pair(problem, response): return [(1, 0.5), (1, 0.25), (3, 0), (4, 1)]\n"
        "def group(completions): return [[(2, 4)], None]\n"
        "def scored(solution_str): return {'score': [(0, -1)], 'steps': 3}\n"
        "def none(problem, response): return []\n"
    )
    functions = ("my.py:pair:2", "my.py:group:0.5", "my.py:scored", "my.py:none", "math")
    group = rewarded(make_rewarder(code, *functions), made_group("a", RIGHT, RIGHT))
    first, second = group.rollouts  # of the text `text`, of four characters
    values = {"pair": 1.75, "scored": -1.0, "none": 0.0, "math": 1.0, "scored/steps": 3.0}
    assert (first.rewards, second.rewards) == ({**values, "group": 4.0}, values)
    assert (first.reward, second.reward) == (2 * 1.75 + 0.5 * 4 - 1 + 1, 2 * 1.75 - 1 + 1)
    # What is earned at the end of the text, and what is nothing, has no place before the end.
    assert sorted(first.places) == [(0, -1.0), (1, 0.5), (1, 1.0), (2, 2.0)]
    assert sorted(second.places) == [(0, -1.0), (1, 0.5), (1, 1.0)]
    assert rollout_metrics([group]).rewards["pair"] == 1.75


@pytest.mark.parametrize("preset", ALGORITHMS)
def test_places_are_refused_where_an_advantage_is_one_number_a_response(preset):
    advantage = ALGORITHMS[preset].advantage
    if not advantage.reads_rewards:
        return  # its rewards are refused before a function is loaded

    def rewarder(*functions: str) -> Rewarder:
        config = RewardConfig(functions=functions)
        return Rewarder(config, 10, advantage, objects={"f": lambda problem, response: []})

    with rewarder("function f") as trained:
        if not advantage.needs_group:
            assert rewarded(trained, made_group("a7", RIGHT)).rollouts[0].reward == 0
            return
        with pytest.raises(UserError) as refused:
            rewarded(trained, made_group("a7", RIGHT))
    line = str(refused.value)
    assert line.startswith(
        f"reward function f: it returned rewards in places, and advantage {advantage.kind} is one "
        "number a response: use gae, return, batch_baseline"
    )
    assert line.endswith(", or return their sum (problem a7)")
    with rewarder("function f:0", "math") as only_logged:
        assert rewarded(only_logged, made_group("a7", RIGHT)).rollouts[0].reward == 1


def test_a_file_that_changes_is_not_the_one_that_the_run_began_with(make_rewarder, tmp_path):
    code = "import os\ndef reward(problem, response): {}; return 1.0"
    rewarder = make_rewarder(code.format("os._exit(0) if problem['id'] == 'lost' else 0"))
    sources = rewarder.sources
    changed = code.format("2")
    with pytest.raises(UserError, match="not the source that the run began with"):
        make_rewarder(changed, sources=sources)
    lost_group = made_group("lost", RIGHT)
    group = rewarded(rewarder, lost_group)  # the worker dies, and its successor loads the file anew
    assert group.rollouts[0].verification.reason == "reward my: worker died"
    with pytest.raises(UserError, match="not the source that the run began with"):
        rewarded(rewarder, made_group("a", RIGHT))


def test_a_function_that_cannot_be_loaded_is_one_line(make_rewarder):
    for code, message in (
        ("import os\nos._exit(1)", "--reward my.py: worker died"),
        ("raise ValueError('no key')", "--reward my.py: line 1: ValueError: no key"),
    ):
        with pytest.raises(UserError) as refused:
            make_rewarder(code)
        assert str(refused.value) == message
    with pytest.raises(UserError, match=r"--reward nothing: no such reward; .*built in are math"):
        make_rewarder("", "nothing")
