"""What the parts of files that rlvr wrote have in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0, lt=2**63)]
Finite = Annotated[float, Field(allow_inf_nan=False, ge=-1e100, le=1e100)]
"""A number that can be added up and drawn."""


class Stored(BaseModel):
    """A part of a file that rlvr wrote, with strict types and no unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
