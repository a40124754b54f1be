"""Responses that go on after the update: their order, their versions, their weights in the loss."""

import json
from dataclasses import replace
from itertools import chain

import pytest
import torch
from conftest import refused
from small_models import random_model
from small_trainer import has_even, make_trainer
from transformers import PreTrainedModel

from rlvr_cli.algorithm.samples import to_samples
from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.carried import open_groups_as_json, open_groups_from_json
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Completion, Group, OpenGroup, Rollout, Unfinished
from rlvr_cli.data.rows import JudgedRow, as_row
from rlvr_cli.training.batch import micro_batches
from rlvr_cli.training.trainer import Trainer

PARTIAL = ("rollout.partial=on", "rollout.partial.tokens=2", "rollout.max_tokens=14")
GRPO = ("algo=grpo", "steps=6", "optim.lr=0.03", *PARTIAL)


def started(*settings: str, model: PreTrainedModel | None = None) -> Trainer:
    """A trainer whose responses have a tail: a sixth of the vocabulary ends one."""
    trainer = make_trainer(has_even, *settings, model=model)
    trainer.session.engine.stop_ids = tuple(range(1, 9))
    return trainer


def copies(trainer: Trainer) -> torch.nn.Module:
    """The model as it is now."""
    model = random_model()
    model.load_state_dict(trainer.session.policy.model.state_dict())
    return model


def own_logprobs(model: torch.nn.Module, rollout: Rollout) -> torch.Tensor:
    """Log-probabilities of a response by an unpadded pass of the model, [T]."""
    prompt = rollout.prompt.token_ids
    ids = torch.tensor([[*prompt, *rollout.completion.token_ids]])
    logits = model(input_ids=ids).logits[0, :, :50]
    scores = torch.log_softmax(logits, -1)[len(prompt) - 1 : -1]
    return scores.gather(-1, ids[0, len(prompt) :, None])[:, 0]


def test_each_token_has_the_log_probability_of_its_own_version():
    """Every version of the weights is held; a pass of it scores what it sampled."""
    trainer = started(*GRPO)
    versions = {0: copies(trainer)}
    groups: list[Group] = []
    for result in trainer.train_steps():
        groups += result.sampled
        versions[trainer.weight_version] = copies(trainer)
        assert result.figures.update.mismatch < 1e-5
        assert result.figures.partial.too_old == 0
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    assert max(len(rollout.versions) for rollout in rollouts) >= 3
    furthest = 0.0
    for rollout in rollouts:
        assert sum(count for _, count in rollout.versions) == rollout.n_tokens
        start = 0
        for version, count in rollout.versions:
            with torch.no_grad():
                part = own_logprobs(versions[version], rollout)[start : start + count]
            sampled = torch.tensor(rollout.completion.logprobs[start : start + count])
            furthest = max(furthest, float((part - sampled).abs().max()))
            start += count
    assert furthest < 1e-5


def test_groups_train_in_the_order_of_their_problems_however_soon_they_ended():
    """The responses, but for rounding of other company, are those of a run without rounds: with
    weights that do not move they are the same."""
    still = ("algo=grpo", "steps=6", "optim.lr=0", "rollout.max_tokens=14")
    whole = [result.sampled for result in started(*still).train_steps()]
    trainer = started(*still, *PARTIAL)
    in_rounds = []
    out_of_order = 0
    for result in trainer.train_steps():
        in_rounds.append(result.sampled)
        groups = trainer.in_flight.groups
        ended = [group.group is not None for group in groups]
        out_of_order += ended != sorted(ended, reverse=True)
        members = chain.from_iterable(group.members for group in groups)
        begun = [m for m in members if isinstance(m, Unfinished) and m.position]
        assert result.figures.partial.unfinished == len(begun)
        assert len(begun) <= 3 * 4  # never more in flight than a step has
        assert result.figures.partial.tokens_decoded <= 3 * 4 * 2 * result.figures.partial.rounds
    assert out_of_order > 0  # groups did end before earlier ones
    for expected, actual in zip(whole, in_rounds, strict=True):
        assert [group.prompt.problem.id for group in actual] == [
            group.prompt.problem.id for group in expected
        ]
        for group, other in zip(actual, expected, strict=True):
            assert [r.text for r in group.rollouts] == [r.text for r in other.rollouts]
            assert [r.finish_reason for r in group.rollouts] == [
                r.finish_reason for r in other.rollouts
            ]


def test_the_gradient_of_mixed_versions_is_that_of_the_equation():
    """Float64, token by token: -min(old / mu, 2) A log pi over the tokens of the batch, with mu the
    probability under the version that sampled the token, and old the trainer's."""
    settings = (*GRPO, "algo=dapo", "algorithm.filter=none")
    trainer = started(*settings, model=random_model().double())
    for result in trainer.train_steps():
        rollouts = [r for group in result.sampled for r in group.rollouts]
        if max(len(r.versions) for r in rollouts) > 2:
            break
    trainer.weight_version -= 1  # as it was when the batch was sampled
    samples = trainer.samples_of(result.sampled)
    assert samples.is_fresh.any()
    assert (samples.versions < trainer.weight_version).any()
    assert torch.equal(samples.anchored, samples.mask.bool())
    samples.advantages = torch.linspace(-1, 1, len(samples)).double()[:, None] * samples.mask
    samples.rollout_logprobs = samples.rollout_logprobs - 0.9 * (samples.versions % 2)  # far off
    model = trainer.session.policy.model
    updater = trainer.updater
    rows = range(len(samples))
    denominators = updater._denominators(samples, rows)
    model.zero_grad()
    for batch in micro_batches(updater.policy, samples, rows, 40):
        loss, _ = updater.objective(batch, denominators)
        loss.backward()
    actual = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    weights = []
    for row, rollout in enumerate(rollouts):
        for t, logprob in enumerate(own_logprobs(model, rollout)):
            mu = samples.rollout_logprobs[row, t]
            weight = (logprob.detach() - mu).exp().clamp(max=2.0)
            weights.append(float(weight))
            total = total - weight * samples.advantages[row, t] * logprob
    (total / samples.mask.sum()).backward()
    assert max(weights) == 2
    assert min(weights) < 2
    for gradient, parameter in zip(actual, model.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad, atol=1e-7, rtol=1e-5)


def test_without_a_correction_older_tokens_keep_the_ratio_to_their_sampler():
    trainer = started(*GRPO, "algorithm.importance_correction=none")
    for result in trainer.train_steps():
        samples = trainer.samples_of(result.sampled)
    assert samples.is_anchored is None
    assert not torch.equal(samples.anchored, samples.mask.bool())
    decided = started(*GRPO).config.algorithm.importance_correction
    assert decided.kind == "truncate"
    off = make_trainer(has_even, "algo=grpo").config.algorithm.importance_correction
    assert off is None


@pytest.mark.parametrize("too_old", ["cut", "drop"])
def test_a_response_that_is_too_old_is_cut_off_or_dropped_and_counted(too_old):
    settings = ("rollout.partial.age=1", "rollout.partial.tokens=1", "rollout.prompts=2")
    trainer = started(*GRPO, *settings, f"rollout.partial.too_old={too_old}")
    counted = 0
    groups: list[Group] = []
    for result in trainer.train_steps():
        counted += result.figures.partial.too_old
        groups += result.sampled
        for group in trainer.in_flight.groups:
            for number in group.unfinished:
                assert group.members[number].age(trainer.weight_version) <= 2
    assert counted > 0
    rollouts = list(chain.from_iterable(group.rollouts for group in groups))
    assert all(r.versions[-1][0] - r.versions[0][0] <= 1 for r in rollouts)
    short = [r for r in rollouts if r.is_cut_off and r.n_tokens < 14]
    missing = sum(4 - len(group.rollouts) for group in groups)
    assert (len(short) > 0, missing > 0) == ((True, False) if too_old == "cut" else (False, True))
    for group in groups:
        assert [r.sample for r in group.rollouts] == list(range(len(group.rollouts)))


def test_no_keys_outlive_a_step():
    """A step without a signal pushes no weights, and a resumed run has no keys."""
    trainer = started(*GRPO, "rollout.partial.tokens=4")
    trainer.in_flight.take(3, 0, lambda group: None)
    assert trainer.session.engine._kept is not None
    trainer.in_flight.end_step()
    assert trainer.session.engine._kept is None


def test_a_group_whose_responses_are_all_dropped_makes_room():
    trainer = started(*GRPO, "rollout.partial.too_old=drop")
    prompt = trainer.prompts[0]
    old = Unfinished(prompt, 1, (5,), (-1.0,), ((0, 1),))
    ended = Completion((1,), (-1.0,), "stop", ((0, 1),))
    groups = [OpenGroup(0, 0, prompt, (old, old)), OpenGroup(1, 0, prompt, (old, ended))]
    trainer.in_flight.groups = list(groups)
    trainer.in_flight.begin_step(8)
    assert trainer.in_flight.groups == groups
    trainer.in_flight.begin_step(9)
    assert trainer.in_flight.groups == [replace(groups[1], members=(None, ended))]
    assert trainer.in_flight.figures.too_old == 3


def test_open_groups_come_back_from_json():
    trainer = started(*GRPO)
    prompt = trainer.prompts[3]
    unfinished = Unfinished(prompt, 2**61, (5, 6), (-1.0, -0.1), ((3, 1), (4, 1)))
    ended = Completion((5,), (-0.3,), "stop", ((4, 1),))
    judged = Group(prompt, (Rollout.of(prompt, 0, ended, "5", None, 1.0),), 4)
    groups = [
        OpenGroup(7, 3, prompt, (unfinished, ended, None)),
        OpenGroup(8, 3, prompt, (), judged),
    ]
    rows = json.loads(json.dumps(open_groups_as_json(groups, trainer.prompts)))
    first, second = open_groups_from_json(rows, trainer.prompts)
    assert first == groups[0]
    assert (second.place, second.members, second.unfinished) == (8, (), [])
    (rollout,) = second.group.rollouts
    assert (rollout.versions, rollout.reward, rollout.text) == (((4, 1),), 1.0, "5")
    for member in ({"token_ids": [5]}, {"seed": None}, {"versions": [[3, 3]]}, {"seed": -1}):
        damaged = json.loads(json.dumps(rows))
        damaged[0]["members"][0] |= member
        with pytest.raises(ValueError, match=r"response|greater than"):
            open_groups_from_json(damaged, trainer.prompts)


def test_the_versions_of_a_response_stand_in_its_row_and_in_its_samples():
    trainer = started(*GRPO)
    prompt = trainer.prompts[0]
    runs = ((2, 3), (5, 1))
    mixed = Completion([7, 7, 7, 1], [-0.5] * 4, "stop", runs)
    plain = Completion([7, 1], [-0.5] * 2, "stop")
    rollouts = tuple(
        Rollout.of(prompt, n, completion, "7", None, float(n))
        for n, completion in enumerate((mixed, plain))
    )
    samples = to_samples([Group(prompt, rollouts, 4)], trainer.config.algorithm, 10, 5)
    assert samples.versions.tolist() == [[2, 2, 2, 5], [4, 4, 0, 0]]
    assert samples.is_fresh.tolist() == [[False, False, False, True], [False] * 4]
    assert samples.lag(5) == pytest.approx((3 * 3 + 0 + 2 * 1) / 6)
    row = json.loads(json.dumps(as_row(rollouts[0]))) | {"verdict": "correct"}
    assert row["versions"] == [[2, 3], [5, 1]]
    assert JudgedRow.model_validate(row).answered.versions == runs
    assert "versions" not in as_row(rollouts[1])
    for other in ("two", [[1]], [["a", 1]], None, {"a": 1}):  # some problem's own field
        assert JudgedRow.model_validate(row | {"versions": other}).answered.versions == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("algo=sft",), "rollout.partial with --algo sft, which samples no responses"),
        (("algorithm.surrogate=policy_gradient", "algorithm.filter=none"), "policy_gradient"),
        (("servers.urls=[http://127.0.0.1:9]",), "rollout.partial with --rollout-server"),
        (("rollout.partial.age=0",), "rollout.partial.age"),
        (("rollout.partial.tokens=0",), "rollout.partial.tokens"),
        (("rollout.partial.too_old=wait",), "rollout.partial.too_old"),
        (("rollout.partial=maybe",), "choose from on, off"),
        (("rollout.partial=true",), "choose from on, off"),
        (("rollout.partial=1",), "choose from on, off"),
        (("rollout.partial=of",), "choose from on, off"),
    ],
)
def test_what_does_not_fit_is_one_line(settings, message):
    with pytest.raises(UserError, match=message) as error:
        resolve(set_layer(["rollout.partial=on", *settings]))
    assert "\n" not in str(error.value)


def test_the_command_refuses_rows_that_give_the_responses():
    line = refused("train", "--algo", "sft", "--set", "rollout.partial=on")
    assert "rollout.partial" in line
    assert resolve(set_layer(["rollout.partial=on", "rollout.partial=off"])).rollout.partial is None
