"""What `rlvr export` takes, before anything is loaded."""

import pytest
from typer.testing import CliRunner

from rlvr_cli.cli.main import app


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "Missing argument"),
        (("run", "--dtype", "int4"), "int4"),
        (("no-such-run",), "no config.yaml in it; give the directory of a run"),
    ],
)
def test_bad_input_is_refused_at_once(args, says):
    result = CliRunner().invoke(app, ["export", *args])
    assert result.exit_code == 2
    assert says in result.stderr
