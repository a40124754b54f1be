"""The embedded default: small, plain, lossless, able but unreliable, and it learns."""

import json
import unicodedata
from pathlib import Path

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

import rlvr_cli
from rlvr_cli.tiny import recipe as warm_start

TINY = Path(rlvr_cli.__file__).parent / "tiny"
TOKENIZER = AutoTokenizer.from_pretrained(TINY)


def test_it_is_a_small_plain_model_directory():
    model = AutoModelForCausalLM.from_pretrained(TINY)
    assert model.num_parameters() <= 2_000_000
    assert sum(path.stat().st_size for path in TINY.iterdir()) <= 5_000_000
    assert model.config.model_type == "qwen2"
    assert model.generation_config.eos_token_id == TOKENIZER.eos_token_id


@given(st.text())
@example("\uf900")
def test_any_text_round_trips(text):
    """Up to Unicode's canonical form, which transformers puts before every tokenizer of Qwen2's."""
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    assert TOKENIZER.decode(ids, skip_special_tokens=False) == unicodedata.normalize("NFC", text)
    assert all(0 <= token < len(TOKENIZER) for token in ids)


def test_the_recipe_runs_and_makes_such_a_directory(tmp_path):
    warm_start.main(str(tmp_path), stages=[(warm_start.Sloppiness(0.5), 1, 1e-3)], batch_size=2)
    made = AutoModelForCausalLM.from_pretrained(tmp_path)
    shipped = AutoModelForCausalLM.from_pretrained(TINY)
    assert {n: p.shape for n, p in made.named_parameters()} == {
        n: p.shape for n, p in shipped.named_parameters()
    }
    assert AutoTokenizer.from_pretrained(tmp_path).get_vocab() == TOKENIZER.get_vocab()
    torch.manual_seed(0)


@pytest.mark.parametrize("algo", ["dapo", "grpo", "ppo"])
def test_the_default_run_learns(rlvr, tmp_path, algo):
    # The first part of the default run: the whole of it is measured in benchmarks/.
    done = rlvr("train", "--algo", algo, "--steps", "15", "--out", "run")
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    before, after = summary["before"], summary["after"]
    assert (before["problems"], before["samples"]) == (256, 4)
    assert 0.2 <= before["pass@1"] <= 0.5
    assert after["pass@1"] >= before["pass@1"] + 0.15
    assert "share of mixed groups" in (tmp_path / "run" / "curves.txt").read_text()
    again = rlvr("eval", "--model", "run", "--quiet")
    assert f"{after['pass@1']:.4f} on arithmetic" in again.stderr
