"""Read the chat that a problem may be."""

from typing import Any

from rlvr_cli.core.types import Turn
from rlvr_cli.data.files import BadRowError

_ROLES = {"human": "user", "gpt": "assistant", "developer": "system"}


def is_chat(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def read_chat(value: list[dict[str, Any]], field: str) -> tuple[tuple[Turn, ...], str, str | None]:
    """Return the turns before the last user turn, its text, and what an assistant says after it.
    Raises BadRowError for a chat that is not of texts by role, or has no user turn at its end."""
    turns = _turns(value, field)
    spoken = turns.pop()[1] if turns[-1][0] == "assistant" else None
    if not turns or turns[-1][0] != "user":
        raise BadRowError(f"field {field}: the chat has no user turn at its end")
    return tuple(turns[:-1]), turns[-1][1], spoken


def spoken_alone(value: Any, field: str) -> Any:
    """Return the text of an assistant's turn that stands alone, as TRL writes completions; anything
    else as it is. Raises BadRowError for a turn without role and text."""
    turns = _turns(value, field) if is_chat(value) and len(value) == 1 else []
    return turns[0][1] if turns and turns[0][0] == "assistant" else value


def _turns(value: list[dict[str, Any]], field: str) -> list[Turn]:
    """Return role and text of each turn. Raises BadRowError for a chat that is not of texts."""
    turns: list[Turn] = []
    for turn in value:
        role, content = turn.get("role", turn.get("from")), turn.get("content", turn.get("value"))
        if isinstance(content, list) and all(isinstance(part, dict) for part in content):
            texts = [part.get("text") for part in content]
            content = "".join(map(str, texts)) if None not in texts else None
        if not isinstance(role, str) or not isinstance(content, str):
            raise BadRowError(f"field {field} has a turn without role and text")
        turns.append((_ROLES.get(role, role), content))
    return turns


def checked_text(text: Any, field: str) -> str:
    """Return the text of a field. Raises BadRowError if it is no text, empty, or not Unicode."""
    if not isinstance(text, str) or not text.strip():
        raise BadRowError(f"field {field} is not a text with something in it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRowError(f"field {field} is not Unicode text (a lone surrogate)") from None
    return text
