"""Each engine on a real pretrained chat model, beside transformers' own `generate` and forward."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from test_engine import NEEDS_VLLM
from transformers import AutoModelForCausalLM, PreTrainedModel

from rlvr_cli.config import layer, resolve
from rlvr_cli.core.types import Completion, Problem, SamplingParams
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.data.prompts import render_prompts
from rlvr_cli.setup.plan import plan_for
from rlvr_cli.setup.session import Session, open_session

pytestmark = pytest.mark.slow  # the random models of `engines/` say the same of each family
QUESTIONS = ["Calculate 7 + 5.", "What is the capital of France?", "Say 12 in one long sentence."]
SEEDS = [100, 200, 300]


@pytest.fixture(
    scope="module", params=["transformers", pytest.param("vllm", marks=NEEDS_VLLM)], ids=str
)
def session(request: pytest.FixtureRequest, real_model: Path) -> Iterator[Session]:
    values = {"model": str(real_model), "engine": request.param, "threads": 1}
    config = resolve(layer("test", {**values, "rollout": {"kv_budget_mb": 256}}))
    with open_session(plan_for(config, ProblemSet("asked", (), "plain"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def own(real_model: Path) -> PreTrainedModel:
    """The model as anyone loads it."""
    return AutoModelForCausalLM.from_pretrained(real_model, dtype=torch.float32).eval()


def answers(
    session: Session, params: SamplingParams
) -> list[tuple[tuple[int, ...], list[Completion]]]:
    """Prompt and completions of each question."""
    problems = [Problem(str(number), text, None) for number, text in enumerate(QUESTIONS)]
    prompts, _ = render_prompts(problems, session.policy.tokenizer, "plain", 8192, 64)
    ids = [prompt.token_ids for prompt in prompts]
    groups = dict(session.engine.generate(ids, params, SEEDS))
    return [(ids[index], groups[index]) for index in range(len(ids))]


def test_greedy_responses_are_those_of_generate_token_for_token(session, own):
    ends = []
    for prompt, (completion,) in answers(session, SamplingParams(1, 32, temperature=0)):
        given = torch.tensor([prompt])
        expected = own.generate(
            given, attention_mask=torch.ones_like(given), max_new_tokens=32, do_sample=False
        )
        assert list(completion.token_ids) == expected[0, len(prompt) :].tolist()
        ends.append(completion.finish_reason)
    assert set(ends) == {"stop", "length"}


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_sampled_logprobs_are_those_of_the_models_own_forward_pass(session, own, temperature):
    groups = answers(session, SamplingParams(2, 16, temperature=temperature))
    assert any(group[0].token_ids != group[1].token_ids for _, group in groups)
    for prompt, group in groups:
        for completion in group:
            tokens = torch.tensor(completion.token_ids)
            with torch.no_grad():
                logits = own(input_ids=torch.tensor([[*prompt, *completion.token_ids]])).logits[0]
            logprobs = (logits[len(prompt) - 1 : -1] / temperature).log_softmax(-1)
            actual = logprobs.gather(-1, tokens[:, None])[:, 0]
            torch.testing.assert_close(torch.tensor(completion.logprobs), actual, atol=2e-4, rtol=0)
