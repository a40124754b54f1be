"""The choices that make an algorithm, of the registered kinds, and the table of presets.
Contradictions that can still be written are refused by name."""

from importlib import resources
from typing import Annotated, Literal

from pydantic import Field, model_validator

from rlvr_cli.algorithm.filters import GroupFilter, Mixed
from rlvr_cli.algorithm.group_advantage import GroupNormalized
from rlvr_cli.algorithm.kinds import (
    Advantage,
    AutoCorrection,
    ByKind,
    Correction,
    Critic,
    CustomAdvantage,
    CustomSurrogate,
    GeometricMask,
    IterativeReference,
    MaskedWeights,
    MaskOverlong,
    SequenceMask,
    SoftOverlong,
    Surrogate,
    TruncatedWeights,
)
from rlvr_cli.algorithm.kl import KL
from rlvr_cli.algorithm.objective import AGGREGATIONS, Clip
from rlvr_cli.algorithm.token_advantage import Gae
from rlvr_cli.core.settings import (
    CUSTOM,
    ENTRY_POINTS,
    ByRegisteredKind,
    CustomChoice,
    Section,
    Values,
    describe,
    is_custom_function,
    setting,
)
from rlvr_cli.core.yaml_text import load_yaml

_AGGREGATIONS = tuple(AGGREGATIONS)
"""Those that are built in: custom ones enter the table when they are loaded."""


class Algorithm(Section):
    """All choices and numbers that make an algorithm: one row of the table of presets."""

    advantage: Annotated[Advantage, ByRegisteredKind()] = GroupNormalized()
    whiten: bool = False
    """Whether to whiten advantages over all tokens, after the returns are taken."""
    surrogate: Annotated[Surrogate, ByRegisteredKind()] = Clip()
    aggregation: str = setting("token_mean", words=_AGGREGATIONS)
    """How the loss of a batch is averaged over its tokens and responses. FILE.py:NAME, MODULE:NAME
    or an entry point is a custom function."""
    aggregation_settings: Values = setting({})
    """Keyword arguments of a custom aggregation."""
    top_entropy: float | None = Field(None, gt=0, lt=1)
    """Share of the batch's tokens with an advantage, by highest entropy. None means all."""
    importance_correction: Annotated[
        AutoCorrection | TruncatedWeights | MaskedWeights | SequenceMask | GeometricMask | None,
        ByKind,
    ] = AutoCorrection()
    """Importance weights w = trainer / engine of a sampled token's probabilities. Auto means
    none if both compute in float32 and no token is older than its step, else truncate, which knows
    no length and rejects nothing."""
    old_logprobs: Literal["auto", "trainer", "engine"] = "auto"
    """Source of the sampled tokens' log-probabilities: a pass of the trainer before the first
    update, or the engine. Auto means the engine if no correction needs both and, in float32, the
    previous step measured a gap no larger than rounding."""
    kl: KL | None = setting(None, flag="--kl", metavar="COEF")
    """Penalty on the KL to a reference policy, by its estimator: k3_k2 has k3's value and k2's
    gradient. A number is the coefficient: 0 means none, and a new penalty is k3 in the loss."""
    epochs: int = Field(1, ge=1)
    """Number of passes over a step's batch."""
    mini_batches: int = Field(1, ge=1)
    """Number of optimizer steps per epoch, each on an equal share of the responses. If there
    are fewer responses, one per response."""
    target_kl: float | None = Field(None, gt=0)
    """Largest approx_kl after an epoch, in nats per token. Above it the epochs end."""
    entropy_coef: float = Field(0.0, ge=0)
    """Coefficient of the entropy bonus."""
    positive_nll: float = Field(0.0, ge=0)
    """Coefficient of the mean of -log pi over the tokens of right responses, added to the
    loss."""
    filter: Annotated[GroupFilter, ByRegisteredKind()] | None = None
    """Filter of dynamic sampling. None means that all groups train, sampled once."""
    overlong: Annotated[SoftOverlong | MaskOverlong, ByKind] | None = None
    """Treatment of responses that reach the longest length."""
    sources: dict[str, str] = setting({}, inherited=False)
    """SHA-256 of the file of each custom function. The run fills it in and a resume compares it."""

    @property
    def custom_functions(self) -> dict[str, str]:
        """Return the custom functions, by the choice that each makes."""
        functions = {}
        for name in ("advantage", "surrogate", "filter"):
            choice = getattr(self, name)
            if isinstance(choice, CustomChoice):
                functions[name] = choice.function
        if self.aggregation not in _AGGREGATIONS:
            functions["aggregation"] = self.aggregation
        if self.kl is not None and self.kl.function is not None:
            functions["kl"] = self.kl.function
        return functions

    @property
    def critic(self) -> Critic | None:
        return self.advantage.critic if isinstance(self.advantage, Gae) else None

    @property
    def updates(self) -> int:
        """Return the number of optimizer steps per batch, if no epoch is cut short."""
        return self.epochs * self.mini_batches

    @property
    def has_reference_model(self) -> bool:
        """Return whether the KL needs weights other than the policy's own."""
        return self.kl is not None and self.kl.reference.kind != "old"

    @property
    def renewal(self) -> IterativeReference | None:
        """Return the reference that is renewed from the policy. Return None if it never is."""
        reference = self.kl.reference if self.kl is not None else None
        return reference if isinstance(reference, IterativeReference) else None

    @property
    def correction(self) -> Correction | None:
        """Return the correction. Return None if it is off, or if `auto` is undecided."""
        correction = self.importance_correction
        return None if isinstance(correction, AutoCorrection) else correction

    def decided(self, computes_alike: bool, rewards_verdict: bool) -> "Algorithm":
        """Return the row with a decision in place of each `auto`: the correction, and the metric of
        the filter. `computes_alike`: what the engine says of a token is what the trainer says."""
        correction = self.importance_correction
        if isinstance(correction, AutoCorrection):
            trusts_engine = computes_alike or self.old_logprobs == "engine"
            has_gap = not (trusts_engine or self.reads_responses)
            correction = TruncatedWeights() if has_gap else None
        group_filter = self.filter
        if isinstance(group_filter, Mixed) and group_filter.metric == "auto":
            metric = "accuracy" if rewards_verdict else "reward"
            group_filter = group_filter.model_copy(update={"metric": metric})
        return self.model_copy(update={"importance_correction": correction, "filter": group_filter})

    @property
    def normalizes_each(self) -> bool:
        """Return whether each reward is normalized before they are weighed and added up."""
        advantage = self.advantage
        return isinstance(advantage, GroupNormalized) and advantage.normalization == "each"

    @property
    def compares_batch(self) -> bool:
        """Return whether the advantages in a group depend on more than the group's rewards."""
        advantage = self.advantage
        divides_by_batch = isinstance(advantage, GroupNormalized) and advantage.deviation == "batch"
        is_custom = isinstance(advantage, CustomAdvantage)
        reads_more = self.whiten or self.rewards_kl or self.normalizes_each
        return reads_more or divides_by_batch or is_custom

    @property
    def needs_old_logprobs(self) -> bool:
        """Return whether old log-probabilities are needed before the first update. If not, the
        policy's own at that moment will do."""
        rejects = self.correction is not None and self.correction.rejects
        return self.updates > 1 or self.rewards_kl or rejects

    @property
    def learns_by_advantage_alone(self) -> bool:
        """Return whether a response whose advantages are all 0 has no part in the gradient.

        Each surrogate is a multiple of the advantage, which aggregations and corrections only
        weigh. What else reads a response: a KL in the loss, and the control of one in the reward,
        which measures it. An entropy bonus, a critic, the likelihood of right responses, and the
        threshold of `top_entropy`. A custom surrogate may have a gradient anywhere.
        """
        reads_kl = self.kl is not None and not (self.rewards_kl and self.kl.control is None)
        has_other_term = self.entropy_coef > 0 or self.positive_nll > 0 or self.critic is not None
        is_custom = isinstance(self.surrogate, CustomSurrogate)
        return not (reads_kl or has_other_term or is_custom or self.top_entropy is not None)

    @property
    def masks_cut_off(self) -> bool:
        """Return whether cut-off responses are left out of training."""
        return isinstance(self.overlong, MaskOverlong)

    @property
    def has_teacher(self) -> bool:
        """Return whether the reference is another model than the policy."""
        return self.kl is not None and self.kl.reference.kind == "teacher"

    @property
    def needs_verdicts(self) -> bool:
        """Return whether a response trains only if it was judged."""
        return self.advantage.kind not in ("one", "divergence")

    @property
    def reads_responses(self) -> bool:
        """Return whether the responses are read from the data's rows instead of sampled."""
        return self.advantage.kind == "one"

    @property
    def has_reference_loss(self) -> bool:
        """Return whether the loss pulls the policy to a reference model, whatever the rewards."""
        return self.has_reference_model and not self.rewards_kl

    @property
    def rewards_kl(self) -> bool:
        """Return whether the divergence is subtracted from the rewards, before the updates."""
        return self.kl is not None and self.kl.place == "reward"

    @model_validator(mode="after")
    def _fits_together(self) -> "Algorithm":
        for applies, message in contradictions(self):
            if applies:
                raise ValueError(message)
        return self

    def __str__(self) -> str:
        return describe(self)


def contradictions(a: Algorithm) -> list[tuple[bool, str]]:
    """Return pairs for choices that are each valid: whether they contradict each other, and the
    message that says what is wrong and what to do."""
    advantage = a.advantage.kind
    surrogate = a.surrogate.kind
    kl = a.kl
    is_aggregation = a.aggregation in _AGGREGATIONS or "aggregation" in a.sources
    is_on_policy = surrogate == "policy_gradient"  # its gradient is that of the present policy's
    uses_engine = a.old_logprobs == "engine"
    needs_sampling = a.filter is not None or a.correction is not None or uses_engine
    has_response_ratio = a.surrogate.has_response_ratio
    has_old_reference = kl is not None and not a.has_reference_model  # the policy that sampled
    is_k1 = kl is not None and kl.kind == "k1"
    has_soft_penalty = isinstance(a.overlong, SoftOverlong)
    correction = "none" if a.correction is None else a.correction.kind
    return [
        (
            kl is not None and (kl.kind == CUSTOM) != (kl.function is not None),
            "algorithm.kl custom without a function, or a function with another kind; name it, "
            "algorithm.kl=FILE.py:NAME",
        ),
        (
            kl is not None and kl.function is None and bool(kl.settings),
            "algorithm.kl.settings are those of a custom estimator; leave them out",
        ),
        (
            not is_aggregation and not is_custom_function(a.aggregation, "aggregation"),
            f"algorithm.aggregation {a.aggregation!r:.40} is not known; choose from "
            f"{', '.join(_AGGREGATIONS)}, FILE.py:NAME, MODULE:NAME or an entry point of "
            f"{ENTRY_POINTS['aggregation']}",
        ),
        (
            bool(a.aggregation_settings) and "aggregation" not in a.custom_functions,
            f"algorithm.aggregation {a.aggregation} has no settings; leave "
            "algorithm.aggregation_settings out",
        ),
        (
            a.reads_responses and (not is_on_policy or needs_sampling or a.positive_nll > 0),
            "algorithm.advantage one: its responses are not sampled; use surrogate "
            "policy_gradient, without filter, importance_correction, positive_nll and old_logprobs "
            "engine",
        ),
        (
            uses_engine and a.correction is not None,
            f"algorithm.old_logprobs engine with algorithm.importance_correction {correction}: it "
            "compares the trainer's log-probabilities with the engine's; use old_logprobs trainer, "
            "or importance_correction none",
        ),
        (
            (a.advantage.is_likelihood and a.rewards_kl)
            or (not a.advantage.reads_rewards and has_soft_penalty),
            f"algorithm.advantage {advantage} reads no rewards: algorithm.kl.place reward and "
            "algorithm.overlong soft would do nothing; use place loss, or overlong mask",
        ),
        (
            advantage == "divergence" and not (a.rewards_kl and is_k1 and a.filter is None),
            "algorithm.advantage divergence is the penalty of each token and nothing else; use "
            "algorithm.kl k1, whose gradient alone is the divergence's, with place reward, without "
            "filter",
        ),
        (
            a.normalizes_each and a.rewards_kl,
            "algorithm.advantage.normalization each with algorithm.kl.place reward: a divergence "
            "is none of the rewards that are normalized; use place loss",
        ),
        (
            is_k1 and not has_old_reference and not a.rewards_kl,
            "algorithm.kl k1 with algorithm.kl.place loss: its gradient is 0 on average; use k2 or "
            "k3_k2, or place reward",
        ),
        (
            has_old_reference and a.rewards_kl,
            "algorithm.kl.reference old with algorithm.kl.place reward: the policy that sampled "
            "does not differ from itself; use place loss or another reference",
        ),
        (
            has_old_reference and a.updates == 1,
            "algorithm.kl.reference old with one update a batch (algorithm.epochs 1, "
            "algorithm.mini_batches 1): the policy has not moved yet; take more",
        ),
        (
            a.target_kl is not None and a.epochs == 1,
            f"algorithm.target_kl {a.target_kl} with algorithm.epochs 1: there is no later epoch "
            "to leave out; take more epochs, or target_kl null",
        ),
        (
            has_response_ratio and not a.advantage.needs_group,
            f"algorithm.surrogate {surrogate} with algorithm.advantage {advantage}: the ratio of a "
            "whole response needs one advantage a response; use a group advantage",
        ),
        (
            is_on_policy and a.updates > 1 and not a.reads_responses,
            f"algorithm.surrogate {surrogate} with several updates a batch (algorithm.epochs "
            f"{a.epochs}, algorithm.mini_batches {a.mini_batches}): after the first the samples "
            "are another policy's; use ratio or clip",
        ),
        (
            is_on_policy and a.filter is not None,
            f"algorithm.surrogate {surrogate} with algorithm.filter mixed: groups that are carried "
            "over are another policy's samples; use ratio or clip",
        ),
        (
            has_response_ratio and a.top_entropy is not None,
            f"algorithm.surrogate {surrogate} with algorithm.top_entropy {a.top_entropy}: the "
            "ratio of a whole response has no tokens to choose from; use clip, or top_entropy null",
        ),
        (
            a.advantage.is_likelihood and a.whiten,
            f"algorithm.advantage {advantage} with algorithm.whiten: advantages that are all 1 "
            "have no deviation; leave whiten out",
        ),
    ]


_TABLE = resources.files("rlvr_cli") / "algorithm" / "presets.yaml"
ALGORITHMS: dict[str, Algorithm] = {
    name: Algorithm.model_validate(row)
    for name, row in load_yaml(_TABLE.read_text(encoding="utf-8")).items()
}
"""The presets. Every field can be overridden on its own, `--set algorithm.surrogate.high=0.3`, and
every choice by the name of another kind, `--set algorithm.surrogate=cispo`."""


def without_ratio(algo: Algorithm, has_older_tokens: bool = False) -> str | None:
    """Say that the surrogate's ratio does nothing. Return None if it matters, as it does with
    several updates a batch, groups carried over, or tokens of older weights that no correction
    weighs."""
    has_ratio = algo.updates > 1 or algo.filter is not None or algo.old_logprobs == "engine"
    has_ratio = has_ratio or (has_older_tokens and algo.correction is None)
    if has_ratio or algo.surrogate.kind == "policy_gradient":
        return None
    return (
        f"one update a batch: every ratio is 1, so {algo.surrogate.kind} is policy_gradient; "
        "algorithm.mini_batches or epochs make it differ"
    )
