"""The memory of a run: what is refused, what is said of it, and what `auto` makes of it."""

import pytest
from small_models import random_model

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import GIB
from rlvr_cli.runs.preflight import review_memory
from rlvr_cli.setup import session
from rlvr_cli.setup.machine import Machine
from rlvr_cli.setup.memory import Memory, Need, read_shapes
from rlvr_cli.setup.session import fit_to_machine

MODEL = read_shapes(random_model())


def planned(*settings: str):
    fixed = ("engine=transformers", "optim.precision=float32", "optim.weights=float32")
    more = ("rollout.precision=float32", "optim.checkpointing=auto")
    return resolve(set_layer([*fixed, *more, *settings]))


def test_a_step_whose_responses_do_not_fit_is_refused_before_the_model_is_loaded(monkeypatch):
    sizes = ["rollout.prompts=8", "rollout.samples=9", "rollout.max_tokens=50000"]
    config = planned("model=tiny", *sizes)
    responses = 8 * 9 * 50_000 * 100
    monkeypatch.setattr(session, "this_machine", lambda: Machine("cpu", responses, responses))
    with pytest.raises(UserError) as refused:
        fit_to_machine(config, training=True)
    assert f"and {responses / GIB:.1f} GiB are free: take a smaller model" in str(refused.value)
    assert str(refused.value).endswith("lower --prompts, -n or --max-tokens")
    enough = Machine("cpu", 2 * responses, 2 * responses)
    monkeypatch.setattr(session, "this_machine", lambda: enough)
    memory, config = fit_to_machine(config, training=True)
    assert memory.machine is enough
    assert config.optim.checkpointing == "on"


def test_memory_that_is_short_is_said_with_a_way_out():
    small = ("rollout.kv_budget_mb=64", "optim.micro_tokens=64", "rollout.max_tokens=300")
    config = planned("optim.checkpointing=off", *small)
    need = Memory(MODEL, Machine("cpu", 1, 0)).needed(config)
    assert need.peak == need.phases["to sample"] > need.resident
    enough = Machine("cpu", 1, need.peak)
    ((label, line),), findings = review_memory(Memory(MODEL, enough), config)
    assert (label, findings) == ("memory", [])
    assert line.startswith("0.1 GiB free, at most 0.07 needed: always weights 0.00, resp")
    _, (short,) = review_memory(Memory(MODEL, Machine("cpu", 1, need.peak - 1)), config)
    assert not short.is_error
    text = "about 0.1 GiB are needed to sample and 0.1 GiB are free: --set optim.checkpointing=on "
    assert short.text.startswith(text)
    assert "--set rollout.kv_budget_mb=16 (0.0 GiB)" in short.text


def test_the_larger_phase_counts_and_what_does_not_depend_on_lengths():
    always = {"weights": 1 << 30, "AdamW": 4 << 30}
    need = Need(always, {"keys and values": 1 << 30}, {"gradients": 2 << 30, "logits": 2 << 30})
    assert (need.peak, need.resident) == (9 << 30, 7 << 30)
    assert need.shortage(3 << 29) == "about 9.0 GiB are needed to update and 1.5 GiB are free"
    with_vllm = Need(always, {"vLLM": 5 << 30}, {"gradients": 2 << 30})
    assert (with_vllm.peak, with_vllm.resident) == (10 << 30, 10 << 30)


def test_layers_are_computed_again_where_memory_is_short():
    config = planned()
    most = Memory(MODEL, Machine("cpu", 1, 0)).needed(config).phases["to update"]
    for free, selected in ((most, "off"), (most - 1, "on")):
        assert Memory(MODEL, Machine("cpu", 1, free)).fitted(config).optim.checkpointing == selected
