"""The one door to a model's files: no code, no gap, no size without a bound."""

import ast
import json
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

import rlvr_cli
from rlvr_cli.core.errors import UserError
from rlvr_cli.model.pretrained import (
    check_files,
    check_settings,
    described_model,
    from_pretrained,
    model_from_pretrained,
)

PACKAGE = Path(rlvr_cli.__file__).parent
TINY = PACKAGE / "tiny"
DOOR = "model/pretrained.py"
RUNS_CODE = {"eval", "exec", "compile", "__import__"}
LOADS = {"from_pretrained", "from_config", "pipeline"}
UNPICKLES = {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def calls(path: Path) -> list[tuple[str, bool, ast.Call]]:
    """(last part of the name, whether it is a bare name, the call)."""
    actual = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                actual.append((node.func.attr, False, node))
            elif isinstance(node.func, ast.Name):
                actual.append((node.func.id, True, node))
    return actual


def keyword(call: ast.Call, name: str) -> object:
    values = [item.value for item in call.keywords if item.arg == name]
    return values[0].value if values and isinstance(values[0], ast.Constant) else None


def test_everything_is_loaded_through_one_door_that_never_trusts():
    for path in PACKAGE.rglob("*.py"):
        name = str(path.relative_to(PACKAGE))
        for called, bare, call in calls(path):
            loads = called in LOADS and not (bare and called == "from_pretrained")
            if loads or called == "LLM":
                assert keyword(call, "trust_remote_code") is False, f"{name}:{call.lineno}"
                assert name == DOOR or called == "LLM", f"{name}:{call.lineno}"


def test_nothing_in_the_program_runs_or_unpickles_what_it_reads():
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text()
        for called, bare, call in calls(path):
            place = f"{path}:{call.lineno}"
            assert not (bare and called in RUNS_CODE), place
            assert ast.unparse(call.func) not in ("torch.load", "yaml.unsafe_load"), place
            if ast.unparse(call.func) == "yaml.load":
                assert "Loader" in ast.unparse(call.args[1]), place
        for node in ast.walk(ast.parse(source)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & UNPICKLES, path


def test_the_door_says_no_and_passes_the_rest_on():
    class Kind:
        @staticmethod
        def from_pretrained(source, **options):
            return source, options

    assert from_pretrained(Kind, "m", dtype=1) == ("m", {"trust_remote_code": False, "dtype": 1})
    with pytest.raises(TypeError):
        from_pretrained(Kind, "m", trust_remote_code=True)


def test_tied_weights_are_not_missing():
    model = model_from_pretrained(AutoModelForCausalLM, TINY)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert described_model(model.config).num_parameters() == model.num_parameters()


def test_an_attention_of_the_hub_is_not_asked_for(monkeypatch):
    """A configuration may name a kernel, which transformers would fetch and run."""
    from transformers import Qwen2Config, modeling_utils

    requested = []
    monkeypatch.setattr(modeling_utils, "is_kernel", lambda name: requested.append(name) or False)
    config = Qwen2Config.from_pretrained(TINY, attn_implementation="evil/kernel")
    assert described_model(config).num_parameters() > 0
    assert "evil/kernel" not in requested


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("num_hidden_layers", 0),
        ("num_hidden_layers", 10**6),
        ("n_layer", True),
        ("num_attention_heads", "8"),
        ("hidden_size", -1),
        ("vocab_size", 10**9),
        ("num_local_experts", 10**6),
        ("max_position_embeddings", 1e400),
    ],
)
@pytest.mark.parametrize("part", [None, "text_config"])
def test_sizes_that_no_model_has(setting, value, part, tmp_path):
    values = {setting: value} if part is None else {part: {setting: value}}
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match=rf"config.json: {setting} must be from \d to \d+, not "):
        check_settings(tmp_path)


def test_sizes_that_models_have(tmp_path):
    sizes = {"num_hidden_layers": 126, "hidden_size": 16384, "vocab_size": 262_144}
    sizes |= {"num_key_value_heads": None, "intermediate_size": [1, 2], "n_routed_experts": 0}
    (tmp_path / "config.json").write_text(json.dumps({**sizes, "max_position_embeddings": 10**7}))
    check_settings(tmp_path)


def test_links_into_a_cache_are_files_like_others(tmp_path):
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "a").write_text("{}")
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").symlink_to("../blobs/a")
    check_files(tmp_path / "m")


def test_the_private_names_of_transformers_that_are_read_are_there():
    """Read from transformers 5.19: `stored_weights` and `choose_forward` look at these."""
    model = AutoModelForCausalLM.from_pretrained(TINY)
    assert hasattr(model, "_keys_to_ignore_on_save")
    assert model.config._attn_implementation in ("sdpa", "eager")
