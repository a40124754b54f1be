"""vLLM is imported into this process, which stays as it was."""

import os
import random
import sys
from types import SimpleNamespace

import torch

from rlvr_cli.rollout.engines import vllm_import
from rlvr_cli.rollout.engines.vllm_import import (
    import_vllm,
    unchanged_process,
)


def test_the_process_is_as_it_was(capfd, monkeypatch):
    monkeypatch.delenv("VLLM_LOGGING_LEVEL", raising=False)
    before = torch.random.get_rng_state(), random.getstate(), torch.get_num_threads()
    with unchanged_process():
        os.write(1, b"said on stdout by vLLM")
        os.write(2, b"and on stderr")
        torch.manual_seed(99)
        random.seed(99)
        torch.set_num_threads(before[2] + 1)
        torch.set_num_threads = None
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert (random.getstate(), torch.get_num_threads()) == before[1:]
    assert capfd.readouterr() == ("", "")
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "INFO")
    with unchanged_process():
        os.write(1, b"said")
    assert capfd.readouterr() == ("", "said")


def test_what_was_set_stays_set(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace())
    for name in vllm_import._ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "INFO")
    import_vllm()
    found = {name: os.environ.pop(name) for name in vllm_import._ENVIRONMENT}
    assert found.pop("VLLM_LOGGING_LEVEL") == "INFO"
    assert found.pop("VLLM_ENABLE_V1_MULTIPROCESSING") == "0"
    assert len(found) == 3
