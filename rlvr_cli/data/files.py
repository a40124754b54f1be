"""Read the rows of one file: JSON lines, JSON arrays, CSV, TSV or Parquet, plain or gzipped."""

import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

from rlvr_cli.core.bounds import bounded
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import open_regular
from rlvr_cli.core.jsonl import bounded_lines, json_values, parse_json
from rlvr_cli.core.text import GIB, plural, shortened

COPIES = (".jsonl", ".json", ".parquet", ".csv", ".tsv", ".jsonl.gz", ".json.gz", ".csv.gz")
"""The endings of a problem set's local copy, in the order in which they are looked for."""
SourceRow = tuple[str, int, Any]
"""Where the row stands (`file:line`), its number from 1, its value or why it has none."""
_BATCH, _BATCH_GIB, _BATCH_S = 256, 2, 60.0
"""Rows of Parquet that are decoded at once, the memory and the seconds that this may take."""
_UNPACKED, _TIMES = 64 << 20, 200
"""Bytes that a gzipped file may unpack to: so many, and so many times its own size."""
_PACKED = {b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
_GZIP = b"\x1f\x8b"
_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\[|\{\s*\n)")
"""How a text of values over many lines begins: an array, or an object that is spread out."""
_QUOTED = re.compile(r'"[^"]*"')


class BadRowError(Exception):
    """A row is not a problem, or not a response."""


def file_rows(path: Path) -> Iterator[SourceRow]:
    """Yield the rows of a file. Raises UserError if it cannot be read."""
    kind = Path(path.name.lower().removesuffix(".gz")).suffix
    try:
        if kind == ".parquet":
            yield from _parquet_rows(path)
            return
        with path.open("rb") as file:
            content = _unpacked(path, file)
            if kind in (".csv", ".tsv"):
                text = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
                yield from _table_rows(path, text, "\t" if kind == ".tsv" else ",;\t")
            else:
                yield from json_rows(str(path), content)
    except EOFError:
        raise UserError(f"{path}: the compressed file ends too soon; get it again whole") from None
    except IsADirectoryError:
        raise UserError(
            f"{path}: a directory, where problems are expected; a run or a model is --model {path}"
        ) from None
    except (OSError, ValueError, csv.Error, zlib.error) as error:
        reason = _reason(getattr(error, "strerror", None) or error)
        raise UserError(f"{path}: cannot be read ({reason})") from None


def json_rows(name: str, file: IO[bytes]) -> Iterator[SourceRow]:
    """Yield the rows of JSON lines, or of a JSON array; an invalid line comes as a BadRowError.
    Raises UserError at a line without end, and where an array cannot be read any further."""
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


def _unpacked(path: Path, file: io.BufferedReader) -> io.BufferedReader:
    """Return what a gzipped file holds, or the file itself. Raises UserError for other packers."""
    start = file.peek(8)
    for magic, packer in _PACKED.items():
        if start.startswith(magic):
            raise UserError(f"{path}: packed with {packer}; unpack it, or pack it with gzip")
    if not start.startswith(_GZIP):
        return file
    return io.BufferedReader(_Unpacked(path, file))


class _Unpacked(io.RawIOBase):
    """The content of a gzipped file, up to a size that only a bomb passes."""

    def __init__(self, path: Path, packed: io.BufferedReader) -> None:
        self._path, self._content = path, gzip.GzipFile(fileobj=packed)
        self._left = _UNPACKED + _TIMES * os.fstat(packed.fileno()).st_size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._content.readinto(buffer)
        self._left -= count
        if self._left < 0:
            raise UserError(
                f"{self._path}: it unpacks to more than {_TIMES} times its size, as no text does; "
                "unpack it to a file if that is right"
            )
        return count


def _reason(error: object) -> str:
    return shortened(str(error).strip().split("\n")[0])


def _parquet_rows(path: Path) -> Iterator[SourceRow]:
    """Yield rows a batch at a time, each bounded: a small file may decompress to any size."""
    import pyarrow.parquet

    first = 1
    try:
        with open_regular(path) as content, pyarrow.parquet.ParquetFile(content) as file:
            _check_columns(path, file.schema_arrow.names)
            batches = (part.to_pylist() for part in file.iter_batches(_BATCH, use_threads=False))
            rows: list[Any] | None = []
            while rows is not None:
                yield from ((f"{path}:{n}", n, row) for n, row in enumerate(rows, first))
                first += len(rows)
                with bounded(_BATCH_S, _BATCH_GIB * GIB):
                    rows = next(batches, None)
    except (UserError, OSError):
        raise
    except MemoryError:
        what = f"the {_BATCH} rows from here on take more than {_BATCH_GIB} GiB"
        raise UserError(f"{path}:{first}: {what}: shorten them") from None
    except Exception as error:  # whatever a file may hold
        raise UserError(f"{path}: cannot be read ({_reason(error)})") from None


def _table_rows(path: Path, text: IO[str], delimiters: str) -> Iterator[SourceRow]:
    """Yield the rows of a table with a header; of the delimiters it has the most frequent there."""
    lines = bounded_lines(str(path), text)
    header = next(lines, "")
    delimiter = max(delimiters, key=_QUOTED.sub("", header).count)
    reader = csv.DictReader(chain([header], lines), delimiter=delimiter)
    _check_columns(path, reader.fieldnames or ())
    line = reader.line_num + 1
    for n, row in enumerate(reader, 1):
        where, line = f"{path}:{line}", reader.line_num + 1
        if more := row.pop(None, ()):
            cells = f"{len(row) + len(more)} cells for {plural(len(row), 'column')}"
            wrong = f"{cells}: put a text that has a {delimiter!r} in it in quotes"
            yield where, n, BadRowError(wrong)
        else:
            yield where, n, row


def _check_columns(path: Path, names: Iterable[str]) -> None:
    """Raise UserError for a duplicate column, which would silently replace the first."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UserError(f"{path}: the column {shortened(name)} stands twice")
        seen.add(name)
