"""User rewards through the command line: trained, resumed, forked, refused."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import invoke, refused
from safetensors.torch import load_file

from rlvr_cli.rollout.sampler import Sampler

EXAMPLE = Path(__file__).parents[2] / "examples" / "rlvr-example"
SMALL = ("--prompts", 2, "-n", 4, "--max-tokens", 12, "-q", "--algo", "reinforce")
ONE = ("--limit", 32, "--set", "eval.limit=0", "--set", "reward.workers=1")
CUSTOM = ("--reward", "my.py", "--reward", "math:0.5", "--reward", "format:0.25")
CODE = "def reward(problem, response): return len(response) % 5 / 4\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty directory with a reward in it."""
    monkeypatch.chdir(tmp_path)
    Path("my.py").write_text(CODE)


def trained(*args):
    result = invoke("train", *args)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def rows(run, step):
    return list(map(json.loads, Path(run, "rollouts", f"step-{step:06d}.jsonl").open()))


def test_a_run_logs_each_reward_and_resumes_bit_for_bit(tmp_path):
    uninterrupted = trained(*SMALL, *ONE, *CUSTOM, "--steps", 2, "--out", "whole")
    trained(*SMALL, *ONE, *CUSTOM, "--steps", 1, "--out", "a")
    advice = "add --reward my.py --reward math:0.5 --reward format:0.25"
    for command in (("--resume", "a"), ("--resume", "a", "--reward", "math"), ("--from", "a")):
        line = refused("train", *command, "--steps", 2)
        assert "a/config.yaml: its rewards are code, which no directory may have run" in line
        assert advice in line
    (resumed,) = trained("--resume", "a", *CUSTOM, "--steps", 2, "-q")
    expected = load_file("whole/checkpoints/step-2/model.safetensors")
    weights = load_file("a/checkpoints/step-2/model.safetensors")
    assert all(weights[name].equal(expected[name]) for name in expected)
    assert rows("whole", 2) == rows("a", 2)
    assert resumed["reward"] == uninterrupted[1]["reward"]
    for row in rows("a", 2):
        actual = row["rewards"]
        assert actual["my"] == len(row["response"]) % 5 / 4
        assert row["reward"] == actual["my"] + actual["math"] / 2 + actual["format"] / 4
    for name in ("my", "math", "format"):
        mean = sum(row["rewards"][name] for row in rows("a", 2)) / 8
        assert resumed[f"reward/{name}"] == pytest.approx(mean)
    assert len(yaml.safe_load(Path("a/config.yaml").read_text())["reward"]["sources"]["my"]) == 64
    Path("my.py").write_text(CODE + "# changed\n")
    line = refused("train", "--resume", "a", *CUSTOM, "--steps", 3)
    assert "my.py: not the source that the run began with; put it back, or begin a new" in line
    assert trained("--from", "a", *CUSTOM, "--steps", 1, "--out", "b", "-q")[0]["step"] == 1


def test_graded_rewards_and_a_filter_on_one(tmp_path):
    Path("row.yaml").write_text(
        "base: grpo\nfilter: {kind: mixed, metric: my, max_gen_batches: 0}\nmini_batches: 2\n"
    )
    words = (
        "--algo row.yaml --reward my.py:0 --reward math --reward format --steps 1 --out a "
        "--set reward.correct=3 --set reward.wrong=0 --set reward.format=0.5"
    )
    (step,) = trained(*SMALL[:-2], *ONE, *words.split())
    assert step["groups_trained"] == 2
    for actual in rows("a", 1):
        expected = 3 if actual["verdict"] == "correct" else 0
        expected += 0.5 if actual["format_ok"] else 0
        assert actual["reward"] == expected
    config = yaml.safe_load(Path("a/config.yaml").read_text())
    assert (config["algo"], config["algorithm"]["filter"]["max_gen_batches"]) == ("grpo", 0)


@pytest.mark.parametrize(
    ("args", "metric"),
    [
        ((), "reward"),
        (("--reward", "math:0"), "reward"),
        (("--reward", "math:0.1"), "accuracy"),
        (("--set", "algorithm.filter.metric=accuracy"), "accuracy"),
        (("--reward", "math:0", "--set", "algorithm.filter.metric=math"), "math"),
    ],
)
def test_dynamic_sampling_compares_rewards(args, metric):
    words = "--algo dapo --reward my.py --steps 1 --out a"
    (step,) = trained(*SMALL[:-2], *ONE, *words.split(), *args)
    config = yaml.safe_load(Path("a/config.yaml").read_text())
    assert config["algorithm"]["filter"]["metric"] == metric
    outcomes: dict[str, set] = {}  # of the responses to each problem
    for row in rows("a", 1):
        outcome = row["reward"] if metric == "reward" else row["verdict"] == "correct"
        outcomes.setdefault(row["id"], set()).add(outcome)
    mixed = sum(len(different) > 1 for different in outcomes.values())
    assert step["groups_trained"] + step["groups_carried"] == mixed


BAD = {
    "code that raises": (
        "--reward bad.py:fails",
        "reward bad.py:fails: line 2: ZeroDivisionError: division by zero (problem chains-train-",
    ),
    "not a number": ("--reward bad.py:nothing", "it returned nan, not a finite number"),
    "a wrong length": ("--reward bad.py:short", "it returned 1 rewards for 2 responses"),
    "no file": ("--reward gone.py", "--reward gone.py: no such file"),
    "no entry point": ("--reward words", "--reward words: no such reward; installed are"),
    "two of one name": ("--reward my.py --reward b/my.py", "two rewards are called my; rename"),
    "weights of 0": ("--reward math:0", "the weights of all rewards are 0"),
    "a metric that is none": (
        "--algo dapo --set algorithm.filter.metric=my",
        "algorithm.filter.metric my: no such reward; choose from auto, accuracy, reward, math",
    ),
    "no rewards are read": ("--algo raft --reward my.py", "which reads no rewards: leave one of"),
    "a cell that is none": (
        "--algo row.yaml",
        "--algo row.yaml: algorithm.surogate is not a setting; did you mean algorithm.surrogate?",
    ),
    "a cell that means nothing": (
        "--algo value.yaml",
        "--algo value.yaml: algorithm.surrogate.high must be 0 or more, not -3",
    ),
    "an algorithm that is not there": ("--algo gone.yaml", "--algo gone.yaml: cannot be read"),
}


def test_a_function_that_fails_is_said_before_anything_is_sampled(monkeypatch):
    sampled = []
    monkeypatch.setattr(Sampler, "stream", lambda *args: sampled.append(args))
    Path("my.py").write_text("def reward(problem, response): return problem['points']\n")
    line = refused("train", *SMALL, *ONE, "--reward", "my.py", "--steps", 1, "--out", "a")
    assert "reward my.py: line 1: KeyError: 'points' (problem chains-train-" in line
    assert sampled == []


@pytest.mark.parametrize(("args", "message"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_one_line_and_nothing_is_made(args, message):
    Path("bad.py").write_text(
        "def fails(problem, response):\n    return 1 / 0\n"
        "def nothing(problem, response): return float('nan')\n"
        "def short(problems, responses): return [1.0]\n"
    )
    Path("row.yaml").write_text("surogate: clip\n")
    Path("value.yaml").write_text("surrogate: {kind: clip, high: -3}\n")
    files = set(Path().iterdir())
    result = invoke("train", *SMALL, *ONE, *args.split())
    assert result.exit_code == 2
    assert message in result.stderr.splitlines()[-1]
    assert not result.stdout
    assert set(Path().iterdir()) == files


def test_the_example_is_installed_and_trains(tmp_path, monkeypatch):
    pytest.importorskip("hatchling")
    command = "-m pip install -q --no-deps --no-build-isolation --no-index --target installed"
    subprocess.run([sys.executable, *command.split(), str(EXAMPLE)], check=True)
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    folder = tmp_path / "installed" / "rlvr_example"
    rewards = f"--reward tidy:0.5 --reward {folder}/rewards.py:distinct:0.1".split()
    line = refused("train", *rewards, "--reward", "rlvr_example.rewards:tidy:0")
    assert "two rewards are called tidy" in line
    run = f"{folder}/sums.yaml --algo {folder}/my_grpo.yaml --steps 1 --out a --reward math".split()
    (step,) = trained(*run, *rewards, *SMALL[:-2], *ONE)
    assert {"reward/math", "reward/tidy", "reward/distinct"} <= step.keys()
    for row in rows("a", 1):
        assert row["rewards"]["tidy"] == row["response"].endswith(
            tuple(f"<answer>{n}</answer>" for n in range(10))
        )


TRL = """
import asyncio
import re

def brevity(completions, **kwargs):
    return [-0.01 * len(text) for text in completions]

def matches(completions, ground_truth, **kwargs):
    found = [re.search(r"<answer>(.*?)</answer>", text) for text in completions]
    return [1.0 if m and m.group(1) == g else 0.0 for m, g in zip(found, ground_truth)]

def only_some(prompts, completions, answer, **kwargs):
    return [0.5 if a in "02468" else None for a in answer]

async def remote(prompts, completions, **kwargs):
    async def score(text):
        await asyncio.sleep(0)
        return float("<think>" in text)
    return await asyncio.gather(*(score(text) for text in completions))

def chat_format(completions, **kwargs):
    contents = [completion[0]["content"] for completion in completions]
    return [1.0 if re.match(r"<think>", content) else 0.0 for content in contents]

def curriculum(problem, response, step):
    return step
"""
VERL = """
import re

def last_number(text, method="strict"):
    assert method in ("strict", "flexible")
    found = re.findall(r"#### (-?[0-9]+)" if method == "strict" else r"-?[0-9]+", text)
    return found[-1] if found else None

def gsm8k(solution_str, ground_truth, method="flexible", format_score=0.0, score=1.0):
    number = last_number(solution_str, method)
    return 0 if number is None else score if number == ground_truth else format_score

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    number = last_number(solution_str, "flexible")
    right = number == ground_truth
    return {"score": 1.0 if right else -1.0, "acc": right, "pred": number}
"""


def test_rewards_of_trl_s_and_verl_s_forms_train_as_they_are():
    Path("trl.py").write_text(TRL)
    Path("verl.py").write_text(VERL)
    names = [f"trl.py:{n}" for n in ("brevity", "matches", "only_some:2", "remote", "curriculum:0")]
    names += ["verl.py:gsm8k", "verl.py:compute_score"]
    options = [word for name in names for word in ("--reward", name)]
    loud = [word for word in SMALL if word != "-q"]
    result = invoke("train", *loud, *ONE, *options, "--steps", 2, "--out", "a")
    assert result.exit_code == 0, result.stderr
    said = " ".join(result.stderr.split())
    for words in ("1 x brevity (", "2 x only_some ("):
        assert re.search(re.escape(words) + r"[0-9a-f]{8}, in TRL's form\)", said)
    assert re.search(r"1 x gsm8k \([0-9a-f]{8}, in verl's form\)", said)
    assert re.search(r"0 x curriculum \([0-9a-f]{8}\)", said)
    steps = list(map(json.loads, Path("a/metrics.jsonl").read_text().splitlines()))
    for number, step in enumerate(steps, 1):
        actual_rows = rows("a", number)
        assert len(actual_rows) == 8
        for row in actual_rows:
            actual = row["rewards"]
            text = row["response"]
            numbers = re.findall("-?[0-9]+", text)
            right = bool(numbers) and numbers[-1] == row["answer"]
            expected = {
                "brevity": -0.01 * len(text),
                "matches": float(f"<answer>{row['answer']}</answer>" in text),
                "remote": float("<think>" in text),
                "curriculum": float(number),
                "gsm8k": float(right),
                "compute_score": 1.0 if right else -1.0,
                "compute_score/acc": float(right),
            }
            if row["answer"] in "02468":
                expected["only_some"] = 0.5
            assert actual == expected
            total = sum(actual[n] for n in ("brevity", "matches", "remote", "gsm8k"))
            total += actual["compute_score"] + 2 * actual.get("only_some", 0.0)
            assert row["reward"] == pytest.approx(total)
        mean = sum(row["rewards"]["compute_score/acc"] for row in actual_rows) / 8
        assert step["reward/compute_score/acc"] == mean


def test_a_chat_s_completions_are_chats():
    Path("trl.py").write_text(TRL)
    sums = [json.loads(line) for line in (EXAMPLE / "rlvr_example/sums.jsonl").open()]
    with Path("chats.jsonl").open("w") as file:
        for row in sums:
            chat = [{"role": "user", "content": row["question"]}]
            print(json.dumps({"prompt": chat, "answer": row["result"]["value"]}), file=file)
    command = ("chats.jsonl", "--reward", "trl.py:chat_format", "--steps", 1, "--out", "a")
    trained(*command, *SMALL, *ONE)
    for row in rows("a", 1):
        assert row["rewards"] == {"chat_format": float(row["response"].startswith("<think>"))}
    trained(*command[1:-1], "b", *SMALL, *ONE)  # of texts, since it fails on them
    for row in rows("b", 1):
        assert row["rewards"] == {"chat_format": float(row["response"].startswith("<think>"))}


PLACES = """
def steps(problem, response):
    ends = [n for n in range(1, len(response) + 1) if n % 2 and response[n - 1].isdecimal()]
    return [(n, n / 8) for n in ends]
def odd(problem, response): return steps(problem, response) if int(problem["answer"]) % 2 else []
def total(problem, response): return sum(reward for _, reward in steps(problem, response))
def at_end(problem, response): return [(len(response), len(response) % 5 / 4)]
def plain(problem, response): return len(response) % 5 / 4
"""


def test_rewards_in_places_reach_the_tokens_that_earned_them():
    Path("my.py").write_text(PLACES)
    gamma = ("--set", "algorithm.advantage.gamma=0.5")
    (step,) = trained(*SMALL, *ONE, *gamma, "--reward", "my.py:steps:2", "--steps", 1, "--out", "a")
    logged = {(row["id"], row["sample"]): row for row in rows("a", 1)}
    ids = list(dict.fromkeys(problem for problem, _ in logged))
    stored = json.loads(Path("a/rollouts/tokens-step-000001.json").read_text())
    assert len(stored) == 8
    n_early = 0
    for tokens in stored:
        row = logged[ids[tokens["group"] - 1], tokens["sample"]]
        text = row["response"]
        texts = [token.removesuffix("<|end|>") for token in tokens["text"]]
        assert "".join(texts) == text
        per_token = [0.0] * len(texts)
        for n in range(1, len(text) + 1, 2):
            if text[n - 1].isdecimal():
                ends = [len("".join(texts[: k + 1])) for k in range(len(texts))]
                token = next(k for k, end in enumerate(ends) if end >= n)
                per_token[-1 if n == len(text) else token] += 2 * n / 8
        expected = []
        for reward in reversed(per_token):
            expected.append(reward + 0.5 * (expected[-1] if expected else 0.0))
        assert tokens["figures"]["advantage"] == pytest.approx(expected[::-1], abs=1e-4)
        assert row["reward"] == 2 * row["rewards"]["steps"] == pytest.approx(sum(per_token))
        early = row.get("places", [])
        assert sum(reward for _, reward in early) == pytest.approx(row["reward"] - per_token[-1])
        n_early += len(early)
    assert n_early > 8
    assert step["reward"] == pytest.approx(sum(row["reward"] for row in logged.values()) / 8)


@pytest.mark.slow
def test_a_place_at_the_end_is_the_reward_itself_and_one_before_it_is_not():
    Path("my.py").write_text(PLACES)
    weights = {}
    for name in ("at_end", "plain", "steps", "total"):
        command = ("--reward", f"my.py:{name}", "--steps", 2, "--out", name)
        trained(*SMALL[:-1], "ppo", *ONE, *command, "--set", "algorithm.advantage.critic.warmup=0")
        weights[name] = load_file(f"{name}/checkpoints/step-2/model.safetensors")
    same = [value.equal(weights["plain"][key]) for key, value in weights["at_end"].items()]
    assert all(same)
    placed = [value.equal(weights["total"][key]) for key, value in weights["steps"].items()]
    assert not any(placed)
    first = [[row["reward"] for row in rows(name, 1)] for name in ("steps", "total")]
    assert first[0] == first[1]


def test_groups_with_rewards_in_places_are_carried_over_and_resumed_bit_for_bit():
    Path("my.py").write_text(PLACES)
    Path("row.yaml").write_text(
        "base: reinforce++\nfilter: {kind: mixed, metric: reward, max_gen_batches: 0}\n"
        "mini_batches: 1\n"
    )
    # Of this seed the second round brings a group too many.
    command = (*SMALL[:-1], "row.yaml", *ONE, "--prompts", 3, "--seed", 2, "--reward", "my.py:odd")
    (step, _) = trained(*command, "--steps", 2, "--out", "whole")
    trained(*command, "--steps", 1, "--out", "a")
    state = json.loads(Path("a/checkpoints/step-1/trainer/state.json").read_text())
    assert len(state["carried"]) == step["groups_carried"] > 0
    assert any(rollout["places"] for group in state["carried"] for rollout in group["rollouts"])
    trained("--resume", "a", "--reward", "my.py:odd", "--steps", 2, "-q")
    expected = load_file("whole/checkpoints/step-2/model.safetensors")
    weights = load_file("a/checkpoints/step-2/model.safetensors")
    assert all(weights[name].equal(expected[name]) for name in expected)
    assert rows("whole", 2) == rows("a", 2)


def test_places_are_refused_before_anything_is_sampled(monkeypatch):
    sampled = []
    monkeypatch.setattr(Sampler, "stream", lambda *args: sampled.append(args))
    Path("my.py").write_text(PLACES)
    command = ("--reward", "my.py:steps", "--algo", "grpo", "--steps", 1, "--out", "a")
    line = refused("train", *SMALL[:-2], *ONE, *command)
    assert "my.py:steps: it returned rewards in places, and advantage group_normalized is" in line
    assert sampled == []


def test_where_no_function_takes_a_response_it_is_said():
    Path("my.py").write_text("def reward(problem, response): pass\n")
    result = invoke("train", *SMALL, *ONE, "--reward", "my.py", "--steps", 1, "--out", "a")
    assert result.exit_code == 0
    said = " ".join(result.stderr.split())
    assert "every reward with a weight is None for a response to problem chains-train-" in said
    assert "the probe found no signal" in said
    (step,) = map(json.loads, result.stdout.splitlines())
    assert (step["no_update"], step["reward"], step["unjudged_share"]) == (
        "no signal",
        None,
        1,
    )
    assert "reward/my" not in step
    assert {row["reward"] for row in rows("a", 1)} == {None}
