"""The update against a loop over tokens, and its invariances, in float64."""

import dataclasses
import random

import pytest
import torch
from conftest import VOCAB, double_model

from rlvr_cli.algorithms import ALGORITHMS
from rlvr_cli.batch import Row
from rlvr_cli.config import OptimConfig
from rlvr_cli.policy import Policy
from rlvr_cli.update import Updater

TEMPERATURE = 0.8


def make_rows(count: int = 7) -> list[Row]:
    """Rows of different lengths and shared prompts; every third is carried over."""
    rng = random.Random(0)
    prompts = [[rng.randrange(2, VOCAB) for _ in range(rng.randint(1, 6))] for _ in range(3)]
    rows = []
    for index in range(count):
        length = rng.randint(1, 9)
        rows.append(
            Row(
                prompt_ids=prompts[index % 2 + index % 3 // 2],
                response_ids=[rng.randrange(2, VOCAB) for _ in range(length)],
                rollout_logprobs=[-rng.random() * 9 for _ in range(length)],
                advantage=rng.gauss(0, 1),
                is_fresh=index % 3 > 0,
            )
        )
    return rows


def make_updater(algo: str, micro_tokens: int = 10_000, **optim: object) -> Updater:
    policy = Policy(double_model(seed=0), VOCAB, TEMPERATURE)
    reference = Policy(double_model(seed=1), VOCAB, TEMPERATURE)
    settings = OptimConfig(lr=0.0, micro_tokens=micro_tokens, **optim)
    has_reference = ALGORITHMS[algo].kl != "none"
    return Updater(policy, reference if has_reference else None, ALGORITHMS[algo], settings)


def gradients(updater: Updater) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in updater.policy.model.named_parameters()}


def token_logprobs(model: torch.nn.Module, row: Row) -> list[torch.Tensor]:
    """One token at a time, through the model's own logits."""
    ids = [*row.prompt_ids, *row.response_ids]
    logits = model(input_ids=torch.tensor([ids])).logits[0] / TEMPERATURE
    start = len(row.prompt_ids)
    return [torch.log_softmax(logits[t - 1], -1)[ids[t]] for t in range(start, len(ids))]


def slow_loss(updater: Updater, rows: list[Row]) -> torch.Tensor:
    """The presets' objectives written out as loops, after the papers."""
    cells = updater.algorithm
    total_tokens = sum(len(row.response_ids) for row in rows)
    loss = torch.zeros((), dtype=torch.float64)
    for row in rows:
        logprobs = token_logprobs(updater.policy.model, row)
        ref = token_logprobs(updater.reference.model, row) if updater.reference else None
        for t, logprob in enumerate(logprobs):
            old = (
                logprob.detach()
                if row.is_fresh
                else torch.tensor(row.rollout_logprobs[t], dtype=torch.float64)
            )
            ratio = torch.exp(logprob - old)
            clipped = torch.clamp(ratio, 1 - cells.clip_low, 1 + cells.clip_high)
            term = -torch.min(ratio * row.advantage, clipped * row.advantage)
            if ref is not None:
                delta = ref[t].detach() - logprob
                term = term + cells.kl_coef * (torch.exp(delta) - delta - 1)
            if cells.aggregation == "token_mean":
                loss = loss + term / total_tokens
            else:
                loss = loss + term / (len(logprobs) * len(rows))
    return loss


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_loss_and_gradient_equal_the_loop_over_tokens(algo):
    updater, rows = make_updater(algo, grad_clip=1e9), make_rows()
    metrics = updater.update(rows, random.Random(0))
    ours = gradients(updater)
    updater.optimizer.zero_grad()
    expected = slow_loss(updater, rows)
    expected.backward()
    assert metrics["loss"] == pytest.approx(expected.item(), abs=1e-10)
    for name, gradient in gradients(updater).items():
        torch.testing.assert_close(ours[name], gradient, atol=1e-10, rtol=1e-8)


@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.parametrize("micro_tokens", [1, 16, 30, 60])
def test_cutting_the_batch_changes_nothing(algo, micro_tokens):
    rows = make_rows()
    whole, cut = make_updater(algo), make_updater(algo, micro_tokens)
    expected = whole.update(rows, random.Random(0))
    metrics = cut.update(rows, random.Random(0))
    assert metrics == pytest.approx(expected, abs=1e-11)
    for name, gradient in gradients(whole).items():
        torch.testing.assert_close(gradients(cut)[name], gradient, atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_the_order_of_the_rows_changes_nothing(algo):
    rows = make_rows()
    expected = make_updater(algo).update(rows, random.Random(0))
    metrics = make_updater(algo).update(rows[::-1], random.Random(5))
    assert metrics == pytest.approx(expected, abs=1e-11)


def test_metrics_are_means_over_all_tokens_of_the_step():
    updater, rows = make_updater("dapo", micro_tokens=16), make_rows()
    metrics = updater.update(rows, random.Random(0))
    clipped, old_minus_new, mismatch, tokens, fresh = 0, 0.0, 0.0, 0, 0
    for row in rows:
        for t, logprob in enumerate(token_logprobs(updater.policy.model, row)):
            new = logprob.item()
            old = new if row.is_fresh else row.rollout_logprobs[t]
            ratio = torch.tensor(new - old).exp().item()
            too_high, too_low = ratio > 1.28, ratio < 0.8
            clipped += (too_high and row.advantage > 0) or (too_low and row.advantage < 0)
            old_minus_new += old - new
            mismatch += abs(row.rollout_logprobs[t] - old)
            tokens += 1
            fresh += row.is_fresh
    assert metrics["clip_fraction"] == pytest.approx(clipped / tokens)
    assert metrics["approx_kl"] == pytest.approx(old_minus_new / tokens, abs=1e-12)
    assert metrics["mismatch"] == pytest.approx(mismatch / fresh, abs=1e-12)
    assert metrics["tokens_trained"] == tokens


def test_grpo_is_dapo_with_cells_changed():
    changed = {"clip_high": 0.2, "aggregation": "sequence_mean", "kl": "k3", "kl_coef": 0.04}
    changed |= {"group_filter": "none", "overlong": "off"}
    assert ALGORITHMS["dapo"].model_copy(update=changed) == ALGORITHMS["grpo"]


def test_several_updates_measure_the_ratio_against_the_weights_before_the_first():
    updater = make_updater("dapo", updates=2)
    rows = updater._with_old_logprobs(make_rows())
    for row in rows:
        if row.is_fresh:
            expected = torch.stack(token_logprobs(updater.policy.model, row))
            torch.testing.assert_close(row.old_logprobs, expected.detach())
        else:
            assert row.old_logprobs is None


def test_several_updates_on_carried_rows_alone():
    rows = [dataclasses.replace(row, is_fresh=False) for row in make_rows()]
    metrics = make_updater("dapo", updates=2).update(rows, random.Random(0))
    assert metrics["tokens_trained"] == sum(len(row.response_ids) for row in rows)


def test_several_updates_train_every_row_once():
    updater = make_updater("dapo", updates=3)
    seen: list[Row] = []
    step = updater._step
    updater._step = lambda rows, sums: (seen.extend(rows), step(rows, sums))
    rows = make_rows()
    updater.update(rows, random.Random(0))
    bare = [dataclasses.replace(row, old_logprobs=None) for row in seen]
    assert sorted(map(repr, bare)) == sorted(map(repr, rows))
