"""Exchange groups between processes that each, or some together, sample and judge prompts."""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import nullcontext

from rlvr_cli.core.errors import EngineError, ReportedError
from rlvr_cli.core.signals import Interrupts, asked, at_once
from rlvr_cli.core.types import (
    Completion,
    Group,
    Prompt,
    SamplingParams,
    groups_as_json,
    groups_from_json,
)
from rlvr_cli.ranks.group import gathered
from rlvr_cli.ranks.launch import rank
from rlvr_cli.rollout.engines.base import Engine, Listener

_EVERY_S = 30.0


def drawn_together(
    engine: Engine,
    together: int,
    prompts: Sequence[Sequence[int]],
    params: SamplingParams,
    seeds: Sequence[int],
    listener: Listener | None,
) -> Iterator[tuple[int, list[Completion]]]:
    """Yield what the engine draws; of `together` processes that have one, each a part, once all is
    drawn: whoever judges, fails or is interrupted before would keep the others waiting in it."""
    if together == 1:
        yield from engine.generate(prompts, params, seeds, listener)
        return
    place = rank() % together
    with Interrupts(alone=False):
        drawn = engine.generate(prompts, params, seeds, None if place else listener)
        found = sorted(drawn, key=lambda one: one[0])
        if asked():
            raise KeyboardInterrupt
    yield from found[place::together]


def exchanged(
    prompts: Sequence[Prompt], judged: Iterator[tuple[int, Group]], together: int = 1
) -> Generator[tuple[int, Group]]:
    """Yield (prompt index, group) of all processes, the same in each; they meet every half minute
    and at the end. A signal or an error in one of them ends this in all. Raises EngineError for the
    error of another. `together`: so many have one engine, where one that fails or leaves alone
    keeps the others waiting: a signal waits for its next step, where they ask each other."""
    is_done = is_stopped = False
    while not is_done:
        own, failure, until = [], None, time.monotonic() + _EVERY_S
        try:
            with at_once() if together == 1 else nullcontext():
                for index, group in judged:
                    own.append((index, groups_as_json([group], [group.prompt])))
                    if time.monotonic() > until:
                        break
                else:
                    is_done = True
        except KeyboardInterrupt:
            is_done = is_stopped = True
        except Exception as error:
            if together > 1 and not isinstance(error, ReportedError):
                raise
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
