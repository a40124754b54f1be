"""Write tensors to safetensors files of bounded size, one after the other, by all processes."""

import json
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from rlvr_cli.core.files import sha256, sync
from rlvr_cli.ranks.group import by_the_first, gather, whole, world
from rlvr_cli.ranks.launch import rank

_LARGEST = 4 << 30
"""Bytes of a file, unless a single tensor has more."""


def write_tensors(path: Path, tensors: Iterable[tuple[str, torch.Tensor]]) -> dict[str, str]:
    """Write tensors, each put together as it comes, into one file, or several with the hub's index,
    which the processes write in turn; all must call it with the same names. Return the checksums by
    the files' names. Raises OSError in all if one cannot write."""
    processes, own = world(), rank() % world()
    parts: list[list[str]] = [[]]
    held: dict[str, torch.Tensor] = {}
    sums: dict[int, str] = {}
    written = size = 0
    failure: OSError | None = None

    def partial(number: int) -> Path:
        return path.with_name(f"{path.stem}-{number}.partial")

    def write() -> None:
        """Write the file of this round that is this process's, if there are tensors for it."""
        nonlocal failure
        number = (len(parts) - 1) // processes * processes + own
        if number < len(parts) and failure is None:
            try:
                save_file(held, partial(number), metadata={"format": "pt"})
                sync(partial(number))
                sums[number] = sha256(partial(number))
            except OSError as error:
                failure = error
            except SafetensorError as error:
                failure = OSError(0, str(error), str(path))
        held.clear()

    for name, slices in tensors:
        tensor = whole(slices.detach())
        if parts[-1] and size + tensor.nbytes > _LARGEST:
            if len(parts) % processes == 0:  # each has one to write: all at once
                write()
            parts.append([])
            size = 0
        parts[-1].append(name)
        size, written = size + tensor.nbytes, written + tensor.nbytes
        if (len(parts) - 1) % processes == own:
            held[name] = tensor.cpu().contiguous()
    write()
    count = len(parts)
    names = [
        path.name if count == 1 else f"{path.stem}-{n:05d}-of-{count:05d}{path.suffix}"
        for n in range(1, count + 1)
    ]
    own_sums = [(names[number], digest) for number, digest in sums.items()]
    checksums = dict(pair for pairs in gather(own_sums, failure) for pair in pairs)

    def rename() -> None:
        for number, name in enumerate(names):
            partial(number).replace(path.with_name(name))
        if count > 1:
            path.unlink(missing_ok=True)
            files = zip(names, parts, strict=True)
            places = {tensor: file for file, tensors in files for tensor in tensors}
            index = {"metadata": {"total_size": written}, "weight_map": places}
            path.with_name(f"{path.name}.index.json").write_text(json.dumps(index, indent=2))

    by_the_first(rename)
    return checksums


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Read what `write_tensors` wrote, mapped: only rows that a process copies enter memory."""
    files = sorted(path.parent.glob(f"{path.stem}-*-of-*{path.suffix}")) or [path]
    return {name: tensor for file in files for name, tensor in load_file(file).items()}
