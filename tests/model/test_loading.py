"""Which directory a name stands for, and what of a model is not loaded."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from small_models import random_model
from transformers import GenerationConfig

import rlvr_cli
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import MANIFEST, sha256
from rlvr_cli.model.loading import cast, load_model, model_directory, model_files, read_config

TINY = Path(rlvr_cli.__file__).parent / "tiny"


@pytest.fixture
def copy(tmp_path):
    """A copy of the built-in model."""
    return Path(shutil.copytree(TINY, tmp_path / "model", ignore=shutil.ignore_patterns("*.py")))


def changed(path: Path, **values) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_run_stands_for_its_newest_checkpoint(tmp_path, monkeypatch):
    for name in ("step-9", "step-10", "step-11", "step-x", "astep-99", "step-12.old"):
        (tmp_path / "run/checkpoints" / name).mkdir(parents=True)
        if name != "step-11":
            (tmp_path / "run/checkpoints" / name / "config.json").write_text("{}")
    newest = tmp_path / "run/checkpoints/step-10"
    assert model_directory(str(tmp_path / "run")) == newest
    assert model_directory(str(newest)) == newest
    monkeypatch.chdir(tmp_path)
    assert model_directory("run") == Path("run/checkpoints/step-10")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./gone", "no such directory"),
        ("/gone", "no such directory"),
        ("runs/gone", "no such directory"),
        ("a/b/c", "no such directory"),
        ("empty", "no config.json and no checkpoints/step-N in it"),
    ],
)
def test_a_path_without_a_model_is_no_hub_id(name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=f"^{re.escape(f'--model {name}: {message}')}$"):
        model_directory(name)


def test_other_names_are_hub_ids(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [model_directory(name) for name in ("org/model", "gpt2")] == ["org/model", "gpt2"]
    assert (model_directory("tiny"), model_files("tiny")) == (TINY, TINY)
    for load in (model_files, read_config, load_model):
        with pytest.raises(UserError, match="no such directory, and as a hub id it cannot be load"):
            load("no-one/has-this")


def test_a_model_is_loaded_in_float32_without_dropout_and_with_every_end_token(copy):
    changed(copy / "generation_config.json", eos_token_id=[7, 300], top_k=5, temperature=0.3)
    changed(copy / "config.json", eos_token_id=[3, 99_999, 7], max_position_embeddings=77)
    loaded = load_model(str(copy))
    own = loaded.tokenizer.eos_token_id
    assert loaded.stop_ids == tuple(sorted({3, 7, own}))
    assert (loaded.context, loaded.directory) == (77, copy)
    assert not loaded.model.training
    assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}
    retained = loaded.model.generation_config
    assert retained.eos_token_id == [7, 300]
    assert (retained.top_k, retained.temperature) == (GenerationConfig().top_k, None)
    changed(copy / "config.json", eos_token_id="end")
    with pytest.raises(UserError, match="eos_token_id"):
        load_model(str(copy))


def test_a_tokenizer_of_another_model_is_refused(copy):
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    last = max(token["id"] for token in tokenizer["added_tokens"])
    extra = {**tokenizer["added_tokens"][-1], "id": last + 1, "content": "<|one more|>"}
    (copy / "tokenizer.json").write_text(
        json.dumps({**tokenizer, "added_tokens": [*tokenizer["added_tokens"], extra]})
    )
    message = f"the tokenizer has {last + 2} tokens and the output layer {last + 1}"
    with pytest.raises(UserError, match=message):
        load_model(str(copy))


def test_a_damaged_checkpoint_is_refused_but_for_the_trainers_part(copy):
    (copy / "trainer").mkdir()
    (copy / "trainer/state.json").write_text("{}")
    files = [path for path in copy.rglob("*") if path.is_file()]
    sums = {str(path.relative_to(copy)): sha256(path) for path in files}
    (copy / MANIFEST).write_text(json.dumps(sums))
    (copy / "trainer/state.json").write_text("other")
    assert load_model(str(copy)).directory == copy
    changed(copy / "config.json", max_position_embeddings=77)
    with pytest.raises(UserError, match=r"is damaged: .*config\.json differs; take another check"):
        load_model(str(copy))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: (d / "tokenizer.json").unlink(), "its tokenizer keeps nothing of a text"),
        (
            lambda d: changed(d / "config.json", vocab_size=10**7),
            r"config.json describes [\d,]+ parameters, but",
        ),
        (lambda d: (d / "config.json").write_text("{"), "config.json is not a JSON object"),
        (
            lambda d: changed(d / "config.json", model_type="qwen99"),
            r"transformers [\d.]+ has no model of the type 'qwen99'; a newer one may: pip install",
        ),
    ],
)
def test_what_is_wrong_with_a_model_is_one_line(copy, change, message):
    change(copy)
    with pytest.raises(UserError, match=rf"^--model {copy}: cannot be loaded \({message}.*\)$"):
        load_model(str(copy))


def test_in_16_bits_the_rotary_frequencies_stay_what_they_are():
    """They are multiplied by positions: one rounded to 8 bits is radians off after a thousand."""
    model = random_model()
    exact = [buffer.clone() for buffer in model.buffers()]
    assert cast(model, torch.bfloat16) is model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert exact
    assert all(map(torch.equal, exact, model.buffers()))
