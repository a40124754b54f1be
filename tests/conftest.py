"""Shared by all tests: no network, small models made on the spot, the command line as a process."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"  # several test processes share the cores
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's way with what it puts behind it
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest
import smollm
import torch
from families import family_config
from hypothesis import settings
from transformers import AutoModelForCausalLM, PreTrainedModel
from typer.testing import CliRunner, Result

from rlvr_cli.cli.main import app
from rlvr_cli.model.attention import ATTENTION

settings.register_profile("any_machine", deadline=None)  # a busy one takes its time
settings.load_profile("any_machine")
# Folders with files that take minutes.
LONG = ("tiny", "ranks", "runs", "cli")
SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files, so that no process is left alone with one at the end."""
    items.sort(key=lambda item: (*LONG, item.path.parent.name).index(item.path.parent.name))


def random_model(family: str = "qwen2-tied", seed: int = 0) -> PreTrainedModel:
    """A model of a few thousand parameters whose next token is far from uniform."""
    torch.manual_seed(seed)
    make = AutoModelForCausalLM.from_config
    try:
        model = make(family_config(family), attn_implementation=ATTENTION)
    except ValueError:  # its attention is its own
        model = make(family_config(family), attn_implementation="eager")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)
    return model.eval()


def double_model(seed: int = 0) -> PreTrainedModel:
    """A Qwen2 model in float64 throughout (transformers' own norm computes in float32)."""
    model = random_model(seed=seed).double()
    for name, module in list(model.named_modules()):
        if type(module).__name__ == "Qwen2RMSNorm":
            norm = torch.nn.RMSNorm(len(module.weight), module.variance_epsilon).double()
            norm.weight = module.weight
            model.set_submodule(name, norm)
    return model


def jsonl(*rows: object) -> str:
    """The rows as JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def invoke(*args: object, stdin: str = "") -> Result:
    """The command line in this process, which may end but not fail."""
    done = CliRunner().invoke(app, list(map(str, args)), input=stdin)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def refused(*args: object, stdin: str = "") -> str:
    """The one line of a mistake."""
    done = invoke(*args, stdin=stdin)
    assert (done.exit_code, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.strip().splitlines()
    return line


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def rlvr(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `rlvr ARGS…` in an empty directory, piped."""

    def run(*args: str, stdin: str | bytes = b"") -> subprocess.CompletedProcess[str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [sys.executable, "-m", "rlvr_cli", *args],
            input=data,
            capture_output=True,
            cwd=tmp_path,
            timeout=600,
            check=False,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    return run


@pytest.fixture(scope="session")
def real_model() -> Path:
    """A real pretrained chat model: a Llama of 135 million parameters, kept in the user's cache."""
    return smollm.cached_model()


@pytest.fixture
def shared_data() -> Path:
    """The real problem sets beside the checkout; tests that need them are skipped without."""
    if not SHARED_DATA.is_dir():
        pytest.skip("no ../shared/data beside this checkout")
    return SHARED_DATA
