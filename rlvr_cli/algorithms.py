"""The table of presets: each algorithm is a row of cells over shared components.

A cell names a component (`advantage.ADVANTAGES`, `objective.AGGREGATIONS`, …) or sets a number;
every cell can be overridden on its own with `--set algorithm.CELL=VALUE`.

grpo: Shao et al. 2024, arXiv:2402.03300. dapo: Yu et al. 2025, arXiv:2503.14476.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Algorithm(BaseModel):
    """One row: the cells that make an algorithm."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    advantage: Literal["group_normalised"] = "group_normalised"
    clip_low: float = Field(0.2, ge=0, lt=1)
    clip_high: float = Field(0.2, ge=0)
    aggregation: Literal["token_mean", "sequence_mean"] = "token_mean"
    kl: Literal["none", "k3"] = "none"
    """Estimator of the divergence from the reference policy, added to the loss."""
    kl_coef: float = Field(0.0, ge=0)
    group_filter: Literal["none", "mixed"] = "none"
    max_gen_batches: int = Field(4, ge=1)
    """How often one step may sample to fill its batch with groups that pass the filter."""
    on_cap: Literal["train", "skip", "stop"] = "train"
    """When the cap is reached: train on what there is, skip the update, or stop the run."""
    overlong: Literal["off", "soft"] = "off"
    overlong_cache: float = Field(0.2, gt=0, le=1)
    """The share of the longest length over which the soft penalty falls from 0 to -1."""

    @model_validator(mode="after")
    def _makes_sense(self) -> "Algorithm":
        if (self.kl == "none") != (self.kl_coef == 0):
            raise ValueError(
                f"algorithm.kl {self.kl} with algorithm.kl_coef {self.kl_coef:g}: an estimator "
                "and a coefficient above 0 need each other; set both or neither"
            )
        return self


ALGORITHMS: dict[str, Algorithm] = {
    "grpo": Algorithm(aggregation="sequence_mean", kl="k3", kl_coef=0.04),
    "dapo": Algorithm(clip_high=0.28, group_filter="mixed", overlong="soft"),
}
