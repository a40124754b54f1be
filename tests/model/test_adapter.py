"""LoRA: what is merged is what is trained, without it the model is as before, and files keep it."""

import json
from copy import deepcopy

import pytest
import torch
from small_models import random_model

from rlvr_cli.core.errors import UserError
from rlvr_cli.model.adapter import (
    add_adapter,
    is_adapter,
    load_adapter,
    matrices,
    merge,
    merged_parameters,
    save_adapter_config,
    switched_off,
    trained,
)
from rlvr_cli.runs.checkpoint import write_tensors

IDS = torch.tensor([[3, 5, 7, 11, 13]])


def save(model, directory) -> None:
    """As a checkpoint does."""
    save_adapter_config(model, "base", directory)
    write_tensors(directory / "adapter_model.safetensors", matrices(model).items())


def adapted(family: str = "qwen2-tied", dtype: torch.dtype = torch.float64, **options):
    """A model with an adapter that is not zero."""
    model = random_model(family).to(dtype)
    add_adapter(model, **{"rank": 2, "alpha": 32, "targets": "all-linear", "seed": 0, **options})
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in trained(model):
            parameter.normal_(std=0.1)
    return model


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=IDS).logits


@pytest.mark.parametrize(
    ("targets", "count"),
    [
        ("all-linear", 14),
        (["v_proj", "up_proj", "q_proj", "o_proj", "k_proj", "gate_proj", "down_proj"], 7),
        (["o_proj", "down_proj", "k_proj", "v_proj"], 4),
    ],
)
def test_its_layers_are_stored_in_one_order(targets, count, tmp_path):
    """Whichever order a set has in this process: a resumed run writes the bytes of an unbroken."""
    model = adapted(targets=targets)
    save_adapter_config(model, "base", tmp_path)
    stored = json.loads((tmp_path / "adapter_config.json").read_text())
    names = stored["target_modules"]
    assert len(names) == count
    assert names == sorted(names)


@pytest.mark.parametrize("family", ["qwen2-tied", "qwen2-untied", "llama", "gpt2", "phi3"])
def test_merged_weights_give_the_same_logits(family):
    model = adapted(family)
    base_model = random_model(family).double()
    before = logits(base_model)
    merged = dict(merged_parameters(model))
    assert merged.keys() == dict(base_model.named_parameters()).keys()
    with torch.no_grad():
        for name, parameter in base_model.named_parameters():
            parameter.copy_(merged[name])
    torch.testing.assert_close(logits(base_model), logits(model), rtol=1e-6, atol=1e-6)
    assert not torch.allclose(logits(model), before, rtol=1e-3)


def test_without_it_the_model_is_as_before_training():
    model = adapted()
    trained_before = [p.requires_grad for p in model.parameters()]
    with switched_off(model):
        torch.testing.assert_close(logits(model), logits(random_model().double()))
    assert [p.requires_grad for p in model.parameters()] == trained_before


def test_at_first_it_adds_nothing_and_the_seed_decides_the_rest():
    first, repeated, other = (random_model() for _ in range(3))
    state = torch.get_rng_state()
    for model, seed in ((first, 0), (repeated, 0), (other, 1)):
        add_adapter(model, 4, 32, "all-linear", seed)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(logits(first), logits(random_model()))
    assert all(map(torch.equal, trained(first), trained(repeated)))
    assert not all(map(torch.equal, trained(first), trained(other)))


def test_every_linear_layer_but_the_output_has_one_in_float32():
    model = random_model("qwen2-untied").bfloat16()
    add_adapter(model, 3, 32, "all-linear", 0)
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    assert len(names) == 2 * 2 * 7  # A and B of 7 layers in each of 2
    assert not any("lm_head" in name or "embed" in name for name in names)
    assert {p.dtype for p in trained(model)} == {torch.float32}
    assert sum(p.numel() for p in trained(model)) == 2 * 3 * (
        2 * (32 + 32) + 2 * (32 + 16) + 2 * (32 + 48) + (48 + 32)
    )


def test_the_sum_is_made_in_float32():
    """A change far below a bfloat16 step of the weight is in what is pushed."""
    model = adapted(dtype=torch.bfloat16)
    name = "model.layers.0.self_attn.q_proj"
    layer = model.get_submodule(name)
    pushed = dict(merged_parameters(model))[f"{name}.weight"]
    A, B = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    reference = layer.base_layer.weight.double() + 16 * B.double() @ A.double()
    assert pushed.dtype == torch.float32
    torch.testing.assert_close(pushed.double(), reference, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "targets", ["nonsense", ["q_proj", "nonsense"], ["lm_head"], ["embed_tokens"], ["layers"]]
)
def test_targets_without_a_layer_are_refused(targets):
    with pytest.raises(UserError, match="choose from all-linear, down_proj, gate_proj"):
        add_adapter(random_model("qwen2-untied"), 2, 32, targets, 0)


def test_a_rank_above_that_of_every_layer_is_refused():
    model = random_model()
    highest = max(min(m.weight.shape) for m in model.modules() if isinstance(m, torch.nn.Linear))
    with pytest.raises(UserError, match=f"has a rank above {highest}; take a lower one"):
        add_adapter(model, highest + 1, 32, "all-linear", 0)
    add_adapter(model, highest, 32, "all-linear", 0)


def test_named_targets_alone_are_trained():
    model = random_model()
    add_adapter(model, 2, 32, ("q_proj", "v_proj"), 0)
    names = {name.split(".")[4] for name, p in model.named_parameters() if p.requires_grad}
    assert names == {"q_proj", "v_proj"}


@pytest.mark.parametrize("family", ["qwen2-tied", "gpt2"])
def test_files_keep_it_and_merge_it(family, tmp_path):
    model = adapted(family, torch.float32)
    save(model, tmp_path)
    repeated = random_model(family)
    add_adapter(repeated, 2, 32, "all-linear", 9)
    load_adapter(repeated, tmp_path)
    assert all(map(torch.equal, trained(model), trained(repeated)))
    base_model = random_model(family)
    merge(base_model, tmp_path)
    for name, tensor in merged_parameters(model):
        assert torch.equal(base_model.get_parameter(name), tensor)


def test_an_adapter_is_merged_into_halves_as_training_pushes_it(tmp_path):
    model = adapted(dtype=torch.bfloat16)
    base_model = random_model("qwen2-tied").bfloat16()
    save(model, tmp_path)
    merge(base_model, tmp_path)
    for name, tensor in merged_parameters(model):  # in float32, which the engine rounds once
        assert torch.equal(base_model.get_parameter(name), tensor.bfloat16())


def test_peft_reads_the_files(tmp_path):
    import peft

    model = adapted(dtype=torch.float32)
    save(model, tmp_path)
    reference = peft.PeftModel.from_pretrained(random_model(), tmp_path)
    torch.testing.assert_close(logits(reference), logits(model))


def test_an_adapter_of_another_model_is_refused(tmp_path):
    save(adapted("qwen3", torch.float32), tmp_path)
    with pytest.raises(ValueError, match="not of this model"):
        load_adapter(deepcopy(adapted()), tmp_path)
    with pytest.raises(UserError, match="does not fit base"):
        merge(random_model("gpt2"), tmp_path)


def test_an_adapter_is_known_by_its_settings(tmp_path):
    (tmp_path / "config.json").touch()
    assert not is_adapter(tmp_path)
    assert not is_adapter("org/adapter")
    save(adapted(), tmp_path)
    assert is_adapter(tmp_path)
