"""Processes that have met: they follow one plan, and what each found is gathered.

All compute the plan from the same numbers: settings, prompts, seeds, groups, rows. Shared out is
only the work, and the storage of weights, gradients, moments (`shards`). JSON and tensors are sent.
"""

import atexit
import json
import os
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from rlvr_cli.core.errors import UserError
from rlvr_cli.ranks.launch import claim, rank

T = TypeVar("T")
_JOIN = timedelta(minutes=5)
_WAIT = timedelta(days=1)
_POLL_S, _MEET_S = 0.002, 5.0
_store: list[Any] = []


def start() -> None:
    """Join the others. Raises UserError if they are more than the GPUs, or do not meet."""
    if dist.is_initialized():
        return
    size, local = int(os.environ["WORLD_SIZE"]), local_world()
    on_gpu = torch.cuda.is_available()
    if on_gpu and local > torch.cuda.device_count():
        raise UserError(
            f"--processes {local}: one a GPU, and this machine has {torch.cuda.device_count()}"
        )
    try:
        store = _met()
        claim.append(lambda: int(store.add("faults", 1)) == 1)
        _check_sizes(store, size)
        if on_gpu:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
        dist.init_process_group(backend, store=store, rank=rank(), world_size=size, timeout=_WAIT)
    except (RuntimeError, ValueError, KeyError) as error:
        if not claim:
            claim.append(lambda: os.environ.get("LOCAL_RANK", "0") == "0")
        where = ":".join(os.environ.get(f"MASTER_{name}", "?") for name in ("ADDR", "PORT"))
        reason = str(error).split("\n")[0]
        raise UserError(f"the {size} processes do not meet at {where} ({reason})") from None
    _store.append(store)
    atexit.register(lambda: dist.is_initialized() and dist.destroy_process_group())


def _met() -> Any:
    """Return the store that all processes share."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return next(dist.rendezvous("env://", timeout=_JOIN))[0]
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return dist.TCPStore(host, port, None, rank() == 0, _JOIN, wait_for_workers=False)


def _check_sizes(store: Any, size: int) -> None:
    """Raise ValueError if not all processes count as many."""
    store.set(f"size:{rank()}", str(size))
    for other in range(1, size) if rank() == 0 else [0]:
        found = int(store.get(f"size:{other}"))
        if found != size:
            raise ValueError(f"process {other} counts {found}, process {rank()} {size}")


def world() -> int:
    """Return how many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def local_world() -> int:
    """Return how many of them are on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1")))


def is_first() -> bool:
    """Return whether this is the process that writes."""
    return rank() == 0 or world() == 1


def share(items: Sequence[T], together: int = 1) -> Sequence[T]:
    """Return this process's part of the work; `together` processes in a row have the same."""
    return items if world() == 1 else items[rank() // together :: world() // together]


def dealt(items: Sequence[T]) -> list[tuple[T, int]]:
    """Return this process's part, each with 1 if it counts, else 0: all make as many passes."""
    found = [(item, 1) for item in share(items)]
    return found + [(item, 0) for item in items[:1]] * (-(-len(items) // world()) - len(found))


def gathered(own: Any) -> list[Any]:
    """Return what every process found, JSON values, in their order."""
    if world() == 1:
        return [own]
    data = torch.frombuffer(bytearray(json.dumps(own).encode()), dtype=torch.uint8)
    sizes = [int(size) for size in _all(torch.tensor([len(data)]))]
    padded = torch.zeros(max(sizes), dtype=torch.uint8)
    padded[: len(data)] = data
    parts = zip(_all(padded), sizes, strict=True)
    return [json.loads(part[:size].numpy().tobytes()) for part, size in parts]


def _all(own: torch.Tensor) -> list[torch.Tensor]:
    """Gather tensors of one shape, waiting in a way that signals can end."""
    parts = [torch.empty_like(own) for _ in range(world())]
    work = dist.all_gather(parts, own, async_op=True)
    while not work.is_completed():
        time.sleep(_POLL_S)
    work.wait()
    return parts


def decided(value: Any) -> Any:
    """Return what the first process says, a JSON value."""
    return gathered(value if rank() == 0 else None)[0] if world() > 1 else value


def summed(values: Mapping[str, float]) -> dict[str, float]:
    """Return each value summed over the processes, which have the same names."""
    if world() == 1:
        return dict(values)
    total = torch.tensor(list(values.values()), dtype=torch.float64)
    dist.all_reduce(total)
    return dict(zip(values, total.tolist(), strict=True))


def joined(
    own: dict[int, torch.Tensor], lengths: Sequence[tuple[int, int]]
) -> dict[int, torch.Tensor]:
    """Return the tensors that the processes found some of each, summed: by their key here, in the
    order and with the lengths that are the same in all."""
    if world() == 1 or not lengths:
        return own
    like = next(iter(own.values()))
    rows = like.new_zeros(sum(length for _, length in lengths), *like.shape[1:])
    parts = rows.split([length for _, length in lengths])
    for (key, _), part in zip(lengths, parts, strict=True):
        if key in own:
            part.copy_(own[key])
    dist.all_reduce(rows)
    return {key: part for (key, _), part in zip(lengths, parts, strict=True)}


def meet() -> bool:
    """Return whether all processes come here within seconds; else one has failed alone."""
    if world() == 1:
        return True
    deadline = time.monotonic() + _MEET_S
    try:
        count = int(_store[-1].add("rescue", 1))
        while count < world() and time.monotonic() < deadline:
            time.sleep(10 * _POLL_S)
            count = int(_store[-1].add("rescue", 0))
    except dist.DistError:  # the first, which keeps the count, is gone
        return False
    return count >= world()
