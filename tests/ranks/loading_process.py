"""Measure in a process of its own what loading a model takes: what a test left in the memory of its
worker would be taken again unseen, or make holes that count.

    python tests/ranks/loading_process.py MODEL FILE [load | check]
"""

import ctypes
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory import resident
from transformers import PreTrainedModel

from rlvr_cli.data.prompts import forward_samples
from rlvr_cli.model.forward import choose_forward
from rlvr_cli.model.loading import LoadedModel, load_model
from rlvr_cli.model.policy import decoder_layers, weights_digest
from rlvr_cli.ranks.group import join_group

ANONYMOUS = "RssAnon"


@contextmanager
def watched() -> Iterator[list[int]]:
    """Note the memory that no file backs, above that at the beginning, every two milliseconds."""
    ctypes.CDLL(None).malloc_trim(0)
    before = resident(ANONYMOUS)
    above = [0]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.002):
            above.append(resident(ANONYMOUS) - before)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield above
    finally:
        ended.set()
        thread.join()


def size_of(model: PreTrainedModel) -> int:
    return sum(4 * parameter.numel() for parameter in model.parameters())


def chosen(loaded: LoadedModel) -> float:
    """Check a model as a session does; return its difference from its own pass."""
    samples = forward_samples(loaded.tokenizer, loaded.context)
    return choose_forward(loaded.model, len(loaded.tokenizer), samples, loaded.context).gap


def measure(model: str, file: Path, checks: bool) -> None:
    """Write the bytes of the model, of a layer of it, and the largest memory of this process."""
    join_group()
    chosen(load_model("tiny", on_cpu=True))  # what the libraries take with any model
    with watched() as above:
        loaded = load_model(model, on_cpu=True)
        if checks:
            chosen(loaded)
            weights_digest(loaded.model.parameters())
    layer = size_of(decoder_layers(loaded.model)[0])
    file.write_text(json.dumps([size_of(loaded.model), layer, max(above)]))


if __name__ == "__main__":
    measure(sys.argv[1], Path(sys.argv[2]), checks=sys.argv[3] == "check")
