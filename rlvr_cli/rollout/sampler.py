"""Sample G responses to each prompt, and have them judged and rewarded."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithm.reward import RewardConfig, by_verdict
from rlvr_cli.core.signals import raise_if_interrupted
from rlvr_cli.core.types import Completion, Group, Prompt, Rollout, SamplingParams
from rlvr_cli.ranks.group import share, world
from rlvr_cli.rewards.majority import with_majority
from rlvr_cli.rollout.engines.base import CompletionStream, Engine, Listener
from verifiers import Verifier

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rlvr_cli.rewards.rewarder import Pending, Rewarder


@dataclass
class Sampler:
    """The engine, tokenizer and verifier that turn prompts into judged groups."""

    engine: Engine
    tokenizer: "PreTrainedTokenizerBase"
    verifier: Verifier
    seconds: float = 0.0
    """Seconds spent on detokenizing and verdicts since the start."""

    def stream(
        self,
        prompts: Sequence[Prompt],
        params: SamplingParams,
        seeds: Sequence[int],
        listener: Listener | None = None,
    ) -> CompletionStream:
        """Return a stream of the completions of this process's share of the prompts.

        Nothing is sampled before the stream is read.
        """
        token_ids = [prompt.token_ids for prompt in share(prompts)]
        return self.engine.generate(token_ids, params, share(seeds), listener)

    def judge(
        self,
        prompts: Sequence[Prompt],
        stream: CompletionStream,
        rewarder: "Rewarder | None" = None,
        weight_version: int = 0,
        on_group: Callable[[Group], None] = lambda group: None,
    ) -> list[Group]:
        """Judge and reward completions as they are sampled, and return the groups of all processes.

        They are in the order of the prompts. `on_group` gets each one when it is finished.
        """
        groups = self.judge_some(prompts, stream, rewarder, weight_version, on_group)
        return [groups[index] for index in range(len(prompts))]

    def judge_some(
        self,
        prompts: Sequence[Prompt],
        stream: CompletionStream,
        rewarder: "Rewarder | None",
        weight_version: int,
        on_group: Callable[[Group], None],
    ) -> dict[int, Group]:
        """Judge as `judge` does what the stream has. Return the groups by the index of their
        prompt, since not all of them may have ended."""
        groups: dict[int, Group] = {}
        judged = self._judge_stream(prompts, stream, rewarder, weight_version)
        if world() > 1:
            from rlvr_cli.ranks.exchange import exchange_groups

            judged = exchange_groups(prompts, judged)
        with closing(stream):  # after an error or a signal the engine gives up the rest
            for index, group in judged:
                groups[index] = group
                on_group(group)
        return groups

    def _judge_stream(
        self,
        prompts: Sequence[Prompt],
        stream: CompletionStream,
        rewarder: "Rewarder | None",
        weight_version: int,
    ) -> Iterator[tuple[int, Group]]:
        """Yield this process's groups, each as (prompt index, group), in the order of sampling.

        The custom functions run on a group while the next ones are sampled. Without a rewarder the
        verdicts alone are rewarded.
        """
        indices = share(range(len(prompts)))
        queue: deque[tuple[int, Group, list[Pending]]] = deque()
        for position, completions in stream:
            raise_if_interrupted()
            started = time.perf_counter()
            index = indices[position]
            reward = None if rewarder is None else rewarder.config
            group = self._judged_group(prompts[index], completions, weight_version, reward)
            self.seconds += time.perf_counter() - started
            if rewarder is None:
                yield index, by_verdict(group)
                continue
            texts = [rollout.text for rollout in group.rollouts]
            queue.append((index, group, rewarder.start(group.prompt.problem, texts)))
            while queue and all(future.done() for future in queue[0][2]):
                index, group, pending = queue.popleft()
                yield index, rewarder.reward(group, pending)
        for index, group, pending in queue:
            assert rewarder is not None
            yield index, rewarder.reward(group, pending)

    def _judged_group(
        self,
        prompt: Prompt,
        completions: Sequence[Completion],
        weight_version: int,
        reward: RewardConfig | None,
    ) -> Group:
        """Detokenize the completions of a prompt. Judge them if the problem has an answer, and let
        them vote if the majority is rewarded."""
        token_ids = [list(completion.token_ids) for completion in completions]
        texts = self.tokenizer.batch_decode(token_ids, skip_special_tokens=True)
        pairs = zip(completions, texts, strict=True)
        rollouts = [
            Rollout.of(prompt, sample, completion, text)
            for sample, (completion, text) in enumerate(pairs)
        ]
        attempts = [rollout.attempt for rollout in rollouts]
        if prompt.problem.answer is not None:
            verifications = self.verifier.verify_many(attempts)
            rollouts = [
                replace(rollout, verification=verification)
                for rollout, verification in zip(rollouts, verifications, strict=True)
            ]
        group = Group(prompt, tuple(rollouts), weight_version)
        if reward is not None and reward.has_majority:
            group = with_majority(group, attempts, self.verifier, reward)
        return group

    def decode(self, token_ids: list[int]) -> str:
        """Return the text of a response."""
        return str(self.tokenizer.decode(token_ids, skip_special_tokens=True))
