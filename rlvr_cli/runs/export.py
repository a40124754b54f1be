"""Write a checkpoint as a plain model directory with a card."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import torch
from huggingface_hub import HfApi
from torch import Tensor

import rlvr_cli
from rlvr_cli.config import Config, as_yaml, resolve, run_layer
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import make_directory, read_regular, try_place, write_new, writing
from rlvr_cli.core.text import one_line, plural
from rlvr_cli.core.yaml_text import load_yaml
from rlvr_cli.data.prompts import forward_samples
from rlvr_cli.evaluation.fingerprint import judging_by, model_hash
from rlvr_cli.model.forward import own_logprobs
from rlvr_cli.model.loading import (
    DEFAULTS_FILE,
    TINY,
    LoadedModel,
    has_quantized_base,
    load_model,
    model_files,
)
from rlvr_cli.runs.checkpoint import Checkpoint, checkpoints, intact_checkpoints
from rlvr_cli.runs.narration import format_figures
from rlvr_cli.runs.summary import Summary, read_summary

_LARGEST = 1 << 24
"""Bytes of a start model's card."""
_CARD = """\
---
base_model: {model}
license: {license}
tags: ["rlvr"]
---
# {title}

| held-out problems of {held_out} | pass@1 [95 %] |
| --- | --- |
{measured}

Prompts are put as `{data.prompt}`, answers judged as `{data.answer_format}` by rules {rules}. \
Files of the model: SHA-256 {digest}.

Made with `rlvr train --config FILE`, with this FILE:

```yaml
{config}```
"""


def write_export(
    run: Path, step: str, dtype: str, out: Path | None, push: str | None, display: Display
) -> None:
    """Write a checkpoint as a model directory, and push it if asked. Raises UserError if the run,
    the step or the target does not allow it."""
    config = resolve(run_layer(run, "export"))
    summary = Summary()
    with suppress(UserError):  # edited by hand
        summary = read_summary(run)
    checkpoint = _find_checkpoint(run, step, summary, display)
    target = out or run / f"export-{checkpoint.step}"
    if target.exists():
        raise UserError(f"--out {target}: it exists already; name another directory")
    with writing(f"--out {target}"):
        try_place(target)
    is_quantized = has_quantized_base(checkpoint.path)
    trained_logprobs = None
    if is_quantized:
        trained_logprobs = _logprobs(load_model(str(checkpoint.path)))
    policy = load_model(str(checkpoint.path), full_base=True)
    quantized = ""
    if trained_logprobs is not None:
        gap = float((_logprobs(policy) - trained_logprobs).abs().mean())
        quantized = (
            f"the adapter is merged into the full-precision base: {gap:.2g} nats a token from the "
            f"policy that trained on it in NF4 (mean difference of {len(trained_logprobs)} "
            "log-probabilities)"
        )

    def fill(directory: Path) -> None:
        policy.model.to(getattr(torch, dtype)).save_pretrained(directory)
        policy.tokenizer.save_pretrained(directory)
        shutil.copyfile(checkpoint.path / DEFAULTS_FILE, directory / DEFAULTS_FILE)
        card = _card(config, checkpoint.step, summary, model_hash(directory), quantized)
        write_new(directory / "README.md", card)

    make_directory(target, fill)
    display.result("export", f"step {checkpoint.step} of {run} in {dtype}: {target}")
    if quantized:
        display.result("base", quantized)
    if push is None:
        return
    try:
        api = HfApi()
        url = api.create_repo(push, exist_ok=True).url
        api.upload_folder(repo_id=push, folder_path=target)
    except Exception as error:  # whatever a hub may answer
        raise UserError(
            f"--push {push}: {one_line(error)}; what was written stays in {target}"
        ) from None
    display.result("pushed", str(url))


def _logprobs(policy: LoadedModel) -> Tensor:
    """Return the log-probabilities of a policy's own texts, on which a run checks it too."""
    samples = forward_samples(policy.tokenizer, policy.context)
    return own_logprobs(policy.model, len(policy.tokenizer), samples).cpu()


def _find_checkpoint(run: Path, step: str, summary: Summary, display: Display) -> Checkpoint:
    """Return the checkpoint that `best`, `last` or a number names. Raises UserError if it does
    not exist or is damaged."""
    stored = {str(checkpoint.step): checkpoint for checkpoint in checkpoints(run)}
    best = summary.best
    if step == "best" and best is None:
        raise UserError(
            f"--step best: {run} measured no step; set eval.every in training, or take last"
        )
    if step == "last":
        checkpoint = next(intact_checkpoints(run, display.warn), None)
    else:
        checkpoint = stored.get(str(best.step) if step == "best" and best else step)
    if checkpoint is None:
        raise UserError(
            f"--step {step}: {run} has no such checkpoint; kept are: {', '.join(stored) or 'none'}"
        )
    reason = checkpoint.integrity_error()
    if reason is not None:
        raise UserError(f"{checkpoint.path} is damaged: {reason}; take another --step")
    return checkpoint


def _card(config: Config, step: int, summary: Summary, digest: str, quantized: str) -> str:
    """Return the model card: the base model, the figures, the settings that reproduce the run."""
    lines = []
    end = "after training"
    if summary.after is not None and step != summary.steps:  # it was measured on another step
        end = f"after all {plural(summary.steps, 'step')}, which is another model than this"
    for moment, measured in (("before training", summary.before), (end, summary.after)):
        sets = {"": None} if measured is None else measured.by_name
        for name, figures in sets.items():
            label = f", {name}" if name else ""
            lines.append(f"| {moment}{label} | {format_figures(figures)} |")
    if step != summary.steps and summary.best is not None and summary.best.step == step:
        lines.append(f"| after {plural(step, 'step')} | {summary.best.pass_at_1:.3f} |")
    if quantized:
        lines.append(f"\nThese are of the policy in training. Here {quantized}.")
    trained_on = ", ".join(config.data.sources)
    rules = judging_by(config.data.answer_format or "any")
    return _CARD.format(
        model=json.dumps(config.model),
        license=json.dumps(_license(config.model)),
        title=f"{config.model} after {step} steps of {config.algo} on {trained_on}",
        held_out=", ".join(config.eval.sources) or trained_on,
        measured="\n".join(lines),
        data=config.data,
        rules=json.dumps({"rlvr": rlvr_cli.__version__, "verifier": rules.row}),
        digest=digest,
        config=as_yaml(config),
    )


def _license(model: str) -> str:
    """Return the license that the start model's own card names."""
    if model == TINY:
        return "apache-2.0"
    try:
        text = read_regular(model_files(model) / "README.md", _LARGEST).decode()
        name = load_yaml(text.split("---")[1]).get("license")
    except (UserError, OSError, ValueError, IndexError, AttributeError):
        name = None
    if isinstance(name, str):
        return name
    return "unknown: see the start model"
