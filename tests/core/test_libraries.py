"""A library that is missing is one line; what one says of a stranger's file reaches a terminal as
text only."""

import logging
import os
import subprocess
import sys
import warnings
from importlib import metadata
from pathlib import Path

import pytest
import tqdm.auto
from datasets.utils import enable_progress_bars as enable_datasets
from datasets.utils import tqdm as datasets_tqdm
from huggingface_hub.utils import enable_progress_bars as enable_hub
from huggingface_hub.utils import tqdm as hub_tqdm
from transformers.utils.logging import enable_progress_bar as enable_transformers
from transformers.utils.logging import tqdm as transformers_tqdm

import rlvr_cli
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.libraries import library, neutralize_logs, other_verifiers

NASTY = "\x1b]0;owned\x07\x1b[2J"
SHOWN = "\ufffd]0;owned\ufffd\ufffd[2J"


@pytest.fixture(autouse=True)
def _as_it_was():
    factory = logging.getLogRecordFactory()
    formatted = warnings.formatwarning
    meter = vars(tqdm.tqdm)["format_meter"]
    yield
    logging.setLogRecordFactory(factory)
    warnings.formatwarning = formatted
    tqdm.tqdm.format_meter = meter


def test_records_their_arguments_and_their_errors(capfd):
    neutralize_logs()
    logger = logging.getLogger("a.library")
    logger.addHandler(logging.StreamHandler())
    logger.propagate = False
    logger.warning("about %s", NASTY)
    try:
        raise ValueError(NASTY)
    except ValueError:
        logger.exception("failed")
    message = capfd.readouterr().err
    assert message.startswith(f"about {SHOWN}\nfailed\nTraceback")
    assert message.rstrip("\n").endswith(f"ValueError: {SHOWN}")
    assert "\x1b" not in message


def test_a_long_message_is_cut(capfd):
    neutralize_logs()
    logger = logging.getLogger("another.library")
    logger.addHandler(logging.StreamHandler())
    logger.propagate = False
    logger.warning("x" * 1_000_000)
    message = capfd.readouterr().err
    assert message.startswith("x" * 4000 + " … (1000000 characters)")
    assert len(message) < 4100


def test_warnings():
    neutralize_logs()
    assert warnings.formatwarning(NASTY, UserWarning, "f.py", 1, "") == (
        f"f.py:1: UserWarning: {SHOWN}\n"
    )


@pytest.mark.parametrize(
    "bar", [tqdm.tqdm, tqdm.auto.tqdm, hub_tqdm, transformers_tqdm, datasets_tqdm]
)
def test_progress_bars(bar, capfd):
    for enable in (enable_hub, enable_transformers, enable_datasets):
        enable()  # which loading a model or a set has turned off
    neutralize_logs()
    with bar([1], desc=NASTY, unit=NASTY, disable=False, file=sys.stderr) as shown:
        shown.set_postfix({NASTY: NASTY})
        shown.update()
    message = capfd.readouterr().err
    assert SHOWN in message
    assert "100%" in message
    assert not set(message) & {"\x07", "\x1b"}


def test_twice_is_once():
    neutralize_logs()
    first = warnings.formatwarning
    neutralize_logs()
    assert warnings.formatwarning is first


@pytest.mark.parametrize("name", ["transformers", "huggingface_hub", "datasets"])
def test_the_libraries_that_are_used(name):
    code = (
        "from rlvr_cli.core.libraries import neutralize_logs; neutralize_logs();"
        f"import {name}, logging; logging.getLogger('{name}.x').error({NASTY!r})"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert SHOWN in result.stderr
    assert "\x1b" not in result.stderr


def test_it_is_imported():
    assert library("json.decoder", "--x").JSONDecodeError is not None


def test_a_missing_one_says_who_asked_and_what_to_do():
    with pytest.raises(UserError, match=r"^--x: not_there is not installed; pip install not_there"):
        library("not_there.part", "--x")


def test_what_it_logs_while_it_loads_is_not_seen(tmp_path, monkeypatch, caplog):
    (tmp_path / "loud_one.py").write_text("import logging; logging.warning('noise')")
    monkeypatch.syspath_prepend(tmp_path)
    library("loud_one", "--x")
    assert "noise" not in caplog.text
    logging.getLogger("after").warning("heard")
    assert "heard" in caplog.text


def test_a_distribution_laid_over_our_verifiers_is_noticed(monkeypatch):
    assert other_verifiers() is None
    ours = Path(rlvr_cli.__file__).parents[1]

    class Laid:
        def locate_file(self, name):
            return ours / name

    monkeypatch.setattr(metadata, "distribution", lambda name: Laid())
    assert f"has the name verifiers in this environment ({ours / 'verifiers'})" in other_verifiers()


@pytest.fixture
def with_theirs(tmp_path):
    """An environment in which another distribution's `verifiers` comes first."""
    (tmp_path / "verifiers").mkdir()
    (tmp_path / "verifiers" / "__init__.py").write_text("")
    (tmp_path / "verifiers-0.4.0.dist-info").mkdir()
    (tmp_path / "verifiers-0.4.0.dist-info" / "METADATA").write_text("Name: verifiers\n")
    ours = Path(rlvr_cli.__file__).parents[1]
    return {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ours}"}


@pytest.mark.parametrize(
    "command", [("-m", "rlvr_cli", "doctor"), ("-c", "import rlvr_cli.core.types")]
)
def test_the_doctor_and_the_first_import_say_so_in_a_line(command, with_theirs, tmp_path):
    words = [sys.executable, *command]
    result = subprocess.run(
        words, env=with_theirs, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode != 0
    assert "rror: another distribution has the name verifiers" in result.stderr.splitlines()[-1]
    if "doctor" in command:
        assert result.stderr.count("\n") == 1
