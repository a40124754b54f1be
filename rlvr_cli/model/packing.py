"""Responses and their prompts as one row without padding, each prompt held once for its group.

Everything but attention works token by token, so the model sees a single row of all prompts and
then all responses. `packed_attention` puts the tokens back where they belong: a response attends to
its prompt and to itself. The last token of a response predicts nothing and is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Layout:
    """Where the N packed tokens stand. U prompts of at most L tokens, B responses of at most T."""

    prompt_index: torch.Tensor
    """[U, L] into the packed row; padding points at token 0."""
    response_index: torch.Tensor
    """[B, T], likewise."""
    prompt_of: torch.Tensor
    """[B]: the prompt of each response."""
    visible: torch.Tensor
    """[B, 1, T, L + T]: 0 where a response token may look (its prompt and itself), else -inf."""
    unpack: torch.Tensor
    """[N]: the place of each packed token among the U L and then B T padded ones."""


@dataclass(frozen=True)
class Packed:
    """Inputs of one forward pass, and where each response token is predicted from."""

    input_ids: torch.Tensor
    """[1, N]."""
    position_ids: torch.Tensor
    """[1, N]."""
    layout: Layout
    predicted_from: torch.Tensor
    """[B, T] into the packed row: the token before, which for the first is the prompt's last."""
    response_ids: torch.Tensor
    """[B, T], 0 in the padding."""


def pack(
    prompts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]], like: torch.Tensor
) -> Packed:
    """Pack response i with prompt i; equal prompts are packed once. Device and type as `like`."""
    unique = {tuple(prompt): None for prompt in prompts}
    number = {prompt: index for index, prompt in enumerate(unique)}
    prompt_of = torch.tensor([number[tuple(prompt)] for prompt in prompts])
    prompt_lengths = torch.tensor([len(prompt) for prompt in unique])
    kept_lengths = torch.tensor([len(response) - 1 for response in responses])
    T = max(len(response) for response in responses)
    prompt_index, prompt_valid = _indices(prompt_lengths, int(prompt_lengths.max()), 0)
    start = int(prompt_lengths.sum())
    response_index, response_valid = _indices(kept_lengths, T, start)
    before = prompt_index.gather(1, prompt_lengths[:, None] - 1)[prompt_of]
    flat = [token for prompt in unique for token in prompt]
    flat += [token for response in responses for token in response[:-1]]
    positions = [torch.arange(length) for length in prompt_lengths.tolist()]
    positions += [
        torch.arange(length) + prompt_lengths[group]
        for length, group in zip(kept_lengths.tolist(), prompt_of.tolist(), strict=True)
    ]
    response_ids = torch.zeros(len(responses), T, dtype=torch.long)
    for row, response in zip(response_ids, responses, strict=True):
        row[: len(response)] = torch.tensor(response)
    sees_prompt = prompt_valid[prompt_of][:, None, :].expand(-1, T, -1)
    sees_itself = torch.ones(T, T, dtype=torch.bool).tril().expand(len(responses), -1, -1)
    visible = torch.cat([sees_prompt, sees_itself], -1)[:, None]
    bias = torch.zeros_like(visible, dtype=like.dtype).masked_fill(~visible, -torch.inf)
    valid = torch.cat([prompt_valid.flatten(), response_valid.flatten()])
    layout = Layout(prompt_index, response_index, prompt_of, bias, valid.nonzero()[:, 0])
    return Packed(
        input_ids=torch.tensor([flat], device=like.device),
        position_ids=torch.cat(positions)[None].to(like.device),
        layout=Layout(*(tensor.to(like.device) for tensor in vars(layout).values())),
        predicted_from=torch.cat([before, response_index[:, :-1]], 1).to(like.device),
        response_ids=response_ids.to(like.device),
    )


def packed_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layout: Layout,
    scale: float | None,
) -> torch.Tensor:
    """Attention [1, N, heads, D] of packed tokens; query, key and value are [1, heads, N, D]."""
    heads, D = query.shape[1], query.shape[-1]
    grouped = heads != key.shape[1]
    q, k, v = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
    prompt_k, prompt_v = (tensor[layout.prompt_index].transpose(1, 2) for tensor in (k, v))
    prompt_out = F.scaled_dot_product_attention(
        q[layout.prompt_index].transpose(1, 2),
        prompt_k,
        prompt_v,
        is_causal=True,
        scale=scale,
        enable_gqa=grouped,
    )
    response_k, response_v = (
        torch.cat([shared[layout.prompt_of], tensor[layout.response_index].transpose(1, 2)], 2)
        for shared, tensor in ((prompt_k, k), (prompt_v, v))
    )
    response_out = F.scaled_dot_product_attention(
        q[layout.response_index].transpose(1, 2),
        response_k,
        response_v,
        attn_mask=layout.visible,
        scale=scale,
        enable_gqa=grouped,
    )
    padded = [out.transpose(1, 2).reshape(-1, heads, D) for out in (prompt_out, response_out)]
    return torch.cat(padded)[layout.unpack][None]


def _indices(lengths: torch.Tensor, width: int, start: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices [rows, width] of runs of these lengths from `start` on, and which are real."""
    offsets = start + lengths.cumsum(0) - lengths
    column = torch.arange(width)
    valid = column < lengths[:, None]
    return (offsets[:, None] + column).masked_fill(~valid, 0), valid
