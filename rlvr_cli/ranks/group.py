"""Processes that have met: they follow one plan, share out work and weights, tell what they found.

All compute the plan from the same numbers: settings, prompts, seeds, groups, rows. The weights,
gradients and moments of what is trained are shared out by torch's FSDP2. JSON and tensors are sent.
"""

import atexit
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

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
    local, on_gpu = local_world(), torch.cuda.is_available()
    if on_gpu and local > torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise UserError(f"--processes {local}: one a GPU, and this machine has {count}")
    try:
        store, number, size = next(dist.rendezvous("env://", timeout=_JOIN))
        claim.append(lambda: int(store.add("faults", 1)) == 1)
        if on_gpu:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        _join(store, number, size)
    except (RuntimeError, ValueError, KeyError) as error:
        if not claim:
            claim.append(lambda: os.environ.get("LOCAL_RANK", "0") == "0")
        where = ":".join(os.environ.get(f"MASTER_{name}", "?") for name in ("ADDR", "PORT"))
        reason = str(error).split("\n")[0]
        raise UserError(f"the processes do not meet at {where} ({reason})") from None


def _join(store: Any, number: int, size: int) -> None:
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=store, rank=number, world_size=size, timeout=_WAIT)
    _store.append(store)
    atexit.register(lambda: dist.is_initialized() and dist.destroy_process_group())


def world() -> int:
    """Return how many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_joined() -> bool:
    """Return whether this process is in a group of ours, and not only in one of vLLM's."""
    return bool(_store) and dist.is_initialized()


def local_world() -> int:
    """Return how many of them are on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1")))


def is_first() -> bool:
    """Return whether this is the process that writes."""
    return rank() == 0 or world() == 1


def share(items: Sequence[T]) -> Sequence[T]:
    """Return this process's part of the work."""
    return items if world() == 1 else items[rank() :: world()]


def dealt(items: Sequence[T]) -> list[tuple[T, int]]:
    """Return this process's part, each with 1 if it counts, else 0: all make as many passes."""
    found = [(item, 1) for item in share(items)]
    return found + [(item, 0) for item in items[:1]] * (-(-len(items) // world()) - len(found))


def gathered(own: Any, failure: OSError | None = None) -> list[Any]:
    """Return what every process found, JSON values, in their order. Raises OSError in all if one of
    them had a failure instead."""
    if world() == 1:
        if failure is not None:
            raise failure
        return [own]
    said = failure and [failure.errno, failure.strerror, str(failure.filename)]
    data = torch.frombuffer(bytearray(json.dumps([own, said]).encode()), dtype=torch.uint8)
    sizes = [int(size) for size in _all(torch.tensor([len(data)]))]
    padded = torch.zeros(max(sizes), dtype=torch.uint8)
    padded[: len(data)] = data
    parts = zip(_all(padded), sizes, strict=True)
    met = [json.loads(part[:size].numpy().tobytes()) for part, size in parts]
    for error in (error for _, error in met if error):
        raise failure or OSError(*error)
    return [found for found, _ in met]


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
    return gathered(value if is_first() else None)[0]


def by_the_first(work: Callable[[], None]) -> None:
    """Let the first process work while the others wait. Raises OSError in all if that failed."""
    failure = None
    try:
        if is_first():
            work()
    except OSError as error:
        failure = error
    gathered(None, failure)


def summed(values: Mapping[str, float]) -> dict[str, float]:
    """Return each value summed over the processes, which have the same names."""
    total = added_up(torch.tensor(list(values.values()), dtype=torch.float64))
    return dict(zip(values, total.tolist(), strict=True))


def added_up(own: torch.Tensor) -> torch.Tensor:
    """Return a tensor summed over the processes, which have the same shape."""
    if world() > 1 and own.numel():
        dist.all_reduce(own)
    return own


def meet(place: str = "rescue") -> bool:
    """Return whether all processes come to this place within seconds; else one failed alone."""
    if world() == 1:
        return True
    deadline = time.monotonic() + _MEET_S
    try:
        count = int(_store[-1].add(place, 1))
        while count < world() and time.monotonic() < deadline:
            time.sleep(10 * _POLL_S)
            count = int(_store[-1].add(place, 0))
    except dist.DistError:  # what keeps the count is gone
        return False
    return count >= world()


def shard(
    root: torch.nn.Module,
    parts: Iterable[torch.nn.Module],
    dtype: torch.dtype | None = None,
    offload: bool = False,
) -> None:
    """Share out a module over the processes (FSDP2): each part is a group of weights that are put
    together for as long as it computes, in `dtype` (None: their own), and so is the rest, for which
    every pass must go through the root. `offload`: slices lie in the CPU's memory. Gradients are
    summed, in float32 at least. Raises UserError for a module that torch cannot share out."""
    if not dist.is_initialized():
        _join(dist.HashStore(), 0, 1)
    mesh = init_device_mesh("cuda" if torch.cuda.is_available() else "cpu", (world(),))
    summed_in = torch.promote_types(next(root.parameters()).dtype, torch.float32)
    policy = MixedPrecisionPolicy(dtype, summed_in)
    how: dict[str, Any] = (
        {"offload_policy": CPUOffloadPolicy(torch.cuda.is_available())} if offload else {}
    )
    try:
        for part in (*parts, root):
            # The root too: weights that stayed whole after a pass would miss the next update.
            fully_shard(part, mesh=mesh, reshard_after_forward=True, mp_policy=policy, **how)
            assert isinstance(part, FSDPModule)
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)  # gloo has no other way to sum
            part.set_reduce_scatter_unused_params(True)  # experts that one process did not ask
    except (ValueError, AssertionError, NotImplementedError) as error:
        what = "{} ({})".format(type(root).__name__, str(error).split("\n")[0])
        wrong = f"several processes cannot share out {what}: leave --processes out"
        raise UserError(wrong) from None


def sync_gradients(modules: Iterable[torch.nn.Module], wanted: bool) -> None:
    """Say whether the next backward pass adds the gradients up over the processes."""
    for module in modules:
        if isinstance(module, FSDPModule):
            module.set_requires_gradient_sync(wanted)


def is_shared(tensor: torch.Tensor) -> bool:
    """Return whether this process has only a slice of the tensor."""
    return isinstance(tensor, DTensor)


def own_slice(tensor: torch.Tensor) -> torch.Tensor:
    """Return what this process has of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor put together; all processes call it alike."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def spread(tensor: torch.Tensor, like: torch.Tensor | None) -> torch.Tensor:
    """Return a whole tensor in the way that `like` is stored, if they have one shape."""
    if not isinstance(like, DTensor) or tensor.shape != like.shape:
        return tensor
    device = tensor.to(like.device)
    return distribute_tensor(device, like.device_mesh, like.placements, src_data_rank=None)
