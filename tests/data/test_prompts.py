"""From problems to token ids."""

import json
from datetime import datetime

import pytest

from rlvr_cli.config.built_in import TEMPLATES
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Problem
from rlvr_cli.data.prompts import render_prompts, template_text, turn_end
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


CHAT = Problem(
    "3", "And 2 + 2?", "4", {}, (("system", "Be brief."), ("user", "1?"), ("assistant", "1"))
)
TURNS = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"


def put(tokenizer, problem, **more):
    ((prompt,), _) = render_prompts([problem], tokenizer, "plain", 2048, 80, **more)
    return prompt.text


def test_a_chat_is_put_with_its_turns_and_a_given_system_turn_in_place_of_its_own(
    tokenizer, monkeypatch
):
    monkeypatch.setattr(tokenizer, "chat_template", TURNS)
    rest = "<user>1?<assistant>1<user>And 2 + 2?"
    assert put(tokenizer, CHAT) == f"<system>Be brief.{rest}"
    assert put(tokenizer, CHAT, system="You add.") == f"<system>You add.{rest}"
    assert put(tokenizer, PROBLEM, system="You add.") == "<system>You add.<user>What is 1 + 1?"
    monkeypatch.setattr(tokenizer, "chat_template", None)
    assert put(tokenizer, CHAT) == "Be brief.\n\n1?\n\n1\n\nAnd 2 + 2?\n"


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('System role not supported') }}",
        "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}",
    ],
)
def test_a_system_turn_that_a_template_does_not_take_is_an_error(tokenizer, monkeypatch, template):
    monkeypatch.setattr(tokenizer, "chat_template", template)
    with pytest.raises(UserError, match=r"; put what it says into --prompt 'TEXT \{problem\}'"):
        put(tokenizer, PROBLEM, system="Be brief.")


def test_arguments_of_the_chat_template_are_those_that_it_names(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", TURNS + "{% if thinks %}<think>{% endif %}")
    assert put(tokenizer, PROBLEM, arguments={"thinks": True}).endswith("<think>")
    assert put(tokenizer, PROBLEM, arguments={"thinks": False}).endswith("?")
    for name in ("thinsk", "messages", "tokenize"):
        with pytest.raises(UserError, match=f"data.chat.{name}: the chat template of .* takes no"):
            put(tokenizer, PROBLEM, arguments={name: True})


@pytest.mark.parametrize("name", ["question", "prompt", "system"])
def test_a_template_that_asks_for_something_else_is_an_error(tokenizer, name):
    with pytest.raises(
        UserError, match=rf"\{{{name}\}} is not known; only \{{problem\}} is put in"
    ):
        render(tokenizer, template=f"{{problem}} and {{{name}}}")
    assert "{x}" in render(tokenizer, template=r"{problem} as \boxed{answer}, in {x}")[0][0].text


def test_a_template_of_the_users_own(tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text("Solve {problem} in {braces}.\n")
    assert template_text(str(path)) == "Solve {problem} in {braces}."
    path.write_text("Solve it.")
    with pytest.raises(UserError, match=r"the file has no \{problem\} in it"):
        template_text(str(path))


def test_a_template_writes_the_date_that_it_is_given(tokenizer, monkeypatch):
    llama = (
        "{% if not day is defined %}{% set day = strftime_now('%d %b %Y') %}{% endif %}"
        "{{ day }}: {{ messages[0].content }}"
    )
    monkeypatch.setattr(tokenizer, "chat_template", llama)
    began = datetime(2024, 7, 26, 23, 59)
    assert put(tokenizer, PROBLEM, date=began) == "26 Jul 2024: What is 1 + 1?"
    assert put(tokenizer, PROBLEM) == f"{datetime.now():%d %b %Y}: What is 1 + 1?"
    named = put(tokenizer, PROBLEM, date=began, arguments={"day": "then"})
    assert named == "then: What is 1 + 1?"
    monkeypatch.setattr(tokenizer, "chat_template", "{{ messages[0].content }}")
    assert put(tokenizer, PROBLEM, date=began) == "What is 1 + 1?"


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        ("<|end|>", "<|end|>"),
        (" \n<|end|>\n", "<|end|>"),
        ("\n\n", None),
        ("", None),
        ("###<|end|>", None),
        ("{{ raise_exception('no turn of yours') }}", None),
    ],
)
def test_the_end_of_a_turn_is_the_token_behind_it(tokenizer, monkeypatch, behind, expected):
    template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}" + behind + "{% endfor %}"
    monkeypatch.setattr(tokenizer, "chat_template", template)
    assert turn_end(tokenizer) == expected
    monkeypatch.setattr(tokenizer, "chat_template", None)
    assert turn_end(tokenizer) is None
