"""Choices: every kind has a component that takes its cells, and what means nothing is refused."""

import inspect
from typing import get_args

import pytest

from rlvr_cli.algorithm.advantage import ADVANTAGES
from rlvr_cli.algorithm.choices import CONTRADICTIONS, KL, Algorithm
from rlvr_cli.algorithm.kl import CONTROLS, ESTIMATORS
from rlvr_cli.algorithm.objective import AGGREGATIONS, IMPORTANCE_CORRECTIONS, SURROGATES
from rlvr_cli.algorithm.presets import ALGORITHMS
from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.settings import kinds


@pytest.mark.parametrize(
    ("section", "field", "table"),
    [
        (Algorithm, "advantage", ADVANTAGES),
        (Algorithm, "surrogate", SURROGATES),
        (Algorithm, "importance_correction", IMPORTANCE_CORRECTIONS),
        (Algorithm, "kl", ESTIMATORS),
        (KL, "control", CONTROLS),
    ],
)
def test_every_kind_has_a_component(section, field, table):
    assert set(kinds(section.model_fields[field].annotation)) == set(table)


def test_every_aggregation_has_a_formula():
    assert set(get_args(Algorithm.model_fields["aggregation"].annotation)) == set(AGGREGATIONS)


@pytest.mark.parametrize(
    ("field", "table"),
    [
        ("advantage", ADVANTAGES),
        ("surrogate", SURROGATES),
        ("importance_correction", IMPORTANCE_CORRECTIONS),
    ],
)
def test_a_component_takes_just_the_cells_of_its_kind(field, table):
    for kind, choice in kinds(Algorithm.model_fields[field].annotation).items():
        taken = list(inspect.signature(table[kind]).parameters)[1:]
        assert taken == list(choice.model_construct(kind=kind).cells), kind


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["algo=grpo", "algorithm.kl=k1"], "algorithm.kl k1 with algorithm.kl.place loss"),
        (
            ["algo=grpo", "algorithm.kl.reference=old", "algorithm.kl.place=reward"],
            "algorithm.kl.reference old with algorithm.kl.place reward",
        ),
        (
            ["algo=grpo", "algorithm.kl.reference=old"],
            "algorithm.kl.reference old with one update a batch (algorithm.epochs 1",
        ),
        (["algorithm.target_kl=0.1"], "algorithm.target_kl 0.1 with algorithm.epochs 1"),
        (
            ["algo=ppo", "algorithm.surrogate=sequence_clip"],
            "algorithm.surrogate sequence_clip with algorithm.advantage gae",
        ),
        (
            ["algo=rloo", "algorithm.epochs=2"],
            "algorithm.surrogate policy_gradient with several updates a batch (algorithm.epochs 2",
        ),
        (
            ["algo=rloo", "algorithm.filter=mixed"],
            "algorithm.surrogate policy_gradient with algorithm.filter mixed",
        ),
    ],
)
def test_what_contradicts_itself_is_refused_by_name(settings, message):
    with pytest.raises(UserError) as refused:
        resolve(set_layer(settings))
    assert str(refused.value).startswith("--set algorithm.")
    assert message in str(refused.value)
    assert "; " in str(refused.value)  # and a way out
    assert "\n" not in str(refused.value)


def test_every_contradiction_is_tested():
    (parametrized,) = test_what_contradicts_itself_is_refused_by_name.pytestmark
    assert len(parametrized.args[1]) == len(CONTRADICTIONS)


@pytest.mark.parametrize(
    "settings",
    [
        ["algo=grpo", "algorithm.kl=k1", "algorithm.kl.place=reward"],
        ["algo=grpo", "algorithm.kl=k1", "algorithm.kl.reference=old", "algorithm.epochs=2"],
        ["algo=grpo", "algorithm.kl.reference=old", "algorithm.mini_batches=2"],
        ["algorithm.target_kl=0.1", "algorithm.epochs=2"],
        ["algo=rloo", "algorithm.epochs=2", "algorithm.surrogate=ratio"],
        ["algo=rloo", "algorithm.filter=mixed", "algorithm.surrogate=clip"],
    ],
)
def test_the_way_out_of_a_contradiction_is_open(settings):
    resolve(set_layer(settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["rollout.samples=1"], "rollout.samples 1 with algorithm.advantage group_normalized"),
        (
            ["algo=reinforce++", "rollout.samples=1", "algorithm.filter=mixed"],
            "rollout.samples 1 with algorithm.filter mixed",
        ),
        (
            ["algorithm.mini_batches=7", "rollout.prompts=4", "rollout.samples=4"],
            "mini_batches 7 does not divide the 16 responses of a step (rollout.prompts 4",
        ),
        (["algo=rloo", "algorithm.surrogate.low=0.1"], "policy_gradient has no low"),
        (["algorithm.advantage.gamma=0.9"], "group_normalized has no gamma"),
        (["algorithm.advantage.critic.clip=0.1"], "group_normalized has no critic"),
        (["algo=grpo", "algorithm.filter.on_cap=stop"], "algorithm.filter is none here"),
        (["algo=grpo", "algorithm.kl.reference.every=5"], "algorithm.kl.reference fixed has no"),
        (["algo=grpo", "algorithm.kl.control=doubling"], "algorithm.kl.control.target has no"),
        (["algorithm.overlong=mask", "algorithm.overlong.cache=1"], "overlong mask has no cache"),
        (["algo=rloo", "algorithm.advantage.deviation=sample"], "leave_one_out has no deviation"),
    ],
)
def test_what_means_nothing_cannot_be_written(settings, message):
    with pytest.raises(UserError) as refused:
        resolve(set_layer(settings))
    assert message in str(refused.value)


def test_what_the_rest_of_the_program_asks_of_an_algorithm():
    ppo, grpo, dapo = (ALGORITHMS[name] for name in ("ppo", "grpo", "dapo"))
    iterative = resolve(set_layer(["algo=grpo", "algorithm.kl.reference=iterative"])).algorithm
    old = resolve(
        set_layer(
            [
                *("algo=grpo", "algorithm.kl.reference=old", "algorithm.mini_batches=4"),
                *("algorithm.kl.control={kind: doubling, target: 1}", "algorithm.epochs=2"),
            ]
        )
    ).algorithm
    masked = resolve(set_layer(["algorithm.overlong=mask"])).algorithm
    assert ppo.has_reference_model
    assert iterative.has_reference_model
    assert not dapo.has_reference_model
    assert not old.has_reference_model
    assert (ppo.rewards_kl, grpo.rewards_kl, dapo.rewards_kl) == (True, False, False)
    assert (ppo.updates, dapo.updates, old.updates) == (2, 4, 8)
    assert (grpo.renewal, dapo.renewal, iterative.renewal.every) == (None, None, 50)
    assert (grpo.kl.controls_own, old.kl.controls_own) == (False, True)
    assert (dapo.masks_cut_off, masked.masks_cut_off) == (False, True)
    assert (dapo.critic, ppo.critic.kind) == (None, "own")


def test_a_row_is_shown_with_the_cells_of_its_kinds_alone():
    assert str(ALGORITHMS["rloo"]) == (
        "advantage leave_one_out, surrogate policy_gradient, aggregation sequence_sum, epochs 1, "
        "mini_batches 1"
    )
    assert "kl k1 (coef 0.005, place reward, reference fixed)" in str(ALGORITHMS["ppo"])
