"""A trainer of a random model and made-up verdicts, for tests in which a real one takes long."""

from contextlib import closing
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import torch
from small_models import random_model
from transformers import PreTrainedModel

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.types import Problem, Prompt
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.model.adapter import add_adapter
from rlvr_cli.model.forward import PACKED, Forward
from rlvr_cli.model.loading import LoadedModel, cast
from rlvr_cli.model.quantized import dequantize, quantize
from rlvr_cli.model.settings import SIXTEEN_BITS
from rlvr_cli.ranks.group import full_tensor
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
from rlvr_cli.rollout.sampler import Sampler
from rlvr_cli.runs.run_dir import RunDirectory, create_run
from rlvr_cli.setup.machine import this_machine
from rlvr_cli.setup.memory import Memory, read_shapes
from rlvr_cli.setup.plan import is_sharded, plan_for
from rlvr_cli.setup.session import Session
from rlvr_cli.training.record import StepResult
from rlvr_cli.training.trainer import Trainer
from verifiers import Verdict, Verification

SMALL = ("rollout.prompts=3", "rollout.samples=4", "rollout.max_tokens=6", "optim.lr=0.01")


class Tokenizer:
    """Ids as text."""

    def __len__(self) -> int:
        return 50

    def batch_decode(self, batch, skip_special_tokens):
        return [" ".join(map(str, ids)) for ids in batch]


class Judge:
    """A verdict by a rule on the response's text."""

    def __init__(self, is_right) -> None:
        self.judge = lambda text: Verdict.CORRECT if is_right(text) else Verdict.WRONG

    def verify_many(self, attempts):
        return [Verification(self.judge(a.response), None, True, "") for a in attempts]

    def cluster(self, answers):
        return list(range(len(answers)))


def make_trainer(
    is_right, *settings: str, model: PreTrainedModel | None = None, forward: Forward = PACKED
) -> Trainer:
    """A trainer of these settings; the teacher of `algo=opd` is another random model."""
    here = ("engine=transformers", *(["teacher=other"] if "algo=opd" in settings else []))
    config = resolve(set_layer([*SMALL, *here, *settings]))
    plan = plan_for(config, ProblemSet("small", (), "think_answer")).with_threads(1)
    model, lora = model or random_model(), config.lora
    if config.optim.weights in SIXTEEN_BITS:
        cast(model, getattr(torch, config.optim.weights))
    if lora.base == "nf4":
        quantize(model)
    sampled = deepcopy(model) if lora.rank or is_sharded(plan.config.optim) else model
    dequantize(sampled)
    engine = TransformersEngine(sampled, 50, (1,), 64, forward)
    if lora.rank:
        add_adapter(model, lora.rank, lora.alpha, lora.targets, config.seed)
    policy = LoadedModel(model, Tokenizer(), (1,), 128, "")
    sampler = Sampler(engine, Tokenizer(), Judge(is_right))
    memory = Memory(read_shapes(model), this_machine())
    session = Session(plan, policy, engine, sampler, forward, model.device, memory)
    if config.teacher:
        teacher = random_model(seed=1).to(next(model.parameters()).dtype)
        session = replace(session, teacher=LoadedModel(teacher, Tokenizer(), (1,), 128, "other"))
    prompts = [
        Prompt(Problem(str(n), "?", "1"), "?", (2 + n, 3 + n, 4 + n), False) for n in range(9)
    ]
    return Trainer(session, prompts, [])


def has_even(text: str) -> bool:
    return any(int(word) % 5 == 0 for word in text.split())


def weights(trainer: Trainer) -> list[torch.Tensor]:
    return [full_tensor(p.detach()).clone() for p in trainer.session.policy.model.parameters()]


def steps(trainer: Trainer, directory: Path) -> list[dict]:
    """The metrics of all steps, written into a run directory as well."""
    with closing(create_run(directory, trainer.config)) as run:
        return [written(run, result) for result in trainer.train_steps()]


def written(run: RunDirectory, result: StepResult) -> dict:
    run.record(result)
    return result.figures.row
