"""Share out work and weights over several processes, and gather what each has.

All compute one plan from the same numbers: settings, prompts, seeds, groups, rows. Torch's FSDP2
shares out the weights, gradients and moments of what is trained. JSON and tensors are sent.
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
from rlvr_cli.core.versions import unused_parameters_are_reduced
from rlvr_cli.ranks.launch import rank, report_claims

T = TypeVar("T")
_JOIN = timedelta(minutes=5)
_WAIT = timedelta(days=1)
"""Time that a collective may wait for the slowest process: a rollout may take hours."""
_POLL_S, _MEET_S = 0.002, 5.0
_stores: list[Any] = []


def start() -> None:
    """Join the process group. Raises UserError for more processes than GPUs, or if none meets."""
    if dist.is_initialized():
        return
    local, on_gpu = local_world(), torch.cuda.is_available()
    if on_gpu and local > torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise UserError(f"--processes {local}: one a GPU, and this machine has {count}")
    try:
        store, number, size = next(dist.rendezvous("env://", timeout=_JOIN))
        report_claims.append(lambda: int(store.add("faults", 1)) == 1)
        if on_gpu:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        _join(store, number, size)
    except (RuntimeError, ValueError, KeyError) as error:
        if not report_claims:
            report_claims.append(lambda: os.environ.get("LOCAL_RANK", "0") == "0")
        where = ":".join(os.environ.get(f"MASTER_{name}", "?") for name in ("ADDR", "PORT"))
        reason = str(error).split("\n")[0]
        raise UserError(f"the processes do not meet at {where} ({reason})") from None


def _join(store: Any, number: int, size: int) -> None:
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=store, rank=number, world_size=size, timeout=_WAIT)
    _stores.append(store)
    atexit.register(lambda: dist.is_initialized() and dist.destroy_process_group())


def world() -> int:
    """Return how many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_joined() -> bool:
    """Return whether this process is in a group of ours, and not only in one of vLLM's."""
    return bool(_stores) and dist.is_initialized()


def local_world() -> int:
    """Return how many of the processes are on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1")))


def is_first() -> bool:
    """Return whether this is the process that writes files."""
    return rank() == 0 or world() == 1


def share(items: Sequence[T]) -> Sequence[T]:
    """Return this process's part of the items."""
    return items if world() == 1 else items[rank() :: world()]


def deal(items: Sequence[T]) -> list[tuple[T, int]]:
    """Return this process's part of the items, each with 1; then items with 0 for dummy passes that
    keep this process in step with the collectives of those that have more."""
    own = [(item, 1) for item in share(items)]
    passes = -(-len(items) // world())
    return own + [(item, 0) for item in items[:1]] * (passes - len(own))


def gather(own: Any, failure: OSError | None = None) -> list[Any]:
    """Return the JSON value of every process, in the order of their ranks. Raises OSError in all of
    them if one has a failure instead."""
    if world() == 1:
        if failure is not None:
            raise failure
        return [own]
    error = failure and [failure.errno, failure.strerror, str(failure.filename)]
    data = torch.frombuffer(bytearray(json.dumps([own, error]).encode()), dtype=torch.uint8)
    sizes = [int(size) for size in _gather_tensors(torch.tensor([len(data)]))]
    padded = torch.zeros(max(sizes), dtype=torch.uint8)
    padded[: len(data)] = data
    parts = zip(_gather_tensors(padded), sizes, strict=True)
    pairs = [json.loads(part[:size].numpy().tobytes()) for part, size in parts]
    for _, error in pairs:
        if error is not None:
            raise failure or OSError(*error)
    return [value for value, _ in pairs]


def _gather_tensors(own: torch.Tensor) -> list[torch.Tensor]:
    """Gather tensors of one shape, by polling, so that a signal can end the wait."""
    parts = [torch.empty_like(own) for _ in range(world())]
    work = dist.all_gather(parts, own, async_op=True)
    while not work.is_completed():
        time.sleep(_POLL_S)
    work.wait()
    return parts


def broadcast_from_first(value: Any) -> Any:
    """Return the first process's value, as JSON, in every process."""
    return gather(value if is_first() else None)[0]


def by_the_first(work: Callable[[], None]) -> None:
    """Run `work` in the first process while the others wait. Raises OSError in all if it failed."""
    failure = None
    try:
        if is_first():
            work()
    except OSError as error:
        failure = error
    gather(None, failure)


def sum_values(values: Mapping[str, float]) -> dict[str, float]:
    """Sum each value over the processes, which have the same names."""
    total = sum_tensor(torch.tensor(list(values.values()), dtype=torch.float64))
    return dict(zip(values, total.tolist(), strict=True))


def sum_tensor(own: torch.Tensor) -> torch.Tensor:
    """Sum a tensor, of one shape everywhere, over the processes."""
    if world() > 1 and own.numel():
        dist.all_reduce(own)
    return own


def meet(place: str = "rescue") -> bool:
    """Return whether all processes reach this place within 5 s; if not, one failed alone."""
    if world() == 1:
        return True
    deadline = time.monotonic() + _MEET_S
    try:
        count = int(_stores[-1].add(place, 1))
        while count < world() and time.monotonic() < deadline:
            time.sleep(10 * _POLL_S)
            count = int(_stores[-1].add(place, 0))
    except dist.DistError:  # the process that keeps the count is gone
        return False
    return count >= world()


def shard(
    root: torch.nn.Module,
    parts: Iterable[torch.nn.Module],
    dtype: torch.dtype | None = None,
    offload: bool = False,
    keeps: bool = False,
) -> None:
    """Share out a module over the processes (FSDP2). Each part's weights are put together while it
    computes, in `dtype` (None: their own); so are the root's, through which every pass must go.
    With `keeps` they stay so from a forward to its backward pass, in place of being put together
    again. With `offload` slices lie in the CPU's memory. Gradients are summed, in float32 at least.
    Raises UserError for a module that torch cannot share out."""
    if not dist.is_initialized():
        _join(dist.HashStore(), 0, 1)
    mesh = init_device_mesh("cuda" if torch.cuda.is_available() else "cpu", (world(),))
    summed_in = torch.promote_types(next(root.parameters()).dtype, torch.float32)
    policy = MixedPrecisionPolicy(dtype, summed_in)
    options: dict[str, Any] = {
        "mesh": mesh,
        "reshard_after_forward": not keeps,
        "mp_policy": policy,
    }
    if offload:
        options["offload_policy"] = CPUOffloadPolicy(torch.cuda.is_available())
    try:
        for part in (*parts, root):
            # The root too: weights that stayed whole after a pass would miss the next update.
            fully_shard(part, **options)
            assert isinstance(part, FSDPModule)
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)  # gloo has no other way to sum
            if unused_parameters_are_reduced():  # experts that one process did not ask
                part.set_reduce_scatter_unused_params(True)
    except (ValueError, AssertionError, NotImplementedError) as error:
        model = "{} ({})".format(type(root).__name__, str(error).split("\n")[0])
        raise UserError(
            f"several processes cannot share out {model}: leave --processes out"
        ) from None
    if keeps:
        root.register_forward_hook(_let_go)


def _let_go(root: torch.nn.Module, *_: Any) -> None:
    """Drop the weights that a pass without a backward pass has put together: they would take memory
    and miss the next update."""
    if not torch.is_grad_enabled():
        for part in root.modules():
            if isinstance(part, FSDPModule):
                part.reshard()


def sync_gradients(modules: Iterable[torch.nn.Module], wanted: bool) -> None:
    """Set whether the next backward pass sums the gradients over the processes."""
    for module in modules:
        if isinstance(module, FSDPModule):
            module.set_requires_gradient_sync(wanted)


def is_shared(tensor: torch.Tensor) -> bool:
    """Return whether this process holds only a slice of the tensor."""
    return isinstance(tensor, DTensor)


def own_slice(tensor: torch.Tensor) -> torch.Tensor:
    """Return the slice of a tensor that this process holds."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Put a tensor together from its slices; all processes must call it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def spread(tensor: torch.Tensor, like: torch.Tensor | None) -> torch.Tensor:
    """Slice a whole tensor as `like` is sliced, if it is and they have one shape."""
    if not isinstance(like, DTensor) or tensor.shape != like.shape:
        return tensor
    local = tensor.to(like.device)
    return distribute_tensor(local, like.device_mesh, like.placements, src_data_rank=None)
