"""One step's records: seconds that add up, and the row that is made of them."""

import time
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from small_groups import RIGHT, WRONG, made_group

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.group_filter import GroupBatch
from rlvr_cli.config import Config
from rlvr_cli.core.step_figures import (
    BatchFigures,
    HeldOut,
    MemoryFigures,
    Rates,
    Seconds,
    StepFigures,
    TokenUse,
    UpdateFigures,
)
from rlvr_cli.core.types import SamplingParams
from rlvr_cli.evaluation.measure import rollout_metrics
from rlvr_cli.training import record as module
from rlvr_cli.training.ahead import SampledBatch
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


EMPTY = SampledBatch(GroupBatch(0, Algorithm(), []))


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

    def step_throughput(**arguments) -> tuple[TokenUse, Rates]:
        throughput_arguments.append(arguments)
        return TokenUse(), Rates(goodput=1.5)

    monkeypatch.setattr(module, "step_throughput", step_throughput)
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
    with record.phase("rollout", judges=True):
        clock.now += 3
        record.session.clocks["verification"].seconds += 1
    with record.phase("update", memory="update"):
        clock.now += 5
        record.session.clocks["verification"].seconds += 2  # beside the update, in a thread
    with suppress(KeyError), record.phase("rollout", memory="rollout"):
        clock.now += 4
        raise KeyError
    assert record.seconds == {"rollout": 6.0, "verification": 1.0, "update": 5.0}
    assert record.memory == {}  # of a GPU alone


def test_the_real_clock_runs():
    record = make_record()
    with record.phase("sync"):
        time.sleep(0.01)
    assert 0.01 <= record.seconds["sync"] < 5


@pytest.mark.parametrize(("no_update", "trained"), [(None, 1), ("no signal", 0)])
def test_a_step_is_one_row(clock, throughput_arguments, no_update, trained):
    group = made_group("a", RIGHT, WRONG)
    record = make_record()
    record.passed = [(2, 3)]
    record.scored = 13
    record.update = UpdateFigures(loss=0.5, epochs=2)
    record.held_out_sets = {"": HeldOut(0.25)}
    with record.phase("update"):
        clock.now += 5
    batch = GroupBatch(0, Algorithm(), groups=[group], sampled=[group, group], gen_batches=3)
    figures = record.result(4, SampledBatch(batch, n_carried=6), no_update).figures
    assert 0.05 < figures.memory.peak < 64
    seconds = Seconds(update=5.0, step=5.0, processor=2.5)
    sampled = rollout_metrics([group, group], has_format=False)
    assert replace(figures, memory=MemoryFigures()) == StepFigures(
        step=4,
        sampled=sampled,
        batch=BatchFigures(
            tokens_scored=13,
            rejected_share=None,
            gen_batches=3,
            groups_trained=trained,
            groups_carried=6,
            no_update=no_update,
        ),
        update=UpdateFigures(loss=0.5, epochs=2),
        held_out={"": HeldOut(0.25)},
        seconds=seconds,
        rates=Rates(goodput=1.5),
    )
    assert throughput_arguments == [
        {
            "sampled": sampled.tokens_sampled,
            "scored": 13,
            "seconds": seconds,
            "batch": batch,
            "max_tokens": 10,
            "lengths": [(2, 3)],
            "model": "the model",
        }
    ]


def test_without_an_update_nothing_trained(clock):
    figures = make_record().result(1, EMPTY, "no signal").figures
    assert (figures.batch.groups_trained, figures.batch.gen_batches) == (0, 0)
    assert figures.seconds.step == 0


def test_the_memory_of_a_gpu_is_noted_by_phase(monkeypatch):
    left = iter([3 << 30, 1 << 30])
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (next(left), 8 << 30))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    record = make_record()
    record.session.device = torch.device("cuda")
    for phase, memory in (("update", "update"), ("rollout", "awake")):
        with record.phase(phase, memory=memory):
            pass
    assert record.memory == {"update": 5.0, "awake": 7.0}
    figures = record.result(1, EMPTY, None).figures
    assert figures.memory == MemoryFigures(awake=7.0, update=5.0, peak=7.0)


def test_a_phase_ends_when_the_gpu_has_done_what_was_asked_of_it(monkeypatch, clock):
    def wait():
        clock.now += 7

    monkeypatch.setattr(torch.cuda, "synchronize", wait)
    record = make_record()
    record.session.device = torch.device("cuda")
    with record.phase("logprobs"):
        clock.now += 1
    assert record.seconds == {"logprobs": 8.0}
