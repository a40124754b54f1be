"""Sample G responses per prompt and have them verified."""

import hashlib
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from rlvr_cli.algorithm.reward import reward
from rlvr_cli.core.signals import heed
from rlvr_cli.core.types import ROW_KEYS, Completion, Group, Prompt, Rollout, SamplingParams
from rlvr_cli.ranks.group import share, world
from rlvr_cli.rollout.engines.base import Engine, Listener
from rlvr_cli.rollout.exchange import exchanged
from verifiers import Attempt, Verification, Verifier


def response_seed(seed: int, *name: object) -> int:
    """Return a 62-bit seed for the group called `name`: its sample i uses this number plus i."""
    digest = hashlib.sha256(":".join(map(str, (seed, *name))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2


class Sampler:
    """The engine, tokenizer and verifier that turn prompts into verified groups."""

    def __init__(self, engine: Engine, tokenizer: Any, verifier: Verifier) -> None:
        self.engine, self.tokenizer, self.verifier = engine, tokenizer, verifier
        self.seconds = 0.0
        """Spent on decoding and verdicts since the start."""

    def groups(
        self,
        prompts: Sequence[Prompt],
        params: SamplingParams,
        seeds: Sequence[int],
        weight_version: int = 0,
        listener: Listener | None = None,
    ) -> Generator[tuple[int, Group]]:
        """Sample and verify: yield (prompt index, its group) as the engine finishes them."""
        drawn = self.rollout(prompts, params, seeds, listener)
        return self.verify(prompts, drawn, weight_version)

    def rollout(
        self,
        prompts: Sequence[Prompt],
        params: SamplingParams,
        seeds: Sequence[int],
        listener: Listener | None = None,
    ) -> Iterator[tuple[int, list[Completion]]]:
        """Yield (prompt index, its G completions) as they finish, of this process's prompts."""
        own = share(range(len(prompts)))
        request = [prompts[i].token_ids for i in own], params, [seeds[i] for i in own]
        if world() == 1:
            return self.engine.generate(*request, listener)
        hear = listener and (lambda place, *drawn: listener(own[place], *drawn))
        drawn = self.engine.generate(*request, hear)
        return ((own[place], found) for place, found in drawn)

    def verify(
        self,
        prompts: Sequence[Prompt],
        drawn: Iterator[tuple[int, list[Completion]]],
        weight_version: int = 0,
    ) -> Generator[tuple[int, Group]]:
        """Yield (prompt index, its judged group) as completions come, those of all processes."""
        judged = self._verified(prompts, drawn, weight_version)
        return judged if world() == 1 else exchanged(prompts, judged)

    def _verified(
        self,
        prompts: Sequence[Prompt],
        drawn: Iterator[tuple[int, list[Completion]]],
        weight_version: int,
    ) -> Generator[tuple[int, Group]]:
        for index, completions in drawn:
            heed()
            started = time.perf_counter()
            rollouts = self._judged(prompts[index], completions)
            self.seconds += time.perf_counter() - started
            yield index, Group(prompts[index], tuple(rollouts), weight_version)

    def decode(self, token_ids: list[int]) -> str:
        """Return the text of a response."""
        return self.tokenizer.decode(token_ids, skip_special_tokens=True)

    def _judged(self, prompt: Prompt, completions: Sequence[Completion]) -> list[Rollout]:
        texts = self.tokenizer.batch_decode(
            [list(completion.token_ids) for completion in completions], skip_special_tokens=True
        )
        gold = prompt.problem.answer
        verifications: Sequence[Verification | None] = [None] * len(texts)
        if gold is not None:
            verifications = self.verifier.verify_many(
                [
                    Attempt(text, gold, prompt.think_open, completion.finish_reason == "length")
                    for completion, text in zip(completions, texts, strict=True)
                ]
            )
        judged = zip(completions, texts, verifications, strict=True)
        return [
            Rollout(prompt, sample, completion, text, found, reward(found) if found else None)
            for sample, (completion, text, found) in enumerate(judged)
        ]


def response_row(rollout: Rollout) -> dict[str, Any]:
    """Return a response as the JSONL row that train, eval and sample write."""
    problem, verification = rollout.prompt.problem, rollout.verification
    row: dict[str, Any] = {
        "id": problem.id,
        "sample": rollout.sample,
        "problem": problem.problem,
        "prompt": rollout.prompt.text,
        "response": rollout.text,
        "finish_reason": rollout.completion.finish_reason,
        "n_tokens": len(rollout.completion.token_ids),
        "answer": problem.answer,
    }
    if verification is not None:
        row |= {
            "extracted": verification.extracted,
            "verdict": verification.verdict.value,
            "format_ok": verification.format_ok,
            "reward": rollout.reward,
            "verifier": verification.format,
        }
    if rollout.rewards:
        row["rewards"] = rollout.rewards
    known = {*ROW_KEYS, *row}
    return row | {key: value for key, value in problem.extra.items() if key not in known}
