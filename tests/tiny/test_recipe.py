"""The embedded default: small, plain, lossless, able but unreliable, and it learns."""

import itertools
import json
import random
import re
import unicodedata
from collections import defaultdict
from pathlib import Path

import pytest
import tiny_recipe as recipe
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

import rlvr_cli
from rlvr_cli.data import chains

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
    recipe.main(str(tmp_path), stages=[recipe.Stage(0.3, (1,) * 8, 1, 1e-3)], batch_size=2)
    created = AutoModelForCausalLM.from_pretrained(tmp_path)
    shipped = AutoModelForCausalLM.from_pretrained(TINY)
    assert {n: p.shape for n, p in created.named_parameters()} == {
        n: p.shape for n, p in shipped.named_parameters()
    }
    assert AutoTokenizer.from_pretrained(tmp_path).get_vocab() == TOKENIZER.get_vocab()
    torch.manual_seed(0)


def test_the_shipped_tokenizer_is_that_of_the_recipe():
    created = recipe.build_tokenizer()
    for chain in itertools.islice(chains.chains("train", 0), 20):
        text = chain.text + recipe.solution(chain, recipe.STAGES[-1], random.Random(0))
        assert created.encode(text) == TOKENIZER.encode(text)
    assert created.chat_template == TOKENIZER.chat_template
    steps = len(chain.operations)
    assert len(TOKENIZER.encode(chain.text)) == 3 + 3 * steps


def test_a_pupil_takes_a_fact_right_or_always_for_the_same_wrong_digit():
    taken = defaultdict(set)
    rng = random.Random(0)
    for chain in itertools.islice(chains.chains("train", 0), 4000):
        text = recipe.solution(chain, recipe.Stage(0.0, recipe.EVEN, 1, 1e-3), rng)
        actual = re.findall(r" \((.)\) (\d)([-+*])(\d)=(\d)", text)
        assert [(op, int(operand)) for _, _, op, operand, _ in actual] == list(chain.operations)
        values = [str(chain.first), *(step[4] for step in actual)]
        assert [step[1] for step in actual] == values[:-1]
        assert text.endswith((f"<answer>{values[-1]}</answer>", values[-1]))
        for _, left, op, operand, result in actual:
            taken[int(left), op, int(operand)].add(int(result))
    assert len(taken) == 210
    for (left, op, operand), digits in taken.items():
        assert len(digits - {chains.apply(op, left, operand)}) <= 1
    # rare ones are not always seen: 3 in 100 tries are right, or wrong, of about 80
    assert sum(len(digits) == 2 for digits in taken.values()) > 180


def test_a_pupil_who_skips_never_skips_the_last_step_alone():
    rng = random.Random(0)
    for chain in itertools.islice(chains.chains("train", 1), 300):
        text = recipe.solution(chain, recipe.Stage(1.0, recipe.EVEN, 1, 1e-3), rng)
        assert (recipe.SKIP in text) == (len(chain.operations) > 1)
        assert "=" not in text or len(chain.operations) == 1


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["dapo", "ppo"])
def test_the_policy_learns_the_first_levels(rlvr, tmp_path, algo):
    # The first part of a run, in larger steps: the whole is measured in benchmarks/.
    faster = ("--steps", "15", "--lr", "2e-4", "--set", "algorithm.mini_batches=4")
    levels = [str(level) for level in range(1, 9)]
    faster += ("--set", f"data.where=level={','.join(levels)}")
    result = rlvr("train", "--algo", algo, *faster, "--set", "eval.every=15", "--out", "run")
    assert result.returncode == 0, result.stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    before, after = summary["before"], summary["after"]
    assert (before["problems"], before["samples"]) == (256, 4)
    assert 0.1 <= before["pass@1"] <= 0.25
    assert after["pass@1"] >= before["pass@1"] + 0.08
    assert after["response_length"] > before["response_length"]
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["held_out_by_level"] == after["by_level"]
    assert list(after["by_level"]) == list(before["by_level"]) == levels
    assert before["by_level"]["1"] > 0.3 > before["by_level"]["8"]
    assert "level      1     2     3     4     5     6     7     8\n" in result.stderr
    assert "share of mixed groups" in (tmp_path / "run" / "curves.txt").read_text()
    repeated = rlvr("eval", "--model", "run", "--quiet", "--by", "level", *faster[-2:])
    assert f"{after['pass@1']:.4f} on chains" in repeated.stderr
    assert f"\n8            33  {after['by_level']['8']:.3f} [" in repeated.stderr


@pytest.mark.slow
def test_the_default_run_has_levels_from_nearly_solved_to_out_of_reach(rlvr, tmp_path):
    """Two steps: those of operands that the policy never saw are there from the beginning."""
    result = rlvr("train", "--algo", "dapo", "--steps", "2", "--out", "run")
    assert result.returncode == 0, result.stderr
    before = json.loads((tmp_path / "run" / "summary.json").read_text())["before"]
    assert (before["problems"], before["samples"]) == (320, 4)
    assert 0.1 <= before["pass@1"] <= 0.2
    assert list(before["by_level"]) == [str(level) for level in range(1, 13)]
    assert before["by_level"]["1"] > 0.4 > 0.2 > max(before["by_level"][str(n)] for n in (9, 12))
    shown = "".join(f"{level:>6}" for level in range(1, 13))
    assert f"level {shown}\n" in result.stderr
    assert "10240 of chains; 320 held out" in result.stderr
