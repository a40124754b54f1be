"""A pretended GPU: tensors that say `cuda:0`, hold a CPU's numbers, and refuse what CUDA refuses.

The code goes as it goes on a GPU: bfloat16, FSDP2 of one process, attention by runs, pinned copies,
fused AdamW. An operator that mixes devices raises MixedError. The waits of the CPU for the GPU and
the kernels that attention asks for are counted. Not pretended: NCCL, streams, torch.compile,
memory, speed, vLLM.

To C++ such a tensor lies on `meta`, where autograd needs no driver. A dispatch mode sees every
operator below autograd: it makes and moves the tensors, and computes on the numbers inside.
"""

import pickle
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
import torch.nn.functional as F
from forked import Done, Fork
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from transformers import PreTrainedModel

from rlvr_cli.__main__ import main
from rlvr_cli.training.record import StepRecord

# With a GPU it would ask for torch's build for CUDA when it is imported.
with suppress(ImportError):
    import_module("bitsandbytes")

GPU = torch.device("cuda", 0)
NAME = "NVIDIA H100 80GB HBM3"
TOTAL = 80 << 30
TAKEN = 2 << 30
HALVES = (torch.bfloat16, torch.float16)
HOPPER = (9, 0)
"""The compute capability of the GPU, if no other is asked for."""
ARCHITECTURES = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
"""What torch is compiled for: its builds for CUDA 13.0 on x86."""
WAITING = {
    "nonzero",
    "masked_select",
    "equal",
    "bincount",
    "is_nonzero",
    "_local_scalar_dense",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "_assert_async",
}
"""Operators whose result has a size or a value that the CPU must know."""
INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")
TAKES_NUMBERS = {
    "fill_",
    "masked_fill",
    "masked_fill_",
    "where",
    "full_like",
    "_fused_adamw_",
    "index_put",
    "index_put_",
    "_index_put_impl_",
    *(f"_foreach_{name}" for name in ("mul", "mul_", "div", "div_", "add", "add_")),
}
"""Operators beside the pointwise ones that take a CPU's tensor without a dimension."""


class MixedError(RuntimeError):
    """What CUDA refuses: an operator with tensors of two devices."""


@dataclass
class Report:
    """What the pretended GPU was asked for, by the phase of the step ("" outside of steps)."""

    mixed: list[str] = field(default_factory=list)
    """Refused operators, with the line and the shapes on the CPU."""
    waits: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often the CPU waited for the GPU, by phase, and place with reason."""
    kernels: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Attention, by phase and kernel."""
    operators: Counter[str] = field(default_factory=Counter)
    phase: str = ""

    def waited(self, phase: str) -> dict[str, int]:
        """Return the waits of a phase by place, the most frequent first."""
        return {place: count for (of, place), count in self.waits.most_common() if of == phase}


def on_pretended_gpu(
    place: Path,
    *command: str,
    program: Callable[[], object] = main,
    capability: tuple[int, int] = HOPPER,
) -> tuple[Done, Report]:
    """Run `rlvr COMMAND…` (or `program`) with a pretended GPU of this compute capability, as a fork
    of this process: nothing of what is replaced in torch can reach another test. What was patched
    before counts there."""
    path = place / "report"

    def inside() -> object:
        if dist.is_initialized():  # a test before has left a group of one
            dist.destroy_process_group()
        with pretended_gpu(capability) as report:
            try:
                return program()
            finally:
                path.write_bytes(pickle.dumps(report))

    result = Fork(command, place, program=inside).done()
    assert path.exists(), result.err
    return result, pickle.loads(path.read_bytes())


class OnGpu(torch.Tensor):
    """A tensor that says it is on the GPU; `inner` has the numbers."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor, requires_grad: bool = False) -> "OnGpu":
        wrapper = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device="meta",
            requires_grad=requires_grad,
        )
        wrapper.inner = inner
        return wrapper

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):  # where no mode is
        return Mode.current.run(func, args, kwargs or {})

    device = property(lambda self: GPU)
    is_cuda = property(lambda self: True)
    is_meta = property(lambda self: False)
    is_cpu = property(lambda self: False)

    def tolist(self) -> list:
        Mode.current.wait("tolist")
        return self.inner.tolist()

    def numpy(self, **_: object) -> None:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def __repr__(self, **_: object) -> str:
        return f"OnGpu({self.inner!r})"

    def __deepcopy__(self, memo: dict) -> torch.Tensor:
        if id(self) not in memo:
            copied = OnGpu(self.inner.clone(), self.requires_grad)
            if getattr(self, "_is_param", False):
                copied = torch.nn.Parameter(copied.detach(), self.requires_grad)
            memo[id(self)] = copied
        return memo[id(self)]

    @property
    def data(self) -> torch.Tensor:
        return self.detach()

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        if isinstance(value, OnGpu):
            self.inner = value.inner
        torch.Tensor.data.__set__(self, value)


def inner(value: Any, found: list[torch.Tensor]) -> Any:
    """Return arguments with the numbers inside their tensors, and add the tensors to `found`."""
    if isinstance(value, torch.Tensor):
        found.append(value)
        return value.inner if isinstance(value, OnGpu) else value
    return [inner(each, found) for each in value] if isinstance(value, list | tuple) else value


def outer(value: Any) -> Any:
    """Return results with their tensors on the GPU."""
    if isinstance(value, list | tuple):
        return type(value)(outer(each) for each in value)
    is_plain = isinstance(value, torch.Tensor) and not isinstance(value, OnGpu)
    return OnGpu(value) if is_plain else value


def is_gpu(device: Any) -> bool:
    """Return whether a device is the GPU, which C++ calls meta; models without weights are not."""
    kind = torch.device("cpu" if device is None else device).type
    return kind == "cuda" or (kind == "meta" and torch.get_default_device().type != "meta")


class Mode(TorchDispatchMode):
    """Computes every operator, and keeps the report."""

    current: "Mode"

    @classmethod
    def _should_skip_dynamo(cls) -> bool:  # torch would wrap every operator, a tenth of the time
        return False

    def __init__(self, capability: tuple[int, int] = HOPPER) -> None:
        super().__init__()
        self.report = Report()
        self.capability = capability
        self.emulated = {torch.ops.aten.mm.dtype: multiplied, **varlen_operators(self.attends)}
        Mode.current = self

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):  # its slices come here by themselves
            return NotImplemented
        if torch.is_inference_mode_enabled():  # there what is composed comes whole
            with self:
                out = func.decompose(*args, **(kwargs or {}))
            if out is not NotImplemented:
                return out
        return self.run(func, args, kwargs or {})

    def place(self) -> str:
        """Return the two innermost lines of the project that are running."""
        frame = sys._getframe(1)
        found = []
        while frame is not None and len(found) < 2:
            _, is_ours, name = frame.f_code.co_filename.rpartition("/rlvr_cli/")
            if is_ours:
                found.append(f"{name}:{frame.f_lineno}")
            frame = frame.f_back
        return " < ".join(found) or "outside"

    def wait(self, why: str) -> None:
        self.report.waits[self.report.phase, f"{self.place()} [{why}]"] += 1

    def attends(self, kernel: str) -> None:
        if kernel.startswith("varlen") and self.capability < (8, 0):
            raise RuntimeError("FlashAttention only supports Ampere GPUs or newer.")
        self.report.kernels[self.report.phase, kernel] += 1

    def run(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Compute an operator on the numbers inside; the result is where CUDA has it."""
        name = func._schema.name.split("::")[-1]
        tensors: list[torch.Tensor] = []
        inner_args = inner(args, tensors)
        inner_kwargs = {key: inner(value, tensors) for key, value in kwargs.items()}
        has_gpu = any(isinstance(tensor, OnGpu) for tensor in tensors)
        device = kwargs.get("device")
        to_gpu = has_gpu if device is None else is_gpu(device)
        if device is not None:
            inner_kwargs["device"] = torch.device("cpu")
        if name in ("pin_memory", "_pin_memory"):
            pinned = inner_args[0].clone()
            pinned.is_said_pinned = True
            return pinned
        if name == "is_pinned":
            return is_pinned(args[0])
        if not has_gpu and not to_gpu:
            return func(*args, **kwargs)
        self.report.operators[self.report.phase] += 1
        if name in ("_to_copy", "copy_"):
            self.copies(name, args, kwargs, to_gpu)
        elif name in INDEXING and isinstance(args[0], OnGpu):
            self.indexes(args[1])
            self.check(func, name, [args[0], *args[2:3]])
        elif name not in ("lift_fresh", "set_"):
            self.check(func, name, tensors)
        is_of_unknown_size = name == "repeat_interleave" and kwargs.get("output_size") is None
        if name in WAITING or (is_of_unknown_size and func._overloadname != "self_int"):
            self.wait(name)
        out = self.emulated.get(func, func)(*inner_args, **inner_kwargs)
        if name == "_local_scalar_dense":
            return out
        return placed(func, args, kwargs, out, to_gpu)

    def copies(self, name: str, args: tuple, kwargs: dict[str, Any], to_gpu: bool) -> None:
        """Count a wait for a copy between devices, but for one that need not be done: to the CPU an
        event is waited for later, to the GPU the source must be pinned."""
        source = args[1] if name == "copy_" else args[0]
        to_gpu = isinstance(args[0], OnGpu) if name == "copy_" else to_gpu
        is_third = name == "copy_" and len(args) > 2
        is_quick = kwargs.get("non_blocking", args[2] if is_third else False)
        if isinstance(source, OnGpu) and not to_gpu:
            if not is_quick:
                self.wait("to the CPU")
        elif to_gpu and not isinstance(source, OnGpu) and not (is_quick and is_pinned(source)):
            self.wait("to the GPU, not pinned")

    def indexes(self, indices: Sequence[torch.Tensor | None]) -> None:
        """Count waits for indices that are on the CPU, or select an unknown number."""
        for index in indices:
            if index is not None and not isinstance(index, OnGpu):
                self.wait("index on the CPU")
            elif index is not None and index.dtype in (torch.bool, torch.uint8):
                self.wait("boolean index")

    def check(self, func: Any, name: str, tensors: Sequence[torch.Tensor]) -> None:
        """Raise MixedError if CUDA refuses tensors of these devices."""
        on_gpu = [isinstance(tensor, OnGpu) for tensor in tensors]
        if all(on_gpu) or not any(on_gpu):
            return
        takes_numbers = torch.Tag.pointwise in func.tags or name in TAKES_NUMBERS
        on_cpu = [t for t, is_on in zip(tensors, on_gpu, strict=True) if not is_on]
        bad = [t for t in on_cpu if t.dim() > 0 or not takes_numbers]
        if not bad and name.endswith("_") and not name.startswith("_foreach"):
            bad = [] if on_gpu[0] else [tensors[0]]  # what is written to
        if bad:
            shapes = [tuple(tensor.shape) for tensor in bad]
            self.report.mixed.append(f"{self.place()} [{func}: {shapes} on the CPU]")
            raise MixedError(self.report.mixed[-1])


def is_pinned(tensor: torch.Tensor) -> bool:
    return getattr(tensor, "is_said_pinned", False)


def placed(func: Any, args: tuple, kwargs: dict[str, Any], out: Any, to_gpu: bool) -> Any:
    """Return a result on its device; of an operator that writes in place, what it wrote to."""
    returns = func._schema.returns
    alias = returns[0].alias_info if len(returns) == 1 else None
    if alias is not None and alias.is_write:
        for number, argument in enumerate(func._schema.arguments):
            info = argument.alias_info
            if info is not None and info.is_write and info.after_set == alias.after_set:
                return args[number] if number < len(args) else kwargs[argument.name]
    # A view is of inference mode, or not, as what it is a view of.
    is_ordinary = alias is not None and not args[0].is_inference()
    with torch.inference_mode(False) if is_ordinary else nullcontext():
        return outer(out) if to_gpu else out


def multiplied(left: torch.Tensor, right: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    """Compute mm(out_dtype=…), which a CPU does not."""
    return left.to(out_dtype) @ right.to(out_dtype)


def varlen_operators(attends: Callable[[str], None]) -> dict[Any, Callable[..., Any]]:
    """Return functions for torch's attention of runs and its gradient, which a CPU lacks.

    Their arguments differ between versions of torch, and are taken by name.
    """
    import_module("torch.nn.attention.varlen")  # registers the two
    forward_op = torch.ops.torch_attn._varlen_attn.default
    backward_op = torch.ops.torch_attn._varlen_attn_backward.default

    def named(op: Any, args: tuple, kwargs: dict[str, Any]) -> SimpleNamespace:
        schema = op._schema.arguments
        defaults = {a.name: a.default_value for a in schema if a.has_default_value()}
        positional = dict(zip((a.name for a in schema), args, strict=False))
        values = {**defaults, **positional, **kwargs}
        values.setdefault("is_causal", list(values.get("window_size") or ()) == [-1, 0])
        return SimpleNamespace(**values)

    def forward(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        attends("varlen")
        call = named(forward_op, args, kwargs)
        (out,) = attention_of_runs(call)
        sums = torch.zeros(call.query.shape[1], len(out))
        return out, sums, torch.zeros(2, dtype=torch.uint64)

    def backward(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        attends("varlen backward")
        call = named(backward_op, args, kwargs)
        return tuple(attention_of_runs(call, call.grad_out))

    return {forward_op: forward, backward_op: backward}


def attention_of_runs(
    call: SimpleNamespace, grad_out: torch.Tensor | None = None
) -> list[torch.Tensor]:
    """Compute attention of runs by its definition, in float32.

    Return the output [N, heads, D], or with its gradient those of query, key and value. Causal
    means from the end of each run.
    """
    query = call.query
    key = call.key
    value = call.value
    written = [query] if grad_out is None else [query, key, value]
    sums = [torch.zeros_like(tensor, dtype=torch.float32) for tensor in written]
    kv_heads = key.shape[1]
    group = query.shape[1] // kv_heads
    scale = query.shape[-1] ** -0.5 if call.scale is None else call.scale
    ends_q, ends_k = call.cu_seq_q.tolist(), call.cu_seq_k.tolist()
    for run in range(len(ends_q) - 1):
        rows, keys = slice(*ends_q[run : run + 2]), slice(*ends_k[run : run + 2])
        q = query[rows].float().transpose(0, 1)
        k = key[keys].float().transpose(0, 1).repeat_interleave(group, 0)
        v = value[keys].float().transpose(0, 1).repeat_interleave(group, 0)
        scores = q @ k.transpose(1, 2) * scale
        if call.is_causal:
            N, M = scores.shape[1:]
            sees = torch.ones(N, M, dtype=torch.bool).tril(M - N)
            scores.masked_fill_(~sees, -torch.inf)
        p = scores.softmax(-1)
        if grad_out is None:
            sums[0][rows] = (p @ v).transpose(0, 1)
            continue
        grad_o = grad_out[rows].float().transpose(0, 1)
        grad_p = grad_o @ v.transpose(1, 2)
        grad_scores = p * (grad_p - (grad_p * p).sum(-1, keepdim=True)) * scale
        sums[0][rows] = (grad_scores @ k).transpose(0, 1)
        grad_keys = (grad_scores.transpose(1, 2) @ q).unflatten(0, (kv_heads, group)).sum(1)
        grad_values = (p.transpose(1, 2) @ grad_o).unflatten(0, (kv_heads, group)).sum(1)
        sums[1][keys] += grad_keys.transpose(0, 1)
        sums[2][keys] += grad_values.transpose(0, 1)
    return [total.to(query.dtype) for total in sums]


def sdpa_kernel(query: torch.Tensor, key: torch.Tensor, mask: Any, enable_gqa: bool) -> str:
    """Return the kernel that CUDA takes for F.scaled_dot_product_attention: the quick one knows
    halves without a mask, the other no grouped heads; what is left is written out."""
    if mask is None and query.dtype in HALVES:
        return "flash"
    is_grouped = enable_gqa and query.shape[1] != key.shape[1]
    is_other = mask is not None and mask.dtype not in (query.dtype, torch.bool)
    return "math" if is_grouped or is_other else "memory-efficient"


class Queue:
    """A stream of the GPU, or an event in one: all that was asked of it is done."""

    device = GPU
    device_index = 0
    stream_id = 0
    device_type = 1

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> "Queue":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def is_capturing(self) -> bool:
        return False

    def synchronize(self) -> None:
        Mode.current.wait("event")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda event=None, *_: event or self


class Generator(torch.Generator):
    """Random numbers of a CPU, wherever they are asked for."""

    def __new__(cls, device: object = None) -> "Generator":
        return super().__new__(cls)


def replacements(mode: Mode) -> Iterator[Any]:
    """Yield what is to be replaced: functions of torch that ask a driver below what a mode sees."""
    tensor = torch.tensor
    as_tensor = torch.as_tensor
    to = torch.Tensor.to
    attention = F.scaled_dot_product_attention
    join = dist.init_process_group
    load = PreTrainedModel.from_pretrained.__func__
    properties = SimpleNamespace(name=NAME, total_memory=TOTAL)
    cuda = {
        **dict.fromkeys(("is_available", "is_initialized"), lambda: True),
        **dict.fromkeys(("_lazy_init", "init", "empty_cache"), lambda: None),
        **dict.fromkeys(("set_device", "set_stream"), lambda *_: None),
        **dict.fromkeys(("Stream", "Event", "current_stream", "default_stream"), Queue),
        "stream": lambda stream: stream or Queue(),
        "is_current_stream_capturing": lambda: False,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda *_: NAME,
        "get_device_capability": lambda *_: mode.capability,
        "get_arch_list": lambda: ARCHITECTURES,
        "get_device_properties": lambda *_: properties,
        "mem_get_info": lambda *_: (TOTAL - TAKEN, TOTAL),
        "synchronize": lambda *_: mode.wait("synchronize"),
    }

    def move(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Tensor.to, in all its forms."""
        first, *rest = args or (None,)
        if isinstance(first, torch.Tensor):
            kwargs |= {"device": first.device, "dtype": first.dtype}
        elif isinstance(first, torch.dtype):
            kwargs["dtype"] = first
        elif first is not None:
            kwargs["device"] = first
        if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
            kwargs["dtype"] = rest.pop(0)
        kwargs |= dict(zip(("non_blocking", "copy"), rest, strict=False))
        kwargs = {name: value for name, value in kwargs.items() if value is not None}
        if is_gpu(kwargs.get("device")):
            kwargs["device"] = GPU
            if self.is_cuda:  # it is there already
                del kwargs["device"]
                if not any(kwargs.get(name) for name in ("dtype", "copy", "memory_format")):
                    return self
        return to(self, **kwargs)

    def make_tensor(data: Any, *, device: Any = None, **options: Any) -> torch.Tensor:
        result = tensor(data, **options)
        return result if device is None else result.to(device)

    def make_as_tensor(data: Any, dtype: Any = None, device: Any = None) -> torch.Tensor:
        result = data if isinstance(data, torch.Tensor) else as_tensor(data, dtype=dtype)
        return result.to(device or result.device, dtype or result.dtype)

    def attend(
        query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **options: Any
    ) -> Any:
        if isinstance(query, OnGpu):
            mode.attends(sdpa_kernel(query, key, attn_mask, options.get("enable_gqa", False)))
        return attention(query, key, value, attn_mask, *args, **options)

    def load_on_cpu(cls: type, *args: Any, **kwargs: Any) -> Any:
        """Load a model on the CPU, by outlines on meta, as if there were no GPU."""
        with _disable_current_modes(), patch.object(torch.Tensor, "to", to):
            result = load(cls, *args, **kwargs)
            model = result[0] if isinstance(result, tuple) else result
            for module in model.modules():  # under a mode transformers leaves these unfilled
                if hasattr(module, "original_inv_freq"):
                    model._init_weights(module)
            return result

    for name, function in cuda.items():
        yield patch.object(torch.cuda, name, function)
    yield patch.object(torch.accelerator, "current_device_index", lambda: 0)
    yield patch.object(torch.accelerator, "current_stream", Queue)
    yield patch.object(torch, "Generator", Generator)
    yield patch.object(torch, "tensor", make_tensor)
    yield patch.object(torch, "as_tensor", make_as_tensor)
    yield patch.object(torch.Tensor, "to", move)
    yield patch.object(torch.Tensor, "cuda", lambda self, *_, **__: self.to(GPU))
    yield patch.object(F, "scaled_dot_product_attention", attend)
    yield patch.object(PreTrainedModel, "from_pretrained", classmethod(load_on_cpu))
    yield patch.object(dist, "init_process_group", partial(over_gloo, join))
    for name in ("device", "is_cuda"):
        local = property(lambda self, name=name: getattr(self._local_tensor, name))
        yield patch.object(DTensor, name, local, create=True)
    # FSDP2's, which sets the data of a CPU's tensor to a GPU's, and refuses what lies on meta.
    folder = "torch.distributed.fsdp._fully_shard"
    for name in ("_fsdp_init", "_fully_shard"):
        module = import_module(f"{folder}.{name}")
        yield patch.object(module, "_move_states_to_device", to_device, create=True)
    group = import_module(f"{folder}._fsdp_param_group").FSDPParamGroup
    yield patch.object(group, "_validate_no_meta_params", lambda _: None)


def over_gloo(join: Callable[..., Any], backend: str, *args: Any, **kwargs: Any) -> None:
    """Let processes speak through gloo also of what is on the GPU."""
    join("cpu:gloo,cuda:gloo", *args, **kwargs)


def to_device(params: Sequence[Any], buffers: Sequence[Any], device: Any) -> None:
    """Move parameters and buffers to a device, each as the tensor that it is."""
    for tensor in (*params, *buffers):
        if not isinstance(tensor, OnGpu | DTensor) and is_gpu(device):
            copied = tensor.detach().to(device)
            if isinstance(tensor, torch.nn.Parameter):
                copied = torch.nn.Parameter(copied, tensor.requires_grad)
            torch.utils.swap_tensors(tensor, copied)


@contextmanager
def pretended_gpu(capability: tuple[int, int] = HOPPER) -> Iterator[Report]:
    """Let this process have a GPU of this compute capability."""
    mode = Mode(capability)
    phase = StepRecord.phase

    @contextmanager
    def named_phase(record: StepRecord, name: str, *options: Any, **more: Any) -> Iterator[None]:
        before = mode.report.phase
        mode.report.phase = name
        try:
            with phase(record, name, *options, **more):
                yield
        finally:
            mode.report.phase = before

    # So that tied weights stay tied when a module moves.
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with ExitStack() as stack:
            stack.enter_context(patch.object(StepRecord, "phase", named_phase))
            for replaced in replacements(mode):
                stack.enter_context(replaced)
            stack.enter_context(mode)
            yield mode.report
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
