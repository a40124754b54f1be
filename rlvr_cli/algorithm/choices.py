"""The choices that make an algorithm. Each kind has cells of its own (`kinds.py`), so that a cell
without a meaning cannot be written; what is left of contradictions is refused by name."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field, model_validator

from rlvr_cli.algorithm import kinds
from rlvr_cli.core.settings import Section, describe, setting


class Algorithm(Section):
    """All choices and numbers that make an algorithm: one row of the table of presets."""

    advantage: Annotated[
        kinds.Gae | kinds.GroupNormalized | kinds.GroupBaseline | kinds.Return | kinds.Likelihood,
        Field(discriminator="kind"),
    ] = kinds.GroupNormalized()
    whiten: bool = False
    """Whether to whiten advantages over all tokens, after the returns are taken."""
    surrogate: Annotated[
        kinds.PolicyGradient
        | kinds.Ratio
        | kinds.Clip
        | kinds.DualClip
        | kinds.SequenceClip
        | kinds.Cispo
        | kinds.Sapo
        | kinds.Vespo
        | kinds.Gmpo,
        Field(discriminator="kind"),
    ] = kinds.Clip()
    aggregation: Literal["token_mean", "sequence_mean", "sequence_sum", "constant_length"] = (
        "token_mean"
    )
    """How the loss of a batch is averaged over its tokens and responses."""
    top_entropy: float | None = Field(None, gt=0, lt=1)
    """The share of the batch's tokens with an advantage, by highest entropy; none means all."""
    importance_correction: Annotated[
        kinds.TruncatedWeights | kinds.MaskedWeights | None, Field(discriminator="kind")
    ] = None
    """Weights for the gap between the engine's and the trainer's log-probabilities."""
    kl: kinds.KL | None = setting(None, flag="--kl", metavar="COEF")
    """A penalty on the divergence from a reference policy, by the name of its estimator; k3_k2 has
    the value of k3 and the gradient of k2. A number is its coefficient: 0 is none, and where there
    is no penalty so far it is k3 in the loss."""
    epochs: int = Field(1, ge=1)
    """Passes over a step's batch."""
    mini_batches: int = Field(1, ge=1)
    """Optimizer steps an epoch, each on its own share of the responses, as even as it goes; with
    fewer responses, one for each."""
    target_kl: float | None = Field(None, gt=0)
    """Epochs end early once approx_kl, taken after each, is past this (nats a token)."""
    entropy_coef: float = Field(0.0, ge=0)
    """The coefficient of the entropy bonus."""
    filter: kinds.Mixed | None = None
    """Which groups train; none means all, sampled once."""
    overlong: (
        Annotated[kinds.SoftOverlong | kinds.MaskOverlong, Field(discriminator="kind")] | None
    ) = None
    """The treatment of responses that reach the longest length."""

    @property
    def critic(self) -> kinds.Critic | None:
        return self.advantage.critic if isinstance(self.advantage, kinds.Gae) else None

    @property
    def updates(self) -> int:
        """Return the number of optimizer steps per batch, if no epoch is cut short."""
        return self.epochs * self.mini_batches

    @property
    def has_reference_model(self) -> bool:
        """Return whether a second set of weights is kept."""
        return self.kl is not None and self.kl.reference.kind != "old"

    @property
    def renewal(self) -> kinds.IterativeReference | None:
        """Return the reference that the policy replaces every so many steps; else None."""
        reference = self.kl.reference if self.kl is not None else None
        return reference if isinstance(reference, kinds.IterativeReference) else None

    @property
    def masks_cut_off(self) -> bool:
        """Return whether cut-off responses are left out of training."""
        return isinstance(self.overlong, kinds.MaskOverlong)

    @property
    def reads_responses(self) -> bool:
        """Return whether the responses are those of the data's rows, in the engine's place."""
        return self.advantage.kind == "one"

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
            a.reads_responses
            and not (
                isinstance(a.surrogate, kinds.PolicyGradient)
                and a.filter is a.importance_correction is None
            )
        ),
        "algorithm.advantage one: its responses are not sampled; use surrogate policy_gradient, "
        "without filter and importance_correction",
    ),
    (
        lambda a: (
            a.advantage.is_likelihood
            and (a.rewards_kl or isinstance(a.overlong, kinds.SoftOverlong))
        ),
        "algorithm.advantage {a.advantage.kind} reads no rewards: algorithm.kl.place reward and "
        "algorithm.overlong soft would do nothing; use place loss, or overlong mask",
    ),
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
        lambda a: a.surrogate.is_on_policy and a.updates > 1 and not a.reads_responses,
        "algorithm.surrogate {a.surrogate.kind} with several updates a batch (algorithm.epochs "
        "{a.epochs}, algorithm.mini_batches {a.mini_batches}): after the first the samples are "
        "another policy's; use ratio or clip",
    ),
    (
        lambda a: a.surrogate.is_on_policy and a.filter is not None,
        "algorithm.surrogate {a.surrogate.kind} with algorithm.filter {a.filter.kind}: groups that "
        "are carried over are another policy's samples; use ratio or clip",
    ),
    (
        lambda a: a.surrogate.is_of_response and a.top_entropy is not None,
        "algorithm.surrogate {a.surrogate.kind} with algorithm.top_entropy {a.top_entropy:g}: the "
        "ratio of a whole response has no tokens to choose from; use clip, or top_entropy null",
    ),
    (
        lambda a: a.advantage.is_likelihood and a.whiten,
        "algorithm.advantage {a.advantage.kind} with algorithm.whiten: advantages that are all 1 "
        "have no deviation; leave whiten out",
    ),
)
"""Choices that are valid each on its own but not together."""
