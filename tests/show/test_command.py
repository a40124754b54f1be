"""`rlvr show` with several sources and options at once."""

import pytest
from conftest import invoke, refused
from small_runs import made_result, made_run


def test_one_thing_at_a_time(tmp_path):
    run = made_run(tmp_path / "run")
    page = tmp_path / "page.html"
    result = invoke("show", run, "--html", page, "--step", "1", "--follow")
    assert result.stdout.startswith("page ")
    assert invoke("show", run, run, "--explain").stdout.startswith("Step 2 of")
    assert invoke("show", run, "--explain", "1").stdout.startswith("Step 1 of")
    assert invoke("show", "--explain", "1", run).stdout.startswith("Step 1 of")
    assert "no such step; it has 1 to 2" in refused("show", run, "--explain", "30")
    assert invoke("show", run, "--follow").stdout.split()[0] == "step"
    assert "wrong ones first" in invoke("show", made_result(tmp_path / "result")).stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("run", "--by", "level"), "--by takes results only"),
        (("run", "--problem", "zz"), "no response with --problem zz; problems are such as aa, b"),
        (("bare", "--explain"), "--explain: bare has no finished step with responses"),
    ],
)
def test_what_cannot_be_shown_is_one_line(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("run", "bare"):
        made_run(tmp_path / name)
    for path in tmp_path.glob("bare/rollouts/step-*"):
        path.unlink()
    assert refused("show", *options).endswith(message)
