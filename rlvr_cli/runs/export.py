"""Write a checkpoint as a plain model directory with a card."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from rlvr_cli.config import Config, as_yaml, resolve, run_layer
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import make_directory, read_regular
from rlvr_cli.core.jsonl import parse_json
from rlvr_cli.core.yaml_text import load_yaml
from rlvr_cli.evaluation.fingerprint import judging, model_hash
from rlvr_cli.model.adapter import is_adapter
from rlvr_cli.model.loading import DEFAULTS_FILE, TINY, load_model, model_files
from rlvr_cli.runs.checkpoint import Checkpoint, checkpoints, latest_valid, load_weights
from rlvr_cli.runs.narration import in_words

_LARGEST = 1 << 24
_UNKNOWN = "unknown: see the start model"


def write_export(
    run: Path, step: str, dtype: str, out: Path | None, push: str | None, display: Display
) -> None:
    """Run `rlvr export`. Raises UserError for a run, a step or a directory that cannot be."""
    config = resolve(run_layer(run, "export"))
    checkpoint = _chosen(run, step)
    target = out or run / f"export-{checkpoint.step}"
    if target.exists():
        raise UserError(f"--out {target}: it exists already; name another directory")
    policy = load_model(str(checkpoint.path))
    if not is_adapter(checkpoint.path):
        load_weights(checkpoint, policy.model)

    def fill(directory: Path) -> None:
        policy.model.to(getattr(torch, dtype)).save_pretrained(directory)
        policy.tokenizer.save_pretrained(directory)
        shutil.copyfile(checkpoint.path / DEFAULTS_FILE, directory / DEFAULTS_FILE)
        card = _card(run, config, checkpoint.step, model_hash(directory))
        (directory / "README.md").write_text(card, encoding="utf-8")

    make_directory(target, fill)
    display.result("export", f"step {checkpoint.step} of {run} in {dtype}: {target}")
    if push is not None:
        display.result("pushed", _pushed(target, push))


def _chosen(run: Path, step: str) -> Checkpoint:
    """Return the checkpoint that `best`, `last` or a number names."""
    if step == "last":
        found, _ = latest_valid(run)
    else:
        number = _best(run) if step == "best" else step
        found = next((one for one in checkpoints(run) if str(one.step) == number), None)
    if found is None:
        kept = ", ".join(str(one.step) for one in checkpoints(run)) or "none"
        raise UserError(f"--step {step}: {run} has no such checkpoint; kept are: {kept}")
    if reason := found.integrity_error():
        raise UserError(f"{found.path} is damaged: {reason}; take another --step")
    return found


def _best(run: Path) -> str:
    best = _summary(run).get("best")
    if not isinstance(best, dict):
        raise UserError(
            f"--step best: {run} measured no step; set eval.every in training, or take last"
        )
    return str(best.get("step"))


def _summary(run: Path) -> dict[str, Any]:
    try:
        found = parse_json(read_regular(run / "summary.json", _LARGEST))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _card(run: Path, config: Config, step: int, digest: str) -> str:
    """Return the model card: where it comes from, what it was measured with, how to make it."""
    trained_on = ", ".join(config.data.sources)
    sets = config.eval.sources
    measured = [
        f"| {when} training{name and f', {name}'} | {found} |"
        for when in ("before", "after")
        for name, found in _measured(run, when).items()
    ]
    head = {"base_model": config.model, "license": _license(config.model), "tags": ["rlvr"]}
    return "\n".join(
        [
            "---",
            *(f"{key}: {json.dumps(value)}" for key, value in head.items()),
            "---",
            f"# {config.model} after {step} steps of {config.algo} on {trained_on}",
            "",
            f"| held-out problems of {', '.join(sets) or trained_on} | pass@1 [95 %] |",
            "| --- | --- |",
            *measured,
            "",
            f"Prompts are put as `{config.data.prompt}`, answers judged as "
            f"`{config.data.answer_format}` by rules "
            f"{json.dumps(judging(config.data.answer_format or 'any'))}. Files of the "
            f"model: SHA-256 {digest}.",
            "",
            "Made with `rlvr train --config FILE`, with this FILE:",
            "",
            "```yaml",
            as_yaml(config).rstrip(),
            "```",
            "",
        ]
    )


def _measured(run: Path, when: str) -> dict[str, str]:
    """Return what the run's summary says of each held-out set, by name."""
    found = _summary(run).get(when) or {}
    try:
        return {name: in_words(one) for name, one in found.get("sets", {"": found}).items()}
    except (KeyError, TypeError, ValueError, AttributeError):  # edited by hand
        return {"": in_words(None)}


def _license(model: str) -> str:
    """Return the license that the start model's own card names."""
    if model == TINY:
        return "apache-2.0"
    try:
        text = read_regular(model_files(model) / "README.md", _LARGEST).decode()
        found = load_yaml(text.split("---")[1]).get("license")
    except (UserError, OSError, ValueError, IndexError, AttributeError):
        return _UNKNOWN
    return found if isinstance(found, str) else _UNKNOWN


def _pushed(directory: Path, name: str) -> str:
    """Upload the directory; return its address."""
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        url = api.create_repo(name, exist_ok=True).url
        api.upload_folder(repo_id=name, folder_path=directory)
    except Exception as error:  # whatever a hub may answer
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"--push {name}: {reason}; what was written stays in {directory}") from None
    return str(url)
