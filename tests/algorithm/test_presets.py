"""The table of presets: every cell resolves, and combinations that mean nothing are refused."""

from typing import get_args

import pytest

from rlvr_cli.algorithm.advantage import ADVANTAGES
from rlvr_cli.algorithm.kl import CONTROLS, ESTIMATORS
from rlvr_cli.algorithm.objective import AGGREGATIONS, SAMPLER_WEIGHTS, SURROGATES
from rlvr_cli.algorithm.presets import ALGORITHMS, Algorithm
from rlvr_cli.config import OptimConfig, resolve, set_layer
from rlvr_cli.core.types import UserError
from rlvr_cli.training.update import SCHEDULES


@pytest.mark.parametrize(
    ("cell", "table"),
    [
        ("advantage", set(ADVANTAGES)),
        ("surrogate", set(SURROGATES)),
        ("aggregation", set(AGGREGATIONS)),
        ("sampler_weights", set(SAMPLER_WEIGHTS)),
        ("kl", {"none", *ESTIMATORS}),
        ("kl_control", {"fixed", *CONTROLS}),
    ],
)
def test_every_name_in_a_cell_has_a_component(cell, table):
    assert set(get_args(Algorithm.model_fields[cell].annotation)) == table


def test_every_schedule_has_a_formula():
    assert set(get_args(OptimConfig.model_fields["schedule"].annotation)) == set(SCHEDULES)


def test_the_presets_of_the_design():
    cells = "advantage clip_low clip_high aggregation kl kl_in group_filter overlong critic"
    rows = {
        name: tuple(getattr(algorithm, cell) for cell in cells.split())
        for name, algorithm in ALGORITHMS.items()
    }
    off = ("none", "off", "none")
    assert rows["ppo"] == ("gae", 0.2, 0.2, "token_mean", "k1", "reward", "none", "off", "own")
    assert rows["grpo"] == ("group_normalised", 0.2, 0.2, "sequence_mean", "k3", "loss", *off)
    assert rows["dapo"][:5] == ("group_normalised", 0.2, 0.28, "token_mean", "none")
    assert rows["dapo"][6:] == ("mixed", "soft", "none")
    assert rows["dr_grpo"][0::3][:2] == ("group_centred", "constant_length")
    assert list(ALGORITHMS) == [
        *("ppo", "grpo", "dapo", "dr_grpo", "rloo", "reinforce", "reinforce++", "gspo", "cispo")
    ]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (["algo=grpo", "algorithm.advantage=gae"], ("advantage gae", "critic none")),
        (["algorithm.critic=own"], ("advantage group_normalised", "critic own")),
        (["algo=grpo", "algorithm.reference=none"], ("kl k3", "reference none")),
        (["algorithm.reference=fixed"], ("kl none", "reference fixed")),
        (["algorithm.kl=k3"], ("kl k3", "kl_coef 0")),
        (["algorithm.kl_coef=0.1"], ("kl none", "kl_coef 0.1")),
        (["algo=grpo", "algorithm.kl=k1"], ("kl k1", "kl_in loss")),
        (["algo=grpo", "algorithm.reference=old"], ("reference old", "epochs 1")),
        (["algo=grpo", "algorithm.kl_control=doubling"], ("kl_control", "kl_target None")),
        (["algorithm.kl_control=doubling", "algorithm.kl_target=1"], ("kl_control", "kl none")),
        (["algo=ppo", "algorithm.surrogate=sequence_clip"], ("sequence_clip", "advantage gae")),
        (["algo=rloo", "algorithm.epochs=2"], ("policy_gradient", "epochs 2")),
        (
            ["algo=rloo", "algorithm.group_filter=mixed"],
            ("policy_gradient", "group_filter mixed", "another policy"),
        ),
        (["rollout.samples=1"], ("samples 1", "advantage group_normalised")),
        (
            ["algo=reinforce++", "rollout.samples=1", "algorithm.group_filter=mixed"],
            ("samples 1", "group_filter mixed"),
        ),
        (
            ["algorithm.mini_batches=7", "rollout.prompts=4", "rollout.samples=4"],
            ("mini_batches 7", "16 responses", "rollout.prompts 4"),
        ),
        (["algorithm.clip_low=1.5"], ("algorithm.clip_low", "less than or equal to 1")),
        (["algorithm.clip_high=-0.1"], ("algorithm.clip_high", "greater than or equal to 0")),
        (["algo=rloo", "algorithm.clip_low=0.1"], ("clip_low 0.1", "does not clip")),
        (["algorithm.gamma=0.9"], ("gamma 0.9", "group")),
        (["algorithm.value_clip=0.1"], ("value_clip 0.1", "critic none")),
        (["algorithm.target_kl=0.1"], ("target_kl 0.1", "epochs 1")),
        (["algo=grpo", "algorithm.on_cap=stop"], ("on_cap stop", "group_filter none")),
        (["algo=grpo", "algorithm.reference_every=5"], ("reference_every 5", "iterative")),
        (["algorithm.sampler_cap=3"], ("sampler_cap 3", "sampler_weights off")),
        (["algo=rloo", "algorithm.deviation=population"], ("deviation", "group_normalised")),
    ],
)
def test_what_means_nothing_is_refused_by_name(settings, named):
    with pytest.raises(UserError) as refused:
        resolve(set_layer(settings))
    for part in named:
        assert part in str(refused.value)


def test_the_row_that_is_shown_holds_what_has_a_meaning():
    shown = ALGORITHMS["rloo"].used_cells()
    assert not {"clip_low", "gamma", "critic_warmup", "max_gen_batches"} & set(shown)
    assert {"advantage", "surrogate", "aggregation", "kl"} <= set(shown)
