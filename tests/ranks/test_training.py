"""Training shared out over processes is training by one, whatever model and objective."""

import json
from functools import cache
from pathlib import Path

import pytest
import torch
from families import FAMILIES
from safetensors.torch import load_file, save_file
from side_by_side import side_by_side
from small_models import random_model
from small_runs import repeatable
from small_trainer import has_even, make_trainer, steps, weights
from torch.distributed.tensor import DTensor

from rlvr_cli.core.errors import UserError
from rlvr_cli.model import policy as models
from rlvr_cli.model.policy import decoder_layers
from rlvr_cli.ranks.group import full_tensor, is_first, shard
from rlvr_cli.ranks.process import rank
from rlvr_cli.training.trainer import Trainer

SMALL = ("steps=3", "optim.micro_tokens=40")
PRESETS = {
    "dapo": ("algo=dapo", "rollout.prompts=2"),
    "grpo": ("algo=grpo", "optim.checkpointing=on"),
    "iterative": (
        "algo=grpo",
        "algorithm.kl.reference=iterative",
        "algorithm.kl.reference.every=2",
        "algorithm.kl.reference.resets_optimizer=true",
    ),
    # With the engine's log-probabilities as old ones the ratio is 1 but for rounding, and not
    # exactly, which AdamW carries into weights without a gradient.
    "ppo": (
        "algo=ppo",
        "algorithm.advantage.critic.warmup=1",
        "algorithm.old_logprobs=trainer",
    ),
    "shared critic": ("algo=ppo", "algorithm.advantage.critic=shared", "algorithm.epochs=2"),
    "lora": ("algo=grpo", "lora.rank=2"),
    "teacher": ("algo=opd",),
    "experts": ("algo=dapo",),
    "partial": ("algo=dapo", "rollout.partial=on", "rollout.partial.tokens=1"),
    "ahead": ("algo=dapo", "rollout.prompts=2", "rollout.ahead=1"),
}
EXACT = ("dapo", "shared critic", "lora")
"""Those that are trained in float64 as well; the experts' products have none."""
ROUNDED = (*SMALL, "algo=grpo", "optim.weights=bfloat16", "rollout.mismatch_limit=1")
CLOSE = 1e-5
"""What float32 may round in three steps at a learning rate of 0.01."""


def made(name: str, exact: bool) -> Trainer:
    model = random_model("qwen2-moe" if name == "experts" else "qwen2-tied")
    return make_trainer(has_even, *SMALL, *PRESETS[name], model=model.double() if exact else model)


def trained(place: Path, name: str) -> None:
    """Train a preset for three steps, in float64 as well where that is said; keep the results."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "_CHUNK_LOGITS", 3 * 50)  # the output layer in several chunks
        keep(made(name, False), place / name)
        if name in EXACT:
            keep(made(name, True), place / f"{name}, float64")


def keep(trainer: Trainer, place: Path) -> None:
    optimizer = trainer.updater.optimizer
    held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    rows = steps(trainer, place)
    state = {name: full_tensor(t.detach()) for name, t in trainer.state_dict().tensors.items()}
    numbers = {str(index): tensor for index, tensor in enumerate(weights(trainer))}
    if is_first():
        (place / "shared").write_text(json.dumps([isinstance(p, DTensor) for p in held]))
        (place / "metrics").write_text(json.dumps([repeatable(row) for row in rows]))
        save_file({key: tensor.contiguous() for key, tensor in numbers.items()}, place / "weights")
        save_file({key: tensor.contiguous() for key, tensor in state.items()}, place / "state")


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in PRESETS if name != "dapo"]


@pytest.fixture(scope="module", params=["dapo", *SLOW])
def runs(request, tmp_path_factory) -> tuple[str, Path, Path]:
    """A preset, and what one and two processes made of it."""
    name = request.param
    place = tmp_path_factory.mktemp("runs")
    trained(place / "alone", name)
    side_by_side(2, lambda: trained(place / "two", name), place / "two")
    return name, place / "alone", place / "two"


@cache
def tensors(path: Path) -> dict[str, torch.Tensor]:
    return load_file(path)


def furthest(first: Path, other: Path) -> float:
    actual, expected = tensors(first), tensors(other)
    assert {k: t.shape for k, t in actual.items()} == {k: t.shape for k, t in expected.items()}
    return max(
        float((actual[k].double() - t.double()).abs().max())
        for k, t in expected.items()
        if len(t.shape)
    )


def same_run(place: Path, alone: Path, name: str) -> None:
    """Rollouts to the byte, weights, moments and metrics to what float32 rounds."""
    files = sorted(path.name for path in (alone / name / "rollouts").glob("[!m]*.jsonl"))
    assert len(files) == 3
    for file in files:
        expected = (alone / name / "rollouts" / file).read_bytes()
        assert (place / name / "rollouts" / file).read_bytes() == expected, file
    for file in ("weights", "state"):
        assert furthest(place / name / file, alone / name / file) < CLOSE, file
    rows, expected = (json.loads((d / name / "metrics").read_text()) for d in (place, alone))
    for row, other in zip(rows, expected, strict=True):
        assert row.keys() == other.keys()
        for key, value in other.items():
            is_float = isinstance(value, float)
            assert row[key] == (pytest.approx(value, rel=1e-3, abs=1e-5) if is_float else value)


def test_two_processes_train_what_one_does(runs):
    name, alone, two = runs
    same_run(two, alone, name)
    assert all(json.loads((two / name / "shared").read_text()))
    assert not any(json.loads((alone / name / "shared").read_text()))


@pytest.mark.slow
def test_three_processes_train_what_one_does(runs, tmp_path):
    """Sizes that three do not divide; two have shown that each preset adds up."""
    name, alone, _ = runs
    if name not in EXACT:
        pytest.skip("two processes are enough")
    side_by_side(3, lambda: trained(tmp_path, name), tmp_path)
    same_run(tmp_path, alone, name)


def test_three_steps_in_float64(runs):
    name, *places = runs
    if name not in EXACT:
        pytest.skip("no float64")
    first, two = (place / f"{name}, float64" / "weights" for place in places)
    assert furthest(two, first) < 1e-10
    if name != "lora":
        start = enumerate(random_model().double().parameters())
        assert (
            max(float((tensors(first)[str(n)] - p.detach()).abs().max()) for n, p in start) > 1e-3
        )


@pytest.mark.slow
def test_weights_in_bfloat16_stay_near(tmp_path):
    """Each sum of gradients is rounded to 8 bits, and so is each update, at random."""
    first, two = tmp_path / "one", tmp_path / "two"
    keep(make_trainer(has_even, *ROUNDED), first)
    side_by_side(2, lambda: keep(make_trainer(has_even, *ROUNDED), two), tmp_path)
    assert furthest(two / "weights", first / "weights") < 0.05


def scaled(place: Path) -> None:
    """Two steps in float16 whose first scale is too large by far."""
    half = ("optim.precision=float16", "rollout.mismatch_limit=1")
    trainer = make_trainer(has_even, *SMALL, "algo=grpo", "steps=2", *half)
    loss_scale = trainer.updater.loss_scale
    loss_scale.load_state_dict({**loss_scale.state_dict(), "scale": 2.0**25})
    keep(trainer, place)
    (place / f"scale-{rank()}").write_text(json.dumps(loss_scale.state_dict()))


@pytest.mark.slow
def test_an_overflow_in_the_shard_of_one_process_halves_the_scale_of_all(tmp_path):
    alone, two = tmp_path / "alone", tmp_path / "two"
    side_by_side(2, lambda: scaled(two), tmp_path)
    scaled(alone)
    rows, expected = (json.loads((place / "metrics").read_text()) for place in (two, alone))
    assert [row["overflows"] for row in rows] == [row["overflows"] for row in expected]
    assert rows[0]["overflows"] > 0
    assert [row["updates_skipped"] for row in rows] == [0, 0]
    scales = {(two / f"scale-{number}").read_text() for number in (0, 1)}
    assert scales == {(alone / "scale-0").read_text()}
    assert furthest(two / "weights", alone / "weights") < 1e-3


def families(place: Path) -> None:
    """One update of each family, by as many processes as there are."""
    for family in FAMILIES:
        model = random_model(family)
        model.set_attn_implementation("eager")
        forward = models.Forward(packed=False, attention="eager", plain_head=False)
        item = ("steps=1", "rollout.samples=3", "rollout.prompts=2", "optim.micro_tokens=1")
        settings = (*item, "algo=rloo", "rollout.mismatch_limit=9")
        keep(make_trainer(has_even, *settings, model=model, forward=forward), place / family)


@pytest.mark.slow
def test_every_family_is_shared_out_or_refused(tmp_path):
    """Over three processes, which few sizes can be divided by."""
    families(tmp_path / "one")
    side_by_side(3, lambda: families(tmp_path / "many"), tmp_path)
    for family in FAMILIES:
        item, many = (tmp_path / name / family / "weights" for name in ("one", "many"))
        assert furthest(many, item) < 1e-4, family  # the norm of the gradient is in the thousands


def test_a_module_that_torch_cannot_shard_is_refused_with_its_reason():
    class Scaled(torch.nn.Linear):
        def __init__(self) -> None:
            super().__init__(2, 2)
            self.scale = torch.nn.Parameter(torch.ones(()))

    try:
        with pytest.raises(UserError, match=r"cannot shard Scaled \(.*scalar.*leave --proc"):
            shard(Scaled(), ())
        shard(model := random_model().to("meta"), decoder_layers(model))
        assert all(isinstance(p, DTensor) for p in model.parameters())
    finally:
        torch.distributed.destroy_process_group()
