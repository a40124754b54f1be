"""Decode with the model's own cache: recurrent states, sliding windows, sinks."""

from collections.abc import Iterator, Sequence

import torch
import transformers

from rlvr_cli.core.libraries import replaced
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
    seeds_B = torch.tensor(seeds, device=model.device)
    done_B = torch.zeros_like(seeds_B, dtype=torch.bool)
    finished: list[tuple[int, list[Completion]]] = []

    def draw(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Draw each row's token by its seed; `generate` has no choice."""
        draws_B = uniform(seeds_B, input_ids.shape[1] - ids.shape[1])
        token_B, logprob_B = sample(
            scores[:, :vocab_size], draws_B, params.temperature, params.top_p
        )
        row_B = (~done_B).nonzero()[:, 0]
        finished.extend(drawn.add(row_B, token_B[row_B], logprob_B[row_B]))
        done_B.logical_or_(torch.isin(token_B, stop_ids))
        return torch.full_like(scores, -torch.inf).scatter(-1, token_B[:, None], 0.0)

    # Settings of the model's own (penalties, top-k) must not reach into the distribution.
    settings = transformers.GenerationConfig(
        max_new_tokens=params.max_tokens, do_sample=False, pad_token_id=0, eos_token_id=None
    )
    with replaced(model, "generation_config", settings):
        model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            generation_config=settings,
            logits_processor=transformers.LogitsProcessorList([draw]),
            stopping_criteria=transformers.StoppingCriteriaList([lambda *_, **__: done_B]),
        )
    yield from finished
