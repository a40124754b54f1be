"""The choices that make an algorithm. Each kind has its own cells, so that a cell without a meaning
cannot be written; what is left of contradictions between choices is refused by name.

A kind names a component (`advantage.ADVANTAGES`, `objective.SURROGATES`, `kl.ESTIMATORS`, …). To
add one: the function there, and here its class with the cells that the function takes.
"""

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from rlvr_cli.core.settings import Choice, Section, describe

Gamma = Annotated[float, Field(gt=0, le=1)]
"""The discount of a token."""


class Critic(Choice):
    """A value head on a copy of the policy's body (own), or on the body itself (shared)."""

    kind: Literal["own", "shared"] = "own"
    coef: float = Field(0.5, gt=0)
    """The weight of the value loss."""
    clip: float | None = Field(None, gt=0)
    """The largest move of a value from the one before the update; none means unbounded."""
    warmup: int = Field(0, ge=0)
    """Steps in which only the critic learns."""
    cut_off_value: Literal["zero", "bootstrap"] = "zero"
    """V after a response that was cut off (it is 0 after a true end)."""


class Advantage(Choice):
    """The estimator that turns rewards into one number per token."""

    needs_group: ClassVar[bool] = False
    """Whether the baseline is the group of responses to the prompt: one advantage per response."""


class Gae(Advantage):
    kind: Literal["gae"] = "gae"
    gamma: Gamma = 1.0
    """The discount of a token."""
    lam: float = Field(0.95, ge=0, le=1)
    """The lambda of generalized advantage estimation."""
    critic: Critic = Critic()


class GroupNormalized(Advantage):
    needs_group: ClassVar[bool] = True
    kind: Literal["group_normalized"] = "group_normalized"
    deviation: Literal["sample", "population"] = "sample"
    """The divisor of the group: the n-1 or the n standard deviation."""


class GroupBaseline(Advantage):
    needs_group: ClassVar[bool] = True
    kind: Literal["group_centered", "leave_one_out"]


class Return(Advantage):
    """The reward-to-go, optionally less its mean over the batch."""

    kind: Literal["return", "batch_baseline"]
    gamma: Gamma = 1.0
    """The discount of a token."""


class Surrogate(Choice):
    """The objective of a token, to be maximized."""

    is_on_policy: ClassVar[bool] = False
    """Whether the gradient is valid only for samples of the current policy."""
    is_of_response: ClassVar[bool] = False
    """Whether there is one ratio per response, which needs one advantage per response."""


class PolicyGradient(Surrogate):
    is_on_policy: ClassVar[bool] = True
    kind: Literal["policy_gradient"] = "policy_gradient"


class Ratio(Surrogate):
    kind: Literal["ratio"] = "ratio"


class _Clipping(Surrogate):
    low: float = Field(0.2, ge=0, le=1)
    """The lower clip: the ratio is clipped at 1 - low."""
    high: float = Field(0.2, ge=0)
    """The upper clip: the ratio is clipped at 1 + high."""


class Clip(_Clipping):
    kind: Literal["clip"] = "clip"


class DualClip(_Clipping):
    kind: Literal["dual_clip"] = "dual_clip"
    dual: float = Field(3.0, gt=1)
    """For A < 0 the surrogate is at least this times A."""


class SequenceClip(_Clipping):
    is_of_response: ClassVar[bool] = True
    kind: Literal["sequence_clip"] = "sequence_clip"
    low: float = Field(3e-4, ge=0, le=1)
    high: float = Field(4e-4, ge=0)


class Cispo(_Clipping):
    kind: Literal["cispo"] = "cispo"
    low: float = Field(1.0, ge=0, le=1)
    high: float = Field(4.0, ge=0)


class ImportanceCorrection(Choice):
    """Weights for the gap between the engine's and the trainer's log-probabilities."""

    kind: Literal["truncate", "mask"]
    cap: float = Field(2.0, gt=1)
    """The largest weight."""


class FixedReference(Choice):
    """A reference that never changes: the start policy, or the one that sampled the batch."""

    kind: Literal["fixed", "old"] = "fixed"


class IterativeReference(Choice):
    """A reference that is the policy of some steps ago. GRPO, arXiv:2402.03300, section 4.1.4."""

    kind: Literal["iterative"] = "iterative"
    every: int = Field(50, ge=1)
    """Steps from one renewal to the next."""
    resets_optimizer: bool = False
    """Whether a renewal makes the optimizer forget its moments."""


class KLControl(Choice):
    """The rule by which the coefficient follows the measured divergence (`kl.CONTROLS`)."""

    kind: Literal["proportional", "doubling"]
    target: float = Field(gt=0)
    """The divergence to steer to, in nats a token; Ziegler et al. count a whole response's."""


class KL(Choice):
    """A penalty on the divergence from a reference policy. The kind is its estimator; k3_k2 has the
    value of k3 and the gradient of k2."""

    kind: Literal["k1", "k2", "k3", "k3_k2"] = "k3"
    coef: float = Field(0.04, gt=0)
    """The coefficient of the penalty."""
    place: Literal["loss", "reward"] = "loss"
    """Where the penalty is subtracted: in the loss, or from the reward of each token."""
    reference: Annotated[FixedReference | IterativeReference, Field(discriminator="kind")] = (
        FixedReference()
    )
    """The policy that the divergence is measured from."""
    control: KLControl | None = None
    """The adaptation of the coefficient; none keeps it constant."""

    @property
    def controls_own(self) -> bool:
        """Return whether the coefficient follows how far the updates moved the policy (PPO's
        penalty form)."""
        return self.reference.kind == "old" and self.control is not None


class Mixed(Choice):
    """Dynamic sampling: only groups with right and wrong responses train, and the batch is
    refilled."""

    kind: Literal["mixed"] = "mixed"
    max_gen_batches: int = Field(4, ge=1)
    """The most rounds of sampling per step to fill its batch with groups that pass the filter."""
    on_cap: Literal["train", "skip", "stop"] = "train"
    """When the cap is reached: train on what there is, skip the update, or stop the run."""
    surplus: Literal["carry", "abort"] = "carry"
    """Prompts beyond those that fill a batch: finished, and their groups carried over to the next
    step; or given up, in the order of the prompts and not of their ends, and drawn again."""


class SoftOverlong(Choice):
    """DAPO's length penalty."""

    kind: Literal["soft"] = "soft"
    cache: float = Field(0.2, gt=0, le=1)
    """The share of the longest length over which the penalty falls from 0 to -1."""


class MaskOverlong(Choice):
    """The masking of cut-off responses, which do not train."""

    kind: Literal["mask"] = "mask"


class Algorithm(Section):
    """All choices and numbers that make an algorithm: one row of the table of presets."""

    advantage: Annotated[
        Gae | GroupNormalized | GroupBaseline | Return, Field(discriminator="kind")
    ] = GroupNormalized()
    whiten: bool = False
    """Whether to whiten advantages over all tokens, after the returns are taken."""
    surrogate: Annotated[
        PolicyGradient | Ratio | Clip | DualClip | SequenceClip | Cispo,
        Field(discriminator="kind"),
    ] = Clip()
    aggregation: Literal["token_mean", "sequence_mean", "sequence_sum", "constant_length"] = (
        "token_mean"
    )
    """How the loss of a batch is averaged over its tokens and responses."""
    importance_correction: ImportanceCorrection | None = None
    kl: KL | None = None
    epochs: int = Field(1, ge=1)
    """Passes over a step's batch."""
    mini_batches: int = Field(1, ge=1)
    """Optimizer steps an epoch, each on its own share of the responses."""
    target_kl: float | None = Field(None, gt=0)
    """Epochs end early once approx_kl, taken after each, is past this (nats a token)."""
    entropy_coef: float = Field(0.0, ge=0)
    """The coefficient of the entropy bonus."""
    filter: Mixed | None = None
    """Which groups train; none means all, sampled once."""
    overlong: Annotated[SoftOverlong | MaskOverlong, Field(discriminator="kind")] | None = None
    """The treatment of responses that reach the longest length."""

    @property
    def critic(self) -> Critic | None:
        return self.advantage.critic if isinstance(self.advantage, Gae) else None

    @property
    def updates(self) -> int:
        """Return the number of optimizer steps per batch, if no epoch is cut short."""
        return self.epochs * self.mini_batches

    @property
    def has_reference_model(self) -> bool:
        """Return whether a second set of weights is kept."""
        return self.kl is not None and self.kl.reference.kind != "old"

    @property
    def renewal(self) -> IterativeReference | None:
        """Return the iterative reference, which the policy replaces every so many steps; else
        None."""
        reference = self.kl.reference if self.kl is not None else None
        return reference if isinstance(reference, IterativeReference) else None

    @property
    def masks_cut_off(self) -> bool:
        """Return whether cut-off responses are left out of training."""
        return isinstance(self.overlong, MaskOverlong)

    @property
    def rewards_kl(self) -> bool:
        """Return whether the divergence is subtracted from the rewards, before the updates."""
        return self.kl is not None and self.kl.place == "reward"

    @model_validator(mode="after")
    def _validate(self) -> "Algorithm":
        for is_wrong, message in CONTRADICTIONS:
            if is_wrong(self):
                raise ValueError(message.format(a=self))
        return self

    def __str__(self) -> str:
        return describe(self)


CONTRADICTIONS: tuple[tuple[Callable[[Algorithm], bool], str], ...] = (
    (
        lambda a: (
            a.kl is not None and (a.kl.kind, a.kl.place) == ("k1", "loss") and a.has_reference_model
        ),
        "algorithm.kl k1 with algorithm.kl.place loss: its gradient is 0 on average; use k2 or "
        "k3_k2, or place reward",
    ),
    (
        lambda a: a.rewards_kl and not a.has_reference_model,
        "algorithm.kl.reference old with algorithm.kl.place reward: the policy that sampled does "
        "not differ from itself; use place loss or another reference",
    ),
    (
        lambda a: a.kl is not None and not a.has_reference_model and a.updates == 1,
        "algorithm.kl.reference old with one update a batch (algorithm.epochs 1, "
        "algorithm.mini_batches 1): the policy has not moved yet; take more",
    ),
    (
        lambda a: a.target_kl is not None and a.epochs == 1,
        "algorithm.target_kl {a.target_kl:g} with algorithm.epochs 1: there is no later epoch to "
        "leave out; take more epochs, or target_kl null",
    ),
    (
        lambda a: a.surrogate.is_of_response and not a.advantage.needs_group,
        "algorithm.surrogate {a.surrogate.kind} with algorithm.advantage {a.advantage.kind}: the "
        "ratio of a whole response needs one advantage a response; use a group advantage",
    ),
    (
        lambda a: a.surrogate.is_on_policy and a.updates > 1,
        "algorithm.surrogate {a.surrogate.kind} with several updates a batch (algorithm.epochs "
        "{a.epochs}, algorithm.mini_batches {a.mini_batches}): after the first the samples are "
        "another policy's; use ratio or clip",
    ),
    (
        lambda a: a.surrogate.is_on_policy and a.filter is not None,
        "algorithm.surrogate {a.surrogate.kind} with algorithm.filter {a.filter.kind}: groups that "
        "are carried over are another policy's samples; use ratio or clip",
    ),
)
"""Choices that are valid each on its own but not together."""
