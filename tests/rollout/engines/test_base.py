"""Prompts that no engine can continue, and engines that are not the model."""

import re

import pytest
import torch
from families import VOCAB
from small_models import random_model

from rlvr_cli.core.errors import EngineError, UserError
from rlvr_cli.core.types import Completion
from rlvr_cli.rollout.engines.base import check_scores, refuse_prompts
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine

SAMPLES = [([3, 4, 5], [6, 7]), ([8], [9, 10, 11]), ([3, 4, 5], [12])]


def test_a_prompt_and_its_response_may_fill_the_context():
    refuse_prompts([[1, 2, 3], [1]], max_tokens=5, context=8)
    refuse_prompts([], max_tokens=5, context=1)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ([[1], [], [1]], "prompt 2 of 3 is empty"),
        (
            [[1, 2, 3, 4]],
            "prompt 1 of 1 has 4 tokens, which with a response of 5 is more than the ",
        ),
        ([[1], [1, 2, 3, 4], []], "prompt 2 of 3 has 4 tokens"),
    ],
)
def test_the_first_that_does_not_fit_is_named(prompts, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        refuse_prompts(prompts, max_tokens=5, context=8)


@pytest.mark.parametrize("vocab_size", [VOCAB, VOCAB - 7])
def test_an_engine_of_the_same_weights_gives_the_same_scores(vocab_size):
    model = random_model()
    engine = TransformersEngine(model, vocab_size, [1], 64)
    assert check_scores(engine, model, vocab_size, SAMPLES, 1e-4) < 1e-5


def test_the_scores_of_an_engine_are_compared_token_by_token():
    """A uniform model gives log(1/VOCAB) to each; one that says -1 is off by the rest."""
    model = random_model()
    torch.nn.init.zeros_(model.get_output_embeddings().weight)

    class Wrong(TransformersEngine):
        def generate(self, prompts, params, seeds, listener=None):
            assert (list(prompts), params.max_tokens) == ([(3, 4, 5), (8,)], 3)
            yield 1, [Completion([2, 4], [-1.0, -1.0], "length")]
            yield 0, [Completion([1], [-1.0], "stop")]

    engine = Wrong(model, VOCAB, [1], 64)
    off = float(torch.tensor(VOCAB).log()) - 1
    assert check_scores(engine, model, VOCAB, SAMPLES, 3.0) == pytest.approx(off)
    with pytest.raises(EngineError, match=r"transformers and the trainer disagree by 2.91 "):
        check_scores(engine, model, VOCAB, SAMPLES, 2.9)
