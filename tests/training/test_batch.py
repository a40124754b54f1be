"""Micro-batches: how many tokens one forward pass takes, and what goes together."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from rlvr_cli.algorithm.samples import TrainingSample
from rlvr_cli.training.batch import batches_for, micro_batches

LIKE = torch.zeros(1)


def make_row(prompt: int, length: int, group: int) -> TrainingSample:
    return TrainingSample(
        [9 - group] * prompt, [5] * length, torch.zeros(length), 1.0, group, True, False
    )


ROWS = [
    *[make_row(9, length, 0) for length in (1, 6, 3, 6, 2)],
    *[make_row(2, length, 1) for length in (4, 4, 12)],
    make_row(5, 30, 2),
]


@pytest.mark.parametrize("micro_tokens", [1, 12, 15, 20, 33, 40, 100])
def test_a_forward_pass_stays_within_its_tokens_prompts_counted_once(micro_tokens):
    seen = []
    for batch in micro_batches(ROWS, micro_tokens, LIKE):
        prompts = {tuple(row.prompt_ids) for row in batch.samples}
        tokens = sum(map(len, prompts)) + sum(len(row.response_ids) for row in batch.samples)
        assert tokens <= micro_tokens or len(batch.samples) == 1
        seen += batch.samples
    assert sorted(map(id, seen)) == sorted(map(id, ROWS))


def test_what_fits_is_passed_at_once():
    # By their longest: 9 + 1 + 2 + 3 + 6 + 6 = 27, 2 + 4 + 4 + 12 = 22, 5 + 30 = 35.
    sizes = {
        most: [len(batch.samples) for batch in micro_batches(ROWS, most, LIKE)]
        for most in (100, 84, 83, 49, 48)
    }
    assert sizes == {100: [9], 84: [9], 83: [8, 1], 49: [8, 1], 48: [7, 1, 1]}


def test_padded_rows_go_together_by_length_and_padding_counts():
    # 6, 6, 10, 11, 12, 14, 15, 15 and 35 tokens with their prompts, each as long as the longest.
    sizes = {
        most: [len(batch.samples) for batch in micro_batches(ROWS, most, LIKE, packed=False)]
        for most in (315, 314, 30, 1)
    }
    assert sizes == {315: [9], 314: [8, 1], 30: [3, 2, 2, 1, 1], 1: [1] * 9}


def test_batches_are_laid_out_as_the_policy_computes_them():
    for packed in (True, False):
        policy = SimpleNamespace(like=LIKE.double(), how=SimpleNamespace(packed=packed))
        (batch,) = batches_for(policy, ROWS[:2], 100)
        assert (batch.inputs.layout is not None) == packed
        assert (batch.inputs.attention_mask is None) == packed
        assert batch.mask.dtype == torch.float64
        assert list(batches_for(policy, [], 100)) == []


def test_a_column_is_0_in_padding_and_where_a_sample_has_none():
    rows = [make_row(1, 2, 0), make_row(1, 3, 0)]
    rows[1] = replace(rows[1], advantages=torch.tensor([1.0, 2.0, 3.0]))
    rows.append(replace(rows[0], advantages=torch.tensor([4.0, 5.0])))
    (batch,) = micro_batches(rows, 100, LIKE)
    assert batch.column("advantages").tolist() == [[0, 0, 0], [4, 5, 0], [1, 2, 3]]
    assert batch.mask.tolist() == [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
