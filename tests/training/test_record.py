"""One step's records: seconds that add up, and the row that is made of them."""

import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
import torch
from small_groups import RIGHT, WRONG, made_group

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.group_filter import GroupBatch
from rlvr_cli.config import Config
from rlvr_cli.core.types import SamplingParams
from rlvr_cli.evaluation.measure import rollout_metrics
from rlvr_cli.training import record as module
from rlvr_cli.training.record import StepRecord, counter


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        """Half a core is at work."""
        return self.now / 2


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def make_record(watch=lambda *_: None) -> StepRecord:
    session = SimpleNamespace(
        clocks={name: SimpleNamespace(seconds=7.0) for name in ("verification", "reward")},
        device=torch.device("cpu"),
        plan=SimpleNamespace(answer_format="any", config=Config(), training=SamplingParams(8, 10)),
        policy=SimpleNamespace(model="the model"),
    )
    return StepRecord(session, watch)


@pytest.fixture(autouse=True)
def throughput_arguments(monkeypatch) -> list:
    """The arguments of each call of `step_throughput`."""
    throughput_arguments = []
    monkeypatch.setattr(
        module,
        "step_throughput",
        lambda *arguments: throughput_arguments.extend(arguments) or {"goodput": 1.5},
    )
    return throughput_arguments


def test_what_watches_a_step_sees_its_phases_and_how_much_has_come():
    calls = []
    record = make_record(lambda *call: calls.append(call))
    with record.phase("rollout"):
        advance = counter(record.watch, "rollout", 9)
        advance(2, 6)
        advance(1, 2)
    assert calls == [("rollout", 0, 0, 0), ("rollout", 2, 9, 6), ("rollout", 3, 9, 8)]


def test_phases_add_up_and_verdicts_have_a_name_of_their_own(clock):
    record = make_record()
    with record.phase("rollout"):
        clock.now += 3
        record.session.clocks["verification"].seconds += 1
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
    assert record.memory == {}  # of a GPU alone


def test_the_real_clock_runs():
    record = make_record()
    with record.phase("sync"):
        time.sleep(0.01)
    assert 0.01 <= record.seconds["seconds_sync"] < 5


@pytest.mark.parametrize(("no_update", "trained"), [(None, 1), ("no signal", 0)])
def test_a_step_is_one_row(clock, throughput_arguments, no_update, trained):
    group = made_group("a", RIGHT, WRONG)
    record = make_record()
    record.passed = [(2, 3)]
    record.scored = 13
    record.update = {"loss": 0.5, "epochs": 2}
    record.held_out_metrics = {"held_out_pass@1": 0.25}
    with record.phase("update"):
        clock.now += 5
    batch = GroupBatch(0, Algorithm(), groups=[group], sampled=[group, group], gen_batches=3)
    row = record.result(4, batch, 6, no_update).metrics
    assert 0.05 < row.pop("memory_peak_gib") < 64
    assert row == {
        **rollout_metrics([group, group], has_format=False),
        "step": 4,
        "gen_batches": 3,
        "groups_trained": trained,
        "groups_carried": 6,
        "rejected_share": None,
        "no_update": no_update,
        "loss": 0.5,
        "epochs": 2,
        "held_out_pass@1": 0.25,
        "seconds_update": 5.0,
        "seconds_step": 5.0,
        "seconds_processor": 2.5,
        "tokens_scored": 13,
        "goodput": 1.5,
    }
    assert throughput_arguments[1:] == [batch, 10, [(2, 3)], "the model"]


def test_without_an_update_nothing_trained(clock):
    row = make_record().result(1, GroupBatch(0, Algorithm(), []), 0, "no signal").metrics
    assert (row["groups_trained"], row["gen_batches"]) == (0, 0)
    assert row["seconds_step"] == 0


def test_the_memory_of_a_gpu_is_noted_by_phase(monkeypatch):
    left = iter([3 << 30, 1 << 30])
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (next(left), 8 << 30))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    record = make_record()
    record.session.device = torch.device("cuda")
    for phase in ("update", "rollout"):
        with record.phase(phase, memory=phase):
            pass
    assert record.memory == {"memory_update_gib": 5.0, "memory_rollout_gib": 7.0}
    row = record.result(1, GroupBatch(0, Algorithm(), []), 0, None).metrics
    assert (row["memory_rollout_gib"], row["memory_peak_gib"]) == (7.0, 7.0)


def test_a_phase_ends_when_the_gpu_has_done_what_was_asked_of_it(monkeypatch, clock):
    def wait():
        clock.now += 7

    monkeypatch.setattr(torch.cuda, "synchronize", wait)
    record = make_record()
    record.session.device = torch.device("cuda")
    with record.phase("logprobs"):
        clock.now += 1
    assert record.seconds == {"seconds_logprobs": 8.0}
