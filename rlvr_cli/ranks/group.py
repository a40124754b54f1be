"""Share work and shard weights over several processes, and gather what each has.

All processes make one plan from the same numbers: settings, prompts, seeds, groups, rows. Torch's
FSDP2 shards the weights, gradients and moments of what is trained. JSON and tensors are sent.
"""

import atexit
import ctypes
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.nn import Module, Parameter
from torch.nn.modules.module import register_module_parameter_registration_hook

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import first_line
from rlvr_cli.core.versions import unused_parameters_are_reduced
from rlvr_cli.ranks.process import local_world, rank, report_claims

T = TypeVar("T")
_JOIN = timedelta(minutes=5)
_WAIT = timedelta(days=1)
"""Time that a collective may wait for the slowest process: a rollout may take hours."""
_POLL_S = 0.002
_MEET_S = 5.0
_stores: list[dist.Store] = []


def join_group() -> None:
    """Join the process group.

    Raises UserError if there are more processes than GPUs, or if the processes do not meet.
    """
    if dist.is_initialized():
        return
    on_gpu = torch.cuda.is_available()
    gpus = torch.cuda.device_count()
    if on_gpu and local_world() > gpus:
        raise UserError(f"--processes {local_world()}: one a GPU, and this machine has {gpus}")
    try:
        store, number, size = next(dist.rendezvous("env://", timeout=_JOIN))
        report_claims.append(lambda: int(store.add("faults", 1)) == 1)
        if on_gpu:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        _join(store, number, size)
    except (RuntimeError, ValueError, KeyError) as error:
        if not report_claims:
            report_claims.append(lambda: os.environ.get("LOCAL_RANK", "0") == "0")
        raise UserError(
            f"the processes do not meet at {os.environ.get('MASTER_ADDR', '?')}:"
            f"{os.environ.get('MASTER_PORT', '?')} ({first_line(error)})"
        ) from None


def _join(store: dist.Store, number: int, size: int) -> None:
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


def is_first() -> bool:
    """Return whether this is the process that writes files."""
    return rank() == 0 or world() == 1


def share(items: Sequence[T]) -> Sequence[T]:
    """Return this process's share of the items."""
    return items if world() == 1 else items[rank() :: world()]


def deal(items: Sequence[T]) -> list[tuple[T, int]]:
    """Return this process's share of the items, each with 1, and dummy passes, each with 0.

    Dummy passes keep this process in step with the collectives of those that have more items.
    """
    shared = [(item, 1) for item in share(items)]
    passes = -(-len(items) // world())
    return shared + [(item, 0) for item in items[:1]] * (passes - len(shared))


def gather(value: object, failure: OSError | None = None) -> list[Any]:
    """Return the JSON value of every process, in the order of their ranks.

    Raises OSError in all processes if one has a failure instead of a value.
    """
    if world() == 1:
        if failure is not None:
            raise failure
        return [value]
    error = None
    if failure is not None:
        error = [failure.errno, failure.strerror, str(failure.filename)]
    data = torch.frombuffer(bytearray(json.dumps([value, error]).encode()), dtype=torch.uint8)
    sizes = [int(size) for size in _gather_tensors(torch.tensor([len(data)]))]
    padded = torch.zeros(max(sizes), dtype=torch.uint8)
    padded[: len(data)] = data
    parts = zip(_gather_tensors(padded), sizes, strict=True)
    pairs = [json.loads(part[:size].numpy().tobytes()) for part, size in parts]
    for _, error in pairs:
        if error is not None:
            number, text, filename = error
            raise failure or OSError(number, text, filename)
    return [value for value, _ in pairs]


def _gather_tensors(tensor: Tensor) -> list[Tensor]:
    """Gather tensors of one shape, by polling, so that a signal can end the wait."""
    parts = [torch.empty_like(tensor) for _ in range(world())]
    work = dist.all_gather(parts, tensor, async_op=True)
    while not work.is_completed():
        time.sleep(_POLL_S)
    work.wait()
    return parts


def broadcast_from_first(value: T) -> T:
    """Return the first process's value, as JSON, in every process."""
    values: list[T] = gather(value if is_first() else None)
    return values[0]


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


def sum_tensor(tensor: Tensor) -> Tensor:
    """Sum a tensor, which has the same shape in all processes, over them, in place."""
    if world() > 1 and tensor.numel():
        dist.all_reduce(tensor)
    return tensor


def meet(place: str = "rescue") -> bool:
    """Return whether all processes reach this place within 5 s. If not, one failed alone."""
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


class _Place(NamedTuple):
    """Where a module has a parameter."""

    module: Module
    name: str

    @property
    def parameter(self) -> Parameter:
        """Return the parameter that is there now."""
        parameter = self.module._parameters[self.name]
        assert parameter is not None
        return parameter


_SHARDED_UNIT = "_rlvr_sharded_unit"
"""The attribute of a module whose weights are gathered while it computes: its shards in a pass."""


@contextmanager
def keeping_shards() -> Iterator[None]:
    """Let each process keep its shard alone of every weight that a module gets in this block.

    The whole weight is freed before the next one is read. `gather_in_passes` must follow.
    """

    def keep_shard(module: Module, name: str, parameter: Parameter | None) -> Parameter | None:
        if parameter is None or parameter.is_meta or not parameter.dim():
            return None
        if isinstance(parameter.data, DTensor):
            return None
        kept_shard = Parameter(_first_dimension_shard(parameter.detach()), requires_grad=False)
        kept_shard.requires_grad = parameter.requires_grad
        _return_freed_memory()
        # transformers would fill a weight at random that does not say that it has its value.
        for mark, value in vars(parameter).items():
            setattr(kept_shard, mark, value)
        return kept_shard

    hook: Any = keep_shard  # torch's declaration forbids the parameter that its text asks for
    handle = register_module_parameter_registration_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _return_freed_memory() -> None:
    """Give the system what was freed: glibc keeps a weight of up to 32 MiB for later."""
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def _first_dimension_shard(tensor: Tensor) -> DTensor:
    """Copy this process's rows of a tensor on the CPU, as its part of a tensor of all processes."""
    mesh = init_device_mesh("cpu", (world(),))
    chunks = tensor.chunk(world())
    rows = chunks[rank()] if rank() < len(chunks) else tensor[:0]
    return DTensor.from_local(
        rows.clone(),
        mesh,
        [Shard(0)],
        run_check=False,
        shape=tensor.shape,
        stride=tensor.stride(),
    )


def gather_in_passes(root: Module, parts: Iterable[Module]) -> None:
    """Gather the weights that `keeping_shards` has shared out while they compute, without gradient.

    A part's weights are gathered together. Those outside of the parts are gathered by the module
    that has them.
    """
    inside = set[Module]()
    for part in parts:
        inside.update(part.modules())
        _make_unit(part)
    for module in root.modules():
        has_weights = any(isinstance(p.data, DTensor) for p in module.parameters(recurse=False))
        if has_weights and module not in inside:
            _make_unit(module)


def _make_unit(module: Module) -> None:
    setattr(module, _SHARDED_UNIT, {})
    module.register_forward_pre_hook(_gather_unit)
    module.register_forward_hook(_free_unit, always_call=True)


def _gather_unit(unit: Module, _: object) -> None:
    shards: dict[_Place, Parameter] = getattr(unit, _SHARDED_UNIT)
    for place in _sharded_places(unit):
        shards[place] = place.parameter
        full = full_tensor(place.parameter.detach())
        place.module._parameters[place.name] = Parameter(full, requires_grad=False)


def _free_unit(unit: Module, *_: object) -> None:
    shards: dict[_Place, Parameter] = getattr(unit, _SHARDED_UNIT)
    for place, parameter in shards.items():
        place.module._parameters[place.name] = parameter
    shards.clear()
    _return_freed_memory()


def _sharded_places(unit: Module) -> list[_Place]:
    """Return where a unit has weights that are sharded, without those of units inside it."""
    places = list[_Place]()
    for name, parameter in unit._parameters.items():
        if parameter is not None and isinstance(parameter.data, DTensor):
            places.append(_Place(unit, name))
    for part in unit.children():
        if not hasattr(part, _SHARDED_UNIT) and not isinstance(part, FSDPModule):
            places += _sharded_places(part)
    return places


def make_whole(root: Module, device: torch.device | None = None) -> None:
    """Gather for good the weights that `gather_in_passes` gathers, and move them to the device."""
    full_parameters: dict[int, Parameter] = {}
    for unit in root.modules():
        if not hasattr(unit, _SHARDED_UNIT):
            continue
        places = _sharded_places(unit)
        delattr(unit, _SHARDED_UNIT)
        for hooks in (unit._forward_pre_hooks, unit._forward_hooks):
            for key, hook in list(hooks.items()):
                if hook in (_gather_unit, _free_unit):
                    del hooks[key]
        for place in places:
            parameter = place.parameter
            if id(parameter) not in full_parameters:  # A tied one stays tied.
                full = full_tensor(parameter.detach())
                full_parameters[id(parameter)] = Parameter(
                    full if device is None else full.to(device),
                    requires_grad=parameter.requires_grad,
                )
            place.module._parameters[place.name] = full_parameters[id(parameter)]


def shard(
    root: Module,
    parts: Iterable[Module],
    dtype: torch.dtype | None = None,
    offload: bool = False,
    keeps_full: bool = False,
) -> None:
    """Shard a module over the processes (FSDP2), each part and then the root, which holds the rest.

    A part's full weights are gathered while it computes, in `dtype` or the weights' own type. Every
    pass must go through the root. With `keeps_full` they stay from a forward pass to its
    backward pass instead of being gathered again. With `offload` the shards are in the CPU's
    memory. Gradients are summed in float32 at least. Raises UserError if torch cannot shard the
    module.
    """
    if not dist.is_initialized():
        _join(dist.HashStore(), 0, 1)
    on_gpu = torch.cuda.is_available()
    sum_dtype = torch.promote_types(next(root.parameters()).dtype, torch.float32)
    place = CPUOffloadPolicy(pin_memory=on_gpu) if offload else OffloadPolicy()
    mesh = init_device_mesh("cuda" if on_gpu else "cpu", (world(),))
    try:
        for part in (*parts, root):
            make_whole(part)
            fully_shard(
                part,
                mesh=mesh,
                # The root too: full weights that stayed after a pass would miss the next update.
                reshard_after_forward=not keeps_full,
                mp_policy=MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=sum_dtype),
                offload_policy=place,
            )
            assert isinstance(part, FSDPModule)
            if world() > 1:  # alone, FSDP2 would make one more copy of all gradients for it
                part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)  # gloo has no other way to sum
            if unused_parameters_are_reduced():  # experts that one process did not ask
                part.set_reduce_scatter_unused_params(True)
    except (ValueError, AssertionError, NotImplementedError) as error:
        raise UserError(
            f"several processes cannot shard {type(root).__name__} ({first_line(error)}): leave "
            "--processes out"
        ) from None
    if keeps_full:
        root.register_forward_hook(_free_full_weights)


def _free_full_weights(root: Module, *_: object) -> None:
    """Drop full weights after a pass that has no backward pass.

    They would take memory and miss the next update.
    """
    if not torch.is_grad_enabled():
        for part in root.modules():
            if isinstance(part, FSDPModule):
                part.reshard()


def sync_gradients(modules: Iterable[Module], wanted: bool) -> None:
    """Set whether the next backward pass sums the gradients over the processes."""
    for module in modules:
        if isinstance(module, FSDPModule):
            module.set_requires_gradient_sync(wanted)


def local_shard(tensor: Tensor) -> Tensor:
    """Return the shard of a tensor that this process holds."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def full_tensor(tensor: Tensor) -> Tensor:
    """Gather a tensor from its shards. All processes must call it."""
    if not isinstance(tensor, DTensor):
        return tensor
    if tensor.device_mesh.device_type != "cpu" or tensor.placements != (Shard(0),):
        return tensor.full_tensor()
    # torch's own way holds a second copy on a CPU.
    full = torch.empty(tensor.shape, dtype=tensor.dtype)
    for number, rows in enumerate(full.chunk(world())):
        if number == rank():
            rows.copy_(tensor.to_local())
        dist.broadcast(rows, src=number)
    return full


def as_shard(local: Tensor, template: Tensor, shape: torch.Size) -> Tensor:
    """Return a process's rows as its shard of a tensor of this shape, sharded by rows as the
    template is. Return them as they are if the template is not sharded."""
    if not isinstance(template, DTensor):
        return local
    return DTensor.from_local(
        local,
        template.device_mesh,
        template.placements,
        run_check=False,
        shape=shape,
        stride=torch.empty(shape, device="meta").stride(),
    )


def shard_as(tensor: Tensor, template: Tensor | None) -> Tensor:
    """Shard a full tensor as the template is sharded, if it is and they have as many rows."""
    if not isinstance(template, DTensor) or tensor.shape[:1] != template.shape[:1]:
        return tensor
    local = tensor.to(template.device)
    mesh = template.device_mesh
    return distribute_tensor(local, mesh, template.placements, src_data_rank=None)
