"""A stranger's tokenizer that explodes is refused in one line, before it is used."""

import json
import sys
from pathlib import Path

import pytest
from conftest import invoke

from rlvr_cli.core.errors import UserError
from rlvr_cli.model import tokenizer
from rlvr_cli.model.tokenizer import BUILT_IN, TRIAL_TEXTS, load_tokenizer
from verifiers.workers.cage import descendants

sys.path.insert(0, str(Path(__file__).parents[1] / "hostile"))

from strange_models import config, model_at

GROWING = [{"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 1000}] * 4
PARTS = {
    "normalizer": {"normalizer": {"type": "Sequence", "normalizers": GROWING}},
    "decoder": {"decoder": {"type": "Sequence", "decoders": GROWING}},
    "pre-tokenizer": {
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": r"(x+x+)+y"},
            "behavior": "Isolated",
            "invert": False,
        }
    },
    "post-processor": {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"Sequence": {"id": "A", "type_id": 0}},
                *[{"SpecialToken": {"id": "X", "type_id": 0}}] * 1000,
            ],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
            ],
            "special_tokens": {"X": {"id": "X", "ids": [0] * 20_000, "tokens": ["!"] * 20_000}},
        }
    },
}


def with_parts(**parts):
    """The built-in tokenizer with parts replaced."""

    def spoil(directory: Path) -> None:
        path = directory / "tokenizer.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **parts}))

    return spoil


@pytest.mark.parametrize("model_type", ["llama", "smollm3", "granite", "olmo2", "mistral"])
@pytest.mark.parametrize("part", PARTS)
def test_a_tokenizer_that_explodes_is_refused(part, model_type, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizer, "TRIAL_BYTES", 256 << 20)
    model = model_at(tmp_path / "m", with_parts(**PARTS[part]), config(model_type=model_type))
    before = set(descendants())  # workers of earlier tests
    with pytest.raises(UserError, match=r"^its tokenizer cannot be used: on 4,000 characters of "):
        load_tokenizer(model, model)
    assert set(descendants()) <= before


def test_a_normalizer_that_explodes_over_a_token_of_its_own_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizer, "TRIAL_BYTES", 256 << 20)
    added = json.loads((BUILT_IN / "tokenizer.json").read_text())["added_tokens"]
    added.append({**added[-1], "id": 275, "content": "here", "normalized": True})
    parts = {**PARTS["normalizer"], "added_tokens": added}
    model = model_at(tmp_path / "m", with_parts(**parts), config(model_type="llama"))
    with pytest.raises(UserError, match=r"^its tokenizer cannot be "):
        load_tokenizer(model, model)


def test_it_is_one_line_of_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizer, "TRIAL_BYTES", 256 << 20)
    model = model_at(tmp_path / "m", with_parts(**PARTS["decoder"]), config(model_type="llama"))
    result = invoke("eval", "chains", "-n", "1", "--model", model)
    assert result.exit_code == 2
    line = result.stderr.splitlines()[-1]
    assert line.startswith(f"rlvr: error: --model {model}: cannot be loaded (its tokenizer cannot")


def test_an_ordinary_tokenizer_is_used_and_may_refuse_a_text(tmp_path):
    model = model_at(tmp_path / "m")
    loaded = load_tokenizer(model, model)
    assert loaded.decode(loaded.encode("1 + 1")) == "1 + 1"
    words = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "gone"}
    model = model_at(tmp_path / "n", with_parts(model=words), config(model_type="llama"))
    assert load_tokenizer(model, model).encode("a", add_special_tokens=False) is not None


def test_the_texts_are_4000_characters_of_several_scripts():
    text = "".join(TRIAL_TEXTS)
    assert len(text) == 4_000
    assert {*map(chr, range(0x20, 0x7F)), *"éЖשم가あ中√"} <= {*text}
