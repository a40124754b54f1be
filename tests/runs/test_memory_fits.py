"""The memory of a run: what is refused, what is said of it, and what `auto` makes of it."""

from small_trainer import has_even, make_trainer

from rlvr_cli.rollout.memory import Need, memory_needed
from rlvr_cli.runs import preflight
from rlvr_cli.runs.preflight import of_memory


def test_a_step_whose_responses_do_not_fit():
    settings = ["rollout.prompts=8", "rollout.samples=9", "rollout.max_tokens=50000"]
    session = make_trainer(has_even, *settings).session
    needed = memory_needed(session.policy.model, session.plan.config, False)
    assert needed.always["responses of a step"] == 8 * 9 * 50_000 * 100
    _, (finding,) = of_memory(needed, needed.resident - 1, [])
    assert finding.is_error
    assert finding.text.endswith("lower --prompts, -n or --max-tokens")


def test_memory_that_is_not_there():
    always = {"weights": 1 << 30, "AdamW": 4 << 30}
    needed = Need(always, {"keys and values": 1 << 30}, {"gradients": 2 << 30, "logits": 2 << 30})
    assert (needed.peak, needed.resident) == (9 << 30, 7 << 30)
    ((label, line),), found = of_memory(needed, 9 << 30, [])
    assert (label, found) == ("memory", [])
    assert line.startswith(
        "9.0 GiB free, at most 9.00 needed: always weights 1.00, AdamW 4.00; to "
    )
    _, (tight,) = of_memory(needed, (9 << 30) - 1, ["--lora 32 (1.0 GiB)"])
    assert not tight.is_error
    assert tight.text == "about 9.0 GiB are needed and 9.0 GiB are free: --lora 32 (1.0 GiB)"
    _, (hopeless,) = of_memory(needed, (7 << 30) - 1, [])
    assert hopeless.is_error
    assert "take a smaller model" in hopeless.text


def test_layers_are_computed_again_where_memory_is_short(monkeypatch):
    session = make_trainer(has_even).session
    need = memory_needed(session.policy.model, session.plan.config, False).peak
    held = sum(parameter.nbytes for parameter in session.policy.model.parameters())
    for free, chosen in ((need - held, "off"), (need - held - 1, "on")):
        monkeypatch.setattr(preflight, "memory_free", lambda *_, free=free: free)
        assert preflight.fitted(session).plan.config.optim.checkpointing == chosen
