"""How a run begins: anew, by --from and by --resume, in every way to keep the weights that train.

It begins with the weights that it names, which the engine has too, and is not refused: in 16 bits
its kernels are held against those weights, which may be nats off the ones that its parent had.
"""

import json

import pytest
import torch
from pretended_gpu import on_pretended_gpu
from small_runs import save_small_model

from rlvr_cli.cli import train as module
from rlvr_cli.cli.python import train
from rlvr_cli.model.adapter import trained
from rlvr_cli.model.forward import own_logprobs
from rlvr_cli.model.loading import load_model
from rlvr_cli.model.policy import check_as_trained
from rlvr_cli.ranks.group import local_shard
from rlvr_cli.rollout.engines.base import check_scores
from rlvr_cli.runs.checkpoint import save_checkpoint, state_of
from rlvr_cli.runs.lifecycle import RunLifecycle
from rlvr_cli.training.state import State

KINDS = {
    "all weights": {},
    "LoRA": {"lora.rank": 2},
    "offload": {"optim.offload": "all"},
}
LIMITS = {"float32": 1e-5, "bfloat16": 0.05}
"""How far trainer and engine may be from the model's own log-probabilities in float32, as a mean in
nats a token: half of what is refused. Seen: 1e-6 and 0.036."""
LEARNED = 0.3
"""The nats a token by which learning moves them at least: three times what is refused."""


class Begun:
    """Stands for `RunLifecycle.run_to_end`: checks the weights, learns, saves and ends."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.logprobs: list[torch.Tensor] = []
        """The log-probabilities that each run had to begin with."""

    def run_to_end(self, loop: RunLifecycle) -> None:
        trainer = loop.trainer
        config = trainer.config
        directory = loop.run.directory
        named = directory if trainer.step else config.parent or config.model
        loaded = load_model(str(named), on_cpu=True)  # with an adapter merged
        model, vocab_size = loaded.model, len(loaded.tokenizer)
        samples = trainer.session.forward.samples
        logprobs = own_logprobs(model, vocab_size, samples)
        check_as_trained(trainer.policy, logprobs, self.limit)
        check_scores(trainer.session.engine, model, vocab_size, samples[:1], self.limit)
        self.logprobs.append(logprobs)
        with torch.no_grad():
            for parameter in trained(trainer.policy.model):
                shard = local_shard(parameter)
                shard.add_(0.1 * torch.randn_like(shard))
        trainer.step += 1
        state = state_of(trainer) | State({"progress": loop.progress}, {})
        save_checkpoint(directory, trainer.step, trainer.session.policy, config, state)
        loop.run.write("summary.json", "{}")


@pytest.mark.parametrize("precision", LIMITS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_begins_with_the_weights_that_it_names(kind, precision, tmp_path, monkeypatch):
    settings = {
        "engine": "transformers",
        "optim.compile": "off",
        "optim.precision": precision,
        **({"optim.weights": precision} if kind == "LoRA" else {}),
        **KINDS[kind],
    }
    begun = Begun(LIMITS[precision])
    save_small_model(tmp_path / "model", seed=0, deviation=0.1)
    row = json.dumps({"question": "What is 1 + 1?", "answer": 2})
    (tmp_path / "sum.jsonl").write_text(row)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "preflight", lambda *_: None)
    monkeypatch.setattr(RunLifecycle, "run_to_end", lambda loop: begun.run_to_end(loop))

    def run_all() -> int:
        train("sum.jsonl", model="model", algo="grpo", max_tokens=8, out="anew", set=settings)
        train(from_="anew", out="fork")
        train(resume="fork")
        anew, fork, resumed = begun.logprobs
        assert (fork - anew).abs().mean() > LEARNED
        assert (resumed - fork).abs().mean() > LEARNED
        return 0

    if kind != "offload":
        assert run_all() == 0
        return
    done, report = on_pretended_gpu(tmp_path, program=run_all)
    assert (done.rc, report.mixed) == (0, []), done.err
