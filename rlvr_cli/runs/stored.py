"""Read what a run directory has: steps, tokens and problems."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError, model_validator

from rlvr_cli.core import files
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import bounded_lines, parse_json
from rlvr_cli.core.step_figures import StepFigures
from rlvr_cli.core.stored import Count, Finite, Stored
from rlvr_cli.core.text import first_mistake
from rlvr_cli.core.types import TOKEN_FIGURES, Problem
from rlvr_cli.data.rows import validated_lines

PROBLEMS = "problems.jsonl"
"""The file with the problems of a run that came through a pipe."""
STORED_PROBLEM: TypeAdapter[Problem] = TypeAdapter(Problem)
"""The schema of a line of problems.jsonl."""
_LARGEST_TOKENS = 16 << 20
"""Bytes of a file of tokens at most."""


class StoredTokens(Stored):
    """A response in tokens-step-N.json, with the figures that the update had of its tokens
    (`training/tokens.py`)."""

    group: Count
    """The number of its group in the step."""
    sample: Count
    text: list[str]
    figures: dict[str, list[Finite]] | None
    """None if the update did not pass the response."""

    @model_validator(mode="after")
    def _is_whole(self) -> "StoredTokens":
        if self.figures is None:
            return self
        if list(self.figures) != list(TOKEN_FIGURES):
            raise ValueError(f"its figures are not {', '.join(TOKEN_FIGURES)}")
        if any(len(values) != len(self.text) for values in self.figures.values()):
            raise ValueError("its lists are not of one length")
        return self


def read_problems(directory: Path) -> list[Problem]:
    """Read a run's copy of its problems. Raises UserError if it cannot be read."""
    problems = list(
        validated_lines(directory / PROBLEMS, STORED_PROBLEM.validate_python, grows=False)
    )
    if not problems:
        raise UserError(f"{directory / PROBLEMS}: no problems in it")
    return problems


def read_tokens(path: Path) -> list[StoredTokens]:
    """Read a tokens-step-N.json. Raises UserError if it cannot be read."""
    with files.reading(path):
        rows = parse_json(files.read_regular(path, _LARGEST_TOKENS))
    try:
        return TypeAdapter(list[StoredTokens]).validate_python(rows)
    except ValidationError as error:
        raise UserError(f"{path}: {first_mistake(error)}") from None


def count_steps(path: Path) -> int:
    """Count the lines of metrics.jsonl, without reading what is in them."""
    with suppress(OSError, UserError), files.open_regular(path, follow=False) as file:
        return sum(line.endswith(b"\n") for line in bounded_lines(str(path), file))
    return 0


def read_steps(path: Path) -> Iterator[StepFigures]:
    """Yield the lines of metrics.jsonl in the order of their steps, and skip invalid ones."""
    last = 0
    # OSError: there is no such file yet. UserError: a line is too long.
    with suppress(OSError, UserError), files.open_regular(path, follow=False) as file:
        for line in bounded_lines(str(path), file):
            try:
                figures = StepFigures.from_row(parse_json(line))
            except ValueError:
                continue
            if figures.step > last and line.endswith(b"\n"):
                last = figures.step
                yield figures
