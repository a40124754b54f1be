"""`rlvr show` on the command line: what it refuses, in one line."""

import pytest
from conftest import invoke, refused
from small_runs import made_result, made_run


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "show: give the directory of a run or a result"),
        (["nothing"], "show nothing: neither a run (no config.yaml) nor a result"),
        (["run", "result"], "give runs or results, not both"),
        (["run", "--step", "9"], "run has no such step; it has 1 to 2"),
        (["run", "--step", "1", "--group", "9"], "no response with --group 9"),
        (["run", "--group", "1"], "--group is a group of one step; give --step as well"),
        (
            ["run", "--verdict", "great"],
            "--verdict great is no verdict; choose from correct, wrong",
        ),
        (["run", "--verdict", "timeout"], "no response with --verdict timeout"),
        (["run", "--problem", "zz"], "no response with --problem zz; problems are such as aa, b"),
        (["run", "other", "--step", "1"], "responses are those of one run or result; give one"),
        (["result", "--follow"], "--follow takes runs only"),
        (["empty.jsonl"], "show empty.jsonl: no rows in it"),
        (
            ["compared", "--step", "1"],
            "--step takes no ablation; name a run in it, compared/ARM-SEED",
        ),
        (
            ["compared", "--explain", "1"],
            "--explain takes no ablation; name a run in it, compared/A",
        ),
        (["compared", "--step", "0", "--html", "page"], "--step takes no ablation"),
        (["compared", "run"], "show: an ablation is shown alone"),
        (["result", "--by", "color"], "--by color: no such field in result"),
    ],
)
def test_what_cannot_be_shown_is_one_line(tmp_path, monkeypatch, args, message):
    monkeypatch.chdir(tmp_path)
    made_run(tmp_path / "run")
    made_run(tmp_path / "other")
    made_result(tmp_path / "result")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "compared").mkdir()
    (tmp_path / "compared" / "ablation.yaml").touch()
    assert message in refused("show", *args)


def test_a_run_without_rollouts_has_its_curves_only(tmp_path):
    run = made_run(tmp_path / "run")
    for path in (run / "rollouts").iterdir():
        path.unlink()
    result = invoke("show", run)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "2 of 2 steps" in result.stdout
    assert "it has no responses yet" in refused("show", run, "--step", "1")


def test_a_directory_of_runs_lists_them(tmp_path):
    (tmp_path / "many").mkdir()
    for number in (2, 1):
        made_run(tmp_path / "many" / f"run-{number}", f"seed={number}", steps=3)
    result = invoke("show", tmp_path / "many")
    assert result.exit_code == 0, result.stderr
    shown = [
        line.split() for line in (result.stdout + result.stderr).splitlines() if "run-" in line
    ]
    assert [line[0].rpartition("/")[2] for line in shown[:2]] == ["run-1", "run-2"]
    assert shown[0][1:6] == ["dapo", "problems.yaml", "3", "of", "3"]
    together = invoke("show", tmp_path / "many", "--html", tmp_path / "page.html")
    assert together.exit_code == 0, together.stderr
    (tmp_path / "none").mkdir()
    assert "neither a run (no config.yaml) nor a result" in refused("show", tmp_path / "none")
