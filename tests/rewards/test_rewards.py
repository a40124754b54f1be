"""The user's reward functions during sampling: values, limits, and files that change."""

import hashlib

import pytest
from small_groups import RIGHT, WRONG, made_group, made_prompt
from small_trainer import Judge, Tokenizer

from rlvr_cli.algorithm.reward import RewardConfig
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Completion
from rlvr_cli.rewards.rewarder import Rewarder
from rlvr_cli.rollout.sampler import Sampler
from verifiers import Verdict


@pytest.fixture
def make_rewarder(tmp_path, monkeypatch):
    """Open the rewards of a file; all is closed at the end."""
    opened = []
    monkeypatch.chdir(tmp_path)

    def make(code: str, *functions: str, **settings) -> Rewarder:
        (tmp_path / "my.py").write_text(code)
        config = RewardConfig(functions=functions or ("my.py",), workers=1, **settings)
        opened.append(Rewarder(config, max_tokens=10))
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
    assert [item.rewards for item in group.rollouts] == [first, first | {"math": 0.0}]
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
