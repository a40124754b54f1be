"""What is set up before sampling, and what is said of problems that do not fit."""

import re
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from small_groups import made_prompt
from small_trainer import has_even, make_trainer

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Problem
from rlvr_cli.data.problems import ProblemSet, unreadable_golds
from rlvr_cli.rollout.engines import vllm_engine
from rlvr_cli.setup import session as module
from rlvr_cli.setup.machine import Machine
from rlvr_cli.setup.plan import EngineChoice, plan_for
from rlvr_cli.setup.prompts import prompts_for
from rlvr_cli.setup.session import open_session
from verifiers import Attempt, Verdict, Verifier

PROBLEMS = ProblemSet("set", (), "plain")


def test_a_session_says_its_size_device_and_engine():
    session = make_trainer(has_even).session
    size = session.policy.model.num_parameters() / 1e6
    message = f"{size:.1f} M parameters on cpu, 1 thread; engine transformers (as set)"
    assert session.description == message


def test_golds_that_nobody_can_read():
    golds = ["7", None, "\\frac{1}{2}", "\\frac{"]
    prompts = [made_prompt(str(n), gold) for n, gold in enumerate(golds)]
    with Verifier() as verifier:
        bad = unreadable_golds([prompt.problem for prompt in prompts], verifier)
    assert [problem.id for problem in bad] == ["1", "3"]


@pytest.mark.parametrize("training", [True, False])
def test_the_engine_is_closed_and_the_workers_end_whatever_happens(monkeypatch, training):
    closed = []
    threads = torch.get_num_threads()
    start = module.TransformersEngine

    def watched(*args, **kwargs):
        engine = start(*args, **kwargs)
        engine.close = lambda: closed.append(engine)
        return engine

    monkeypatch.setattr(module, "TransformersEngine", watched)
    plan = plan_for(resolve(set_layer(["engine=transformers", "threads=1"])), PROBLEMS)
    with suppress(KeyError), open_session(plan, training) as session:
        assert torch.get_num_threads() == session.plan.config.threads == 1
        assert session.forward.packed
        assert session.forward.gap > 0  # it was measured
        assert session.engine.forward is session.forward
        assert session.engine.stop_ids == session.policy.stop_ids
        assert session.engine.vocab_size == len(session.policy.tokenizer)
        (actual,) = session.sampler.verifier.verify_many([Attempt("It is 7.", "7")])
        assert (actual.verdict, actual.format) == (Verdict.CORRECT, "any")
        raise KeyError
    assert closed == [session.engine]
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("training", "dtype", "where", "lent"),
    [(True, torch.float32, "default", 0.5), (False, torch.bfloat16, "cpu", 0.9)],
)
def test_on_a_gpu_an_evaluation_loads_halves_beside_it_and_gives_vllm_the_card(
    monkeypatch, training, dtype, where, lent
):
    built = []
    load = module.load_model

    class Engine:
        def __init__(self, model, vocab_size, stop_ids, kv_budget_mb, gpu_share, precision, sleeps):
            built.append((model.dtype, gpu_share, precision, sleeps))

        def close(self):
            built.append("closed")

    def loaded(name, on_cpu=False, dtype="float32"):
        built.append("cpu" if on_cpu else "default")
        return load(name, True, dtype)

    gpu = Machine("cuda", total=80 << 30, free=79 << 30)
    monkeypatch.setattr(module, "this_machine", lambda: gpu)
    monkeypatch.setattr(module, "load_model", loaded)
    monkeypatch.setattr(module, "check_scores", lambda *_: 0.0)
    monkeypatch.setattr(vllm_engine, "VllmEngine", Engine)
    monkeypatch.setattr(vllm_engine, "known_architectures", lambda: ["Qwen2ForCausalLM"])
    plan = plan_for(resolve(set_layer(["threads=1", "rollout.precision=bfloat16"])), PROBLEMS)
    config = plan.config.model_copy(update={"engine": "vllm"})
    plan = replace(plan, config=config, engine=EngineChoice("vllm", "as set"))
    with open_session(plan, training) as session:
        assert session.device.type == "cuda"
        assert session.memory.machine is gpu
        assert session.plan.config.rollout.gpu_share == lent
    assert built == [where, (dtype, lent, "bfloat16", training), "closed"]


class Words:
    """A token a word, without a chat template."""

    chat_template = None
    bos_token_id = None

    def get_vocab(self):
        return {"word": 0, "plain:": 1}

    def encode(self, text, add_special_tokens=True):
        return list(range(len(text.split())))


POLICY = SimpleNamespace(tokenizer=Words(), context=10, name="tiny")


def rendered(lengths: list[int], *settings: str):
    texts = (" ".join(["word"] * n) for n in lengths)
    problems = tuple(Problem(f"p{n}", text, "1") for n, text in enumerate(texts))
    config = resolve(set_layer(settings))
    return prompts_for(ProblemSet("set", problems, "plain"), POLICY, config, max_tokens=4)


def test_prompts_that_leave_no_room_stop_the_command_and_a_few_are_named():
    assert [len(prompt.token_ids) for prompt in rendered([1, 6])] == [1, 6]
    with pytest.raises(UserError) as refused:
        rendered([7, 1, 8, 9, 10, 11])
    lines = str(refused.value).splitlines()
    assert [re.search(r"p\d", line)[0] for line in lines[:3]] == ["p0", "p2", "p3"]
    assert lines[3] == "… and 2 more"
    assert lines[4].startswith("prompts too long: 5; lower --max-tokens")
    assert len(lines) == 5
    with pytest.raises(UserError) as refused:
        rendered([7, 8, 9])
    assert len(str(refused.value).splitlines()) == 4


def test_they_are_left_out_where_that_is_asked_for_and_others_are_left(caplog):
    (prompt,) = rendered([7, 1], "data.skip_bad=true")
    assert prompt.problem.id == "p1"
    assert caplog.messages[0].splitlines()[-1] == "skipped 1 prompt"
    with pytest.raises(UserError, match="prompts too long: 1;"):
        rendered([7], "data.skip_bad=true")
