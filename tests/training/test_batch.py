"""Micro-batches: how many tokens one forward pass takes, and what goes together."""

from dataclasses import replace

import pytest
import torch
from small_samples import Row, policy_stub, samples_of

from rlvr_cli.training.batch import micro_batches

POLICY = policy_stub(torch.float32)


def make_row(prompt: int, length: int, group: int) -> Row:
    return Row([9 - group] * prompt, [5] * length, torch.zeros(length), group=group)


ROWS = [
    *[make_row(9, length, 0) for length in (1, 6, 3, 6, 2)],
    *[make_row(2, length, 1) for length in (4, 4, 12)],
    make_row(5, 30, 2),
]
SAMPLES = samples_of(ROWS)


@pytest.mark.parametrize("micro_tokens", [1, 12, 15, 20, 33, 40, 100])
def test_a_forward_pass_stays_within_its_tokens_prompts_counted_once(micro_tokens):
    observed = []
    for batch in micro_batches(POLICY, SAMPLES, range(9), micro_tokens):
        rows = [ROWS[row] for row in batch.rows]
        prompts = {tuple(row.prompt_ids) for row in rows}
        tokens = sum(map(len, prompts)) + sum(len(row.response_ids) for row in rows)
        assert tokens <= micro_tokens or len(rows) == 1
        observed += batch.rows
    assert sorted(observed) == list(range(9))


def test_what_fits_is_passed_at_once():
    # By their longest: 9 + 1 + 2 + 3 + 6 + 6 = 27, 2 + 4 + 4 + 12 = 22, 5 + 30 = 35.
    sizes = {
        most: [len(batch.rows) for batch in micro_batches(POLICY, SAMPLES, range(9), most)]
        for most in (100, 84, 83, 49, 48)
    }
    assert sizes == {100: [9], 84: [9], 83: [8, 1], 49: [8, 1], 48: [7, 1, 1]}


def test_padded_rows_go_together_by_length_and_padding_counts():
    # 6, 6, 10, 11, 12, 14, 15, 15 and 35 tokens with their prompts, each as long as the longest.
    padded = policy_stub(torch.float32, packed=False)
    sizes = {
        most: [len(batch.rows) for batch in micro_batches(padded, SAMPLES, range(9), most)]
        for most in (315, 314, 30, 1)
    }
    assert sizes == {315: [9], 314: [8, 1], 30: [3, 2, 2, 1, 1], 1: [1] * 9}


@pytest.mark.parametrize("packed", [True, False])
def test_batches_are_laid_out_as_the_policy_computes_them(packed):
    policy = policy_stub(torch.float64, packed)
    (batch,) = micro_batches(policy, SAMPLES, [0, 1], 100)
    assert (batch.inputs.layout is not None) == packed
    assert (batch.inputs.attention_mask is None) == packed
    assert batch.mask.dtype == torch.float64
    assert list(micro_batches(policy, SAMPLES, [], 100)) == []


def test_a_column_is_0_in_padding_and_where_it_was_not_filled():
    rows = [
        replace(make_row(1, len(values), 0), advantages=torch.tensor(values))
        for values in ([6.0, 7.0], [1.0, 2.0, 3.0], [4.0, 5.0], [8.0] * 5)
    ]
    (batch,) = micro_batches(POLICY, samples_of(rows), [0, 1, 2], 100)
    assert batch.column("advantages").tolist() == [[6, 7, 0], [4, 5, 0], [1, 2, 3]]
    assert batch.mask.tolist() == [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
    assert batch.column("ref_logprobs").tolist() == [[0] * 3] * 3
    assert batch.column("advantages").dtype == torch.float32
