"""The cards that people own: what the preflight advises on a made card, and the recipe for each."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import memory as table  # benchmarks/memory.py
import pytest
import yaml

import rlvr_cli
from rlvr_cli.config import resolve, set_layer, yaml_layer
from rlvr_cli.core.text import GIB
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.model import policy
from rlvr_cli.model.card import Card
from rlvr_cli.ranks import group
from rlvr_cli.runs.preflight import review_memory
from rlvr_cli.setup import memory, plan
from rlvr_cli.setup.machine import Machine
from rlvr_cli.setup.memory import SAVINGS, Memory, read_shapes, tokens_of_a_pass
from rlvr_cli.setup.plan import EngineChoice, with_values

RECIPES = Path(rlvr_cli.__file__).parents[1] / "recipes"
CARDS = sorted((RECIPES / "cards").glob("*.yaml"))
SIZES = ("0.5B", "1.5B", "3B", "7B")
SHAPES = {size: read_shapes(table.shaped(size, "meta")) for size in SIZES}
GB = {
    12: (11.6, 11.2),
    16: (15.6, 15.2),
    24: (23.6, 23.1),
    40: (39.4, 38.9),
    48: (47.4, 46.8),
    80: (79.2, 78.7),
}
"""GiB of a card's memory, and free, by the GB of its name."""
PROMPT = 256
TO_SPARE = 0.05


@pytest.fixture(autouse=True)
def on_a_card(monkeypatch) -> None:
    """Let the machine have a card of 2022 with vLLM."""
    monkeypatch.setattr(plan, "usable_card", lambda: Card("NVIDIA GeForce RTX 4090", (8, 9)))
    monkeypatch.setattr(plan, "choose_engine", lambda *_: EngineChoice("vllm", "made"))


def planned(*assignments):
    """Settings with what the card decides."""
    return plan.plan_for(resolve(assignments), ProblemSet("", (), "boxed")).config


def memory_of(size: str, gb: int) -> Memory:
    total, free = (int(gib * GIB) for gib in GB[gb])
    return Memory(SHAPES[size], Machine("cuda", total, free), prompt_tokens=PROMPT)


# The least change.


def least_changes(model: Memory, config) -> list[tuple[str, ...]]:
    """All smallest sets of savings that fit, found by trying every set."""
    for count in range(len(SAVINGS) + 1):
        fitting = [
            names
            for names in combinations(SAVINGS, count)
            if ("lora.base" not in names or "lora.rank" in names or config.lora.rank)
            and model.needed(model.saving(config, names)).peak <= model.machine.free
        ]
        if fitting:
            return fitting
    return []


def changed_values(names: tuple[str, ...], model: Memory, config) -> dict[str, object]:
    changed = model.saving(config, names)
    values = {}
    for name in names:
        section, key = name.split(".")
        values[name] = getattr(getattr(changed, section), key)
    return values


def typed(values: dict[str, object]) -> str:
    flags = [
        f"--lora {value}" if name == "lora.rank" else f"--set {name}={value}"
        for name, value in values.items()
    ]
    return " ".join(flags)


SHORT = ("rollout.max_tokens=512",)
OFF = "optim.checkpointing=off"


@pytest.mark.parametrize(
    ("gb", "size", "settings", "expected"),
    [
        (16, "0.5B", ("algo=grpo", *SHORT), "--set optim.moments=8bit"),
        (16, "0.5B", ("algo=grpo", "optim.moments=8bit", *SHORT), ""),
        (16, "0.5B", ("algo=dapo", OFF, *SHORT), "--set optim.checkpointing=on"),
        (16, "1.5B", ("algo=dapo", *SHORT), "--lora 32"),
        (16, "1.5B", ("algo=dapo", "lora.rank=32", OFF), "--set optim.checkpointing=on"),
        (24, "1.5B", ("algo=dapo", *SHORT), "--set optim.weights=bfloat16"),
        (24, "1.5B", ("algo=grpo", *SHORT), "--lora 32"),
        (24, "3B", ("algo=grpo", *SHORT), "--lora 32"),
        (
            24,
            "7B",
            ("algo=dapo", *SHORT),
            "--set optim.weights=bfloat16 --set optim.offload=all",
        ),
        (
            16,
            "3B",
            ("algo=dapo", "lora.rank=32", "rollout.max_tokens=16384"),
            "--set lora.base=nf4",
        ),
        (80, "7B", ("algo=dapo", *SHORT), "--lora 32"),
        (80, "7B", ("algo=ppo", *SHORT), "--lora 32"),
        (12, "3B", ("algo=grpo", "lora.rank=16", *SHORT), "--set optim.offload=all"),
        (40, "7B", ("algo=ppo",), "--lora 32 --set lora.base=nf4"),
        (48, "3B", ("algo=ppo", OFF), "--set optim.checkpointing=on --lora 32"),
    ],
)
def test_the_advice_is_the_least_change(gb, size, settings, expected):
    model = memory_of(size, gb)
    config = model.fitted(planned(*set_layer(settings)))
    smallest = least_changes(model, config)
    cheapest = min(smallest, key=lambda names: [SAVINGS.index(name) for name in reversed(names)])
    values = changed_values(cheapest, model, config)
    assert typed(values) == expected
    if expected:
        assert model.advice(config).startswith(f"{expected} (")
    assignments = [f"{name}={value}" for name, value in values.items()]
    changed = model.fitted(planned(*set_layer((*settings, *assignments))))
    assert model.needed(changed).peak <= model.machine.free
    assert model.sampled_at_once(changed) >= 1


def test_the_share_of_vllm_holds_the_weights():
    """7B in bfloat16: 14.2 GiB, a workspace of 1, and 0.1 for 1,280 tokens: 15.3 of 23.6 GiB."""
    model = memory_of("7B", 24)
    adapted = planned(*set_layer(("algo=dapo", "lora.rank=32", "lora.base=nf4")))
    assert adapted.rollout.gpu_share == 0.5
    fitted = model.fitted(adapted)
    assert fitted.rollout.gpu_share == 0.65
    assert model.sampled_at_once(fitted) >= 1
    assert model.needed(fitted).sampling == {"vLLM": int(0.65 * model.machine.total)}


def test_advice_to_offload_is_for_a_host_that_holds_it():
    """7B: 28.4 GiB of weights as they are read, and 42.6 of gradients and moments in bfloat16."""
    model = memory_of("7B", 24)
    config = model.fitted(planned(*set_layer(("algo=dapo", *SHORT))))
    for gib, flags in (
        (80, "--set optim.weights=bfloat16 --set optim.offload=all"),
        (70, "--lora 32 --set optim.offload=all"),
        (30, "take a smaller model"),
    ):
        machine = replace(model.machine, host=gib * GIB)
        assert replace(model, machine=machine).advice(config).startswith(flags)


def test_what_a_check_counts_is_what_the_engine_does():
    """A base in NF4 whose dequantized copy fitted with short prompts, and with long ones would
    not."""
    config = planned(*set_layer(("algo=dapo", "lora.rank=32", "lora.base=nf4", *SHORT)))
    config = with_values(config, "rollout", kv_budget_mb=64)
    config = config.model_copy(update={"engine": "transformers"})
    model = memory_of("3B", 24)
    need = model.needed(config, dequantizes=True)
    short = replace(model, machine=replace(model.machine, free=need.peak - 1))
    assert short.needed(config).peak < need.peak
    assert review_memory(short, config)[1] == []
    assert len(review_memory(short, config, dequantizes=True)[1]) == 1


@pytest.mark.parametrize("more", [(), ("algo=dapo",)])
def test_24_gb_and_the_recipe_of_1_5b_need_one_change(more):
    recipe = yaml_layer(RECIPES / "qwen2.5-1.5b-gsm8k.yaml")
    model = memory_of("1.5B", 24)
    config = model.fitted(planned(*recipe, *set_layer(more)))
    assert model.needed(config).resident > model.machine.free  # it is refused
    flags, _, size = model.advice(config).rpartition(" (")
    assert size.endswith(" GiB)")
    assert flags.count("--") == 1
    assert more or flags == "--lora 32"


def test_a_pass_has_no_more_tokens_than_a_step():
    """16 responses of 64 tokens to two prompts of 100: 1,224 tokens, of 8,192 that a pass may
    have."""
    few = planned(*set_layer(("rollout.prompts=2", "rollout.samples=8", "rollout.max_tokens=64")))
    assert tokens_of_a_pass(few, 100) == 2 * 100 + 16 * 64
    assert tokens_of_a_pass(with_values(few, "rollout", prompts=32), 100) == 8192
    long = with_values(few, "rollout", max_tokens=9000)
    assert tokens_of_a_pass(long, 100) == 9100


def test_prompts_have_keys_and_values_too():
    config = planned(*set_layer(SHORT))
    row = 28 * 2 * 2 * 128 * 2  # bytes of a token
    assert memory.decoded_row(SHAPES["1.5B"], config, 150).cache == row * (512 + 150)


def test_the_hosts_memory_holds_a_part_of_the_weights_for_each_process(monkeypatch):
    """7B in float32: 28.4 GiB alone, an eighth with the 2 GiB of both ends beside seven others."""
    model = memory_of("7B", 80)
    config = planned(*set_layer(("algo=dapo",)))
    assert model.needed_on_host(config)["weights"] == 4 * SHAPES["7B"].parameters
    assert "a layer of all processes" not in model.needed_on_host(config)
    monkeypatch.setattr(memory, "world", lambda: 8)
    shared = model.needed_on_host(config)
    assert shared["weights"] == 4 * SHAPES["7B"].parameters // 8
    assert shared["a layer of all processes"] == 4 * 2 * 152_064 * 3584
    with_moments = model.needed_on_host(with_values(config, "optim", offload="all"))
    assert with_moments["gradients and AdamW"] == 3 * 4 * SHAPES["7B"].parameters // 8
    eight_bits = with_values(config, "optim", offload="all", moments="8bit")
    per_parameter = 4 + 2 * (1 + 4 / 256)  # a gradient, and two codes with their share of a scale
    assert model.needed_on_host(eight_bits)["gradients and AdamW"] == pytest.approx(
        per_parameter * SHAPES["7B"].parameters / 8
    )
    # In NF4 every process has all codes: 4.5 bits of each weight of the layers, 3.4 GiB in all.
    quantized = with_values(with_values(config, "lora", rank=32), "lora", base="nf4")
    codes = SHAPES["7B"].quantizable * 9 // 16
    others = SHAPES["7B"].parameters - SHAPES["7B"].quantizable
    assert model.needed_on_host(quantized)["weights"] == 4 * others // 8 + codes
    alone = memory_of("7B", 80)
    on_cpu = Memory(alone.model, Machine("cpu", 1 << 40, 1 << 40))
    assert on_cpu.needed_on_host(config) == {}


# The recipes.


def recipe_on_its_card(path: Path, monkeypatch):
    """The memory of a recipe's card, and its settings there."""
    card, _, size = path.stem.rpartition("-")
    count, _, gb = card.removesuffix("gb").rpartition("x")
    for module in (memory, group, policy):
        monkeypatch.setattr(module, "world", lambda: int(count or 1))
    model = memory_of(size.upper(), int(gb))
    return model, planned(*yaml_layer(path)), int(count or 1)


def fits(model: Memory, config, processes: int, free: float) -> bool:
    """Whether an update fits, and the engine samples all responses of a step at once."""
    fitted = model.fitted(config)
    responses = config.rollout.prompts * config.rollout.samples / processes
    return model.needed(fitted).peak <= free and responses <= model.sampled_at_once(fitted)


def faults(model: Memory, config, processes: int) -> list[str]:
    """What speaks against a recipe: too little to spare, or a setting that could be doubled."""
    free = model.machine.free
    found = []
    if not fits(model, config, processes, (1 - TO_SPARE) * free):
        found.append("to spare")
    for section, key in (("rollout", "prompts"), ("optim", "micro_tokens")):
        twice = 2 * getattr(getattr(config, section), key)
        if fits(model, with_values(config, section, **{key: twice}), processes, free):
            found.append(f"{section}.{key}")
    return found


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.stem)
def test_a_recipe_fills_its_card_and_leaves_a_twentieth(path, monkeypatch):
    model, config, processes = recipe_on_its_card(path, monkeypatch)
    assert faults(model, config, processes) == []
    said = f"# {model.needed(model.fitted(config)).peak / GIB:.1f} GiB"
    assert said in path.read_text()


@pytest.mark.parametrize(
    ("section", "key", "factor", "expected"),
    [
        ("optim", "micro_tokens", 2, ["to spare"]),
        ("optim", "micro_tokens", 0.5, ["optim.micro_tokens"]),
        ("rollout", "prompts", 0.5, ["rollout.prompts"]),
        ("rollout", "prompts", 2, ["to spare"]),
        ("rollout", "max_tokens", 0.25, ["rollout.prompts"]),
    ],
)
def test_a_recipe_that_does_not_suit_its_card_is_refused(
    section, key, factor, expected, monkeypatch
):
    path = RECIPES / "cards" / "24gb-1.5b.yaml"
    model, config, processes = recipe_on_its_card(path, monkeypatch)
    value = int(factor * getattr(getattr(config, section), key))
    changed = with_values(config, section, **{key: value})
    assert faults(model, changed, processes) == expected


def test_the_recipes_of_cards_leave_the_problem_set_to_the_command():
    assert 1 <= len(CARDS) <= 10
    for path in CARDS:
        text = path.read_text()
        values = yaml.safe_load(text)
        assert "source" not in values["data"]
        assert "not measured on a GPU" in text
        for name in ("gsm8k", "dapo-math-17k"):
            assert f"rlvr train {name} --config recipes/cards/{path.name}" in text
