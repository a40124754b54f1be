"""Check, before a run, that servers sample what the trainer would: the contract of `ServerEngine`.

Each line is a fact that was seen to be wrong somewhere while every call was answered with 200.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rlvr_cli.core.errors import EngineError, UserError
from rlvr_cli.core.text import shortened
from rlvr_cli.core.types import SamplingParams, TokenIds
from rlvr_cli.core.versions import release
from rlvr_cli.model.adapter import merged_parameters
from rlvr_cli.model.forward import Sample
from rlvr_cli.rollout.engines.base import score_gap
from rlvr_cli.rollout.engines.server_engine import (
    GENERATE,
    RequestFailedError,
    RolloutServer,
    ServerEngine,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

FIRST_VERSION = (0, 32)
"""The first vLLM whose weights and responses name a version, of those that were tried."""
_TEXT = "Natalia sold clips to 48 of her friends. How many is 2 + 3/4?"
_CHANGE = 0.2
"""Standard deviation of the factors by which the first push changes every weight: a tensor that it
leaves out moves log-probabilities by more than a hundredth of a nat."""
_LOW = 0.5
"""A temperature at which log-probabilities from before it are off, as they are not at 1."""
_SPREAD = SamplingParams(samples=4, max_tokens=4, temperature=2.0)
"""Sampling in which responses with different seeds differ. vLLM takes no higher temperature."""
_MOST_EQUAL = 2
"""Responses of a group that are equal with equal seeds: in 16 bits rounding may change some."""


class _Facts(BaseModel):
    """A part of what a server says of itself. Other fields are not read."""

    model_config = ConfigDict(strict=True, protected_namespaces=())


class _Version(_Facts):
    version: str


class _Model(_Facts):
    dtype: str
    max_model_len: int
    logprobs_mode: str


class _Vllm(_Facts):
    model_settings: _Model = Field(alias="model_config")


class _Info(_Facts):
    vllm_config: _Vllm


class _Tokens(_Facts):
    tokens: list[int]


@dataclass(frozen=True)
class Trainer:
    """The side with which servers are compared."""

    name: str
    """The model, as the command names it."""
    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    samples: Sequence[Sample]
    """Prompts and responses to compare on."""
    limit: float
    """The largest gap, in nats per token."""
    temperature: float = 1.0
    """That of the training."""

    @property
    def hint(self) -> str:
        """Return the command that starts a server as it must be."""
        return f"start it with: rlvr serve {self.name}"


def check_contract(engine: ServerEngine, trainer: Trainer) -> list[str]:
    """Check every server, push two different weights, and compare each with the trainer's.

    Afterwards the servers have the trainer's weights, and `engine.context` is theirs if that is
    shorter. Return a line for each server. Raises UserError in a line that says what is wrong, and
    how the server is started.
    """
    facts = {server: _check_facts(engine, server, trainer) for server in engine.servers}
    engine.context = min(engine.context, *(model.max_model_len for _, model in facts.values()))
    with changed_weights(trainer.model):
        _push(engine, trainer)
        for server in engine.servers:
            _check_vocabulary(engine, server, trainer)
            _check_gap(engine, server, trainer, "first push")
    _push(engine, trainer)
    lines = []
    for server, (version, model) in facts.items():
        gap = _check_gap(engine, server, trainer, "second push")
        _check_seeds(engine, server, trainer)
        dtype = model.dtype.removeprefix("torch.")
        lines.append(
            f"{server.endpoint}: vLLM {shortened(version)}, {dtype}, context "
            f"{model.max_model_len}; two pushes taken, {gap:.1g} nats off"
        )
    return lines


def _check_facts(
    engine: ServerEngine, server: RolloutServer, trainer: Trainer
) -> tuple[str, _Model]:
    """Check what a server says of itself, and its tokenizer. Return version and model.

    Raises UserError if something is not as it must be.
    """
    version = _asked(server, "/version", _Version, "is it vLLM?").version
    numbers = release(version)
    if numbers is None or numbers < FIRST_VERSION:
        raise server.failure(
            f"vLLM {shortened(version)} does not name the weights of a response; 0.32 does, and "
            f"--python names one for rlvr serve; {trainer.hint}"
        )
    hint = f"without VLLM_SERVER_DEV_MODE=1 it takes no weights; {trainer.hint}"
    info = _asked(server, "/server_info?config_format=json", _Info, hint)
    model = info.vllm_config.model_settings
    dtype = model.dtype.removeprefix("torch.")
    if dtype != engine.precision:
        raise server.failure(
            f"it computes in {shortened(dtype)} and rollout.precision is {engine.precision}; "
            f"{trainer.hint} --dtype {engine.precision}"
        )
    if model.logprobs_mode != "processed_logprobs":
        raise server.failure(
            f"its log-probabilities are {shortened(model.logprobs_mode)}, not those of the "
            f"distribution it samples from (--logprobs-mode processed_logprobs); {trainer.hint}"
        )
    try:
        server.weight_version()
    except RequestFailedError as error:
        raise server.failure(
            f"it names no version of its weights ({error}); {trainer.hint}"
        ) from None
    _check_tokenizer(server, trainer)
    return version, model


def _check_tokenizer(server: RolloutServer, trainer: Trainer) -> None:
    """Raise UserError if a server reads a text as other tokens than the trainer."""
    body = {"prompt": _TEXT, "add_special_tokens": False}
    try:
        answer = server.ask("/tokenize", body)
        token_ids = _Tokens.model_validate(answer).tokens
    except (RequestFailedError, ValidationError):
        raise server.failure(f"it does not answer to /tokenize; {trainer.hint}") from None
    if token_ids != trainer.tokenizer.encode(_TEXT, add_special_tokens=False):
        raise server.failure(
            f"its tokenizer reads a text as other tokens than that of {trainer.name}: it has "
            f"another model; {trainer.hint}"
        )


def _check_vocabulary(engine: ServerEngine, server: RolloutServer, trainer: Trainer) -> None:
    """Raise UserError unless a server takes token ids, and exactly those of the tokenizer.

    It has taken weights before: one that failed to load others has none, and ends if it samples.
    """
    size = engine.weights.vocab_size
    params = SamplingParams(samples=1, max_tokens=1)
    try:
        server.ask(GENERATE, engine.body([size - 1], params, 0))
        server.ask(GENERATE, engine.body([size], params, 0))
    except RequestFailedError as error:
        if error.status == 400 and "out of vocabulary" in str(error):
            return
        reason = f"it does not answer ({error})"
        if error.status in (403, 404):
            reason = "it takes no token ids without --enable-scale-out"
        raise server.failure(f"{reason}; {trainer.hint}") from None
    raise server.failure(
        f"its vocabulary has more than the {size} ids of the tokenizer; {trainer.hint}"
    )


def _push(engine: ServerEngine, trainer: Trainer) -> None:
    """Push the model's weights. Raises UserError unless every server takes them."""
    try:
        engine.sync_weights(merged_parameters(trainer.model))
    except EngineError as error:
        raise UserError(f"{error}; {_seeing(engine)}; {trainer.hint}") from None
    for server, refusal in engine.refusals.items():
        raise server.failure(
            f"it does not take the weights ({refusal}); {_seeing(engine)}; {trainer.hint}"
        )


def _seeing(engine: ServerEngine) -> str:
    directory = engine.directory
    return f"do servers see {directory.there}? --weights-dir HERE:THERE names it on both sides"


def _check_gap(engine: ServerEngine, server: RolloutServer, trainer: Trainer, moment: str) -> float:
    """Return how far the log-probabilities of a server are from the trainer's, in nats a token.

    Raises UserError if that is more than the limit.
    """
    largest = 0.0
    for temperature in (trainer.temperature, _LOW):
        with alone(engine, server), _as_failure(server, trainer):
            size = engine.weights.vocab_size
            gap = score_gap(engine, trainer.model, size, trainer.samples, temperature)
        if not gap <= trainer.limit:  # nan is not
            raise server.failure(
                f"after the {moment} of weights it is {gap:.2g} nats a token off the trainer at "
                f"temperature {temperature:g}, {trainer.limit:g} allowed: it answers as if it had "
                f"taken them, and samples with others; {trainer.hint}"
            )
        largest = max(largest, gap)
    return largest


def _check_seeds(engine: ServerEngine, server: RolloutServer, trainer: Trainer) -> None:
    """Raise UserError unless response i of a group has the seed of the group plus i."""
    prompt = trainer.samples[0][0]

    def sampled(seed: int, samples: int = _SPREAD.samples) -> list[TokenIds]:
        params = replace(_SPREAD, samples=samples)
        ((_, group),) = engine.generate([prompt], params, [seed])
        return [completion.token_ids for completion in group]

    with alone(engine, server), _as_failure(server, trainer):
        group = sampled(seed=100)
        again = sampled(seed=100)
        single = [sampled(seed=100 + i, samples=1)[0] for i in range(_SPREAD.samples)]
        later = sampled(seed=2000)
    if min(_equal(group, again), _equal(group, single)) < _MOST_EQUAL:
        raise server.failure(
            f"with equal seeds it samples other tokens, so no run could be repeated; {trainer.hint}"
        )
    if _equal(group, later) == len(group):
        raise server.failure(f"with other seeds it samples the same tokens; {trainer.hint}")


def _equal(group: Sequence[TokenIds], second: Sequence[TokenIds]) -> int:
    """Return how many responses of two groups are equal, each with that of its number."""
    return sum(left == right for left, right in zip(group, second, strict=True))


@contextmanager
def alone(engine: ServerEngine, server: RolloutServer) -> Iterator[None]:
    """Sample from one of the servers alone."""
    active = engine.active
    engine.active = [server]
    try:
        yield
    finally:
        engine.active = active


@contextmanager
def _as_failure(server: RolloutServer, trainer: Trainer) -> Iterator[None]:
    """Raise UserError with the command that starts a server, for one that gives no responses."""
    try:
        yield
    except EngineError as error:
        raise UserError(f"{error}; {trainer.hint}") from None


@contextmanager
@torch.no_grad()
def changed_weights(model: "PreTrainedModel") -> Iterator[None]:
    """Multiply every weight by a random factor, and restore all of them to the bit at the end."""
    before = {name: p.detach().to("cpu", copy=True) for name, p in model.named_parameters()}
    generator = torch.Generator().manual_seed(0)
    try:
        for parameter in model.parameters():
            factors = torch.randn(parameter.shape, generator=generator) * _CHANGE + 1
            parameter.mul_(factors.to(parameter.device, parameter.dtype))
        yield
    finally:
        for name, parameter in model.named_parameters():
            parameter.copy_(before[name])


def _asked(server: RolloutServer, path: str, form: type[Any], hint: str) -> Any:
    """Return a server's answer in this form. Raises UserError, ending in the hint, if it has
    another, or does not answer."""
    try:
        return form.model_validate(server.ask(path))
    except RequestFailedError as error:
        raise server.failure(f"{path} fails ({error}): {hint}") from None
    except ValidationError:
        raise server.failure(f"what it answers to {path} is not vLLM's: {hint}") from None
