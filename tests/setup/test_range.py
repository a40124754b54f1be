"""A model whose activations leave float16's range is refused before anything is sampled."""

from pathlib import Path

import pytest
import torch
from conftest import invoke
from small_models import random_model, save_small_model
from transformers import AutoModelForCausalLM

from rlvr_cli.model.forward import largest_activation
from rlvr_cli.rollout.engines.base import not_finite

PRECISIONS = {name: f"--set={name}.precision=float16" for name in ("optim", "rollout")}


@pytest.fixture(scope="module")
def wide_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that adds numbers of 1e6 and more to its hidden states, which norms make small."""
    place = save_small_model(tmp_path_factory.mktemp("wide") / "model")
    model = AutoModelForCausalLM.from_pretrained(place)
    with torch.no_grad():
        model.get_submodule("model.layers.0.mlp.down_proj").weight.mul_(1e12)
    model.save_pretrained(place)
    return place


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (
            ["train", "--check", "--limit", "8", PRECISIONS["optim"]],
            "rollout.precision=float32 --set optim.precision=float32",
        ),
        (["sample", "1 + 1", PRECISIONS["rollout"]], "rollout.precision=float32"),
    ],
)
def test_it_is_said_with_the_layer_and_what_to_type(words, remedy, wide_model):
    result = invoke(*words, "--model", str(wide_model))
    assert result.exit_code == 2
    error = result.stderr.splitlines()[-1]
    assert (
        f"--model {wide_model}: it cannot compute in float16, whose numbers end at 65504" in error
    )
    assert error.endswith(f"take --set {remedy}")


def test_the_same_model_goes_in_float32(wide_model):
    result = invoke("sample", "1 + 1", "-n", "1", "--max-tokens", "2", "--model", str(wide_model))
    assert result.exit_code == 0, result.stderr


def test_the_largest_activation_is_found_by_its_layer():
    model = random_model()
    sample = ([2, 3], [4, 5])
    usual = largest_activation(model, sample).size
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight.mul_(1e6)
    layer, size = largest_activation(model, sample)
    assert layer == "model.layers.1.mlp.down_proj"
    assert usual < 100 < 1e5 < size
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight.fill_(torch.nan)
    assert largest_activation(model, sample) == ("model.layers.0.mlp.up_proj", torch.inf)


def test_an_engine_in_float16_says_what_to_type():
    assert str(not_finite("float16")).endswith("take --set rollout.precision=float32")
    assert "--set" not in str(not_finite("bfloat16"))
