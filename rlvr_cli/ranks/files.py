"""Tensors in safetensors files of bounded size, put together and written one after the other."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from rlvr_cli.ranks.shards import whole

_LARGEST = 4 << 30
"""Bytes of a file, unless a single tensor has more."""


def put_together(tensors: Mapping[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors whole, one at a time; all processes call it alike."""
    for name, tensor in tensors.items():
        yield name, whole(tensor.detach())


def write_tensors(path: Path, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Write whole tensors as they come: into one file, or several with the hub's index."""
    parts: list[tuple[Path, list[str]]] = []
    held: dict[str, torch.Tensor] = {}
    written = size = 0

    def flush() -> None:
        part = path.with_name(f"{path.stem}-{len(parts) + 1}.partial")
        save_file(held, part, metadata={"format": "pt"})
        parts.append((part, list(held)))
        held.clear()

    for name, tensor in tensors:
        if held and size + tensor.nbytes > _LARGEST:
            flush()
            size = 0
        held[name] = tensor.cpu().contiguous()
        size, written = size + tensor.nbytes, written + tensor.nbytes
    flush()
    if len(parts) == 1:
        parts[0][0].replace(path)
        return
    path.unlink(missing_ok=True)
    places: dict[str, str] = {}
    for number, (part, names) in enumerate(parts, 1):
        name = f"{path.stem}-{number:05d}-of-{len(parts):05d}{path.suffix}"
        part.replace(path.with_name(name))
        places |= dict.fromkeys(names, name)
    index = {"metadata": {"total_size": written}, "weight_map": places}
    path.with_name(f"{path.name}.index.json").write_text(json.dumps(index, indent=2))


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Read what `write_tensors` wrote, mapped: only rows that a process copies enter memory."""
    parts = sorted(path.parent.glob(f"{path.stem}-*-of-*{path.suffix}"))
    return {name: one for part in parts or [path] for name, one in load_file(part).items()}
