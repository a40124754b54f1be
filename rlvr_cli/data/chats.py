"""Read the chats of a row: their turns, the last question, and the reply to it."""

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from rlvr_cli.core.types import Turn
from rlvr_cli.data.paths import BadRowError, parsed_json

_ROLES = {"human": "user", "gpt": "assistant", "developer": "system"}


def is_chat(value: object) -> TypeGuard[list[dict[str, object]]]:
    """Return whether a value is a list of objects, as chats are."""
    return isinstance(value, list) and bool(value) and all(isinstance(t, dict) for t in value)


def stored_chat(value: object) -> object:
    """Return the chat that a text holds as JSON. Return any other value unchanged."""
    chat = parsed_json(value) if isinstance(value, str) else None
    if is_chat(chat) and {"role", "from"} & chat[0].keys():
        return chat
    return value


def read_chat(
    value: Sequence[Mapping[str, object]], field: str
) -> tuple[tuple[Turn, ...], str, str | None]:
    """Return the turns before the last user turn, its text, and the assistant's reply if there is
    one. Raises BadRowError if a turn has no role or text, or if no user turn comes last."""
    turns = _turns(value, field)
    reply = turns.pop()[1] if turns[-1][0] == "assistant" else None
    if not turns or turns[-1][0] != "user":
        raise BadRowError(f"field {field}: the chat has no user turn at its end")
    return tuple(turns[:-1]), turns[-1][1], reply


def lone_turn(value: object, field: str) -> object:
    """Return the text of an assistant's turn, or of a chat of one such turn, as TRL writes
    completions. Return any other value unchanged. Raises BadRowError for a turn without role or
    text."""
    if is_chat(value) and len(value) == 1:
        if value[0].get("role") == "assistant":
            return message_text(value[0]) or ""
        ((role, text),) = _turns(value, field)
        return text if role == "assistant" else value
    if isinstance(value, dict) and value.get("role") == "assistant":
        return message_text(value) or ""
    return value


def _turns(value: Sequence[Mapping[str, object]], field: str) -> list[Turn]:
    """Return role and text of each turn. Raises BadRowError for a turn without role or text."""
    turns: list[Turn] = []
    for turn in value:
        role = turn.get("role", turn.get("from"))
        content = message_text(turn)
        parts = turn.get("content")
        if isinstance(parts, list) and not all(map(_is_text_part, parts)):
            raise BadRowError(
                f"field {field} has a turn with an image or another part that is no text, without "
                "which the problem is another"
            )
        if not isinstance(role, str) or not isinstance(content, str):
            raise BadRowError(f"field {field} has a turn without role and text")
        turns.append((_ROLES.get(role, role), content))
    return turns


def _is_text_part(part: object) -> bool:
    return isinstance(part, dict) and ("reasoning" in part or isinstance(part.get("text"), str))


def message_text(message: Mapping[str, object]) -> str | None:
    """Return the text of a chat's turn, after its thought in think tags if the turn has that apart.
    Return None for a turn without text."""
    content: object = message.get("content", message.get("value"))
    thought = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        thought = thought or "".join(
            str(part["reasoning"]) for part in parts if "reasoning" in part
        )
        content = "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    text = content if isinstance(content, str) else None
    if not isinstance(thought, str) or not thought:
        return text
    return f"<think>{thought}</think>{text or ''}"


def checked_text(text: object, field: str) -> str:
    """Return the text of a field. Raises BadRowError if it is not a text, empty, or not Unicode."""
    if not isinstance(text, str) or not text.strip():
        raise BadRowError(f"field {field} is not a text with something in it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRowError(f"field {field} is not Unicode text (a lone surrogate)") from None
    return text
