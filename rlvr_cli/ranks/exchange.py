"""Exchange judged groups between processes while they sample."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlvr_cli.core.carried import groups_as_json, groups_from_json
from rlvr_cli.core.errors import EngineError, ReportedError
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.signals import at_once, is_interrupted
from rlvr_cli.core.types import Group, Prompt
from rlvr_cli.ranks.group import gather

_EXCHANGE_EVERY_S = 30.0
"""Seconds between two exchanges: rare compared with the seconds that a group takes, and often
enough for a display, an error or a signal."""

_Rows = list[tuple[int, list[JsonObject]]]
"""Judged groups as JSON, each after the index of its prompt."""
JudgedGroups = Iterator[tuple[int, Group]]
"""Groups as they are judged, each with the index of its prompt."""


@dataclass(frozen=True)
class _Part:
    """What one process brings to an exchange."""

    groups: _Rows
    is_done: bool
    is_stopped: bool
    error: str | None


def gather_shares(rows: list[JsonObject]) -> list[JsonObject]:
    """Return the rows of all processes, each of which has its `share`, in the order of all."""
    parts = gather(rows)
    count = sum(len(part) for part in parts)
    return [parts[n % len(parts)][n // len(parts)] for n in range(count)]


def exchange_groups(prompts: Sequence[Prompt], groups: JudgedGroups) -> JudgedGroups:
    """Yield (prompt index, group) of all processes, in the same order in each of them.

    The processes meet every half minute and at the end. A signal or an error in one ends the
    exchange in all. Raises EngineError for the error of another process.
    """
    is_done = is_stopped = False
    while not is_done:
        rows: _Rows = []
        failure = reason = None
        until = time.monotonic() + _EXCHANGE_EVERY_S
        try:
            with at_once():
                for index, group in groups:
                    rows.append((index, groups_as_json([group], [group.prompt])))
                    if time.monotonic() > until:
                        break
                else:
                    is_done = True
        except KeyboardInterrupt:
            is_done = is_stopped = True
        except Exception as error:
            failure = error
            reason = str(error) if isinstance(error, ReportedError) else repr(error)
        part = _Part(rows, is_done, is_stopped or is_interrupted(), reason)
        parts = [_Part(**fields) for fields in gather(vars(part))]
        if failure is not None:
            raise failure
        for part in parts:
            if part.error is not None:
                raise EngineError(part.error)
        for part in parts:
            for index, group_rows in part.groups:
                yield index, groups_from_json(group_rows, [prompts[index]])[0]
        if any(part.is_stopped for part in parts):
            raise KeyboardInterrupt
        is_done = all(part.is_done for part in parts)
