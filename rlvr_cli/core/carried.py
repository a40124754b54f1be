"""Groups with their tokens as JSON: those that a checkpoint carries, or that processes exchange."""

from collections.abc import Sequence

from pydantic import Field

from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.stored import Count, Stored
from rlvr_cli.core.types import Completion, Group, Prompt, Rollout
from verifiers import Verification


class _CarriedRollout(Stored):
    """A response with its tokens. Its prompt and its number follow from its place."""

    text: str
    completion: Completion
    verification: Verification | None
    reward: float | None
    rewards: dict[str, float] = Field({})
    places: list[tuple[Count, float]] = Field([])


class CarriedGroup(Stored):
    """A group, with its prompt as a position among the prompts of the run."""

    prompt: Count
    weight_version: Count
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
