"""What `rlvr train` does around a run: checks, what it says, and going on."""

import json
import re

import pytest
from conftest import jsonl

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.console.display import Display, print_step
from rlvr_cli.core.errors import Finding, UserError
from rlvr_cli.core.files import MANIFEST, sha256
from rlvr_cli.program import train as module
from rlvr_cli.program.resolve import load_again
from rlvr_cli.program.train import resume, start_run
from rlvr_cli.runs.checkpoint import checkpoints
from rlvr_cli.runs.preflight import settle

PROBLEMS = jsonl(*({"problem": f"What is {n} + 1?", "answer": n + 1} for n in range(3)))
QUICK = ("rollout.prompts=2", "rollout.samples=2", "rollout.max_tokens=3", "eval.limit=0")


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """A short run on three problems, whose probe is left out."""
    (tmp_path / "problems.jsonl").write_text(PROBLEMS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "preflight", lambda *args: None)

    def make(*settings: str):
        base = ("algo=grpo", "steps=2", "threads=1", "data.source=problems.jsonl", *QUICK)
        return resolve(set_layer([*base, *settings]))

    return make


def lines(capsys) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().err.splitlines()]


def test_what_is_going_to_happen_is_said_and_a_check_writes_nothing(configured, tmp_path, capsys):
    start_run(
        configured("algorithm.surrogate.high=0.3"), tmp_path / "out", Display(), check_only=True
    )
    message = lines(capsys)
    assert message[0].startswith("model tiny: ")
    assert message[1].startswith("Qwen2ForCausalLM: ")
    assert message[2].startswith("versions torch ")
    assert message[3] == (
        "problems 3 of problems.jsonl; 0 held out; problem from problem, answer from answer"
    )
    assert message[4] == "algorithm grpo; changed: surrogate.high 0.2 -> 0.3"
    assert "one update a batch: every ratio is 1, so clip is policy_gradient" in message[6]
    takes = "takes 2 steps of 2 problems x 2 responses of at most 3 tokens; "
    assert message[7].startswith(takes)
    assert re.fullmatch(r"\d+\.\d of \d+\.\d GiB", message[7].removeprefix(takes))
    assert message[8].startswith("optimizer temperature 1; 1 update a step, learning rate ")
    assert message[9:] == ["check nothing stands in the way of this run"]
    assert not (tmp_path / "out").exists()


def test_problems_that_are_also_held_out_are_counted(configured, tmp_path, capsys):
    held_out = tmp_path / "held_out.jsonl"
    held_out.write_text(PROBLEMS.splitlines(True)[0] + jsonl({"problem": "new", "answer": 1}))
    config = configured(f"eval.source={held_out}", "eval.limit=5")
    start_run(config, tmp_path / "out", Display(), check_only=True)
    message = "\n".join(lines(capsys))
    assert "warning 1 of 2 held-out problems are also trained on" in message
    assert "3 of problems.jsonl; 2 held out" in message


def test_a_finding_that_is_an_error_ends_it_and_others_are_said(
    configured, tmp_path, monkeypatch, capsys
):
    def preflight(session, prompts, strict, display):
        settle([("label", "text")], [Finding("so so")], display)
        settle([], [Finding("bad", is_error=True), Finding("fair")], display)
        raise AssertionError

    monkeypatch.setattr(module, "preflight", preflight)
    with pytest.raises(UserError, match=r"^bad$"):
        start_run(configured(), tmp_path / "out", Display())
    message = lines(capsys)
    assert [line.split()[0] for line in message[:4]] == ["model", "problems", "algorithm", "takes"]
    assert message[4:] == ["warning so so", "warning fair"]
    assert not (tmp_path / "out").exists()


def test_a_run_is_made_longer_and_never_shorter(configured, tmp_path, capsys):
    run = tmp_path / "run"
    start_run(configured(), run, Display())
    with pytest.raises(UserError, match="exists already"):
        start_run(configured(), run, Display())
    with pytest.raises(UserError, match=r"2 steps are done, more than the 1 asked for"):
        resume(load_again(run, {"steps": 1}, None), run, Display())
    capsys.readouterr()
    resume(load_again(run, {"steps": 3}, None), run, Display(), on_step=print_step)
    out, err = capsys.readouterr()
    assert re.search(r"resume +\S+: from the end of step 2\n", err)
    assert [json.loads(line)["step"] for line in out.splitlines()] == [3]
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 3
    assert "steps: 3" in (run / "config.yaml").read_text()
    assert [item.step for item in checkpoints(run)] == [3, 2]


def test_a_state_that_cannot_be_read_is_passed_over(configured, tmp_path, capsys):
    run = tmp_path / "run"
    start_run(configured(), run, Display())
    newest = checkpoints(run)[0].path
    state = newest / "trainer/state.safetensors"
    state.write_bytes(b"none")
    manifest = json.loads((newest / MANIFEST).read_text())
    manifest["trainer/state.safetensors"] = sha256(state)
    (newest / MANIFEST).write_text(json.dumps(manifest))
    capsys.readouterr()
    resume(load_again(run, {}, None), run, Display())
    message = capsys.readouterr().err
    assert message.count("step-2 is damaged: it cannot be read (SafetensorError: ") == 1
    assert "from the end of step 1" in message
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 2
    assert checkpoints(run)[0].integrity_error() is None
