"""What loading makes of a real pretrained chat model."""

from pathlib import Path

import pytest
import torch

from rlvr_cli.core.types import Problem
from rlvr_cli.data.prompts import render_prompts
from rlvr_cli.model.loading import LoadedModel, load_model

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


@pytest.fixture(scope="module")
def loaded(real_model: Path) -> LoadedModel:
    return load_model(str(real_model))


def test_end_token_context_precision_and_tied_embeddings(loaded):
    assert loaded.tokenizer.convert_ids_to_tokens(list(loaded.stop_ids)) == ["<|im_end|>"]
    assert loaded.context == 8192
    assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}
    head = loaded.model.get_output_embeddings().weight
    assert head is loaded.model.get_input_embeddings().weight
    assert len(head) == len(loaded.tokenizer) == 49_152


def test_a_problem_goes_through_the_models_own_chat_template(loaded):
    problem = Problem("1", "Calculate 7 + 5.", "12")
    ((prompt,), _) = render_prompts([problem], loaded.tokenizer, "plain", loaded.context, 16)
    assert prompt.text == (
        f"<|im_start|>system\n{SYSTEM}<|im_end|>\n"
        "<|im_start|>user\nCalculate 7 + 5.<|im_end|>\n<|im_start|>assistant\n"
    )
    assert loaded.tokenizer.decode(prompt.token_ids) == prompt.text
    starts = loaded.tokenizer.convert_tokens_to_ids("<|im_start|>")
    assert [*prompt.token_ids].count(starts) == 3
