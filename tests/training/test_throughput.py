"""Throughput by hand: tokens and seconds of a step and of a run, and the share of a peak."""

from dataclasses import replace

import pytest
from conftest import quantizes
from small_groups import LATE, RIGHT, WRONG, made_group
from small_models import random_model
from small_runs import made_figures

from rlvr_cli.algorithm.choices import ALGORITHMS
from rlvr_cli.algorithm.filters import Mixed
from rlvr_cli.algorithm.group_filter import GroupBatch
from rlvr_cli.core.step_figures import Rates, Seconds, TokenUse
from rlvr_cli.model.adapter import add_adapter
from rlvr_cli.model.quantized import quantize
from rlvr_cli.training import throughput as module
from rlvr_cli.training.throughput import (
    RunThroughput,
    peak_flops,
    run_throughput,
    step_throughput,
    update_flops,
)

ROW = {
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
    "mismatch": 0.01,
    "memory_peak_gib": 3.0,
    "mfu": 0.25,
}


def of_run(*rows: dict) -> RunThroughput:
    return run_throughput(list(map(made_figures, rows)))


def test_a_run_is_summed_before_it_is_divided():
    idle = {
        **dict.fromkeys(ROW, 0),
        "tokens_sampled": 100,
        "seconds_rollout": 8.0,
        "seconds_step": 10.0,
        "mfu": None,
    }
    del idle["mismatch"]
    figures = of_run(ROW, idle)
    assert figures.rates.tokens_per_second_rollout == 20
    assert figures.rates.tokens_per_second_verification == 200
    assert figures.rates.tokens_per_second_logprobs == 60
    assert figures.rates.tokens_per_second_update == 50
    assert of_run(idle).rates.tokens_per_second_logprobs is None
    assert figures.rates.signal_share == 0.2
    assert figures.rates.goodput == pytest.approx(40 / 15)
    assert (figures.mismatch_max, figures.memory_peak_gib) == (0.01, 3.0)
    slower = {**ROW, "mfu": 0.05, "seconds_update": 3.0}
    assert of_run(ROW, slower, idle).mfu == pytest.approx((0.25 + 0.15) / 4)
    nothing = of_run()
    assert (nothing.mfu, nothing.rates.goodput, nothing.mismatch_max) == (None, None, None)


def test_a_run_with_responses_that_go_on_counts_what_its_steps_decoded():
    """240 tokens in 4 s, of which the responses that ended have 150, some of an earlier step."""
    partial = {**ROW, "rounds": 2, "tokens_sampled": 50, "tokens_decoded": 140}
    figures = of_run(partial, {**partial, "tokens_sampled": 100, "tokens_decoded": 100})
    assert figures.tokens.sampled == 240
    assert figures.rates.tokens_per_second_rollout == 60
    assert figures.rates.signal_share == pytest.approx(80 / 240)


def test_a_run_is_one_row():
    row = of_run(ROW).row
    assert list(row)[:5] == [
        "tokens_sampled",
        "tokens_scored",
        "tokens_updated",
        "tokens_with_signal",
        "seconds_step",
    ]
    assert (row["seconds_sync"], row["goodput"], row["mismatch_max"]) == (1.0, 8.0, 0.01)


@pytest.mark.parametrize("preset", ["dapo", "ppo", "raft"])
def test_what_the_filter_drops_is_no_signal(preset):
    algo = ALGORITHMS[preset].model_copy(update={"filter": Mixed()})
    batch = GroupBatch(1, algo, [])
    alike = made_group("a", RIGHT, RIGHT, n_tokens=10), made_group("b", WRONG, WRONG, n_tokens=10)
    batch.add([*alike, made_group("c", RIGHT, WRONG, n_tokens=7)])
    use, _ = step_throughput(100, 30, Seconds(), batch, 10, [], random_model())
    assert use.tokens_with_signal == (7 if preset == "raft" else 14)


def test_the_largest_of_a_run_count():
    rows = [{**ROW, "mismatch": m, "memory_peak_gib": g} for m, g in ((0.1, 3), (0.3, 2), (0.2, 1))]
    figures = of_run(*rows)
    assert (figures.mismatch_max, figures.memory_peak_gib) == (0.3, 3)


SAMPLED = [
    made_group("a", RIGHT, WRONG, LATE, n_tokens=10),
    made_group("b", RIGHT, RIGHT, n_tokens=5),
]
"""30 and 10 tokens after prompts of 3; those of right and wrong ones in a group are 20."""
LENGTHS = [(3, 10), (3, 10)]
"""Of the passes of an epoch, of which there are two."""
SECONDS = Seconds(rollout=1e3, update=5e2, logprobs=10.0, step=1510.0)


def measured(
    algo: str = "grpo", seconds=SECONDS, sampled=SAMPLED, lengths=2 * LENGTHS
) -> tuple[TokenUse, Rates]:
    batch = GroupBatch(0, ALGORITHMS[algo], [], sampled)
    return step_throughput(50, 7, seconds, batch, 10, lengths, random_model())


@pytest.mark.parametrize(("algo", "expected"), [("grpo", 20), ("ppo", 30)])
def test_the_tokens_that_give_a_signal(algo, expected):
    use, rates = measured(algo)
    assert use.tokens_with_signal == expected
    assert rates.goodput == expected / 1510
    assert rates.signal_share == expected / 50
    none, _ = measured(algo, SECONDS, SAMPLED[1:], [])
    assert none.tokens_with_signal == 0


def test_responses_of_the_rows_took_no_time_to_sample():
    use, rates = measured("sft", replace(SECONDS, rollout=None))
    assert rates.tokens_per_second_rollout is None
    assert use.tokens_with_signal == 40  # whatever the verdicts


def test_a_step_by_hand(monkeypatch):
    use, rates = measured()
    assert use.tokens_updated == 40
    assert rates.tokens_per_second_rollout == 0.05
    assert rates.tokens_per_second_update == 0.08
    assert rates.tokens_per_second_logprobs == 0.7
    assert rates.tokens_per_second_verification is None
    assert use.mfu is None  # a CPU has no data sheet here
    monkeypatch.setattr(module, "peak_flops", lambda name: 1e6)
    flops = 2 * update_flops(random_model(), LENGTHS)
    assert measured()[0].mfu == pytest.approx(flops / 5e8)
    # PPO's critic has a body of its own and, but for a vector, no output layer.
    model = random_model()
    tokens = sum(length for _, length in LENGTHS)
    of_heads = 6 * model.get_output_embeddings().weight.numel() * tokens
    both = 2 * (2 * update_flops(model, LENGTHS) - of_heads)
    assert measured("ppo")[0].mfu == pytest.approx(both / 5e8)


@pytest.mark.parametrize(("family", "tied"), [("qwen2-tied", True), ("qwen2-untied", False)])
def test_the_operations_of_an_update_by_hand(family, tied):
    model = random_model(family)  # width 32, 50 ids, 2 layers of 4 heads of 8
    head = 50 * 32
    body = model.num_parameters() - head * (1 if tied else 2)
    by_hand = 6 * body * (7 + 5) + 6 * head * (4 + 2) + 6 * 2 * 4 * 8 * (49 + 25)
    assert update_flops(model, [(3, 4), (3, 2)]) == by_hand
    assert update_flops(model, []) == 0


def test_frozen_weights_cost_two_thirds_and_an_adapter_its_own():
    """No gradient of their own: 2 forward and 2 back to their inputs a parameter and token."""
    model = random_model("qwen2-untied")
    head = 50 * 32
    body = model.num_parameters() - 2 * head
    add_adapter(model, 2, 4, "all-linear", seed=0)
    adapter = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert adapter > 0
    by_hand = (4 * body + 6 * adapter) * 7 + 4 * head * 4 + 6 * 2 * 4 * 8 * 49
    assert update_flops(model, [(3, 4)]) == by_hand


@quantizes
def test_weights_in_four_bits_are_operations_too():
    """They are no parameters, and the products are those of the frozen weights."""
    model = random_model("qwen2-untied")
    add_adapter(model, 2, 4, "all-linear", seed=0)
    four_bits = random_model("qwen2-untied")
    quantize(four_bits)
    add_adapter(four_bits, 2, 4, "all-linear", seed=0)
    assert update_flops(four_bits, LENGTHS) == update_flops(model, LENGTHS)


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA L40", None),
        ("NVIDIA H100 NVL", None),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("", None),
    ],
)
def test_a_gpu_counts_by_its_whole_name(name, peak):
    assert peak_flops(name) == peak
