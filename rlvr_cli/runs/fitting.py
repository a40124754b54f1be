"""Hold the memory that a run needs against what is free, and choose what would make it fit."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import torch

from rlvr_cli.config import Config
from rlvr_cli.core.errors import Finding, UserError
from rlvr_cli.core.text import GIB
from rlvr_cli.model.policy import decoder_layers
from rlvr_cli.ranks.group import decided, local_world
from rlvr_cli.rollout.memory import Need, memory_free, memory_needed, responses_memory, smaller
from rlvr_cli.rollout.session import Session

_WAYS = 3


def refuse_large_step(config: Config) -> None:
    """Raise UserError if the responses of one step do not fit in memory: the probe alone, which
    draws as many per problem, would not end."""
    needed, free = responses_memory(config), memory_free(torch.device("cpu"), 0.0)
    if needed > free:
        rollout = config.rollout
        raise UserError(
            f"a step of {rollout.prompts} problems x {rollout.samples} samples x "
            f"{rollout.max_tokens} tokens takes about {needed / GIB:.0f} GiB and {free / GIB:.1f} "
            "GiB are free: lower --prompts, -n or --max-tokens"
        )


def fitted(session: Session) -> Session:
    """Decide what `auto` leaves to the memory: layers are computed again where it is short."""
    config = session.plan.config
    if config.optim.checkpointing != "auto":
        return session
    needed, free = _memory(session, config)
    is_short = decided(needed.peak > free and bool(decoder_layers(session.policy.model)))
    optim = config.optim.model_copy(update={"checkpointing": "on" if is_short else "off"})
    plan = replace(session.plan, config=config.model_copy(update={"optim": optim}))
    return replace(session, plan=plan)


def check_memory(session: Session) -> tuple[str, list[Finding]]:
    """Return the line that says what is needed and free, and what is wrong with it."""
    needed, free = _memory(session, session.plan.config)
    ways = _ways_to_fit(session, free) if needed.peak > free else []
    return memory_line(needed, free), memory_findings(needed, free, ways)


def memory_line(needed: Need, free: int) -> str:
    """Say what is needed by part and phase, and what is free."""
    parts = {"always": needed.always, "to sample": needed.sampling, "to update": needed.updating}
    listed = "; ".join(
        f"{phase} " + ", ".join(f"{name} {size / GIB:.2f}" for name, size in part.items())
        for phase, part in parts.items()
        if part
    )
    return f"{free / GIB:.1f} GiB free, at most {needed.peak / GIB:.2f} needed: {listed}"


def memory_findings(needed: Need, free: int, ways: Sequence[str]) -> list[Finding]:
    """Find a need for more memory than there is, in bytes, and say which settings need less."""
    if needed.peak <= free:
        return []
    advice = ", or ".join(ways) or "take a smaller model, or an algorithm without a critic"
    return [
        Finding(
            f"about {needed.peak / GIB:.1f} GiB are needed and {free / GIB:.1f} GiB are free: "
            f"{advice}",
            is_error=needed.resident > free,
        )
    ]


def _ways_to_fit(session: Session, free: int) -> list[str]:
    """Return the settings that would fit, each with what it would need, cheapest first."""
    ways = smaller(session.plan.config, session.policy.model)
    peaks = ((text, _memory(session, config)[0].peak) for text, config in ways)
    those = (f"{text} ({peak / GIB:.1f} GiB)" for text, peak in peaks if peak <= free)
    return list(islice(those, _WAYS))


def _memory(session: Session, config: Config) -> tuple[Need, int]:
    """Return the memory needed, and the memory free but for what is loaded already."""
    model, is_vllm = session.policy.model, session.plan.engine.name == "vllm"
    lent = config.rollout.gpu_share if is_vllm else 0.0
    loaded = {model, getattr(session.engine, "model", model)}
    parameters = (p for one in loaded for p in one.parameters() if p.device == model.device)
    held = sum(p.nbytes for p in parameters)
    free = memory_free(model.device, lent) // (local_world() if model.device.type == "cpu" else 1)
    return memory_needed(model, config, is_vllm), free + held
