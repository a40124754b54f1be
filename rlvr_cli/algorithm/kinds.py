"""Declare choices with their kinds, so that no setting is without a meaning.

The kinds of advantages, surrogates, KL estimators and filters stand beside their functions, which
`register` puts into a table (`token_advantage`, `group_advantage`, `objective`, `kl`, `filters`).
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rlvr_cli.core.settings import Choice, CustomChoice, Kinds

ByKind = Field(discriminator="kind")
Gamma = Annotated[float, Field(gt=0, le=1)]


class Critic(Choice):
    """A value head on a copy of the policy's body (own), or on the body itself (shared)."""

    kind: Literal["own", "shared"] = "own"
    coef: float = Field(0.5, gt=0)
    """Weight of the value loss."""
    clip: float | None = Field(None, gt=0)
    """Largest move of a value away from its value before the update. None means unbounded."""
    warmup: int = Field(0, ge=0)
    """Number of first steps in which only the critic learns."""
    lam: float | None = Field(None, ge=0, le=1)
    """Lambda of the returns that the critic learns. None means that of the advantages."""
    cut_off_value: Literal["zero", "bootstrap"] = "zero"
    """Value after a response that was cut off (after a true end it is 0)."""


class Advantage(Choice):
    """The estimator that turns rewards into one number per token."""

    registered: ClassVar[Kinds] = {}
    needs_group: ClassVar[bool] = False
    """Whether the baseline is the group of responses to the prompt: one advantage per response."""
    is_likelihood: ClassVar[bool] = False
    """Whether it is 1 for every response that trains: maximum likelihood, without a baseline."""
    reads_rewards: ClassVar[bool] = True
    """Whether the reward of the response is a part of it."""
    has_baseline: ClassVar[bool] = True
    """Whether equal rewards give no gradient."""

    @property
    def is_by_token(self) -> bool:
        """Return whether each token has a reward of its own."""
        return self.reads_rewards and not self.needs_group


class CustomAdvantage(CustomChoice, Advantage):
    """A custom estimator, called as those of `group_advantage.GROUP_ADVANTAGES` or, for each
    token, `token_advantage.TOKEN_ADVANTAGES` are."""

    kind: Literal["custom"] = "custom"
    baselines: ClassVar[dict[str, bool]] = {}
    """Whether a function gave 0 for equal rewards when it was tried (`parts.load_parts`)."""
    per: Literal["response", "token"] = "response"
    """What it returns a number for: each response of a group, or each token of the batch."""

    @property
    def needs_group(self) -> bool:  # type: ignore[override]
        """Return whether it compares the responses to one prompt."""
        return self.per == "response"

    @property
    def has_baseline(self) -> bool:  # type: ignore[override]
        """Return whether equal rewards gave no gradient when it was tried. An estimator of tokens
        is not asked."""
        return self.baselines.get(self.component, False)


def advantages_by_token() -> list[str]:
    """Return the kinds of advantages for which each token has a reward of its own."""
    return [
        name
        for name, advantage in Advantage.registered.items()
        if issubclass(advantage, Advantage)
        and advantage.reads_rewards
        and not advantage.needs_group
    ]


class Surrogate(Choice):
    """The objective of a token, to be maximized."""

    registered: ClassVar[Kinds] = {}
    has_response_ratio: ClassVar[bool] = False
    """Whether there is one ratio per response, which needs one advantage per response."""


class CustomSurrogate(CustomChoice, Surrogate):
    """A custom objective, called as those of `objective.SURROGATES` are."""

    kind: Literal["custom"] = "custom"
    per: Literal["token", "response"] = "token"
    """What has one ratio. One of a whole response needs one advantage per response."""

    @property
    def has_response_ratio(self) -> bool:  # type: ignore[override]
        """Return whether there is one ratio per response."""
        return self.per == "response"


class Correction(Choice):
    """Weights for the gap between the trainer's and the engine's log-probabilities."""

    rejects: ClassVar[bool] = False
    """Whether whole responses are rejected: they train nothing and leave the denominators. The
    baseline of their group counts them, because their rewards are as true as the others'."""


class AutoCorrection(Correction):
    """none if engine and trainer both compute in float32 and no token is older than its step, else
    truncate.

    In 16 bits the gap of one token has a mean near 0 and a deviation of some hundredths of a nat.
    A bound on the mean or the product over a response therefore rejects by length, one on a token
    does not (`benchmarks/precision.py`). Older weights move single tokens far: their weight is cut.
    """

    kind: Literal["auto"] = "auto"


class TruncatedWeights(Correction):
    """Weights of tokens, or the product over a response for all of its tokens, cut at a cap."""

    kind: Literal["truncate", "sequence_truncate"] = "truncate"
    cap: float = Field(2.0, gt=1)
    """Largest weight."""


class MaskedWeights(Correction):
    """Weights of tokens, 0 outside two bounds, by default IcePop's."""

    kind: Literal["mask"] = "mask"
    low: float = Field(0.5, ge=0, le=1)
    """Smallest weight that is not masked."""
    high: float = Field(5.0, ge=1)
    """Largest weight that is not masked."""


class SequenceMask(Correction):
    """The product over a response as the weight of its tokens. Outside two bounds the response is
    rejected. TRL's bound by default."""

    rejects: ClassVar[bool] = True
    kind: Literal["sequence_mask"] = "sequence_mask"
    low: float = Field(0.0, ge=0, le=1)
    """Smallest product of a response that trains."""
    high: float = Field(3.0, ge=1)
    """Largest product of a response that trains."""


class GeometricMask(Correction):
    """A response is rejected if the geometric mean of its weights is outside two bounds, by default
    SkyRL's."""

    rejects: ClassVar[bool] = True
    kind: Literal["geometric_mask"] = "geometric_mask"
    low: float = Field(0.99, ge=0, le=1)
    """Smallest geometric mean of a response that trains."""
    high: float = Field(1.01, ge=1)
    """Largest geometric mean of a response that trains."""
    weight: Annotated[TruncatedWeights | MaskedWeights | None, ByKind] = None
    """Weights of the tokens of responses that are not rejected. None means 1."""


class FixedReference(Choice):
    """A reference that never changes: the start policy (fixed), the policy that sampled the batch
    (old), or the model of --teacher."""

    kind: Literal["fixed", "old", "teacher"] = "fixed"


class IterativeReference(Choice):
    """A reference that follows the policy: at regular steps its weights become
    mix policy + (1 - mix) reference. GRPO, arXiv:2402.03300, section 4.1.4 (mix 1).
    Gorbatovski et al. 2024, arXiv:2404.09656 (soft: mix 0.6 every step, hard: mix 1)."""

    kind: Literal["iterative"] = "iterative"
    every: int = Field(50, ge=1)
    """Number of steps from one renewal to the next."""
    mix: float = Field(1.0, gt=0, le=1)
    """Share of the policy's weights in the renewed reference."""
    resets_optimizer: bool = False
    """Whether a renewal makes the optimizer forget its moments."""


class KLControl(Choice):
    """The rule by which the coefficient follows the measured divergence (`kl.CONTROLS`)."""

    kind: Literal["proportional", "doubling"]
    target: float = Field(gt=0)
    """Divergence to steer to, in nats a token. Ziegler et al. count a whole response's."""


class SoftOverlong(Choice):
    """DAPO's length penalty."""

    kind: Literal["soft"] = "soft"
    cache: float = Field(0.2, gt=0, le=1)
    """Share of the longest length over which the penalty falls from 0 to -1."""


class MaskOverlong(Choice):
    """The masking of cut-off responses, which do not train."""

    kind: Literal["mask"] = "mask"
