"""The chat that a problem may be."""

import pytest

from rlvr_cli.data.chats import is_chat, read_chat, spoken_alone
from rlvr_cli.data.files import BadRowError

USER, REPLY = {"role": "user", "content": "q"}, {"from": "gpt", "value": "a"}


def test_a_chat_is_its_turns_the_last_question_and_what_is_said_to_it():
    system = {"role": "developer", "content": [{"text": "be "}, {"text": "brief"}]}
    assert read_chat([system, USER], "f") == ((("system", "be brief"),), "q", None)
    assert read_chat([USER, REPLY, USER, REPLY], "f") == (
        (("user", "q"), ("assistant", "a")),
        "q",
        "a",
    )


@pytest.mark.parametrize("value", [[], "q", ["q"], None, {"role": "user"}])
def test_anything_else_is_none(value):
    assert not is_chat(value)


@pytest.mark.parametrize("chat", [[REPLY], [USER, REPLY, REPLY], [{"role": "user"}]])
def test_a_chat_without_a_question_at_its_end_is_refused(chat):
    with pytest.raises(BadRowError, match="field f"):
        read_chat(chat, "f")


@pytest.mark.parametrize("said", [None, "a", ["a"], [], [USER], [USER, REPLY], [REPLY, REPLY], {}])
def test_only_an_assistants_turn_alone_is_its_text(said):
    assert spoken_alone([REPLY], "f") == "a"
    assert spoken_alone(said, "f") is said
