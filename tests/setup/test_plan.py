"""A plan leaves nothing open, and changes nothing that was said."""

import pytest

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.config.sections import LONGEST_RESPONSE
from rlvr_cli.core.types import SamplingParams
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.setup import plan
from rlvr_cli.setup.plan import choose, plan_for

PROBLEMS = ProblemSet("set", (), "boxed")


def planned(*settings: str):
    return plan_for(resolve(set_layer(settings)), PROBLEMS)


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    """A machine with a GPU and a tested vLLM."""
    monkeypatch.setattr(plan, "choose_engine", lambda asked: choose(asked, "0.32.0", None, True))
    monkeypatch.setattr(plan, "default_device", lambda: "cuda")


def test_what_is_left_open_is_answered_by_the_problems_and_the_machine():
    config = planned().config
    assert (config.data.prompt, config.data.answer_format) == ("boxed", "boxed")
    assert (config.engine, config.optim.precision) == ("vllm", "bfloat16")
    assert planned().with_threads(1_000_000).config.threads == 1
    assert plan.precision_on("cpu", "auto") == "float32"


def test_what_was_said_stays_and_a_plan_of_a_plan_is_the_same():
    message = ("data.prompt=plain", "data.answer_format=any", "engine=transformers", "threads=3")
    settings = (
        *message,
        "optim.precision=float32",
        "optim.weights=float32",
        "optim.compile=off",
        "rollout.precision=float32",
        "algorithm.importance_correction=none",
        "algorithm.filter.metric=reward",
    )
    first = planned(*settings).with_threads(10**9)
    assert first.config == resolve(set_layer(settings))
    assert (first.engine.reason, first.answer_format) == ("as set", "any")
    assert plan_for(planned().config, PROBLEMS).config == planned().config


@pytest.mark.parametrize(
    ("device", "settings", "sampling"),
    [
        ("cuda", (), "bfloat16"),
        ("cuda", ("optim.precision=float32",), "float32"),
        ("cuda", ("rollout.precision=float32",), "float32"),  # of a run that began so
        ("cuda", ("lora.rank=2",), "bfloat16"),
        ("cpu", (), "float32"),
        ("cpu", ("optim.weights=bfloat16",), "bfloat16"),
    ],
)
def test_transformers_samples_in_16_bits_on_a_gpu(monkeypatch, device, settings, sampling):
    monkeypatch.setattr(plan, "default_device", lambda: device)
    assert planned("engine=transformers", *settings).config.rollout.precision == sampling


def test_a_template_in_a_file_is_kept_as_its_text(tmp_path):
    (tmp_path / "mine.txt").write_text("Solve {problem}\n")
    config = planned(f"data.prompt={tmp_path}/mine.txt").config
    assert (config.data.prompt, config.data.answer_format) == ("Solve {problem}", "any")


def test_training_and_evaluation_draw_with_settings_of_their_own():
    item = planned("rollout.temperature=0.5", "eval.samples=2", "rollout.max_tokens=7")
    assert item.training == SamplingParams(8, 7, 0.5, 1.0)
    assert item.evaluation == SamplingParams(2, 7, 0.6, 0.95)
    assert item.evaluation_within(500).max_tokens == 500
    assert item.evaluation_within(10**6).max_tokens == LONGEST_RESPONSE == 32768
