"""The attention function that transformers calls, against its own sdpa."""

from types import SimpleNamespace

import pytest
import torch
from small_models import random_model
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from rlvr_cli.model.packing import (
    ATTENTION,
    WINDOWS,
    AttentionSizes,
    attention_sizes,
    pack,
    packed_attention,
)

OURS = AttentionInterface()[ATTENTION]


class Grouped(torch.nn.Module):
    """What sdpa asks of a module: four heads that share two keys, causal."""

    num_key_value_groups = 2
    is_causal = True
    training = False


def tensors(length: int):
    torch.manual_seed(0)
    return torch.randn(3, 4, length, 5), torch.randn(3, 2, 7, 5), torch.randn(3, 2, 7, 5)


def test_one_query_a_row_is_computed_as_by_transformers():
    query, key, value = tensors(1)
    mask = torch.rand(3, 1, 1, 7) > 0.3
    mask[..., 0] = True
    for scaling in (None, 0.7):
        ours, _ = OURS(Grouped(), query, key, value, mask, scaling=scaling)
        reference, _ = sdpa_attention_forward(Grouped(), query, key, value, mask, scaling=scaling)
        assert ours.shape == (3, 1, 4, 5)
        torch.testing.assert_close(ours, reference)


def test_no_key_is_copied_for_heads_that_share_it(monkeypatch):
    shapes = []
    compute = torch.nn.functional.scaled_dot_product_attention

    def spy(query, key, *args, **kwargs):
        shapes.append((tuple(query.shape), tuple(key.shape)))
        return compute(query, key, *args, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    OURS(Grouped(), *tensors(1), None)
    assert shapes == [((3, 2, 2, 5), (3, 2, 7, 5))]


def test_packed_rows_go_their_own_way():
    row = pack([[1, 2]], [[3, 4]], torch.device("cpu"), torch.float32)
    q, k, v = (torch.randn(1, heads, 3, 5) for heads in (4, 2, 2))
    actual, _ = OURS(Grouped(), q, k, v, None, layout=row.layout, scaling=0.7)
    torch.testing.assert_close(actual, packed_attention(q, k, v, row.layout, 0.7))


def test_a_mask_is_transformers_own_and_its_chunks_are_noted():
    mask = AttentionMaskInterface()[ATTENTION]
    for size in (3, None):
        WINDOWS.clear()
        ours = mask(batch_size=1, q_length=4, kv_length=4, local_size=size)
        reference = sdpa_mask(batch_size=1, q_length=4, kv_length=4, local_size=size)
        assert {size} - {None} == WINDOWS
        assert (ours is None) == (reference is None) == (size is None)
        assert ours is None or torch.equal(ours, reference)


@pytest.mark.parametrize(
    ("family", "expected"), [("gemma2", {6}), ("mistral-sliding", {6}), ("qwen2-tied", set())]
)
def test_the_windows_of_a_model_are_found(family, expected):
    model = random_model(family)
    if not model._supports_sdpa:
        pytest.skip("this version of transformers runs the model by its own attention alone")
    for _ in range(2):
        WINDOWS.clear()
        with torch.no_grad():
            model(torch.arange(8)[None])
        assert expected == WINDOWS


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 5}, (4, 2, 5)),
        ({"num_attention_heads": 4, "num_key_value_heads": 2}, (4, 2, 16)),
        ({"num_attention_heads": 4}, (4, 4, 16)),
        ({"num_attention_heads": 3, "num_key_value_heads": None, "head_dim": None}, (3, 3, 21)),
        ({}, (1, 1, 64)),
    ],
)
def test_what_is_not_said_follows_from_the_rest(message, expected):
    assert attention_sizes(SimpleNamespace(hidden_size=64, **message)) == AttentionSizes(*expected)
