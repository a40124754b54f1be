"""Name a model's weights as vLLM does, and write them to a directory that servers read."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import IO, TYPE_CHECKING, Any

import torch
from torch import Tensor

from rlvr_cli.core.errors import EngineError, UserError
from rlvr_cli.core.files import (
    MANIFEST,
    lock_directory,
    make_directory,
    remove,
    remove_directory,
    write_new,
    writing,
)
from rlvr_cli.core.text import GIB, shortened
from rlvr_cli.rollout.engines.base import NamedTensors

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SHARD_BYTES = 2 << 30
"""Bytes of one file of weights, which is what a push holds in memory beside the model."""
_ROOM = 1.05
"""Free room that a push needs, as a multiple of the bytes that it writes."""
_INDEX = "model.safetensors.index.json"


class VllmWeights:
    """How the weights of a model are given to vLLM.

    A parameter with several names (a tied one) is given under each of them, unless vLLM itself
    `ties` it. Of what has a row for every id of the vocabulary the first `vocab_size` are given.
    """

    def __init__(self, model: "PreTrainedModel", vocab_size: int, ties: bool) -> None:
        names: dict[int, list[str]] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            names.setdefault(id(parameter), []).append(name)
        self.vocab_size = min(vocab_size, model.get_output_embeddings().weight.shape[0])
        self._names = {aliases[0]: aliases for aliases in names.values()}
        if ties:
            self._names = {first: [first] for first in self._names}
        # Parameters with a row for every vocabulary id.
        head = model.get_output_embeddings()
        weights = (model.get_input_embeddings().weight, head.weight, head.bias)
        self._has_row_per_id = {names[id(weight)][0] for weight in weights if id(weight) in names}
        # Checkpoints hold buffers too: one may correct the choice of experts.
        stored = model.state_dict(keep_vars=True)
        self._buffers = {n: buffer for n, buffer in model.named_buffers() if n in stored}

    def of(self, named_parameters: NamedTensors) -> Iterator[tuple[str, Tensor]]:
        """Yield the trainer's weights, and the buffers, under vLLM's names."""
        for name, parameter in named_parameters:
            tensor = parameter.detach()
            if name in self._has_row_per_id:
                tensor = tensor[: self.vocab_size]
            for alias in self._names.get(name, [name]):
                yield alias, tensor
        yield from self._buffers.items()


@dataclass
class WeightsDirectory:
    """Numbered directories of weights in a directory that this machine and the servers see."""

    here: Path
    """Its path on this machine."""
    there: str
    """Its path on the servers."""
    number: int = 0
    """The number of the newest push."""
    largest: int = 0
    """Bytes of the largest push."""
    is_temporary: bool = False
    """Whether it is removed at the end."""
    _lock: IO[Any] | None = field(default=None, repr=False)

    def open(self) -> None:
        """Lock the directory, and remove what a run that was killed has left in it.

        Raises UserError if another run uses it, or if it cannot be written to.
        """
        with writing(f"--weights-dir {self.here}"):
            mode = 0o700 if self.is_temporary else 0o777
            self.here.mkdir(mode=mode, parents=True, exist_ok=not self.is_temporary)
        self._lock = lock_directory(self.here)
        for pattern in ("push-*", ".push-*"):
            for path in self.here.glob(pattern):
                remove(path)

    def write(self, tensors: Iterator[tuple[str, Tensor]], model: "PreTrainedModel") -> str:
        """Write a new directory whole and return its path on the servers.

        Raises EngineError if there is no room for as much as the largest push had, or if writing
        fails. Then the newest directory stays as it was.
        """
        free = shutil.disk_usage(self.here).free
        needed = _ROOM * (self.largest or sum(p.nbytes for p in model.parameters()))
        if free < needed:
            raise EngineError(
                f"--weights-dir {self.here}: {free / GIB:.1f} GiB are free, and a push of the "
                f"weights takes {needed / GIB:.1f} GiB; free some, or name another directory"
            )
        self.number += 1
        name = f"push-{self.number:06d}"
        try:
            make_directory(self.here / name, lambda path: self._fill(path, tensors, model))
        except OSError as error:
            raise EngineError(
                f"--weights-dir {self.here}: the weights cannot be written ({error.strerror})"
            ) from None
        return f"{self.there.rstrip('/')}/{name}"

    def _fill(
        self, directory: Path, tensors: Iterator[tuple[str, Tensor]], model: "PreTrainedModel"
    ) -> None:
        """Write the weights in files of some gigabytes, their index, the configuration, and a
        manifest with the bytes of each file."""
        from safetensors.torch import save_file

        places: dict[str, str] = {}
        shard: dict[str, Tensor] = {}

        def save() -> None:
            file = f"model-{len(set(places.values())) + 1:05d}.safetensors"
            save_file(shard, directory / file, {"format": "pt"})
            places.update(dict.fromkeys(shard, file))
            shard.clear()

        total = 0
        for name, tensor in tensors:
            if shard and sum(part.nbytes for part in shard.values()) + tensor.nbytes > SHARD_BYTES:
                save()
            # A copy, since safetensors refuses tensors that share memory.
            shard[name] = tensor.to("cpu", copy=True).contiguous()
            total += tensor.nbytes
        save()
        index = {"metadata": {"total_size": total}, "weight_map": places}
        write_new(directory / _INDEX, json.dumps(index))
        model.config.save_pretrained(directory)
        files = {path.name: path.stat().st_size for path in sorted(directory.iterdir())}
        write_new(directory / MANIFEST, json.dumps({"push": self.number, "bytes": files}))
        self.largest = max(self.largest, total)

    def remove_older(self) -> None:
        """Remove all pushes but the newest."""
        for path in self.here.glob("push-*"):
            if path.name != f"push-{self.number:06d}":
                remove_directory(path)

    def close(self) -> None:
        """Remove the pushes, and unlock the directory."""
        if self._lock is None:
            return
        for path in self.here.glob("push-*"):
            remove_directory(path)
        self._lock.close()
        self._lock = None
        if self.is_temporary:
            remove(self.here)


def weights_directory(text: str | None) -> WeightsDirectory:
    """Return the directory that HERE[:THERE] names, or a new temporary one, in memory if it can be.

    Raises UserError if one of the two paths is empty or not absolute: servers run elsewhere.
    """
    if text is None:
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        here = Path(memory or tempfile.gettempdir()) / f"rlvr-weights-{token_hex(8)}"
        return WeightsDirectory(here, str(here), is_temporary=True)
    here_text, colon, there = text.partition(":")
    if not here_text or (colon and not there.startswith("/")):
        raise UserError(
            f"--weights-dir {shortened(text)}: give a directory, and after a colon the same "
            "directory as the servers see it, such as /mnt/weights:/data/weights"
        )
    here = Path(here_text).resolve()
    return WeightsDirectory(here, there or str(here))


def in_type(tensors: Iterator[tuple[str, Tensor]], precision: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the matrices in 16 bits if servers compute in that type, which halves the files.

    vLLM may hold vectors in float32, so these are as the trainer has them.
    """
    dtype = getattr(torch, precision)
    for name, tensor in tensors:
        is_matrix = tensor.dim() > 1 and tensor.is_floating_point()
        yield name, tensor.to(dtype) if is_matrix else tensor
