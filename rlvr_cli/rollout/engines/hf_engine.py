"""Sample from any causal model of transformers, with one prefill a prompt for its group."""

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
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
"""The share of unfinished rows below which the finished ones are taken out of the cache, or others
begin in their places: a copy costs about as much as a step, and a prefill as two."""
_PASS_TOKENS = 128
"""Tokens of padding that cost as much as a further pass: on a CPU 4 ms, of the built-in policy."""


@dataclass(frozen=True)
class _Rows:
    """Where the rows of a decoding batch begin and end, a number a row."""

    context: list[int]
    """The number of the prompt that it follows."""
    position: list[int]
    """The number of its first token in its random stream."""
    limit: list[int]
    """The most tokens that it gets."""
    steps: int
    """The most steps of the batch."""
    queue: deque[int] = field(default_factory=deque)
    """The rows that begin in the place of those that end, in this order. The others, with smaller
    numbers, begin at once."""

    @classmethod
    def of_groups(cls, prompts: int, params: SamplingParams) -> "_Rows":
        """Return the rows of new responses, `params.samples` for each prompt."""
        G = params.samples
        return cls(
            context=[p for p in range(prompts) for _ in range(G)],
            position=[0] * (prompts * G),
            limit=[params.max_tokens] * (prompts * G),
            steps=params.max_tokens,
        )


@dataclass
class _Batch:
    """The rows that are decoded together, and their keys and values."""

    rows: list[int]
    cache: GroupCache
    tokens: Tensor
    """The token [B] that each row decodes next."""
    positions: Tensor
    """Its position [B] in its text, less the number of the step."""
    uniforms: Tensor
    """Random numbers [B, steps]."""

    def keep(self, places: Tensor) -> None:
        """Keep the rows at these places, in this order."""
        self.rows = [self.rows[place] for place in places.tolist()]
        self.cache.keep(places)
        places = send(places, self.tokens.device)
        self.tokens = self.tokens[places]
        self.positions = self.positions[places]
        self.uniforms = self.uniforms[places]

    def replace(self, places: list[int], joining: "_Batch", step: int) -> None:
        """Put the rows of another batch into these places, to begin at this step."""
        self.rows = list(self.rows)  # a step on its way still reads the old ones
        for place, row in zip(places, joining.rows, strict=True):
            self.rows[place] = row
        targets = send(torch.tensor(places), self.tokens.device)
        self.cache.put(targets, joining.cache)
        self.tokens = self.tokens.index_copy(0, targets, joining.tokens)
        self.positions[targets] = joining.positions - step
        self.uniforms[targets, step:] = joining.uniforms


def _parts(contexts: list[TokenIds], padding: int) -> list[list[TokenIds]]:
    """Cut contexts, sorted by length, into those of one pass, at most `_PREFILLED`.

    A context joins a part if the padding that it adds to the part is at most `padding` tokens.
    """
    parts = [contexts[:1]]
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
        slots: int,
        listener: Listener | None = None,
    ) -> Extensions:
        """Extend as `Engine.extend` says. A batch gets new rows while it is decoded.

        With a cache of the model's own no response begins in the place of one that has ended.
        """
        refuse_responses(responses, params.max_tokens, self.context)
        contexts = [response.context for response in responses]
        unfinished = [r for r, response in enumerate(responses) if response.position]
        fresh = [r for r, response in enumerate(responses) if not response.position]
        room = max(0, slots - len(unfinished))
        order = sorted(unfinished + fresh[:room], key=lambda r: len(contexts[r]))
        fresh = fresh[room:]
        alone = replace(params, samples=1)
        longest = max(map(len, contexts), default=0) + tokens
        while order:
            batch = order[: max(1, self.kv_tokens // longest)]
            if not self.forward.packed:  # as in `generate`
                batch = [r for r in batch if len(contexts[r]) == len(contexts[batch[0]])]
                fresh = []
            order = order[len(batch) :]
            members = batch + fresh
            # The beginnings of a group have one context, whose keys are computed once.
            prompts = list(dict.fromkeys(contexts[r] for r in members))
            number = {context: p for p, context in enumerate(prompts)}
            rows = _Rows(
                context=[number[contexts[r]] for r in members],
                position=[responses[r].position for r in members],
                limit=[min(tokens, params.max_tokens - responses[r].position) for r in members],
                steps=tokens,
                queue=deque(range(len(batch), len(members))),
            )
            seeds = [responses[r].seed for r in members]
            for row, (completion,) in self._decode(prompts, alone, seeds, listener, rows):
                yield members[row], completion
            fresh = [members[row] for row in rows.queue]

    def sync_weights(self, named_parameters: NamedTensors) -> None:
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
    ) -> Iterator[FinishedGroup]:
        """Yield groups of `params.samples` rows as they finish, each with its number.

        There is a group for each seed, and the prompts are sorted by length. Without `starts` there
        is one for each prompt, which begins there. Rows that wait leave `starts` as they begin.
        """
        device = self.model.device
        G = params.samples
        starts = starts or _Rows.of_groups(len(prompts), params)
        precision = str(self.model.dtype).removeprefix("torch.")
        stop_ids = set(self.stop_ids)
        collector = TokenCollector(len(seeds), params, stop_ids, listener, precision, starts.limit)
        row_seeds = [seed + i for seed in seeds for i in range(G)]
        if not self.forward.packed:
            contexts = [list(prompts[p]) for p in starts.context]
            yield from self._decode_with_model_cache(contexts, row_seeds, starts, params, collector)
            return
        first_rows = list(range(len(row_seeds) - len(starts.queue)))
        longest = max(len(prompts[p]) for p in starts.context)
        batch = self._begin(prompts, starts, first_rows, row_seeds, starts.steps, longest)
        # The CPU reads a GPU's tokens while the GPU computes the next ones. So rows that have ended
        # leave a token late, and what is sampled for them meanwhile is not read.
        transfers = deque[tuple[list[int], TokenTransfer]]()
        for step in range(starts.steps):
            position_B = batch.positions + step
            if self.quick is not None:
                logits_BV = self.quick.logits(batch.tokens, position_B, batch.cache)
            else:
                logits_BV = self.model(
                    input_ids=batch.tokens[:, None],
                    position_ids=position_B[:, None],
                    attention_mask=batch.cache.open()[:, None, None],
                    past_key_values=batch.cache,
                    use_cache=True,
                ).logits[:, -1]
            batch.tokens, logprob_B = sample_tokens(
                logits_BV[:, : self.vocab_size],
                batch.uniforms[:, step],
                params.temperature,
                params.top_p,
            )
            transfers.append((batch.rows, TokenTransfer(batch.tokens, logprob_B)))
            if device.type == "cuda" and len(transfers) == 1:
                continue
            yield from collector.add(*transfers.popleft())
            is_done = [row in collector.ended for row in batch.rows]
            count = is_done.count(False)
            steps_left = starts.steps - step - 1
            if count < _COMPACT_BELOW * len(batch.rows) and starts.queue and steps_left:
                places = [place for place, done in enumerate(is_done) if done]
                joining = [starts.queue.popleft() for _ in places[: len(starts.queue)]]
                for row in joining:
                    starts.limit[row] = min(starts.limit[row], steps_left)
                batch.replace(
                    places[: len(joining)],
                    self._begin(prompts, starts, joining, row_seeds, steps_left),
                    step + 1,
                )
                continue
            if count == 0:
                break
            if count < _COMPACT_BELOW * len(batch.rows):
                batch.keep(compacted(torch.tensor(is_done), count))
        for step_rows, transfer in transfers:
            yield from collector.add(step_rows, transfer)

    def _begin(
        self,
        prompts: Sequence[TokenIds],
        starts: _Rows,
        rows: list[int],
        row_seeds: list[int],
        steps: int,
        longest: int = 0,
    ) -> _Batch:
        """Compute the keys and values of the contexts of these rows, for this number of steps.

        The contexts are padded on the right, without their last token: in a causal model later
        tokens never change earlier ones, and decoding masks the padding out. With `longest` there
        is room for the steps behind a context of this length.
        """
        device = self.model.device
        numbers = sorted({starts.context[row] for row in rows}, key=lambda p: len(prompts[p]))
        place = {p: index for index, p in enumerate(numbers)}
        contexts = [prompts[p] for p in numbers]
        lengths_P = torch.tensor([len(context) for context in contexts], device=device)
        cache = GroupCache()
        goes_on = any(starts.position[row] for row in rows)
        for part in _parts(contexts, _PASS_TOKENS if goes_on else sys.maxsize):
            part_cache = GroupCache()
            ids = torch.zeros(len(part), max(len(part[-1]) - 1, 1), dtype=torch.long)
            for row_ids, context in zip(ids, part, strict=True):
                row_ids[: len(context) - 1] = torch.tensor(context[:-1])
            self.model.base_model(
                input_ids=ids.to(device), past_key_values=part_cache, use_cache=True
            )
            cache.append(part_cache)
        context_B = send(torch.tensor([place[starts.context[row]] for row in rows]), device)
        room = longest - len(contexts[-1]) + steps if longest else 1
        cache.start(context_B, lengths_P - 1, room)
        position_B1 = send(torch.tensor([starts.position[row] for row in rows]), device)[:, None]
        seed_B1 = torch.tensor([row_seeds[row] for row in rows], device=device)[:, None]
        token_P = torch.tensor([context[-1] for context in contexts], device=device)
        return _Batch(
            rows=rows,
            cache=cache,
            tokens=token_P[context_B],
            positions=lengths_P[context_B] - 1,
            uniforms=uniform(seed_B1, position_B1 + torch.arange(steps, device=device)),
        )

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
