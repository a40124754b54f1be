"""Read the rows of a problem set from datasets_cfg, the hub, a local copy, a file or stdin."""

import csv
import difflib
import gzip
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import chain, islice
from pathlib import Path
from typing import IO, Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import open_regular, reading
from rlvr_cli.core.jsonl import bounded_lines, json_values, parse_json
from rlvr_cli.core.limits import bounded
from rlvr_cli.core.text import GIB, first_mistake, plural, shortened
from rlvr_cli.core.types import FieldName
from rlvr_cli.core.yaml_text import LARGEST_YAML, load_yaml
from rlvr_cli.data import chains
from rlvr_cli.data.fields import BadRowError, Gold
from verifiers import Format

COPIES = (".jsonl", ".json", ".parquet", ".csv", ".tsv", ".jsonl.gz", ".json.gz", ".csv.gz")
"""Endings of a problem set's local copy, in the order in which they are tried."""
SourceRow = tuple[str, int, Any]
"""The place of a row (`file:line`), its number from 1, its value or a BadRowError."""
_BATCH, _BATCH_GIB, _BATCH_S = 256, 2, 60.0
"""Rows of Parquet that are decoded at once, and the GiB and seconds that this may take."""
_UNPACKED, _TIMES = 64 << 20, 200
"""Bytes that a gzipped file may unpack to: these, and this many times its own size."""
_PACKED = {b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\[|\{\s*\n)")
"""The start of JSON over many lines: an array, or an object whose brace ends the line."""
_WRAPPERS = {"data", "rows", "problems", "examples", "instances"}
"""Keys of an object under which all rows of a file may stand as a list."""
FILE_TYPES = (*COPIES, ".gz", ".yaml", ".yml")
DEFAULT_PROMPT = "think_answer"
_MOST_MADE = 20_000
"""Problems that a procedure may make for one split; it takes seconds."""
_PROCEDURAL = "procedural:chains"

Split = Literal["train", "test"]


class ProblemSetSpec(BaseModel):
    """A YAML of datasets_cfg, or the user's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str = "a problem set of one's own"
    version: int = 1
    license: str = "not said"
    source: str
    """`procedural:chains`, a hub id, or a file beside the YAML."""
    subset: str | None = None
    sizes: dict[Split, Annotated[int, Field(ge=1, le=_MOST_MADE)]] | None = None
    """Numbers of problems in the splits of a procedural set."""
    splits: dict[Split, str] | None = None
    """The source's own names of `train` and `test`; a split that is left out does not exist."""
    fields: dict[FieldName, str] | None = None
    gold: Gold | None = None
    prompt: str = DEFAULT_PROMPT
    answer_format: Format | None = None
    """The form by which answers are judged; none: the form that the prompt asks for."""

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


def known_sets() -> list[str]:
    """List the names in datasets_cfg."""
    files = resources.files("datasets_cfg").iterdir()
    return sorted(file.name[:-5] for file in files if file.name.endswith(".yaml"))


def canonical(source: str) -> str:
    """Return the set's own spelling of a name (AIME_2024: aime24); any other source as it is."""
    if source in known_sets() or Path(source).exists():
        return source
    return {_plain(name): name for name in known_sets()}.get(_plain(source), source)


def _plain(name: str) -> str:
    return re.sub(r"20(?=\d\d$)", "", re.sub(r"[-_ ]", "", name.lower()))


def find_spec(source: str) -> ProblemSetSpec | None:
    """Return the description of a set's name or of a YAML file; None for any other source. Raises
    UserError if it is invalid."""
    if source in known_sets():
        text = (resources.files("datasets_cfg") / f"{source}.yaml").read_text(encoding="utf-8")
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
    """Return whether the source defines such a split itself; files and stdin define none."""
    spec = find_spec(source)
    return spec is not None and split in spec.split_names()


def source_rows(source: str, split: str, root: str | None) -> Iterator[SourceRow]:
    """Yield the rows of any source; `root` is a directory of local copies. Raises UserError if the
    source, the split or the copy does not exist."""
    spec = find_spec(source)
    if spec is None and source == "-":
        return json_rows("stdin", sys.stdin.buffer)
    if spec is None and _is_file(source):
        return file_rows(Path(source))
    if spec is None and "/" in source:
        spec = ProblemSetSpec.model_construct(source=source, splits={cast(Split, split): split})
    if spec is None:
        names = {_plain(name): name for name in known_sets()}
        near = difflib.get_close_matches(_plain(source), names, 1)
        meant = f"did you mean {names[near[0]]}? Or " if near else ""
        raise UserError(
            f"{shortened(source)}: no such problem set; {meant}give one of "
            f"{', '.join(names.values())}, a .jsonl, .parquet or .csv file, a hub id, or - for "
            "stdin"
        )
    splits, own = spec.split_names(), cast(Split, split)
    if split not in splits:
        raise UserError(f"{source}: it has no {split} split; it has {', '.join(splits)}")
    if spec.sizes and spec.source == _PROCEDURAL:
        rows = chains.problems(split, spec.sizes[own], seed=chains.SEED)
        return ((f"{source}:{n}", n, row) for n, row in enumerate(rows, 1))
    if spec.source.endswith(FILE_TYPES):
        return file_rows(Path(source).parent / spec.source)
    if root is None:
        return _hub_rows(source, spec, (spec.splits or {}).get(own, split))
    # A copy is NAME_SPLIT.jsonl or NAME/SPLIT.jsonl; of a set of one split also NAME.jsonl.
    stems = [f"{source}_{split}", f"{source}/{split}", *([source] if splits == [split] else [])]
    for path in (Path(root) / f"{stem}{suffix}" for stem in stems for suffix in COPIES):
        if path.is_file():
            return file_rows(path)
    files = " or ".join(f"{stem}.jsonl" for stem in stems)
    raise UserError(f"{source}: {root} holds no {files} (nor .parquet, nor .csv)")


def _hub_rows(name: str, spec: ProblemSetSpec, split: str) -> Iterator[SourceRow]:
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
        copy = f"{name}_{split}.jsonl" if name != spec.source else f"{name}.jsonl"
        raise UserError(
            f"{spec.source}: the problem set cannot be loaded from the hub ({reason}); save a copy "
            f"as DIR/{copy} and add --set data.root=DIR, or give a .jsonl, .parquet or .csv file"
        ) from None
    return ((f"{spec.source}:{n}", n, dict(row)) for n, row in enumerate(data, 1))


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
                text = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
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
    """Yield the rows of JSON lines or of a JSON array, or of one inside a lone object; the value of
    an invalid line is a BadRowError. Raises UserError at a line that is too long, and where an
    array is invalid."""
    rows = _json_rows(name, file)
    first = list(islice(rows, 2))
    row = first[0][2] if len(first) == 1 else None
    inside = row.get(next(iter(_WRAPPERS & row.keys()), "")) if isinstance(row, dict) else None
    if isinstance(inside, list):
        rows = ((f"{name}:{number}", number, value) for number, value in enumerate(inside, 1))
        first = []
    yield from chain(first, rows)


def _json_rows(name: str, file: IO[bytes]) -> Iterator[SourceRow]:
    readable: Any = file if hasattr(file, "peek") else io.BufferedReader(file)
    if _ARRAY.match(readable.peek(64)):
        yield from ((f"{name}:{n}", n, row) for n, row in enumerate(json_values(name, readable), 1))
        return
    for number, line in enumerate(bounded_lines(name, readable), 1):
        where = f"{name}:{number}"
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if text:
                yield where, number, parse_json(text)
        except UnicodeDecodeError:
            yield where, number, BadRowError("not UTF-8 text")
        except ValueError as error:
            yield where, number, BadRowError(str(error))


class _Unpacked(gzip.GzipFile):
    """The content of a gzipped file. Raises ValueError beyond a size that only a bomb has."""

    left = 0

    def read(self, size: int | None = -1) -> bytes:
        content = super().read(size)
        self.left -= len(content)
        if self.left < 0:
            raise ValueError(f"it unpacks to more than {_TIMES} times its size, as no text does")
        return content


def _unpacked(file: io.BufferedReader) -> io.BufferedReader:
    """Unpack a gzipped file; return another file as it is. Raises ValueError for other packers."""
    start = file.peek(8)
    for magic, packer in _PACKED.items():
        if start.startswith(magic):
            raise ValueError(f"packed with {packer}; unpack it, or pack it with gzip")
    if not start.startswith(b"\x1f\x8b"):
        return file
    content: Any = _Unpacked(fileobj=file)
    content.left = _UNPACKED + _TIMES * os.fstat(file.fileno()).st_size
    return io.BufferedReader(content)


def _parquet_rows(path: Path) -> Iterator[SourceRow]:
    """Yield rows by batches of bounded time and memory: a small file may decompress to any size."""
    import pyarrow.parquet

    first = 1
    try:
        with open_regular(path) as content, pyarrow.parquet.ParquetFile(content) as file:
            _check_columns(file.schema_arrow.names)
            batches = (part.to_pylist() for part in file.iter_batches(_BATCH, use_threads=False))
            rows: list[Any] | None = []
            while rows is not None:
                yield from ((f"{path}:{n}", n, row) for n, row in enumerate(rows, first))
                first += len(rows)
                with bounded(_BATCH_S, _BATCH_GIB * GIB):
                    rows = next(batches, None)
    except MemoryError:
        what = f"the {_BATCH} rows from here on take more than {_BATCH_GIB} GiB"
        raise UserError(f"{path}:{first}: {what}: shorten them") from None


def _table_rows(path: Path, text: IO[str], delimiters: str) -> Iterator[SourceRow]:
    """Yield the rows of a table with a header, whose most frequent delimiter is the table's."""
    lines = bounded_lines(str(path), text)
    header = next(lines, "")
    delimiter = max(delimiters, key=re.sub('"[^"]*"', "", header).count)
    reader = csv.DictReader(chain([header], lines), delimiter=delimiter)
    _check_columns(reader.fieldnames or ())
    line = reader.line_num + 1
    for n, row in enumerate(reader, 1):
        value: Any = row
        if more := row.pop(None, ()):
            cells = f"{len(row) + len(more)} cells for {plural(len(row), 'column')}"
            value = BadRowError(f"{cells}: put a text that has a {delimiter!r} in it in quotes")
        yield f"{path}:{line}", n, value
        line = reader.line_num + 1


def _check_columns(names: Sequence[str]) -> None:
    """Raise ValueError for a duplicate column, whose cells would silently replace the first's."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"the column {shortened(twice[0])} stands twice")
