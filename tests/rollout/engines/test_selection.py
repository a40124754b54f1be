"""Which engine a run takes, what is refused before loading, and the guard on its weights."""

import re
from importlib import util

import pytest
from conftest import random_model

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.errors import EngineError, UserError
from rlvr_cli.model.pretrained import parameter_count
from rlvr_cli.rollout.engines import selection
from rlvr_cli.rollout.engines.selection import Choice, bytes_a_parameter, choose, gpu_shortage
from rlvr_cli.training.update import check_agreement

GIB = 1 << 30


@pytest.mark.parametrize(
    ("asked", "version", "has_gpu", "name", "reason"),
    [
        ("auto", "0.32.0", True, "vllm", "it is installed and there is a GPU"),
        ("auto", "0.32.0", False, "transformers", "there is no GPU"),
        ("auto", None, True, "transformers", "vLLM is not installed"),
        ("auto", "0.34.0", True, "transformers", "outside the tested range, 0.26 to 0.33"),
        ("vllm", "0.26.1+cpu", False, "vllm", "as set"),
        ("vllm", "0.33.0", True, "vllm", "as set"),
        ("transformers", None, False, "transformers", "as set"),
        ("transformers", "0.32.0", True, "transformers", "as set"),
    ],
)
def test_the_choice_and_its_reason(asked, version, has_gpu, name, reason):
    choice = choose(asked, version, has_gpu)
    assert isinstance(choice, Choice)
    assert choice.name == name
    assert reason in choice.reason


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (None, "vLLM is not installed; install rlvr with its extra [vllm]"),
        ("0.25.9", "vLLM 0.25.9 is outside the tested range, 0.26 to 0.33; install"),
        ("1.0.0", "vLLM 1.0.0 is outside the tested range"),
        ("of unknown version", "is outside the tested range"),
    ],
)
def test_vllm_that_is_missing_or_untested_is_refused(version, message):
    with pytest.raises(UserError, match=re.escape(message)):
        choose("vllm", version, has_gpu=True)


def test_a_gpu_that_is_too_small_names_what_would_fit():
    # 80 GiB, half for vLLM. Trainer: 12 bytes a parameter in 40 GiB are 3.58e9 parameters;
    # 16 bytes in 79 GiB would be 5.3e9, 2 bytes in 39 GiB 20.9e9.
    assert gpu_shortage(3_500_000_000, 80 * GIB, 0.5, training=True) is None
    message = gpu_shortage(3_600_000_000, 80 * GIB, 0.5, training=True)
    assert "a GPU of 80 GiB with rollout.gpu_share 0.5" in message
    assert "at most 3.6 billion would" in message
    # A quarter for vLLM: 16 bytes in 79 GiB are 5.30e9, 12 bytes in 60 GiB 5.37e9.
    assert gpu_shortage(5_290_000_000, 80 * GIB, 0.25, training=True) is None
    assert gpu_shortage(5_310_000_000, 80 * GIB, 0.25, training=True)
    # Evaluation, nine tenths for vLLM: 4 bytes in 8 GiB are 2.15e9 parameters.
    assert gpu_shortage(2_100_000_000, 80 * GIB, 0.9, training=False) is None
    assert "sampling" in gpu_shortage(2_200_000_000, 80 * GIB, 0.9, training=False)
    assert "at most 0 billion" in gpu_shortage(1, GIB // 2, 0.5, training=False)
    # Eight GPUs share the trainer's weights; each vLLM has all of its own: 2 bytes in 39 GiB.
    assert gpu_shortage(20_900_000_000, 80 * GIB, 0.5, True, (1, 2)) is None
    assert gpu_shortage(21_000_000_000, 80 * GIB, 0.5, True, (1, 2)) is not None


def test_several_processes_hold_a_share_each(monkeypatch):
    config = resolve(set_layer([]))
    assert bytes_a_parameter(config) == (12, 16)
    monkeypatch.setattr(selection, "world", lambda: 8)
    assert bytes_a_parameter(config) == (1.5, 5.5)


@pytest.mark.parametrize("family", ["qwen2-tied", "qwen2-untied", "gpt-neox"])
def test_parameters_are_counted_without_weights(family):
    model = random_model(family)
    assert parameter_count(model.config) == model.num_parameters()


def test_engine_and_trainer_that_disagree_stop_the_run():
    check_agreement(None, 0.1, step=1)
    check_agreement(0.1, 0.1, step=1)
    with pytest.raises(EngineError, match=r"step 3: .* disagree by 0\.101 .*mismatch_limit 0\.1:"):
        check_agreement(0.101, 0.1, step=3)
    with pytest.raises(EngineError):
        check_agreement(float("nan"), 0.1, step=1)


@pytest.mark.skipif(util.find_spec("vllm") is not None, reason="vLLM is installed here")
def test_asking_for_vllm_without_it_is_one_line(rlvr):
    done = rlvr("sample", "What is 1 + 1?", "--engine", "vllm")
    assert done.returncode == 2
    assert done.stderr.startswith("rlvr: error: --engine vllm: vLLM is not installed; install")
    assert len(done.stderr.splitlines()) == 1
