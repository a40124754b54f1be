"""Which engine a run takes, and the guard on its weights."""

import re
from importlib import util

import pytest
from small_models import random_model

from rlvr_cli.core.errors import EngineError, UserError
from rlvr_cli.model.pretrained import described_model
from rlvr_cli.setup.plan import EngineChoice, choose
from rlvr_cli.training.update import check_agreement

OTHER_TORCH = "vLLM 0.26.0 is built for torch 2.11.0, and torch 2.13.0 is here"


@pytest.mark.parametrize(
    ("requested", "version", "mismatch", "has_gpu", "name", "reason"),
    [
        ("auto", "0.32.0", None, True, "vllm", "it is installed and there is a GPU"),
        ("auto", "0.32.0", None, False, "transformers", "there is no GPU"),
        ("auto", None, None, True, "transformers", "auto: vLLM is not installed"),
        ("auto", "0.33.0", None, True, "vllm", "it is installed and there is a GPU"),
        ("auto", "0.26.0", OTHER_TORCH, True, "transformers", f"auto: {OTHER_TORCH}"),
        ("vllm", "0.26.1+cpu", None, False, "vllm", "as set"),
        ("vllm", "0.33.0", None, True, "vllm", "as set"),
        ("transformers", None, None, False, "transformers", "as set"),
        ("transformers", "0.26.0", OTHER_TORCH, True, "transformers", "as set"),
    ],
)
def test_the_choice_and_its_reason(requested, version, mismatch, has_gpu, name, reason):
    choice = choose(requested, version, mismatch, has_gpu)
    assert isinstance(choice, EngineChoice)
    assert choice.name == name
    assert reason in choice.reason


@pytest.mark.parametrize(
    ("version", "mismatch", "message"),
    [
        (None, None, "vLLM is not installed; install rlvr with its extra [vllm]"),
        ("0.26.0", OTHER_TORCH, OTHER_TORCH),
    ],
)
def test_vllm_that_is_missing_or_of_another_torch_is_refused(version, mismatch, message):
    with pytest.raises(UserError, match=re.escape(f"--engine vllm: {message}")):
        choose("vllm", version, mismatch, has_gpu=True)


@pytest.mark.parametrize("family", ["qwen2-tied", "qwen2-untied", "gpt-neox"])
def test_parameters_are_counted_without_weights(family):
    model = random_model(family)
    assert described_model(model.config).num_parameters() == model.num_parameters()


def test_engine_and_trainer_that_disagree_stop_the_run():
    check_agreement(0.1, 0.1, step=1)
    with pytest.raises(EngineError, match=r"step 3: .* disagree by 0\.101 .*mismatch_limit 0\.1:"):
        check_agreement(0.101, 0.1, step=3)
    with pytest.raises(EngineError):
        check_agreement(float("nan"), 0.1, step=1)


@pytest.mark.skipif(util.find_spec("vllm") is not None, reason="vLLM is installed here")
def test_asking_for_vllm_without_it_is_one_line(rlvr):
    result = rlvr("sample", "What is 1 + 1?", "--engine", "vllm")
    assert result.returncode == 2
    assert result.stderr.startswith("rlvr: error: --engine vllm: vLLM is not installed; install")
    assert len(result.stderr.splitlines()) == 1
