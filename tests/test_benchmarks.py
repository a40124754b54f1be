"""What the published figures and the claim of an exact resume rest on."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from xml.etree import ElementTree

import additions
import numpy as np
import pytest
import smollm
from small_runs import made_figures

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.evaluation.curves import AXES, MeasuredRun, Point, mean_of
from rlvr_cli.evaluation.picture import picture

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
STATE = {"cursor": 3, "progress": {"best": {"step": 1}, "seconds": 1.5}}
SUMMARY = {"steps": 2, "minutes": 0.1, "figures": {"tokens_sampled": 9, "seconds_step": 2.0}}
FILES = {
    "checkpoints/step-2/trainer/state.json": STATE,
    "checkpoints/step-2/manifest.json": {"trainer/state.json": "a", "model.safetensors": "b"},
    "summary.json": SUMMARY,
    "metrics.jsonl": {"step": 1, "reward": 0.5, "seconds_update": 1.0},
}


def benchmark(name: str) -> ModuleType:
    spec = util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(run: Path, changed: dict[str, dict]) -> Path:
    for name, values in {**FILES, **changed}.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(json.dumps(values))
    return run


@pytest.mark.parametrize(
    ("name", "values", "is_different"),
    [
        ("trainer/state.json", {**STATE, "cursor": 4}, True),
        ("trainer/state.json", {**STATE, "progress": {"best": None, "seconds": 1.5}}, True),
        ("trainer/state.json", {**STATE, "progress": {"best": {"step": 1}, "seconds": 9}}, False),
        ("manifest.json", {"trainer/state.json": "a", "model.safetensors": "c"}, True),
        ("manifest.json", {"trainer/state.json": "c", "model.safetensors": "b"}, False),
        ("summary.json", {**SUMMARY, "steps": 3}, True),
        ("summary.json", {**SUMMARY, "figures": {"tokens_sampled": 8}}, True),
        ("summary.json", {**SUMMARY, "minutes": 3, "figures": {"tokens_sampled": 9}}, False),
        ("metrics.jsonl", {"step": 1, "reward": 0.6}, True),
        ("metrics.jsonl", {"step": 1, "reward": 0.5}, False),
    ],
)
def test_a_resumed_run_may_differ_in_times_alone(tmp_path, name, values, is_different):
    (path,) = (path for path in FILES if path.endswith(name))
    first, other = write(tmp_path / "one", {}), write(tmp_path / "other", {path: values})
    actual = benchmark("kill_resume").differences(first, other)
    assert actual == ([path] if is_different else [])


def claimed_run(*points: tuple[int, float, int, float], **figures: float) -> MeasuredRun:
    last = points[-1][0]
    steps = [made_figures({"step": step, **figures}) for step in range(1, last + 1, 2)]
    return MeasuredRun([Point(*at) for at in points], steps)


SLOW = claimed_run((0, 0.0, 0, 0.2), (10, 40.0, 100, 0.4), (20, 80.0, 200, 0.6), entropy=0.5)
FAST = claimed_run((0, 0.0, 0, 0.2), (10, 10.0, 400, 0.6), entropy=0.1)


def test_runs_are_compared_where_all_have_been():
    """By hand: both reach step 10, 10 seconds and 200 tokens."""
    lines = benchmark("claims_report").tables({"slow": [SLOW], "fast": [FAST, FAST]})
    header, _, *arms = lines[:4]
    assert [f"at {end}" in header for end in ("10 steps", "10 seconds", "200 tokens")] == [True] * 3
    assert arms == [
        "| slow | 1 | 0.400 | 0.250 | 0.600 |",
        "| fast | 2 | 0.600 ± 0.000 | 0.600 ± 0.000 | 0.400 ± 0.000 |",
    ]
    assert lines[5].startswith("| arm | steps to 0.2 / 0.3 / 0.4 / 0.6 | seconds to")
    assert lines[7:9] == [
        "| slow | 0 / 5 / 10 / 20 | 0 / 20 / 40 / 80 | 0 / 50 / 100 / 200 |",
        "| fast | 0 / 2 / 5 / 10 | 0 / 2 / 5 / 10 | 0 / 100 / 200 / 400 |",
    ]
    assert lines[10].startswith("| arm | response_length | entropy | sampled_entropy | mixed_share")
    assert lines[12:] == [f"| slow | - | 0.5 {6 * '| - '}|", f"| fast | - | 0.1 {6 * '| - '}|"]


def test_arms_are_paired_by_the_seeds_that_both_have():
    """Seed 1 is the only one of both: 0.6 - 0.4, 0.6 - 0.25 and 0.4 - 0.6 by hand."""
    claims = benchmark("claims_report")
    runs = {"slow": {0: FAST, 1: SLOW}, "fast": {1: FAST, 2: SLOW}}
    ends = dict(zip(AXES, (10, 10.0, 200), strict=True))
    assert claims.differences(runs, ends)[3:] == ["| fast - slow | 1 | 0.200 | 0.350 | -0.200 |"]


def test_what_is_stored_of_a_run_is_read_again():
    report = benchmark("claims_report")
    stored = json.loads(json.dumps(report.kept_figures(SLOW)))
    assert stored["measured"][0] == {"step": 0, "seconds": 0.0, "tokens": 0, "pass@1": 0.2}
    repeated = report.run_of(stored)
    assert repeated.measured == SLOW.measured
    assert [mean_of(run, "entropy", 0, 20) for run in (repeated, SLOW)] == [0.5, 0.5]


def test_an_interval_over_seeds_is_students():
    """0.1, 0.2, 0.3: deviation 0.1, and 4.303 is the quantile of two degrees of freedom."""
    actual = benchmark("claims_report").spread([0.1, 0.2, 0.3])
    assert actual == "0.200 ± 0.248"  # 4.303 * 0.1 / sqrt(3)


def test_the_simulated_coverage_is_that_of_intervals_of_95_percent():
    rng = np.random.default_rng(0)
    simulated = benchmark("interval_coverage")
    assert 0.9 < simulated.single((1.0, 1.0), 100, 4, 400, rng) < 0.99
    better = simulated.paired((1.0, 1.0), (0.1, 1.0), 100, 4, 400, rng)
    assert 0.9 < better.covered < 0.99
    assert 0.3 < better.told < better.told_by_student + 0.05
    assert better.contradictions == 0
    for seeds in (2, 3, 5):
        assert 0.93 < simulated.crossed((1.0, 1.0), 0.3, seeds, 100, 4, 400, rng) < 0.995
    # One problem of twenty is lifted: 0.95^30 = 0.21 of the draws of 30 hold none of them.
    rare = simulated.paired((0.1, 0.4), (1.0, 0.05), 30, 64, 400, rng)
    assert 0.65 < rare.covered_by_student < rare.covered < 0.9


def test_a_step_without_an_update_has_no_entropy():
    history = [{"entropy": 5.0}, {"entropy": 0.2}, *[{"no_update": "no signal"}] * 4]
    steps = [made_figures({**row, "step": step}) for step, row in enumerate(history, 1)]
    run = MeasuredRun([], steps)
    assert mean_of(run, "entropy", 1, 6) == pytest.approx(0.2)
    assert mean_of(run, "entropy", 2, 6) is None


def test_a_run_of_five_minutes_ends_before_the_step_that_would_pass_them():
    """100, 80 and 90 seconds: after 270 another 90 would pass 300."""
    five_minutes = benchmark("five_minutes")
    budget = five_minutes.Budget(300.0)
    budget({"seconds_processor": 100.0}, [])
    budget({"seconds_processor": 80.0}, [])
    with pytest.raises(five_minutes.BudgetSpentError):
        budget({"seconds_processor": 90.0}, [])
    assert (budget.steps, budget.used_s) == (3, 270.0)


def test_recipes_of_five_minutes_are_settings_and_the_best_stands_first(tmp_path):
    five_minutes = benchmark("five_minutes")
    for changes in five_minutes.ARMS.values():
        resolve(set_layer({"algo": "dr_grpo", **changes}))
    (tmp_path / "additions").mkdir()
    for arm, seed, value in (("recipe", 0, 0.4), ("recipe", 1, 0.6), ("lora", 0, 0.7)):
        figure = {"value": value, "interval": [value - 0.1, value + 0.1]}
        row = {"arm": arm, "seed": seed, "steps": 9, "seconds": 290.4, "pass@1": figure}
        (tmp_path / "additions" / f"{arm}-{seed}.json").write_text(json.dumps(row))
    assert five_minutes.table(tmp_path)[2:] == [
        "| additions | lora | 0 | 9 | 290 | 0.700 [0.600, 0.800] | 0.700 |",
        "| additions | recipe | 0, 1 | 9, 9 | 290, 290 | "
        "0.400 [0.300, 0.500], 0.600 [0.500, 0.700] | 0.500 |",
    ]


def test_a_picture_of_a_claim_is_small_and_well_formed():
    drawn = picture({"slow": [SLOW], "fast": [FAST]}, "entropy")
    root = ElementTree.fromstring(drawn)
    assert root.tag.endswith("svg")
    assert len(drawn) < 20_000
    assert drawn.count("<polyline") == 4 * (1 + 2 * 2)  # axes, and two lines an arm


def test_an_arm_of_a_claim_is_a_run_that_can_be_made():
    claims = benchmark("claims")
    stored = {
        path.stem.rpartition("-")[0] for path in claims.PLANS.parents[1].rglob("claims/*.json")
    }
    for claim in claims.CLAIMS:
        assert set(claims.arms_of(claim)) <= stored


def gpu_arguments(**more) -> SimpleNamespace:
    common = {"model": None, "shapes": None, "steps": 2, "set": ["a=1"], "trl_python": "PY"}
    sizes = {"prompts": 32, "samples": 16, "max_tokens": 256, "seconds": 0.0, "out": None}
    return SimpleNamespace(**common | sizes | more)


def test_trl_is_the_last_column_and_takes_the_engine_of_ours(monkeypatch):
    gpu_run = benchmark("gpu_run")
    requested = []

    def measured(column, engine, *_):
        requested.append((column.name, engine))
        return {"engine": f"{column.name}'s", "machine": "a card; torch 9", "step, seconds": 1.5}

    monkeypatch.setattr(gpu_run, "measured", measured)
    monkeypatch.setattr(gpu_run, "write_model", lambda *_: None)
    args = gpu_arguments(shapes=["1.5B", "7B"], seconds=1000.0)
    columns = list(gpu_run.columns_asked(args))
    text = gpu_run.measure(columns, args).splitlines()
    assert [name for name, _ in requested] == ["1.5B", "7B", "1.5B, TRL", "7B, TRL"]
    assert [engine for _, engine in requested[2:]] == ["1.5B's", "7B's"]
    assert text[0] == "### a card"
    assert text[4] == "| | 1.5B | 7B | 1.5B, TRL | 7B, TRL |"
    assert text[6] == "| step, seconds | 1.5 | 1.5 | 1.5 | 1.5 |"
    table = list(gpu_run.columns_of_table(args))
    assert [column.name for column in table][-1] == "0.5B, TRL"
    assert all("a=1" in column.settings for column in table)


def test_a_column_without_time_is_said_to_have_none(tmp_path):
    gpu_run = benchmark("gpu_run")
    out = tmp_path / "table.md"
    args = gpu_arguments(model="tiny", out=out)
    text = gpu_run.measure(list(gpu_run.columns_of_table(args)), args)
    assert text.count("no time was left") == text.splitlines()[4].count("tiny")
    assert out.read_text() == text


@pytest.mark.parametrize(("rows", "most", "passes"), [(512, 32, 16), (48, 32, 2), (35, 32, 5)])
def test_trl_takes_passes_of_one_size(rows, most, passes):
    assert benchmark("trl_step").equal_passes(rows, most) == passes


def test_figures_are_compared_until_a_token_differs():
    """By hand: 1 % of the loss in the second step; the third step is of other tokens."""
    rows = [{"tokens_sampled": 5, "loss": loss, "entropy": 0.5} for loss in (1.0, 2.0)]
    own = [rows[0], {**rows[1], "loss": 2.02}, {"tokens_sampled": 6, "loss": 9.0}]
    others = [*rows, {"tokens_sampled": 7, "loss": 1.0}]
    gap, name, alike = benchmark("gpu_right").furthest(own, others)
    assert (pytest.approx(gap), name, alike) == (0.01, "loss", 2)


def test_the_additions_are_right_and_no_held_out_one_is_trained_on():
    splits = additions.problems()
    sizes = {name: len(rows) for name, rows in splits.items()}
    assert sizes == {"heldout": 96, "train": 1024, "examples": 48}
    for row in (row for rows in splits.values() for row in rows):
        words = row["problem"].replace(".", "").split()
        assert row["answer"] == int(words[1]) + int(words[3])
    requested = {name: {row["problem"] for row in rows} for name, rows in splits.items()}
    assert len(requested["train"] | requested["heldout"]) == 96 + 1024
    assert requested["examples"] <= requested["train"]


def test_the_real_model_is_made_once_and_whole_or_not_at_all(monkeypatch, tmp_path):
    created = []

    def make(work: Path) -> None:
        (work / "model").mkdir()
        created.append(work)
        time.sleep(0.2)
        if len(created) == 1:
            raise OSError("the registry is away")
        (work / "model" / "config.json").write_text("{}")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(smollm, "_make", make)
    with pytest.raises(OSError, match="away"):
        smollm.cached_model()
    with ThreadPoolExecutor(3) as pool:
        actual = {future.result() for future in [pool.submit(smollm.cached_model) for _ in "abc"]}
    assert len(created) == 2
    (directory,) = actual
    assert [path.name for path in directory.iterdir()] == ["config.json"]
    assert {path.name for path in directory.parent.iterdir()} == {
        directory.name,
        f"{directory.name}.lock",
    }
