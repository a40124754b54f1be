"""Read the rows of a problem set from datasets_cfg, the hub, a local copy, a file or stdin."""

import csv
import difflib
import gzip
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from itertools import chain, islice
from pathlib import Path
from typing import IO, Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rlvr_cli.config.built_in import known_sets, normal_name, sets_by_normal_name
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import open_regular, reading
from rlvr_cli.core.jsonl import LONGEST_LINE, bounded_lines, json_values, parse_json
from rlvr_cli.core.limits import bounded
from rlvr_cli.core.text import GIB, first_mistake, plural, shortened
from rlvr_cli.core.types import FieldName
from rlvr_cli.core.yaml_text import LARGEST_YAML, load_yaml
from rlvr_cli.data import chains, gym
from rlvr_cli.data.golds import GoldPlace
from rlvr_cli.data.paths import BadRowError
from verifiers import Format

COPIES = (".jsonl", ".json", ".parquet", ".csv", ".tsv", ".jsonl.gz", ".json.gz", ".csv.gz")
"""Endings of a problem set's local copy, in the order in which they are tried."""
SourceRow = tuple[str, int, object]
"""The place of a row (`file:line`), its number from 1, its value or a BadRowError."""
_BATCH = 256
"""Rows of Parquet that are decoded at once."""
_BATCH_GIB = 2
_BATCH_S = 60.0
_SMALL_UNPACKED = 64 << 20
_LARGEST_RATIO = 200
"""A gzipped file may unpack to `_SMALL_UNPACKED` bytes, and this many times its own size."""
_PACKED = {b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\[|\{\s*\n)")
"""The start of JSON over several lines: an array, or an object whose brace ends the line."""
_WRAPPERS = ("data", "rows", "problems", "examples", "instances")
"""Keys of a single object that may hold all rows of a file as a list."""
FILE_TYPES = (*COPIES, ".gz", ".yaml", ".yml")
DEFAULT_PROMPT = "think_answer"
_LARGEST_SPLIT = 20_000
"""Problems that a procedure makes for a split at most, which takes seconds."""
_PROCEDURAL = "procedural:chains"

Split = Literal["train", "test"]


class UnavailableSetError(UserError):
    """A problem set that the hub does not give."""


class ProblemSetSpec(BaseModel):
    """A YAML file of datasets_cfg or of the user."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str = "a custom problem set"
    version: int = 1
    license: str = "not said"
    source: str
    """`procedural:chains`, a hub id, or a file in the directory of the YAML."""
    subset: str | None = None
    sizes: dict[Split, Annotated[int, Field(ge=1, le=_LARGEST_SPLIT)]] | None = None
    """Numbers of problems in the splits of a procedural set."""
    splits: dict[Split, str] | None = None
    """What the source calls `train` and `test`. A split that is left out does not exist."""
    fields: dict[FieldName, str] | None = None
    gold: GoldPlace | None = None
    prompt: str = DEFAULT_PROMPT
    golds: str | None = None
    """A table beside the YAML that has ids and gold answers alone (`data/packaged.py`)."""
    answer_format: Format | None = None
    """The form by which answers are judged. None means the form that the prompt asks for."""

    @model_validator(mode="after")
    def _has_sizes(self) -> "ProblemSetSpec":
        if self.source.startswith("procedural:") and self.source != _PROCEDURAL:
            raise ValueError(f"no such procedure as {shortened(self.source)}; it is {_PROCEDURAL}")
        if self.source == _PROCEDURAL and not self.sizes:
            raise ValueError("a procedural set needs sizes, such as {train: 8192, test: 256}")
        return self

    def split_names(self) -> list[str]:
        """Return the splits that the set has."""
        return list(self.sizes or self.splits or ("train", "test"))


_GYM_SPEC = ProblemSetSpec(
    source=gym.PREFIX,
    description="a generator of reasoning-gym",
    license="Apache-2.0",
    fields={"answer": "answer"},
    gold="text",
)


def find_spec(source: str) -> ProblemSetSpec | None:
    """Return the description of a named set or of a YAML file. Return None for any other source.
    Raises UserError if the description is invalid."""
    if source in known_sets():
        text = (resources.files("datasets_cfg") / f"{source}.yaml").read_text(encoding="utf-8")
    elif source.startswith(gym.PREFIX):
        return _GYM_SPEC.model_copy(update={"source": source})
    elif source.endswith((".yaml", ".yml")):
        with reading(shortened(source)), Path(source).open(encoding="utf-8") as file:
            text = file.read(LARGEST_YAML + 1)
    else:
        return None
    try:
        return ProblemSetSpec.model_validate(load_yaml(text))
    except ValueError as error:
        raise UserError(f"{source}: {first_mistake(error)}") from None


def bare_name(source: str) -> str:
    """Return the prefix of problem ids: the name of a set, or of a file without its directory, on
    which ids must not depend."""
    return Path(source).name if _is_file(source) else source


def _is_file(source: str) -> bool:
    return source.endswith(FILE_TYPES) or Path(source).exists()


def has_split(source: str, split: str) -> bool:
    """Return whether the source defines such a split. Files and stdin do not define splits."""
    spec = find_spec(source)
    return spec is not None and split in spec.split_names()


def source_rows(
    source: str, split: str, root: str | None, rows: Iterable[object] | None = None
) -> Iterator[SourceRow]:
    """Yield the rows of any source.

    `root` is a directory of local copies of the hub's sets, and `rows` take the place of stdin.
    Raises UserError if the source, the split or the copy does not exist.
    """
    spec = find_spec(source)
    if source == "-" and rows is not None:
        return numbered("stdin", rows)
    if spec is None and source == "-":
        return json_rows("stdin", sys.stdin.buffer)
    if spec is None and _is_file(source):
        return file_rows(Path(source))
    if spec is None and "/" in source:
        spec = ProblemSetSpec.model_construct(source=source, splits={cast(Split, split): split})
    if spec is None:
        raise UserError(_unknown_set(source))
    splits = spec.split_names()
    if split not in splits:
        raise UserError(f"{source}: it has no {split} split; it has {', '.join(splits)}")
    known_split = cast(Split, split)
    if spec.sizes and spec.source == _PROCEDURAL:
        return numbered(source, chains.problems(split, spec.sizes[known_split], seed=chains.SEED))
    if spec.source.startswith(gym.PREFIX):
        return numbered(source, gym.generated_problems(source, split))
    if spec.source.endswith(FILE_TYPES):
        return file_rows(Path(source).parent / spec.source)
    # A copy is NAME_SPLIT.jsonl or NAME/SPLIT.jsonl, and NAME.jsonl if there is only one split.
    stems = [f"{source}_{split}", f"{source}/{split}"]
    if splits == [split]:
        stems.append(source)
    if root is None:
        split_there = (spec.splits or {}).get(known_split, split)
        stem = source if splits == [split] else f"{source}_{split}"
        return _hub_rows(spec, split_there, copy=f"{stem}.jsonl")
    for stem in stems:
        for suffix in COPIES:
            path = Path(root) / f"{stem}{suffix}"
            if path.is_file():
                return file_rows(path)
    files = " or ".join(f"{stem}.jsonl" for stem in stems)
    raise UserError(f"{source}: {root} holds no {files} (nor .parquet, nor .csv)")


def _unknown_set(source: str) -> str:
    """Say that a name is not a problem set, and suggest a similar one."""
    sets = sets_by_normal_name()
    similar = difflib.get_close_matches(normal_name(source), sets, 1)
    hint = f"did you mean {sets[similar[0]]}? Or " if similar else ""
    return (
        f"{shortened(source)}: no such problem set; {hint}give one of {', '.join(sets.values())}, "
        "a .jsonl, .parquet or .csv file, a hub id, or - for stdin"
    )


def numbered(name: str, rows: Iterable[object], first: int = 1) -> Iterator[SourceRow]:
    """Yield the rows, each with its place and number."""
    for number, row in enumerate(rows, first):
        yield f"{name}:{number}", number, row


def _hub_rows(spec: ProblemSetSpec, split: str, copy: str) -> Iterator[SourceRow]:
    """Yield the rows of a set of the hub. `copy` is the name that a local copy would have."""
    import datasets
    import huggingface_hub

    datasets.disable_progress_bars()
    huggingface_hub.logging.set_verbosity_error()
    try:
        data = datasets.load_dataset(spec.source, spec.subset, split=split)
    except Exception as error:
        if Path(spec.source).parent.is_dir():
            raise UserError(f"{shortened(spec.source)}: no such file") from None
        reason = str(error).strip().split("\n")[0]
        raise UnavailableSetError(
            f"{spec.source}: the problem set cannot be loaded from the hub ({reason}); save a copy "
            f"as DIR/{copy} and add --set data.root=DIR, or give a .jsonl, .parquet or .csv file"
        ) from None
    return numbered(spec.source, map(dict, data))


def file_rows(path: Path) -> Iterator[SourceRow]:
    """Yield the rows of a file. Raises UserError if it cannot be read."""
    kind = Path(path.name.lower().removesuffix(".gz")).suffix
    try:
        if kind == ".parquet":
            yield from _parquet_rows(path)
            return
        with path.open("rb") as file:
            content = _unpacked(file)
            if kind in (".csv", ".tsv"):
                text = io.TextIOWrapper(content, "utf-8-sig", "surrogateescape", newline="")
                yield from _table_rows(path, text, "\t" if kind == ".tsv" else ",;\t")
            else:
                yield from json_rows(str(path), content)
    except (UserError, MemoryError):
        raise
    except IsADirectoryError:
        raise UserError(
            f"{path}: a directory, where problems are expected; a run or a model is --model {path}"
        ) from None
    except Exception as error:  # whatever a file may hold
        reason = str(getattr(error, "strerror", None) or error).strip().split("\n")[0]
        raise UserError(f"{path}: cannot be read ({shortened(reason)})") from None


def json_rows(name: str, file: IO[bytes]) -> Iterator[SourceRow]:
    """Yield the rows of JSON lines, of a JSON array, or of an array inside a single object.

    The value of an invalid line is a BadRowError. Raises UserError at a line that is too long, and
    at the place at which an array is invalid.
    """
    rows = _json_rows(name, file)
    first_rows = list(islice(rows, 2))
    wrapped = _wrapped_rows(first_rows[0][2]) if len(first_rows) == 1 else None
    if wrapped is None:
        yield from chain(first_rows, rows)
    else:
        yield from numbered(name, wrapped)


def _wrapped_rows(value: object) -> list[object] | None:
    """Return the list inside an object that wraps all rows of a file. Return None for any other
    value."""
    if not isinstance(value, dict):
        return None
    return next((value[key] for key in _WRAPPERS if isinstance(value.get(key), list)), None)


def _json_rows(name: str, file: IO[bytes]) -> Iterator[SourceRow]:
    readable = file
    if not isinstance(readable, io.BufferedReader):
        readable = io.BufferedReader(cast(io.RawIOBase, file))
    if _ARRAY.match(readable.peek(64)):
        yield from numbered(name, json_values(name, readable))
        return
    for number, line in enumerate(bounded_lines(name, readable), 1):
        place = f"{name}:{number}"
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if text:
                yield place, number, parse_json(text)
        except UnicodeDecodeError:
            yield place, number, BadRowError("not UTF-8 text")
        except ValueError as error:
            yield place, number, BadRowError(str(error))


class _Unpacked(gzip.GzipFile):
    """The content of a gzipped file. Raises ValueError beyond a size that only a bomb has."""

    remaining = 0
    """Bytes that may still be read."""

    def read(self, size: int | None = -1) -> bytes:
        content = super().read(size)
        self.remaining -= len(content)
        if self.remaining < 0:
            raise ValueError(
                f"it unpacks to more than {_LARGEST_RATIO} times its size, as no text does"
            )
        return content


def _unpacked(file: io.BufferedReader) -> io.BufferedReader:
    """Unpack a gzipped file. Return another file unchanged. Raises ValueError for other packers."""
    start = file.peek(8)
    for magic, packer in _PACKED.items():
        if start.startswith(magic):
            raise ValueError(f"packed with {packer}; unpack it, or pack it with gzip")
    if not start.startswith(b"\x1f\x8b"):
        return file
    content = _Unpacked(fileobj=file)
    content.remaining = _SMALL_UNPACKED + _LARGEST_RATIO * os.fstat(file.fileno()).st_size
    return io.BufferedReader(content)


def _parquet_rows(path: Path) -> Iterator[SourceRow]:
    """Yield rows by batches of bounded time and memory. A small file may decompress to any size."""
    import pyarrow.parquet

    first = 1
    try:
        with open_regular(path) as content, pyarrow.parquet.ParquetFile(content) as file:
            _check_columns(file.schema_arrow.names)
            batches = (part.to_pylist() for part in file.iter_batches(_BATCH, use_threads=False))
            rows: list[object] | None = []
            while rows is not None:
                yield from numbered(str(path), rows, first)
                first += len(rows)
                with bounded(_BATCH_S, _BATCH_GIB * GIB):
                    rows = next(batches, None)
    except MemoryError:
        raise UserError(
            f"{path}:{first}: the {_BATCH} rows from here on take more than {_BATCH_GIB} GiB: "
            "shorten them"
        ) from None


def _table_rows(path: Path, text: IO[str], delimiters: str) -> Iterator[SourceRow]:
    """Yield the rows of a table. Its delimiter is the one that is most frequent in the header."""
    csv.field_size_limit(LONGEST_LINE)
    lines = bounded_lines(str(path), text)
    header = next(lines, "")
    delimiter = max(delimiters, key=re.sub('"[^"]*"', "", header).count)
    reader = csv.DictReader(chain([header], lines), delimiter=delimiter)
    if not _is_text(header):
        raise ValueError("the line of column names is not UTF-8 text")
    _check_columns(reader.fieldnames or ())
    line = reader.line_num + 1
    number = 0
    while True:
        try:
            value: object = _table_row(next(reader), delimiter)
        except StopIteration:
            return
        except csv.Error as error:
            value = BadRowError(str(error))
        number += 1
        yield f"{path}:{line}", number, value
        line = reader.line_num + 1


def _table_row(row: dict[str | None, Any], delimiter: str) -> object:
    """Return the cells of a row by their columns, or what is wrong with them."""
    extra_cells = row.pop(None, ())
    if extra_cells:
        return BadRowError(
            f"{len(row) + len(extra_cells)} cells for {plural(len(row), 'column')}: put a text "
            f"that has a {delimiter!r} in it in quotes"
        )
    if not _is_text("".join(filter(None, row.values()))):
        return BadRowError("not UTF-8 text")
    return row


def _is_text(text: str) -> bool:
    """Return whether all bytes that a text was decoded from are UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_columns(names: Sequence[str]) -> None:
    """Raise ValueError for a duplicate column, which would silently replace the first one."""
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(f"the column {shortened(name)} stands twice")
