"""What a figure was measured with: equal where it is the same, different where it is not."""

import pytest
import torch
import transformers
from small_groups import made_prompt

import rlvr_cli
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.report import Sampling
from rlvr_cli.core.types import Problem, Prompt, SamplingParams
from rlvr_cli.evaluation.fingerprint import (
    data_hash,
    engine_fingerprint,
    fingerprint,
    fingerprint_differences,
    judge_versions,
    judging_by,
    model_hash,
    prompts_hash,
)


def test_a_fingerprint_says_in_what_two_results_differ(tmp_path):
    ours = {"a": {"b": 1, "c": "x"}, "d": None}
    assert fingerprint_differences(ours, ours) == []
    assert fingerprint_differences(ours, {"a": {"b": 2, "c": "x"}, "e": 0}) == [
        "a.b 1, theirs 2",
        "e none, theirs 0",
    ]
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    before = model_hash(tmp_path)
    (tmp_path / "README.md").write_text("not of the model")
    (tmp_path / "rlvr.yaml").write_text("seed: 1")
    assert model_hash(tmp_path) == before
    (tmp_path / "model.safetensors").write_bytes(b"weightz")
    assert model_hash(tmp_path) != before
    problem = Problem("1", "p", "2", {"level": 3})
    assert data_hash([problem]) == data_hash([Problem("1", "p", "2", {"level": 3})])
    assert data_hash([problem]) != data_hash([Problem("1", "p", "2", {"level": 4})])
    assert data_hash([problem]) != data_hash([problem, problem])


def test_prompts_count_by_their_tokens_in_order():
    first = made_prompt()
    two = Prompt(Problem("z", "other", None), "other", (5, 6), True)
    same = Prompt(two.problem, two.text, first.token_ids, True)
    assert prompts_hash([first]) == prompts_hash([same])
    hashes = [prompts_hash(p) for p in ([], [first], [two], [first, two], [two, first])]
    assert len(set(hashes)) == 5


def test_no_order_of_files_or_fields_counts(tmp_path, monkeypatch):
    ours, reference = ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert data_hash([Problem("1", "p", "2", ours)]) == data_hash(
        [Problem("1", "p", "2", reference)]
    )
    for name in ("config.json", "a.safetensors", "b.safetensors"):
        (tmp_path / name).write_text(name)
    hashes = set()
    for turned in (False, True):
        listing = sorted(tmp_path.iterdir(), reverse=turned)
        with monkeypatch.context() as patch:
            patch.setattr(type(tmp_path), "iterdir", lambda self, listing=listing: iter(listing))
            hashes.add(model_hash(tmp_path))
    assert len(hashes) == 1


def test_which_files_make_a_model(tmp_path):
    observed = {model_hash(tmp_path)}
    created = ("config.json", "generation_config.json", "adapter_config.json", "x.safetensors")
    for name in (*created, "tokenizer.json", "vocab.txt", "merges.txt", "chat_template.jinja"):
        (tmp_path / name).write_text("1")
        observed.add(model_hash(tmp_path))
    assert len(observed) == 9
    (tmp_path / "config.json").rename(tmp_path / "adapter_config.json")
    assert model_hash(tmp_path) not in observed
    before = model_hash(tmp_path)
    (tmp_path / "trainer").mkdir()
    (tmp_path / "my_config.json").write_text("1")
    assert model_hash(tmp_path) == before


def test_a_judge_has_its_versions_and_ours_the_hash_of_its_rules(monkeypatch):
    ours = judging_by("boxed")
    assert fingerprint(ours, data="d").row["rlvr"] == rlvr_cli.__version__
    assert ours.row.keys() == {"format", "version"}
    assert (ours.answer_format, len(ours.version)) == ("boxed", 16)
    peer = judging_by("any", "math-verify")
    assert peer.version == ours.version
    assert (peer.judge, peer.versions) == ("math-verify", judge_versions("math-verify"))
    assert list(peer.row) == ["judge", "versions", "format", "version"]
    with pytest.raises(UserError, match=r"^--judge me: no such judge; choose from rlvr, "):
        judge_versions("me")


def test_every_setting_of_the_sampling_is_a_part():
    base = SamplingParams(4, 100, 0.5, 0.9)
    settings = {"samples": 4, "temperature": 0.5, "top_p": 0.9, "max_tokens": 100, "seed": 3}
    assert Sampling(base, 3).row == settings
    assert Sampling(base, 3, has_max_tokens=False).row == {**settings, "max_tokens": None}
    sampled = {"prompts": "a", "prompt": "Solve {problem}"}
    ours = fingerprint(judging_by("any"), "d", {"model": "m"}, sampled, Sampling(base, 3))
    parts = ["model", "data", "prompts", "prompt", "sampling", "rlvr", "verifier"]
    assert list(ours.row) == parts


def test_the_libraries_and_the_machine():
    actual = engine_fingerprint("transformers", "float32", torch.device("cpu"), 2)["engine"]
    assert actual == {
        "name": "transformers",
        "precision": "float32",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": "cpu",
        "threads": 2,
    }


def test_a_long_part_is_cut_in_a_difference():
    (message,) = fingerprint_differences({"prompt": "x" * 31}, {"prompt": "y" * 30})
    assert message == "prompt 'xxxxxxxxxxxxxxx…', theirs 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy'"
