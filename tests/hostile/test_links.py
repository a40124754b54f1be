"""Links planted at every name that a command writes: none is followed."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import invoke
from forked import forked
from small_runs import made_run

from rlvr_cli.core.errors import UserError
from rlvr_cli.program.ablate import Wishes, plan_of
from rlvr_cli.runs import ablation
from rlvr_cli.runs.run_dir import RunDirectory
from rlvr_cli.runs.track import Mirrors

LATER = [f"rollouts/{name}-000005.jsonl" for name in ("step", "held-out-step")]
LATER += ["rollouts/tokens-step-000005.json", "rollouts/held-out-after.jsonl", "error.txt"]


def planted(names: list[Path], outside: Path) -> dict[Path, bytes]:
    """Make each file a link to a copy of it outside, and return the copies by their content."""
    copies = {}
    for number, path in enumerate(names):
        copy = outside / str(number)
        copy.write_bytes(path.read_bytes() if path.exists() else b"theirs")
        path.unlink(missing_ok=True)
        path.symlink_to(copy)
        copies[copy] = copy.read_bytes()
    return copies


def unchanged(copies: dict[Path, bytes], outside: Path) -> bool:
    return {path: path.read_bytes() for path in outside.iterdir()} == copies


def test_a_resumed_run_follows_no_link_at_a_file_of_its_own(finished_run, tmp_path):
    run = tmp_path / "run"
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.copytree(finished_run, run)
    names = [path for path in run.iterdir() if path.is_file() and path.name != ".lock"]
    names += [path for path in (run / "rollouts").iterdir() if path.is_file()]
    names += [run / name for name in LATER]
    partial = [path.with_name(f".{path.name}.partial") for path in names]
    partial.append(run / "checkpoints" / ".step-5.partial")
    copies = planted([*names, *partial], outside)
    result = forked(["train", "--resume", str(run), "--steps", "5"], tmp_path)
    assert unchanged(copies, outside), result.err
    assert result.rc == 0 or "Traceback" not in result.err


@pytest.mark.parametrize("name", [".lock", "rollouts", "checkpoints", "checkpoints/step-4"])
def test_a_link_at_a_directory_or_lock_of_a_run_is_refused(name, tmp_path):
    run = tmp_path / "run"
    made_run(run)
    (run / "checkpoints" / "step-4").mkdir(parents=True, exist_ok=True)
    path = run / name
    if path.is_dir():
        path.rename(tmp_path / "outside")
    else:
        path.unlink(missing_ok=True)
        (tmp_path / "outside").touch()
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(UserError):
        RunDirectory(run)


@pytest.mark.parametrize("tracker", ["tensorboard", "wandb", "trackio"])
def test_a_tracker_writes_through_no_link(tracker, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / tracker).symlink_to("outside")
    warnings: list[str] = []
    config = SimpleNamespace(model_dump=lambda mode: {})
    Mirrors([tracker], tmp_path, config, 1, warnings.append).close()
    assert "a link is not followed" in warnings[0]
    assert list((tmp_path / "outside").iterdir()) == []


def an_ablation(out: Path) -> ablation.AblationPlan:
    wishes = Wishes(data="chains", base="grpo", arms={"low": "optim.lr=0"}, seeds=[0, 1], steps=1)
    return plan_of(wishes, out)


@pytest.mark.parametrize("run", ["low-0", "low-1", "grpo-0"])
def test_an_ablation_goes_on_with_no_run_elsewhere(run, tmp_path):
    plan = an_ablation(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / run).symlink_to("elsewhere")
    with pytest.raises(UserError, match=f"{run}: not a directory of its own"):
        plan.missing()


def test_an_ablation_writes_its_logs_and_its_probe_through_no_link(tmp_path, monkeypatch):
    plan = an_ablation(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("theirs")
    (tmp_path / "probe").symlink_to(outside)
    for name in ("probe", "low-0", "grpo-1"):
        (tmp_path / f"{name}.log").symlink_to(outside / "file")
    for name in ("table.csv", "table.tex", "picture.svg", "ablation.yaml"):
        (tmp_path / name).symlink_to(outside / "file")

    def end_at_once(*args, **options):
        options["stderr"].write(b"it ends\n")
        return SimpleNamespace(wait=lambda: None, poll=lambda: 1, returncode=1)

    monkeypatch.setattr(ablation.subprocess, "Popen", end_at_once)
    plan.store()
    display = SimpleNamespace(say=lambda *texts: None)
    with pytest.raises(UserError, match="it ends"):
        ablation.probe(plan, 4, display)
    ablation._start(tmp_path / "low-0", [])
    ablation._start(tmp_path / "grpo-1", [])
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "theirs"
    assert not (tmp_path / "probe").is_symlink()


def test_results_are_written_through_no_link(tmp_path, monkeypatch):
    outside = tmp_path / "outside"
    outside.write_text("theirs")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.jsonl").write_text('{"problem": "1+1", "answer": "2", "response": "2"}\n')
    command = ["eval", "--responses", "r.jsonl", "--out"]
    assert invoke(*command, "first").exit_code == 0
    names = [path.relative_to("first") for path in Path("first").rglob("*") if path.is_file()]
    for name in names:
        out = tmp_path / "second"
        (out / "unfinished").mkdir(parents=True)
        (out / name.parent).mkdir(exist_ok=True)
        (out / name).symlink_to(outside)
        (out / name.parent / f".{name.name}.partial").symlink_to(outside)
        invoke(*command, "second")
        assert outside.read_text() == "theirs", name
        shutil.rmtree(out)
    for link in ("unfinished", "responses"):
        (tmp_path / "second").mkdir()
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "second" / link).symlink_to(tmp_path / "elsewhere")
        assert invoke(*command, "second").exit_code == 2
        assert os.listdir(tmp_path / "elsewhere") == []
        shutil.rmtree(tmp_path / "second")
        (tmp_path / "elsewhere").rmdir()
