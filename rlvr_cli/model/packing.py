"""Run several responses at once: packed in one row without padding, each prompt once, or padded.

Everything but attention works token by token, so a packed model sees a single row of all prompts
and then all responses. `packed_attention` puts the tokens back where they belong: a response
attends to its prompt and to itself. The last token of a response predicts nothing and is left out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from rlvr_cli.core.versions import varlen_takes_groups

ATTENTION = "rlvr_sdpa"
"""The name under which transformers knows the attention function of this module."""
WINDOWS: set[int] = set()
"""The lengths of all sliding windows and chunks that attention has met since this was cleared."""
_RUN_TYPES, _WIDEST_HEAD = (torch.bfloat16, torch.float16), 256
_VARLEN_TAKES_GROUPS = varlen_takes_groups()


@dataclass(frozen=True)
class Layout:
    """The positions of N packed tokens, of U prompts with at most L and B responses with at most T:
    first for attention with a mask, then as runs of tokens, without padding and mask."""

    prompt_index: torch.Tensor
    """[U, L] into the packed row; padding points at token 0."""
    response_index: torch.Tensor
    """[B, T], likewise."""
    prompt_of: torch.Tensor
    """[B]: the prompt of each response."""
    unpack: torch.Tensor
    """[N]: the place of each packed token among the U L and then B T padded ones."""
    keys: torch.Tensor
    """Indices into the packed row: of each response in turn its prompt and itself."""
    ends: tuple[torch.Tensor, ...]
    """int32: where each prompt begins and the last one ends [U + 1]; each response, from the first
    one on [B + 1]; each response with its prompt, in `keys` [B + 1]."""
    start: int
    """Where the responses begin in the packed row."""
    longest: tuple[int, int, int]
    """Tokens of a prompt, a response, and the two together."""

    @cached_property
    def visible(self) -> torch.Tensor:
        """[B, 1, T, L + T]: 0 where a response token may look (its prompt and itself), else -inf.
        It is made when it is first read: the kernel for runs has no use for it."""
        (B, T), L, device = self.response_index.shape, self.longest[0], self.prompt_of.device
        lengths_B11 = self.ends[0].diff()[self.prompt_of][:, None, None]
        sees_prompt = (torch.arange(L, device=device) < lengths_B11).expand(-1, T, -1)
        sees_itself = torch.ones(T, T, dtype=torch.bool, device=device).tril().expand(B, -1, -1)
        visible = torch.cat([sees_prompt, sees_itself], -1)[:, None]
        return torch.zeros_like(visible, dtype=torch.float32).masked_fill_(~visible, -torch.inf)


@dataclass(frozen=True)
class ModelInputs:
    """The inputs of one forward pass, and the positions that predict each response token.

    Packed (`layout` given): one row of N tokens. Padded (`attention_mask` given): B rows of a
    prompt and its response, padded on the right to L tokens.
    """

    input_ids: torch.Tensor
    """[1, N] or [B, L]."""
    position_ids: torch.Tensor | None
    """[1, N]; None where the model counts by itself."""
    layout: Layout | None
    attention_mask: torch.Tensor | None
    """[B, L]: 1 for a token."""
    predicted_from: torch.Tensor
    """[B, T] into the flat tokens: the token before, which for the first is the prompt's last."""
    response_ids: torch.Tensor
    """[B, T], 0 in the padding."""
    mask: torch.Tensor
    """[B, T]: 1 for the tokens of the response, its end token among them; from lengths alone."""
    places: tuple[torch.Tensor, ...]
    """Row and column of each 1 in the mask, [N] both, found on the CPU: no GPU is waited for."""

    def of_tokens(self, rows_BT: torch.Tensor) -> torch.Tensor:
        """Return the values of the response tokens alone, [N]."""
        return rows_BT[self.places]

    def predicting(self, hidden_N: torch.Tensor) -> torch.Tensor:
        """Return the hidden states [N, H] that predict the response tokens, of those of all."""
        return hidden_N.index_select(0, self.of_tokens(self.predicted_from))  # as in `take`

    def in_rows(self, values_N: torch.Tensor) -> torch.Tensor:
        """Return values of the response tokens as [B, T], 0 in the padding."""
        return values_N.new_zeros(self.mask.shape).index_put(self.places, values_N)


def send(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy to a device, to a GPU without waiting for what it is doing."""
    tensor = tensor.pin_memory() if device.type == "cuda" else tensor
    return tensor.to(device, non_blocking=True)


def pack(
    prompts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]], like: torch.Tensor
) -> ModelInputs:
    """Pack response i with prompt i, equal prompts once. Device and type are those of `like`."""
    to_device = partial(send, device=like.device)
    number = {prompt: index for index, prompt in enumerate(dict.fromkeys(map(tuple, prompts)))}
    prompt_of = torch.tensor([number[tuple(prompt)] for prompt in prompts])
    lengths = torch.tensor([len(prompt) for prompt in number])
    kept = torch.tensor([len(response) - 1 for response in responses])
    both = lengths[prompt_of] + kept
    response_ids, mask, places = _responses(responses, like)
    L, T, start = int(lengths.max()), mask.shape[1], int(lengths.sum())
    prompt_index, prompt_valid = _indices(lengths, L, 0)
    response_index, response_valid = _indices(kept, T, start)
    # The row: ids, the position of each in its own text, and what stands before each response.
    flat = [token for prompt in number for token in prompt]
    flat += [token for response in responses for token in response[:-1]]
    in_prompt = torch.arange(L).expand_as(prompt_index)[prompt_valid]
    in_response = (lengths[prompt_of][:, None] + torch.arange(T))[response_valid]
    before = prompt_index.gather(1, lengths[:, None] - 1)[prompt_of]
    unpack = torch.cat([prompt_valid.flatten(), response_valid.flatten()]).nonzero()[:, 0]
    # The same as runs.
    keys = torch.cat([prompt_index[prompt_of], response_index], 1)
    keys = keys[torch.cat([prompt_valid[prompt_of], response_valid], 1)]
    layout = Layout(
        prompt_index=to_device(prompt_index),
        response_index=to_device(response_index),
        prompt_of=to_device(prompt_of),
        unpack=to_device(unpack),
        keys=to_device(keys),
        ends=tuple(to_device(F.pad(n.cumsum(0), (1, 0)).int()) for n in (lengths, kept, both)),
        start=start,
        longest=(L, int(kept.max()), int(both.max())),
    )
    return ModelInputs(
        input_ids=to_device(torch.tensor([flat])),
        position_ids=to_device(torch.cat([in_prompt, in_response])[None]),
        layout=layout,
        attention_mask=None,
        predicted_from=to_device(torch.cat([before, response_index[:, :-1]], 1)),
        response_ids=response_ids,
        mask=mask,
        places=places,
    )


def pad(
    prompts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]], like: torch.Tensor
) -> ModelInputs:
    """Place response i behind prompt i, one row each, for a model that cannot be packed."""
    to_device = partial(send, device=like.device)
    rows = [[*p, *r[:-1]] for p, r in zip(prompts, responses, strict=True)]
    lengths = torch.tensor([len(row) for row in rows])
    L = int(lengths.max())
    input_ids = torch.tensor([row + [0] * (L - len(row)) for row in rows])
    response_ids, mask, places = _responses(responses, like)
    starts = torch.tensor([b * L + len(prompt) - 1 for b, prompt in enumerate(prompts)])
    before = starts[:, None] + torch.arange(mask.shape[1])
    return ModelInputs(
        input_ids=to_device(input_ids),
        position_ids=None,
        layout=None,
        attention_mask=to_device((torch.arange(L) < lengths[:, None]).long()),
        predicted_from=to_device(before) * mask.long(),
        response_ids=response_ids,
        mask=mask,
        places=places,
    )


def _responses(
    responses: Sequence[Sequence[int]], like: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, ...]]:
    """Return the responses padded with 0 [B, T], their mask of `like`'s type, and its places."""
    lengths = torch.tensor([len(response) for response in responses])
    T = int(lengths.max())
    ids = torch.tensor([[*response, *[0] * (T - len(response))] for response in responses])
    mask = torch.arange(T) < lengths[:, None]
    columns = (ids, mask.to(like.dtype), *mask.nonzero(as_tuple=True))
    ids, mask, *places = (send(column, like.device) for column in columns)
    return ids, mask, tuple(places)


def _indices(lengths: torch.Tensor, width: int, start: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return indices [rows, width] of runs of these lengths from `start` on, and which are real."""
    offsets = start + lengths.cumsum(0) - lengths
    column = torch.arange(width)
    valid = column < lengths[:, None]
    return (offsets[:, None] + column).masked_fill(~valid, 0), valid


def packed_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layout: Layout, scale: float | None
) -> torch.Tensor:
    """Compute attention [1, N, heads, D] of packed tokens; query, key, value are [1, heads, N,
    D]. On a GPU numbers of 16 bits take the kernel for runs, everything else a mask."""
    if runs_fit(query):
        return attention_of_runs(query, key, value, layout, scale)
    is_grouped = query.shape[1] != key.shape[1]
    attend = partial(F.scaled_dot_product_attention, scale=scale, enable_gqa=is_grouped)
    q, k, v = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
    prompt_q, prompt_k, prompt_v = (take(x, layout.prompt_index).transpose(1, 2) for x in (q, k, v))
    prompt_out = attend(prompt_q, prompt_k, prompt_v, is_causal=True)
    own_q, own_k, own_v = (take(x, layout.response_index).transpose(1, 2) for x in (q, k, v))
    all_k = torch.cat([take(prompt_k, layout.prompt_of), own_k], 2)
    all_v = torch.cat([take(prompt_v, layout.prompt_of), own_v], 2)
    response_out = attend(own_q, all_k, all_v, attn_mask=layout.visible.to(query.dtype))
    shape = (-1, query.shape[1], value.shape[-1])
    padded = [out.transpose(1, 2).reshape(shape) for out in (prompt_out, response_out)]
    return take(torch.cat(padded), layout.unpack)[None]


def take(rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return rows[index], with a gradient that several threads of a CPU too sum in one order."""
    return rows.index_select(0, index.flatten()).unflatten(0, index.shape)


def runs_fit(query: torch.Tensor) -> bool:
    """Return whether the kernel for runs takes these numbers [1, heads, N, D]."""
    return query.is_cuda and query.dtype in _RUN_TYPES and query.shape[-1] <= _WIDEST_HEAD


def attention_of_runs(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layout: Layout,
    scale: float | None,
    attend: Callable[..., Any] = varlen_attn,
) -> torch.Tensor:
    """Compute `packed_attention` in two calls of a kernel for runs of any length: prompts among
    themselves, then responses with their prompt and themselves, each causal from its end."""
    q, k, v = (tensor[0].transpose(0, 1).contiguous() for tensor in (query, key, value))
    start, keys, (prompts, responses, both) = layout.start, layout.keys, layout.ends
    options: dict[str, Any] = {"scale": scale, "window_size": (-1, 0)}
    if _VARLEN_TAKES_GROUPS:
        options["enable_gqa"] = query.shape[1] != key.shape[1]
    of_prompt, of_response, of_both = layout.longest
    of_prompts = (q[:start], k[:start], v[:start], prompts, prompts, of_prompt, of_prompt)
    parts = [attend(*of_prompts, **options)]
    if of_response:
        of_responses = (q[start:], k[keys], v[keys], responses, both, of_response, of_both)
        parts.append(attend(*of_responses, **options))
    return torch.cat(parts)[None]


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Call transformers' own sdpa except in two cases: packed tokens, and one query per row with
    grouped heads, where heads that share a key become query positions so that no key is copied."""
    layout = kwargs.pop("layout", None)
    WINDOWS.update(filter(None, [kwargs.get("sliding_window")]))
    if layout is not None:
        return packed_attention(query, key, value, layout, kwargs.get("scaling")), None
    B, heads, length, D = query.shape
    kv_heads = key.shape[1]
    if length > 1 or heads == kv_heads or kwargs.get("position_bias") is not None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    grouped = query.reshape(B, kv_heads, heads // kv_heads, D)
    output = F.scaled_dot_product_attention(
        grouped, key, value, attn_mask=attention_mask, scale=kwargs.get("scaling")
    )
    return output.reshape(B, 1, heads, D), None


def _mask(*args: Any, local_size: int | None = None, **kwargs: Any) -> torch.Tensor | None:
    WINDOWS.update(filter(None, [local_size]))
    return sdpa_mask(*args, local_size=local_size, **kwargs)


AttentionInterface.register(ATTENTION, _attention)
AttentionMaskInterface.register(ATTENTION, _mask)


class AttentionSizes(NamedTuple):
    """The numbers of query heads and key heads, and the size of one head."""

    heads: int
    kv_heads: int
    head_dim: int


def attention_sizes(config: Any) -> AttentionSizes:
    """Read the sizes from a text configuration; without attention, take the width as one head."""
    heads = getattr(config, "num_attention_heads", None) or 1
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    return AttentionSizes(heads, kv_heads, head_dim)
