"""What the published figures and the claim of an exact resume rest on."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import util
from pathlib import Path
from types import ModuleType

import additions
import pytest
import smollm

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
    one, other = write(tmp_path / "one", {}), write(tmp_path / "other", {path: values})
    found = benchmark("kill_resume").differences(one, other)
    assert found == ([path] if is_different else [])


def test_a_step_without_an_update_has_no_entropy():
    history = [{"entropy": 5.0}, *[{"entropy": 0.2}, {"no_update": "no signal"}] * 5]
    assert benchmark("ladder").last_entropy(history) == pytest.approx(0.2)


def test_the_additions_are_right_and_no_held_out_one_is_trained_on():
    splits = additions.problems()
    assert {name: len(rows) for name, rows in splits.items()} == {"heldout": 96, "train": 1024}
    for row in (row for rows in splits.values() for row in rows):
        words = row["problem"].replace(".", "").split()
        assert row["answer"] == int(words[1]) + int(words[3])
    train, held_out = ({row["problem"] for row in rows} for rows in splits.values())
    assert len(train | held_out) == 96 + 1024


def test_the_real_model_is_made_once_and_whole_or_not_at_all(monkeypatch, tmp_path):
    made = []

    def make(work: Path) -> None:
        (work / "model").mkdir()
        made.append(work)
        time.sleep(0.2)
        if len(made) == 1:
            raise OSError("the registry is away")
        (work / "model" / "config.json").write_text("{}")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(smollm, "_make", make)
    with pytest.raises(OSError, match="away"):
        smollm.cached_model()
    with ThreadPoolExecutor(3) as pool:
        found = {future.result() for future in [pool.submit(smollm.cached_model) for _ in "abc"]}
    assert len(made) == 2
    (directory,) = found
    assert [path.name for path in directory.iterdir()] == ["config.json"]
    assert {path.name for path in directory.parent.iterdir()} == {
        directory.name,
        f"{directory.name}.lock",
    }
