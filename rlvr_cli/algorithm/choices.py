"""The choices that make an algorithm, and the table of presets.

A kind names a component (`advantage.TOKEN_ADVANTAGES`, `objective.SURROGATES`, …) and has the cells
that the component takes, so that a cell without a meaning cannot be written. To add one: the
function there, and its class here. What is left of contradictions is refused by name.
"""

from importlib import resources
from typing import Annotated, ClassVar, Literal

import yaml
from pydantic import Field, model_validator

from rlvr_cli.core.settings import Choice, Section, describe, setting

_ByKind = Field(discriminator="kind")
Gamma = Annotated[float, Field(gt=0, le=1)]


class Critic(Choice):
    """A value head on a copy of the policy's body (own), or on the body itself (shared)."""

    kind: Literal["own", "shared"] = "own"
    coef: float = Field(0.5, gt=0)
    """The weight of the value loss."""
    clip: float | None = Field(None, gt=0)
    """The largest move of a value from the one before the update; none means unbounded."""
    warmup: int = Field(0, ge=0)
    """The number of first steps in which only the critic learns."""
    cut_off_value: Literal["zero", "bootstrap"] = "zero"
    """The value after a response that was cut off (after a true end it is 0)."""


class Advantage(Choice):
    """The estimator that turns rewards into one number per token."""

    needs_group: ClassVar[bool] = False
    """Whether the baseline is the group of responses to the prompt: one advantage per response."""
    is_likelihood: ClassVar[bool] = False
    """Whether it is 1 for every response that trains: maximum likelihood, without a baseline."""


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


class Likelihood(Advantage):
    """1 for right responses, and no others train (right_only); or 1 for every response, which then
    comes from the data's rows (one)."""

    is_likelihood: ClassVar[bool] = True
    kind: Literal["right_only", "one"]


class Surrogate(Choice):
    """The objective of a token, to be maximized."""

    is_of_response: ClassVar[bool] = False
    """Whether there is one ratio per response, which needs one advantage per response."""


class Unclipped(Surrogate):
    kind: Literal["policy_gradient", "ratio"]


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
    """The third clip: for A < 0 the surrogate is at least this times A."""


class SequenceClip(_Clipping):
    is_of_response: ClassVar[bool] = True
    kind: Literal["sequence_clip"] = "sequence_clip"
    low: float = Field(3e-4, ge=0, le=1)
    high: float = Field(4e-4, ge=0)


class Cispo(_Clipping):
    kind: Literal["cispo"] = "cispo"
    low: float = Field(1.0, ge=0, le=1)
    high: float = Field(4.0, ge=0)


class Sapo(Surrogate):
    kind: Literal["sapo"] = "sapo"
    tau_pos: float = Field(1.0, gt=0)
    """The temperature of the gate where A > 0: the higher, the faster it closes."""
    tau_neg: float = Field(1.05, gt=0)
    """The temperature of the gate elsewhere."""


class Vespo(Surrogate):
    is_of_response: ClassVar[bool] = True
    kind: Literal["vespo"] = "vespo"
    k_pos: float = Field(2.0, ge=0)
    """The power of the weight where A >= 0."""
    lam_pos: float = Field(3.0, gt=0)
    """The rate at which the weight decays where A >= 0."""
    k_neg: float = Field(3.0, ge=0)
    """The power of the weight where A < 0."""
    lam_neg: float = Field(2.0, gt=0)
    """The rate at which the weight decays where A < 0."""


class Gmpo(Surrogate):
    is_of_response: ClassVar[bool] = True
    kind: Literal["gmpo"] = "gmpo"
    low: float = Field(0.4, ge=0)
    """The lower clip of a token's ratio, exp(-low)."""
    high: float = Field(0.4, ge=0)
    """The upper clip of a token's ratio, exp(high)."""


class TruncatedWeights(Choice):
    """Weights for the gap between engine's and trainer's log-probabilities, cut at a cap."""

    kind: Literal["truncate"] = "truncate"
    cap: float = Field(2.0, gt=1)
    """The largest weight."""


class MaskedWeights(Choice):
    """The same weights, 0 outside two bounds; IcePop's by default."""

    kind: Literal["mask"] = "mask"
    low: float = Field(0.5, ge=0, le=1)
    """The smallest weight that is kept."""
    high: float = Field(5.0, ge=1)
    """The largest weight that is kept."""


class FixedReference(Choice):
    """A reference that never changes: the start policy, or the one that sampled the batch."""

    kind: Literal["fixed", "old"] = "fixed"


class IterativeReference(Choice):
    """A reference that follows the policy: every so many steps it becomes
    mix policy + (1 - mix) reference, by weights. GRPO, arXiv:2402.03300, section 4.1.4 (mix 1);
    Gorbatovski et al. 2024, arXiv:2404.09656 (soft: mix 0.6 every step; hard: mix 1)."""

    kind: Literal["iterative"] = "iterative"
    every: int = Field(50, ge=1)
    """The number of steps from one renewal to the next."""
    mix: float = Field(1.0, gt=0, le=1)
    """The share of the policy's weights in the renewed reference."""
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

    number: ClassVar[str] = "coef"
    kind: Literal["k1", "k2", "k3", "k3_k2"] = "k3"
    coef: float = Field(0.04, gt=0)
    """The coefficient of the penalty."""
    place: Literal["loss", "reward"] = "loss"
    """Where the penalty is subtracted: in the loss, or from the reward of each token."""
    reference: Annotated[FixedReference | IterativeReference, _ByKind] = FixedReference()
    """The policy that the divergence is measured from."""
    control: KLControl | None = None
    """The adaptation of the coefficient; none keeps it constant."""

    @property
    def controls_own(self) -> bool:
        """Return whether the coefficient follows the updates' divergence (PPO's penalty form)."""
        return self.reference.kind == "old" and self.control is not None


class Mixed(Choice):
    """Dynamic sampling: only groups that differ in a metric train; the batch is refilled, and what
    is beyond it is carried over to the next step."""

    kind: Literal["mixed"] = "mixed"
    metric: str = "accuracy"
    """What differs: accuracy (some right, some wrong), reward (the sum), or one by its name."""
    max_gen_batches: int = Field(4, ge=0)
    """The most rounds of sampling a step to fill its batch with groups that pass; 0: no limit."""
    on_cap: Literal["train", "skip", "stop"] = "train"
    """When the cap is reached: train on what there is, skip the update, or stop the run."""


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

    advantage: Annotated[Gae | GroupNormalized | GroupBaseline | Return | Likelihood, _ByKind] = (
        GroupNormalized()
    )
    whiten: bool = False
    """Whether to whiten advantages over all tokens, after the returns are taken."""
    surrogate: Annotated[
        Unclipped | Clip | DualClip | SequenceClip | Cispo | Sapo | Vespo | Gmpo, _ByKind
    ] = Clip()
    aggregation: Literal["token_mean", "sequence_mean", "sequence_sum", "constant_length"] = (
        "token_mean"
    )
    """How the loss of a batch is averaged over its tokens and responses."""
    top_entropy: float | None = Field(None, gt=0, lt=1)
    """The share of the batch's tokens with an advantage, by highest entropy; none means all."""
    importance_correction: Annotated[TruncatedWeights | MaskedWeights | None, _ByKind] = None
    """Importance weights that correct the gap between the engine's and the trainer's
    log-probabilities."""
    kl: KL | None = setting(None, flag="--kl", metavar="COEF")
    """A penalty on the divergence from a reference policy, by the name of its estimator; k3_k2 has
    the value of k3 and the gradient of k2. A number is its coefficient: 0 is none, and where there
    is no penalty so far it is k3 in the loss."""
    epochs: int = Field(1, ge=1)
    """The number of passes over a step's batch."""
    mini_batches: int = Field(1, ge=1)
    """The number of optimizer steps per epoch, each on an equal share of the responses; with fewer
    responses, one per response."""
    target_kl: float | None = Field(None, gt=0)
    """The approx_kl after an epoch beyond which no further epoch follows, in nats per token."""
    entropy_coef: float = Field(0.0, ge=0)
    """The coefficient of the entropy bonus."""
    filter: Mixed | None = None
    """The filter of dynamic sampling; none means that all groups train, sampled once."""
    overlong: Annotated[SoftOverlong | MaskOverlong, _ByKind] | None = None
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
        """Return the reference that the policy replaces every so many steps; else None."""
        reference = self.kl.reference if self.kl is not None else None
        return reference if isinstance(reference, IterativeReference) else None

    @property
    def masks_cut_off(self) -> bool:
        """Return whether cut-off responses are left out of training."""
        return isinstance(self.overlong, MaskOverlong)

    @property
    def reads_responses(self) -> bool:
        """Return whether the responses are those of the data's rows, in the engine's place."""
        return self.advantage.kind == "one"

    @property
    def rewards_kl(self) -> bool:
        """Return whether the divergence is subtracted from the rewards, before the updates."""
        return self.kl is not None and self.kl.place == "reward"

    @model_validator(mode="after")
    def _fits_together(self) -> "Algorithm":
        for message, is_so in contradictions(self).items():
            if is_so:
                raise ValueError(message)
        return self

    def __str__(self) -> str:
        return describe(self)


def contradictions(a: Algorithm) -> dict[str, bool]:
    """Return what is wrong with choices that are valid each on its own, and whether it is so."""
    advantage, surrogate, kl = a.advantage.kind, a.surrogate.kind, a.kl
    is_on_policy = surrogate == "policy_gradient"  # its gradient is that of the present policy's
    is_of_response = a.surrogate.is_of_response
    is_from_old = kl is not None and not a.has_reference_model  # the policy that sampled
    return {
        "algorithm.advantage one: its responses are not sampled; use surrogate policy_gradient, "
        "without filter and importance_correction": (
            a.reads_responses and not (is_on_policy and a.filter is a.importance_correction is None)
        ),
        f"algorithm.advantage {advantage} reads no rewards: algorithm.kl.place reward and "
        "algorithm.overlong soft would do nothing; use place loss, or overlong mask": (
            a.advantage.is_likelihood and (a.rewards_kl or isinstance(a.overlong, SoftOverlong))
        ),
        "algorithm.kl k1 with algorithm.kl.place loss: its gradient is 0 on average; use k2 or "
        "k3_k2, or place reward": (
            kl is not None and (kl.kind, kl.place, is_from_old) == ("k1", "loss", False)
        ),
        "algorithm.kl.reference old with algorithm.kl.place reward: the policy that sampled does "
        "not differ from itself; use place loss or another reference": is_from_old and a.rewards_kl,
        "algorithm.kl.reference old with one update a batch (algorithm.epochs 1, "
        "algorithm.mini_batches 1): the policy has not moved yet; take more": (
            is_from_old and a.updates == 1
        ),
        f"algorithm.target_kl {a.target_kl} with algorithm.epochs 1: there is no later epoch to "
        "leave out; take more epochs, or target_kl null": a.target_kl is not None and a.epochs == 1,
        f"algorithm.surrogate {surrogate} with algorithm.advantage {advantage}: the ratio of a "
        "whole response needs one advantage a response; use a group advantage": (
            is_of_response and not a.advantage.needs_group
        ),
        f"algorithm.surrogate {surrogate} with several updates a batch (algorithm.epochs "
        f"{a.epochs}, algorithm.mini_batches {a.mini_batches}): after the first the samples are "
        "another policy's; use ratio or clip": (
            is_on_policy and a.updates > 1 and not a.reads_responses
        ),
        f"algorithm.surrogate {surrogate} with algorithm.filter mixed: groups that are carried "
        "over are another policy's samples; use ratio or clip": (
            is_on_policy and a.filter is not None
        ),
        f"algorithm.surrogate {surrogate} with algorithm.top_entropy {a.top_entropy}: the ratio of "
        "a whole response has no tokens to choose from; use clip, or top_entropy null": (
            is_of_response and a.top_entropy is not None
        ),
        f"algorithm.advantage {advantage} with algorithm.whiten: advantages that are all 1 have no "
        "deviation; leave whiten out": a.advantage.is_likelihood and a.whiten,
    }


_TABLE = resources.files("rlvr_cli") / "algorithm" / "presets.yaml"
ALGORITHMS: dict[str, Algorithm] = {
    name: Algorithm.model_validate(row)
    for name, row in yaml.safe_load(_TABLE.read_text(encoding="utf-8")).items()
}
"""The presets. Every cell can be overridden on its own, `--set algorithm.surrogate.high=0.3`, and
every choice by the name of another kind, `--set algorithm.surrogate=cispo`."""


def without_ratio(algo: Algorithm) -> str | None:
    """Say that the surrogate's ratio does nothing; None where it matters: with several updates a
    batch, or groups carried over."""
    if algo.updates > 1 or algo.filter is not None or algo.surrogate.kind == "policy_gradient":
        return None
    return (
        f"one update a batch: every ratio is 1, so {algo.surrogate.kind} is policy_gradient; "
        "algorithm.mini_batches or epochs make it differ"
    )
