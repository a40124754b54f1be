"""Several processes load a model by shard: what each holds, and what it computes with that."""

import ctypes
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path

import pytest
import torch
from conftest import quantizes
from families import family_config
from side_by_side import side_by_side
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from rlvr_cli.data.prompts import forward_samples
from rlvr_cli.model.adapter import add_adapter, merged_parameters
from rlvr_cli.model.forward import choose_forward, float32_logprobs
from rlvr_cli.model.loading import LoadedModel, load_model
from rlvr_cli.model.policy import decoder_layers, weights_digest
from rlvr_cli.model.quantized import quantize, quantized_numbers
from rlvr_cli.ranks.group import make_whole, world
from rlvr_cli.ranks.process import rank

MIB = 1 << 20
MMAP_THRESHOLD = -3  # of mallopt: allocations of so many bytes are given back when they are freed


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


def resident() -> int:
    """The bytes of this process that no file backs."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


@contextmanager
def watched() -> Iterator[list[int]]:
    """Note the memory above that at the beginning, every two milliseconds."""
    library = ctypes.CDLL(None)
    library.malloc_trim(0)  # what the parent has freed would be taken again unseen
    library.mallopt(MMAP_THRESHOLD, 128 << 10)  # what the parent freed raises it: holes then count
    before = resident()
    above = [0]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.002):
            above.append(resident() - before)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield above
    finally:
        ended.set()
        thread.join()


def size_of(model: PreTrainedModel) -> int:
    return sum(4 * parameter.numel() for parameter in model.parameters())


def chosen(loaded: LoadedModel) -> float:
    """Check a model as a session does; return its difference from its own pass."""
    samples = forward_samples(loaded.tokenizer, loaded.context)
    return choose_forward(loaded.model, len(loaded.tokenizer), samples, loaded.context).gap


def loads_its_part(directory: Path, place: Path, checks: bool) -> None:
    with watched() as above:
        loaded = load_model(str(directory), on_cpu=True)
        if checks:
            chosen(loaded)
            weights_digest(loaded.model.parameters())
    layer = size_of(decoder_layers(loaded.model)[0])
    sizes = (size_of(loaded.model), layer, max(above))
    (place / f"sizes-{rank()}").write_text(json.dumps(sizes))


def test_a_process_reads_its_part_of_a_model_alone(tmp_path):
    """160 MiB in float32, of which the file has half: a process that held all would be at 160."""
    sizes = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 10}
    directory = model_directory(tmp_path / "model", "qwen2-tied", torch.bfloat16, **sizes)
    side_by_side(2, partial(loads_its_part, directory, tmp_path, checks=False), tmp_path)
    for number in range(2):
        size, layer, peak = json.loads((tmp_path / f"sizes-{number}").read_text())
        assert size > 150 * MIB
        assert peak >= size / 4  # part of it may lie in memory that the worker has already
        assert peak <= size / 2 + layer + 32 * MIB  # of the libraries, with any model


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_a_process_needs_its_part_and_a_layer_until_the_engine_starts(processes, tmp_path):
    sizes = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 18}
    directory = model_directory(tmp_path / "model", "qwen2-tied", torch.bfloat16, **sizes)
    side_by_side(processes, partial(loads_its_part, directory, tmp_path, checks=True), tmp_path)
    for number in range(processes):
        size, layer, peak = json.loads((tmp_path / f"sizes-{number}").read_text())
        assert size > 1000 * MIB
        assert peak <= 1.15 * (size / processes + layer)


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
