"""The run directory: resolved configuration, a line a step, every rollout, the model."""

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

from rlvr_cli.config import Config, as_yaml
from rlvr_cli.jsonl import write_jsonl_line
from rlvr_cli.rollout import response_row
from rlvr_cli.types import Group, UserError


class Run:
    """A new run directory. Raises UserError if it exists: nothing is ever overwritten."""

    def __init__(self, directory: Path, config: Config) -> None:
        self.directory = directory
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            raise UserError(
                f"--out {directory}: it exists already; name another directory or remove it"
            ) from None
        except OSError as error:
            raise UserError(f"--out {directory}: cannot be made ({error.strerror})") from None
        (directory / "rollouts").mkdir()
        (directory / "config.yaml").write_text(as_yaml(config), encoding="utf-8")

    def record_step(self, metrics: Mapping[str, Any], groups: Iterable[Group]) -> None:
        """Append the step's metrics and write its rollouts."""
        self.write_rollouts(f"step-{metrics['step']:06d}", groups)
        with (self.directory / "metrics.jsonl").open("a", encoding="utf-8") as file:
            write_jsonl_line(file, metrics)

    def write_rollouts(self, name: str, groups: Iterable[Group]) -> None:
        """Write `rollouts/NAME.jsonl`, a line a response."""
        path = self.directory / "rollouts" / f"{name}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            write_rollouts(file, groups)

    def write_summary(self, summary: Mapping[str, Any], curves: str) -> None:
        """Write how the run went, for programs and for people."""
        text = json.dumps(summary, indent=2, ensure_ascii=False)
        (self.directory / "summary.json").write_text(text + "\n", encoding="utf-8")
        (self.directory / "curves.txt").write_text(curves + "\n", encoding="utf-8")


def default_directory(algo: str, data: str) -> Path:
    """`runs/ALGO-DATA-TIME`, one that does not exist yet."""
    data = "stdin" if data == "-" else Path(data).stem
    base = Path("runs") / f"{algo}-{data}-{time.strftime('%Y%m%d-%H%M%S')}"
    candidate, number = base, 2
    while candidate.exists():
        candidate = base.with_name(f"{base.name}-{number}")
        number += 1
    return candidate


def write_rollouts(file: TextIO, groups: Iterable[Group]) -> None:
    """A line a response."""
    for group in groups:
        for rollout in group.rollouts:
            write_jsonl_line(file, response_row(rollout))
