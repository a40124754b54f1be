"""Least times by hand: perf.md's worked example, and cases small enough for mental arithmetic."""

import pytest
import torch
from conftest import random_model

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
