"""Partial rollouts: rounds end by a count of tokens, and responses go on after the update.

In a round every response in flight gets up to `rollout.partial.tokens` more, in turns, and nothing
else ends it: what is sampled depends on neither clocks nor processes. Between two turns problems
are begun in the place of responses that ended, so that as many are in flight as a step has. Keys
and values are computed again after an update. Groups are handed out in the order of their problems,
however soon they ended, so short responses are not preferred.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from rlvr_cli.config.sections import PartialRollouts
from rlvr_cli.core.carried import open_groups_as_json, open_groups_from_json
from rlvr_cli.core.seeds import response_seed
from rlvr_cli.core.step_figures import PartialFigures
from rlvr_cli.core.types import Group, OpenGroup, Prompt, Unfinished
from rlvr_cli.data.problems import Draw, ProblemOrder
from rlvr_cli.ranks.exchange import gather_shares
from rlvr_cli.ranks.group import share, sum_values, world
from rlvr_cli.rollout.engines.base import TURNS, CompletionStream
from rlvr_cli.setup.session import Session


@dataclass
class InFlight:
    """The groups that were begun and have not been trained on, in the order of their problems."""

    session: Session
    prompts: Sequence[Prompt]
    order: ProblemOrder
    settings: PartialRollouts
    groups: list[OpenGroup] = field(default_factory=list)
    figures: PartialFigures = field(default_factory=PartialFigures)
    """Those of the step so far."""

    def begin_step(self, weight_version: int) -> None:
        """End the responses that are too old for these weights."""
        self.figures = PartialFigures()
        groups = []
        for group in self.groups:
            members = list(group.members)
            for number in group.unfinished:
                response = members[number]
                assert isinstance(response, Unfinished)
                if response.age(weight_version) > self.settings.age:
                    is_cut = self.settings.too_old == "cut"
                    members[number] = response.ended("length") if is_cut else None
                    self._count(too_old=1)
            if any(member is not None for member in members) or group.group is not None:
                groups.append(replace(group, members=tuple(members)))
        self.groups = groups

    def take(
        self, count: int, weight_version: int, on_group: Callable[[Group], None]
    ) -> tuple[list[Draw], list[Group]]:
        """Return the next groups in the order of their problems, after as many rounds as it takes
        until the last of them has ended.

        `on_group` hears of each group of a round when it is judged.
        """
        while len(self.groups) < count or None in [group.group for group in self.groups[:count]]:
            self._sample_round(weight_version, on_group)
        taken = self.groups[:count]
        self.groups = self.groups[count:]
        draws = [(group.place, group.problem) for group in taken]
        return draws, [group.group for group in taken if group.group is not None]

    def end_step(self) -> PartialFigures:
        """Return the figures of the step. Drop its keys: a resumed run begins without keys, and the
        update needs their memory."""
        self.session.engine.drop_keys()
        self._count(unfinished=self._unfinished)
        return self.figures

    @property
    def _unfinished(self) -> int:
        return sum(len(group.unfinished) for group in self.groups)

    def _count(self, **more: int) -> None:
        """Add to the figures of the step."""
        totals = {name: getattr(self.figures, name) + number for name, number in more.items()}
        self.figures = replace(self.figures, **totals)

    def _begin_groups(self) -> None:
        """Begin as many problems as there is room for, in the place of responses that ended."""
        config = self.session.plan.config
        samples = config.rollout.samples
        room = config.rollout.prompts * samples - self._unfinished
        for place, problem in self.order.draw(room // samples):
            prompt = self.prompts[problem]
            seed = response_seed(config.seed, "train", place)
            members = tuple(Unfinished(prompt, seed + sample) for sample in range(samples))
            self.groups.append(OpenGroup(place, problem, prompt, members))

    def _sample_round(self, weight_version: int, on_group: Callable[[Group], None]) -> None:
        """Give every unfinished response its tokens, in turns: between two of them others begin in
        the place of those that have ended."""
        tokens = self.session.plan.config.rollout.round_tokens
        turn = -(-tokens // TURNS)
        for start in range(0, tokens, turn):
            self._begin_groups()
            self._take_turn(min(turn, tokens - start), weight_version, on_group)
        self._count(rounds=1)

    def _take_turn(
        self, tokens: int, weight_version: int, on_group: Callable[[Group], None]
    ) -> None:
        """Give every unfinished response as many tokens, and judge the groups whose last one ended.

        The groups of a process are the same from turn to turn, so that it has their keys.
        """
        session = self.session
        extended = list(share(self.groups))
        tokens_before = sum(_tokens(group) for group in extended)
        judged = session.sampler.judge_some(
            [group.prompt for group in self.groups],
            self._extend(extended, tokens, weight_version),
            session.rewarder,
            weight_version,
            on_group,
        )
        decoded = sum(_tokens(group) for group in extended) - tokens_before
        self._count(tokens_decoded=round(sum_values({"tokens": decoded})["tokens"]))
        if world() > 1:
            rows = open_groups_as_json(extended, self.prompts)
            extended = open_groups_from_json(gather_shares(rows), self.prompts)
        self.groups = extended
        for index, group in judged.items():
            self.groups[index] = replace(extended[index], members=(), group=group)

    def _extend(
        self, groups: list[OpenGroup], tokens: int, weight_version: int
    ) -> CompletionStream:
        """Extend the responses of these groups in place, and yield the completions of each group
        with its number once its last response has ended."""
        params = self.session.plan.training
        places = [(g, number) for g, group in enumerate(groups) for number in group.unfinished]
        lacking = [len(group.unfinished) for group in groups]
        responses = []
        for g, number in places:
            response = groups[g].members[number]
            assert isinstance(response, Unfinished)
            responses.append(response)
        for g, count in enumerate(lacking):
            if not count and groups[g].group is None:  # its last response was too old
                yield g, groups[g].completions
        with closing(self.session.engine.extend(responses, params, tokens)) as extensions:
            for r, more in extensions:
                g, number = places[r]
                response = responses[r].extended(more, weight_version)
                has_ended = more.finish_reason == "stop" or response.position == params.max_tokens
                members = list(groups[g].members)
                members[number] = response.ended(more.finish_reason) if has_ended else response
                groups[g] = replace(groups[g], members=tuple(members))
                lacking[g] -= has_ended
                if has_ended and not lacking[g]:
                    yield g, groups[g].completions


def _tokens(group: OpenGroup) -> int:
    """Return how many tokens the responses of a group have so far."""
    return sum(len(member.token_ids) for member in group.members if member is not None)
