"""A plan leaves nothing open, and changes nothing that was said."""

import pytest

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.config.sections import LONGEST_RESPONSE
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import SamplingParams
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.model.card import Card
from rlvr_cli.setup import plan
from rlvr_cli.setup.plan import choose, plan_for

PROBLEMS = ProblemSet("set", (), "boxed")
H100 = Card("NVIDIA H100", (9, 0))
T4 = Card("Tesla T4", (7, 5))


def planned(*settings: str):
    return plan_for(resolve(set_layer(settings)), PROBLEMS)


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    """A machine with a GPU and a tested vLLM."""
    monkeypatch.setattr(plan, "choose_engine", lambda asked, _: choose(asked, "0.32.0", None, True))
    monkeypatch.setattr(plan, "usable_card", lambda: H100)


def test_what_is_left_open_is_answered_by_the_problems_and_the_machine():
    config = planned().config
    assert (config.data.prompt, config.data.answer_format) == ("boxed", "boxed")
    assert (config.engine, config.optim.precision) == ("vllm", "bfloat16")
    assert planned().with_threads(1_000_000).config.threads == 1
    assert plan.precision_on(None, "auto") == "float32"


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
    ("card", "settings", "sampling"),
    [
        (H100, (), "bfloat16"),
        (H100, ("optim.precision=float32",), "float32"),
        (H100, ("rollout.precision=float32",), "float32"),  # of a run that began so
        (H100, ("lora.rank=2",), "bfloat16"),
        (None, (), "float32"),
        (None, ("optim.weights=bfloat16",), "bfloat16"),
        (None, ("optim.precision=float16",), "float32"),
        (None, ("optim.weights=float16", "lora.rank=2"), "float16"),
    ],
)
def test_transformers_samples_in_16_bits_on_a_gpu(monkeypatch, card, settings, sampling):
    monkeypatch.setattr(plan, "usable_card", lambda: card)
    assert planned("engine=transformers", *settings).config.rollout.precision == sampling


def number_types(*settings: str) -> tuple[str, str, str]:
    config = planned(*settings).config
    return config.optim.precision, config.optim.weights, config.rollout.precision


@pytest.mark.parametrize("engine", ["vllm", "transformers"])
def test_the_card_and_what_is_set_choose_the_number_types(monkeypatch, engine):
    """Of the trainer, of its weights and of the engine; frozen weights are as what is computed."""
    engine = f"engine={engine}"
    full = "optim.precision=float32"
    half = "optim.precision=float16"
    lora = "lora.rank=2"
    sampled = "float32" if engine.endswith("transformers") else "bfloat16"
    assert number_types(engine) == ("bfloat16", "float32", "bfloat16")
    assert number_types(engine, lora) == ("bfloat16", "bfloat16", "bfloat16")
    assert number_types(engine, full) == ("float32", "float32", sampled)
    assert number_types(engine, full, lora) == ("float32", "float32", sampled)
    assert number_types(engine, half) == ("float16", "float32", "float16")
    assert number_types(engine, half, lora) == ("float16", "float16", "float16")
    assert number_types(engine, lora, "optim.weights=float16") == ("float16",) * 3
    monkeypatch.setattr(plan, "usable_card", lambda: T4)
    assert number_types(engine) == ("float16", "float32", "float16")
    assert number_types(engine, lora) == ("float16", "float16", "float16")
    assert plan_for(planned(engine, lora).config, PROBLEMS).config == planned(engine, lora).config


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        (("optim.precision=bfloat16",), "optim.precision=float16"),
        (("optim.weights=bfloat16",), "optim.weights=float32"),
        (("optim.weights=bfloat16", "lora.rank=2"), "optim.weights=float16"),
        (("rollout.precision=bfloat16",), "rollout.precision=float16"),
    ],
)
def test_bfloat16_on_a_card_without_it_is_refused_with_what_to_type(monkeypatch, settings, remedy):
    monkeypatch.setattr(plan, "usable_card", lambda: T4)
    with pytest.raises(UserError) as raised:
        planned(*settings)
    name = settings[0].replace("=", " ")
    expected = f"{name}: Tesla T4 (compute capability 7.5) has none; take --set {remedy}"
    assert str(raised.value) == expected


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
