"""The interface of a rollout engine."""

from collections.abc import Callable, Generator, Iterable, Sequence

import torch

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Completion, SamplingParams

Listener = Callable[[int], None]
"""A callback for every token id as it is drawn, of all responses."""


class Engine:
    """A source of responses, from a copy of the policy or the trainer's model if shared."""

    name: str
    """The library that samples, as it is imported."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        params: SamplingParams,
        seeds: Sequence[int],
        listener: Listener | None = None,
    ) -> Generator[tuple[int, list[Completion]]]:
        """Yield (prompt index, its G completions) as groups finish, in any order.

        Sample i of prompt p is drawn with seed `seeds[p] + i` and does not depend on what else is
        sampled beside it, up to float rounding. Closing the iterator gives up the groups that are
        not done. Raises UserError for a prompt without a token, one that leaves no room for
        `max_tokens`, and for probabilities that are not finite.
        """
        raise NotImplementedError

    def sync_weights(self, named_parameters: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Copy the trainer's weights; call only while nothing is being generated."""
        raise NotImplementedError

    def sleep(self) -> None:
        """Free memory for the update; weights may be lost: then `sync_weights`, then `wake`."""

    def wake(self) -> None:
        """Prepare to generate again."""

    def close(self) -> None:
        """Free all resources."""


def refuse_prompts(prompts: Sequence[Sequence[int]], max_tokens: int, context: int) -> None:
    """Raise UserError naming the first prompt that cannot be continued."""
    for index, prompt in enumerate(prompts):
        if not prompt:
            raise UserError(f"prompt {index + 1} of {len(prompts)} is empty: it holds no token")
        if len(prompt) + max_tokens > context:
            raise UserError(
                f"prompt {index + 1} of {len(prompts)} has {len(prompt)} tokens, which with a "
                f"response of {max_tokens} is more than the engine's context of {context}; lower "
                "--max-tokens or leave the prompt out"
            )
