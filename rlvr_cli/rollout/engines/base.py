"""The interface of a rollout engine."""

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlvr_cli.core.errors import EngineError, UserError
from rlvr_cli.core.types import Completion, SamplingParams, TokenIds, Unfinished
from rlvr_cli.model.forward import Sample, own_logprobs

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Listener = Callable[[int], None]
"""A callback for every token id of all responses as it is sampled."""
FinishedGroup = tuple[int, list[Completion]]
"""The index of a prompt, and its G completions."""
CompletionStream = Generator[FinishedGroup]
"""Groups as they finish, in any order."""
Extensions = Generator[tuple[int, Completion]]
"""The next tokens of responses, each with the index of its response. A `length` says that the limit
of the call was reached."""
NamedTensors = Iterable[tuple[str, Tensor]]
"""Weights by name."""
SEQUENCES = 512
"""The most responses that vLLM decodes together."""
TURNS = 8
"""Calls of `extend` in a round of partial rollouts. A place is empty for half a turn, until another
response begins there, and an engine has room for the keys of all."""
_SCORED = 8
"""Tokens a prompt on which an engine is compared with the model at the start."""


class Engine:
    """A source of responses, from a copy of the policy or from the trainer's model itself."""

    name: str
    """The name of the library that samples, as it is imported."""
    has_adapter = False
    """Whether weights come as the matrices of an adapter, which are not merged."""

    def generate(
        self,
        prompts: Sequence[TokenIds],
        params: SamplingParams,
        seeds: Sequence[int],
        listener: Listener | None = None,
    ) -> CompletionStream:
        """Yield (prompt index, its G completions) as groups finish, in any order.

        Sample i of prompt p has seed `seeds[p] + i`. Up to float rounding it does not depend on
        what else is sampled at the same time. Closing the stream gives up unfinished groups. Raises
        UserError for a prompt without a token, for one that leaves no room for `max_tokens`, and
        for probabilities that are not finite.
        """
        raise NotImplementedError

    def extend(
        self,
        responses: Sequence[Unfinished],
        params: SamplingParams,
        tokens: int,
        listener: Listener | None = None,
    ) -> Extensions:
        """Yield (index, its next tokens) of every response as it has them, in any order.

        They are `tokens` more at most, and `params.max_tokens` in all. Each depends on the response
        alone: its random stream goes on at its position. Keys and values of the call before may be
        used, until `drop_keys`, and others are computed. Raises UserError as `generate` does.
        """
        raise NotImplementedError

    def rely_on(self, servers: Collection[str]) -> None:
        """Sample from these servers alone until the next `sync_weights`, if servers sample."""

    def drop_keys(self) -> None:
        """Drop keys and values of earlier responses, which old weights computed."""

    def sync_weights(self, named_parameters: NamedTensors) -> None:
        """Copy the trainer's weights. Call this only while nothing is being generated."""
        raise NotImplementedError

    def sleep(self) -> None:
        """Free memory for the update. Weights may be lost until `sync_weights`, before `wake`."""

    def wake(self) -> None:
        """Prepare to generate again."""

    def close(self) -> None:
        """Free all resources."""


def refuse_prompts(prompts: Sequence[TokenIds], max_tokens: int, context: int) -> None:
    """Raise UserError naming the first prompt that cannot be continued."""
    for index, prompt in enumerate(prompts):
        if not prompt:
            raise UserError(f"prompt {index + 1} of {len(prompts)} is empty: it holds no token")
        if len(prompt) + max_tokens > context:
            raise UserError(
                f"prompt {index + 1} of {len(prompts)} has {len(prompt)} tokens, which with a "
                f"response of {max_tokens} is more than the engine's context of {context}; lower "
                "--max-tokens or leave the prompt out"
            )


def refuse_responses(responses: Sequence[Unfinished], max_tokens: int, context: int) -> None:
    """Raise UserError naming the first prompt whose response has no room."""
    refuse_prompts([response.prompt.token_ids for response in responses], max_tokens, context)


def not_finite(precision: str) -> UserError:
    """Return the error for probabilities that are not finite, of an engine in this dtype."""
    text = "the model gives probabilities that are not finite"
    if precision == "float16":
        text += " in float16, whose numbers end at 65504; take --set rollout.precision=float32"
    return UserError(text)


def check_scores(
    engine: Engine,
    model: "PreTrainedModel",
    vocab_size: int,
    samples: Sequence[Sample],
    limit: float,
) -> float:
    """Return `score_gap`. Raises EngineError if it is more than `limit`: weights did not arrive, or
    the engine computes another model with them."""
    gap = score_gap(engine, model, vocab_size, samples)
    if gap <= limit:  # nan is not
        return gap
    raise EngineError(
        f"{engine.name} and the trainer disagree by {gap:.3g} about the log-probability of a "
        f"sampled token, more than rollout.mismatch_limit {limit:g}, with the same weights: what "
        f"{engine.name} makes of {type(model).__name__} is another model; run again with --engine "
        "transformers, and please report it"
    )


def score_gap(
    engine: Engine,
    model: "PreTrainedModel",
    vocab_size: int,
    samples: Sequence[Sample],
    temperature: float = 1.0,
) -> float:
    """Sample a few tokens and return how far the engine's log-probabilities are from the model's,
    as a mean in nats per token."""
    prompts = list(dict.fromkeys(tuple(prompt) for prompt, _ in samples))
    max_tokens = min(_SCORED, max(len(response) for _, response in samples))
    params = SamplingParams(samples=1, max_tokens=max_tokens, temperature=temperature)
    groups = dict(engine.generate(prompts, params, range(len(prompts))))
    completions = [groups[p][0] for p in range(len(prompts))]
    pairs = [(prompts[p], groups[p][0].token_ids) for p in range(len(prompts))]
    sampled = torch.tensor([x for completion in completions for x in completion.logprobs])
    expected = own_logprobs(model, vocab_size, pairs, temperature).cpu()
    return float((expected - sampled).abs().mean())
