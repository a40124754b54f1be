"""Throughput by hand: tokens and seconds of one step and of a whole run."""

from types import SimpleNamespace

import pytest
import torch
from conftest import random_model
from small_groups import LATE, RIGHT, WRONG, made_group

from rlvr_cli.algorithm.presets import ALGORITHMS
from rlvr_cli.algorithm.samples import TrainingSample
from rlvr_cli.training import throughput
from rlvr_cli.training.roofline import Peaks, generation_seconds, update_seconds
from rlvr_cli.training.throughput import Throughput, run_throughput, trained_lengths


def test_a_run_is_summed_before_it_is_divided():
    row = {
        "tokens_sampled": 100,
        "tokens_scored": 30,
        "tokens_updated": 50,
        "tokens_with_signal": 40,
        "seconds_rollout": 2.0,
        "seconds_verification": 1.0,
        "seconds_logprobs": 0.5,
        "seconds_update": 1.0,
        "seconds_sync": 1.0,
        "seconds_step": 5.0,
        "least_seconds_rollout": 0.5,
        "least_seconds_update": 0.25,
        "mismatch": 0.01,
        "memory_peak_gib": 3.0,
    }
    idle = {
        **dict.fromkeys(row, 0),
        "tokens_sampled": 100,
        "seconds_rollout": 8.0,
        "seconds_step": 10.0,
    }
    del idle["mismatch"]
    figures = run_throughput([row, idle])
    assert figures["tokens_per_second_rollout"] == 20
    assert figures["tokens_per_second_verification"] == 200
    assert figures["tokens_per_second_logprobs"] == 60
    assert figures["tokens_per_second_update"] == 50
    assert run_throughput([idle])["tokens_per_second_logprobs"] is None
    assert figures["signal_share"] == 0.2
    assert figures["goodput"] == pytest.approx(40 / 15)
    assert (figures["roof_gen"], figures["mfu"]) == (0.05, 0.25)
    assert figures["roof_step"] == pytest.approx(0.05)
    assert (figures["mismatch_max"], figures["memory_peak_gib"]) == (0.01, 3.0)
    assert run_throughput([])["roof_step"] is None


ROW = {
    "tokens_sampled": 10,
    "tokens_scored": 0,
    "tokens_updated": 10,
    "tokens_with_signal": 10,
    "seconds_rollout": 2.0,
    "seconds_update": 1.0,
    "seconds_step": 4.0,
    "least_seconds_rollout": 3.0,
    "least_seconds_update": 0.5,
}


def test_a_share_above_one_is_no_share_but_a_busy_machine():
    figures = run_throughput([ROW])
    assert figures["machine_busy"]
    assert figures["roof_gen"] is None
    assert (figures["mfu"], figures["roof_step"]) == (0.5, 3.5 / 4)
    assert not run_throughput([])["machine_busy"]


def test_higher_peaks_make_the_least_times_shorter():
    figures = run_throughput([ROW], flops_gain=2.0, most_gain=3.0)
    assert (figures["roof_gen"], figures["mfu"]) == (0.5, 0.25)
    assert figures["roof_step"] == (1.0 + 0.25) / 4
    assert not figures["machine_busy"]


PEAKS = Peaks(1e9, 1e4, "made up")
SAMPLED = [
    made_group("a", RIGHT, WRONG, LATE, n_tokens=10),
    made_group("b", RIGHT, RIGHT, n_tokens=5),
]
"""30 and 10 tokens after prompts of 3; those of right and wrong ones in a group are 20."""


@pytest.fixture
def measured(monkeypatch):
    """Throughput on a machine of known peaks, with room for the tokens given and two responses."""
    monkeypatch.setattr(throughput, "machine_peaks", lambda device: PEAKS)

    def make(algo="grpo", kv_tokens=10_000, most=1000):
        engine = SimpleNamespace(itemsize=2, kv_tokens=kv_tokens, max_sequences=most)
        return Throughput(random_model(), engine, ALGORITHMS[algo])

    return make


SECONDS = {"seconds_rollout": 1e3, "seconds_update": 5e2, "seconds_logprobs": 10.0}


@pytest.mark.parametrize(("algo", "expected"), [("grpo", 20), ("ppo", 30)])
def test_the_tokens_that_give_a_signal(measured, algo, expected):
    row = measured(algo).of_step(SAMPLED, [(3, [10, 10])], 7, 2.0, SECONDS)
    assert row["tokens_with_signal"] == expected
    assert row["goodput"] == expected / 1510
    assert row["signal_share"] == expected / 40
    none = measured(algo).of_step(SAMPLED[1:], [], 0, 1, SECONDS)
    assert none["tokens_with_signal"] == 0


def test_responses_of_the_rows_took_no_time_to_sample(measured):
    row = measured("sft").of_step(SAMPLED, [(3, [10, 10])], 7, 2.0, {"seconds_update": 5e2})
    assert row["least_seconds_rollout"] == 0
    assert row["roof_gen"] is row["tokens_per_second_rollout"] is None
    assert row["signal_share"] == 1  # whatever the verdicts


def test_a_step_by_hand(measured):
    here = measured()
    row = here.of_step(SAMPLED, [(3, [10, 10])], 7, 2.0, SECONDS)
    assert (row["seconds_step"], row["tokens_updated"], row["tokens_scored"]) == (1510, 40, 7)
    assert row["tokens_per_second_rollout"] == 0.04
    assert row["tokens_per_second_update"] == 0.08
    assert row["tokens_per_second_logprobs"] == 0.7
    assert row["tokens_per_second_verification"] is None
    lengths = [(3, [10, 10, 10]), (3, [5, 5])]
    assert row["least_seconds_rollout"] == generation_seconds(here.shape, lengths, 5 * 769.2, PEAKS)
    assert row["least_seconds_update"] == 2 * update_seconds(here.shape, [(3, [10, 10])], PEAKS)
    assert row["mfu"] == row["least_seconds_update"] / 500
    assert 0.05 < row["memory_peak_gib"] < 64
    assert not row["machine_busy"]


@pytest.mark.parametrize(
    ("kv_tokens", "most", "together"), [(10**6, 2, 2), (22, 99, 2), (1, 99, 1)]
)
def test_what_fits_at_once_bounds_the_least_time(measured, kv_tokens, most, together):
    # Five responses of 11 tokens on average with their prompts.
    here = measured(kv_tokens=kv_tokens, most=most)
    row = here.of_step(SAMPLED, [], 0, 1, SECONDS)
    lengths = [(3, [10, 10, 10]), (3, [5, 5])]
    expected = generation_seconds(here.shape, lengths, together, PEAKS)
    assert row["least_seconds_rollout"] == expected
    assert expected > generation_seconds(here.shape, lengths, 5, PEAKS)


def test_the_peaks_are_measured_once_more_at_the_end(measured, monkeypatch):
    here = measured()
    faster = Peaks(2e9, 3e4, "later")
    monkeypatch.setattr(throughput, "machine_peaks", lambda device: faster)
    assert here.of_run([ROW]) == run_throughput([ROW], 2.0, 3.0)
    assert (here.peaks.flops, here.peaks.bandwidth) == (2e9, 3e4)


def test_responses_are_counted_by_their_prompts():
    rows = [
        TrainingSample(prompt, [1] * n, torch.zeros(n), 0.0, 0, True, False)
        for prompt, n in (([5, 6], 3), ([7], 2), ([5, 6], 1))
    ]
    assert trained_lengths(rows) == [(2, [3, 1]), (1, [2])]


def test_the_largest_of_a_run_count():
    rows = [ROW | {"mismatch": m, "memory_peak_gib": g} for m, g in ((0.1, 3), (0.3, 2), (0.2, 1))]
    figures = run_throughput(rows)
    assert (figures["mismatch_max"], figures["memory_peak_gib"]) == (0.3, 3)
    assert run_throughput([ROW])["mismatch_max"] is None
