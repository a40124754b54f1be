"""Cut samples into micro-batches that know the denominators of their optimizer step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from rlvr_cli.algorithm.samples import TrainingSample
from rlvr_cli.core.types import by_key
from rlvr_cli.model.packing import ModelInputs, pack, pad
from rlvr_cli.model.policy import Policy
from rlvr_cli.ranks.group import dealt


@dataclass(frozen=True)
class MicroBatch:
    """The samples of one forward pass. Masks come from lengths, never from token ids."""

    samples: Sequence[TrainingSample]
    inputs: ModelInputs
    counts: int = 1
    """0 for a pass that is only made because other processes make one."""
    is_last: bool = True
    """Whether none comes after it."""

    @property
    def mask(self) -> torch.Tensor:
        """Return the mask [B, T]: 1 for response tokens, the end token among them."""
        return self.inputs.mask

    def column(self, name: str) -> torch.Tensor:
        """Return the samples' tensors of this name, [B, T]; 0 in padding and where one has none."""
        out = torch.zeros_like(self.mask)
        for target, sample in zip(out, self.samples, strict=True):
            value = getattr(sample, name)
            if value is not None:
                target[: len(value)] = value
        return out


def batches_for(
    policy: Policy, samples: Sequence[TrainingSample], micro_tokens: int
) -> Iterator[MicroBatch]:
    """Cut samples into forward passes as the policy computes them: packed or padded."""
    return micro_batches(samples, micro_tokens, policy.like, policy.how.packed)


def micro_batches(
    samples: Sequence[TrainingSample], micro_tokens: int, like: torch.Tensor, packed: bool = True
) -> Iterator[MicroBatch]:
    """Cut samples into forward passes of at most `micro_tokens` tokens (at least one sample).

    Packed, responses to one prompt stay together, for the prompt is passed once for all of them;
    responses of like length stay together, for attention pads to the longest. Not packed, each
    sample counts its prompt and its padding. Device and number type are those of `like`, a
    parameter of the model. Of several processes each gets as many as the others.
    """
    cut = _packed_parts if packed else _padded_parts
    lay_out = pack if packed else pad
    parts = dealt(list(cut(samples, micro_tokens)))
    for number, (part, counts) in enumerate(parts, 1):
        prompts, responses = zip(
            *((sample.prompt_ids, sample.response_ids) for sample in part), strict=True
        )
        inputs = lay_out(prompts, responses, like)
        yield MicroBatch(part, inputs, counts, is_last=number == len(parts))


def _packed_parts(
    samples: Sequence[TrainingSample], micro_tokens: int
) -> Iterator[list[TrainingSample]]:
    by_length = sorted(samples, key=lambda sample: len(sample.response_ids))
    groups = by_key(by_length, lambda sample: tuple(sample.prompt_ids))
    part: list[TrainingSample] = []
    tokens = 0
    for prompt, group in sorted(groups.items(), key=lambda item: len(item[1][-1].response_ids)):
        tokens += len(prompt)
        for sample in group:
            if part and tokens + len(sample.response_ids) > micro_tokens:
                yield part
                part, tokens = [], len(prompt)
            part.append(sample)
            tokens += len(sample.response_ids)
    if part:
        yield part


def _padded_parts(
    samples: Sequence[TrainingSample], micro_tokens: int
) -> Iterator[list[TrainingSample]]:
    part: list[TrainingSample] = []
    for sample in sorted(samples, key=_tokens):
        if part and (len(part) + 1) * _tokens(sample) > micro_tokens:
            yield part
            part = []
        part.append(sample)
    if part:
        yield part


def _tokens(sample: TrainingSample) -> int:
    return len(sample.prompt_ids) + len(sample.response_ids)
