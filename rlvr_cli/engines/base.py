"""What every rollout engine does."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import torch

from rlvr_cli.types import Completion, SamplingParams


class Engine(Protocol):
    """Samples responses from a copy of the policy, or from the trainer's where they share it."""

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int]
    ) -> Iterator[tuple[int, list[Completion]]]:
        """Yield (prompt index, its G completions) as groups finish, in any order.

        Sample i of prompt p is drawn with seed `seeds[p] + i` and does not depend on what else is
        sampled beside it, up to float rounding. Prompts are token ids and hold at least one.
        """

    def sync_weights(self, named_parameters: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Take over the trainer's weights; call only while nothing is being generated."""

    def sleep(self) -> None:
        """Free what the update can use; nothing is generated until `wake`."""

    def wake(self) -> None:
        """Make ready to generate again."""

    def close(self) -> None:
        """Free everything."""
