"""Keys and values in blocks: what was put in comes out, for the rows that are kept."""

import torch
from conftest import random_model
from transformers import DynamicCache

from rlvr_cli.rollout.engines.kv_cache import GroupCache, GroupLayer


def states(rows: int, length: int) -> torch.Tensor:
    return torch.randn(rows, 2, length, 4)


def test_positions_are_appended_and_grown_by_blocks():
    torch.manual_seed(0)
    layer, keys, values = GroupLayer(), [], []
    assert layer.get_seq_length() == 0
    for length, capacity in ((5, 32), (27, 32), (1, 64), (40, 96)):
        keys.append(states(3, length))
        values.append(states(3, length))
        found_keys, found_values = layer.update(keys[-1], values[-1])
        assert torch.equal(found_keys, torch.cat(keys, 2))
        assert torch.equal(found_values, torch.cat(values, 2))
        assert layer.keys.shape[2] == layer.values.shape[2] == capacity
    assert (layer.get_seq_length(), layer.get_mask_sizes(2)) == (73, (75, 0))
    before = layer.keys.data_ptr()
    layer.update(states(3, 23), states(3, 23))
    assert layer.keys.data_ptr() == before  # there was room


def test_a_cache_can_begin_with_one_position():
    layer, first = GroupLayer(), states(2, 1)
    keys, values = layer.update(first, 2 * first)
    assert torch.equal(keys, first)
    assert torch.equal(values, 2 * first)
    assert layer.keys.shape[2] == layer.values.shape[2] == 32


def test_rows_are_repeated_and_thinned_in_every_layer():
    cache, first, second = GroupCache(), states(2, 3), states(2, 3)
    cache.update(first, 2 * first, 0)
    cache.update(second, 2 * second, 1)
    cache.select(torch.tensor([1, 1, 0]))
    cache.select(torch.tensor([2, 1]))
    for layer, put in ((0, first), (1, second)):
        keys, values = cache.update(states(2, 1), states(2, 1), layer)
        assert torch.equal(keys[:, :, :3], put)
        assert torch.equal(values[:, :, :3], 2 * put)


def test_a_model_computes_the_same_as_with_transformers_own_cache():
    model, ids = random_model(), torch.arange(2, 42).reshape(2, 20)
    logits = []
    for cache in (GroupCache(), DynamicCache()):
        with torch.no_grad():
            model(ids[:, :17], past_key_values=cache)
            steps = [model(ids[:, t : t + 1], past_key_values=cache).logits for t in (17, 18, 19)]
        logits.append(torch.cat(steps, 1))
    torch.testing.assert_close(logits[0], logits[1])
