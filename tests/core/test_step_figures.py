"""The line of a step: its keys in their order, and what is read of one of an earlier version."""

import json

import pytest

from rlvr_cli.core.step_figures import (
    BatchFigures,
    HeldOut,
    MemoryFigures,
    RestFigures,
    SampledFigures,
    Seconds,
    StepFigures,
    UpdateFigures,
    held_out_row,
)

FIGURES = StepFigures(
    step=3,
    sampled=SampledFigures(
        reward=0.5,
        pass_at_1=0.25,
        tokens_sampled=8,
        verdicts={"correct": 1, "wrong": 3},
        rewards={"math": 0.25, "brief/asked": None},
    ),
    batch=BatchFigures(gen_batches=2, groups_trained=1, no_update="no signal"),
    rest=RestFigures(rested=4),
    update=UpdateFigures(loss=0.125, epochs=2),
    held_out={
        "": HeldOut(0.5, 0.25, 0.75, 1.0, {"1": 0.5}),
        "other": HeldOut(0.0, by_level={"2": 0.0}),
    },
    seconds=Seconds(rollout=1.5, step=2.0),
    memory=MemoryFigures(peak=0.5),
)
LINE = """\
{"step": 3, "reward": 0.5, "pass@1": 0.25, "response_length": null, "sampled_entropy": null, \
"reflections": null, "mixed_share": null, "format_share": null, "unjudged_share": null, \
"cut_off_share": null, "groups_sampled": null, "tokens_sampled": 8, \
"verdicts": {"correct": 1, "wrong": 3}, "reward/math": 0.25, "reward/brief/asked": null, \
"tokens_scored": null, "rejected_share": null, "gen_batches": 2, "groups_trained": 1, \
"groups_carried": 0, "no_update": "no signal", "rested": 4, "groups_with_signal": null, \
"loss": 0.125, "epochs": 2, "held_out_pass@1": 0.5, "held_out_pass@1_low": 0.25, \
"held_out_pass@1_high": 0.75, "held_out_cons@k": 1.0, "held_out_by_level": {"1": 0.5}, \
"held_out_pass@1/other": 0.0, "held_out_pass@1_low/other": null, \
"held_out_pass@1_high/other": null, "held_out_cons@k/other": null, "seconds_rollout": 1.5, \
"seconds_step": 2.0, "tokens_with_signal": null, "tokens_updated": null, "mfu": null, \
"tokens_per_second_rollout": null, "tokens_per_second_verification": null, \
"tokens_per_second_logprobs": null, "tokens_per_second_update": null, "goodput": null, \
"signal_share": null, "memory_peak_gib": 0.5, "row_version": 1}"""


def test_a_step_is_a_flat_line_with_its_keys_in_order():
    assert json.dumps(FIGURES.row) == LINE


def test_a_line_is_read_again():
    repeated = StepFigures.from_row(json.loads(LINE))
    assert (repeated.step, repeated.sampled, repeated.batch) == (3, FIGURES.sampled, FIGURES.batch)
    assert (repeated.rest, repeated.update, repeated.seconds) == (
        FIGURES.rest,
        FIGURES.update,
        FIGURES.seconds,
    )
    assert repeated.held_out[""] == FIGURES.held_out[""]
    assert repeated.held_out["other"] == HeldOut(0.0)  # a line has the levels of the first set only
    assert repeated.measured == 0.5
    assert json.dumps(repeated.row) == LINE


def test_a_line_of_another_version_keeps_its_keys():
    row = {"new": 1.5, "verdicts": {}, "mixed_share": None, "no_update": None, "step": 1}
    figures = StepFigures.from_row(row)
    assert (figures.step, figures.sampled.reward, figures.update.lr) == (1, None, None)
    assert (figures.batch.gen_batches, figures.measured) == (1, None)
    assert list(figures.row) == list(row)


@pytest.mark.parametrize(
    "changed",
    [{"step": 0}, {"reward": "high"}, {"new": [1]}, {"loss": 1e101}, {"tokens_sampled": 1.5}],
)
def test_a_line_with_what_is_no_figure_is_refused(changed):
    with pytest.raises(ValueError, match="validation error"):
        StepFigures.from_row(json.loads(LINE) | changed)


def test_of_several_sets_the_first_has_the_plain_keys():
    row = held_out_row({"a": HeldOut(0.5), "b": HeldOut(0.25)})
    assert (row["held_out_pass@1"], row["held_out_pass@1/b"]) == (0.5, 0.25)
    assert held_out_row({}) == {}
