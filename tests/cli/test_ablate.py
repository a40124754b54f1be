"""`rlvr ablate`: runs side by side that a kill does not lose, a table that can be checked by hand,
and plans that cannot be compared."""

import csv
import json
import os
import re
import shlex
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

import pytest
from conftest import invoke, refused
from forked import Fork, forked
from small_runs import made_metrics, made_row, made_run, write_rows

import rlvr_cli
from rlvr_cli.algorithm.choices import ALGORITHMS
from rlvr_cli.config import as_yaml, resolve, set_layer
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.settings import leaves
from rlvr_cli.evaluation.estimators import student
from rlvr_cli.program.ablate import (
    Wishes,
    merged,
    plan_of,
    read_wishes,
    settings_of_all,
)
from rlvr_cli.ranks.launch import LAUNCHER
from rlvr_cli.runs import ablation
from rlvr_cli.runs.ablation import deviation_from_plan, run_figures

PLANS = sorted((Path(rlvr_cli.__file__).parents[1] / "recipes" / "ablations").glob("*.yaml"))
CUSTOM = ("algorithm.advantage=my.py:f",)
ARM = ("--arm", "free: algorithm.filter=none")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--arm", "same: algorithm.surrogate.high=0.28"], "same: it changes nothing of dapo"),
        (["--arm", "a: model=other"], "arm a: it changes model, which a comparison holds equal"),
        (["--arm", "a: data.limit=9"], "arm a: it changes data.limit, which a comparison holds"),
        (["--arm", "a: eval.limit=9"], "arm a: it changes eval.limit, which a comparison holds"),
        (["--arm", "a: seed=9"], "arm a: it changes seed, which a comparison holds equal"),
        ([*ARM, *ARM], "there is an arm free already"),
        (["--arm", "dapo: algorithm.filter=none"], "--arm dapo: the base has this name"),
        ([*ARM, "--seeds", "1"], "one seed tells no arm from chance, so there is no interval"),
        ([*ARM, "--seeds", "0,a"], "--seeds 0,a: give numbers"),
        (["--arm", "algorithm.filter=none"], "write it as NAME: section.key=value"),
        (["--arm", "../x: algorithm.filter=none"], "--arm ../x: a name has letters"),
        (["--arm", "a: algorithm.filter=nope"], "arm a: --set algorithm.filter=nope"),
        (["--arm", "a: 'x"], "--arm a: No closing quotation"),
        (["--base", "nope", *ARM], "arm nope: --algo nope: no such algorithm"),
        (["-", *ARM], "ablate -: every run reads the problems, so they need a file"),
        ([], "ablate: nothing to compare"),
        (["twice.yaml"], "twice.yaml: line 3: not valid YAML (the key a stands twice)"),
        (["number.yaml"], "number.yaml: arms.a must be a text"),
        (["number.yaml", "chains"], "number.yaml is a plan, which has data and arms"),
    ],
)
def test_what_cannot_be_compared_is_one_line(tmp_path, monkeypatch, args, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twice.yaml").write_text("arms:\n  a: algo=grpo\n  a: algo=ppo\n")
    (tmp_path / "number.yaml").write_text("arms:\n  a: 3\n")
    assert message in refused("ablate", *args)
    assert not (tmp_path / "runs").exists()


def test_another_run_in_its_place_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    made_run(tmp_path / "runs" / "dapo-0", "algo=dapo", "seed=5", "data.source=chains")
    line = refused("ablate", *ARM, "--out", "runs", "--set", "steps=2")
    assert "runs/dapo-0: another's run, with" in line
    assert "is planned; move it away or name another --out" in line


@pytest.mark.parametrize("setting", ["algorithm.surrogate=my.py:f", 'reward.functions=["my.py"]'])
def test_a_run_of_other_code_in_its_place_is_left_alone(tmp_path, monkeypatch, setting):
    monkeypatch.chdir(tmp_path)
    Path("my.py").write_text("def f(inputs): ...")
    wishes = Wishes(arms={"mine": shlex.quote(setting)}, data="problems.yaml", steps=2)
    plan = plan_of(wishes, Path("runs"))
    Path("runs").mkdir()
    names = [name for name, _ in leaves(plan.arms["mine"].model_dump())]
    assert sum(".sources." in name for name in names) == 1
    run = made_run(Path("runs/mine-0"))
    (run / "config.yaml").write_text(as_yaml(plan.arms["mine"]))
    plan.missing()  # takes it for its own
    Path("my.py").write_text("def f(inputs): ...  # edited")
    with pytest.raises(UserError, match=rf"{run}: another's run, with (algorithm|reward)\.sources"):
        plan_of(wishes, Path("runs")).missing()


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_plan_of_the_package_can_be_run(path):
    plan = plan_of(merged(read_wishes(path)), None)
    assert plan.base in plan.arms
    assert len(plan.arms) > 1
    assert len(set(map(str, plan.arms.values()))) == len(plan.arms)


def test_the_ladder_goes_from_grpo_to_the_preset_of_dapo():
    path = next(path for path in PLANS if path.stem == "ladder-dapo")
    plan = plan_of(read_wishes(path), None)
    first, *_, last = (config.algorithm for config in plan.arms.values())
    names = ("overlong", "filter", "aggregation")
    assert [str(getattr(first, name)) for name in names] == ["None", "None", "sequence_mean"]
    assert first.surrogate.high == 0.2
    assert last == ALGORITHMS["dapo"]


def test_an_arm_may_be_an_algorithm_or_flags_of_train(tmp_path):
    wishes = merged(
        Wishes(base="grpo"),
        arms=["dapo", "slow: --lr 1e-6 --prompts=4", "both: --lr 1e-6 algorithm.filter=mixed"],
    )
    assert wishes.arms["dapo"] == "algo=dapo"
    arms = plan_of(wishes, tmp_path).arms
    assert arms["dapo"].algorithm == ALGORITHMS["dapo"]
    assert (arms["slow"].optim.lr, arms["slow"].rollout.prompts) == (1e-6, 4)
    with pytest.raises(UserError, match=r"--lrr: no flag of rlvr train; did you mean --lr\?"):
        plan_of(merged(Wishes(), arms=["a: --lrr 1"]), tmp_path)


@pytest.mark.parametrize(
    ("words", "sources", "settings"),
    [
        (["gsm8k", "--lr", "1e-4"], ["gsm8k"], ["optim.lr=1e-4"]),
        (["--skip-bad", "gsm8k", "p.csv"], ["gsm8k", "p.csv"], ["data.skip_bad=true"]),
        (["-n", "4", "--max-tokens=64"], [], ["rollout.samples=4", "rollout.max_tokens=64"]),
        (
            ["--reward", "math", "--reward", "my.py:0.5", "-"],
            ["-"],
            ['reward.functions=["math", "my.py:0.5"]'],
        ),
    ],
)
def test_flags_of_train_are_settings_of_all_runs(words, sources, settings):
    assert settings_of_all(words) == (sources, settings)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--algo", "grpo"], "--base sets algo"),
        (["--seed", "3"], "--seeds sets seed"),
        (["--lr"], "--lr: give its value"),
        (["--stpes", "3"], "--stpes: no flag of rlvr train; did you mean --steps?"),
    ],
)
def test_a_flag_that_is_not_of_all_runs_is_refused(words, message):
    assert message in refused("ablate", *ARM, *words)


def test_seconds_of_a_run_are_the_processors(tmp_path):
    """Two steps of 1.5 and 2.5 processor seconds and ten tokens each."""
    run = made_run(tmp_path / "run")
    rows = [
        made_metrics(1, seconds_step=9.0, seconds_processor=1.5, tokens_sampled=10),
        made_metrics(2, seconds_step=9.0, seconds_processor=2.5, tokens_sampled=10),
    ]
    write_rows(run / "metrics.jsonl", rows)
    held_out = [made_row("h0", 0, "correct"), made_row("h0", 1, "wrong")]
    write_rows(run / "rollouts" / "held-out-after.jsonl", [*held_out, made_row("h1", 0, "timeout")])
    first, last = run_figures(run).measured
    assert (first.step, first.seconds, first.pass_at_1) == (0, 0.0, 0.0)
    assert (last.step, last.seconds, last.tokens) == (2, 4.0, 20)
    assert last.shares == {" h0": 0.5}
    # Rounds also sampled what goes on, or was dropped: at equal tokens that counts.
    write_rows(run / "metrics.jsonl", [{**row, "rounds": 2, "tokens_decoded": 17} for row in rows])
    assert run_figures(run).measured[-1].tokens == 34


def shares(run: Path, name: str) -> dict[str, float]:
    """The share of right responses of each held-out problem, from the rows."""
    by_problem: dict[str, list[bool]] = {}
    for line in (run / "rollouts" / f"{name}.jsonl").read_text().splitlines():
        row = json.loads(line)
        by_problem.setdefault(row["id"], []).append(row["verdict"] == "correct")
    return {problem: fmean(rights) for problem, rights in by_problem.items()}


class ForkedRun(Fork):
    """A run that begins as a fork of its ablation, which spares it the seconds of the imports."""

    def __init__(self, run: Path, options: Iterable[str]) -> None:
        environment = {"OMP_NUM_THREADS": "1", LAUNCHER: str(os.getpid())}
        with run.with_name(f"{run.name}.log").open("wb") as log:
            super().__init__(
                ["train", *options],
                Path.cwd(),
                stdout=os.devnull,
                stderr=log.fileno(),
                environment=environment,
            )
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self) -> None:
        while self.poll() is None:
            time.sleep(0.01)

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)


@pytest.mark.parametrize(
    "runs_are_forks", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["forks", "started"]
)
def test_a_killed_ablation_goes_on_and_its_table_is_that_of_the_rows(
    runs_are_forks, tmp_path, monkeypatch
):
    """Two arms by two seeds of two steps. The difference at equal steps is recomputed by hand."""
    if runs_are_forks:
        monkeypatch.setattr(ablation, "_start", ForkedRun)
    sizes = ["rollout.prompts=4", "rollout.samples=4", "eval.limit=12", "eval.every=1"]
    sizes.append("data.limit=32")
    command = ["ablate", "--arm", "slow: optim.lr=1e-6"]
    command += ["--base", "grpo", "--seeds", "0,1", "--steps", "2", "--jobs", "2", "--out", "out"]
    command += [part for size in sizes for part in ("--set", size)]
    out = tmp_path / "out"
    process = Fork(command, tmp_path)
    process.await_(lambda: bool(list(out.glob("*-0/checkpoints/step-*"))))
    os.kill(process.pid, signal.SIGKILL)
    process.done()
    assert not (out / "table.csv").exists()
    resumed = forked(command, tmp_path)
    assert resumed.rc == 0, resumed.err
    assert any("resume" in log.read_text() for log in out.glob("*-0.log"))
    stamps = {path: path.stat().st_mtime_ns for path in out.glob("*-?/summary.json")}
    assert len(stamps) == 4

    differences = []
    for seed in (0, 1):
        base = shares(out / f"grpo-{seed}", "held-out-step-000002")
        arm = shares(out / f"slow-{seed}", "held-out-step-000002")
        assert len(base) == 12
        differences.append([arm[problem] - base[problem] for problem in base])
    means = [fmean(row) for row in differences]
    rows = list(csv.DictReader((out / "table.csv").open()))
    assert [(row["arm"], row["axis"]) for row in rows] == [
        (arm, axis) for axis in ("steps", "seconds", "tokens") for arm in ("grpo", "slow")
    ]
    (row,) = (row for row in rows if row["arm"] == "slow" and row["axis"] == "steps")
    assert float(row["difference"]) == pytest.approx(fmean(means))
    least = student(1) * abs(means[0] - means[1]) / 2  # the part of the seeds alone
    assert float(row["high"]) - float(row["low"]) >= 2 * least - 1e-9
    assert (out / "picture.svg").read_text().count(
        "<polygon"
    ) == 7  # in three panels, and of differences
    assert r"\begin{tabular}{lrrrrrr}" in (out / "table.tex").read_text()

    repeated = forked(command, tmp_path)
    assert "all 4 are there" in repeated.err
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}
    shown = invoke("show", str(out))
    assert "less grpo [95 %]" in shown.stdout
    assert "have ended" not in shown.stdout
    said = " ".join(resumed.err.split())
    assert "could show nothing: 2 seeds tell no difference" in said
    assert "in pass@1 with 2 seeds, if all vary as the first 2 do" in said
    assert invoke("show", str(out), "--html", str(tmp_path / "page.html")).exit_code == 0
    page = (tmp_path / "page.html").read_text()
    assert page.index("<polygon") < page.index('id="tables"')  # the picture first
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    assert [(run["name"], run["arm"], run["color"]) for run in data["runs"]] == [
        ("grpo-0", "grpo", 0),
        ("grpo-1", "grpo", 0),
        ("slow-0", "slow", 1),
        ("slow-1", "slow", 1),
    ]
    arms, settings, by_seed = data["tables"]
    assert arms[0][0] == "arm"
    assert settings == [["settings that differ", "grpo", "slow"], ["optim.lr", "0.0001", "1e-06"]]
    assert by_seed[0][-2:] == ["less grpo of the same seed", "p"]
    assert [line[-2] == "" for line in by_seed[1:]] == [True, True, False, False]
    assert "<title>rlvr: out</title>" in page
    drawn = invoke("show", str(out), "--picture", str(tmp_path / "p.svg"), "--panel", "difference")
    assert drawn.exit_code == 0, drawn.stderr
    assert (tmp_path / "p.svg").read_text().count("<polygon") == 1
    for args, message in {
        ("--picture", "p.gif"): "name a file that ends in .svg, .pdf or .png",
        ("--picture", tmp_path / "p.svg"): "it exists already",
        ("--picture", "q.svg", "--panel", "loss"): "no such panel",
        ("--panel", "loss"): "give --picture FILE as well",
    }.items():
        assert message in refused("show", out, *args)
    (out / "slow-1" / "summary.json").unlink()
    (out / "slow-1.log").write_text("rlvr: error: it returned Tensor, not two tensors\n")
    said = " ".join(invoke("show", str(out)).stdout.split())
    assert "slow: 1 run failed, in no figure: it returned Tensor, not two tensors" in said
    assert "3 of 4 runs have ended" in said


@pytest.mark.parametrize(
    ("planned", "stored"),
    [
        ((), ("data.where=level=1",)),
        ((), ("data.limit=5",)),
        ((), ("reward.majority_share=0.5",)),
        (("algo=grpo",), ("algo=grpo", "algorithm.kl=none")),
        ((), ("algorithm.filter=none",)),
        (("algorithm.filter=none",), ()),
        (("algorithm.surrogate=cispo",), ()),
        (CUSTOM, (*CUSTOM, "algorithm.advantage.scale=2")),
    ],
)
def test_a_run_of_other_settings_is_not_the_plans(planned, stored):
    one, other = (resolve(set_layer(texts)) for texts in (planned, stored))
    assert "is planned" in deviation_from_plan(one, other)
    assert deviation_from_plan(one, one) == deviation_from_plan(other, other) == ""


def test_steps_of_the_command_line_hold_for_every_arm(tmp_path):
    wishes = read_wishes(Path("recipes/ablations/clip.yaml"))
    sets = ["steps=9", "optim.warmup_steps=1"]
    wishes = merged(wishes, sets=sets, arms=["x: optim.lr=0.1 steps=7"])
    plan = plan_of(wishes, tmp_path, steps=3)
    assert {config.steps for config in plan.arms.values()} == {3}
    assert {config.optim.warmup_steps for config in plan.arms.values()} == {1}
