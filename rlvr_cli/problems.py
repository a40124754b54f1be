"""Problem sets: a name in datasets_cfg, a file, a hub id or stdin, all to `Problem`s."""

import json
import math
import random
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from rlvr_cli import arithmetic
from rlvr_cli.types import Problem, UserError
from rlvr_cli.untrusted import DEEPEST, LONGEST_ANSWER, is_too_deep, is_unicode, printable

ALIASES = {"problem": ("problem", "question", "prompt"), "answer": ("answer",), "id": ("id",)}
FILE_TYPES = (".jsonl", ".json", ".parquet", ".yaml", ".yml")
DEFAULT_PROMPT = "think_answer"
_SHOWN_BAD_LINES = 5
_AFTER_HASHES = re.compile(r"####[ \t]*([^\n]*)\s*\Z")

Row = tuple[str, int, Any]
"""Where the row stands (`file:line`), its number from 1, its value or why it has none."""


class ProblemSetSpec(BaseModel):
    """A YAML of datasets_cfg, or a user's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str
    version: int
    licence: str
    source: str
    """`procedural:arithmetic`, a hub id, or a file beside the YAML."""
    subset: str | None = None
    sizes: dict[str, int] | None = None
    splits: dict[str, str] | None = None
    """From `train` and `test` to the source's own names; one that is not named does not exist."""
    fields: dict[str, str] | None = None
    prompt: str = DEFAULT_PROMPT


@dataclass(frozen=True)
class ProblemSet:
    """Problems of one split, in their order."""

    name: str
    problems: tuple[Problem, ...]
    prompt: str
    """Name of the prompt template that fits the set."""


class _BadRowError(Exception):
    """Why a row is not a problem."""


def load_problems(
    source: str,
    split: str,
    *,
    limit: int | None = None,
    skip_bad: bool = False,
    need_answer: bool = True,
) -> ProblemSet:
    """The problems of a source.

    Bad rows are reported on stderr with their line; they stop the load unless `skip_bad`.
    Raises UserError if the source cannot be found or read, or holds no problem.
    """
    name, spec = source, _spec(source)
    fields: dict[str, str] | None = None
    if spec is not None:
        fields, rows = spec.fields, _spec_rows(source, spec, split)
    elif source == "-":
        name, rows = "stdin", _jsonl_rows("stdin", sys.stdin.buffer)
    elif source.endswith(FILE_TYPES) or Path(source).exists():
        rows = _file_rows(Path(source))
    elif "/" in source:
        rows = _hub_rows(source, None, split)
    else:
        raise UserError(
            f"{source}: no such problem set; give one of {', '.join(known_sets())}, "
            "a .jsonl or .parquet file, a hub id, or - for stdin"
        )
    problems = tuple(_parsed(rows, fields, limit, skip_bad, need_answer))
    if not problems:
        raise UserError(f"{name}: no problems in it; one JSON object a line is expected")
    return ProblemSet(name, problems, spec.prompt if spec else DEFAULT_PROMPT)


def known_sets() -> list[str]:
    """The names in datasets_cfg."""
    files = resources.files("datasets_cfg").iterdir()
    return sorted(file.name[:-5] for file in files if file.name.endswith(".yaml"))


def has_split(source: str, split: str) -> bool:
    """Whether the source describes such a split of its own (files and stdin have none)."""
    spec = _spec(source)
    if spec is None:
        return False
    named = spec.sizes or spec.splits
    return named is None or split in named


class ProblemCursor:
    """Seeded order over `size` problems: every epoch a new shuffle, none repeated within one.

    `position` counts the draws so far and is the whole state.
    """

    def __init__(self, size: int, seed: int, position: int = 0) -> None:
        self.size, self.seed, self.position = size, seed, position
        self._epoch = -1
        self._order: list[int] = []

    def take(self, count: int) -> list[int]:
        """The indices of the next `count` problems."""
        indices = []
        for _ in range(count):
            epoch, offset = divmod(self.position, self.size)
            if epoch != self._epoch:
                self._epoch, self._order = epoch, list(range(self.size))
                random.Random(f"{self.seed}:{epoch}").shuffle(self._order)
            indices.append(self._order[offset])
            self.position += 1
        return indices


def _spec(source: str) -> ProblemSetSpec | None:
    if source in known_sets():
        text = (resources.files("datasets_cfg") / f"{source}.yaml").read_text(encoding="utf-8")
    elif source.endswith((".yaml", ".yml")):
        text = _read_text(Path(source))
    else:
        return None
    try:
        return ProblemSetSpec.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise UserError(f"{source}: not valid YAML ({' '.join(str(error).split())})") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{source}: {key}: {first['msg']}") from None


def _spec_rows(name: str, spec: ProblemSetSpec, split: str) -> Iterator[Row]:
    if not has_split(name, split):
        raise UserError(f"{name}: it has no {split} split; it has {_splits(spec)}")
    if spec.source == "procedural:arithmetic":
        size = (spec.sizes or {})[split]
        rows = arithmetic.problems(split, size, seed=spec.version)
        return ((f"{name}:{n}", n, row) for n, row in enumerate(rows, 1))
    if spec.source.endswith(FILE_TYPES):
        return _file_rows(Path(name).parent / spec.source)
    return _hub_rows(spec.source, spec.subset, (spec.splits or {}).get(split, split))


def _splits(spec: ProblemSetSpec) -> str:
    return ", ".join(spec.sizes or spec.splits or ("train", "test"))


def _hub_rows(hub_id: str, subset: str | None, split: str) -> Iterator[Row]:
    import datasets

    try:
        data = datasets.load_dataset(hub_id, subset, split=split)
    except Exception as error:
        reason = str(error).split("\n")[0]
        raise UserError(
            f"{hub_id}: the problem set cannot be loaded from the hub ({reason}); "
            "give a local .jsonl or .parquet file instead"
        ) from None
    return ((f"{hub_id}:{n}", n, dict(row)) for n, row in enumerate(data, 1))


def _file_rows(path: Path) -> Iterator[Row]:
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        try:
            table = pyarrow.parquet.read_table(path)
        except (OSError, pyarrow.ArrowException) as error:
            raise UserError(f"{path}: cannot be read ({str(error).splitlines()[0]})") from None
        yield from ((f"{path}:{n}", n, row) for n, row in enumerate(table.to_pylist(), 1))
        return
    try:
        with path.open("rb") as lines:
            yield from _jsonl_rows(str(path), lines)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def _jsonl_rows(name: str, lines: Iterable[bytes]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        where = f"{name}:{number}"
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if text:
                yield where, number, json.loads(text)
        except UnicodeDecodeError:
            yield where, number, _BadRowError("not UTF-8 text")
        except (ValueError, RecursionError):
            yield where, number, _BadRowError("not a JSON object")


def _parsed(
    rows: Iterable[Row],
    fields: dict[str, str] | None,
    limit: int | None,
    skip_bad: bool,
    need_answer: bool,
) -> Iterator[Problem]:
    """The first `limit` good problems; bad rows are counted and, unless skipped, stop the load."""
    bad: list[str] = []
    count = 0
    for where, number, row in rows:
        if count == limit:
            break
        try:
            if isinstance(row, _BadRowError):
                raise row
            problem = _problem(row, fields, f"{where.rsplit(':', 1)[0]}-{number}", need_answer)
        except _BadRowError as reason:
            bad.append(f"{where}: {reason}")
            continue
        count += 1
        yield problem
    if not bad:
        return
    shown = bad[:_SHOWN_BAD_LINES]
    if len(bad) > len(shown):
        shown.append(f"… and {len(bad) - len(shown)} more")
    if not skip_bad:
        found = f"{len(bad)} bad of {len(bad) + count} lines"
        raise UserError("\n".join([*shown, f"{found}; mend them, or go on with --skip-bad"]))
    print(printable("\n".join([*shown, f"bad lines skipped: {len(bad)}"])), file=sys.stderr)


def _problem(
    row: Any, fields: dict[str, str] | None, default_id: str, need_answer: bool
) -> Problem:
    if not isinstance(row, dict):
        raise _BadRowError("not a JSON object")
    keys = {}
    for field, aliases in ALIASES.items():
        names = (fields[field],) if fields and field in fields else aliases
        keys[field] = next((name for name in names if row.get(name) is not None), None)
    if keys["problem"] is None:
        wanted = (fields or {}).get("problem", "problem (or question, prompt)")
        raise _BadRowError(f"no field {wanted}")
    text = row[keys["problem"]]
    if not isinstance(text, str) or not text.strip():
        raise _BadRowError(f"field {keys['problem']} is not a text with something in it")
    if not is_unicode(text):
        raise _BadRowError(f"field {keys['problem']} is not Unicode text (a lone surrogate)")
    if is_too_deep(row):
        raise _BadRowError(f"nested more than {DEEPEST} levels deep")
    answer = _gold(row.get(keys["answer"])) if keys["answer"] else None
    if need_answer and answer is None:
        raise _BadRowError("no field answer, which holds the gold answer")
    identity = row[keys["id"]] if keys["id"] else default_id
    extra = {key: value for key, value in row.items() if key not in keys.values()}
    return Problem(str(identity), text, answer, extra)


def _gold(value: Any) -> str:
    """The gold answer as text: numbers plainly (27.0 is 27), GSM8K's reasoning cut at `####`."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _BadRowError("field answer is neither a text nor a number")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _BadRowError("field answer is not a finite number")
        return str(int(value)) if value.is_integer() else repr(value)
    text = str(value).strip()
    hashes = _AFTER_HASHES.search(text)
    text = hashes[1].strip() if hashes else text
    if not text:
        raise _BadRowError("field answer is empty")
    if len(text) > LONGEST_ANSWER:
        raise _BadRowError(f"field answer is longer than {LONGEST_ANSWER} characters")
    return text


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None
