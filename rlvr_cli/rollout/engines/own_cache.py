"""Decode with the model's own cache: recurrent states, sliding windows, sinks."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import transformers

from rlvr_cli.core.types import Completion, SamplingParams
from rlvr_cli.rollout.engines.sampling import Drawn, sample, uniform


def decode_with_own_cache(
    model: transformers.PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[int],
    params: SamplingParams,
    vocab_size: int,
    stop_ids: torch.Tensor,
    drawn: Drawn,
) -> Iterator[tuple[int, list[Completion]]]:
    """Yield (prompt index, completions) of B prompts of one length when `generate` ends."""
    ids = torch.tensor([list(prompt) for prompt in prompts], device=model.device)
    sampling = _Sampling(torch.tensor(seeds, device=model.device), params, vocab_size, stop_ids)
    sampling.drawn = drawn
    # Settings of the model's own (penalties, top-k) must not reach into the distribution.
    settings = transformers.GenerationConfig(
        max_new_tokens=params.max_tokens, do_sample=False, pad_token_id=0, eos_token_id=None
    )
    published, model.generation_config = model.generation_config, settings
    try:
        model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            generation_config=settings,
            logits_processor=transformers.LogitsProcessorList([sampling]),
            stopping_criteria=transformers.StoppingCriteriaList([_Done(sampling)]),
        )
    finally:
        model.generation_config = published
    yield from sampling.finished


class _Sampling(transformers.LogitsProcessor):
    """A logits processor that draws each row's token by its seed; `generate` has no choice."""

    drawn: Drawn

    def __init__(
        self, seeds_B: torch.Tensor, params: SamplingParams, vocab_size: int, stop_ids: torch.Tensor
    ) -> None:
        self.seeds_B, self.params, self.vocab_size = seeds_B, params, vocab_size
        self.stop_ids, self.step = stop_ids, 0
        self.done_B = torch.zeros_like(seeds_B, dtype=torch.bool)
        self.finished: list[tuple[int, list[Completion]]] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        draws_B = uniform(self.seeds_B, self.step)
        token_B, logprob_B = sample(
            scores[:, : self.vocab_size], draws_B, self.params.temperature, self.params.top_p
        )
        alive = ~self.done_B
        row_B = alive.nonzero()[:, 0]
        self.finished += self.drawn.add(row_B, token_B[alive], logprob_B[alive])
        self.done_B |= torch.isin(token_B, self.stop_ids)
        self.step += 1
        return torch.full_like(scores, -torch.inf).scatter(-1, token_B[:, None], 0.0)


class _Done(transformers.StoppingCriteria):
    """A stopping criterion: which rows have drawn an end token."""

    def __init__(self, sampling: _Sampling) -> None:
        self.sampling = sampling

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        return self.sampling.done_B
