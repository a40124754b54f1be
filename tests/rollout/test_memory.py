"""Memory that a run needs, by hand, and what the machine says is free."""

import json
import sys
from importlib import util
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import random_model
from small_trainer import has_even, make_trainer
from transformers import AutoModelForCausalLM, Qwen2Config

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import GIB
from rlvr_cli.rollout import memory, plan
from rlvr_cli.rollout.memory import (
    Need,
    check_gpu,
    memory_free,
    memory_needed,
    responses_memory,
    smaller,
)

TABLE = Path(__file__).parents[2] / "benchmarks" / "memory.py"


def test_memory_by_hand():
    trainer = make_trainer(has_even, "algo=ppo", "rollout.kv_budget_mb=3")
    model = trainer.session.policy.model
    needed = memory_needed(model, trainer.config, engine_has_own=False)
    weights = 4 * sum(parameter.numel() for parameter in model.parameters())
    assert needed.always["weights"] == weights
    assert needed.always["AdamW"] == 2 * 2 * weights  # policy and critic
    assert needed.always["reference policy"] == weights
    assert needed.always["critic"] == weights
    assert needed.sampling["keys and values"] == 3 << 20
    assert needed.updating["gradients"] == 2 * weights
    assert "merged weights" not in needed.updating
    rollout = trainer.config.rollout
    responses = rollout.prompts * rollout.samples
    assert needed.always["responses of a step"] == 100 * responses * rollout.max_tokens
    assert not memory_needed(model, trainer.config, engine_has_own=True).sampling
    assert 0 < memory_free(model.device, 0.0) < 1 << 50


def test_memory_of_other_settings_by_hand():
    fixed = ("algo=grpo", "rollout.kv_budget_mb=3", "optim.micro_tokens=1024")
    trainer = make_trainer(has_even, *fixed)
    model, config = trainer.session.policy.model, trainer.config
    weights = sum(parameter.numel() for parameter in model.parameters())
    plain = memory_needed(model, config, False)
    adapter = 2 * 32 * (2 * (32 + 32) + 2 * (32 + 16) + 3 * (32 + 48))
    found = {text.split()[-1]: (one, text) for text, one in smaller(config, model)}
    assert list(found) == [
        "optim.checkpointing=on",
        "optim.micro_tokens=256",
        "rollout.kv_budget_mb=1",
        "optim.weights=bfloat16",
        "32",
    ]
    needs = [memory_needed(model, one, False) for one, _ in found.values()]
    assert needs[0].updating["forward and backward"] < plain.updating["forward and backward"] / 1.5
    assert needs[3].always["AdamW"] == 2 * 2 * weights
    assert needs[4].always["AdamW"] == 2 * 4 * adapter
    assert needs[4].updating["gradients"] == 4 * adapter
    assert "reference policy" not in needs[4].always
    assert found["32"][1].endswith("--set optim.weights=bfloat16 --lora 32")


def test_responses_wait_at_full_length():
    sizes = ("rollout.prompts=3", "rollout.samples=8", "rollout.max_tokens=7")
    config = resolve(set_layer(["algorithm.mini_batches=1", *sizes]))
    assert responses_memory(config) == 3 * 8 * 7 * 100


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
    assert memory_free(torch.device("cpu"), lent_share=0.5) == expected


def test_without_any_word_of_the_system_all_of_its_memory_counts(monkeypatch):
    def read(path, encoding=None):
        raise OSError

    monkeypatch.setattr(memory, "Path", type("Read", (type(Path()),), {"read_text": read}))
    monkeypatch.setattr(memory.os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10}.get)
    assert memory_free(torch.device("cpu"), 0.0) == 40_960


def test_a_gpu_lends_what_the_engine_gives_back(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100, 1000))
    assert memory_free(torch.device("cuda"), lent_share=0.25) == 350


SIZES = ("rollout.prompts=2", "rollout.samples=4", "rollout.max_tokens=8", "rollout.kv_budget_mb=3")
FIXED = (*SIZES, "optim.micro_tokens=1000", "optim.precision=float32", "optim.checkpointing=off")
RESPONSES, LOGITS = 100 * 2 * 4 * 8, 4 * 4 * 50 * 1000
LAYER = 7 * 32 + 4 * (4 * 8) + 4 * 48


def need(*settings: str, own: bool = False, model=None) -> Need:
    return memory_needed(model or random_model(), resolve(set_layer([*FIXED, *settings])), own)


def test_each_part_of_the_memory_by_hand():
    count = sum(parameter.numel() for parameter in random_model().parameters())
    plain = need("algo=dapo")
    assert plain == Need(
        {"weights": 4 * count, "responses of a step": RESPONSES, "AdamW": 8 * count},
        {"keys and values": 3 << 20},
        {"gradients": 4 * count, "forward and backward": 4 * 2 * LAYER * 1000, "logits": LOGITS},
    )
    assert plain.resident == 16 * count + RESPONSES
    assert plain.peak == 12 * count + RESPONSES + max(3 << 20, sum(plain.updating.values()))
    assert need("rollout.kv_budget_mb=30").peak == 12 * count + RESPONSES + (30 << 20)
    half = need("optim.weights=bfloat16", "optim.precision=bfloat16")
    assert half.always == {**plain.always, "weights": 2 * count, "AdamW": 4 * count}
    assert half.updating["gradients"] == 4 * count  # shared out they are whole, in float32
    assert half.updating["forward and backward"] == 2 * 2 * LAYER * 1000
    assert need("optim.moments=8bit").always["AdamW"] == int(2 * 1.02 * count)
    outside = need("optim.offload=all")
    assert outside.always == {"responses of a step": RESPONSES}
    assert "gradients" not in outside.updating
    ends = 2 * 50 * 32
    assert outside.updating["weights put together"] == 4 * (ends + 2 * (count - ends) // 2)
    again = need("optim.checkpointing=on").updating["forward and backward"]
    assert again == 4 * (2 * 32 + LAYER) * 1000 - LOGITS  # gone when a layer is computed again


with torch.device("meta"):
    LARGE = AutoModelForCausalLM.from_config(Qwen2Config())
COUNT = sum(parameter.numel() for parameter in LARGE.parameters())


@pytest.mark.parametrize(
    ("training", "share", "total"),
    [
        (True, 0.5, 2 * (12 * COUNT + RESPONSES)),  # weights and moments have half of the card
        (True, 0.2, 16 * COUNT + RESPONSES + GIB),  # and gradients while vLLM sleeps
        (False, 0.25, 4 * (2 * COUNT + GIB)),  # vLLM has 2 bytes a parameter and a gibibyte
        (False, 0.75, 4 * 4 * COUNT),
    ],
)
def test_a_gpu_that_is_too_small_says_what_is_needed(training, share, total):
    config = resolve(set_layer([*FIXED, f"rollout.gpu_share={share}"]))
    check_gpu(LARGE, config, training, total)
    doing = "training" if training else "sampling"
    says = rf"{doing} 12 billion parameters beside vLLM does not fit .* GiB in its share"
    with pytest.raises(UserError, match=says):
        check_gpu(LARGE, config, training, total - 100)


@pytest.mark.slow
def test_prediction_and_resident_memory_agree_at_three_sizes():
    spec = util.spec_from_file_location("memory", TABLE)
    table = util.module_from_spec(spec)
    spec.loader.exec_module(table)
    cells = [("2M", "full"), ("8M", "full, computed again"), ("30M", "lora")]
    command = [sys.executable, str(TABLE), "--tokens", "512", "--cell", json.dumps(cells)]
    found = [int(line) for line in table.run(command).splitlines()]
    needs = [table.predicted(name, table.SETTINGS[setting], 512) for name, setting in cells]
    assert needs == pytest.approx(found, rel=0.15)


def test_an_adapters_memory_by_hand():
    count = sum(parameter.numel() for parameter in random_model().parameters())
    numbers = 2 * 2 * ((32 + 32) + (32 + 16))  # q and v in two layers, rank 2
    lora = ("lora.rank=2", "lora.targets=[q_proj,v_proj]", "algo=ppo", "optim.weights=bfloat16")
    lora += ("optim.precision=bfloat16",)
    found = need(*lora)
    assert found.always == {
        "weights": 2 * count,
        "responses of a step": RESPONSES,
        "AdamW": 2 * 2 * 4 * numbers,  # in float32, for policy and critic
        "adapter": 2 * 4 * numbers,
        "critic": 2 * count,
    }
    assert found.sampling == {"keys and values": 3 << 20, "merged weights": 2 * count}
    assert found.updating["merged weights"] == 2 * count
    assert found.updating["gradients"] == 2 * 4 * numbers
    assert found.updating["forward and backward"] == 2 * 2 * (LAYER - 2 * 32 + 7 * 2) * 1000
    assert need(*lora, own=True).sampling == {}
    renewed = ("lora.rank=2", "algo=grpo", "algorithm.kl.reference=iterative")
    assert need(*renewed).always["reference policy"] == 4 * count
    shared = need(*lora, "algorithm.advantage.critic=shared").always
    assert shared["adapter"] == 4 * numbers
    assert "critic" not in shared


def test_sizes_that_a_model_does_not_name():
    layer = torch.nn.Linear(32, 50, bias=False)
    shape = SimpleNamespace(hidden_size=32, num_attention_heads=4, num_hidden_layers=3)

    def bytes_of(*settings: str, **sizes: int) -> int:
        shape.__dict__.update(sizes)
        model = SimpleNamespace(
            parameters=layer.parameters,
            get_output_embeddings=lambda: layer,
            device=torch.device("cpu"),
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
    said = [text for text, _ in smaller(config, model)]
    assert said == [
        "--set optim.checkpointing=on",
        "--set optim.checkpointing=on --set optim.micro_tokens=1",
        "--set optim.checkpointing=on --set optim.micro_tokens=1 --lora 32",
    ]
    monkeypatch.setattr(type(model), "device", torch.device("cuda"))
    *_, (last, changed) = smaller(config, model)
    assert last.endswith("--lora 32 --set optim.offload=all")
    assert (changed.optim.offload, changed.optim.micro_tokens) == ("all", 1)
    assert (changed.lora.rank, changed.rollout.kv_budget_mb) == (32, 1)
    monkeypatch.setattr(memory, "decoder_layers", lambda model: [])
    assert next(text for text, _ in smaller(config, model)) == "--set optim.micro_tokens=1"


def test_of_four_processes_each_needs_a_quarter_and_what_is_put_together(monkeypatch):
    trainer = make_trainer(has_even, "algo=ppo", "rollout.kv_budget_mb=3")
    model, config = trainer.session.policy.model, trainer.config
    alone = memory_needed(model, config, True)
    for module in (memory, plan):
        monkeypatch.setattr(module, "world", lambda: 4)
    beside = memory_needed(model, config, True)
    for part in ("weights", "AdamW", "critic"):
        assert beside.always[part] == alone.always[part] // 4
    assert beside.updating["gradients"] == alone.updating["gradients"]
    assert beside.updating["weights put together"] <= alone.always["weights"] + 4 * 50 * 32
    assert memory_needed(model, config, False).sampling["merged weights"] == alone.always["weights"]
