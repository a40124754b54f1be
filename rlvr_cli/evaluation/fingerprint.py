"""Record what a figure was measured with, so that two results can be compared."""

import hashlib
import importlib
import json
import re
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import TYPE_CHECKING

import rlvr_cli
import verifiers
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import sha256
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.report import Fingerprint, Judging, Sampling
from rlvr_cli.core.settings import leaves
from rlvr_cli.core.text import shortened
from rlvr_cli.core.types import Problem, Prompt
from verifiers import JUDGES, OURS, Format

if TYPE_CHECKING:
    import torch

_MODEL_FILES = re.compile(
    r"(?:generation_|adapter_)?config\.json|.*\.(?:safetensors|bin|model|jinja)|"
    r"(?:tokenizer|vocab|merges|special_tokens|added_tokens|chat_template)[^/]*"
)
_SHORT = 16
"""Digits of a checksum that tell two versions apart."""


def fingerprint(
    judging: Judging,
    data: str,
    source: JsonObject | None = None,
    sampled: JsonObject | None = None,
    sampling: Sampling | None = None,
    engine: JsonObject | None = None,
    ends: Sequence[str] = (),
) -> Fingerprint:
    """Put a fingerprint together, in the order in which results have its parts.

    `source` is the model or the server, `data` the checksum of the problems, and `sampled` has the
    prompts and their template.
    """
    row = {
        **(source or {}),
        "data": data,
        **(sampled or {}),
        **({} if sampling is None else {"sampling": sampling.row}),
        **(engine or {}),
        "rlvr": rlvr_cli.__version__,
        "verifier": judging.row,
        **({"ends": list(ends)} if ends else {}),
    }
    return Fingerprint(row, judging, sampling)


def model_hash(directory: Path) -> str:
    """Compute SHA-256 over the names and contents of weights, configuration and tokenizer."""
    digest = hashlib.sha256()
    for path in sorted(directory.iterdir()):
        if path.is_file() and _MODEL_FILES.fullmatch(path.name):
            digest.update(f"{path.name} {sha256(path)}\n".encode())
    return digest.hexdigest()


def data_hash(problems: Iterable[Problem]) -> str:
    """Compute SHA-256 over ids, texts, gold answers and fields, in order."""
    return rows_hash(
        [p.id, p.problem, p.answer, p.extra, *p.turns, *filter(None, [p.opening])] for p in problems
    )


def prompts_hash(prompts: Iterable[Prompt]) -> str:
    """Compute SHA-256 over the prompts' token ids, since a chat template may insert the date."""
    return rows_hash(prompt.token_ids for prompt in prompts)


def rows_hash(rows: Iterable[Sequence[object]]) -> str:
    """Compute SHA-256 over rows as JSON."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, default=str, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def judge_versions(judge: str) -> dict[str, str]:
    """Return the versions of the libraries on which a judge's verdicts depend. Raises UserError if
    the judge is unknown or not installed."""
    if judge not in JUDGES:
        raise UserError(
            f"--judge {judge}: no such judge; choose from {', '.join(JUDGES)}. To compare two, "
            "judge with one and --out DIR, then with the other and --against DIR"
        )
    try:
        return JUDGES[judge].versions()
    except PackageNotFoundError as error:
        raise UserError(f"--judge {judge}: {error.name} is not installed") from None


def judging_by(answer_format: Format, judge: str = OURS) -> Judging:
    """Return the rules of a judge: the answer format and a checksum of the rules' source.

    Another judge has its versions too. It takes any form, and all that it extracts votes.
    """
    source = hashlib.sha256()
    package = Path(verifiers.__file__).parent
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.toml")]):
        source.update(path.read_bytes())
    versions = {} if judge == OURS else judge_versions(judge)
    return Judging(answer_format, source.hexdigest()[:_SHORT], judge, versions)


def engine_fingerprint(
    engine: str, precision: str, device: "torch.device", threads: int
) -> JsonObject:
    """Return the engine with its number type, the versions of its libraries and its hardware."""
    import torch

    hardware: JsonObject = {"device": device.type, "threads": threads}
    if device.type == "cuda":
        hardware = {"device": torch.cuda.get_device_name(device)}
    libraries = sorted({engine, "torch", "transformers"})
    versions = {name: importlib.import_module(name).__version__ for name in libraries}
    return {"engine": {"name": engine, "precision": precision, **versions, **hardware}}


def fingerprint_differences(fingerprint: JsonObject, baseline: JsonObject) -> list[str]:
    """Return a text for each part of two fingerprints that differs: `sampling.seed 0, theirs 1`."""
    left = dict(leaves(fingerprint))
    right = dict(leaves(baseline))
    texts = []
    for key in dict.fromkeys([*left, *right]):
        value = left.get(key)
        reference = right.get(key)
        if value != reference:
            texts.append(f"{shortened(key)} {_short_text(value)}, theirs {_short_text(reference)}")
    return texts


def _short_text(value: object) -> str:
    """Write a value of a fingerprint, a long one by its first digits and its last."""
    text = "none" if value is None else repr(value)
    return text if len(text) <= 2 * _SHORT else f"{text[:_SHORT]}…{text[-1]}"
