"""Custom parts of an algorithm by the command line: trained, resumed, forked, refused."""

import hashlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from conftest import invoke, refused
from safetensors.torch import load_file

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.files import MANIFEST, sha256
from rlvr_cli.setup import parts

EXAMPLE = Path(__file__).parents[2] / "examples" / "rlvr-example"
RUN = (
    *("--prompts", 4, "-n", 4, "--max-tokens", 40, "-q", "--algo", "grpo", "--limit", 32),
    *("--set", "eval.limit=0", "--set", "optim.lr=0.001", "--seed", 1),
)
CODE = """
import torch

def standardized(rewards_G, rewards_B, scale=1.0):
    return scale * (rewards_G - rewards_G.mean()) / (rewards_G.std() + 1e-6)

def to_go(rewards, samples):
    return rewards.flip(1).cumsum(1).flip(1) * samples.mask

def clipped(inputs, low=0.2, high=0.2):
    r, a = inputs.ratio, inputs.advantages
    reached = ((r > 1 + high) & (a > 0)) | ((r < 1 - low) & (a < 0))
    return torch.minimum(r * a, r.clamp(1 - low, 1 + high) * a), reached

def third(logprobs, other):
    gap = other - logprobs
    return gap.exp() - gap - 1

def mean_of_means(mask, n):
    return mask / mask.sum(1, keepdim=True).clamp_min(1) / n.responses

def mixed(group):
    return 0 < sum(r.is_correct for r in group.rollouts) < len(group.rollouts)
"""
BUILT_IN = {name for part in parts.PARTS.values() for name in part.table}
REPEATED = {
    "advantage": ("advantage=my.py:standardized", []),
    "surrogate": ("surrogate=my.py:clipped", []),
    "kl": ("kl=my.py:third", []),
    "aggregation": ("aggregation=my.py:mean_of_means", []),
    "filter": ("filter=my.py:mixed", ["filter=mixed"]),
    "token advantage": (
        "advantage=my.py:to_go",
        ["advantage=return", "advantage.gamma=1.0"],
    ),
}
"""A custom function, and the built-in settings that it repeats beyond those of grpo."""


def forget_files() -> None:
    """Forget the user's files that this process has run, and their functions."""
    for part in parts.PARTS.values():
        for name in [*part.table]:
            if name not in BUILT_IN:
                del part.table[name]
    for name in [name for name in sys.modules if name == "my" or name.startswith("user_")]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty directory with the parts in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("my.py").write_text(CODE)
    forget_files()
    yield
    forget_files()


def sets(*texts: str) -> list[str]:
    return [word for text in texts for word in ("--set", f"algorithm.{text}")]


def trained(*args):
    result = invoke("train", *args)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def same_weights(one: str | Path, other: str | Path, step: int = 1) -> bool:
    paths = [Path(run, f"checkpoints/step-{step}/model.safetensors") for run in (one, other)]
    return paths[0].read_bytes() == paths[1].read_bytes()


@pytest.fixture(scope="module")
def built_in_run(tmp_path_factory):
    """A step by built-in parts, once for all tests: its metrics and its weights."""
    steps = {}

    def run(*settings: str):
        if settings not in steps:
            out = tmp_path_factory.mktemp("built-in") / "run"
            (metrics,) = trained(*RUN, *sets(*settings), "--steps", 1, "--out", out)
            steps[settings] = metrics, out
        return steps[settings]

    return run


@pytest.mark.parametrize("name", REPEATED)
def test_what_repeats_a_built_in_part_reaches_its_weights(name, built_in_run):
    """Each function has at most 15 lines."""
    custom, built_in = REPEATED[name]
    extra = sets("advantage.per=token") if name == "token advantage" else []
    (custom_metrics,) = trained(*RUN, *sets(custom), *extra, "--steps", 1, "--out", "custom")
    metrics, run = built_in_run(*built_in)
    assert metrics["no_update"] is None
    assert metrics["grad_norm"] > 0
    assert same_weights("custom", run)
    assert custom_metrics["signal_share"] == metrics["signal_share"]
    assert metrics["signal_share"] < 1 or name in ("filter", "token advantage")


@pytest.mark.parametrize(
    ("body", "has_baseline"),
    [
        ("rewards_G - rewards_G.median()", True),
        ("rewards_G - rewards_B.mean()", False),
        ("rewards_G - rewards_G.mean() - 0.1 * (rewards_G == 0).all()", False),
        ("(rewards_G - rewards_G.mean()) * rewards_B.view(-1, len(rewards_G)).std(1).mean()", True),
    ],
)
def test_an_advantage_has_a_baseline_if_it_is_zero_for_equal_rewards(body, has_baseline):
    Path("my.py").write_text(f"def mine(rewards_G, rewards_B):\n    return {body}\n")
    algo = resolve(set_layer(["algorithm.advantage=my.py:mine"])).algorithm
    parts.load_parts(algo)
    assert algo.advantage.has_baseline is has_baseline


def test_keyword_arguments_are_settings():
    doubled = ("advantage=my.py:standardized", "advantage.scale=2.0")
    result = invoke("train", *RUN[:6], *RUN[7:], *sets(*doubled), "--steps", 1, "--out", "a")
    said = " ".join(result.stderr.split())
    sha = hashlib.sha256(CODE.encode()).hexdigest()[:8]
    assert f"my.py:standardized ({sha}), in the trainer's process, without limits" in said
    stored = yaml.safe_load(Path("a/config.yaml").read_text())["algorithm"]
    assert stored["advantage"]["settings"] == {"scale": 2.0}
    assert list(stored["sources"]) == ["advantage"]
    trained("--resume", "a", *sets(*doubled), "--steps", 2, "-q")
    trained(*RUN, *sets(doubled[0]), "--steps", 1, "--out", "b")
    losses = [
        json.loads(Path(run, "metrics.jsonl").read_text().split("\n")[0])["loss"] for run in "ab"
    ]
    assert losses[0] != losses[1]


def name_kinds_as_before(run: Path, step: int) -> None:
    """Call the kind of custom functions `own` in a run's files, as earlier versions did."""
    for name in ("config.yaml", f"checkpoints/step-{step}/trainer/state.json"):
        text = (run / name).read_text()
        former = re.sub(r"(kind\W+)custom", r"\1own", text)
        assert former != text
        (run / name).write_text(former)
    checkpoint = run / f"checkpoints/step-{step}"
    checksums = json.loads((checkpoint / MANIFEST).read_text())
    checksums["trainer/state.json"] = sha256(checkpoint / "trainer/state.json")
    (checkpoint / MANIFEST).write_text(json.dumps(checksums))


def test_a_resume_asks_for_the_code_and_goes_on_bit_for_bit():
    custom = sets("surrogate=my.py:clipped", "filter=my.py:mixed")
    trained(*RUN, *custom, "--steps", 2, "--out", "whole")
    trained(*RUN, *custom, "--steps", 1, "--out", "a")
    for command in (("--resume", "a"), ("--from", "a"), ("--from", "a", "--algo", "grpo")):
        line = refused("train", *command, "--steps", 2)
        assert "it has code for surrogate and filter, which no directory may have run" in line
        assert "add --set algorithm.surrogate=my.py:clipped --set algorithm.filter=my.py:m" in line
    more = sets("surrogate.high=0.3")
    assert "surrogate.high cannot change" in refused("train", "--resume", "a", *custom, *more)
    name_kinds_as_before(Path("a"), step=1)
    trained("--resume", "a", *custom, "--steps", 2, "-q")
    assert same_weights("whole", "a", step=2)
    trained("--from", "a", *custom, "--steps", 1, "-q", "--out", "b")
    Path("my.py").write_text(CODE + "\n")
    line = refused("train", "--resume", "a", *custom, "--steps", 3)
    assert "not the source that the run began with; put it back" in line
    assert "not the source" in refused(
        "train", *RUN, *custom, *sets("sources.filter=ab"), "--steps", 1
    )
    assert load_file("a/checkpoints/step-2/model.safetensors")
    forget_files()
    assert invoke("show", "a").exit_code == 0
    assert invoke("show", "a", "--explain").exit_code == 0


BAD = {
    "no function": ("surrogate=my.py:nothing", "it has no function nothing"),
    "no file": ("surrogate=other.py:clipped", "no such file"),
    "no module": ("surrogate=no_such_module:f", "ModuleNotFoundError"),
    "no kind": ("surrogate=clop", "cannot be 'clop'; choose from policy_gradient"),
    "no aggregation": ("aggregation=tokens", "FILE.py:NAME, MODULE:NAME or an entry point"),
    "unknown argument": ("surrogate=bad.py:needs", "missing a required argument: 'bound'"),
    "one result": ("surrogate=bad.py:single", "it returned Tensor, not two tensors"),
    "shape": ("aggregation=bad.py:scalar", "its result has the shape [], not [3, 5]"),
    "not finite": ("kl=bad.py:infinite", "its result is not finite"),
    "padding": ("aggregation=bad.py:everywhere", "padding has a weight"),
    "the cut": ("surrogate=bad.py:centered", "another value or gradient alone than in a batch"),
    "no gradient": ("surrogate=bad.py:detached", "no gradient reaches the log-probabilities"),
    "a whim": ("filter=bad.py:tosses", "it returned True and False for one group"),
    "not a bool": ("filter=bad.py:count", "it returned int, not True or False"),
    "an exception": ("filter=bad.py:fails", "line 26: KeyError: 'x'"),
    "an exit": ("filter=bad.py:leaves", "SystemExit: 3"),
    "an endless loop": ("kl=bad.py:endless", "it did not end within 0.5 seconds"),
}
BAD_CODE = """
import sys
import torch
def needs(inputs, bound): return inputs.ratio * inputs.advantages, inputs.no_token
def single(inputs): return inputs.ratio * inputs.advantages
def scalar(mask, n): return mask.sum()
def infinite(logprobs, other): return (logprobs - other) / 0.0
def everywhere(mask, n): return torch.ones_like(mask)
def centered(inputs):
    a = inputs.advantages
    return inputs.ratio * (a - a.mean()), inputs.no_token
def detached(inputs): return inputs.ratio.detach() * inputs.advantages, inputs.no_token
def tosses(group, seen=[]): seen.append(1); return len(seen) % 2 == 0
def count(group): return len(group.rollouts)
def endless(logprobs, other):
    import time
    time.sleep(20)
    return logprobs
def leaves(group): sys.exit(3)
#
#
#
#
#
#
def fails(group): return {}['x']
"""


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_train_is_refused_before_the_first_step(name, monkeypatch):
    monkeypatch.setattr(parts, "TRIAL_SECONDS", 0.5 if name == "an endless loop" else 30)
    Path("bad.py").write_text(BAD_CODE)
    text, message = BAD[name]
    files = set(Path().iterdir())
    started = time.monotonic()
    line = refused("train", *RUN, *sets(text), "--steps", 1)
    assert message in line
    assert f"algorithm.{text.partition('=')[0]}" in line
    assert time.monotonic() - started < 15
    assert {path.name for path in set(Path().iterdir()) - files} <= {"__pycache__"}


def test_an_error_in_a_step_is_one_line_and_loses_nothing():
    Path("late.py").write_text(
        "calls = []\n"
        "def clipped(inputs):\n"
        "    calls.append(1)\n"
        "    if len(calls) > 5: raise ValueError('too late')\n"
        "    return inputs.ratio * inputs.advantages, inputs.no_token\n"
    )
    custom = sets("surrogate=late.py:clipped")
    result = invoke("train", *RUN, *custom, "--steps", 9, "--out", "a")
    assert result.exit_code == 2
    last = result.stderr.splitlines()[-1]
    assert "algorithm.surrogate late.py:clipped: line 4: ValueError: too late" in last
    assert "Traceback" not in result.stderr


def test_the_example_has_one_of_each_by_name(tmp_path, monkeypatch):
    pytest.importorskip("hatchling")
    command = "-m pip install -q --no-deps --no-build-isolation --no-index --target installed"
    subprocess.run([sys.executable, *command.split(), str(EXAMPLE)], check=True)
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    custom = sets(
        "advantage=best_of_group",
        "advantage.margin=0.5",
        "surrogate=quadratic",
        "surrogate.strength=2",
        "kl=absolute",
        "aggregation=root_length",
        "aggregation_settings.power=1.0",
        "filter=not_hopeless",
    )
    (metrics,) = trained(*RUN, *custom, "--steps", 1, "--out", "a")
    assert metrics["no_update"] is None
    assert metrics["clip_fraction"] == 0
    stored = yaml.safe_load(Path("a/config.yaml").read_text())["algorithm"]
    assert set(stored["sources"]) == {"advantage", "surrogate", "kl", "aggregation", "filter"}
    assert stored["surrogate"]["settings"] == {"strength": 2}


def test_no_text_of_another_setting_names_code_of_a_directory():
    """`function: problems.jsonl` of a run is the module problems of the current directory."""
    trained(*RUN, "--steps", 1, "--out", "a")
    settings = yaml.safe_load(Path("a/config.yaml").read_text())
    settings["algorithm"]["surrogate"] = {"kind": "own", "function": "problems.jsonl"}
    Path("a/config.yaml").write_text(yaml.safe_dump(settings))
    Path("problems.py").write_text("raise SystemExit('code ran')")
    Path("problems.jsonl").write_text('{"problem": "1 + 1", "answer": "2"}\n')
    line = refused("train", "problems.jsonl", "--from", "a", "--steps", 1)
    assert "it has code for surrogate, which no directory may have run" in line


def test_null_is_no_repeated_setting():
    trained(*RUN, "--steps", 1, "--out", "a")
    line = refused("train", "--resume", "a", "--set", "algorithm.kl=null", "--steps", 2)
    assert "algorithm.kl cannot change" in line


def test_an_advantage_may_have_whole_numbers_and_a_baseline_of_the_batch():
    Path("ranks.py").write_text("def ranks(g, b): return g.argsort().argsort()")
    trained(*RUN, *sets("advantage=ranks.py:ranks"), "--steps", 1, "--out", "a")
    Path("batch.py").write_text("def mean(g, b): return g - b.mean()")
    (metrics,) = trained(*RUN, *sets("advantage=batch.py:mean"), "--steps", 1, "--out", "b")
    assert metrics["no_update"] is None
