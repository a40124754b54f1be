"""Read from a row how its responses ended and how long they are, as engines and services say."""

from collections.abc import Mapping
from typing import Any

from rlvr_cli.core.text import plural
from rlvr_cli.data.fields import BadRowError

CUT_OFF = {
    *("length", "max_tokens", "max_length", "model_length", "max_new_tokens", "max_output_tokens"),
    *("max_completion_tokens", "model_context_window_exceeded", "incomplete"),
}
"""Their words for the end of a response that was cut off."""
KNOWN = {
    *("length", "stop", "stop_sequence", "end_turn", "eos", "eos_token", "complete", "completed"),
    *("finished", "content_filter", "safety", "refusal", "tool_calls", "tool_use"),
    *("function_call", "abort", "unknown"),
}
"""What is known to be cut off, as `length`, or not."""
_LONGEST_NUMBER, _MOST_TOKENS = 12, 1 << 31


def finish_reasons(row: Mapping[str, Any], count: int) -> tuple[str | None, ...]:
    """Return how each response of a row ended: `length` if it was cut off, else as the row says
    it; None where it says nothing. Raises BadRowError."""
    key = "finish_reason" if row.get("finish_reason") is not None else "stop_reason"
    said = (one.strip().lower() if isinstance(one, str) else None for one in _each(row, key, count))
    return tuple("length" if one in CUT_OFF else one or None for one in said)


def lengths(row: Mapping[str, Any], count: int) -> tuple[int | None, ...]:
    """Return the number of tokens of each response of a row, None where it says none; cells of a
    table may have 12.0 or "12". Raises BadRowError."""
    if count > 1 and isinstance(row.get("n_tokens"), int | float | str):
        raise BadRowError(f"n_tokens is one number for {count} responses; a list has one for each")
    return tuple(map(_length, _each(row, "n_tokens", count)))


def _each(row: Mapping[str, Any], key: str, count: int) -> list[Any]:
    """Return a value for each of the responses of a row: those of a list, else the one of all."""
    value = row.get(key)
    listed = value if isinstance(value, list) else [value] * count
    if len(listed) != count:
        raise BadRowError(f"{key} has {len(listed)} values for {plural(count, 'response')}")
    return listed


def _length(said: Any) -> int | None:
    if isinstance(said, str) and len(said) <= _LONGEST_NUMBER and said.isdecimal():
        said = int(said)
    if isinstance(said, float) and said.is_integer():
        said = int(said)
    return said if type(said) is int and 0 <= said < _MOST_TOKENS else None
