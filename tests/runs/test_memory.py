"""Memory that a run needs, by hand, and what the machine says is free."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from small_trainer import has_even, make_trainer

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.runs import memory
from rlvr_cli.runs.memory import memory_free, memory_needed, responses_memory


def model(**sizes):
    shape = SimpleNamespace(hidden_size=10, num_hidden_layers=3, **sizes)
    config = SimpleNamespace(get_text_config=lambda: shape)
    return SimpleNamespace(num_parameters=lambda: 1000, config=config)


def needed(*settings: str, engine_has_own=False, **sizes):
    base = (
        "algorithm.mini_batches=1",
        "optim.micro_tokens=100",
        "rollout.kv_budget_mb=2",
        "rollout.prompts=2",
    )
    config = resolve(set_layer([*base, "rollout.samples=4", "rollout.max_tokens=5", *settings]))
    return memory_needed(model(**sizes), config, engine_has_own)


def test_each_purpose_by_hand():
    assert needed("algo=dapo", intermediate_size=20) == {
        "responses of a step": 2 * 4 * 5 * 100,
        "gradient and AdamW": 3 * 4000,
        "forward and backward": 4 * (8 * 10 + 4 * 20) * 3 * 100 + 256 * 2**20,
        "keys and values": 2 * 2**20,
    }


def test_what_is_not_said_of_a_model_is_four_times_its_width():
    assert needed("algo=dapo") == needed("algo=dapo", intermediate_size=40)


def test_a_reference_a_critic_and_an_engine_with_room_of_its_own():
    assert needed("algo=grpo")["reference policy"] == 4000
    assert needed("algo=ppo")["critic"] == 4 * 4000
    assert "critic" not in needed("algo=ppo", "algorithm.advantage.critic.kind=shared")
    assert "keys and values" not in needed(engine_has_own=True)


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


def test_a_model_as_it_is_trained():
    trainer = make_trainer(has_even, "algo=ppo", "rollout.kv_budget_mb=3")
    model = trainer.session.policy.model
    needed = memory_needed(model, trainer.config, engine_has_own=False)
    weights = 4 * sum(parameter.numel() for parameter in model.parameters())
    assert needed["gradient and AdamW"] == 3 * weights
    assert needed["reference policy"] == weights
    assert needed["critic"] == 4 * weights
    assert needed["keys and values"] == 3 << 20
    rollout = trainer.config.rollout
    responses = rollout.prompts * rollout.samples
    assert needed["responses of a step"] == 100 * responses * rollout.max_tokens
    assert "keys and values" not in memory_needed(model, trainer.config, engine_has_own=True)
    assert 0 < memory_free(model.device, 0.0) < 1 << 50
