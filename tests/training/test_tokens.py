"""Single tokens of an update: whose they are, what is kept of them, and their texts."""

import json
from dataclasses import replace

import pytest
import torch
from families import VOCAB
from small_groups import RIGHT, WRONG, made_group
from small_models import double_model
from small_samples import Row, samples_of
from small_trainer import has_even, make_trainer

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.group_filter import GroupBatch
from rlvr_cli.algorithm.objective import LossDenominators
from rlvr_cli.algorithm.samples import to_samples
from rlvr_cli.model.policy import Policy
from rlvr_cli.model.settings import OptimConfig
from rlvr_cli.training import tokens as module
from rlvr_cli.training.batch import micro_batches
from rlvr_cli.training.tokens import token_rows, token_texts
from rlvr_cli.training.update import Updater

ALGO = Algorithm()


class Bytes:
    """A tokenizer whose tokens are bytes."""

    def batch_decode(self, batch, skip_special_tokens):
        assert not skip_special_tokens
        return [bytes(ids).decode("utf-8", "replace") for ids in batch]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        ("aé€😀b".encode(), ["a", "", "é", "", "", "€", "", "", "", "😀", "b"]),
        ("xé".encode()[:-1], ["x", "\ufffd"]),
        (b"\xff" * 9, ["", "", "", "\ufffd" * 4] * 2 + ["\ufffd"]),
    ],
)
def test_a_character_of_several_tokens_stands_at_its_last(text, expected):
    assert token_texts(Bytes(), list(text)) == expected


def test_the_first_mixed_groups_of_the_step_are_kept_and_none_that_was_carried_over():
    mixed = [made_group(str(n), RIGHT, WRONG) for n in range(4)]
    same = made_group("s", WRONG)
    batch = GroupBatch(
        0, Algorithm(), groups=[mixed[0], same, *mixed[1:]], sampled=[same, *mixed[1:]]
    )
    actual = token_rows(batch, to_samples(batch.groups, ALGO, 9, 0), Bytes())
    places = [(row["group"], row["sample"]) for row in actual]
    assert places == [(2, 0), (2, 1), (3, 0), (3, 1)]


def test_what_is_kept_is_what_the_loss_was_made_of(monkeypatch):
    monkeypatch.setattr(module, "_TOKENS", 4)
    old = torch.tensor([-9.0, -0.001, -9.0]).double()
    rows = [
        Row([5], [7, 8, 9][:n], old[:n], 1.0, group, sample=sample, advantages=ones[:n])
        for sample, group, n, ones in (
            (0, 0, 3, torch.ones(3)),
            (1, 0, 1, torch.ones(3)),
            (0, 9, 2, -torch.ones(3)),
        )
    ]
    samples = samples_of([replace(row, old_logprobs=row.rollout_logprobs) for row in rows])
    updater = Updater(Policy(double_model(), VOCAB, 1.0), None, ALGO, OptimConfig(), 3, 10)
    (batch,) = micro_batches(updater.policy, samples, range(3), 1000)
    updater.objective(batch, LossDenominators(6, 3, 3))
    now = updater.policy(batch.inputs)
    group = made_group("a", RIGHT, WRONG)
    step = GroupBatch(0, Algorithm(), groups=[group], sampled=[group])
    first, second = token_rows(step, samples, Bytes())
    assert (first["group"], first["sample"], first["text"]) == (1, 0, ["\x07", "\x08"])  # 4 of 2
    assert (second["sample"], second["text"]) == (1, ["\x07"])
    place = batch.rows.index(0)
    ratio = (now.logprobs[place] - old).exp().detach()
    assert ratio[0] > 1.2 > 0.8 > ratio[1]
    columns = (now.logprobs[place], ratio, torch.ones(3), now.entropy[place], [1, 0, 0])
    for actual, expected in zip(first["figures"].values(), columns, strict=True):
        assert actual == pytest.approx(torch.as_tensor(expected[:2]).tolist(), abs=1e-4)
    samples.token_figures[0, 0, 0] = float("nan")
    assert [row["sample"] for row in token_rows(step, samples, Bytes())] == [1]


def test_a_response_without_a_part_in_the_gradient_has_no_figures():
    rows = [Row([5], [7, 8], sample=n, advantages=torch.tensor([n, 0.0])) for n in range(2)]
    group = made_group("a", RIGHT, WRONG)
    for algo, retained in ((ALGO, [False, True]), (Algorithm(entropy_coef=0.1), [True, True])):
        step = GroupBatch(0, algo, groups=[group], sampled=[group])
        actual = token_rows(step, samples_of(rows), Bytes())
        assert [row["figures"] is not None for row in actual] == retained
        assert [row["text"] for row in actual] == [["\x07", "\x08"]] * 2


@pytest.mark.parametrize("algo", ["dapo", "grpo"])
def test_a_step_says_what_its_update_saw(algo):
    two = ("algorithm.mini_batches=2", "algorithm.epochs=1", "optim.warmup_steps=0", "steps=3")
    trainer = make_trainer(has_even, f"algo={algo}", *two)
    for result in trainer.train_steps():
        assert len({row["group"] for row in result.tokens}) == 2
        for row in result.tokens:
            rollout = result.sampled[row["group"] - 1].rollouts[row["sample"]]
            assert "".join(row["text"]) == " ".join(map(str, rollout.completion.token_ids))
            assert {len(first) for first in row["figures"].values()} == {len(row["text"])}
        ratios = {value == 1 for row in result.tokens for value in row["figures"]["ratio"]}
        assert ratios == {True, False}  # the first mini-batch's, and the second's
        json.dumps(result.tokens, allow_nan=False)
