"""The command line in unlucky surroundings: streams closed or full, no memory, no home, a Ctrl-C at
any moment, a stranger's modules beside; and settings that came with a model."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from forked import forked
from strange_models import (
    CODE,
    ESCAPES,
    MARK,
    TINY,
    code,
    config,
    edited,
    model_at,
    weights,
    written,
)

from rlvr_cli.core.text import printable
from rlvr_cli.runs.checkpoint import checkpoints

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ["sample", "What is 1 + 1?", "--max-tokens", "2"]
TRAIN = ["--steps", "1", "--prompts", "2", "-n", "2", "--max-tokens", "2", "--out", "run"]
LIMITS = {"seconds": 40, "megabytes": 3000}
PROBLEMS = "".join(
    json.dumps({"problem": f"What is {n} + 1?", "answer": n + 1}) + "\n" for n in range(3)
)


ROWS = {
    "data.limit": ("data: {limit: 1}", "data.limit"),
    "data.split": ("data: {split: train}", "data.split"),
    "data.source": ("data: {source: gsm8k}", "data.source"),
    "data.skip_bad": ("data: {skip_bad: true}", "data.skip_bad"),
    "data.root": ("data: {root: /etc}", "data.root"),
    "threads": ("threads: 100000", "threads"),
    "engine": ("engine: vllm", "engine"),
    "model": ("model: elsewhere", "model"),
    "steps": ("steps: 7", "steps"),
    "algo": ("algo: ppo", "algo"),
    "rollout.kv_budget_mb": ("rollout: {kv_budget_mb: 100000000}", "rollout.kv_budget_mb"),
    "rollout.mismatch_limit": ("rollout: {mismatch_limit: 100}", "rollout.mismatch_limit"),
    "eval.source": ("eval: {source: x, limit: 1}", "eval.source, eval.limit"),
    "guards": ("guards: {no_signal_steps: 1000000}", "guards.no_signal_steps"),
    "no setting": ('"\\e]0;owned\\a": 1', printable("\x1b]0;owned\x07")),
}


@pytest.mark.parametrize(("text", "name"), ROWS.values(), ids=ROWS)
def test_a_model_does_not_say_what_is_measured(text, name, tmp_path):
    model_at(tmp_path / "m", written("rlvr.yaml", text))
    (tmp_path / "p.jsonl").write_text(PROBLEMS)
    argv = ["eval", "p.jsonl", "--model", "m", "-n", "1", "--max-tokens", "2", "-q"]
    result = forked(argv, tmp_path, **LIMITS)
    assert result.rc == 0, result.err
    assert len(result.out.splitlines()) == 3
    assert f"m/rlvr.yaml: not read: {name};" in result.err
    assert "\x1b" not in result.err


SAID = {
    "temperature": ("eval: {temperature: 0.5}", "settings .*m/rlvr.yaml: eval.temperature 0.5"),
    "verifier": ("data: {answer_format: any}", "settings .*data.answer_format 'any'"),
    "prompt by name": ("data: {prompt: boxed}", "settings .*data.prompt 'boxed'"),
    "prompt by text": ("data: {prompt: 'Q {problem}'}", "settings .*data.prompt 'Q {problem}'"),
    "seed": ("seed: 3", "settings .*seed 3"),
}


@pytest.mark.parametrize(("text", "message"), SAID.values(), ids=SAID)
def test_what_comes_from_a_model_is_said(text, message, tmp_path):
    model_at(tmp_path / "m", written("rlvr.yaml", text))
    result = forked([*SAMPLE, "--model", "m"], tmp_path, **LIMITS)
    assert result.rc == 0, result.err
    assert re.search(message, result.err), result.err


REFUSED = {
    "prompt is a file": ("data: {prompt: secret}", "no other file is read for a model"),
    "prompt is a path": ("data: {prompt: /etc/passwd}", "no other file is read for a model"),
    "prompt is a list": ("data: {prompt: [1]}", "data.prompt"),
    "data is a text": ("data: everything", "data is a section"),
    "temperature is a text": ("eval: {temperature: hot}", "eval.temperature"),
    "temperature is endless": ("eval: {temperature: .inf}", "eval.temperature"),
    "seed is huge": (f"seed: {2**80}", "seed"),
    "verifier unknown": ("data: {answer_format: evil}", "data.answer_format"),
    "a list": ("[1]", "a mapping of settings is expected"),
    "a tag": ("!!python/object/apply:os.system ['touch " + MARK + "']", "not valid YAML"),
    "escapes": (f'data: {{answer_format: "{ESCAPES}"}}', "rlvr.yaml"),
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_settings_of_a_model_that_cannot_be(text, reason, tmp_path):
    model_at(tmp_path / "m", written("rlvr.yaml", text))
    (tmp_path / "secret").write_text("my secret {problem}")
    result = forked([*SAMPLE, "--model", "m"], tmp_path, **LIMITS)
    assert result.rc == 2
    assert result.out == ""
    assert "my secret" not in result.err
    assert re.search(f"rlvr: error: .*{reason}", result.err), result.err
    assert not (tmp_path / MARK).exists()


CODE_BY_DATA = {
    "train": ["train", "-", "--limit", "1", *TRAIN],
    "sample": ["sample", "-", "--limit", "1", "--max-tokens", "2"],
    "eval": ["eval", "-", "--limit", "1", "-n", "1", "--max-tokens", "2"],
}


@pytest.mark.parametrize("argv", CODE_BY_DATA.values(), ids=CODE_BY_DATA)
def test_a_line_of_the_data_is_no_consent(argv, tmp_path):
    everything = {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}
    model_at(tmp_path / "m", code("evil.py"), config(model_type="evil", auto_map=everything))
    (tmp_path / "in").write_text(PROBLEMS + "y\n" * 1000)
    result = forked(
        [*argv, "--model", "m", "--skip-bad"], tmp_path, stdin=tmp_path / "in", **LIMITS
    )
    assert result.rc == 2
    assert result.out == ""
    assert not list(tmp_path.rglob(MARK))
    assert "custom code" in result.err.splitlines()[-1]


def test_a_published_model_is_trained_and_its_checkpoint_is_whole(tmp_path):
    published = edited("generation_config.json", temperature=0.6, top_p=0.9, num_beams=3)
    model_at(tmp_path / "m", published, config(temperature=0.3))
    (tmp_path / "p.jsonl").write_text(PROBLEMS)
    (tmp_path / "ask.txt").write_text("Say {problem}\n")
    argv = ["train", "p.jsonl", "--model", "m", *TRAIN, "--set", "data.prompt=ask.txt"]
    result = forked([*argv, "--algo", "grpo"], tmp_path, **LIMITS)
    assert result.rc == 0, result.err
    checkpoint = tmp_path / "run" / "checkpoints" / "step-1"
    retained = yaml.safe_load((checkpoint / "rlvr.yaml").read_text())
    requested = {"prompt": "Say {problem}", "system": None, "chat": {}, "answer_format": "any"}
    assert retained["data"] == requested
    (tmp_path / "ask.txt").unlink()
    sampled = forked([*SAMPLE, "--model", "run"], tmp_path, **LIMITS)
    assert sampled.rc == 0, sampled.err
    assert "Say What is 1 + 1?" in json.loads(sampled.out)["prompt"]
    more = forked(["train", "--resume", "run", "--steps", "2"], tmp_path, **LIMITS)
    assert more.rc == 0, more.err
    assert [actual.step for actual in checkpoints(tmp_path / "run")] == [2, 1]

    newest = tmp_path / "run" / "checkpoints" / "step-2"
    (newest / "model.safetensors").unlink()
    weights(lambda ts: {f"x.{key}": value for key, value in ts.items()})(_linked(newest))
    manifest = json.loads((newest / "manifest.json").read_text())
    manifest["model.safetensors"] = _sha256(newest / "model.safetensors")
    (newest / "manifest.json").write_text(json.dumps(manifest))
    repeated = forked(["train", "--resume", "run", "--steps", "3"], tmp_path, **LIMITS)
    assert repeated.rc == 0, repeated.err
    (damaged,) = [line for line in repeated.err.splitlines() if "step-2 is damaged" in line]
    assert "weights are missing" in damaged
    assert "from the end of step 1" in repeated.err


def test_no_secret_and_no_place_of_this_machine_is_in_what_is_written(tmp_path):
    names = ("HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "USER", "HOME")
    private = {name: f"/private-{name}" for name in names}
    (tmp_path / "p.jsonl").write_text(PROBLEMS)
    measure = ["eval", "p.jsonl", "--model", "run", "-n", "1", "--max-tokens", "2", "--out", "out"]
    for argv in (["train", "p.jsonl", "--algo", "grpo", *TRAIN], measure):
        result = forked(argv, tmp_path, environment=private, **LIMITS)
        assert result.rc == 0, result.err
    files = [path for name in ("run", "out") for path in (tmp_path / name).rglob("*")]
    written = b"".join(path.read_bytes() for path in files if path.is_file())
    assert b"p.jsonl" in written
    for text in (*private.values(), str(tmp_path)):
        assert text.encode() not in written, text


def _linked(directory: Path) -> Path:
    (directory / "model.safetensors").symlink_to(TINY / "model.safetensors")
    return directory


def _sha256(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


CLOSED = [[0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]]
READS = {
    "sample": [*SAMPLE, "--out", "o.jsonl"],
    "eval -": ["eval", "-", "-n", "1"],
    "eval --responses -": ["eval", "--responses", "-"],
    "eval --list": ["eval", "--list"],
}


@pytest.mark.parametrize("closed", CLOSED, ids=str)
@pytest.mark.parametrize("argv", READS.values(), ids=READS)
def test_closed_streams(argv, closed, tmp_path):
    result = forked(argv, tmp_path, closed=closed, **LIMITS)
    assert result.rc == (2 if "-" in argv else 0), result.err
    assert "Traceback" not in result.err
    if 2 not in closed and "-" in argv:
        assert result.err.splitlines()[-1].startswith("rlvr: error: ")


SURROUNDINGS = {
    "full stdout": (SAMPLE, {"stdout": "/dev/full"}, 2),
    "full stdout, eval --list": (["eval", "--list"], {"stdout": "/dev/full"}, 2),
    "full stdout, train --list": (["train", "--list"], {"stdout": "/dev/full"}, 2),
    "no home": (SAMPLE, {"environment": {"HOME": "/proc/none", "HF_HOME": "/proc/none"}}, 0),
    "no colour": (SAMPLE, {"environment": {"NO_COLOR": "1", "TERM": "dumb"}}, 0),
    "a strange language": (SAMPLE, {"environment": {"LC_ALL": "xx", "LANG": "C"}}, 0),
    "no memory": (SAMPLE, {"megabytes": 4}, 2),
    "no memory to train": (["train", "--steps", "1", "--out", "run"], {"megabytes": 4}, 2),
    "hardly memory": (SAMPLE, {"megabytes": 16}, None),
    "no memory to read": (["eval", "large.jsonl"], {"megabytes": 150}, 2),
    "no directory for details": (SAMPLE, {"environment": {"TMPDIR": "/proc"}, "megabytes": 4}, 2),
    "a seed too large": ([*SAMPLE, "--seed", str(2**80)], {}, 2),
    "threads without number": ([*SAMPLE, "--set", "threads=100000"], {}, 2),
    "a model's name too long": ([*SAMPLE, "--model", "x" * 5000], {}, 2),
    "a model's name obeyed": ([*SAMPLE, "--model", ESCAPES], {}, 2),
    "a directory's name obeyed": ([*SAMPLE, "--model", f"./{ESCAPES}"], {}, 2),
    "an unknown option": (["sample", f"--{ESCAPES}"], {}, 2),
    "an unknown command": ([ESCAPES], {}, 2),
}


@pytest.mark.parametrize(("argv", "options", "rc"), SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_surroundings(argv, options, rc, tmp_path):
    with (tmp_path / "large.jsonl").open("wb") as file:
        file.truncate(200 << 20)
    result = forked(argv, tmp_path, **LIMITS | options)
    assert "Traceback" not in result.err, result.err
    assert "\x1b" not in result.err
    assert result.rc == rc if rc is not None else result.rc in (0, 2), result
    if result.rc == 2:
        assert result.err.splitlines()[-1].startswith("rlvr: error: ")


@pytest.mark.parametrize("wait", [0, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0])
def test_a_ctrl_c_at_any_moment(wait, tmp_path):
    process = _started("rlvr_cli", tmp_path, *SAMPLE, "-n", "500")
    _await_program(process)
    time.sleep(wait)
    assert "Traceback" not in _interrupted(process)


@pytest.mark.parametrize("wait", [0, 0.02, 0.1, 0.3, 1.0])
def test_a_ctrl_c_while_the_verifiers_are_imported(wait, tmp_path):
    process = _started("verifiers", tmp_path)
    _await_program(process)
    time.sleep(wait)
    assert _interrupted(process) == ""


def test_a_ctrl_c_while_the_verifiers_wait(tmp_path):
    process = _started("verifiers", tmp_path)
    process.stdin.write(b"{\n")
    process.stdin.flush()
    assert process.stderr.readline().startswith(b"verifiers: line 1: ")
    assert _interrupted(process) == ""


def _started(module: str, cwd: Path, *argv: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *argv],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _await_program(process: subprocess.Popen[bytes]) -> None:
    """Wait until Python, whose own start has a handler of its own, has begun with our program; on a
    busy machine that moment may be missed, and a later one has to do."""
    pythons_own = False
    end = time.monotonic() + 20
    while time.monotonic() < end:
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> (signal.SIGINT - 1) & 1
        if pythons_own and not caught:
            return
        pythons_own = pythons_own or bool(caught)


def _interrupted(process: subprocess.Popen[bytes]) -> str:
    """Send a Ctrl-C; what the process says on stderr."""
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (-signal.SIGINT, 130), errors
    return errors.decode()


def test_modules_beside_are_not_imported(tmp_path):
    for name in ("json", "argparse", "torch", "typer", "yaml", "verifiers", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(CODE)
    (tmp_path / "startup.py").write_text(CODE)
    row = json.dumps({"answer": "1", "response": "1"})
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSTARTUP": "startup.py"}
    for argv in (
        ["-c", "import sys; from rlvr_cli.__main__ import main; main()", "eval", "--list"],
        ["-m", "verifiers"],
    ):
        result = subprocess.run(
            [sys.executable, "-P", *argv],
            input=row,
            text=True,
            capture_output=True,
            cwd=tmp_path,
            env=environment,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        assert result.stdout
    assert not (tmp_path / MARK).exists()


VERIFY = {
    "closed stdin": ("<&-", 0, ""),
    "nobody reads": ("< rows | head -1", 0, ""),
    "full disk": ("< rows > /dev/full", 2, "No space left"),
    "closed stdout": ("< rows >&-", 0, ""),
    "many bad lines": ("< bad", 2, "1000 lines could not be used, the first 5 are named above"),
    "too many workers": ("--workers 100000 < rows", 2, "from 1 to 256"),
    "a deep line": ("< deep", 2, "line 1: "),
}


@pytest.mark.parametrize(("rest", "rc", "message"), VERIFY.values(), ids=VERIFY)
def test_the_verifiers_alone(rest, rc, message, tmp_path):
    row = json.dumps({"answer": "1", "response": "1"}) + "\n"
    (tmp_path / "rows").write_text(row * 5000)
    (tmp_path / "bad").write_text("{\n" * 1000)
    (tmp_path / "deep").write_text('{"answer": 1, "response": 1, "id": ' + "[" * 100_000 + "\n")
    result = subprocess.run(
        f'"{sys.executable}" -P -m verifiers {rest}',
        shell=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert result.returncode == rc
    assert "Traceback" not in result.stderr
    assert message in result.stderr
    assert len(result.stderr.splitlines()) <= 7
