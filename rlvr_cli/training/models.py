"""The models of a run: the policy that trains, its reference, and its critic."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from rlvr_cli.model.forward import Forward, float32_logprobs
from rlvr_cli.model.policy import (
    Critic,
    Policy,
    check_as_trained,
    compile_passes,
    recompute,
    shard_module,
    weights_digest,
)
from rlvr_cli.model.quantized import quantized_numbers
from rlvr_cli.setup.plan import is_sharded
from rlvr_cli.setup.session import Session


@dataclass(frozen=True)
class Models:
    """The models of one run, ready to train."""

    policy: Policy
    reference: Policy | None
    """The policy itself if the reference is its base: then it runs without its adapter."""
    critic: Critic | None
    start_digest: str
    """The checksum of the weights that must be the same when the run is resumed: the frozen ones,
    and those that the reference began with. "" if there are no such weights."""


def prepare_models(session: Session) -> Models:
    """Make the models that the algorithm needs, and set them up as configured."""
    config = session.plan.config
    torch.manual_seed(config.seed)
    policy = _as_policy(session, session.policy.model, session.forward)
    reference = _make_reference(session, policy)
    start_digest = _digest_of_start(session, reference)
    critic = None
    if config.algorithm.critic is not None:
        critic = Critic(session.policy.model, config.algorithm.critic.kind == "own")
    samples = session.forward.samples
    is_changed = is_sharded(config.optim) or config.optim.compile == "on"
    own_logprobs = None
    if is_changed and samples:
        # Not those that the session saw: a parent's weights have come since, or its adapter.
        own_logprobs = float32_logprobs(policy.model, policy.vocab_size, samples)
    for module in dict.fromkeys([policy, critic, reference]):  # once, if they are the same
        if module is not None:
            _set_up(module, session)
    if own_logprobs is not None:
        check_as_trained(policy, own_logprobs, config.rollout.mismatch_limit)
    return Models(policy, reference, critic, start_digest)


def _as_policy(session: Session, model: Any, forward: Forward) -> Policy:
    policy = Policy(
        model,
        vocab_size=len(session.policy.tokenizer),
        temperature=session.plan.config.rollout.temperature,
        chosen_forward=forward,
    )
    policy.device = session.device
    return policy


def _make_reference(session: Session, policy: Policy) -> Policy | None:
    """Return the teacher, the policy itself (run without its adapter), or a copy of the start."""
    config = session.plan.config
    if session.teacher is not None:
        teacher = session.teacher.model.requires_grad_(False)
        return _as_policy(session, teacher, session.teacher_forward)
    if not config.algorithm.has_reference_model:
        return None
    if config.reference_is_base:
        return policy
    return _as_policy(session, deepcopy(policy.model).requires_grad_(False), session.forward)


def _digest_of_start(session: Session, reference: Policy | None) -> str:
    weights: list[Tensor] = []
    if session.plan.config.lora.rank is not None:
        weights += [p for p in session.policy.model.parameters() if not p.requires_grad]
        weights += quantized_numbers(session.policy.model)
    elif reference is not None and session.teacher is None:
        weights += session.policy.model.parameters()
    if session.teacher is not None:
        weights += session.teacher.model.parameters()
    return weights_digest(weights) if weights else ""


def _set_up(module: Module, session: Session) -> None:
    """Compile, recompute and shard a module as `optim` says, in this order."""
    optim = session.plan.config.optim
    if optim.compile == "on":
        compile_passes(module)
    if optim.checkpointing == "on":
        recompute(module)
    if is_sharded(optim):
        shard_module(module, optim)
