"""Compiled functions, and the way back; with torch's own compiler the numbers are the same."""

import shutil

import pytest
import torch
from families import VOCAB
from small_models import random_model
from small_samples import Row, samples_of

from rlvr_cli.model import compiling
from rlvr_cli.model.compiling import compiled
from rlvr_cli.model.forward import PACKED, Forward
from rlvr_cli.model.policy import Policy, compile_passes, recompute
from rlvr_cli.training.batch import micro_batches

NO_COMPILER = shutil.which("g++") is None and shutil.which("clang++") is None
PADDED = Forward(packed=False, attention="eager", plain_head=True)


@pytest.fixture(autouse=True)
def failures(monkeypatch):
    monkeypatch.setattr(compiling, "_failures", [])
    return compiling


def figures(policy: Policy, length: int):
    """Log-probabilities and gradients of responses of this length, three to two prompts."""
    rows = [Row([2, 3, 4], [5, 6, *[7] * length]), Row([8], [9] * length), Row([2, 3, 4], [4])]
    (batch,) = micro_batches(policy, samples_of(rows), range(3), 10_000)
    actual = policy(batch.inputs, entropy_gradient=True)
    (actual.logprobs + actual.entropy).sum().backward()
    gradients = [p.grad for p in policy.parameters() if p.grad is not None]
    policy.zero_grad()
    return [actual.logprobs.detach(), actual.entropy.detach(), *gradients]


def test_where_torch_fails_all_run_as_written_and_one_line_says_so(monkeypatch, caplog):
    attempts = []

    def compile_none(function, dynamic):
        def run(*args):
            attempts.append(function)
            raise torch._dynamo.exc.TorchDynamoException("no compiler\nat all")

        return run

    monkeypatch.setattr(torch, "compile", compile_none)
    twice, thrice = (compiled(lambda x, times=times: times * x) for times in (2, 3))
    assert (twice(5), twice(6), thrice(7)) == (10, 12, 21)
    assert len(attempts) == 1
    (record,) = caplog.records
    assert "optim.compile: torch cannot (no compiler); the update runs" in record.getMessage()


def test_an_error_of_the_function_itself_passes_through(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, dynamic: function)
    with pytest.raises(ZeroDivisionError):
        compiled(lambda: 1 // 0)()
    assert compiled(lambda: 1)() == 1


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_packed_passes_are_compiled_and_no_others(monkeypatch, layout):
    calls = []

    def spy(function, dynamic):
        return lambda *args, **kwargs: calls.append(function.__name__) or function(*args, **kwargs)

    monkeypatch.setattr(torch, "compile", spy)
    monkeypatch.setattr("rlvr_cli.model.head._compiled", compiled)
    monkeypatch.setattr("rlvr_cli.model.policy._CHUNK_LOGITS", 2 * VOCAB)
    chosen_forward = PADDED if layout == "padded" else PACKED
    policy = Policy(random_model(), VOCAB, 0.7, chosen_forward)
    expected = figures(policy, 4)
    compile_passes(policy)
    assert all(map(torch.equal, figures(policy, 4), expected))
    assert calls.count("forward") == (2 if layout == "packed" else 0)
    assert calls.count("chunk_figures") == calls.count("chunk_gradient") == 6  # of 11 tokens


@pytest.mark.slow
@pytest.mark.skipif(NO_COMPILER, reason="torch.compile needs a C++ compiler on a CPU")
@pytest.mark.parametrize("recomputes", [False, True])
def test_compiled_the_numbers_are_the_same(monkeypatch, recomputes):
    """One compilation serves all layers and lengths."""
    monkeypatch.setattr("rlvr_cli.model.policy._CHUNK_LOGITS", 2 * VOCAB)
    uncompiled, compiled_policy = (Policy(random_model(), VOCAB, 0.7) for _ in range(2))
    compile_passes(compiled_policy)
    if recomputes:
        recompute(compiled_policy)
    for length in (2, 5, 9):
        pairs = zip(figures(compiled_policy, length), figures(uncompiled, length), strict=True)
        for actual, expected in pairs:
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    assert compiling._failures == []
