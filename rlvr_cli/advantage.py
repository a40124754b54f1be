"""Advantages: from the rewards of a group to one number a response. Pure functions on tensors."""

from collections.abc import Callable

import torch


def group_normalised(rewards_G: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """A_i = (r_i - mean r) / (std r + eps), [G], with the sample (n-1) standard deviation.

    GRPO, Shao et al. 2024, arXiv:2402.03300, section 4.1.2. Raises ValueError for a group of one,
    whose deviation does not exist.
    """
    if len(rewards_G) < 2:
        raise ValueError("a group of one has no advantage: sample at least two responses a prompt")
    return (rewards_G - rewards_G.mean()) / (rewards_G.std() + eps)


ADVANTAGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "group_normalised": group_normalised,
}
