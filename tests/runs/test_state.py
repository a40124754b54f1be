"""The state of a run goes back only into the same run."""

import re

import pytest
from small_trainer import has_even, make_trainer

from rlvr_cli.core.errors import UserError
from rlvr_cli.runs.checkpoint import OtherRunError, restore, state_of
from rlvr_cli.runs.summary import Progress
from rlvr_cli.training.state import State


@pytest.fixture(scope="module")
def trainer():
    return make_trainer(has_even, "algo=grpo", "algorithm.kl=none")


def edited(trainer, **settings) -> State:
    state = state_of(trainer, Progress())
    return State({**state.values, "settings": state.values["settings"] | settings}, state.tensors)


def test_it_says_whose_it_is_beside_what_the_trainer_says(trainer):
    values = state_of(trainer, Progress()).values
    assert values["settings"]["rollout.samples"] == 4
    assert values["problems"] == trainer.problems_digest
    assert values["start"] == trainer.start_digest
    assert trainer.state_dict().values.keys() <= values.keys()
    restore(trainer, state_of(trainer, Progress()))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rollout.samples": 5}, "rollout.samples is 4 there, and the run computes with 5"),
        ({"gone": 1}, "gone is None there, and the run computes with 1"),
        ({"optim.betas": [0.1, 0.2]}, "optim.betas is [0.9, 0.999] there"),
    ],
)
def test_an_edited_setting_is_named_with_both_values(trainer, settings, message):
    with pytest.raises(OtherRunError, match=re.escape(f"config.yaml was edited: {message}")):
        restore(trainer, edited(trainer, **settings))


@pytest.mark.parametrize(
    ("what", "message"),
    [("problems", "the problems of"), ("start", "the weights of tiny, the ref")],
)
def test_other_problems_or_weights_are_refused_before_anything_is_loaded(trainer, what, message):
    state = state_of(trainer, Progress())
    state.values[what] = "0" * 64
    state.values["cursor"] = 5
    before = trainer.state_dict().values
    with pytest.raises(OtherRunError, match=f"^{message}"):
        restore(trainer, state)
    assert trainer.state_dict().values == before
    assert issubclass(OtherRunError, UserError)
