"""The rewards in examples/: a judge that is asked over the network, and a classifier."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import torch
from faulty_server import faulty_server
from small_groups import RIGHT, made_group
from transformers import AutoModelForSequenceClassification, LlamaConfig

from rlvr_cli.algorithm.reward import RewardConfig
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Problem
from rlvr_cli.evaluation.measure import rollout_metrics
from rlvr_cli.model.loading import TINY, load_model, model_directory
from rlvr_cli.rewards.rewarder import Rewarder

EXAMPLES = Path(__file__).parents[2] / "examples"
JUDGE, CLASSIFIER = EXAMPLES / "judge.py", EXAMPLES / "reward_model.py"
SUM = Problem("sum", "2 + 1", "3")
MIB = 16_384
"""Of addresses, of which torch reserves more than it uses."""


def loaded(file: Path) -> ModuleType:
    """An example as a module of this process."""
    spec = spec_from_file_location(file.stem, file)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rewarded(example: Path | ModuleType, *responses: str) -> tuple[list, dict]:
    """The rewards of responses to the sum, and what a run would log of them: by a file, which a
    process of its own loads, or by the function of a module, which needs none."""
    if isinstance(example, Path):
        functions = (str(example),)
        objects = {}
    else:
        functions = (f"function {example.__name__}",)
        objects = {example.__name__: example.reward}
    config = RewardConfig(functions=functions, workers=1, memory_mb=MIB, timeout=60.0)
    group = made_group("sum", *[RIGHT] * len(responses))
    with Rewarder(config, objects=objects) as rewarder:
        group = rewarder.reward(group, rewarder.start(SUM, responses))
    return [rollout.reward for rollout in group.rollouts], rollout_metrics([group])


@pytest.fixture
def judge(monkeypatch):
    """Ask for marks of a server that adds the numbers in what it is asked, and may fail."""
    pytest.importorskip("openai")
    with faulty_server(seconds=0.3) as server:

        def ask(kind: str, *responses: str, is_file: bool = False, **constants: object):
            monkeypatch.setenv("JUDGE_URL", server.url(kind))
            example = JUDGE if is_file else loaded(JUDGE)
            for name, value in constants.items():
                monkeypatch.setattr(example, name, value)
            rewards, metrics = rewarded(example, *responses)
            return rewards, metrics, server

        yield ask


@pytest.mark.parametrize("kind", ["", "busy", "bursts", "cut"])
def test_a_judge_marks_a_group_and_tries_again(judge, kind):
    rewards, metrics, server = judge(kind, "it is 3", "0", "7", "8", "one", is_file=kind == "busy")
    # 2 + 1 of the problem and the numbers of the response, in tenths; 11 is no mark.
    assert rewards == [0.6, 0.3, 1.0, None, 0.3]
    assert metrics.rewards["judge/failed"] == pytest.approx(0.2)
    assert metrics.rewards["judge"] == pytest.approx((0.6 + 0.3 + 1.0 + 0.3) / 4)
    times = {"": 1, "busy": 2, "bursts": 3, "cut": 2}[kind]
    assert len(server.seen) == 5 * times
    assert {body["messages"][0]["role"] for *_, body in server.seen} == {"system"}


@pytest.mark.parametrize("kind", ["broken", "page", "empty", "bare"])
def test_a_judge_that_fails_gives_no_verdict(judge, kind):
    rewards, metrics, server = judge(kind, "3", "4")
    assert rewards == [None, None]
    assert metrics.rewards["judge/failed"] == 1
    assert len(server.seen) == 2 * (3 if kind == "broken" else 1)


def test_a_judge_is_not_waited_for_longer_than_its_bound(judge):
    assert JUDGE.read_text().count("SECONDS = 8") == 1
    assert judge("", "3", SECONDS=0.05)[0] == [None]  # the server takes 0.3 s


def test_a_judge_sends_no_more_than_its_bounds(judge):
    rewards, _, server = judge("", "3" + " " * 16_000, *"0123456")
    assert rewards == [None, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert len(server.seen) == 7
    assert server.most_at_once == 4


def test_a_wrong_model_or_key_ends_the_run_with_a_line(judge):
    with pytest.raises(UserError, match=r"judge\.py: line [0-9]+: NotFoundError: .*no such model"):
        judge("gone", "3", is_file=True)


@pytest.fixture
def classifier(tmp_path, monkeypatch):
    """A random classifier with the built-in policy's tokenizer."""
    torch.manual_seed(0)
    tokenizer = load_model("tiny").tokenizer
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_labels=1,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = AutoModelForSequenceClassification.from_config(config).eval()
    model.save_pretrained(tmp_path / "classifier")
    tokenizer.save_pretrained(tmp_path / "classifier")
    monkeypatch.setenv("REWARD_MODEL", str(tmp_path / "classifier"))
    return model, tokenizer


def test_a_classifier_scores_problem_and_response(classifier):
    """In this process: a worker would import torch again."""
    model, tokenizer = classifier
    responses = ("<answer>3</answer>", "4", "4 " * 3000)
    rewards, _ = rewarded(loaded(CLASSIFIER), *responses)
    for response, reward in zip(responses[:2], rewards, strict=False):
        chat = [{"role": "user", "content": "2 + 1"}, {"role": "assistant", "content": response}]
        ids = tokenizer.apply_chat_template(chat, return_tensors="pt", return_dict=True)
        with torch.no_grad():
            expected = model(input_ids=ids["input_ids"]).logits.item()
        assert reward == pytest.approx(expected, abs=1e-6)
    assert rewards[0] != rewards[1]
    assert rewards[2] is None  # longer than 4096 tokens


def test_a_model_without_a_score_is_no_classifier(monkeypatch):
    monkeypatch.setenv("REWARD_MODEL", str(model_directory(TINY)))
    example = loaded(CLASSIFIER)
    with pytest.raises(ValueError, match=r"is no classifier: it has no \['score.weight'\]"):
        example.reward({"problem": "2 + 1"}, "3")
