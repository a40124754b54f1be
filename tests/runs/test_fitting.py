"""The memory of a run: what is refused, what is said of it, and what `auto` makes of it."""

from contextlib import nullcontext

import pytest
from small_trainer import has_even, make_trainer

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.errors import UserError
from rlvr_cli.rollout.memory import Need, memory_needed
from rlvr_cli.runs import fitting


@pytest.mark.parametrize(("free", "refused"), [(8 * 9 * 50 * 100, False), (359_999, True)])
def test_a_step_whose_responses_do_not_fit(free, refused, monkeypatch):
    monkeypatch.setattr(fitting, "memory_free", lambda device, lent: free)
    settings = ["rollout.prompts=8", "rollout.samples=9", "rollout.max_tokens=50"]
    config = resolve(set_layer(settings))
    says = r"8 problems x 9 samples x 50 tokens .* lower --prompts, -n or --max-tokens"
    with pytest.raises(UserError, match=says) if refused else nullcontext():
        fitting.refuse_large_step(config)


def test_memory_that_is_not_there():
    always = {"weights": 1 << 30, "AdamW": 4 << 30}
    needed = Need(always, {"keys and values": 1 << 30}, {"gradients": 2 << 30, "logits": 2 << 30})
    assert (needed.peak, needed.resident) == (9 << 30, 7 << 30)
    assert fitting.memory_findings(needed, 9 << 30, []) == []
    (tight,) = fitting.memory_findings(needed, (9 << 30) - 1, ["--lora 32 (1.0 GiB)"])
    assert not tight.is_error
    assert tight.text == "about 9.0 GiB are needed and 9.0 GiB are free: --lora 32 (1.0 GiB)"
    (hopeless,) = fitting.memory_findings(needed, (7 << 30) - 1, [])
    assert hopeless.is_error
    assert "take a smaller model" in hopeless.text


def test_layers_are_computed_again_where_memory_is_short(monkeypatch):
    session = make_trainer(has_even).session
    need = memory_needed(session.policy.model, session.plan.config, False).peak
    held = sum(parameter.nbytes for parameter in session.policy.model.parameters())
    for free, chosen in ((need - held, "off"), (need - held - 1, "on")):
        monkeypatch.setattr(fitting, "memory_free", lambda *_, free=free: free)
        assert fitting.fitted(session).plan.config.optim.checkpointing == chosen
