"""Sample from any causal model of transformers, with one prefill a prompt for its group."""

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from unittest.mock import patch

import torch
from torch import Tensor
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedModel,
    StoppingCriteriaList,
)

from rlvr_cli.core.types import Completion, SamplingParams, TokenIds, Unfinished
from rlvr_cli.model.forward import PACKED, Forward
from rlvr_cli.model.packing import attention_sizes, send
from rlvr_cli.rollout.engines.base import (
    TURNS,
    CompletionStream,
    Engine,
    Extensions,
    FinishedGroup,
    Listener,
    NamedTensors,
    refuse_prompts,
    refuse_responses,
)
from rlvr_cli.rollout.engines.decoding import GroupCache, compacted, quick_layers
from rlvr_cli.rollout.engines.sampling import TokenCollector, TokenTransfer, sample_tokens, uniform

_PREFILLED = 32
"""Prompts of similar length in one pass: with 128, half of GSM8K's tokens would be padding."""
_COMPACT_BELOW = 0.9
"""The share of unfinished rows below which the finished ones are taken out of the cache: a copy
costs about as much as a step."""
_PASS_TOKENS = 128
"""Tokens of padding that cost as much as a further pass: on a CPU 4 ms, of the built-in policy."""


@dataclass(frozen=True)
class _Kept:
    """Keys and values that a round leaves to the next one with the same weights."""

    cache: GroupCache
    rows: list[tuple[int, int]]
    """The seed of each row, and the number of its tokens."""


@dataclass(frozen=True)
class _Rows:
    """Where the rows of a decoding batch begin and end, a number a row."""

    context: list[int]
    """The number of the prompt that it follows."""
    position: list[int]
    """The number of its first token in its random stream."""
    limit: list[int]
    """The most tokens that it gets."""

    @classmethod
    def of_groups(cls, prompts: int, params: SamplingParams) -> "_Rows":
        """Return the rows of new responses, `params.samples` for each prompt."""
        G = params.samples
        return cls(
            context=[p for p in range(prompts) for _ in range(G)],
            position=[0] * (prompts * G),
            limit=[params.max_tokens] * (prompts * G),
        )


def _distinct(contexts: Sequence[TokenIds]) -> tuple[list[TokenIds], list[int]]:
    """Return each context once, and the place among them of every context.

    The beginnings of a group have one context, whose keys are computed once.
    """
    number = {context: place for place, context in enumerate(dict.fromkeys(contexts))}
    return list(number), [number[context] for context in contexts]


def _parts(contexts: Sequence[TokenIds], padding: int) -> list[list[TokenIds]]:
    """Cut contexts, sorted by length, into those of one pass, at most `_PREFILLED`.

    A context joins a part if the padding that it adds to the part is at most `padding` tokens.
    """
    parts = [[contexts[0]]]
    for context in contexts[1:]:
        part = parts[-1]
        added = len(part) * (len(context) - len(part[-1]))
        if len(part) < _PREFILLED and added <= padding:
            part.append(context)
        else:
            parts.append([context])
    return parts


class TransformersEngine(Engine):
    """An engine on `model`, which may be the trainer's own: then the weights are always current.

    `vocab_size` is the tokenizer's, beyond which no id is sampled. `kv_budget_mb` bounds the keys
    and values of the rows that are decoded together (at least one). If `forward` is not packed, the
    model keeps its own kind of cache, and every response has its own prefill. A model that
    `has_adapter` of its own gets the matrices of the trainer's.
    """

    name = "transformers"

    def __init__(
        self,
        model: PreTrainedModel,
        vocab_size: int,
        stop_ids: TokenIds,
        kv_budget_mb: int,
        forward: Forward = PACKED,
        has_adapter: bool = False,
    ) -> None:
        self.model = model
        self.has_adapter = has_adapter
        self.vocab_size = vocab_size
        self.forward = forward
        self.stop_ids = tuple(stop_ids)
        config = model.config.get_text_config()
        sizes = attention_sizes(config)
        numbers = 2 * config.num_hidden_layers * sizes.kv_heads * sizes.head_dim
        self.kv_tokens = (kv_budget_mb << 20) // (numbers * model.dtype.itemsize)
        self.context = getattr(config, "max_position_embeddings", None) or sys.maxsize
        self.quick = quick_layers(model) if forward.packed else None
        self._kept: _Kept | None = None

    def generate(
        self,
        prompts: Sequence[TokenIds],
        params: SamplingParams,
        seeds: Sequence[int],
        listener: Listener | None = None,
    ) -> CompletionStream:
        """Generate as `Engine.generate` says, prompts of similar length together.

        A group whose keys and values exceed the budget is decoded alone and in parts.
        """
        refuse_prompts(prompts, params.max_tokens, self.context)
        order = sorted(range(len(prompts)), key=lambda p: len(prompts[p]))
        while order:
            longest = len(prompts[order[-1]]) + params.max_tokens
            rows = max(1, self.kv_tokens // longest)
            batch = order[: max(1, rows // params.samples)]
            if not self.forward.packed:  # padding would enter the state of a recurrent layer
                batch = [p for p in batch if len(prompts[p]) == len(prompts[batch[0]])]
            order = order[len(batch) :]
            groups: dict[int, list[Completion]] = {p: [] for p in batch}
            for first in range(0, params.samples, rows):
                part = replace(params, samples=min(rows, params.samples - first))
                part_seeds = [seeds[p] + first for p in batch]
                batch_prompts = [prompts[p] for p in batch]
                for place, completions in self._decode(batch_prompts, part, part_seeds, listener):
                    p = batch[place]
                    groups[p] += completions
                    if len(groups[p]) == params.samples:
                        yield p, groups.pop(p)

    def extend(
        self,
        responses: Sequence[Unfinished],
        params: SamplingParams,
        tokens: int,
        listener: Listener | None = None,
    ) -> Extensions:
        """Extend as `Engine.extend` says. Responses of similar length are decoded together."""
        refuse_responses(responses, params.max_tokens, self.context)
        contexts = [response.context for response in responses]
        order = sorted(range(len(responses)), key=lambda r: len(contexts[r]))
        alone = replace(params, samples=1)
        cache = None
        if self._kept is not None:
            goes_on = self._rows_of_kept(self._kept, responses, tokens)
            if goes_on is not None:
                cache = self._kept.cache
                order = goes_on
        self._kept = None
        while order:
            longest = max(len(contexts[r]) for r in order) + TURNS * tokens
            batch = order if cache is not None else order[: max(1, self.kv_tokens // longest)]
            if not self.forward.packed:  # as in `generate`
                batch = [r for r in batch if len(contexts[r]) == len(contexts[batch[0]])]
            order = order[len(batch) :]
            prompts, places = _distinct([contexts[r] for r in batch])
            rows = _Rows(
                context=places,
                position=[responses[r].position for r in batch],
                limit=[min(tokens, params.max_tokens - responses[r].position) for r in batch],
            )
            seeds = [responses[r].seed for r in batch]
            if cache is None and self.forward.packed:
                cache = self._prefill(prompts, rows.context, TURNS * tokens, _PASS_TOKENS)
            ends = list(rows.position)
            for row, (completion,) in self._decode(prompts, alone, seeds, listener, rows, cache):
                ends[row] += len(completion.token_ids)
                yield batch[row], completion
            if cache is not None and len(batch) == len(responses):
                self._kept = _Kept(cache, list(zip(seeds, ends, strict=True)))
            cache = None

    def drop_keys(self) -> None:
        self._kept = None

    @torch.inference_mode()
    def _rows_of_kept(
        self, kept: _Kept, responses: Sequence[Unfinished], tokens: int
    ) -> list[int] | None:
        """Add new responses to the keys of the last call, in the rows of responses that have ended
        or after the last row. Return the response of each row, or None if there is no room."""
        number = {(response.seed, response.position): r for r, response in enumerate(responses)}
        rows = [number.pop(row, None) for row in kept.rows]
        joining = sorted(number.values(), key=lambda r: len(responses[r].context))
        contexts = [responses[r].context for r in joining]
        end = max([kept.cache.get_seq_length(), *map(len, contexts)]) + tokens
        room = kept.cache.room or end
        if end > room or room * max(len(rows), len(responses)) > self.kv_tokens or not responses:
            return None
        free = [place for place, r in enumerate(rows) if r is None]
        added = max(0, len(joining) - len(free))
        free += range(len(rows), len(rows) + added)
        rows += [None] * added
        if joining:
            prompts, context = _distinct(contexts)
            cache = self._prefill(prompts, context, 1, _PASS_TOKENS)
            places = free[: len(joining)]
            kept.cache.put(send(torch.tensor(places), self.model.device), cache, len(rows))
            for place, r in zip(places, joining, strict=True):
                rows[place] = r
        if len(joining) < len(free):
            kept.cache.keep(torch.tensor([place for place, r in enumerate(rows) if r is not None]))
        return [r for r in rows if r is not None]

    def sync_weights(self, named_parameters: NamedTensors) -> None:
        self.drop_keys()
        parameters = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, tensor in named_parameters:
                if parameters[name] is not tensor:
                    parameters[name].copy_(tensor)

    @torch.inference_mode()
    def _decode(
        self,
        prompts: Sequence[TokenIds],
        params: SamplingParams,
        seeds: Sequence[int],
        listener: Listener | None,
        starts: _Rows | None = None,
        cache: GroupCache | None = None,
    ) -> Iterator[FinishedGroup]:
        """Yield groups of `params.samples` rows as they finish, each with its number.

        There is a group for each seed. Without `starts` there is one for each prompt, which begins
        there. A `cache` has the keys of all rows and keeps them. Else the prompts are sorted by
        length.
        """
        device = self.model.device
        G = params.samples
        starts = starts or _Rows.of_groups(len(prompts), params)
        longest = max(starts.limit)
        precision = str(self.model.dtype).removeprefix("torch.")
        stop_ids = set(self.stop_ids)
        collector = TokenCollector(len(seeds), params, stop_ids, listener, precision, starts.limit)
        row_seeds = [seed + i for seed in seeds for i in range(G)]
        if not self.forward.packed:
            contexts = [list(prompts[p]) for p in starts.context]
            yield from self._decode_with_model_cache(contexts, row_seeds, starts, params, collector)
            return
        keeps_rows = cache is not None
        if cache is None:
            cache = self._prefill(prompts, starts.context, longest)
        context_B = send(torch.tensor(starts.context), device)
        lengths_P = send(torch.tensor([len(prompt) for prompt in prompts]), device)
        first_B1 = send(torch.tensor(starts.position), device)[:, None]
        steps_BT = first_B1 + torch.arange(longest, device=device)
        uniform_BT = uniform(torch.tensor(row_seeds, device=device)[:, None], steps_BT)
        token_B = torch.tensor([prompt[-1] for prompt in prompts], device=device)[context_B]
        position_B = lengths_P[context_B] - 1
        # The CPU reads a GPU's tokens while the GPU computes the next ones. So rows that have ended
        # leave a token late, and what is sampled for them meanwhile is not read.
        rows = list(range(len(context_B)))
        transfers = deque[tuple[list[int], TokenTransfer]]()
        for step in range(longest):
            if self.quick is not None:
                logits_BV = self.quick.logits(token_B, position_B + step, cache)
            else:
                logits_BV = self.model(
                    input_ids=token_B[:, None],
                    position_ids=(position_B + step)[:, None],
                    attention_mask=cache.open()[:, None, None],
                    past_key_values=cache,
                    use_cache=True,
                ).logits[:, -1]
            token_B, logprob_B = sample_tokens(
                logits_BV[:, : self.vocab_size],
                uniform_BT[:, step],
                params.temperature,
                params.top_p,
            )
            transfers.append((rows, TokenTransfer(token_B, logprob_B)))
            if device.type == "cuda" and len(transfers) == 1:
                continue
            yield from collector.add(*transfers.popleft())
            is_done = [row in collector.ended for row in rows]
            count = is_done.count(False)
            if count == 0:
                break
            if count < _COMPACT_BELOW * len(rows) and not keeps_rows:
                places = compacted(torch.tensor(is_done), count)
                rows = [rows[place] for place in places.tolist()]
                cache.keep(places)
                places = send(places, device)
                token_B = token_B[places]
                position_B = position_B[places]
                uniform_BT = uniform_BT[places]
        for step_rows, transfer in transfers:
            yield from collector.add(step_rows, transfer)

    @torch.inference_mode()
    def _prefill(
        self,
        prompts: Sequence[TokenIds],
        context: list[int],
        tokens: int,
        padding: int = sys.maxsize,
    ) -> GroupCache:
        """Compute keys and values of every prompt but its last token, for rows with these contexts.

        There is room for `tokens` more. The prompts are sorted by length and padded on the right:
        in a causal model later tokens never change earlier ones, and decoding masks the padding
        out.
        """
        device = self.model.device
        cache = GroupCache()
        for part in _parts(prompts, padding):
            part_cache = GroupCache()
            ids = torch.zeros(len(part), max(len(part[-1]) - 1, 1), dtype=torch.long)
            for row, prompt in zip(ids, part, strict=True):
                row[: len(prompt) - 1] = torch.tensor(prompt[:-1])
            self.model.base_model(
                input_ids=ids.to(device), past_key_values=part_cache, use_cache=True
            )
            cache.append(part_cache)
        lengths_P = send(torch.tensor([len(prompt) for prompt in prompts]), device)
        cache.start(send(torch.tensor(context), device), lengths_P - 1, tokens)
        return cache

    def _decode_with_model_cache(
        self,
        contexts: list[list[int]],
        seeds: list[int],
        starts: _Rows,
        params: SamplingParams,
        collector: TokenCollector,
    ) -> list[FinishedGroup]:
        """Decode rows of one length with the model's own cache, and return finished groups.

        The cache may be of recurrent states, sliding windows or sinks. The groups are (prompt
        index, completions) in the order in which they ended.
        """
        ids = torch.tensor(contexts, device=self.model.device)
        seeds_B = torch.tensor(seeds, device=self.model.device)
        first_B = torch.tensor(starts.position, device=self.model.device)
        done_B = torch.zeros_like(seeds_B, dtype=torch.bool)
        every_row = range(len(contexts))
        finished: list[FinishedGroup] = []

        def sample_token(input_ids: Tensor, scores: Tensor) -> Tensor:
            """Sample each row's token by its seed, and leave `generate` no other choice."""
            uniform_B = uniform(seeds_B, first_B + input_ids.shape[1] - ids.shape[1])
            token_B, logprob_B = sample_tokens(
                scores[:, : self.vocab_size], uniform_B, params.temperature, params.top_p
            )
            finished.extend(collector.add(every_row, TokenTransfer(token_B, logprob_B)))
            done_B.copy_(torch.tensor([row in collector.ended for row in every_row]))
            return torch.full_like(scores, -torch.inf).scatter(-1, token_B[:, None], 0.0)

        # The model's own settings (penalties, top-k) must not change the distribution.
        settings = GenerationConfig(
            max_new_tokens=max(starts.limit),
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None,
        )
        with patch.object(self.model, "generation_config", settings):
            self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                generation_config=settings,
                logits_processor=LogitsProcessorList([sample_token]),
                stopping_criteria=StoppingCriteriaList([lambda *_, **__: done_B]),
            )
        return finished
