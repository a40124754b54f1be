"""Groups with their tokens as JSON: those that a checkpoint carries, or that processes exchange.

They may be judged, or have responses that go on.
"""

from collections.abc import Sequence

from pydantic import Field

from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.stored import Count, Finite, Stored
from rlvr_cli.core.types import (
    Completion,
    FinishReason,
    Group,
    Member,
    OpenGroup,
    Prompt,
    Rollout,
    Unfinished,
)
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


class _OpenMember(Stored):
    """A response so far, or a whole one."""

    seed: Count | None
    """None if it has ended."""
    token_ids: list[Count]
    logprobs: list[Finite]
    versions: list[tuple[Count, Count]]
    finish_reason: FinishReason | None
    """None if it goes on."""

    def member(self, prompt: Prompt) -> Member:
        """Return the response. Raises ValueError if its parts do not fit together."""
        tokens = len(self.token_ids)
        if len(self.logprobs) != tokens or sum(count for _, count in self.versions) != tokens:
            raise ValueError("a response has other numbers of tokens, log-probabilities, versions")
        if self.seed is None and self.finish_reason is None:
            raise ValueError("a response goes on without a seed")
        response = Unfinished(
            prompt,
            self.seed or 0,
            tuple(self.token_ids),
            tuple(self.logprobs),
            tuple(self.versions),
        )
        return response if self.finish_reason is None else response.ended(self.finish_reason)


class StoredOpenGroup(Stored):
    """A group whose turn has not come."""

    place: Count
    problem: Count
    members: list[_OpenMember | None]
    """None is a response that was dropped. Empty if the group is judged."""
    group: CarriedGroup | None


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
                    "completion": _completion_as_json(rollout.completion),
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


def _completion_as_json(completion: Completion) -> JsonObject:
    values = dict(vars(completion))
    if not completion.versions:  # as earlier versions wrote it
        del values["versions"]
    return values


def open_groups_as_json(groups: Sequence[OpenGroup], prompts: Sequence[Prompt]) -> list[JsonObject]:
    """Convert groups whose turn has not come to JSON values."""
    rows: list[JsonObject] = []
    for group in groups:
        judged = None
        members: list[JsonObject | None] = []
        if group.group is not None:
            (judged,) = groups_as_json([group.group], prompts)
        else:
            members = [_member_as_json(member) for member in group.members]
        rows.append(
            {
                "place": group.place,
                "problem": group.problem,
                "members": members,
                "group": judged,
            }
        )
    return rows


def _member_as_json(member: Member) -> JsonObject | None:
    if member is None:
        return None
    return {
        "seed": member.seed if isinstance(member, Unfinished) else None,
        "token_ids": member.token_ids,
        "logprobs": member.logprobs,
        "versions": member.versions,
        "finish_reason": member.finish_reason if isinstance(member, Completion) else None,
    }


def open_groups_from_json(rows: Sequence[JsonObject], prompts: Sequence[Prompt]) -> list[OpenGroup]:
    """Convert the values that `open_groups_as_json` returned. Raises ValueError."""
    groups = []
    for row in rows:
        stored = StoredOpenGroup.model_validate(row, strict=False)
        judged = None
        prompt = prompts[stored.problem]
        if stored.group is not None:
            (judged,) = groups_from_json([row["group"]], prompts)
        members = tuple(
            None if member is None else member.member(prompt) for member in stored.members
        )
        groups.append(OpenGroup(stored.place, stored.problem, prompt, members, judged))
    return groups
