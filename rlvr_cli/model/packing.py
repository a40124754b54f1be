"""Run several responses at once: packed in one row without padding, each prompt once, or padded.

Everything but attention works token by token, so a packed model sees a single row of all prompts
and then all responses. `packed_attention` puts the tokens back where they belong, so that a
response attends to its prompt and to itself. The last token of a response predicts nothing and is
left out.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from rlvr_cli.core.types import TokenIds
from rlvr_cli.core.versions import varlen_takes_groups
from rlvr_cli.model.card import AMPERE

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

ATTENTION = "rlvr_sdpa"
"""The name under which transformers knows the attention function of this module."""
WINDOWS: set[int] = set()
"""The lengths of all sliding windows and chunks that attention has used since this was cleared."""
_RUN_TYPES = (torch.bfloat16, torch.float16)
_WIDEST_HEAD = 256  # the most that the kernel for runs takes
_VARLEN_TAKES_GROUPS = varlen_takes_groups()


@dataclass(frozen=True)
class Layout:
    """The positions of N packed tokens: U prompts of at most L and B responses of at most T tokens.

    The first fields are for attention with a mask, the others for runs of tokens without padding.
    """

    prompt_index: Tensor
    """[U, L] indices into the packed row. Padding points at token 0."""
    response_index: Tensor
    """[B, T] indices into the packed row. Padding points at token 0."""
    prompt_of: Tensor
    """[B]: the prompt of each response."""
    unpack: Tensor
    """[N]: the place of each packed token among the U L and then B T padded ones."""
    keys: Tensor
    """Indices into the packed row: for each response in turn its prompt and itself."""
    prompt_ends: Tensor
    """[U + 1] int32: 0, and where each prompt ends in the packed row."""
    response_ends: Tensor
    """[B + 1] int32: 0, and where each response ends, counted from the first response on."""
    sequence_ends: Tensor
    """[B + 1] int32: 0, and where each response with its prompt ends in `keys`."""
    response_start: int
    """Where the responses begin in the packed row."""
    longest_prompt: int
    longest_response: int
    longest_sequence: int
    """Tokens of a response together with its prompt, at most."""

    @cached_property
    def visible(self) -> Tensor:
        """The mask [B, 1, T, L + T]: 0 for a token's prompt and the response up to it, else -inf.

        It is made when it is first read, because the kernel for runs does not use it.
        """
        B, T = self.response_index.shape
        L = self.longest_prompt
        device = self.prompt_of.device
        lengths_B11 = self.prompt_ends.diff()[self.prompt_of][:, None, None]
        sees_prompt = (torch.arange(L, device=device) < lengths_B11).expand(-1, T, -1)
        sees_itself = torch.ones(T, T, dtype=torch.bool, device=device).tril().expand(B, -1, -1)
        visible = torch.cat([sees_prompt, sees_itself], -1)[:, None]
        return torch.zeros_like(visible, dtype=torch.float32).masked_fill_(~visible, -torch.inf)


@dataclass(frozen=True)
class ModelInputs:
    """The inputs of one forward pass, and the positions that predict each response token.

    Packed inputs have a `layout` and one row of N tokens. Padded ones have an `attention_mask` and
    B rows of a prompt and its response, padded on the right to L tokens.
    """

    input_ids: Tensor
    """[1, N] or [B, L]."""
    position_ids: Tensor | None
    """[1, N], or None if the model counts by itself."""
    layout: Layout | None
    attention_mask: Tensor | None
    """[B, L]: 1 for a token."""
    predicted_from: Tensor
    """[B, T] indices into the flat tokens: the token before, for the first the prompt's last."""
    response_ids: Tensor
    """[B, T], 0 in the padding."""
    mask: Tensor
    """[B, T]: 1 for the tokens of the response, its end token among them. Only lengths decide."""
    places: tuple[Tensor, ...]
    """Row and column of each 1 in the mask, both [N] and found on the CPU, to wait for no GPU."""

    def at_tokens(self, values_BT: Tensor) -> Tensor:
        """Return the values of the response tokens alone, [N]."""
        return values_BT[self.places]

    def predicting(self, hidden_N: Tensor) -> Tensor:
        """Select the hidden states [N, H] that predict the response tokens."""
        return hidden_N.index_select(0, self.at_tokens(self.predicted_from))  # as in `take`

    def in_rows(self, values_N: Tensor) -> Tensor:
        """Return values of the response tokens as [B, T], 0 in the padding."""
        return values_N.new_zeros(self.mask.shape).index_put(self.places, values_N)


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device, without waiting for the work that a GPU is doing."""
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def pack(
    prompts: Sequence[TokenIds],
    responses: Sequence[TokenIds],
    device: torch.device,
    dtype: torch.dtype,
) -> ModelInputs:
    """Pack response i with prompt i, equal prompts once. The mask is of type `dtype`."""
    to_device = partial(send, device=device)
    number = {prompt: index for index, prompt in enumerate(dict.fromkeys(map(tuple, prompts)))}
    prompt_of = torch.tensor([number[tuple(prompt)] for prompt in prompts])
    prompt_lengths = torch.tensor([len(prompt) for prompt in number])
    response_lengths = torch.tensor([len(response) - 1 for response in responses])
    sequence_lengths = prompt_lengths[prompt_of] + response_lengths
    padded = _pad_responses(responses, device, dtype)
    L = int(prompt_lengths.max())
    T = padded.mask.shape[1]
    response_start = int(prompt_lengths.sum())
    prompt_index, prompt_valid = _indices(prompt_lengths, L, 0)
    response_index, response_valid = _indices(response_lengths, T, response_start)
    # The row: its ids, the position of each in its own text, and the token before each response.
    flat = [token for prompt in number for token in prompt]
    flat += [token for response in responses for token in response[:-1]]
    in_prompt = torch.arange(L).expand_as(prompt_index)[prompt_valid]
    in_response = (prompt_lengths[prompt_of][:, None] + torch.arange(T))[response_valid]
    before = prompt_index.gather(1, prompt_lengths[:, None] - 1)[prompt_of]
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
        prompt_ends=to_device(_ends(prompt_lengths)),
        response_ends=to_device(_ends(response_lengths)),
        sequence_ends=to_device(_ends(sequence_lengths)),
        response_start=response_start,
        longest_prompt=L,
        longest_response=int(response_lengths.max()),
        longest_sequence=int(sequence_lengths.max()),
    )
    return ModelInputs(
        input_ids=to_device(torch.tensor([flat])),
        position_ids=to_device(torch.cat([in_prompt, in_response])[None]),
        layout=layout,
        attention_mask=None,
        predicted_from=to_device(torch.cat([before, response_index[:, :-1]], 1)),
        response_ids=padded.ids,
        mask=padded.mask,
        places=padded.places,
    )


def pad(
    prompts: Sequence[TokenIds],
    responses: Sequence[TokenIds],
    device: torch.device,
    dtype: torch.dtype,
) -> ModelInputs:
    """Append response i to prompt i, one row each, for a model that cannot be packed."""
    to_device = partial(send, device=device)
    rows = [[*p, *r[:-1]] for p, r in zip(prompts, responses, strict=True)]
    lengths = torch.tensor([len(row) for row in rows])
    L = int(lengths.max())
    padded = _pad_responses(responses, device, dtype)
    starts = torch.tensor([b * L + len(prompt) - 1 for b, prompt in enumerate(prompts)])
    before = starts[:, None] + torch.arange(padded.mask.shape[1])
    return ModelInputs(
        input_ids=to_device(_pad_right(rows, L)),
        position_ids=None,
        layout=None,
        attention_mask=to_device((torch.arange(L) < lengths[:, None]).long()),
        predicted_from=to_device(before) * padded.mask.long(),
        response_ids=padded.ids,
        mask=padded.mask,
        places=padded.places,
    )


class _PaddedResponses(NamedTuple):
    """The fields of `ModelInputs` that come from the responses alone."""

    ids: Tensor
    mask: Tensor
    places: tuple[Tensor, ...]


def _pad_responses(
    responses: Sequence[TokenIds], device: torch.device, dtype: torch.dtype
) -> _PaddedResponses:
    lengths = torch.tensor([len(response) for response in responses])
    T = int(lengths.max())
    mask = torch.arange(T) < lengths[:, None]
    return _PaddedResponses(
        ids=send(_pad_right(responses, T), device),
        mask=send(mask.to(dtype), device),
        places=tuple(send(place, device) for place in mask.nonzero(as_tuple=True)),
    )


def _pad_right(rows: Iterable[TokenIds], length: int) -> Tensor:
    """Return rows of ids as one tensor, padded with 0 to this length."""
    return torch.tensor([[*row, *[0] * (length - len(row))] for row in rows])


def _ends(lengths: Tensor) -> Tensor:
    """Return 0 and then the end of each run of these lengths, int32."""
    return F.pad(lengths.cumsum(0), (1, 0)).int()


def _indices(lengths: Tensor, width: int, start: int) -> tuple[Tensor, Tensor]:
    """Return indices [rows, width] of runs of these lengths from `start` on, and which are real."""
    offsets = start + lengths.cumsum(0) - lengths
    column = torch.arange(width)
    valid = column < lengths[:, None]
    return (offsets[:, None] + column).masked_fill(~valid, 0), valid


def packed_attention(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, scale: float | None
) -> Tensor:
    """Compute attention [1, N, heads, D] of packed tokens from query, key, value [1, heads, N, D].

    On a GPU since Ampere numbers of 16 bits take the kernel for runs, everything else a mask.
    """
    if runs_fit(query):
        return attention_of_runs(query, key, value, layout, scale)
    is_grouped = query.shape[1] != key.shape[1]
    attend = partial(F.scaled_dot_product_attention, scale=scale, enable_gqa=is_grouped)
    # In 16 bits the backward pass of a CPU's kernel takes three times as long as in float32.
    dtype = query.dtype if query.is_cuda else torch.promote_types(query.dtype, torch.float32)
    q, k, v = (tensor[0].transpose(0, 1).to(dtype) for tensor in (query, key, value))
    prompt_q, prompt_k, prompt_v = (take(x, layout.prompt_index).transpose(1, 2) for x in (q, k, v))
    prompt_out = attend(prompt_q, prompt_k, prompt_v, is_causal=True)
    response_q, response_k, response_v = (
        take(x, layout.response_index).transpose(1, 2) for x in (q, k, v)
    )
    all_k = torch.cat([take(prompt_k, layout.prompt_of), response_k], 2)
    all_v = torch.cat([take(prompt_v, layout.prompt_of), response_v], 2)
    mask = layout.visible.to(dtype)
    response_out = attend(response_q, all_k, all_v, attn_mask=mask)
    shape = (-1, query.shape[1], value.shape[-1])
    padded = [out.transpose(1, 2).reshape(shape) for out in (prompt_out, response_out)]
    return take(torch.cat(padded), layout.unpack)[None].to(query.dtype)


def take(rows: Tensor, index: Tensor) -> Tensor:
    """Return rows[index], with a gradient that is summed in one order by any number of threads."""
    selected: Tensor = rows.index_select(0, index.flatten()).unflatten(0, index.shape)
    return selected


def runs_fit(query: Tensor) -> bool:
    """Return whether the kernel for runs takes these numbers [1, heads, N, D]."""
    is_taken = query.is_cuda and query.dtype in _RUN_TYPES and query.shape[-1] <= _WIDEST_HEAD
    return is_taken and torch.cuda.get_device_capability(query.device) >= AMPERE


def attention_of_runs(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    layout: Layout,
    scale: float | None,
    attend: Callable[..., Any] = varlen_attn,
) -> Tensor:
    """Compute `packed_attention` in two calls of a kernel for runs of any length.

    Prompts attend to themselves, then responses to their prompt and themselves, each causal from
    its end.
    """
    q, k, v = (tensor[0].transpose(0, 1).contiguous() for tensor in (query, key, value))
    start = layout.response_start
    varlen = partial(attend, scale=scale, window_size=(-1, 0))
    if _VARLEN_TAKES_GROUPS:
        varlen = partial(varlen, enable_gqa=query.shape[1] != key.shape[1])
    parts = [
        varlen(
            q[:start],
            k[:start],
            v[:start],
            cu_seq_q=layout.prompt_ends,
            cu_seq_k=layout.prompt_ends,
            max_q=layout.longest_prompt,
            max_k=layout.longest_prompt,
        )
    ]
    if layout.longest_response:
        parts.append(
            varlen(
                q[start:],
                k[layout.keys],
                v[layout.keys],
                cu_seq_q=layout.response_ends,
                cu_seq_k=layout.sequence_ends,
                max_q=layout.longest_response,
                max_k=layout.longest_sequence,
            )
        )
    return torch.cat(parts)[None]


def _attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    layout: Layout | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Call transformers' own sdpa except for packed tokens and for one query per row.

    With one query and grouped heads, heads that share a key become query positions, so that no key
    is copied.
    """
    WINDOWS.update(filter(None, [kwargs.get("sliding_window")]))
    if layout is not None:
        return packed_attention(query, key, value, layout, kwargs.get("scaling")), None
    B, heads, length, D = query.shape
    kv_heads = key.shape[1]
    if length > 1 or heads == kv_heads or kwargs.get("position_bias") is not None:
        attended: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, **kwargs
        )
        return attended
    grouped = query.reshape(B, kv_heads, heads // kv_heads, D)
    output = F.scaled_dot_product_attention(
        grouped, key, value, attn_mask=attention_mask, scale=kwargs.get("scaling")
    )
    return output.reshape(B, 1, heads, D), None


def _mask(*args: object, local_size: int | None = None, **kwargs: object) -> Tensor | None:
    WINDOWS.update(filter(None, [local_size]))
    mask: Tensor | None = sdpa_mask(*args, local_size=local_size, **kwargs)
    return mask


AttentionInterface.register(ATTENTION, _attention)
AttentionMaskInterface.register(ATTENTION, _mask)


class AttentionSizes(NamedTuple):
    """The numbers of query heads and key heads, and the size of one head."""

    heads: int
    kv_heads: int
    head_dim: int


def attention_sizes(config: "PreTrainedConfig") -> AttentionSizes:
    """Read the sizes from a text configuration. Without attention, take the width as one head."""
    heads = getattr(config, "num_attention_heads", None) or 1
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    return AttentionSizes(heads, kv_heads, head_dim)
