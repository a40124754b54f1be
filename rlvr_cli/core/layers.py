"""Layers of settings: one source each, such as a YAML file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import open_regular, reading
from rlvr_cli.core.text import shown, what_is_wrong
from rlvr_cli.core.yaml_text import LARGEST_YAML, load_yaml


@dataclass(frozen=True)
class Layer:
    """Settings from one place, which error messages name."""

    origin: str
    values: dict[str, Any]

    def sets(self, path: list[str]) -> bool:
        """Return whether the layer sets this path."""
        inside: Any = self.values
        for part in path:
            if not isinstance(inside, dict) or part not in inside:
                return False
            inside = inside[part]
        return True


def yaml_layer(path: Path, origin: str | None = None) -> Layer:
    """Read the settings of a YAML file. Raises UserError if it cannot be read or is not a mapping.

    A file with an `origin` of its own may come from anywhere: only a regular one is opened.
    """
    by_user, origin = origin is None, origin or f"--config {path}"
    with reading(origin), path.open("rb") if by_user else open_regular(path) as file:
        text = file.read(LARGEST_YAML + 1).decode()
    try:
        values = load_yaml(text)
    except ValueError as error:
        raise UserError(f"{origin}: {error}") from None
    if values is not None and not isinstance(values, dict):
        raise UserError(f"{origin}: a mapping of settings is expected")
    return Layer(origin, values or {})


def run_layer(run: Path, asked: str) -> Layer:
    """Read the settings that a run was saved with. Raises UserError for what is no run."""
    file = run / "config.yaml"
    if not file.is_file():
        raise UserError(f"{asked} {run}: no config.yaml in it; give the directory of a run")
    return yaml_layer(file, str(file))


def explained(error: ValidationError, merged: dict[str, Any], layers: Sequence[Layer]) -> str:
    """Return the first error in a line: its layer and path, what is wrong, a way out."""
    first = error.errors()[0]
    path: list[str] = []
    inside: Any = merged
    for part in first["loc"]:  # pydantic names the kind of a choice as well: it is not a key
        if isinstance(inside, dict) and part in inside:
            path.append(str(part))
            inside = inside[part]
    wrong = what_is_wrong(first)
    reason = wrong.removeprefix(": ")
    if first["type"] == "missing":
        reason = f"{'.'.join([*path, str(first['loc'][-1])])} has no default; set it"
    elif path and not isinstance(first["input"], dict):
        reason = f"{'.'.join(path)}{wrong}, not {shown(first['input'])}"
    origins = [layer.origin for layer in layers if layer.sets(path)]
    origin = origins[-1] if origins else "configuration"
    return f"{origin}: {reason}" if path else reason
