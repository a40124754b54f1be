"""One step's records: seconds that add up, and the row that is made of them."""

import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from small_groups import RIGHT, WRONG, made_group

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.group_filter import Batch
from rlvr_cli.evaluation.metrics import rollout_metrics
from rlvr_cli.training import record as module
from rlvr_cli.training.record import StepRecord, counted


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


class Throughput:
    """Keeps what it was asked."""

    def __init__(self) -> None:
        self.memory: list[str] = []

    def note_memory(self, when: str) -> None:
        self.memory.append(when)

    def of_step(self, *asked) -> dict:
        self.asked = asked
        return {"goodput": 1.5}


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def made(watch=lambda *seen: None) -> StepRecord:
    clocks = {name: SimpleNamespace(seconds=7.0) for name in ("verification", "reward")}
    return StepRecord(clocks, Throughput(), watch)


def test_what_watches_a_step_sees_its_phases_and_how_much_has_come():
    seen = []
    record = made(lambda *told: seen.append(told))
    groups = [made_group("a", RIGHT, WRONG, n_tokens=3), made_group("b", RIGHT, n_tokens=2)]
    with record.phase("rollout"):
        for group, count in zip(groups, [record.counter(9)] * 2, strict=True):
            count(group)
    assert seen == [("rollout", 0, 0, 0), ("rollout", 2, 9, 6), ("rollout", 3, 9, 8)]


def test_the_tokens_of_an_update_are_added_up():
    seen = []
    advance = counted(lambda *told: seen.append(told), 9)
    advance(4)
    advance(5)
    assert seen == [("update", 4, 9, 4), ("update", 9, 9, 9)]


def test_phases_add_up_and_verdicts_have_a_name_of_their_own(clock):
    record = made()
    with record.phase("rollout"):
        clock.now += 3
        record.clocks["verification"].seconds += 1
    with record.phase("update", memory="update"):
        clock.now += 5
    with suppress(KeyError), record.phase("rollout", memory="rollout"):
        clock.now += 4
        raise KeyError
    assert record.seconds == {
        "seconds_rollout": 6.0,
        "seconds_verification": 1.0,
        "seconds_update": 5.0,
    }
    assert record.throughput.memory == ["update", "rollout"]


def test_the_real_clock_runs():
    record = made()
    with record.phase("sync"):
        time.sleep(0.01)
    assert 0.01 <= record.seconds["seconds_sync"] < 5


@pytest.mark.parametrize(("no_update", "trained"), [(None, 1), ("no signal", 0)])
def test_a_step_is_one_row(clock, no_update, trained):
    record, group = made(), made_group("a", RIGHT, WRONG)
    record.trained = [(2, 3)]
    record.update = {"loss": 0.5, "epochs": 2}
    record.held_out_metrics = {"held_out_pass@1": 0.25}
    with record.phase("update"):
        clock.now += 5
    batch = Batch(0, Algorithm(), kept=[group], sampled=[group, group], gen_batches=3)
    row = record.metrics(4, batch, 6, no_update, False, 13)
    assert row == {
        **rollout_metrics([group, group], has_format=False),
        "step": 4,
        "gen_batches": 3,
        "groups_trained": trained,
        "groups_carried": 6,
        "no_update": no_update,
        "loss": 0.5,
        "epochs": 2,
        "held_out_pass@1": 0.25,
        "seconds_update": 5.0,
        "seconds_step": 5.0,
        "tokens_scored": 13,
        "goodput": 1.5,
    }
    assert record.throughput.asked == (
        {key: value for key, value in row.items() if key != "goodput"},
        [group, group],
        [(2, 3)],
    )


def test_without_an_update_nothing_trained(clock):
    row = made().metrics(1, Batch(0, Algorithm(), []), 0, "no signal", True, 0)
    assert (row["groups_trained"], row["gen_batches"]) == (0, 0)
    assert row["seconds_step"] == 0
