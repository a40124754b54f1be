"""Packed and padded rows: where each token stands, what it sees, and that it sees nothing else."""

from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_cli.model import packing
from rlvr_cli.model.packing import attention_of_runs, pack, packed_attention, pad

CPU = torch.device("cpu")
PROMPTS = [[11, 12, 13], [21], [11, 12, 13]]
RESPONSES = [[1, 2], [3, 4, 5], [6]]


def test_a_packed_row_by_hand():
    row = pack(PROMPTS, RESPONSES, CPU, torch.float32)
    # Two prompts, then each response without its last token; the third has none left.
    assert row.input_ids.tolist() == [[11, 12, 13, 21, 1, 3, 4]]
    assert row.position_ids.tolist() == [[0, 1, 2, 0, 3, 1, 2]]
    assert row.response_ids.tolist() == [[1, 2, 0], [3, 4, 5], [6, 0, 0]]
    assert row.mask.tolist() == [[1, 1, 0], [1, 1, 1], [1, 0, 0]]
    layout = row.layout
    assert layout.prompt_of.tolist() == [0, 1, 0]
    assert layout.prompt_index.tolist() == [[0, 1, 2], [3, 0, 0]]
    assert layout.response_index.tolist() == [[4, 0, 0], [5, 6, 0], [0, 0, 0]]
    assert row.predicted_from.tolist() == [[2, 4, 0], [3, 5, 6], [2, 0, 0]]
    assert layout.unpack.tolist() == [0, 1, 2, 3, 6, 9, 10]
    observed = (layout.visible[1, 0] == 0).tolist()  # a prompt of one token, then itself
    assert observed == [
        [True, False, False, True, False, False],
        [True, False, False, True, True, False],
        [True, False, False, True, True, True],
    ]
    assert row.attention_mask is None


def test_padded_rows_by_hand():
    rows = pad(PROMPTS, RESPONSES, CPU, torch.float32)
    assert rows.input_ids.tolist() == [[11, 12, 13, 1], [21, 3, 4, 0], [11, 12, 13, 0]]
    assert rows.attention_mask.tolist() == [[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 0]]
    assert rows.predicted_from.tolist() == [[2, 3, 0], [4, 5, 6], [10, 0, 0]]
    assert (rows.layout, rows.position_ids) == (None, None)
    packed = pack(PROMPTS, RESPONSES, CPU, torch.float32)
    assert torch.equal(rows.mask, packed.mask)
    assert torch.equal(rows.response_ids, packed.response_ids)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=6))
def test_the_token_before_is_the_same_packed_and_padded(rows):
    prompts = [[90 + which] * (which + 1) for which, _ in rows]
    responses = [[10 * number + t for t in range(n)] for number, (_, n) in enumerate(rows)]
    packed = pack(prompts, responses, CPU, torch.float32)
    padded = pad(prompts, responses, CPU, torch.float32)
    for number, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        before = [prompt[-1], *response[:-1]]
        for way in (packed, padded):
            flat = way.input_ids.flatten()
            places = way.predicted_from[number, : len(response)]
            assert flat[places].tolist() == before


@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (4, 2)])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_each_response_attends_to_its_prompt_and_itself_as_if_alone(heads, kv_heads, scale):
    torch.manual_seed(0)
    row = pack(PROMPTS, RESPONSES, CPU, torch.float32)
    count = row.input_ids.shape[1]
    q = torch.randn(1, heads, count, 3)
    k, v = torch.randn(1, kv_heads, count, 3), torch.randn(1, kv_heads, count, 3)
    actual = packed_attention(q, k, v, row.layout, scale)
    assert actual.shape == (1, count, heads, 3)
    for alone in ([0, 1, 2, 4], [3, 5, 6]):
        expected = F.scaled_dot_product_attention(
            q[:, :, alone], k[:, :, alone], v[:, :, alone], None, 0.0, True, scale=scale,
            enable_gqa=True,
        )  # fmt: skip
        torch.testing.assert_close(actual[:, alone], expected.transpose(1, 2))


LENGTHS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 6)), min_size=1, max_size=6
)  # the number of the prompt, and the length of a response


def stand_in(q, k, v, cu_seq_q, cu_seq_k, max_q, max_k, *, scale, window_size, enable_gqa=None):
    """torch.nn.attention.varlen.varlen_attn as it is documented: run by run, (-1, 0) is causal and
    aligned to the end. Before torch 2.12 it is not told that heads share keys."""
    assert window_size == (-1, 0)
    is_grouped = q.shape[1] != k.shape[1]
    assert enable_gqa == (is_grouped if packing._VARLEN_TAKES_GROUPS else None)
    assert cu_seq_q.dtype == cu_seq_k.dtype == torch.int32
    assert (len(q), len(k)) == (cu_seq_q[-1], cu_seq_k[-1])
    assert (max_q, max_k) == (cu_seq_q.diff().max(), cu_seq_k.diff().max())
    out = []
    for a, b, c, d in zip(cu_seq_q, cu_seq_q[1:], cu_seq_k, cu_seq_k[1:], strict=False):
        mask = torch.ones(int(b - a), int(d - c), dtype=torch.bool).tril(int(d - c) - int(b - a))
        heads = (item.transpose(0, 1) for item in (q[a:b], k[c:d], v[c:d]))
        actual = F.scaled_dot_product_attention(
            *heads, attn_mask=mask, scale=scale, enable_gqa=is_grouped
        )
        out.append(actual.transpose(0, 1))
    return torch.cat(out)


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.sampled_from([(4, 4), (4, 2), (8, 1)]), st.booleans())
def test_runs_are_the_dense_mask(rows, heads, takes_groups):
    prompts = [[10 + group] * (1 + 2 * group) for group, _ in rows]
    inputs = pack(prompts, [[9] * length for _, length in rows], CPU, torch.float64)
    N = inputs.input_ids.shape[1]
    torch.manual_seed(0)
    q, k, v = (
        torch.randn(1, count, N, 8, dtype=torch.float64, requires_grad=True)
        for count in (heads[0], heads[1], heads[1])
    )
    layout = inputs.layout
    with patch.object(packing, "_VARLEN_TAKES_GROUPS", takes_groups):
        runs = attention_of_runs(q, k, v, layout, 0.3, stand_in)
    assert "visible" not in vars(layout), "no dense mask is made for runs"
    dense = packed_attention(q, k, v, layout, 0.3)
    assert "visible" in vars(layout)
    torch.testing.assert_close(runs, dense, rtol=1e-12, atol=1e-12)
    weight = torch.randn_like(dense)
    for ours, reference in zip(
        torch.autograd.grad((runs * weight).sum(), (q, k, v)),
        torch.autograd.grad((dense * weight).sum(), (q, k, v)),
        strict=True,
    ):
        torch.testing.assert_close(ours, reference, rtol=1e-10, atol=1e-12)


def test_the_plan_by_hand():
    """Prompts [7 7], [8]; responses of 3 and 2 tokens to the first, of 1 to the second: tokens 0, 1
    and 2 are prompts, 3 and 4 the first response less its last, 5 the second's."""
    inputs = pack([[7, 7], [7, 7], [8]], [[1, 2, 3], [4, 5], [6]], CPU, torch.float32)
    runs = inputs.layout
    assert runs.keys.tolist() == [0, 1, 3, 4, 0, 1, 5, 2]
    assert runs.prompt_ends.tolist() == [0, 2, 3]
    assert runs.response_ends.tolist() == [0, 2, 3, 3]
    assert runs.sequence_ends.tolist() == [0, 4, 7, 8]
    assert runs.response_start == 3
    longest = (runs.longest_prompt, runs.longest_response, runs.longest_sequence)
    assert longest == (2, 2, 4)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_on_a_cpu_the_mask_is_used(kind, monkeypatch):
    monkeypatch.setattr(packing, "attention_of_runs", None)
    layout = pack([[7, 7]], [[1, 2, 3]], CPU, torch.float32).layout
    q = torch.randn(1, 2, 4, 8, dtype=kind)
    assert packed_attention(q, q, q, layout, None).dtype == kind


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_a_cpu_computes_attention_in_float32_and_rounds_it_once(kind):
    layout = pack(PROMPTS, RESPONSES, CPU, torch.float32).layout
    given = [torch.randn(1, 2, 7, 8, dtype=kind, requires_grad=True) for _ in range(3)]
    wide = [tensor.detach().float().requires_grad_() for tensor in given]
    results = [packed_attention(*tensors, layout, None) for tensors in (given, wide)]
    assert torch.equal(results[0], results[1].to(kind))
    for result in results:
        result.sum().backward()
    for tensor, expected in zip(given, wide, strict=True):
        assert torch.equal(tensor.grad, expected.grad.to(kind))


@pytest.mark.parametrize(
    ("kind", "capability", "width", "takes_runs"),
    [
        (torch.bfloat16, (8, 0), 256, True),
        (torch.bfloat16, (9, 0), 257, False),
        (torch.float32, (9, 0), 64, False),
        (torch.float16, (8, 9), 64, True),
        (torch.float16, (7, 5), 64, False),
        (torch.bfloat16, None, 64, False),
    ],
)
def test_the_kernel_for_runs_is_taken_where_it_can_be(
    kind, capability, width, takes_runs, monkeypatch
):
    """`capability` is None on a CPU."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    query = SimpleNamespace(
        is_cuda=capability is not None, dtype=kind, shape=(1, 2, 4000, width), device="cuda:0"
    )
    assert packing.runs_fit(query) == takes_runs


def test_a_gradient_of_taken_rows_repeats_on_several_threads():
    """Six thousand rows of four thousand: with plain indexing most of ten tries differ."""
    torch.manual_seed(0)
    rows = torch.randn(4000, 3, 64, requires_grad=True)
    index, weight = torch.randint(0, 4000, (32, 200)), torch.randn(32, 200, 3, 64)
    before = torch.get_num_threads()
    gradients = []
    try:
        for threads in (1, *[2] * 10):
            torch.set_num_threads(threads)
            (gradient,) = torch.autograd.grad((packing.take(rows, index) * weight).sum(), rows)
            gradients.append(gradient)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(gradients[0], gradient) for gradient in gradients[1:])
