"""From problems to token ids."""

import json

import pytest

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Problem
from rlvr_cli.data.prompts import TEMPLATES, render_prompts, template_text
from rlvr_cli.model.loading import load_model

PROBLEM = Problem("1", "What is 1 + 1?", "2")
BRACES = Problem("2", "Let {x} be {problem}", "2")


@pytest.fixture(scope="module")
def tokenizer():
    return load_model("tiny").tokenizer


def render(tokenizer, problem=PROBLEM, template="plain", context=2048, max_tokens=80):
    return render_prompts([problem], tokenizer, template, context, max_tokens)


def test_a_prompt_goes_through_the_chat_template(tokenizer):
    (prompt,), too_long = render(tokenizer)
    assert prompt.text == "<|user|>What is 1 + 1?<|end|><|assistant|>"
    assert tokenizer.decode(prompt.token_ids) == prompt.text
    assert (prompt.think_open, too_long) == (False, [])


def test_a_problem_is_put_in_once_and_never_read_as_a_template(tokenizer):
    (prompt,), _ = render(tokenizer, BRACES, "think_answer")
    assert "Let {x} be {problem}\n\nThink step by step" in prompt.text


def test_a_template_that_opens_the_thought_is_noticed(tokenizer, monkeypatch):
    opening = tokenizer.chat_template + "{% if add_generation_prompt %}<think>\n{% endif %}"
    monkeypatch.setattr(tokenizer, "chat_template", opening)
    (prompt,), _ = render(tokenizer)
    assert prompt.think_open


def test_a_model_without_a_chat_template_continues_the_text(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", None)
    (prompt,), _ = render(tokenizer)
    assert prompt.text == "What is 1 + 1?\n"


def test_a_prompt_that_leaves_no_room_is_named(tokenizer):
    prompts, too_long = render(tokenizer, context=90)
    assert prompts == []
    (line,) = too_long
    assert line.startswith("problem 1: its prompt of 17 tokens and a response of 80 do not fit")


def test_an_unknown_template_is_an_error(tokenizer):
    with pytest.raises(UserError, match="choose from plain, think_answer"):
        render(tokenizer, template="nothing")


def test_qwen3s_template_is_rendered_as_it_stands(tokenizer, shared_data, monkeypatch):
    settings = json.loads((shared_data / "qwen3" / "tokenizer_config.json").read_text())
    monkeypatch.setattr(tokenizer, "chat_template", settings["chat_template"])
    (prompt,), _ = render(tokenizer, template="think_answer")
    assert prompt.text.startswith("<|im_start|>user\nWhat is 1 + 1?\n\nThink step by step")
    assert prompt.text.endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert not prompt.think_open
    assert set(TEMPLATES) == {"plain", "think_answer", "boxed"}


def test_a_template_of_the_users_own(tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text("Solve {problem} in {braces}.\n")
    assert template_text(str(path)) == "Solve {problem} in {braces}."
    path.write_text("Solve it.")
    with pytest.raises(UserError, match=r"the file has no \{problem\} in it"):
        template_text(str(path))
