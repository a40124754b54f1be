"""Memory that a run needs, by hand, and what the machine says is free."""

from pathlib import Path

import pytest
import torch
from small_trainer import has_even, make_trainer

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.rollout import memory
from rlvr_cli.rollout.memory import memory_free, memory_needed, responses_memory, smaller


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
