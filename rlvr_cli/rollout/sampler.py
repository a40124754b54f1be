"""Sample G responses per prompt, or take those of the data's rows; have them judged and paid."""

import hashlib
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any

from rlvr_cli.core.errors import EngineError, ReportedError, UserError
from rlvr_cli.core.signals import asked, at_once, heed
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import (
    Completion,
    Group,
    Prompt,
    Rollout,
    SamplingParams,
    groups_as_json,
    groups_from_json,
)
from rlvr_cli.model.loading import LoadedModel
from rlvr_cli.ranks.group import gathered, share, world
from rlvr_cli.rollout.engines.base import Engine, Listener
from rlvr_cli.rollout.rewards import Call, Rewarder
from verifiers import Attempt, Verification, Verifier

Drawn = Generator[tuple[int, list[Completion]]]
"""(Index among this process's prompts, G completions) as they finish."""
_MEET_EVERY_S = 30.0
"""Seconds until processes tell each other what they have sampled: rare beside a group's seconds,
often enough for a display, an error or a signal."""
_SHOWN = 3


def response_seed(seed: int, *name: object) -> int:
    """Return a 62-bit seed for the group called `name`: its sample i uses this number plus i."""
    digest = hashlib.sha256(":".join(map(str, (seed, *name))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2


class Sampler:
    """The engine, tokenizer and verifier that turn prompts into judged groups."""

    def __init__(self, engine: Engine, tokenizer: Any, verifier: Verifier) -> None:
        self.engine, self.tokenizer, self.verifier = engine, tokenizer, verifier
        self.seconds = 0.0
        """Spent on decoding and verdicts since the start."""

    def rollout(
        self,
        prompts: Sequence[Prompt],
        params: SamplingParams,
        seeds: Sequence[int],
        listener: Listener | None = None,
    ) -> Drawn:
        """Return what samples this process's share of the prompts."""
        token_ids = [prompt.token_ids for prompt in share(prompts)]
        return self.engine.generate(token_ids, params, share(seeds), listener)

    def verify(
        self,
        prompts: Sequence[Prompt],
        drawn: Drawn,
        rewarder: Rewarder | None = None,
        weight_version: int = 0,
        on_group: Callable[[Group], None] = lambda group: None,
    ) -> list[Group]:
        """Judge and pay responses as they come, those of all processes; return the groups in the
        order of the prompts. `on_group` sees them as they finish."""
        groups: dict[int, Group] = {}
        judged = self._judged(prompts, drawn, rewarder or Rewarder(), weight_version)
        with closing(drawn):  # an engine gives up what is left after an error or a signal
            for index, group in judged if world() == 1 else exchanged(prompts, judged):
                groups[index] = group
                on_group(group)
        return [groups[index] for index in range(len(prompts))]

    def _judged(
        self, prompts: Sequence[Prompt], drawn: Drawn, rewarder: Rewarder, weight_version: int
    ) -> Iterator[tuple[int, Group]]:
        """Yield (prompt index, its group) of this process; own rewards of one are computed while
        the next are sampled."""
        own = share(range(len(prompts)))
        waiting: deque[tuple[int, Group, list[Call]]] = deque()
        for place, completions in drawn:
            heed()
            started = time.perf_counter()
            group = self._verified(prompts[own[place]], completions, weight_version)
            self.seconds += time.perf_counter() - started
            calls = rewarder.call(group.prompt.problem, [one.text for one in group.rollouts])
            waiting.append((own[place], group, calls))
            while waiting and all(call.running.done() for call in waiting[0][2]):
                index, group, calls = waiting.popleft()
                yield index, rewarder.paid(group, calls)
        for index, group, calls in waiting:
            yield index, rewarder.paid(group, calls)

    def _verified(
        self, prompt: Prompt, completions: Sequence[Completion], weight_version: int
    ) -> Group:
        """Decode and judge the responses to a prompt; without a gold answer nothing is judged."""
        token_ids = [list(completion.token_ids) for completion in completions]
        texts = self.tokenizer.batch_decode(token_ids, skip_special_tokens=True)
        gold = prompt.problem.answer
        verifications: Sequence[Verification | None] = [None] * len(texts)
        if gold is not None:
            verifications = self.verifier.verify_many(
                [
                    Attempt(text, gold, prompt.think_open, completion.finish_reason == "length")
                    for completion, text in zip(completions, texts, strict=True)
                ]
            )
        judged = enumerate(zip(completions, texts, verifications, strict=True))
        rollouts = tuple(Rollout(prompt, sample, *parts, None) for sample, parts in judged)
        return Group(prompt, rollouts, weight_version)

    def decode(self, token_ids: list[int]) -> str:
        """Return the text of a response."""
        return self.tokenizer.decode(token_ids, skip_special_tokens=True)


def exchanged(
    prompts: Sequence[Prompt], judged: Iterator[tuple[int, Group]]
) -> Iterator[tuple[int, Group]]:
    """Yield (prompt index, group) of all processes, the same in each; they meet every half minute
    and at the end. A signal or an error in one of them ends this in all. Raises EngineError for the
    error of another."""
    is_done = is_stopped = False
    while not is_done:
        own, failure, until = [], None, time.monotonic() + _MEET_EVERY_S
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


def given_completions(
    prompts: Sequence[Prompt], policy: LoadedModel, max_tokens: int
) -> list[Completion]:
    """Return the field `response` of each prompt's row as tokens (`--algo sft`), with the end token
    unless `finish_reason` says that it was cut off; log-probabilities are empty.

    A `<think>` that the chat template has opened already is not repeated. Raises UserError if a
    response is longer than `max_tokens`.
    """
    end = policy.tokenizer.eos_token_id
    end = end if end in policy.stop_ids else policy.stop_ids[0]
    completions, too_long = [], []
    for prompt in prompts:
        row = prompt.problem.extra
        text = row["response"].removeprefix("<think>" if prompt.think_open else "")
        token_ids = policy.tokenizer.encode(text, add_special_tokens=False)
        is_cut_off = row.get("finish_reason") == "length"
        token_ids += [] if is_cut_off else [end]
        completions.append(Completion(token_ids, (), "length" if is_cut_off else "stop"))
        if len(token_ids) > max_tokens:
            too_long.append(f"{prompt.problem.id}: its response has {len(token_ids)} tokens")
    if too_long:
        listed = "; ".join(too_long[:_SHOWN])
        raise UserError(
            f"{plural(len(too_long), 'response')} longer than --max-tokens {max_tokens}, first "
            f"{listed}: raise it, or leave them out"
        )
    return completions
