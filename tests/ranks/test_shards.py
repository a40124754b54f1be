"""Training with shared out weights is training with whole ones, whatever model and objective."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from conftest import random_model
from safetensors.torch import load_file, save_file
from side_by_side import side_by_side
from small_trainer import has_even, make_trainer, steps, weights

from rlvr_cli.evaluation.metrics import repeatable
from rlvr_cli.model import policy
from rlvr_cli.model.attention import ATTENTION
from rlvr_cli.model.forward import PACKED, Forward
from rlvr_cli.ranks.files import put_together
from rlvr_cli.ranks.group import is_first
from rlvr_cli.ranks.shards import is_shared
from rlvr_cli.training.trainer import Trainer

FAMILIES = ("qwen2-tied", "qwen2-untied", "qwen3", "llama", "granite", "gemma2")
SCALED = {
    "granite": Forward(packed=True, attention=ATTENTION, plain_head=False),
    "gemma2": Forward(packed=False, attention="eager", plain_head=False),
}
"""Models whose logits are more than the output layer's."""
ODD = ("rollout.samples=3", "optim.micro_tokens=1", "steps=1", "algo=rloo")
"""Nine responses, each a forward pass of its own."""
ROUNDED = (*ODD, "optim.weights=bfloat16", "rollout.mismatch_limit=1")
PRESETS = {
    "dapo": ("algo=dapo", "rollout.prompts=2"),
    "grpo": ("algo=grpo", "optim.checkpointing=on"),
    "iterative": (
        *("algo=grpo", "algorithm.kl.reference=iterative", "algorithm.kl.reference.every=2"),
        "algorithm.kl.reference.resets_optimizer=true",
    ),
    "ppo": ("algo=ppo", "algorithm.advantage.critic.warmup=1"),
    "shared critic": ("algo=ppo", "algorithm.advantage.critic=shared", "algorithm.epochs=2"),
    "lora": ("algo=grpo", "lora.rank=2"),
    "experts": ("algo=dapo",),
}
ASKED = ("dapo", "grpo", "ppo", "shared critic", "lora")
CLOSE = 2e-5
"""Of what float32 rounds in three steps at a learning rate of 0.01."""


def trained(
    place: Path, presets: Iterable[str] = PRESETS, families: Iterable[str] = FAMILIES
) -> None:
    """Train each preset for three steps, each family for one in float64; keep what came out."""
    for name in presets:
        small = ("steps=3", "optim.micro_tokens=40", *PRESETS[name])
        model = random_model("qwen2-moe") if name == "experts" else None
        keep(make_trainer(has_even, *small, model=model), place / name)
    for name in ASKED:
        small = ("steps=3", "optim.micro_tokens=40", *PRESETS[name])
        keep(
            make_trainer(has_even, *small, model=random_model().double()),
            place / f"{name}, float64",
        )
    for family in families:
        model, forward = random_model(family).double(), SCALED.get(family, PACKED)
        model.set_attn_implementation(forward.attention)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(policy, "_CHUNK_LOGITS", 3 * 50)
            keep(make_trainer(has_even, *ODD, model=model, forward=forward), place / family)
    keep(make_trainer(has_even, *ROUNDED), place / "bfloat16")


def keep(trainer: Trainer, place: Path) -> None:
    optimizer = trainer.updater.optimizer
    held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    rows = steps(trainer, place)
    state = dict(put_together(trainer.state_dict().tensors))
    numbers = {str(index): tensor for index, tensor in enumerate(weights(trainer))}
    if is_first():
        shared = [is_shared(p) and is_shared(p.grad if p.grad is not None else p) for p in held]
        (place / "shared").write_text(json.dumps(shared))
        (place / "metrics").write_text(json.dumps([repeatable(row) for row in rows]))
        save_file({key: tensor.contiguous() for key, tensor in numbers.items()}, place / "weights")
        save_file({key: tensor.contiguous() for key, tensor in state.items()}, place / "state")


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("alone")
    trained(place)
    return place


COUNTS = {2: (tuple(PRESETS), FAMILIES), 3: (ASKED, FAMILIES[:4])}


@pytest.fixture(scope="module", params=COUNTS)
def beside(request, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("beside")
    side_by_side(request.param, lambda: trained(place, *COUNTS[request.param]), place)
    return place


def made(place: Path, names: Iterable[str]) -> list[str]:
    """The names that were trained there."""
    return [name for name in names if (place / name).is_dir()]


def furthest(one: Path, other: Path) -> float:
    found, expected = load_file(one), load_file(other)
    assert {k: t.shape for k, t in found.items()} == {k: t.shape for k, t in expected.items()}
    return max(
        float((found[k].double() - t.double()).abs().max())
        for k, t in expected.items()
        if len(t.shape)
    )


def test_presets(alone, beside):
    for name in made(beside, PRESETS):
        files = sorted(path.name for path in (alone / name / "rollouts").glob("*.jsonl"))
        assert len(files) == 3
        for file in files:
            expected = (alone / name / "rollouts" / file).read_bytes()
            assert (beside / name / "rollouts" / file).read_bytes() == expected, (name, file)
        for file in ("weights", "state"):
            assert furthest(beside / name / file, alone / name / file) < CLOSE, (name, file)
        rows, expected = (json.loads((d / name / "metrics").read_text()) for d in (beside, alone))
        for row, other in zip(rows, expected, strict=True):
            assert row.keys() == other.keys()
            for key, value in other.items():
                near = (
                    pytest.approx(value, rel=1e-3, abs=1e-5) if isinstance(value, float) else value
                )
                assert row[key] == near, (name, key)


def test_three_steps_in_float64(alone, beside):
    start = list(random_model().double().parameters())
    for name in ASKED:
        one, other = (place / f"{name}, float64" / "weights" for place in (alone, beside))
        assert furthest(other, one) < 1e-10, name
        if name != "lora":
            trained = load_file(one)
            moved = max(float((trained[str(n)] - p).abs().max()) for n, p in enumerate(start))
            assert moved > 1e-3, name


def test_an_update_in_float64(alone, beside):
    for family in made(beside, FAMILIES):
        assert furthest(beside / family / "weights", alone / family / "weights") < 1e-10, family
    assert furthest(beside / "bfloat16" / "weights", alone / "bfloat16" / "weights") < 0.02


def test_the_optimizer_holds_slices_only(alone, beside):
    for name in made(beside, (*PRESETS, *FAMILIES)):
        shared = json.loads((beside / name / "shared").read_text())
        assert shared
        assert all(shared), name
        assert not any(json.loads((alone / name / "shared").read_text()))
