"""Keys and values in blocks: what was put in comes out, for the rows that are kept."""

from math import inf

import torch
from small_models import random_model
from transformers import DynamicCache

from rlvr_cli.rollout.engines.decoding import GroupCache, compacted


def states(rows: int, length: int) -> torch.Tensor:
    return torch.randn(rows, 2, length, 4)


def test_a_prompt_takes_what_it_needs_and_its_rows_have_room_behind_it():
    cache = GroupCache()
    first = states(2, 5)
    second = states(2, 5)
    for layer, put in ((0, first), (1, second)):
        keys, values = cache.update(put, 2 * put, layer)
        assert torch.equal(keys, put)
        assert torch.equal(values, 2 * put)
    assert (cache.get_seq_length(), cache.layers[0].get_mask_sizes(2)) == (5, (7, 0))
    cache.start(torch.tensor([1, 1, 0]), torch.tensor([5, 3]))
    assert cache.bias.tolist() == [[0.0] * 3 + [-inf] * 18] * 2 + [[0.0] * 5 + [-inf] * 16]
    for _ in range(16):
        cache.open()
        for layer, put in ((0, first), (1, second)):
            keys, values = cache.update(states(3, 1), states(3, 1), layer)
            assert torch.equal(keys[:, :, :5], put[[1, 1, 0]])
            assert torch.equal(values[:, :, :5], 2 * put[[1, 1, 0]])
            assert keys.is_contiguous()  # without gaps: it is read whole
            assert keys.shape[2] == 21
    assert not cache.open()[:, 5:21].any()
    assert [layer.keys.shape[2] for layer in cache.layers] == [37, 37]  # with zeros after the room
    assert not cache.layers[0].keys[:, :, 21:].any()
    assert cache.bias[0].tolist() == [0.0] * 3 + [-inf] * 2 + [0.0] * 17 + [-inf] * 15


def test_on_a_gpu_memory_is_taken_once_and_read_by_slabs():
    cache = GroupCache()
    put = states(2, 70)
    more = states(2, 132)
    cache.update(put, 2 * put, 0)
    cache.room = 208  # as on a GPU for 70 + 132 positions
    cache.start(torch.arange(2), torch.tensor([70, 60]))
    before = cache.layers[0].keys.data_ptr()
    widths = []
    for t in range(132):
        cache.open()
        keys, values = cache.update(more[:, :, t : t + 1], 2 * more[:, :, t : t + 1], 0)
        assert cache.bias.shape[1] == keys.shape[2] == values.shape[2]
        widths.append(keys.shape[2])
        if t == 99:
            cache.keep(torch.tensor([1]))
            put = put[1:]
            more = more[1:]
    assert widths == 58 * [128] + 64 * [192] + 10 * [208]
    assert torch.equal(keys[:, :, :202], torch.cat([put, more], 2))
    assert torch.equal(values[:, :, :202], 2 * torch.cat([put, more], 2))
    assert not keys[:, :, 202:].any()
    assert cache.layers[0].keys.data_ptr() == before
    assert cache.bias.tolist() == [[0.0] * 60 + [-inf] * 10 + [0.0] * 132 + [-inf] * 6]


def test_rows_from_behind_take_the_places_of_those_that_are_done():
    cache = GroupCache()
    put = states(5, 3)
    cache.update(put, 2 * put, 0)
    cache.start(torch.arange(5), torch.tensor([3, 1, 2, 3, 2]))
    rows = compacted(torch.tensor([False, True, False, False, True]), 3)
    assert rows.tolist() == [0, 3, 2]
    before = cache.layers[0].keys.data_ptr()
    cache.keep(rows)
    assert torch.equal(cache.layers[0].keys[:, :, :3], put[[0, 3, 2]])
    assert torch.equal(cache.layers[0].values[:, :, :3], 2 * put[[0, 3, 2]])
    assert cache.layers[0].keys.data_ptr() == before  # in place
    assert (cache.bias == 0).sum(1).tolist() == [3, 3, 2]


def test_a_model_computes_the_same_as_with_transformers_own_cache():
    model = random_model()
    ids = torch.arange(2, 42).reshape(2, 20)
    logits = []
    for cache in (GroupCache(), DynamicCache()):
        steps = []
        rows = torch.tensor([1, 0])
        with torch.no_grad():
            model.base_model(ids[:, :17], past_key_values=cache)
            if isinstance(cache, GroupCache):
                cache.start(rows, torch.tensor([17, 17]))
                cache.keep(rows)
            for t in (17, 18, 19):
                mask = cache.open()[:, None, None] if isinstance(cache, GroupCache) else None
                steps.append(
                    model(ids[:, t : t + 1], attention_mask=mask, past_key_values=cache).logits
                )
        logits.append(torch.cat(steps, 1))
    torch.testing.assert_close(logits[0], logits[1])
