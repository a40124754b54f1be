"""Exchange groups between processes that each sample and judge prompts."""

import time
from collections.abc import Generator, Iterator, Sequence

from rlvr_cli.core.errors import EngineError, ReportedError
from rlvr_cli.core.signals import asked, at_once
from rlvr_cli.core.types import Group, Prompt, groups_as_json, groups_from_json
from rlvr_cli.ranks.group import gathered

_EVERY_S = 30.0


def exchanged(
    prompts: Sequence[Prompt], judged: Iterator[tuple[int, Group]]
) -> Generator[tuple[int, Group]]:
    """Yield (prompt index, group) of all processes, the same in each; they meet every half minute
    and at the end. A signal or an error in one of them ends this in all. Raises EngineError for the
    error of another."""
    is_done = is_stopped = False
    while not is_done:
        own, failure, until = [], None, time.monotonic() + _EVERY_S
        try:
            with at_once():
                for index, group in judged:
                    own.append((index, groups_as_json([group], [group.prompt])))
                    if time.monotonic() > until:
                        break
                else:
                    is_done = True
        except KeyboardInterrupt:
            is_done = is_stopped = True
        except Exception as error:
            failure = error
        said = str(failure) if isinstance(failure, ReportedError) else repr(failure)
        met = gathered([own, is_done, is_stopped or asked(), failure and said])
        if failure is not None:
            raise failure
        if errors := [error for *_, error in met if error is not None]:
            raise EngineError(errors[0])
        for index, rows in (one for groups, *_ in met for one in groups):
            yield index, groups_from_json(rows, [prompts[index]])[0]
        if any(is_asked for *_, is_asked, _ in met):
            raise KeyboardInterrupt
        is_done = all(done for _, done, *_ in met)
