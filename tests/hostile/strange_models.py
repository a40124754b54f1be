"""Model directories that nobody should trust: the built-in one, spoilt in one way each."""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

import rlvr_cli

TINY = Path(rlvr_cli.__file__).parent / "tiny"
MARK = "CODE_RAN"
CODE = f"open({MARK!r}, 'w').close()\nclass Evil:\n    pass\n"
ESCAPES = "\x1b]0;owned\x07\x1b[2J\u202e"
GONE: Any = object()
Spoil = Callable[[Path], None]


def model_at(directory: Path, *spoils: Spoil) -> Path:
    """A copy of the built-in model, spoilt."""
    directory.mkdir()
    for path in TINY.iterdir():
        if path.suffix in (".json", ".jinja"):
            shutil.copy(path, directory)
    (directory / "model.safetensors").symlink_to(TINY / "model.safetensors")
    for spoil in spoils:
        spoil(directory)
    return directory


def edited(name: str, **changes: Any) -> Spoil:
    """A JSON file with keys changed, or GONE; made where it is missing."""

    def spoil(directory: Path) -> None:
        path = directory / name
        values = json.loads(path.read_text()) if path.exists() else {}
        values |= changes
        retained = {key: value for key, value in values.items() if value is not GONE}
        path.write_text(json.dumps(retained))

    return spoil


def config(**changes: Any) -> Spoil:
    """config.json with keys changed."""
    return edited("config.json", **changes)


def written(name: str, content: str | bytes) -> Spoil:
    """A file with other content."""
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content

    def spoil(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_bytes(data)

    return spoil


def cut(name: str, size: int) -> Spoil:
    """The first bytes of a file only."""
    return lambda directory: written(name, (directory / name).read_bytes()[:size])(directory)


def without(*names: str) -> Spoil:
    """Files are missing."""
    return lambda directory: [(directory / name).unlink() for name in names] and None


def linked(name: str, target: str) -> Spoil:
    """A file is a symlink."""

    def spoil(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        (directory / name).symlink_to(target)

    return spoil


def piped(name: str) -> Spoil:
    """A file is a FIFO that nobody writes to."""

    def spoil(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        os.mkfifo(directory / name)

    return spoil


def sparse(name: str, size: int) -> Spoil:
    """A file of that many zeros, which take no room."""

    def spoil(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        with (directory / name).open("wb") as file:
            file.truncate(size)

    return spoil


def weights(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Spoil:
    """Tensors changed."""

    def spoil(directory: Path) -> None:
        tensors = change(load_file(TINY / "model.safetensors"))
        (directory / "model.safetensors").unlink()
        save_file(tensors, directory / "model.safetensors", {"format": "pt"})

    return spoil


def vocabulary(ids: dict[str, int]) -> Spoil:
    """Tokens with other ids."""

    def spoil(directory: Path) -> None:
        path = directory / "tokenizer.json"
        values = json.loads(path.read_text())
        values["model"]["vocab"] |= ids
        path.write_text(json.dumps(values))

    return spoil


def template(text: Any) -> Spoil:
    """Another chat template."""
    if isinstance(text, str):
        return written("chat_template.jinja", text)

    def spoil(directory: Path) -> None:
        without("chat_template.jinja")(directory)
        edited("tokenizer_config.json", chat_template=text)(directory)

    return spoil


def code(*names: str) -> Spoil:
    """Python files that leave a mark where they run."""

    def spoil(directory: Path) -> None:
        for name in names:
            written(name, CODE)(directory)

    return spoil


class _Bomb:
    def __reduce__(self) -> tuple:
        return os.system, (f"touch {MARK}",)


PICKLE = pickle.dumps(_Bomb())
