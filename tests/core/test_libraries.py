"""A library that is missing is one line, and what one logs while it loads is not seen."""

import logging

import pytest

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.libraries import library


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
