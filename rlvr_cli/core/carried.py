"""Groups with their tokens as JSON: those that a checkpoint carries, or that processes exchange."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.types import Completion, Group, Prompt, Rollout
from verifiers import Verification

_Count = Annotated[int, Field(ge=0, lt=2**63)]


class _CarriedRollout(BaseModel):
    """A response with its tokens. Its prompt and its number follow from its place."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    text: str
    completion: Completion
    verification: Verification | None
    reward: float | None
    rewards: dict[str, float] = Field({})
    places: list[tuple[_Count, float]] = Field([])


class CarriedGroup(BaseModel):
    """A group, with its prompt as a position among the prompts of the run."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    prompt: _Count
    weight_version: _Count
    rollouts: list[_CarriedRollout]


def groups_as_json(groups: Sequence[Group], prompts: Sequence[Prompt]) -> list[JsonObject]:
    """Convert groups to JSON values, and their prompts to positions in `prompts`."""
    index = {id(prompt): number for number, prompt in enumerate(prompts)}
    return [
        {
            "prompt": index[id(group.prompt)],
            "weight_version": group.weight_version,
            "rollouts": [
                {
                    "text": rollout.text,
                    "completion": vars(rollout.completion),
                    "verification": rollout.verification and vars(rollout.verification),
                    "reward": rollout.reward,
                    "rewards": rollout.rewards,
                    "places": rollout.places,
                }
                for rollout in group.rollouts
            ],
        }
        for group in groups
    ]


def groups_from_json(rows: Sequence[JsonObject], prompts: Sequence[Prompt]) -> list[Group]:
    """Convert the values that `groups_as_json` returned back to groups. Raises ValueError."""
    groups = []
    for row in rows:
        carried_group = CarriedGroup.model_validate(row, strict=False)
        prompt = prompts[carried_group.prompt]
        rollouts = [
            Rollout.of(
                prompt,
                sample,
                stored.completion,
                stored.text,
                stored.verification,
                stored.reward,
                stored.rewards,
                stored.places,
            )
            for sample, stored in enumerate(carried_group.rollouts)
        ]
        groups.append(Group(prompt, tuple(rollouts), carried_group.weight_version))
    return groups
