"""Compare the predicted peak of memory of an update with the measured one, by model and setting.

    python benchmarks/memory.py                        # small models on this machine
    python benchmarks/memory.py --shapes 0.5B 1.5B --tokens 8192      # on a GPU
    python benchmarks/memory.py --shapes 7B --settings full lora --predict    # arithmetic alone
    python benchmarks/memory.py --cards    # which card fits which model and vLLM

Each cell is a process of its own: one update of a random model on made-up responses, its memory
beyond what Python and the libraries take. On a CPU the peak of resident memory, on a GPU that of
torch's allocator. GiB.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import torch
from transformers import AutoModelForCausalLM, Qwen2Config

SHAPES = {  # width, inner width, layers, heads, key heads, vocabulary
    "2M": (128, 512, 4, 4, 2, 4096),
    "8M": (256, 1024, 6, 4, 2, 4096),
    "30M": (512, 2048, 8, 8, 2, 4096),
    "60M": (640, 2560, 12, 10, 2, 4096),
    "0.5B": (896, 4864, 24, 14, 2, 151_936),
    "1.5B": (1536, 8960, 28, 12, 2, 151_936),
    "3B": (2048, 11_008, 36, 16, 2, 151_936),
    "7B": (3584, 18_944, 28, 28, 4, 152_064),
}
SETTINGS = {
    "full": (),
    "full, computed again": ("optim.checkpointing=on",),
    "full, computed in bfloat16": ("optim.precision=bfloat16",),
    "bfloat16": (
        "optim.weights=bfloat16",
        "optim.precision=bfloat16",
        "optim.checkpointing=on",
    ),
    "8 bits": ("optim.moments=8bit",),
    "lora": ("lora.rank=32",),
    "4 bits": ("lora.rank=32", "lora.base=nf4"),
    "lora, computed again": ("lora.rank=32", "optim.checkpointing=on"),
}
GIB = 1 << 30
CARDS = {16: 15.6, 24: 23.6, 40: 39.4, 80: 79.2, 141: 139.8}
"""GiB of a card's memory, as torch tells it, by the GB of its name."""
PROMPT, ROWS = 32, 4
"""Tokens of the prompt, and responses of one pass. An update has two passes, both full."""


def shaped(name: str, device: str = "cpu"):
    """Return a random model of a shape."""
    width, inner, layers, heads, kv_heads, vocabulary = SHAPES[name]
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=32_768,
        tie_word_embeddings=name != "7B",
    )
    from rlvr_cli.model.packing import ATTENTION

    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, attn_implementation=ATTENTION).eval()


def settled(settings: tuple[str, ...], tokens: int):
    """Return the configuration of a cell, with every `auto` decided for this machine."""
    from rlvr_cli.config import resolve, set_layer

    number = "bfloat16" if torch.cuda.is_available() else "float32"
    fixed = (
        "algo=dapo",
        "algorithm.mini_batches=1",
        "rollout.prompts=1",
        "rollout.kv_budget_mb=1",
        f"rollout.max_tokens={tokens}",
        f"optim.micro_tokens={tokens}",
        f"optim.precision={number}",
        "optim.weights=float32",
        "optim.checkpointing=off",
    )
    return resolve(set_layer([*fixed, *settings]))


def predicted(name: str, settings: tuple[str, ...], tokens: int) -> int:
    """Return all bytes that an update needs, without those of an engine."""
    from rlvr_cli.setup.machine import Machine
    from rlvr_cli.setup.memory import Memory, read_shapes

    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = settled(settings, tokens)
    shapes = read_shapes(shaped(name, "meta"))
    need = Memory(shapes, Machine(device, 0, 0)).needed(config)
    engine_parts = ("the engine's weights", "context")
    return need.phases["to update"] - sum(need.always.get(part, 0) for part in engine_parts)


def cards() -> Iterator[str]:
    """Yield the lines of the table of models, settings and cards.

    A line has the GiB of an update that computes in bfloat16, and each layer twice. For each card
    it has the part that is vLLM's while it samples, at most a half, or - where one of the two does
    not fit.
    """
    from rlvr_cli.setup.machine import Machine
    from rlvr_cli.setup.memory import Memory, read_shapes

    settings = {
        "dapo, all weights, float32": (),
        "dapo, all weights, bfloat16": ("optim.weights=bfloat16",),
        "dapo, all weights, moments in 8 bits": ("optim.moments=8bit",),
        "dapo, --lora 32": ("optim.weights=bfloat16", "lora.rank=32"),
        "dapo, --lora 32, base in 4 bits": (
            "optim.weights=bfloat16",
            "lora.rank=32",
            "lora.base=nf4",
        ),
        "grpo, all weights, float32": ("algo=grpo",),
        "ppo, all weights, float32": ("algo=ppo",),
    }
    fixed = (
        "engine=vllm",
        "rollout.precision=bfloat16",
        "optim.precision=bfloat16",
        "optim.checkpointing=on",
        "rollout.prompts=32",
        "rollout.samples=8",
        "rollout.max_tokens=1024",
    )
    yield f"| model | trained | an update | {' | '.join(f'{card} GB' for card in CARDS)} |"
    yield f"| --- | --- | --- {'| --- ' * len(CARDS)}|"
    for name in ("0.5B", "1.5B", "3B", "7B"):
        model = read_shapes(shaped(name, "meta"))
        for setting, changes in settings.items():
            requested = settled((*fixed, *changes), 8192)
            shares = []
            for gib in CARDS.values():
                machine = Machine("cuda", int(gib * GIB), int(gib * GIB))
                memory = Memory(model, machine)
                config = memory.fitted(requested)
                need = memory.needed(config)
                shares.append(f"{config.rollout.gpu_share:g}" if need.peak <= machine.free else "-")
            update = f"{need.phases['to update'] / GIB:.0f} GiB"
            yield f"| {name} | {setting} | {update} | {' | '.join(shares)} |"


def measured(name: str, settings: tuple[str, ...], tokens: int) -> int:
    """Return the peak of two updates in bytes. On a CPU it must be this process's highest yet."""
    update(*prepared("2M", settings, 64))  # what libraries take at first
    gc.collect()
    before = resident()
    cell = prepared(name, settings, tokens)
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")  # the peak begins anew, without the weights before they were quantized
    update(*cell)
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return resident("VmHWM") - before


def prepared(name: str, settings: tuple[str, ...], tokens: int):
    """Return an updater of a random model, and responses of a given length to one prompt."""
    from rlvr_cli.algorithm.samples import to_samples
    from rlvr_cli.core.types import Completion, Group, Problem, Prompt, Rollout
    from rlvr_cli.model.adapter import add_adapter
    from rlvr_cli.model.policy import Policy, recompute, shard_module
    from rlvr_cli.model.quantized import quantize
    from rlvr_cli.setup.plan import is_sharded
    from rlvr_cli.training.update import Updater

    config = settled(settings, tokens)
    model = shaped(name)
    if config.optim.weights == "bfloat16":
        model.bfloat16()
    if config.lora.base == "nf4":
        quantize(model)
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    if config.lora.rank is not None:
        add_adapter(model, config.lora.rank, config.lora.alpha, config.lora.targets, 0)
    policy = Policy(model, SHAPES[name][-1], 1.0)
    if config.optim.checkpointing == "on":
        recompute(policy)
    if is_sharded(config.optim):
        shard_module(policy, config.optim)
    updater = Updater(policy, None, config.algorithm, config.optim, 1024, 10)
    length = (tokens - PROMPT) // ROWS
    prompt = Prompt(Problem("", "", None), "", tuple(range(2, 2 + PROMPT)), False)
    rollouts = []
    for row in range(2 * ROWS):
        ids = [2 + (row + place) % 4000 for place in range(length)]
        completion = Completion(ids, [-8.0] * length, "stop")
        rollouts.append(Rollout.of(prompt, row, completion, "", None, 1.0))
    group = Group(prompt, tuple(rollouts), 0)
    samples = to_samples([group], config.algorithm, length, 0)
    samples.advantages = torch.tensor([[(-1.0) ** row] for row in range(2 * ROWS)]) * samples.mask
    return updater, samples


def run(command: list[str]) -> str:
    """Run a cell. Each tensor is mapped alone, so that a freed one leaves memory at once."""
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout


def update(updater, samples) -> None:
    for step in (1, 2):
        updater.update(samples, step, 0)
        updater.optimizer.zero_grad()


def resident(line: str = "VmRSS") -> int:
    """Return the bytes of this process's own memory, now or at its peak (`VmHWM`)."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(text.split()[1]) << 10 for text in file if text.startswith(line))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", nargs="+", default=["8M", "30M", "60M"], choices=SHAPES)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--predict", action="store_true", help="leave the measurement out")
    parser.add_argument("--cards", action="store_true", help="which card fits which model")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cards:
        print(*cards(), sep="\n")
        return
    if args.cell:
        torch.set_num_threads(1)
        for name, setting in json.loads(args.cell):
            print(measured(name, SETTINGS[setting], args.tokens), flush=True)
        return
    print("| model | setting | predicted | measured | ratio |\n| --- | --- | --- | --- | --- |")
    for name in args.shapes:
        for setting in args.settings:
            need = predicted(name, SETTINGS[setting], args.tokens)
            row = f"| {name} | {setting} | {need / GIB:.2f} |"
            if args.predict:
                print(f"{row} | |", flush=True)
                continue
            cell = ["--cell", json.dumps([[name, setting]]), "--tokens", str(args.tokens)]
            peak = int(run([sys.executable, __file__, *cell]).split()[-1])
            print(f"{row} {peak / GIB:.2f} | {need / peak:.2f} |", flush=True)


if __name__ == "__main__":
    main()
