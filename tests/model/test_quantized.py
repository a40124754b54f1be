"""Weights in 4 bits: the numbers that they stand for, in every pass, and who refuses them."""

import json
import shutil
import socket
import sys
from copy import deepcopy
from importlib.abc import MetaPathFinder
from types import SimpleNamespace

import pytest
import torch
from conftest import invoke, quantizes, refused
from small_models import random_model, save_small_model
from small_runs import repeatable
from small_trainer import has_even, make_trainer, steps
from torch.nn import Linear
from transformers import AutoModelForCausalLM

from rlvr_cli.core.types import SamplingParams
from rlvr_cli.model.adapter import adapter_parameters, add_adapter, merged_parameters, trained
from rlvr_cli.model.loading import load_model
from rlvr_cli.model.quantized import (
    NF4Linear,
    dequantize,
    quantize,
    quantized_copy,
    quantized_layers,
    quantized_numbers,
)
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
from rlvr_cli.runs.checkpoint import read_tensors
from rlvr_cli.setup.memory import Memory

NF4 = ("--lora", "2", "--set", "lora.base=nf4")
SMALL = ("--steps", "1", "--prompts", "2", "-n", "4", "--max-tokens", "6", "--limit", "8")
IDS = torch.arange(2, 20)[None]


def learned_adapter(model, seed: int = 3):
    """Add an adapter whose matrices are not 0."""
    add_adapter(model, 4, 8, "all-linear", seed=0)
    torch.manual_seed(seed)
    for matrix in trained(model):
        matrix.data.copy_(0.1 * torch.randn(matrix.shape))
    return model


@quantizes
def test_weights_by_hand():
    """QLoRA's 16 numbers (appendix E), times the largest of each 64 weights."""
    below = [-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0]
    above = [0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0]
    levels = torch.tensor([*below, *above])
    linear = Linear(128, 2, bias=False)
    scales = torch.tensor([2.0, 3.0, 0.5, 8.0])
    weights = levels.repeat(4, 4) * scales[:, None]
    linear.weight.data = weights.view(2, 128)
    layer = NF4Linear(linear)
    assert (layer.codes.dtype, layer.codes.numel()) == (torch.uint8, 128)
    torch.testing.assert_close(layer.weight, weights.view(2, 128), rtol=0, atol=4e-4)
    halves = layer.dequantized(torch.bfloat16)
    assert torch.equal(halves, layer.weight.bfloat16())


@quantizes
def test_the_gradient_is_that_of_the_dequantized_model():
    model = random_model()
    quantize(model)
    halves = deepcopy(model)
    dequantize(halves, torch.bfloat16)
    plain = deepcopy(model)
    dequantize(plain)
    for name, layer in quantized_layers(model):
        half = halves.get_submodule(name).weight
        assert half.dtype == torch.bfloat16
        assert torch.equal(half, layer.weight.bfloat16())
    assert len(quantized_layers(model)) == 14
    assert not quantized_layers(plain)
    gradients = []
    for each in (learned_adapter(model), learned_adapter(plain)):
        each(IDS, labels=IDS).loss.backward()
        gradients.append([matrix.grad for matrix in trained(each)])
    assert all(gradient.abs().max() > 0 for gradient in gradients[0])
    assert all(map(torch.equal, *gradients))


@quantizes
@pytest.mark.parametrize("has_adapter", [False, True])
def test_sampling_changes_no_weight_and_asks_no_network(has_adapter, monkeypatch):
    """From merged weights and from codes; with a package `kernels`, which bitsandbytes would ask
    for one of the hub."""

    def asked(*args, **options):
        raise AssertionError("the network was asked")

    monkeypatch.setitem(sys.modules, "kernels", SimpleNamespace(get_kernel=asked))
    monkeypatch.setattr(socket.socket, "connect", asked)
    model = random_model()
    quantize(model)
    sampled = quantized_copy(model)
    if has_adapter:
        add_adapter(sampled, 4, 8, "all-linear", seed=1)
        assert sampled.model.layers[0].mlp.up_proj.base_layer.codes is (
            model.model.layers[0].mlp.up_proj.codes
        )
    else:
        dequantize(sampled)
    learned_adapter(model)
    before = [numbers.clone() for numbers in quantized_numbers(model)]
    engine = TransformersEngine(sampled, 50, (1,), 64, has_adapter=has_adapter)
    engine.sync_weights((adapter_parameters if has_adapter else merged_parameters)(model))
    ((_, completions),) = engine.generate([[3, 4, 5]], SamplingParams(2, 8), [0])
    assert all(map(torch.equal, before, quantized_numbers(model)))
    with_gradient = model(IDS).logits
    with torch.no_grad():
        assert torch.equal(model(IDS).logits, with_gradient)
    with torch.inference_mode():
        assert torch.equal(model(IDS).logits, with_gradient)
        row = torch.tensor([[3, 4, 5, *completions[0].token_ids]])
        logprobs = model(row).logits[0, 2:-1, :50].log_softmax(-1)
    expected = logprobs.gather(-1, row[0, 3:, None])[:, 0]
    sampled_logprobs = torch.tensor(completions[0].logprobs)
    torch.testing.assert_close(sampled_logprobs, expected, rtol=0, atol=1e-4)


@quantizes
def test_merged_weights_are_dequantized_and_what_the_adapter_adds():
    model = random_model()
    names = [name for name, _ in model.named_parameters()]
    quantize(model)
    dequantized = {f"{name}.weight": layer.weight for name, layer in quantized_layers(model)}
    merged = dict(merged_parameters(learned_adapter(model)))
    assert list(merged) == names  # in this order a teacher is compared with the policy
    for name, layer in model.named_modules():
        if hasattr(layer, "lora_A"):
            added = layer.lora_B["default"].weight @ layer.lora_A["default"].weight
            weight = dequantized[f"{name}.weight"] + 2.0 * added
            assert torch.equal(merged[f"{name}.weight"], weight)


@quantizes
@pytest.mark.parametrize(
    "settings",
    [
        ("algo=grpo", "algorithm.kl.reference={kind: iterative, every: 1}"),
        ("algo=opd", "rollout.samples=1"),
    ],
    ids=["renewed reference", "teacher"],
)
def test_models_beside_the_policy_see_its_dequantized_weights(settings, tmp_path):
    """A run on a base in NF4 is the run on the numbers that the base stands for, to the bit."""
    plain = random_model()
    quantize(plain)
    dequantize(plain)
    with_adapter = (*settings, "steps=2", "lora.rank=2", "optim.warmup_steps=0")
    histories = []
    adapters = []
    for more, model in ((("lora.base=nf4",), random_model()), ((), plain)):
        trainer = make_trainer(has_even, *with_adapter, *more, model=model)
        history = steps(trainer, tmp_path / f"run-{len(histories)}")
        histories.append([repeatable(row) for row in history])
        adapters.append(dict(adapter_parameters(trainer.session.policy.model)))
    assert histories[0] == histories[1]
    assert all(row["grad_norm"] > 0 for row in histories[0])
    for name, matrix in adapters[0].items():
        assert torch.equal(matrix, adapters[1][name])


@quantizes
def test_a_run_its_measurement_and_its_export(tmp_path, monkeypatch):
    """The checkpoint stands for the policy that trained, the export for the full base."""
    monkeypatch.chdir(tmp_path)
    model = str(save_small_model(tmp_path / "base", deviation=0.2))
    few = (*SMALL, "--set", "eval.limit=0", "--lr", "0.01")
    run = invoke("train", "--algo", "ppo", "--model", model, *few, *NF4, "--out", "a")
    assert run.exit_code == 0, run.stderr
    monkeypatch.setattr(Memory, "holds_dequantized", lambda self, config: False)
    rejecting = ("--set", "algorithm.importance_correction=sequence_mask")
    fork = invoke("train", "--from", "a", *SMALL, *rejecting, "--out", "b")
    assert fork.exit_code == 0, fork.stderr
    assert "sequence_mask would reject" not in fork.stderr  # no warning of the probe
    assert "from a dequantized copy of the merged weights" in run.stderr
    assert "from the 4-bit weights, since memory holds no dequantized copy" in fork.stderr
    other_base = invoke("train", "--from", "a", *SMALL, "--set", "lora.base=full", "--check")
    said = "trained with lora.base nf4, which is full here"
    assert said in other_base.stderr
    assert said not in fork.stderr
    for name in "ab":
        (row,) = map(json.loads, (tmp_path / name / "metrics.jsonl").open())
        assert row["mismatch"] < 1e-5
    checkpoint = tmp_path / "a/checkpoints/step-1"
    adapter = json.loads((checkpoint / "adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == model
    stored = read_tensors(checkpoint / "adapter_model.safetensors")
    assert all(".lora_" in name for name in stored)
    name = "model.layers.0.self_attn.q_proj"
    layer = load_model(model).model.get_submodule(name)
    b = stored[f"base_model.model.{name}.lora_B.weight"]
    added = b @ stored[f"base_model.model.{name}.lora_A.weight"] * (32 / 2)
    policy = load_model("a").model.get_submodule(name).weight
    torch.testing.assert_close(policy, NF4Linear(layer).weight + added)
    halves = load_model("a", dtype="bfloat16").model.get_submodule(name).weight
    assert torch.equal(halves, policy.bfloat16())  # not the codes of halves
    result = invoke("export", "a", "--out", "x")
    assert "nats a token from the policy that trained on it in NF4" in result.stderr
    exported = AutoModelForCausalLM.from_pretrained("x").get_submodule(name).weight
    torch.testing.assert_close(exported, layer.weight + added)


@quantizes
def test_what_cannot_be_quantized_is_one_line_before_a_model_is_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = save_small_model(tmp_path / "base")
    (base / "model.safetensors").write_bytes(bytes(100_000))  # nothing loads them
    train = ("train", *SMALL, "--model")
    line = refused(*train, base, "--set", "lora.base=nf4")
    assert "lora.base nf4 without lora.rank" in line
    for method in ("gptq", "awq", "bitsandbytes", "fp8", "compressed-tensors", "unnamed"):
        other = tmp_path / method
        shutil.copytree(base, other)
        config = json.loads((other / "config.json").read_text())
        config["quantization_config"] = {"quant_method": method, "bits": 4}
        if method == "unnamed":
            del config["quantization_config"]["quant_method"]
        (other / "config.json").write_text(json.dumps(config))
        line = refused(*train, other, *NF4)
        assert f"the weights of the model are quantized already ({method})" in line
    gpt2 = {"model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 2, "vocab_size": 300}
    (base / "config.json").write_text(json.dumps(gpt2))
    line = refused(*train, base, *NF4)
    assert "GPT2LMHeadModel has no linear layer of the kind that bitsandbytes quantizes" in line


class Faulty(MetaPathFinder):
    """Let an import of bitsandbytes end with this error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def find_spec(self, name, path, target=None):
        if name.startswith("bitsandbytes"):
            raise self.error


def forget_bitsandbytes(monkeypatch) -> None:
    for name in [name for name in sys.modules if name.startswith("bitsandbytes")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(
    ("options", "setting"),
    [(NF4, "lora.base nf4"), (("--set", "optim.moments=8bit"), "optim.moments 8bit")],
)
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            ModuleNotFoundError("No module named 'bitsandbytes'", name="bitsandbytes"),
            "bitsandbytes is not installed; pip install bitsandbytes",
        ),
        (
            ModuleNotFoundError("No module named 'scipy'", name="scipy"),
            "bitsandbytes cannot be imported (No module named 'scipy'); pip install --upgrade",
        ),
        (
            OSError("libcudart.so.12: cannot open shared object file"),
            "bitsandbytes cannot be imported (libcudart.so.12: cannot open shared object file); ",
        ),
        (
            RuntimeError("CUDA Setup failed\nInspect the output"),
            "bitsandbytes cannot be imported (CUDA Setup failed); pip install --upgrade bitsandb",
        ),
    ],
    ids=["missing", "a part is missing", "no file in C", "no setup"],
)
def test_a_library_that_does_not_import_is_one_line(
    options, setting, error, expected, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    forget_bitsandbytes(monkeypatch)
    monkeypatch.setattr(sys, "meta_path", [Faulty(error), *sys.meta_path])
    assert f"{setting}: {expected}" in refused("train", *SMALL, *options)


@quantizes
@pytest.mark.parametrize("removed", ["quantize_4bit", "quantize_blockwise"])
def test_a_library_that_quantizes_otherwise_is_one_line(removed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delattr(f"bitsandbytes.functional.{removed}")
    line = refused("train", *SMALL, *NF4)
    assert "lora.base nf4: bitsandbytes 0." in line
    assert "cannot quantize here (module 'bitsandbytes.functional' has no attribute" in line
    assert line.rstrip().endswith("pip install --upgrade bitsandbytes")
