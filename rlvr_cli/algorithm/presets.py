"""The table of presets: each algorithm is a row of cells over shared components.

A cell names a component (`advantage.ADVANTAGES`, `objective.SURROGATES`, …) or sets a number; every
cell can be overridden on its own with `--set algorithm.CELL=VALUE`. `rlvr train --list` prints the
table. A cell that the rest of the row does not use cannot be set.

ppo: Schulman et al. 2017, arXiv:1707.06347. grpo: Shao et al. 2024, arXiv:2402.03300.
dapo: Yu et al. 2025, arXiv:2503.14476. dr_grpo: Liu et al. 2025, arXiv:2503.20783.
rloo: Ahmadian et al. 2024, arXiv:2402.14740. reinforce: Williams 1992.
reinforce++: Hu et al. 2025, arXiv:2501.03262. gspo: Zheng et al. 2025, arXiv:2507.18071.
cispo: MiniMax 2025, arXiv:2506.13585.
"""

from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

GROUP_ADVANTAGES = ("group_normalised", "group_centred", "leave_one_out")
_CLIPPING = ("clip", "dual_clip", "sequence_clip", "cispo")


class Algorithm(BaseModel):
    """One row: the cells that make an algorithm."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    advantage: Literal[
        "gae", "group_normalised", "group_centred", "leave_one_out", "return", "batch_baseline"
    ] = "group_normalised"
    deviation: Literal["sample", "population"] = "sample"
    """What a normalised group divides by: the n-1 or the n standard deviation."""
    gamma: float = Field(1.0, gt=0, le=1)
    gae_lambda: float = Field(0.95, ge=0, le=1)
    cut_off_value: Literal["zero", "bootstrap"] = "zero"
    """V after a response that was cut off (it is 0 after a true end)."""
    whiten: bool = False
    """Advantages to mean 0 and deviation 1 over all tokens, after the returns are taken."""

    surrogate: Literal[
        "policy_gradient", "ratio", "clip", "dual_clip", "sequence_clip", "cispo"
    ] = "clip"
    clip_low: float = Field(0.2, ge=0, le=1)
    clip_high: float = Field(0.2, ge=0)
    dual_clip: float = Field(3.0, gt=1)
    """For A < 0 the surrogate is at least this times A."""
    aggregation: Literal["token_mean", "sequence_mean", "sequence_sum", "constant_length"] = (
        "token_mean"
    )
    sampler_weights: Literal["off", "truncate", "mask"] = "off"
    """Importance weights between the engine's and the trainer's log-probabilities."""
    sampler_cap: float = Field(2.0, gt=1)

    kl: Literal["none", "k1", "k2", "k3", "k3_k2"] = "none"
    """Estimator of the divergence from the reference policy; k3_k2: value of k3, gradient of k2."""
    kl_in: Literal["loss", "reward"] = "loss"
    kl_coef: float = Field(0.0, ge=0)
    kl_control: Literal["fixed", "proportional", "doubling"] = "fixed"
    """How the coefficient follows the measured divergence (`kl.CONTROLS`)."""
    kl_target: float | None = Field(None, gt=0)
    """The divergence it is steered to, in nats a token; Ziegler et al. count a whole response's."""
    reference: Literal["none", "fixed", "iterative", "old"] = "none"
    """The start policy, the policy of some steps ago, or the one that sampled the batch."""
    reference_every: int = Field(50, ge=1)
    reference_resets_optimizer: bool = False

    critic: Literal["none", "own", "shared"] = "none"
    """A value head on a copy of the policy's body, or on the body itself."""
    value_coef: float = Field(0.5, gt=0)
    value_clip: float | None = Field(None, gt=0)
    critic_warmup: int = Field(0, ge=0)
    """Steps in which only the critic learns."""

    epochs: int = Field(1, ge=1)
    mini_batches: int = Field(1, ge=1)
    """Optimizer steps an epoch, each on its own share of the responses."""
    target_kl: float | None = Field(None, gt=0)
    """Epochs end early once approx_kl, taken after each, is past this (nats a token)."""
    entropy_coef: float = Field(0.0, ge=0)

    group_filter: Literal["none", "mixed"] = "none"
    max_gen_batches: int = Field(4, ge=1)
    """How often one step may sample to fill its batch with groups that pass the filter."""
    on_cap: Literal["train", "skip", "stop"] = "train"
    """When the cap is reached: train on what there is, skip the update, or stop the run."""
    surplus: Literal["carry", "abort"] = "carry"
    """Prompts beyond those that fill a batch: finished, and their groups carried over to the next
    step; or given up, in the order of the prompts and not of their ends, and drawn again."""
    overlong: Literal["off", "soft", "mask"] = "off"
    """soft: DAPO's penalty of length; mask: cut-off responses do not train."""
    overlong_cache: float = Field(0.2, gt=0, le=1)
    """The share of the longest length over which the soft penalty falls from 0 to -1."""

    @property
    def updates(self) -> int:
        """Optimizer steps a batch, if no epoch is cut short."""
        return self.epochs * self.mini_batches

    @property
    def controls_own_kl(self) -> bool:
        """The coefficient follows how far the updates moved the policy (PPO's penalty form)."""
        return self.reference == "old" and self.kl_control != "fixed"

    @property
    def advantage_needs_group(self) -> bool:
        """The baseline is the other responses to the same prompt."""
        return self.advantage in GROUP_ADVANTAGES

    @property
    def has_reference_model(self) -> bool:
        """A second set of weights is kept."""
        return self.reference in ("fixed", "iterative")

    @model_validator(mode="after")
    def _makes_sense(self) -> "Algorithm":
        for is_wrong, message in _CONTRADICTIONS:
            if is_wrong(self):
                raise ValueError(message.format(**self.model_dump()))
        for cell, reason in self._unused().items():
            value = getattr(self, cell)
            if value != type(self).model_fields[cell].default:
                raise ValueError(
                    f"algorithm.{cell} {value} has no effect {reason}; leave it out or change "
                    "the other"
                )
        return self

    def used_cells(self) -> dict[str, Any]:
        """The cells that have a meaning in this row."""
        unused = self._unused()
        return {cell: value for cell, value in self.model_dump().items() if cell not in unused}

    def __str__(self) -> str:
        """The cells in use that are not empty."""
        cells = self.used_cells().items()
        return ", ".join(f"{k} {v}" for k, v in cells if v not in (None, False, 0, "off"))

    def _unused(self) -> dict[str, str]:
        """Cells that the rest of the row does not read, and why."""
        return {
            cell: reason
            for cells, is_used, reason in _USES
            for cell in cells.split()
            if not is_used(self)
        }


Rule = Callable[[Algorithm], bool]

_CONTRADICTIONS: tuple[tuple[Rule, str], ...] = (
    (
        lambda a: (a.advantage == "gae") != (a.critic != "none"),
        "algorithm.advantage {advantage} with algorithm.critic {critic}: GAE and a critic need "
        "each other; set both (critic own or shared) or neither",
    ),
    (
        lambda a: (a.kl == "none") != (a.kl_coef == 0),
        "algorithm.kl {kl} with algorithm.kl_coef {kl_coef:g}: an estimator and a coefficient "
        "above 0 need each other; set both or neither",
    ),
    (
        lambda a: (a.kl == "none") != (a.reference == "none"),
        "algorithm.kl {kl} with algorithm.reference {reference}: a divergence needs a reference "
        "policy and a reference is for nothing else; set both or neither",
    ),
    (
        lambda a: a.kl == "k1" and a.kl_in == "loss" and a.has_reference_model,
        "algorithm.kl k1 with algorithm.kl_in loss: its gradient is 0 on average; use k2 or "
        "k3_k2, or kl_in reward",
    ),
    (
        lambda a: a.reference == "old" and a.kl_in == "reward",
        "algorithm.reference old with algorithm.kl_in reward: the policy that sampled does not "
        "differ from itself; use kl_in loss or another reference",
    ),
    (
        lambda a: a.reference == "old" and a.updates == 1,
        "algorithm.reference old with one update a batch (algorithm.epochs 1, "
        "algorithm.mini_batches 1): the policy has not moved yet; take more",
    ),
    (
        lambda a: (a.kl_control == "fixed") != (a.kl_target is None),
        "algorithm.kl_control {kl_control} with algorithm.kl_target {kl_target}: a coefficient "
        "that adapts needs a target, a fixed one has none",
    ),
    (
        lambda a: a.kl_control != "fixed" and a.kl == "none",
        "algorithm.kl_control {kl_control} with algorithm.kl none: there is nothing to control; "
        "set algorithm.kl",
    ),
    (
        lambda a: a.surrogate == "sequence_clip" and not a.advantage_needs_group,
        "algorithm.surrogate sequence_clip with algorithm.advantage {advantage}: the ratio of a "
        "whole response needs one advantage a response; use a group advantage",
    ),
    (
        lambda a: a.surrogate == "policy_gradient" and a.updates > 1,
        "algorithm.surrogate policy_gradient with several updates a batch (algorithm.epochs "
        "{epochs}, algorithm.mini_batches {mini_batches}): after the first the samples are another "
        "policy's; use ratio or clip",
    ),
    (
        lambda a: a.surrogate == "policy_gradient" and a.group_filter != "none",
        "algorithm.surrogate policy_gradient with algorithm.group_filter {group_filter}: groups "
        "that are carried over are another policy's samples; use ratio or clip",
    ),
)

_USES: tuple[tuple[str, Rule, str], ...] = (
    (
        "deviation",
        lambda a: a.advantage == "group_normalised",
        "unless algorithm.advantage is group_normalised",
    ),
    (
        "gae_lambda cut_off_value",
        lambda a: a.advantage == "gae",
        "unless algorithm.advantage is gae",
    ),
    (
        "gamma",
        lambda a: not a.advantage_needs_group,
        "where algorithm.advantage is that of a group",
    ),
    (
        "clip_low clip_high",
        lambda a: a.surrogate in _CLIPPING,
        "where algorithm.surrogate does not clip",
    ),
    (
        "dual_clip",
        lambda a: a.surrogate == "dual_clip",
        "unless algorithm.surrogate is dual_clip",
    ),
    ("sampler_cap", lambda a: a.sampler_weights != "off", "with algorithm.sampler_weights off"),
    ("kl_in", lambda a: a.kl != "none", "with algorithm.kl none"),
    (
        "reference_every reference_resets_optimizer",
        lambda a: a.reference == "iterative",
        "unless algorithm.reference is iterative",
    ),
    (
        "value_coef value_clip critic_warmup",
        lambda a: a.critic != "none",
        "with algorithm.critic none",
    ),
    ("target_kl", lambda a: a.epochs > 1, "with algorithm.epochs 1"),
    (
        "max_gen_batches on_cap surplus",
        lambda a: a.group_filter != "none",
        "with algorithm.group_filter none",
    ),
    ("overlong_cache", lambda a: a.overlong == "soft", "unless algorithm.overlong is soft"),
)

_REINFORCE: dict[str, Any] = {"surrogate": "policy_gradient", "aggregation": "sequence_sum"}
_K1_IN_REWARD: dict[str, Any] = {"kl": "k1", "kl_in": "reward", "reference": "fixed"}

ALGORITHMS: dict[str, Algorithm] = {
    "ppo": Algorithm(
        advantage="gae",
        gae_lambda=1.0,
        whiten=True,
        critic="own",
        critic_warmup=2,
        value_clip=0.2,
        mini_batches=2,
        kl_coef=0.005,
        **_K1_IN_REWARD,
    ),
    "grpo": Algorithm(aggregation="sequence_mean", kl="k3", kl_coef=0.04, reference="fixed"),
    "dapo": Algorithm(clip_high=0.28, group_filter="mixed", overlong="soft"),
    "dr_grpo": Algorithm(advantage="group_centred", aggregation="constant_length"),
    "rloo": Algorithm(advantage="leave_one_out", **_REINFORCE),
    "reinforce": Algorithm(advantage="return", **_REINFORCE),
    "reinforce++": Algorithm(
        advantage="batch_baseline", whiten=True, kl_coef=0.005, **_K1_IN_REWARD
    ),
    "gspo": Algorithm(
        surrogate="sequence_clip", clip_low=3e-4, clip_high=4e-4, aggregation="sequence_mean"
    ),
    "cispo": Algorithm(surrogate="cispo", clip_low=1.0, clip_high=4.0),
}
