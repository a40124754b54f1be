"""A clock that only tests move."""

from types import SimpleNamespace

import pytest

from rlvr_cli.console import display


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(display, "time", clock)
    return clock
