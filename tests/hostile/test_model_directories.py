"""A model directory from a stranger: none of its code runs, nothing hangs, nothing reaches the
terminal, and what is wrong is one line."""

import json
import re
from pathlib import Path

import pytest
from forked import Done, forked
from strange_model_table import FINE, SITUATIONS
from strange_models import CODE, MARK, model_at

from rlvr_cli.data import prompts

LIMITS = {"seconds": 40, "megabytes": 3000}
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def look(done: Done, place: Path) -> str:
    """What every end has in common; the last line of stderr."""
    assert not OBEYED.search(done.err), done.err
    assert not OBEYED.search(done.out)
    assert "Traceback" not in done.err, done.err
    assert "not foreseen" not in done.err, done.err
    assert not list(place.rglob(MARK))
    assert done.rc in (0, 2), done
    for line in done.out.splitlines():
        json.loads(line)
    last = [*done.err.splitlines(), ""][-1 if not done.err else -2]
    assert done.rc == 0 or last.startswith("rlvr: error: "), done.err
    assert len(last) < 2000
    return last


@pytest.mark.parametrize(
    ("spoils", "expected"),
    [pytest.param(spoils, expected, id=name) for name, spoils, expected in SITUATIONS],
)
def test_it_is_sampled_or_refused_in_one_line(spoils, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(prompts, "_SECONDS", 1.0)  # a template that never ends is stopped sooner
    model_at(tmp_path / "m", *spoils)
    (tmp_path / "yes").write_text("y\n" * 1000)
    argv = ["sample", "What is 1 + 1?", "--model", "m", "--max-tokens", "2"]
    result = forked(argv, tmp_path, tmp_path / "yes", **LIMITS)
    last = look(result, tmp_path)
    if expected is FINE:
        assert result.rc == 0, last
        assert len(result.out.splitlines()) == 1
    else:
        assert result.rc == 2
        assert result.out == ""
        assert re.search(expected, last), last
    assert CODE not in result.out
