"""Several processes load a model by shard: what each holds, and what it computes with that."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path

import pytest
import torch
from conftest import quantizes
from families import family_config
from loading_process import chosen
from side_by_side import environments, side_by_side
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM

from rlvr_cli.data.prompts import forward_samples
from rlvr_cli.model.adapter import add_adapter, merged_parameters
from rlvr_cli.model.forward import float32_logprobs
from rlvr_cli.model.loading import load_model
from rlvr_cli.model.policy import weights_digest
from rlvr_cli.model.quantized import quantize, quantized_numbers
from rlvr_cli.ranks.group import make_whole, world
from rlvr_cli.ranks.process import rank

MIB = 1 << 20
PROCESS = str(Path(__file__).parent / "loading_process.py")


def model_directory(place: Path, family: str, dtype: torch.dtype, **sizes: int) -> Path:
    """A random model of a family with the built-in policy's tokenizer."""
    tokenizer = load_model("tiny").tokenizer
    config = family_config(family)
    config.vocab_size = len(tokenizer)
    config.max_position_embeddings = 512
    config.eos_token_id = tokenizer.eos_token_id
    if sizes:
        layers = sizes["num_hidden_layers"]
        config = type(config).from_dict({**config.to_dict(), **sizes, "layer_types": None})
        assert len(config.layer_types) == layers
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(config).to(dtype)
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def sizes_of_loading(processes: int, directory: Path, work: str) -> list[list[int]]:
    """The bytes of a model, of a layer, and the most that each of several processes holds."""
    files = [directory.parent / f"sizes-{number}" for number in range(processes)]
    started = [
        subprocess.Popen(
            [sys.executable, PROCESS, str(directory), str(file), work],
            env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for file, environment in zip(files, environments(processes), strict=True)
    ]
    try:
        for process in started:
            assert process.wait(timeout=900) == 0
    finally:
        for process in started:
            process.kill()  # one that waits for one that failed
    return [json.loads(file.read_text()) for file in files]


def test_a_process_reads_its_part_of_a_model_alone(tmp_path):
    """160 MiB in float32, of which the file has half: a process that held all would be at 160."""
    sizes = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 10}
    directory = model_directory(tmp_path / "model", "qwen2-tied", torch.bfloat16, **sizes)
    for size, layer, peak in sizes_of_loading(2, directory, "load"):
        assert size > 150 * MIB
        assert size / 2 <= peak
        assert peak <= size / 2 + layer + 32 * MIB  # of the libraries, with any model


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_a_process_needs_its_part_and_a_layer_until_the_engine_starts(processes, tmp_path):
    sizes = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 18}
    directory = model_directory(tmp_path / "model", "qwen2-tied", torch.bfloat16, **sizes)
    for _ in range(3):  # what a machine adds now and then is not needed: one run within is proof
        sizes = sizes_of_loading(processes, directory, "check")
        assert all(size > 1000 * MIB for size, _, _ in sizes)
        if all(peak <= 1.15 * (size / processes + layer) for size, layer, peak in sizes):
            return
    pytest.fail(f"(model, layer, peak) of each process in bytes: {sizes}")


def figures(directory: Path, place: Path) -> None:
    """What a model is and computes, from the file to the moment before it is sharded for good."""
    loaded = load_model(str(directory), on_cpu=True)
    model = loaded.model
    assert any(isinstance(p.data, DTensor) for p in model.parameters()) == (world() > 1)
    gap = chosen(loaded)
    digest = weights_digest(model.parameters())
    add_adapter(model, 2, 4, "all-linear", seed=0)
    samples = forward_samples(loaded.tokenizer, loaded.context)
    logprobs = float32_logprobs(model, len(loaded.tokenizer), samples)
    merged = {name: float(tensor.sum()) for name, tensor in merged_parameters(model)}
    copied = deepcopy(model)
    make_whole(copied)
    assert not any(isinstance(p.data, DTensor) for p in copied.parameters())
    is_tied = copied.get_output_embeddings().weight is copied.get_input_embeddings().weight
    assert torch.equal(logprobs, float32_logprobs(copied, len(loaded.tokenizer), samples))
    result = [gap, digest, logprobs.tolist(), merged, is_tied]
    (place / f"figures-{world()}-{rank()}").write_text(json.dumps(result))


def figures_in_nf4(directory: Path, place: Path) -> None:
    """The codes of a model's weights, and what it computes with them."""
    loaded = load_model(str(directory), on_cpu=True)
    quantize(loaded.model)
    codes = [int(numbers.sum()) for numbers in quantized_numbers(loaded.model)]
    samples = forward_samples(loaded.tokenizer, loaded.context)
    logprobs = float32_logprobs(loaded.model, len(loaded.tokenizer), samples)
    result = [codes, logprobs.tolist()]
    (place / f"figures-{world()}-{rank()}").write_text(json.dumps(result))


@pytest.mark.parametrize(
    ("family", "is_tied"),
    [
        ("qwen2-tied", True),
        pytest.param("qwen2-moe", False, marks=pytest.mark.slow),
        pytest.param("gpt2", True, marks=pytest.mark.slow),
    ],
)
def test_shards_compute_what_whole_weights_do_to_the_bit(family, is_tied, tmp_path):
    directory = model_directory(tmp_path / family, family, torch.float32)
    alone = of_two_and_of_one(partial(figures, directory, tmp_path), tmp_path)
    assert alone[-1] == is_tied


@quantizes
def test_shards_are_quantized_as_whole_weights_are(tmp_path):
    directory = model_directory(tmp_path / "model", "qwen2-moe", torch.float32)
    codes, _ = of_two_and_of_one(partial(figures_in_nf4, directory, tmp_path), tmp_path)
    assert len(codes) > 2


def of_two_and_of_one(work: Callable[[], None], place: Path) -> list:
    """Check that each of two processes finds what one alone does, and return that."""
    work()  # the first, so that the two are forked with what it imports
    side_by_side(2, work, place)
    alone = json.loads((place / "figures-1-0").read_text())
    for number in range(2):
        assert json.loads((place / f"figures-2-{number}").read_text()) == alone
    return alone
