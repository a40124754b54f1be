"""Which attention kernels take packed responses on this machine, and how long each takes.

python benchmarks/attention_kernel.py --prompt 512 --response 4096 --rows 4 --heads 12 2 128

Tries each of torch's kernels alone on the dense mask, and the kernel for runs of tokens that the
trainer takes on a GPU. `no` is a kernel that refuses; then torch falls back to the next without a
word, at last to `math`, which writes all scores out.
"""

import argparse
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from rlvr_cli.model import packing

KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}


def timed(compute) -> str:
    """Milliseconds of forward and backward, and the peak memory on a GPU."""
    try:
        for _ in range(2):
            started = time.perf_counter()
            compute().float().sum().backward()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            seconds = time.perf_counter() - started
    except RuntimeError as error:
        return f"no: {str(error).splitlines()[0]:.100}"
    peak = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else float("nan")
    return f"{1000 * seconds:.1f} ms, peak {peak:.2f} GiB"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--response", type=int, default=256)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--heads", type=int, nargs=3, default=(12, 2, 64), help="heads, kv, size")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    prompts = [[1] * args.prompt] * args.rows
    responses = [[2] * args.response] * args.rows
    layout = packing.pack(prompts, responses, torch.empty(0, device=device)).layout
    N = args.prompt + args.rows * (args.response - 1)
    heads, kv_heads, size = args.heads
    q, k, v = (
        torch.randn(1, count, N, size, device=device, dtype=torch.bfloat16, requires_grad=True)
        for count in (heads, kv_heads, kv_heads)
    )
    print(f"{device}: {args.rows} x ({args.prompt} + {args.response}) tokens, bfloat16")
    chosen = packing._RUN_TYPES
    packing._RUN_TYPES = ()
    for name, kernel in KERNELS.items():
        with sdpa_kernel(kernel):
            print(f"mask, {name}: {timed(lambda: packing.packed_attention(q, k, v, layout, None))}")
    packing._RUN_TYPES = chosen
    print(f"runs: {timed(lambda: packing.attention_of_runs(q, k, v, layout.runs, None))}")


if __name__ == "__main__":
    main()
