"""Least times by hand: perf.md's worked example, and cases small enough for mental arithmetic."""

import pytest
import torch
from conftest import random_model

from rlvr_cli.console.display import Display
from rlvr_cli.runs.narration import say_throughput
from rlvr_cli.training.roofline import (
    GPUS,
    Peaks,
    Shape,
    generation_seconds,
    machine_peaks,
    model_shape,
    sheet_peaks,
    update_seconds,
)
from rlvr_cli.training.throughput import run_throughput

H100 = Peaks(*GPUS["H100"], "")
# Qwen2.5-1.5B: width 1536, 28 layers of 12 heads and 2 key heads of 128, 151,936 ids, tied.
QWEN = Shape(1_310_340_608, 151_936 * 1536, 28, 12, 2, 128, itemsize=2)
# 32 prompts of 150 tokens, 16 responses each: mean 600, mean square 1.7 * 600^2, longest 2048.
RESPONSES = [2048] * 55 + [426] * 335 + [425] * 122
GROUPS = [(150, RESPONSES[first::32]) for first in range(32)]
TOY = Shape(body=100, head=10, layers=2, heads=4, kv_heads=1, head_dim=5, itemsize=2)


def test_the_worked_example():
    assert sum(RESPONSES) == 512 * 600
    assert sum(n * n for n in RESPONSES) == pytest.approx(512 * 1.7 * 600**2, rel=1e-3)
    generation = generation_seconds(QWEN, GROUPS, 512, H100)
    update = update_seconds(QWEN, GROUPS, H100)
    assert generation == pytest.approx(3.6, abs=0.05)
    assert update == pytest.approx(3.6, abs=0.05)
    assert generation + update == pytest.approx(7.2, abs=0.05)
    assert sum(RESPONSES) / generation == pytest.approx(85_000, rel=0.01)


def test_reading_bounds_decoding():
    # 4 steps of 2 * 110 bytes; a token's keys and values are 2 * 2 * 2 * 1 * 5 = 40 bytes, and 4
    # tokens after a prompt of 3 see 4 * (3 + 2) = 20, 2 tokens 2 * (3 + 1) = 8: 880 + 40 * 28.
    fast = Peaks(flops=1e12, bandwidth=1000.0, source="")
    assert generation_seconds(TOY, [(3, [4, 2])], 2, fast) == pytest.approx(2.0)
    # One at a time: 6 steps of 220 bytes.
    assert generation_seconds(TOY, [(3, [4, 2])], 1, fast) == pytest.approx(2.44)


def test_computing_bounds_decoding_where_memory_is_fast():
    # 2 * 110 * 6 = 1320 operations for the tokens and 600 for the prompt.
    peaks = Peaks(flops=100.0, bandwidth=1e12, source="")
    assert generation_seconds(TOY, [(3, [4, 2])], 2, peaks) == pytest.approx(19.2)


def test_an_update_by_hand():
    # Body 6 * 100 * (7 + 5), head 6 * 10 * 6, attention 6 * 2 * 4 * 5 * (49 + 25).
    operations = 7200 + 360 + 240 * 74
    assert update_seconds(TOY, [(3, [4, 2])], Peaks(1000.0, 1.0, "")) == operations / 1000


def test_nothing_takes_no_time():
    assert generation_seconds(TOY, [], 1, H100) == update_seconds(TOY, [], H100) == 0


@pytest.mark.parametrize(("family", "tied"), [("qwen2-tied", True), ("qwen2-untied", False)])
def test_a_models_shape(family, tied):
    model = random_model(family)
    shape = model_shape(model, 4)
    assert shape.head == 50 * 32
    assert shape.body + shape.head * (1 if tied else 2) == model.num_parameters()
    assert (shape.layers, shape.heads, shape.kv_heads, shape.head_dim) == (2, 4, 2, 8)


def test_the_higher_measurement_counts():
    peaks = machine_peaks(torch.device("cpu"))
    assert min(peaks.flops, peaks.bandwidth) > 0
    assert Peaks(9.0, 2.0, "a").best(Peaks(3.0, 5.0, "b")) == Peaks(9.0, 5.0, "a")


def test_a_run_is_summed_before_it_is_divided():
    row = {
        "tokens_sampled": 60,
        "tokens_given_up": 40,
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
    assert figures["tokens_per_second_verification"] == 160
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
    "tokens_given_up": 0,
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


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"roof_gen": None, "machine_busy": True}, "roof_gen machine busy, mfu 50.0%"),
        ({"roof_gen": None, "machine_busy": False}, "roof_gen -, mfu 50.0%"),
    ],
)
def test_a_share_that_is_none_is_said_in_words(capsys, figures, words):
    say_throughput({**run_throughput([ROW]), **figures}, "a measurement", Display(quiet=False))
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("NVIDIA H100 80GB HBM3", "the data sheet of H100"),
        ("NVIDIA H100 PCIe", "the data sheet of H100 PCIe"),
        ("NVIDIA L4", "the data sheet of L4"),
        ("NVIDIA L40S", "the data sheet of L40S"),
        ("NVIDIA L40", None),
        ("NVIDIA H100 NVL", None),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
    ],
)
def test_a_gpu_counts_by_its_whole_name(name, source):
    peaks = sheet_peaks(name)
    assert (peaks and peaks.source) == source
