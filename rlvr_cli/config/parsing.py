"""Read what the flags of some settings give."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast, get_args

from rlvr_cli.config.built_in import canonical
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import read_regular, reading
from rlvr_cli.core.text import LONGEST_ANSWER, shortened
from rlvr_cli.core.types import FieldName


def read_sources(names: Iterable[str]) -> str | tuple[str, ...]:
    """Return the problem sets as their files spell them. A single set is returned alone."""
    sources = tuple(map(canonical, names))
    return sources[0] if len(sources) == 1 else sources


def read_field_paths(
    texts: Iterable[str] | Mapping[FieldName, str],
) -> Mapping[FieldName, str]:
    """Return the path of each field that `NAME=path` names."""
    if isinstance(texts, Mapping):
        return texts
    paths: dict[FieldName, str] = {}
    for text in texts:
        name, _, path = text.partition("=")
        field = cast("FieldName", name)
        if name not in get_args(FieldName) or not path:
            raise UserError(
                f"--field {shortened(text)}: write it as NAME=path, with NAME one of "
                f"{', '.join(get_args(FieldName))}, such as answer=reward.truth[0]"
            )
        if paths.setdefault(field, path) != path:
            raise UserError(
                f"--field {shortened(text)}: {field}={shortened(paths[field])} stands before it; "
                f"for one file of --responses write FILE::{shortened(text)}"
            )
    return paths


def read_system(text: str) -> str:
    """Return the text of a system prompt, or that of the file that a single word names."""
    if any(map(str.isspace, text)):
        return text
    file = Path(text)
    # The name of a file has at most 255 bytes; the system refuses to look for a longer one.
    if file.suffix in (".txt", ".md") or (len(text) <= 255 and file.exists()):
        with reading(f"--system {shortened(text)}"):
            return read_regular(file, LONGEST_ANSWER).decode().strip()
    return text
