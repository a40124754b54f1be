"""Memory that a command needs, by hand, and what the machine says is free."""

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import memory as table  # benchmarks/memory.py
import pytest
import torch
from conftest import random_model
from small_trainer import has_even, make_trainer

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.text import GIB
from rlvr_cli.setup import memory, plan
from rlvr_cli.setup.memory import (
    Machine,
    Memory,
    Need,
    host_memory,
    this_machine,
)

CPU = Machine("cpu", 1 << 50, 1 << 50)


def test_memory_by_hand():
    trainer = make_trainer(has_even, "algo=ppo", "rollout.kv_budget_mb=3")
    model, config = trainer.session.policy.model, trainer.config
    needed = Memory(model, CPU).needed(config)
    weights = 4 * sum(parameter.numel() for parameter in model.parameters())
    assert needed.always["weights"] == weights
    assert needed.always["AdamW"] == 2 * 2 * weights  # policy and critic
    assert needed.always["reference policy"] == weights
    assert needed.always["critic"] == weights
    assert needed.sampling == {"keys and values": 3 << 20}
    assert needed.updating["gradients"] == 2 * weights
    assert "the engine's weights" not in needed.always
    rollout = config.rollout
    responses = rollout.prompts * rollout.samples
    assert needed.always["responses of a step"] == 100 * responses * rollout.max_tokens
    # vLLM on a CPU has weights in float32, keys and values beside the trainer's, and never sleeps.
    with_vllm = Memory(model, CPU).needed(config.model_copy(update={"engine": "vllm"}))
    assert with_vllm == Need({"vLLM": weights + (3 << 20)} | needed.always, {}, needed.updating)


@pytest.mark.parametrize("more", [(), ("lora.rank=2",)])
def test_a_teacher_takes_the_room_of_its_own_weights(more):
    config = resolve(set_layer([*FIXED, "algo=opd", "teacher=other", *more]))
    model, teacher = random_model(), random_model("gemma2")
    count = sum(parameter.numel() for parameter in teacher.parameters())
    needed = Memory(model, CPU, teacher=teacher).needed(config)
    assert needed.always["reference policy"] == 4 * count


def test_an_evaluation_needs_weights_and_keys_alone():
    model, config = random_model(), resolve(set_layer([*FIXED, "optim.precision=auto"]))
    count = sum(parameter.numel() for parameter in model.parameters())
    keys = {"keys and values": 3 << 20}
    assert Memory(model, CPU, training=False).needed(config) == Need(
        {"weights": 4 * count}, keys, {}
    )
    assert [text for text, _ in Memory(model, CPU, training=False).smaller(config)] == [
        "--set rollout.kv_budget_mb=1"
    ]


def test_memory_of_other_settings_by_hand():
    fixed = ("algo=grpo", "rollout.kv_budget_mb=3", "optim.micro_tokens=1024")
    trainer = make_trainer(has_even, *fixed)
    model, config = trainer.session.policy.model, trainer.config
    weights = sum(parameter.numel() for parameter in model.parameters())
    host = Memory(model, CPU)
    plain = host.needed(config)
    adapter = 2 * 32 * (2 * (32 + 32) + 2 * (32 + 16) + 3 * (32 + 48))
    ways = {
        text.split()[-1]: (changed, text) for text, changed in Memory(model, CPU).smaller(config)
    }
    assert list(ways) == [
        "optim.checkpointing=on",
        "optim.micro_tokens=256",
        "rollout.kv_budget_mb=1",
        "optim.weights=bfloat16",
        "32",
    ]
    needs = [Memory(model, CPU).needed(changed) for changed, _ in ways.values()]
    assert needs[0].updating["forward and backward"] < plain.updating["forward and backward"] / 1.5
    assert needs[3].always["AdamW"] == 2 * 2 * weights
    assert needs[4].always["AdamW"] == 2 * 4 * adapter
    assert needs[4].updating["gradients"] == 4 * adapter
    assert "reference policy" not in needs[4].always
    assert ways["32"][1].endswith("--set optim.weights=bfloat16 --lora 32")


FILES = {
    "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   5 kB\n",
    "/sys/fs/cgroup/memory.max": "9000\n",
    "/sys/fs/cgroup/memory.current": "8000\n",
}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, 1000),
        ({"/sys/fs/cgroup/memory.max": "max\n"}, 5120),
        ({"/sys/fs/cgroup/memory.max": None}, 5120),
        ({"/sys/fs/cgroup/memory.current": "100"}, 5120),
        ({"/proc/meminfo": "MemTotal: 9 kB\n"}, 1000),
    ],
)
def test_the_tighter_of_machine_and_container_counts(monkeypatch, changed, expected):
    files = FILES | changed

    def read(path, encoding=None):
        if files.get(str(path)) is None:
            raise FileNotFoundError(path)
        return files[str(path)]

    monkeypatch.setattr(memory, "Path", type("Read", (type(Path()),), {"read_text": read}))
    assert host_memory() == expected


def test_without_any_word_of_the_system_all_of_its_memory_counts(monkeypatch):
    def read(path, encoding=None):
        raise OSError

    monkeypatch.setattr(memory, "Path", type("Read", (type(Path()),), {"read_text": read}))
    monkeypatch.setattr(memory.os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10}.get)
    assert host_memory() == 40_960


def test_of_several_processes_the_least_memory_counts(monkeypatch):
    monkeypatch.setattr(memory, "default_device", lambda: "cuda")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (700, 1000))
    assert this_machine() == Machine("cuda", total=1000, free=700)
    monkeypatch.setattr(memory, "gather", lambda own: [own, [2000, 500], [900, 800]])
    assert this_machine() == Machine("cuda", total=900, free=500)
    monkeypatch.undo()
    monkeypatch.setattr(memory, "host_memory", lambda: 800)
    monkeypatch.setattr(memory, "local_world", lambda: 4)
    assert this_machine() == Machine("cpu", total=200, free=200)


SIZES = ("rollout.prompts=2", "rollout.samples=4", "rollout.max_tokens=8", "rollout.kv_budget_mb=3")
FIXED = (*SIZES, "optim.micro_tokens=1000", "optim.precision=float32", "optim.checkpointing=off")
RESPONSES, LOGITS, HEAD = 100 * 2 * 4 * 8, 5 * 4 * 50 * 1000, 50 * 32
LAYER = 7 * 32 + 4 * (4 * 8) + 4 * 48


def need(*settings: str, machine: Machine = CPU, model=None) -> Need:
    return Memory(model or random_model(), machine).needed(resolve(set_layer([*FIXED, *settings])))


def test_each_part_of_the_memory_by_hand():
    count = sum(parameter.numel() for parameter in random_model().parameters())
    outside = 50 * 32  # the output layer is the embedding
    layer = (count - outside) // 2
    plain = need("algo=dapo")
    assert plain == Need(
        {"weights": 4 * count, "responses of a step": RESPONSES, "AdamW": 8 * count},
        {"keys and values": 3 << 20},
        {
            "gradients": 4 * count,
            "forward and backward": 4 * 2 * LAYER * 1000,
            "logits": LOGITS,
            "gradients of the output layer": 2 * 4 * HEAD,
        },
    )
    assert plain.resident == 16 * count + RESPONSES
    assert plain.peak == 12 * count + RESPONSES + max(3 << 20, sum(plain.updating.values()))
    assert need("rollout.kv_budget_mb=30").peak == 12 * count + RESPONSES + (30 << 20)
    # A response that is longer than a pass is a pass of its own.
    longer = need("rollout.max_tokens=3000").updating
    assert longer["forward and backward"] == 3 * plain.updating["forward and backward"]
    bf16 = ("optim.weights=bfloat16", "optim.precision=bfloat16", "rollout.precision=bfloat16")
    half = need(*bf16)
    assert half.always == {
        **plain.always,
        "weights": 2 * count,
        "AdamW": 4 * count,
        "the engine's weights": 2 * count,  # put together for the engine
    }
    assert half.updating == {
        "gradients": 4 * count,  # shared out they are whole, in float32
        "weights put together": 2 * outside,
        "forward and backward": 2 * 2 * LAYER * 1000,
        "logits": LOGITS,
        "gradients of the output layer": 2 * 4 * HEAD,
    }
    # Computed again, the layers take more together than the logits before them.
    again = need("optim.checkpointing=on").updating
    assert again["forward and backward"] == 4 * (2 * 32 + LAYER) * 1000
    assert "logits" not in again
    with_critic = need("algo=ppo").updating
    assert with_critic["forward and backward"] == 2 * 4 * 2 * LAYER * 1000  # both graphs
    shared = need("algo=ppo", "algorithm.advantage.critic=shared").updating
    assert shared == plain.updating
    gpu = need("optim.offload=all", machine=Machine("cuda", 0, 0))
    assert gpu.always == {"context": GIB, "the engine's weights": 4 * count}
    assert "gradients" not in gpu.updating
    few = need("optim.precision=bfloat16", "optim.micro_tokens=8").updating
    assert few == {
        "gradients": 4 * count,
        "weights put together": 2 * (outside + 2 * layer),
        "forward and backward": 2 * 2 * LAYER * 8,
        "sums of gradients": 3 * 4 * layer + 2 * HEAD,
    }


QWEN = {name: table.shaped(name, "meta") for name in ("1.5B", "3B", "7B")}
COUNTS = {"1.5B": 1_543_714_304, "3B": 3_085_938_688, "7B": 7_615_616_512}
H100 = Machine("cuda", int(79.2 * GIB), int(79.2 * GIB))
ON_GPU = (
    *("engine=vllm", "rollout.precision=bfloat16", "optim.precision=bfloat16"),
    *("rollout.prompts=32", "rollout.samples=8", "rollout.max_tokens=1024"),
    "optim.micro_tokens=8192",
)
LORA = ("lora.rank=32", "optim.weights=bfloat16")
OF_LAYER = 2 * (3584 + 3584) + 2 * (3584 + 512) + 3 * (3584 + 18_944)
ADAPTER = 28 * 32 * OF_LAYER
"""Numbers of the 7B's adapter: q and o, k and v, gate and up and down, of rank 32."""


@pytest.mark.parametrize(
    ("shape", "settings", "bytes_a_parameter", "share"),
    [
        # 12 bytes: weights 4, moments 8. 12 x 1.5437e9 / 2^30 = 17.3, and 2 GiB of context and
        # graphs; vLLM's half of the card is 39.6: together 58.9 of 79.2.
        ("1.5B", ("algo=dapo",), 12, 0.5),
        ("3B", ("algo=dapo",), 12, 0.5),  # 34.5 + 2 + 39.6 = 76.1
        # A reference that KL needs: 4 more. 23.0 + 2 + 39.6 = 64.6.
        ("1.5B", ("algo=grpo",), 16, 0.5),
        # 46.0 + 2 + 39.6 = 87.6: vLLM would not wake up. (79.2 - 48.0) / 79.2 = 0.394.
        ("3B", ("algo=grpo",), 16, 0.39),
        # A critic of its own: 12 more. 40.3 + 2 + 39.6 = 81.9; (79.2 - 42.3) / 79.2 = 0.466.
        ("1.5B", ("algo=ppo",), 28, 0.46),
        ("1.5B", ("algo=ppo", "algorithm.kl=none"), 24, 0.5),
        # 28.4 + 14.2 + 2 = 44.6; (79.2 - 44.6) / 79.2 = 0.437.
        ("7B", ("algo=dapo", "optim.weights=bfloat16"), 6, 0.43),
        ("7B", ("algo=dapo", *LORA), 2, 0.5),  # 14.2 + 12 x 80.7e6 / 2^30 = 0.9; 2; 39.6
    ],
)
def test_vllm_wakes_up_beside_what_stays_after_an_update(shape, settings, bytes_a_parameter, share):
    asked = resolve(set_layer([*ON_GPU, *settings]))
    model, count = QWEN[shape], COUNTS[shape]
    config = Memory(model, H100).fitted(asked)
    predicted = Memory(model, H100).needed(config)
    of_adapter = 12 * ADAPTER if "lora.rank=32" in settings else 0
    always = bytes_a_parameter * count + of_adapter + 2 * GIB
    assert sum(predicted.always.values()) == always
    assert config.rollout.gpu_share == share
    assert predicted.sampling == {"vLLM": int(share * H100.total)}
    assert always + predicted.sampling["vLLM"] <= H100.free
    # As it was set it fits where it was left, and only there.
    as_set = Memory(model, H100).needed(asked).phases["to sample"]
    assert as_set == always + int(0.5 * H100.total)
    assert (as_set <= H100.free) == (share == 0.5)


@pytest.mark.parametrize(
    ("shape", "settings", "needed"),
    [
        # 28 x 3.086e9 / 2^30 = 80.5, and 2: no share is small enough.
        ("3B", ("algo=ppo",), "about 111.* GiB are needed to update and 79.2 GiB are free"),
        ("7B", ("algo=dapo",), "GiB are needed to update and 79.2 GiB are free"),
    ],
)
def test_what_fits_no_share_is_refused(shape, settings, needed):
    config = Memory(QWEN[shape], H100).fitted(resolve(set_layer([*ON_GPU, *settings])))
    predicted = Memory(QWEN[shape], H100).needed(config)
    assert predicted.resident > H100.free
    assert config.optim.checkpointing == "on"


def test_a_share_too_small_for_a_batch_is_for_the_user_to_take():
    """grpo 3B, a token of 36 layers x 2 (k, v) x 2 heads x 128 x 2 bytes: 36,864 bytes."""
    taken = Machine("cuda", H100.total, int(62 * GIB))  # 62 - 46.0 - 2 = 14.0 are left
    # 5.75 of weights, 1 of workspace, and of 1,024 x 36,864 bytes a response 7.0: 13.8.
    fits = resolve(set_layer([*ON_GPU, "algo=grpo", "rollout.prompts=4", "rollout.samples=50"]))
    config = Memory(QWEN["3B"], taken).fitted(fits)
    assert config.rollout.gpu_share == 0.17  # 14.0 / 79.2
    assert Memory(QWEN["3B"], taken).needed(config).resident <= taken.free
    # 256 responses need 9.0: 15.7.
    config = Memory(QWEN["3B"], taken).fitted(resolve(set_layer([*ON_GPU, "algo=grpo"])))
    assert config.rollout.gpu_share == 0.19  # 15.7 / 79.2
    refused = Memory(QWEN["3B"], taken).needed(config)
    assert refused.resident > taken.free
    least, _ = next(Memory(QWEN["3B"], taken).smaller(config))
    assert least == "--set rollout.gpu_share=0.17"
    assert (
        Memory(QWEN["3B"], taken)
        .advice(config)
        .startswith(f"{least} --set optim.micro_tokens=2048 ")
    )
    # However long the batch, half of what was asked for is enough.
    long = resolve(set_layer([*ON_GPU, "algo=grpo", "rollout.max_tokens=16384"]))
    assert Memory(QWEN["3B"], H100).fitted(long).rollout.gpu_share == 0.39


def test_ppos_update_on_a_gpu_by_hand():
    """Both graphs, the head's chunk of 1,024 rows, and what the sums of gradients take."""
    asked = resolve(set_layer([*ON_GPU, "algo=ppo"]))
    plain = Memory(QWEN["1.5B"], H100).needed(asked)
    count, tokens = COUNTS["1.5B"], 8192
    of_layer = 7 * 1536 + 4 * 12 * 128 + 4 * 8960  # vectors that autograd keeps
    assert plain.updating["gradients"] == 2 * 4 * count
    assert plain.updating["forward and backward"] == 2 * 28 * 2 * of_layer * tokens
    # 42.3 always, 11.5 of gradients and 45.1 of graphs: 99 and some, which is no 79.2.
    assert 99 < plain.phases["to update"] / GIB < 105
    config = Memory(QWEN["1.5B"], H100).fitted(asked)
    assert config.optim.checkpointing == "on"
    again = Memory(QWEN["1.5B"], H100).needed(config).updating
    outside = 151_936 * 1536
    layer = (count - outside) // 28
    at_head = {
        "gradients": 2 * 4 * count,
        "weights put together": 2 * outside,
        "forward and backward": 28 * 2 * 1536 * tokens,
        "logits": 5 * 4 * 151_936 * 1024,
        "gradients of the output layer": 2 * 4 * outside,
    }
    in_layer = {
        "gradients": 2 * 4 * count,
        "weights put together": 2 * (outside + 2 * layer),
        "forward and backward": 2 * 28 * 2 * 1536 * tokens + 2 * of_layer * tokens,
        "sums of gradients": 3 * 4 * layer + 2 * outside,
    }
    assert again == max(at_head, in_layer, key=lambda part: sum(part.values()))
    # Without a critic the graph is half, and the layers are not computed again. Then weights in
    # float32 that are rounded to compute with stay so from the forward to the backward pass.
    settings = [*ON_GPU, "algo=dapo", "optim.weights=float32"]
    dapo = Memory(QWEN["1.5B"], H100).fitted(resolve(set_layer(settings)))
    assert dapo.optim.checkpointing == "off"
    kept = Memory(QWEN["1.5B"], H100).needed(dapo).updating
    assert kept["weights put together"] == 2 * count
    again = resolve(set_layer([*settings, "optim.checkpointing=on"]))
    assert Memory(QWEN["1.5B"], H100).needed(again).updating["weights put together"] < 2 * count


def test_adamw_in_bfloat16_rounds_one_weight_at_a_time():
    """0.5B: its embedding is more than a quarter of it. 8 copies of 4 bytes outweigh the logits."""
    model = table.shaped("0.5B", "meta")
    fixed = (*ON_GPU, "algo=dapo", "optim.weights=bfloat16", "optim.checkpointing=on")
    config = resolve(set_layer([*fixed, "optim.micro_tokens=128", "rollout.max_tokens=128"]))
    updating = Memory(model, H100).needed(config).updating
    assert updating == {
        "gradients": 2 * 494_032_768,
        "AdamW in float32": 8 * 4 * 151_936 * 896,
    }


def test_the_last_sums_of_gradients_are_those_outside_of_the_layers():
    """7B in bfloat16: its embedding and its output layer are more than four layers."""
    few = ("optim.micro_tokens=128", "rollout.max_tokens=128", "optim.checkpointing=on")
    config = resolve(set_layer([*ON_GPU, "optim.weights=bfloat16", *few]))
    predicted = Memory(QWEN["7B"], H100).needed(config)
    outside = 2 * 152_064 * 3584
    layer = (COUNTS["7B"] - outside) // 28
    assert predicted.updating == {
        "gradients": 4 * COUNTS["7B"],
        "sums of gradients": 4 * (2 * outside + layer),
    }


def test_keys_and_values_get_what_the_card_has_left():
    """dapo 1.5B: 14 bytes a parameter with the engine's, and 1 GiB: 21.1 of 79.2."""
    halves = [*ON_GPU[1:], "engine=transformers", "algo=dapo"]
    rows = 28 * 2 * 2 * 128 * 2 * 1024, 16 * 151_936  # of a response: its keys, its logits
    alone = Machine("cuda", H100.total, int(41.2 * GIB))

    def fitted(machine, *settings, **how):
        memory = Memory(QWEN["1.5B"], machine, **how)
        config = memory.fitted(resolve(set_layer([*halves, *settings])))
        return config.rollout.kv_budget_mb, memory.needed(config)

    def budget(gib):
        return int(gib * 1024 * rows[0] / sum(rows))

    of_share, need = fitted(H100)
    assert of_share == budget(0.5 * 79.2) == 37_449
    assert (of_share << 20) // rows[0] == 1337  # and 32 x 8 responses in one batch
    assert sum(need.always.values()) == 14 * COUNTS["1.5B"] + GIB
    assert need.sampling == {"keys and values": of_share << 20, "logits": 1337 * rows[1]}
    always = 14 * COUNTS["1.5B"] / GIB + 1
    assert fitted(alone)[0] == budget(int(41.2 * GIB) / GIB - always - 1)  # a workspace beside it
    assert fitted(alone)[1].phases["to sample"] < alone.free
    assert fitted(H100, "rollout.gpu_share=0.1")[0] == budget(0.1 * 79.2)
    assert fitted(H100, "rollout.kv_budget_mb=512")[0] == 512  # as set
    assert fitted(H100, training=False)[0] == budget(0.9 * 79.2)  # beside 5.8 and 1
    assert fitted(Machine("cuda", H100.total, 2 * GIB))[0] == 1  # a row at least is decoded
    assert fitted(CPU)[0] == 1024


def test_an_evaluation_gives_vllm_the_card():
    """7B: 15.2 GB of weights in vLLM, none beside it."""
    plain = resolve(set_layer([*ON_GPU[:2], "rollout.max_tokens=1024"]))
    given = resolve(set_layer([*ON_GPU[:2], "rollout.gpu_share=0.4"]))
    model, L4 = QWEN["7B"], Machine("cuda", int(22.2 * GIB), int(21.8 * GIB))
    assert Memory(model, H100, training=False).fitted(plain).rollout.gpu_share == 0.9
    assert Memory(model, H100, training=False).fitted(given).rollout.gpu_share == 0.4
    config = Memory(model, L4, training=False).fitted(plain)
    assert config.rollout.gpu_share == math.floor(100 * (21.8 - 2) / 22.2) / 100 == 0.89
    lent = {"vLLM": int(0.89 * L4.total)}
    expected = Need({"graphs and context": 2 * GIB}, lent, {})
    assert Memory(model, L4, training=False).needed(config) == expected
    taken = Machine("cuda", L4.total, int(16 * GIB))  # weights 14.2, workspace 1, context 2
    config = Memory(model, taken, training=False).fitted(plain)
    refused = Memory(model, taken, training=False).needed(config)
    assert refused.resident > taken.free
    assert refused.shortage(taken.free).endswith("are needed to sample and 16.0 GiB are free")


@pytest.mark.slow
def test_prediction_and_resident_memory_agree_at_three_sizes():
    cells = [("2M", "full"), ("8M", "full, computed again"), ("30M", "lora")]
    command = [sys.executable, table.__file__, "--tokens", "512", "--cell", json.dumps(cells)]
    peaks = [int(line) for line in table.run(command).splitlines()]
    needs = [table.predicted(name, table.SETTINGS[setting], 512) for name, setting in cells]
    assert needs == pytest.approx(peaks, rel=0.15)


def test_an_adapters_memory_by_hand():
    count = sum(parameter.numel() for parameter in random_model().parameters())
    numbers = 2 * 2 * ((32 + 32) + (32 + 16))  # q and v in two layers, rank 2
    lora = ("lora.rank=2", "lora.targets=[q_proj,v_proj]", "algo=ppo", "optim.weights=bfloat16")
    lora += ("optim.precision=bfloat16", "rollout.precision=bfloat16")
    adapted = need(*lora)
    assert adapted.always == {
        "weights": 2 * count,
        "responses of a step": RESPONSES,
        "AdamW": 2 * 2 * 4 * numbers,  # in float32, for policy and critic
        "adapter": 2 * 4 * numbers,
        "critic": 2 * count,
        "the engine's weights": 2 * count,
    }
    assert adapted.sampling == {"keys and values": 3 << 20}
    assert adapted.updating == {
        "gradients": 2 * 4 * numbers,
        "weights put together": 2 * (50 * 32 + 2 * ((count - 50 * 32) // 2)),
        "forward and backward": 2 * 2 * 2 * (LAYER - 2 * 32 + 7 * 2) * 1000,
    }
    assert "the engine's weights" not in need(*lora, "engine=vllm").always
    renewed = ("lora.rank=2", "algo=grpo", "algorithm.kl.reference=iterative")
    assert need(*renewed).always["reference policy"] == 4 * count
    shared = need(*lora, "algorithm.advantage.critic=shared").always
    assert shared["adapter"] == 4 * numbers
    assert "critic" not in shared


def test_a_teacher_is_the_reference_in_the_type_of_the_weights():
    """1.5B learns from 7B: 12 x 1.54e9 + 4 x 7.62e9 bytes = 45.6 GiB, and 2; 31.5 are left."""
    memory = Memory(QWEN["1.5B"], H100, teacher=QWEN["7B"])
    asked = resolve(set_layer([*ON_GPU, "algo=opd", "teacher=large"]))
    config = memory.fitted(asked)
    assert memory.needed(config).always["reference policy"] == 4 * COUNTS["7B"]
    assert config.rollout.gpu_share == 0.39
    halves = memory.needed(resolve(set_layer([*ON_GPU, *LORA, "algo=opd", "teacher=large"])))
    assert halves.always["reference policy"] == 2 * COUNTS["7B"]


def test_sizes_that_a_model_does_not_name():
    layer = torch.nn.Linear(32, 50, bias=False)
    shape = SimpleNamespace(hidden_size=32, num_attention_heads=4, num_hidden_layers=3)

    def bytes_of(*settings: str, **sizes: int) -> int:
        shape.__dict__.update(sizes)
        model = SimpleNamespace(
            num_parameters=layer.weight.numel,
            parameters=layer.parameters,
            named_parameters=layer.named_parameters,
            get_output_embeddings=lambda: layer,
            get_input_embeddings=lambda: layer,
            config=SimpleNamespace(get_text_config=lambda: shape),
        )
        return need(*settings, model=model).updating["forward and backward"]

    assert bytes_of() == 4 * 3 * (7 * 32 + 4 * 32 + 4 * (4 * 32)) * 1000
    assert bytes_of(intermediate_size=5) == 4 * 3 * (7 * 32 + 4 * 32 + 4 * 5) * 1000
    assert bytes_of(head_dim=6) == 4 * 3 * (7 * 32 + 4 * (4 * 6) + 4 * 5) * 1000
    again = ("optim.checkpointing=on", "optim.precision=bfloat16")
    assert bytes_of(*again) == 2 * 3 * 32 * 1000  # a layer takes less than the logits before it


def test_what_takes_less_is_what_is_not_yet_so(monkeypatch):
    model, small = random_model(), ("optim.micro_tokens=3", "rollout.kv_budget_mb=1")
    config = resolve(
        set_layer([*FIXED, *small, "optim.weights=bfloat16", "optim.precision=bfloat16"])
    )
    assert [text for text, _ in Memory(model, CPU).smaller(config)] == [
        "--set optim.checkpointing=on",
        "--set optim.checkpointing=on --set optim.micro_tokens=1",
        "--set optim.checkpointing=on --set optim.micro_tokens=1 --lora 32",
    ]
    *_, (last, changed) = Memory(model, H100).smaller(config)
    assert last.endswith("--lora 32 --set optim.offload=all")
    assert (changed.optim.offload, changed.optim.micro_tokens) == ("all", 1)
    assert (changed.lora.rank, changed.rollout.kv_budget_mb) == (32, 1)
    monkeypatch.setattr(memory, "decoder_layers", lambda model: [])
    assert (
        next(text for text, _ in Memory(model, CPU).smaller(config)) == "--set optim.micro_tokens=1"
    )


def test_of_four_processes_each_needs_a_quarter_and_what_is_put_together(monkeypatch):
    trainer = make_trainer(has_even, "algo=ppo", "rollout.kv_budget_mb=3")
    model, config = trainer.session.policy.model, trainer.config
    alone = Memory(model, CPU).needed(config)
    for module in (memory, plan):
        monkeypatch.setattr(module, "world", lambda: 4)
    beside = Memory(model, CPU).needed(config)
    for part in ("weights", "AdamW", "critic"):
        assert beside.always[part] == alone.always[part] // 4
    assert beside.updating["gradients"] == alone.updating["gradients"]
    assert beside.always["the engine's weights"] == alone.always["weights"]
