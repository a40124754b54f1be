"""Predicted memory: against what a small update allocates, and by hand for models of a GPU."""

import json
import math
import re
import sys
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import memory as table  # benchmarks/memory.py
import pytest
import torch
from conftest import quantizes
from small_models import random_model

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.text import GIB
from rlvr_cli.model.policy import decoder_layers
from rlvr_cli.model.quantized import quantized_numbers
from rlvr_cli.ranks import group
from rlvr_cli.setup import memory
from rlvr_cli.setup.machine import Machine
from rlvr_cli.setup.memory import (
    Memory,
    Need,
    Shapes,
    decoded_row,
    read_shapes,
    stored_graph,
    update_stages,
)

CPU = Machine("cpu", 1 << 50, 1 << 50)
H100 = Machine("cuda", int(79.2 * GIB), int(79.2 * GIB))


def settings(*values: str):
    return resolve(set_layer(values))


# Small models, whose allocations are counted.


def size_of(tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def stored_by(layer: torch.nn.Module) -> list[dict[int, int]]:
    """Let the layer note what autograd stores of each of its passes: bytes by storage."""
    passes = []
    weights = {weight.untyped_storage().data_ptr() for weight in layer.parameters()}
    forward = layer.forward

    def noting(*args, **kwargs):
        stored = {}
        passes.append(stored)

        def note(tensor):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in weights:
                stored[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            return forward(*args, **kwargs)

    layer.forward = noting
    return passes


BITS_8 = ("optim.moments=8bit",)
BITS_4 = ("lora.rank=2", "lora.base=nf4")


@pytest.mark.parametrize(
    ("name", "more"),
    [
        *product(("2M", "8M"), ((), ("lora.rank=32",), ("lora.rank=2",))),
        *(pytest.param("2M", more, marks=quantizes) for more in (BITS_8, BITS_4)),
        *(
            pytest.param("8M", more, marks=[quantizes, pytest.mark.slow])
            for more in (BITS_8, BITS_4)
        ),
    ],
)
def test_an_update_allocates_what_is_predicted(name, more):
    """Weights, moments and gradients to the byte, and what a layer stores within a tenth."""
    tokens = 512
    config = table.settled(more, tokens)
    updater, samples = table.prepared(name, more, tokens)
    model = updater.policy.model
    shapes = read_shapes(table.shaped(name, "meta"))
    passes = stored_by(decoder_layers(model)[1])
    updater.update(samples, 1, 0)

    always = Memory(shapes, CPU).needed(config).always
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    base = [p for key, p in model.named_parameters() if "lora_" not in key]
    adapter = [p for key, p in model.named_parameters() if "lora_" in key]
    assert always["weights"] == size_of([*base, *quantized_numbers(model)])
    assert always.get("adapter", 0) == size_of(adapter)
    moments = [
        value
        for state in updater.optimizer.state.values()
        for value in state.values()
        if torch.is_tensor(value) and value.numel() > 1
    ]
    stages = update_stages(shapes, config, "cpu")["step of the optimizer"]
    assert stages["gradients"] == size_of(trained)
    if config.optim.moments == "8bit":
        assert always["AdamW"] == pytest.approx(size_of(moments), rel=0.05)  # rows are short
        assert stages["AdamW in float32"] == 8 * 4 * shapes.largest
    else:
        assert always["AdamW"] == size_of(moments) == 2 * size_of(trained)
        assert stages["AdamW in float32"] == 0
    assert len(passes) == 2
    stored = stored_graph(shapes, config).stored / shapes.layers
    for found in passes:
        assert stored == pytest.approx(sum(found.values()), rel=0.1)


def test_a_response_has_the_keys_and_values_that_are_predicted():
    model = random_model()
    config = settings("rollout.max_tokens=12", "rollout.precision=float32")
    cache = model(torch.arange(2, 14)[None], use_cache=True).past_key_values
    tensors = [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]
    assert decoded_row(read_shapes(model), config).cache == size_of(tensors)


@pytest.mark.slow
def test_prediction_and_resident_memory_agree_at_three_sizes():
    cells = [("2M", "full"), ("8M", "full, computed again"), ("30M", "lora")]
    command = [sys.executable, table.__file__, "--tokens", "512", "--cell", json.dumps(cells)]
    peaks = [int(line) for line in table.run(command).splitlines()]
    needs = [table.predicted(name, table.SETTINGS[setting], 512) for name, setting in cells]
    assert needs == pytest.approx(peaks, rel=0.15)


# One model by hand: 1 layer of width 4, of which everything can be added up.

TINY = Shapes(
    parameters=1000,
    layers=1,
    hidden=4,
    inner=6,
    attention=memory.AttentionSizes(heads=2, kv_heads=1, head_dim=3),
    vocabulary=20,
    output_layer=80,
    outside_layers=80,  # the output layer is the embedding
    largest=300,
    linear_widths={"layers.0.q_proj": 10, "layers.0.k_proj": 7, "layers.0.down_proj": 10},
    can_recompute=True,
)
STEP = ("rollout.prompts=2", "rollout.samples=4", "rollout.max_tokens=8", "rollout.kv_budget_mb=3")
FLOAT = ("optim.weights=float32", "optim.precision=float32", "rollout.precision=float32")
HALVES = ("optim.weights=bfloat16", "optim.precision=bfloat16", "rollout.precision=bfloat16")
FIXED = ("engine=transformers", "optim.micro_tokens=10", "optim.checkpointing=off", *STEP)


def needed(*values: str, machine: Machine = CPU) -> Need:
    return Memory(TINY, machine).needed(settings(*FIXED, *values))


def test_each_part_by_hand():
    width = 7 * 4 + 4 * (2 * 3) + 4 * 6
    need = needed("algo=dapo", *FLOAT)
    assert need == Need(
        always={
            "weights": 4 * 1000,
            "responses of a step": 100 * 2 * 4 * 8,
            "AdamW": 2 * 4 * 1000,
        },
        # Of the 3 MiB that are set, what 320 problems x 4 responses of the measurement have.
        sampling={"keys and values": 1280 * 8 * 2 * 3 * 4},
        updating={
            "gradients": 4 * 1000,
            "forward and backward": 4 * 10 * width,
            "logits": 5 * 4 * 20 * 10,
            "gradients of the output layer": 2 * 4 * 80,
        },
    )
    assert need.peak == 12_000 + 6400 + 245_760
    few = needed("algo=dapo", "eval.limit=1", *FLOAT)
    assert few.sampling == {"keys and values": 2 * 4 * 8 * 2 * 3 * 4}  # of a step
    little = needed("algo=dapo", "rollout.max_tokens=8000", *FLOAT)
    assert little.sampling == {"keys and values": 3 << 20}
    assert need.resident == 16_000 + 6400

    # A critic of its own is a second model, and a KL loss needs a reference.
    ppo = needed("algo=ppo", *FLOAT)
    assert ppo.always["AdamW"] == 2 * 2 * 4 * 1000
    assert ppo.always["critic"] == ppo.always["reference policy"] == 4000
    assert ppo.updating["gradients"] == 2 * 4000
    shared = needed("algo=ppo", "algorithm.advantage.critic=shared", *FLOAT)
    assert shared.updating == need.updating

    # With FSDP2 the engine has a copy, and gradients wait in float32. Most is needed in a layer:
    # the sums of its gradients take more than the logits before it.
    halves = needed("algo=dapo", *HALVES)
    assert halves.always == {
        "the engine's weights": 2 * 1000,
        "weights": 2 * 1000,
        "responses of a step": 6400,
        "AdamW": 2 * 2 * 1000,
    }
    assert halves.updating == {
        "gradients": 4 * 1000,
        "gathered weights": 2 * (80 + 2 * 920),
        "forward and backward": 2 * 10 * width,
        "sums of gradients": 3 * 4 * 920 + 2 * 80,
    }

    # An adapter's numbers: rank 2 on q and k; its norms are frozen.
    lora = needed("algo=grpo", "lora.rank=2", "lora.targets=[q_proj,k_proj]", *FLOAT)
    assert lora.always["adapter"] == 4 * 2 * (10 + 7)
    assert lora.always["AdamW"] == 2 * 4 * 2 * (10 + 7)
    assert "reference policy" not in lora.always  # the base model is the reference
    assert lora.updating["gradients"] == 4 * 2 * (10 + 7)
    assert lora.updating["forward and backward"] == 4 * 10 * (width + 7 * 2 - 2 * 4)

    offloaded = needed("optim.offload=all", *FLOAT, machine=Machine("cuda", 0, 0))
    assert offloaded.always == {"context": GIB, "the engine's weights": 4000}
    assert "gradients" not in offloaded.updating


def test_a_base_in_nf4_by_hand(monkeypatch):
    """600 of 1000 weights take half a byte each, and 64 of them share a scale of 4 bytes. An engine
    holds 1000 dequantized ones if they fit, else the 400 others."""
    model = replace(TINY, quantizable=600, largest_quantizable=200)
    config = settings(*FIXED, *FLOAT, "algo=dapo", "lora.rank=2", "lora.base=nf4")
    need = Memory(model, CPU).needed(config)
    assert need.always["weights"] == 4 * 400 + 600 // 2 + 4 * 600 // 64
    assert need.always["the engine's weights"] == 4 * 1000
    stages = update_stages(model, config, "cpu")
    assert stages["backward through the last layer"]["a dequantized weight"] == 4 * 200
    small = Machine("cpu", need.peak - 1, need.peak - 1)
    assert Memory(model, small).needed(config).always["the engine's weights"] == 4 * 400
    for module in (memory, group):
        monkeypatch.setattr(module, "world", lambda: 4)
    # A process has a quarter of the others, and all of the codes.
    quarter = Memory(model, CPU).needed(config)
    assert quarter.always["weights"] == 400 + 600 // 2 + 4 * 600 // 64


def test_layers_that_are_computed_again_store_their_inputs():
    config = settings(*FIXED, *FLOAT, "optim.checkpointing=on", "rollout.max_tokens=30")
    deep = replace(TINY, layers=5)
    graph = stored_graph(deep, config)
    assert graph.stored == 4 * 30 * 5 * 4  # a response that is longer than a pass is one
    assert graph.recomputed == 4 * 30 * (7 * 4 + 4 * 6 + 4 * 6)


def test_of_four_processes_each_needs_a_quarter_and_the_gathered_weights(monkeypatch):
    alone = needed("algo=ppo", *FLOAT)
    for module in (memory, group):
        monkeypatch.setattr(module, "world", lambda: 4)
    quarter = needed("algo=ppo", *FLOAT)
    for part in ("weights", "AdamW", "critic"):
        assert quarter.always[part] == alone.always[part] // 4
    assert quarter.updating["gradients"] == alone.updating["gradients"]
    assert quarter.always["the engine's weights"] == alone.always["weights"]


def test_vllm_on_a_cpu_never_sleeps():
    plain = needed("algo=dapo", *FLOAT)
    with_vllm = needed("algo=dapo", "engine=vllm", *FLOAT)
    assert with_vllm == Need({**plain.always, "vLLM": 4000 + (3 << 20)}, {}, plain.updating)


def test_an_evaluation_needs_weights_and_keys_alone():
    evaluation = Memory(TINY, CPU, training=False)
    config = settings(*FIXED, *FLOAT)
    assert evaluation.needed(config) == Need(
        {"weights": 4000}, {"keys and values": 3 << 20}, updating={}
    )
    assert [text for text, _ in evaluation.smaller(config)] == ["--set rollout.kv_budget_mb=1"]


def test_the_sizes_of_a_model():
    model = random_model()
    shapes = read_shapes(model)
    assert shapes.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert shapes.outside_layers == shapes.output_layer == shapes.largest == 50 * 32  # tied
    assert (shapes.layers, shapes.hidden, shapes.inner, shapes.vocabulary) == (2, 32, 48, 50)
    assert len(shapes.linear_widths) == 2 * 7
    untied = read_shapes(random_model("qwen2-untied"))
    assert untied.outside_layers == 2 * untied.output_layer


def test_sizes_that_a_model_does_not_name():
    layer = torch.nn.Linear(32, 50, bias=False)
    layer.num_parameters = layer.weight.numel
    layer.get_output_embeddings = layer.get_input_embeddings = lambda: layer
    config = SimpleNamespace(hidden_size=32, num_attention_heads=4, num_hidden_layers=3)
    layer.config = SimpleNamespace(get_text_config=lambda: config)
    shapes = read_shapes(layer)
    assert (shapes.inner, shapes.attention.head_dim) == (4 * 32, 32 // 4)
    assert not shapes.can_recompute
    config.intermediate_size, config.head_dim = 5, 6
    shapes = read_shapes(layer)
    assert (shapes.inner, shapes.attention.head_dim) == (5, 6)


# What is decided for a GPU: Qwen2.5 on an H100, of which 79.2 GiB are free.

QWEN = {name: read_shapes(table.shaped(name, "meta")) for name in ("1.5B", "3B", "7B")}
COUNTS = {"1.5B": 1_543_714_304, "3B": 3_085_938_688, "7B": 7_615_616_512}
ON_GPU = (
    *("engine=vllm", "rollout.precision=bfloat16", "optim.precision=bfloat16"),
    *("rollout.prompts=32", "rollout.samples=8", "rollout.max_tokens=1024"),
    "optim.micro_tokens=8192",
)
LORA = ("lora.rank=32", "optim.weights=bfloat16")


@pytest.mark.parametrize(
    ("name", "more", "always_gib", "share"),
    [
        # 12 bytes: weights 4, moments 8. 12 x 1.5437e9 / 2^30 = 17.3, and 2 GiB of context and
        # graphs; vLLM's half of the card is 39.6: together 58.9 of 79.2.
        ("1.5B", ("algo=dapo",), 19.3, 0.5),
        # A reference: 4 bytes more. 46.0 + 2 + 39.6 = 87.6, so vLLM would not wake up.
        # (79.2 - 48.0) / 79.2 = 0.394.
        ("3B", ("algo=grpo",), 48.0, 0.39),
        # A critic of its own: 12 more. (79.2 - 42.3) / 79.2 = 0.466.
        ("1.5B", ("algo=ppo",), 42.3, 0.46),
        # 14.2 of weights; 12 bytes of each of the adapter's 80.7e6 parameters: 0.9.
        ("7B", ("algo=dapo", *LORA), 17.1, 0.5),
        # A teacher in the type of the weights: 17.3 + 28.4 + 2. (79.2 - 47.6) / 79.2 = 0.398.
        ("1.5B", ("algo=opd", "teacher=7B"), 47.6, 0.39),
    ],
)
def test_vllm_wakes_up_beside_what_stays_after_an_update(name, more, always_gib, share):
    config = settings(*ON_GPU, *more)
    assert QWEN[name].parameters == COUNTS[name]
    model = Memory(QWEN[name], H100, teacher=QWEN["7B"] if config.teacher else None)
    fitted = model.fitted(config)
    need = model.needed(fitted)
    always = sum(need.always.values())
    assert always / GIB == pytest.approx(always_gib, abs=0.05)
    assert fitted.rollout.gpu_share == share
    assert need.sampling == {"vLLM": int(share * H100.total)}
    assert need.phases["to sample"] <= H100.free
    as_set = model.needed(config).phases["to sample"]
    assert (as_set <= H100.free) == (share == 0.5)  # made smaller only where it has to be


def test_ppos_update_on_a_gpu_by_hand():
    """Policy and critic have a graph each, and the head takes a chunk of 1,024 rows."""
    model = Memory(QWEN["1.5B"], H100)
    config = settings(*ON_GPU, "algo=ppo")
    plain = model.needed(config)
    width = 7 * 1536 + 4 * 12 * 128 + 4 * 8960
    assert plain.updating["gradients"] == 2 * 4 * COUNTS["1.5B"]  # 11.5 GiB
    assert plain.updating["forward and backward"] == 2 * 28 * 2 * width * 8192  # 45.1 GiB
    assert 99 < plain.phases["to update"] / GIB < 105  # with 42.3 always: more than 79.2
    assert model.fitted(config).optim.checkpointing == "on"
    # Without a critic it fits. Weights that are rounded to compute stay gathered in between.
    config = model.fitted(settings(*ON_GPU, "algo=dapo", "optim.weights=float32"))
    assert config.optim.checkpointing == "off"
    assert model.needed(config).updating["gathered weights"] == 2 * COUNTS["1.5B"]


@pytest.mark.parametrize(
    ("name", "algo", "shortage"),
    [
        # 28 x 3.086e9 / 2^30 = 80.5, and 2: no share is small enough.
        ("3B", "ppo", r"about 11\d\.\d GiB are needed to update and 79\.2 GiB are free"),
        # 12 x 7.6156e9 / 2^30 = 85.1, and 2.
        ("7B", "dapo", r"about 126\.0 GiB are needed to update and 79\.2 GiB are free"),
    ],
)
def test_what_fits_no_share_is_short(name, algo, shortage):
    model = Memory(QWEN[name], H100)
    config = model.fitted(settings(*ON_GPU, f"algo={algo}"))
    need = model.needed(config)
    assert need.resident > H100.free
    assert config.optim.checkpointing == "on"
    assert re.fullmatch(shortage, need.shortage(H100.free))


def test_a_share_too_small_for_a_batch_is_for_the_user_to_take():
    """grpo 3B, a token of 36 layers x 2 (k, v) x 2 heads x 128 x 2 bytes: 36,864 bytes."""
    busy = Machine("cuda", H100.total, int(62 * GIB))  # 62 - 46.0 - 2 = 14.0 remain
    model = Memory(QWEN["3B"], busy)
    # 5.75 of weights, 1 of workspace, and of 1,024 x 36,864 bytes a response 7.0: 13.8.
    config = model.fitted(settings(*ON_GPU, "algo=grpo", "rollout.prompts=4", "rollout.samples=50"))
    assert config.rollout.gpu_share == 0.17  # 14.0 / 79.2
    assert model.needed(config).resident <= busy.free
    # 256 responses need 9.0: 15.7.
    config = model.fitted(settings(*ON_GPU, "algo=grpo"))
    assert config.rollout.gpu_share == 0.19  # 15.7 / 79.2
    assert model.needed(config).resident > busy.free
    flags, _ = next(model.smaller(config))
    assert flags == "--set rollout.gpu_share=0.17"
    # It starts with it, but does not update: 46 + 2 + 11.5 of gradients are 59.5 of 62.
    assert model.advice(config).startswith("--set optim.moments=8bit (")
    # However long the batch, half of the share that is set is enough.
    long = settings(*ON_GPU, "algo=grpo", "rollout.max_tokens=16384")
    assert Memory(QWEN["3B"], H100).fitted(long).rollout.gpu_share == 0.39


def test_keys_and_values_get_what_the_card_has_left():
    """dapo 1.5B: 14 bytes a parameter with the engine's, and 1 GiB: 21.1 of 79.2."""
    row, logits = 28 * 2 * 2 * 128 * 2 * 1024, 16 * 151_936  # bytes of a response

    def fitted(machine, *more, training=True):
        model = Memory(QWEN["1.5B"], machine, training)
        config = model.fitted(settings(*ON_GPU[1:], "engine=transformers", "algo=dapo", *more))
        return config.rollout.kv_budget_mb, model.needed(config)

    def budget(gib):
        return int(gib * 1024 * row / (row + logits))

    half, need = fitted(H100, "eval.samples=5")
    assert half == budget(0.5 * 79.2) == 37_449
    assert (half << 20) // row == 1337  # and 32 x 8 responses in one batch
    assert sum(need.always.values()) == 14 * COUNTS["1.5B"] + GIB
    assert need.sampling == {"keys and values": half << 20, "logits": 1337 * logits}
    busy = Machine("cuda", H100.total, int(41.2 * GIB))
    beside = 14 * COUNTS["1.5B"] / GIB + 1 + 1  # the context, and a workspace
    assert fitted(busy)[0] == budget(int(41.2 * GIB) / GIB - beside)
    assert fitted(H100, "rollout.gpu_share=0.1")[0] == budget(0.1 * 79.2)
    assert fitted(H100, "rollout.kv_budget_mb=512")[0] == 512  # as set
    assert fitted(H100, training=False)[0] == budget(0.9 * 79.2)
    assert fitted(Machine("cuda", H100.total, 2 * GIB))[0] == 1  # one row is decoded at least
    assert fitted(CPU)[0] == 1024


def test_an_evaluation_gives_vllm_the_card():
    """7B: 15.2 GB of weights in vLLM, and none beside it."""
    config = settings(*ON_GPU[:2], "rollout.max_tokens=1024")
    set_share = settings(*ON_GPU[:2], "rollout.gpu_share=0.4")
    evaluation = Memory(QWEN["7B"], H100, training=False)
    assert evaluation.fitted(config).rollout.gpu_share == 0.9
    assert evaluation.fitted(set_share).rollout.gpu_share == 0.4
    l4 = Machine("cuda", int(22.2 * GIB), int(21.8 * GIB))
    small = Memory(QWEN["7B"], l4, training=False)
    fitted = small.fitted(config)
    assert fitted.rollout.gpu_share == math.floor(100 * (21.8 - 2) / 22.2) / 100 == 0.89
    assert small.needed(fitted) == Need(
        {"graphs and context": 2 * GIB}, {"vLLM": int(0.89 * l4.total)}, updating={}
    )
    busy = Machine("cuda", l4.total, int(16 * GIB))  # weights 14.2, workspace 1, context 2
    short = Memory(QWEN["7B"], busy, training=False)
    need = short.needed(short.fitted(config))
    assert need.resident > busy.free
    assert need.shortage(busy.free).endswith("are needed to sample and 16.0 GiB are free")


def test_what_needs_less_is_named_cheapest_first_unless_it_is_set():
    small = ("optim.micro_tokens=3", "rollout.kv_budget_mb=1")
    config = settings(*FIXED, *HALVES, *small, "optim.moments=8bit")
    assert [text for text, _ in Memory(TINY, CPU).smaller(config)] == [
        "--set optim.checkpointing=on",
        "--set optim.micro_tokens=1",
        "--lora 32",
        "--set optim.checkpointing=on --set optim.micro_tokens=1",
        "--set optim.checkpointing=on --lora 32",
        "--set optim.micro_tokens=1 --lora 32",
        "--set optim.checkpointing=on --set optim.micro_tokens=1 --lora 32",
    ]
    *_, (last, changed) = Memory(TINY, H100).smaller(config)
    assert last.endswith("--lora 32 --set optim.offload=all")
    assert (changed.optim.offload, changed.optim.micro_tokens) == ("all", 1)
    assert (changed.lora.rank, changed.rollout.kv_budget_mb) == (32, 1)
    halves = [half.replace("bfloat16", "float16") for half in HALVES[1:]]
    assert needed(*halves) == needed(*HALVES[1:]) != needed(*FLOAT)
    in_float16 = settings(*FIXED, *halves)
    for machine in (CPU, H100):  # whose weights in bfloat16 would be computed with in bfloat16
        assert "bfloat16" not in str(
            [text for text, _ in Memory(TINY, machine).smaller(in_float16)]
        )
    fixed = Memory(replace(TINY, can_recompute=False), CPU)
    assert next(text for text, _ in fixed.smaller(config)) == "--set optim.micro_tokens=1"
    larger = settings(*FIXED, *FLOAT, "rollout.max_tokens=8000")
    *_, last = (text for text, _ in Memory(TINY, CPU).smaller(larger))
    assert last.split("--")[1:] == [
        "set optim.checkpointing=on ",
        "set optim.micro_tokens=2 ",
        "set rollout.kv_budget_mb=1 ",
        "set optim.moments=8bit ",
        "set optim.weights=bfloat16 ",
        "lora 32",
    ]
