"""A checkpoint is a plain Hugging Face model directory."""

import shutil
from pathlib import Path
from typing import Any

import yaml

from rlvr_cli.config import Config
from rlvr_cli.models import DEFAULTS_FILE, LoadedModel

_KEPT: Any = {
    "seed": True,
    "data": {"prompt", "verifier"},
    "rollout": True,
    "optim": True,
    "eval": {"samples", "temperature", "top_p"},
}


def save_checkpoint(run: Path, step: int, policy: LoadedModel, config: Config) -> Path:
    """Write `checkpoints/step-N` aside, then rename it into place.

    The settings that the policy was trained and measured with go along, so that `rlvr eval` on the
    run measures the same thing.
    """
    target = run / "checkpoints" / f"step-{step}"
    aside = target.with_name(f".{target.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    policy.model.save_pretrained(aside)
    policy.tokenizer.save_pretrained(aside)
    settings = config.model_dump(mode="json", include=_KEPT)
    (aside / DEFAULTS_FILE).write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    aside.rename(target)
    return target
