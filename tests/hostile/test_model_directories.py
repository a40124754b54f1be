"""A model directory from a stranger: none of its code runs, nothing hangs, nothing reaches the
terminal, and what is wrong is one line."""

import json
import re
from pathlib import Path

import pytest
from nursery import Done, Job
from strange_model_table import FINE, SITUATIONS
from strange_models import CODE, MARK, model_at

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def look(done: Done, place: Path) -> str:
    """What every end has in common; the last line of stderr."""
    assert done.rc is not None, "it had to be killed"
    assert not OBEYED.search(done.stderr), done.stderr
    assert not OBEYED.search(done.stdout)
    assert "Traceback" not in done.stderr, done.stderr
    assert "not foreseen" not in done.stderr, done.stderr
    assert not list(place.rglob(MARK))
    assert done.rc in (0, 2), done
    for line in done.stdout.splitlines():
        json.loads(line)
    last = [*done.stderr.splitlines(), ""][-1 if not done.stderr else -2]
    assert done.rc == 0 or last.startswith("rlvr: error: "), done.stderr
    assert len(last) < 2000
    return last


@pytest.mark.parametrize(
    ("spoils", "expected"),
    [pytest.param(spoils, expected, id=name) for name, spoils, expected in SITUATIONS],
)
def test_it_is_sampled_or_refused_in_one_line(spoils, expected, nursery, tmp_path):
    model_at(tmp_path / "m", *spoils)
    (tmp_path / "yes").write_text("y\n" * 1000)
    argv = ["sample", "What is 1 + 1?", "--model", "m", "--max-tokens", "2"]
    done = nursery.run(Job(argv, str(tmp_path), stdin=str(tmp_path / "yes")))
    last = look(done, tmp_path)
    if expected is FINE:
        assert done.rc == 0, last
        assert len(done.stdout.splitlines()) == 1
    else:
        assert done.rc == 2
        assert done.stdout == ""
        assert re.search(expected, last), last
    assert CODE not in done.stdout
