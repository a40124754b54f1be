"""A checkpoint is a plain Hugging Face model directory."""

import shutil
from pathlib import Path
from typing import Any

from rlvr_cli.models import DEFAULTS_FILE, LoadedModel


def save_checkpoint(run: Path, step: int, policy: LoadedModel) -> Path:
    """Write `checkpoints/step-N` aside, then rename it into place."""
    target = run / "checkpoints" / f"step-{step}"
    aside = target.with_name(f".{target.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    policy.model.save_pretrained(aside)
    policy.tokenizer.save_pretrained(aside)
    defaults: Any = Path(policy.directory) / DEFAULTS_FILE
    if defaults.is_file():
        shutil.copy(defaults, aside / DEFAULTS_FILE)
    aside.rename(target)
    return target
