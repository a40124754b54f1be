"""Import vllm into this process, which stays as it was."""

import os
import random
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch

LOG_LEVEL, _QUIET = "VLLM_LOGGING_LEVEL", "CRITICAL"
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # no process of its own: weights are handed over live
    LOG_LEVEL: _QUIET,
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the trainer's threads stay as they are
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_NO_USAGE_STATS": "1",
}


def import_vllm() -> Any:
    """Import vllm, configured to stay in this process and to keep stdout clean."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import vllm

    return vllm


def known_architectures() -> Collection[str]:
    """Return the architectures that this version of vLLM supports."""
    with unchanged_process():
        import_vllm()
        from vllm.model_executor.models import ModelRegistry
    return ModelRegistry.get_supported_archs()


@contextmanager
def unchanged_process() -> Iterator[None]:
    """Undo the side effects of starting vLLM: it prints to stdout and stderr whatever its log
    level, reseeds the random numbers and forbids setting the number of threads."""
    set_threads, threads = torch.set_num_threads, torch.get_num_threads()
    random_state = torch.random.get_rng_state()
    python_random_state = random.getstate()
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with tempfile.TemporaryFile() as unread:
        os.dup2(2, 1)
        if os.environ.get(LOG_LEVEL, _QUIET) == _QUIET:
            os.dup2(unread.fileno(), 1)
            os.dup2(unread.fileno(), 2)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for stream, descriptor in enumerate(kept, 1):
                os.dup2(descriptor, stream)
                os.close(descriptor)
            torch.set_num_threads = set_threads
            torch.set_num_threads(threads)
            torch.random.set_rng_state(random_state)
            random.setstate(python_random_state)
