"""Declare the filters of dynamic sampling, each with its function: whether a group trains."""

from collections.abc import Callable
from typing import ClassVar, Literal

from pydantic import Field

from rlvr_cli.core.settings import CUSTOM, Choice, CustomChoice, Kinds, register
from rlvr_cli.core.types import R, ResponseGroup

FILTERS: dict[str, Callable[..., bool]] = {}
"""Whether a group trains, from the group and the fields of the kind."""


class GroupFilter(Choice):
    """Dynamic sampling: only groups that differ in a metric train. The batch is refilled, and a
    surplus is carried over to the next step."""

    registered: ClassVar[Kinds] = {}
    max_gen_batches: int = Field(4, ge=0)
    """Most rounds of sampling per step to fill its batch. 0 means no limit."""
    gen_batch_size: int | None = Field(None, ge=1)
    """Number of problems that a round samples. None means as many as the batch will need."""
    on_cap: Literal["train", "skip", "stop"] = "train"
    """When the cap is reached: train on what there is, skip the update, or stop the run."""


class Mixed(GroupFilter):
    kind: Literal["mixed"] = "mixed"
    metric: str = "auto"
    """What differs: accuracy, reward or one by name. Auto means accuracy if math trains, else
    reward."""

    @property
    def fields(self) -> dict[str, object]:
        """Return what the filter's function takes."""
        return {"metric": self.metric}


@register(FILTERS, Mixed)
def mixed(group: ResponseGroup[R], metric: str) -> bool:
    """Return whether judged responses differ in a metric. DAPO, arXiv:2503.14476, eq. 11."""
    return group.differs_in(metric)


class CustomFilter(CustomChoice, GroupFilter):
    """A custom filter, called as those of `FILTERS` are."""

    kind: Literal["custom"] = "custom"


GroupFilter.registered[CUSTOM] = CustomFilter
