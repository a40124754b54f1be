"""Every recipe resolves, names sets that there are, and passes the preflight on a small random
model of its architecture."""

import os
from itertools import chain
from pathlib import Path

import pytest
import yaml
from conftest import invoke, jsonl
from families import family_config
from transformers import AutoModelForCausalLM

import rlvr_cli
from rlvr_cli.data.sources import find_spec
from rlvr_cli.model.loading import load_model

ROOT = Path(rlvr_cli.__file__).parents[1]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
FAMILIES = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": "llama",
    "deepseek-ai/deepseek-math-7b-instruct": "llama",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": "qwen2-untied",
    "Qwen/Qwen2.5-7B": "qwen2-untied",
    "Qwen/Qwen2.5-7B-Instruct": "qwen2-untied",
    "Qwen/Qwen2.5-3B": "qwen2-tied",
    "Qwen/Qwen2.5-1.5B": "qwen2-tied",
    "Qwen/Qwen2.5-1.5B-Instruct": "qwen2-tied",
    "Qwen/Qwen2.5-0.5B-Instruct": "qwen2-tied",
    "Qwen/Qwen2.5-Coder-0.5B-Instruct": "qwen2-tied",
}
LEARNS_NOTHING = "rlvr: error: a run like this would learn nothing: see the warning about the probe"


def printed(recipe: Path) -> dict:
    result = invoke("train", "--config", recipe, "--print-config")
    assert result.exit_code == 0, result.stderr
    return yaml.safe_load(result.stdout)


@pytest.fixture(scope="module")
def problems(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("data") / "problems.jsonl"
    file.write_text(jsonl(*({"problem": f"What is {n} + 1?", "answer": n + 1} for n in range(9))))
    return file


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A random model of a family with the built-in policy's tokenizer, as a directory."""

    def make(family: str) -> Path:
        directory = tmp_path_factory.getbasetemp() / family
        if not directory.exists():
            tokenizer = load_model("tiny").tokenizer
            config = family_config(family)
            config.vocab_size = len(tokenizer)
            config.max_position_embeddings = 1024
            config.eos_token_id = tokenizer.eos_token_id
            AutoModelForCausalLM.from_config(config).save_pretrained(directory)
            tokenizer.save_pretrained(directory)
        return directory

    return make


SHORT = ("--prompts", 2, "-n", 4, "--max-tokens", 16, "--set", "eval.limit=0", "--limit", 64)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_passes_the_preflight_with_a_small_model(recipe, small, problems):
    requested = printed(recipe)
    model = "tiny" if requested["model"] == "tiny" else small(FAMILIES[requested["model"]])
    command = ["train", "--config", recipe, "--model", model, "--check"]
    if model != "tiny":
        command.append(problems)
    checked = invoke(*command, *SHORT)
    (*_, last) = checked.stderr.strip().splitlines()
    if checked.exit_code:  # of a random model, which is never right
        assert (model == "tiny", last) == (False, LEARNS_NOTHING), checked.stderr
    else:
        assert "nothing stands in the way of this run" in last
    assert "memory" in checked.stderr


@pytest.mark.slow
def test_the_recipe_of_half_a_billion_passes_the_preflight_with_its_model(shared_data):
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlvr"
    model = cache / "Qwen2.5-Coder-0.5B-Instruct"
    if not (model / "model.safetensors").is_file():
        pytest.skip("no Qwen2.5-Coder-0.5B-Instruct in the cache: ../shared/tools makes it")
    recipe = ROOT / "recipes" / "qwen2.5-0.5b-gsm8k.yaml"
    command = ["train", "--config", recipe, "--model", model, "-n", 4, "--max-tokens", 40]
    for setting in ("eval.limit=0", "data.limit=2", f"data.root={shared_data}"):
        command += ["--set", setting]
    result = invoke(*command, "--check")
    lines = result.stderr.splitlines()
    assert any(line.startswith("golds      2 of 2") for line in lines), result.stderr
    assert any(
        line.startswith("probe      2 problems, 8 responses: format right") for line in lines
    )
    assert (result.exit_code, lines[-1]) == (2, LEARNS_NOTHING) or result.exit_code == 0


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_names_sets_that_there_are(recipe):
    requested = printed(recipe)
    sources = requested["data"]["source"], requested["eval"]["source"]
    for name in chain.from_iterable(s if isinstance(s, list) else [s] for s in sources):
        assert name is None or name.startswith("problems/") or find_spec(name) is not None


def test_the_recipe_of_the_built_in_policy_is_the_default_run():
    default = invoke("train", "--algo", "dapo", "--print-config").stdout
    assert printed(ROOT / "recipes" / "builtin.yaml") == yaml.safe_load(default)


def test_the_papers_numbers_stand_in_their_recipes():
    dapo, grpo, ppo, just = (
        printed(ROOT / "recipes" / f"{name}.yaml")
        for name in ("paper-dapo", "paper-grpo", "paper-ppo", "justrl")
    )
    clip = just["algorithm"]["surrogate"]
    none = ("kl", "filter", "overlong")
    assert (clip["kind"], clip["low"], clip["high"]) == ("clip", 0.2, 0.28)
    assert [just["algorithm"][name] for name in none] == [None] * 3
    assert (dapo["rollout"]["prompts"], dapo["rollout"]["samples"]) == (512, 16)
    assert dapo["algorithm"]["mini_batches"] == 16
    assert dapo["algorithm"]["overlong"]["cache"] * dapo["rollout"]["max_tokens"] == 4096
    assert grpo["rollout"]["prompts"] * grpo["rollout"]["samples"] == 1024
    assert (grpo["algorithm"]["kl"]["kind"], grpo["algorithm"]["kl"]["coef"]) == ("k3", 0.04)
    gae = ppo["algorithm"]["advantage"]
    assert (gae["gamma"], gae["lam"], gae["critic"]["clip"]) == (0.99, 0.95, None)
    assert (ppo["algorithm"]["kl"], ppo["algorithm"]["epochs"]) == (None, 10)
