"""What a run's files may hold, and which settings decide what it computes."""

import pytest
from pydantic import ValidationError

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.step_figures import StepFigures
from rlvr_cli.runs.checkpoint import StoredState, computing_settings
from rlvr_cli.runs.stored import STORED_PROBLEM

PROBLEM = {"id": "1", "problem": "?", "answer": None, "extra": {}}
METRICS = {"step": 1, "no_update": None, "mixed_share": 0.5, "verdicts": {"correct": 1}}
STATE = {
    "step": 3,
    "settings": {},
    "problems": "0",
    "start": "0",
    "cursor": 0,
    "resting": [[7, 2, 5]],
    "weight_version": 2,
    "carried": [],
    "kl_coef": 0.1,
    "mismatch": None,
    "optimizer": [{}],
    "progress": {"before": None, "best": None, "seconds": 1.5},
}
ROLLOUT = {
    "text": "x",
    "completion": {"token_ids": [1], "logprobs": [-0.5], "finish_reason": "stop"},
    "verification": None,
    "reward": None,
}


@pytest.mark.parametrize(
    ("read", "base", "changed"),
    [
        (STORED_PROBLEM.validate_python, PROBLEM, {"id": 1}),
        (STORED_PROBLEM.validate_python, PROBLEM, {"extra": None}),
        (StepFigures.from_row, METRICS, {"step": 0}),
        (StepFigures.from_row, METRICS, {"step": 2**63}),
        (StepFigures.from_row, METRICS, {"verdicts": {"correct": -1}}),
        (StepFigures.from_row, METRICS, {"mixed_share": float("nan")}),
        (StepFigures.from_row, METRICS, {"reward": 1e101}),
        (StepFigures.from_row, METRICS, {"reward": "high"}),
        (StoredState.model_validate, STATE, {"step": -1}),
        (StoredState.model_validate, STATE, {"step": True}),
        (StoredState.model_validate, STATE, {"kl_coef": float("inf")}),
        (StoredState.model_validate, STATE, {"more": 1}),
        (StoredState.model_validate, STATE, {"progress": {**STATE["progress"], "seconds": -1.0}}),
        (
            StoredState.model_validate,
            STATE,
            {"progress": {**STATE["progress"], "best": {"step": 1}}},
        ),
        (
            StoredState.model_validate,
            STATE,
            {"carried": [{"prompt": 0, "weight_version": 0, "rollouts": [{**ROLLOUT, "text": 1}]}]},
        ),
    ],
)
def test_each_mistake_is_refused_and_nothing_else(read, base, changed):
    read(base)
    with pytest.raises(ValidationError):
        read(base | changed)


def test_metrics_of_any_name_are_numbers_or_none():
    row = {**METRICS, "reward": None, "loss": 2, "is_new": True}
    figures = StepFigures.from_row(row)
    assert (figures.step, figures.update.loss, figures.row) == (1, 2, row)


@pytest.mark.parametrize(
    "name", sorted(STATE.keys() - {"resting", "mismatch"})
)  # not in version 0.2
def test_no_part_of_a_state_may_be_missing(name):
    with pytest.raises(ValidationError):
        StoredState.model_validate({key: value for key, value in STATE.items() if key != name})


def settings_of(*settings: str) -> dict:
    return computing_settings(resolve(set_layer(settings)))


def test_what_may_move_or_be_made_longer_does_not_decide_the_results():
    ours = settings_of()
    assert {"seed", "rollout.samples", "optim.lr", "algorithm.aggregation"} <= ours.keys()
    free = ("steps=7", "checkpoint.every=3", "guards.max_kl=2", "model=x", "data.source=y")
    assert settings_of(*free, "eval.source=z", "data.root=r") == ours
    for item in ("seed=1", "rollout.samples=4", "data.limit=3", "optim.betas=[0.8, 0.9]"):
        assert settings_of(item) != ours


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_schedule_over_all_steps_makes_their_number_decide(schedule):
    actual = settings_of(f"optim.schedule={schedule}", "steps=7")
    assert actual["steps"] == 7
    assert "steps" not in settings_of("steps=7")
