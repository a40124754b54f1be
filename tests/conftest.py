"""Shared by all tests: no network, the command line as a process, a finished run."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
# Several test processes share the cores. Torch reads it when it is first imported: not here, since
# the tests of the verifier need none.
os.environ["OMP_NUM_THREADS"] = "1"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's way with what it puts behind it
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest
import smollm
from filelock import FileLock
from forked import forked
from hypothesis import settings
from typer.testing import CliRunner, Result

from rlvr_cli.cli.main import app

settings.register_profile("any_machine", deadline=None)  # a busy one takes its time
settings.load_profile("any_machine")
SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"
HOSTILE, HOSTILE_SHARE = Path(__file__).parent / "hostile", 1 / 3
"""The share of the tables of hostile files that the quick tier draws; the rest is slow."""
TESTS_SEED = os.environ.get("TESTS_SEED", "0")


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_a_row = item.path.parent == HOSTILE and hasattr(item, "callspec")
        # Each row by its own name, so that a file alone draws the same rows.
        if is_a_row and random.Random(f"{TESTS_SEED}:{item.nodeid}").random() > HOSTILE_SHARE:
            item.add_marker(pytest.mark.slow)
    # The equations come first: `-x` ends with the one that was broken, not with its effects.
    items.sort(key=lambda item: item.path.name != "test_objective.py")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(
        f"TESTS_SEED={TESTS_SEED}: the same seed draws the same third of the hostile tables"
    )


quantizes = pytest.mark.skipif(
    find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed (the extra [cards])"
)
"""The mark of a test that quantizes weights or moments."""


def jsonl(*rows: object) -> str:
    """The rows as JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def invoke(*args: object, stdin: str = "") -> Result:
    """The command line in this process, which may end but not fail."""
    result = CliRunner().invoke(app, list(map(str, args)), input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def refused(*args: object, stdin: str = "") -> str:
    """The one line of a mistake."""
    result = invoke(*args, stdin=stdin)
    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    (line,) = result.stderr.strip().splitlines()
    return line


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def rlvr(tmp_path: Path) -> Command:
    """Run `rlvr ARGS…` in an empty directory, piped, as a fork of this process."""

    def run(*args: str, stdin: str | bytes = b"") -> subprocess.CompletedProcess[str]:
        result = forked(args, tmp_path, stdin.encode() if isinstance(stdin, str) else stdin)
        return subprocess.CompletedProcess(args, result.rc, result.out, result.err)

    return run


@pytest.fixture
def rlvr_process(tmp_path: Path) -> Command:
    """Run `rlvr ARGS…` in an empty directory, piped, as a process that starts from nothing."""

    def run(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "rlvr_cli", *args],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=600,
            check=False,
        )

    return run


def small_run(*extra: str) -> list[str]:
    """`rlvr train` of a few short steps of the built-in policy."""
    return [
        "train",
        "--prompts",
        "4",
        "-n",
        "4",
        "--max-tokens",
        "40",
        "--limit",
        "32",
        "--set",
        "eval.limit=4",
        *extra,
    ]


def finished_command(out: Path) -> list[str]:
    """The command of `finished_run`: four steps, measured every second one."""
    every = ("checkpoint.keep=4", "checkpoint.every=1", "eval.every=2")
    settings = [part for setting in every for part in ("--set", setting)]
    return small_run("--steps", "4", *settings, "--out", str(out))


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with all its checkpoints, made once for all processes of the tests: a test
    that changes it takes a copy."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    with FileLock(shared / "finished.lock"):
        run = shared / "finished"
        if not (run / "summary.json").exists():
            result = forked(finished_command(run), shared)
            assert result.rc == 0, result.err
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


@pytest.fixture(scope="module")
def browser():
    """A real browser. Without one the tests of pages are skipped."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium here: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    with api.sync_playwright() as playwright:
        actual = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield actual
        actual.close()


def opened(browser, file: Path, text: list[str], **look):
    """A page in the browser, once it is ready. `text` notes what it requests and what fails."""

    def note_request(request):
        if request.url != file.as_uri():
            text.append(request.url)

    view = browser.new_page(**look)
    view.on("console", lambda message: text.append(f"console {message.text}"))
    view.on("pageerror", lambda error: text.append(f"error {error}"))
    view.on("dialog", lambda dialog: text.append(f"dialog {dialog.message}"))
    view.on("request", note_request)
    view.goto(file.as_uri())
    view.wait_for_selector("body[data-ready]")
    return view
