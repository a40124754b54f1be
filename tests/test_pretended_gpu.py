"""A training step on a pretended GPU: every way to train that only a GPU takes by default, once.

No operator mixes devices, no update asks for attention that is written out, the CPU waits for the
GPU as often as the table says; and the pretended GPU refuses what a real one would.
"""

import inspect
import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import gpu_right
import pytest
import torch
from conftest import quantizes
from forked import forked
from pretended_gpu import GPU, NAME, Mode, on_pretended_gpu
from small_models import save_small_model

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.model.adapter import add_adapter, merged_parameters
from rlvr_cli.model.loading import load_model
from rlvr_cli.model.packing import runs_fit
from rlvr_cli.model.policy import Policy, shard_module
from rlvr_cli.model.settings import OptimConfig
from rlvr_cli.rollout.engines import hf_engine
from rlvr_cli.rollout.engines.vllm_engine import VllmEngine
from rlvr_cli.setup.plan import plan_for
from rlvr_cli.training import scoring, update
from verifiers import Verdict, Verification, Verifier

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="a GPU is here: ask it by benchmarks/gpu_run.py right"
)
STEP = (
    "train",
    "--engine",
    "transformers",
    "--limit",
    "8",
    "-q",
    "--out",
    "run",
    "--prompts",
    "2",
    "-n",
    "4",
    "--max-tokens",
    "8",
    "--set",
    "optim.compile=off",
    "--set",
    "eval.limit=0",
    "--set",
    "optim.micro_tokens=60",
)
"""Two prompts of four responses of eight tokens, a prompt a forward pass."""
CRITIC = "algorithm.advantage.critic"
TURING = (7, 5)
CARDS = {TURING: "float16", (8, 0): "bfloat16", (8, 9): "bfloat16", (9, 0): "bfloat16"}
"""The 16 bits of a compute capability: those of a T4, A100, L4 and H100."""
FLOAT32 = ("--set", "optim.precision=float32", "--set", "rollout.precision=float32")


class Kind(NamedTuple):
    """A way to train, and how often the CPU waits for the GPU in each phase of its step."""

    options: str
    rollout: int
    logprobs: int
    update: int
    sync: int = 2


KINDS = {
    "dapo": Kind("--algo dapo", 13, 2, 7),
    "grpo": Kind("--algo grpo", 13, 3, 4),
    "ppo": Kind(f"--algo ppo --set {CRITIC}.warmup=0", 13, 4, 5),
    "ppo-shared": Kind(f"--algo ppo --set {CRITIC}.warmup=0 --set {CRITIC}.kind=shared", 13, 4, 5),
    "lora": Kind("--algo dapo --lora 2", 13, 2, 7),
    "opd": Kind("--algo opd --teacher teacher", 13, 3, 7),
    "weights": Kind("--algo dapo --set optim.weights=bfloat16", 13, 2, 7),
    "8 bits": Kind("--set optim.weights=bfloat16 --set optim.moments=8bit", 13, 2, 7),
    "offload": Kind("--algo grpo --set optim.offload=all", 13, 107, 161, 28),
    "recompute": Kind("--algo dapo --set optim.checkpointing=on", 13, 2, 7),
}
"""One of a decoded token, a token late, and 5 more; one of a model for log-probabilities; one of an
optimizer step and 2 of what is kept of the responses; one at the end of every phase. With weights
on the CPU more than one a parameter and pass, which is what it costs."""
SLOW = ("ppo-shared", "weights", "recompute")
"""Their waits are those of `ppo` and of `dapo`, and only `make test-all` counts them."""


def needs(name: str) -> list[pytest.MarkDecorator]:
    """Return the mark of a way to train that needs bitsandbytes."""
    return [quantizes] if "bit" in name else []


FAULTS = {
    "a column that is not sent": (
        update.Updater,
        "objective",
        "gap * batch.is_fresh",
        "gap * batch.samples.is_fresh[batch.rows, : gap.shape[1]]",
        "aten.mul.Tensor",
    ),
    "seeds on the CPU": (
        hf_engine.TransformersEngine,
        "_decode",
        "torch.tensor(row_seeds, device=device)",
        "torch.tensor(row_seeds)",
        "aten.mul.Tensor",
    ),
    "a GPU's index into a CPU's tensor": (
        update.Updater,
        "update",
        "zeros_like(samples.token_figures, device=self.policy.device)",
        "zeros_like(samples.token_figures)",
        "aten.index_put_.default",
    ),
    "a GPU's numbers into a CPU's columns": (
        scoring.Scorer,
        "score",
        "dtype=self.policy.sum_dtype, device=device",
        "dtype=self.policy.sum_dtype",
        "aten.index_put_.default",
    ),
}
"""Where a line is, the line, the faulty one, and the operator that a GPU then refuses."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two random models of two layers, `policy` and `teacher`, with the built-in tokenizer."""
    place = tmp_path_factory.mktemp("models")
    for seed, name in enumerate(("policy", "teacher")):
        save_small_model(place / name, seed)
    return place


@pytest.fixture(autouse=True)
def _judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other response is right, so that every group is mixed."""

    def verify_many(self, attempts):
        verdicts = [Verdict.WRONG, Verdict.CORRECT] * len(attempts)
        return [Verification(v, None, True, "") for v in verdicts[: len(attempts)]]

    monkeypatch.setattr(Verifier, "verify_many", verify_many)


def command(place: Path, models: Path, *options: str) -> list[str]:
    (place / "teacher").symlink_to(models / "teacher")
    return [*STEP, "--model", str(models / "policy"), *options]


def metrics(place: Path) -> list[dict]:
    return [json.loads(line) for line in (place / "run" / "metrics.jsonl").open()]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[*([pytest.mark.slow] if name in SLOW else []), *needs(name)])
        for name in KINDS
    ],
)
def test_a_step_mixes_no_devices_and_waits_as_often_as_stated(name, models, tmp_path):
    kind = KINDS[name]
    options = command(tmp_path, models, "--steps", "1", *kind.options.split())
    result, report = on_pretended_gpu(tmp_path, *options)
    assert (result.rc, report.mixed) == (0, []), result.err
    arguments = {kernel for phase, kernel in report.kernels if phase in ("logprobs", "update")}
    assert arguments == {"varlen", "varlen backward"}
    for phase in ("rollout", "logprobs", "update", "sync"):
        waits = report.waited(phase)
        assert sum(waits.values()) <= getattr(kind, phase), (phase, waits)
    (row,) = metrics(tmp_path)
    assert (row["no_update"], row["updates_skipped"]) == (None, 0)
    assert row["grad_norm"] > 0
    assert row["mismatch"] < 0.02  # nats: what bfloat16 rounds


def test_float32_on_a_gpu_gives_the_figures_of_a_cpu(models, tmp_path):
    """Decoding through modules, chunks of many rows, and the fused AdamW, which no CPU takes."""
    on_gpu, on_cpu = tmp_path / "gpu", tmp_path / "cpu"
    options = ("--steps", "3", "--algo", "grpo", "--lr", "0.01", *FLOAT32)
    for place in (on_gpu, on_cpu):
        place.mkdir()
    result, report = on_pretended_gpu(on_gpu, *command(on_gpu, models, *options))
    assert (result.rc, report.mixed) == (0, []), result.err
    assert forked(command(on_cpu, models, *options), on_cpu).rc == 0
    for actual, expected in zip(metrics(on_gpu), metrics(on_cpu), strict=True):
        assert actual["tokens_sampled"] == expected["tokens_sampled"]
        for figure in ("loss", "grad_norm", "entropy", "ref_kl"):
            assert actual[figure] == pytest.approx(expected[figure], rel=1e-5, abs=1e-8), figure
    assert expected["ref_kl"] > 1e-4


OFFLOADED = ("--lora", "2", "--set", "optim.offload=all")


@pytest.mark.parametrize("options", [(), pytest.param(OFFLOADED, marks=pytest.mark.slow)])
def test_a_card_without_bfloat16_trains_in_float16(options, models, tmp_path):
    command_line = command(tmp_path, models, "--steps", "1", "--algo", "grpo", *options)
    result, report = on_pretended_gpu(tmp_path, *command_line, capability=TURING)
    assert (result.rc, report.mixed) == (0, []), result.err
    assert not {kernel for _, kernel in report.kernels if kernel.startswith("varlen")}
    (row,) = metrics(tmp_path)
    assert (row["no_update"], row["updates_skipped"]) == (None, 0)
    assert row["overflows"] <= 1  # of a random model, whose gradients are steep
    assert row["grad_norm"] > 0
    assert row["mismatch"] < 0.003  # nats: an eighth of what bfloat16 rounds
    assert "bfloat16" not in (tmp_path / "run" / "config.yaml").read_text()


def test_what_is_said_before_a_run_promises_no_bfloat16(models, tmp_path):
    said = []
    check = [part for part in command(tmp_path, models, "--check") if part != "-q"]
    for words in (["doctor"], check):
        result, _ = on_pretended_gpu(tmp_path, *words, capability=TURING)
        assert result.rc == 0, result.err
        said.append(" ".join(f"{result.out} {result.err}".split()))
    assert f"1 x {NAME} (compute capability 7.5), 80 GiB each; computes in float16" in said[0]
    assert (
        "numbers the trainer computes in float16, with weights in float32; the engine in float16"
    ) in said[1]
    assert "bfloat16" not in " ".join(said)


def test_a_card_that_torch_has_no_kernels_for_is_refused_in_a_line(models, tmp_path):
    train = command(tmp_path, models)
    for words in (["doctor"], [*train, "--check"], train):
        result, _ = on_pretended_gpu(tmp_path, *words, capability=(7, 0))
        assert result.rc == 2
        (line,) = result.err.splitlines()
        assert f"{NAME} (compute capability 7.0): torch {torch.__version__} has no kernels" in line
        assert "for CUDA 12.6" in line
        assert not (tmp_path / "run").exists()


def test_each_card_gets_its_type_and_its_attention(tmp_path):
    """The problems are not read: what is chosen depends on the card."""

    def program() -> int:
        problems = ProblemSet("set", (), "plain")
        config = resolve(set_layer(["engine=transformers"]))
        for capability, half in CARDS.items():
            Mode.current.capability = capability
            selected = plan_for(config, problems).config
            types = (selected.optim.precision, selected.optim.weights, selected.rollout.precision)
            assert types == (half, "float32", half)
            query = torch.zeros(1, 2, 3, 64, dtype=getattr(torch, half), device=GPU)
            assert runs_fit(query) == (half == "bfloat16")
        return 0

    result, _ = on_pretended_gpu(tmp_path, program=program)
    assert result.rc == 0, result.err


def plant(monkeypatch: pytest.MonkeyPatch, owner: type | ModuleType, name: str, *change: str):
    """Replace a line of a function by a faulty one."""
    function = inspect.unwrap(getattr(owner, name))
    source = textwrap.dedent(inspect.getsource(function))
    line, faulty = change
    assert source.count(line) == 1, f"{name} has no line {line!r} any more: plant another fault"
    created = {}
    exec(source.replace(line, faulty), function.__globals__, created)
    monkeypatch.setattr(owner, name, created[name])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refused_with_its_operator(fault, models, tmp_path, monkeypatch):
    owner, name, line, faulty, operator = FAULTS[fault]
    plant(monkeypatch, owner, name, line, faulty)
    options = command(tmp_path, models, "--steps", "1", "--algo", "dapo")
    result, report = on_pretended_gpu(tmp_path, *options)
    assert result.rc != 0
    assert len(report.mixed) == 1
    assert f"[{operator}: " in report.mixed[0]


def test_the_check_of_a_cards_kernels_runs(tmp_path):
    def program() -> int:
        assert gpu_right.product_error() < 1e-3
        assert max(gpu_right.varlen_errors()) < gpu_right.ERROR_LIMIT
        return 0

    result, report = on_pretended_gpu(tmp_path, program=program)
    assert (result.rc, report.mixed) == (0, []), result.err


class PushedTo:
    """Stands for vLLM: keeps what is pushed, as it is when it comes."""

    def __init__(self, directory: str, **settings: object) -> None:
        self.settings = settings
        self.pushed = {}
        self.calls = []
        self.model_config = SimpleNamespace(max_model_len=128)

    def apply_model(self, function: Callable) -> list:
        own = SimpleNamespace(load_weights=lambda weights: set(), named_parameters=list)
        return [function(own)]

    def collective_rpc(self, name: str, kwargs: dict) -> None:
        self.pushed = {name: tensor.clone() for name, tensor in kwargs["weights_iterator"]}

    def reset_prefix_cache(self) -> bool:
        return True

    def sleep(self, level: int) -> None:
        self.calls.append(level)

    def wake_up(self, tags: list[str]) -> None:
        self.calls.append(tags)


@pytest.mark.parametrize("rank", [None, 2])
def test_weights_are_pushed_to_vllm_without_a_wait(rank, models, tmp_path, monkeypatch):
    """From slices in float32, and with an adapter merged."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=PushedTo))

    def program() -> int:
        model = load_model(str(models / "policy")).model
        optim = OptimConfig(precision="bfloat16")
        engine = VllmEngine(model, 275, (257,), 1024, 0.5, "bfloat16")
        if rank:
            add_adapter(model, rank, 4, "all-linear", seed=0)
        shard_module(Policy(model, 275, 1.0), optim)
        Mode.current.report.phase = "push"
        engine.sleep()
        engine.sync_weights(merged_parameters(model))
        engine.wake()
        Mode.current.report.phase = ""
        assert engine.llm.calls == [2, ["weights"], ["kv_cache"]]
        own = load_model(str(models / "policy")).model.named_parameters()
        for name, weight in own:
            pushed = engine.llm.pushed.pop(name)
            assert pushed.device == GPU
            assert torch.equal(pushed, weight), name
        assert not engine.llm.pushed
        return 0

    result, report = on_pretended_gpu(tmp_path, program=program)
    assert (result.rc, report.mixed) == (0, []), result.err
    assert report.waited("push") == {}
