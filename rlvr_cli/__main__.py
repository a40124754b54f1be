"""`python -m rlvr_cli` is `rlvr`."""

from rlvr_cli.main import app

app()
