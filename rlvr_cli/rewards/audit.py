"""Try a reward on responses whose worth is known, and judge what it pays (`rlvr audit`)."""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import TIE, Completion, Group, Problem, Prompt, Rollout, by_key
from rlvr_cli.rewards.rewarder import Rewarder
from rlvr_cli.rewards.trials import CHECKS, CONSTANTS, Case, Trial
from verifiers import Attempt, Verdict, Verifier
from verifiers.gym import place_of

FINE = 0.02
"""Share of faults up to which a check is fine: one problem in fifty may be read in two ways."""
BAD = 0.2
"""Share of faults above which a check is bad: sampling soon finds what pays on every fifth."""
MOVED = 0.01
"""Change of a reward that counts, as a share of what a right answer earns beyond a wrong one."""
SLOW_S = 0.1
"""Seconds per response that are slow: 256 responses take eight workers 3 s."""
_PROBED = 3
"""Problems on which a reward may fail before the audit ends."""
_AGAIN = 40
"""Problems whose plain answers are asked again, one by one and in groups."""
_PARTNERS = 20
"""Other problems that are tried for a wrong answer."""
_CHARACTERS = 4
"""Characters of a token, for the reward `length`."""
_EXAMPLES = 3


@dataclass
class Tally:
    """What became of the trials of a row. `fault` is the word for what a reward should not do."""

    check: str
    row: str
    fault: str
    asked: int = 0
    faults: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)


class Audit:
    """Asks a reward what responses earn, as training does, and counts its faults."""

    def __init__(
        self, rewarder: Rewarder, verifier: Verifier, tick: Callable[[str], object]
    ) -> None:
        self.rewarder = rewarder
        self.verifier = verifier
        self.tick = tick
        self.tallies: dict[tuple[str, str], Tally] = {}
        self.seconds: list[float] = []
        self.golds: Counter[str] = Counter()
        """How many of the problems have each gold answer."""

    def plain(self, problems: Sequence[Problem], ways: dict[str, str]) -> list[Case]:
        """Return the cases whose plain right answer earns more than a wrong one, in the way of
        writing that is paid most often.

        Raises UserError if the reward fails wherever it is asked.
        """
        paid: dict[str, list[Case]] = {name: [] for name in ways}
        cases = self._cases(problems)
        self.golds = Counter(case.gold for case in cases)
        has_reward = False
        for number, case in enumerate(cases, 1):
            written = [replace(case, way=way) for way in ways.values()]
            trials = [trial for case in written for trial in case.plain_trials[:2]]
            rollouts = self._each(case.problem, trials)
            has_reward |= any(rollout.reward is not None for rollout in rollouts)
            if not has_reward and number in (_PROBED, len(cases)):
                examples = self.tallies["failures", "responses"].examples
                reason = examples[0]["reason"] if examples else "it is None for each"
                raise UserError(f"audit: no response got a reward: {reason}")
            pairs = zip(rollouts[::2], rollouts[1::2], strict=True)
            for name, case, (right, wrong) in zip(ways, written, pairs, strict=True):
                is_paid = False
                if right.reward is not None and wrong.reward is not None:
                    is_paid = right.reward > wrong.reward + TIE
                    if is_paid:
                        paid[name].append(replace(case, rewards=(right.reward, wrong.reward)))
                self._count("plain", name, "earn the same", right, not is_paid)
            self.tick("plain answers")
        return max(paid.values(), key=len)

    def try_table(self, cases: Sequence[Case]) -> None:
        """Ask what the responses of the table earn."""
        for case in cases:
            trials = list(case.trials(CONSTANTS))
            room = MOVED * (case.rewards[0] - case.rewards[1])
            for trial, rollout in zip(trials, self._each(case.problem, trials), strict=True):
                self._count_worth(trial, rollout, fmean(case.rewards))
                if trial.check == "length":
                    pair = rollout.reward, case.rewards[not trial.is_right]
                    self._count("value", trial.row, "changed", rollout, _differ(pair, room))
            self.tick("other answers")

    def ask_again(self, cases: Sequence[Case]) -> None:
        """Ask the plain answers once more: alone, in a group, and in a group turned round."""
        for case in cases[:_AGAIN]:
            trials = case.plain_trials
            first = self._each(case.problem, trials)
            again: list[Rollout] = []
            for trial in trials:
                started = time.perf_counter()
                again += self._each(case.problem, [trial])
                self.seconds.append(time.perf_counter() - started)
                self._count("time", "asked alone", "slow", again[-1], self.seconds[-1] > SLOW_S)
            group = self._ask(case.problem, [trials])
            turned = self._ask(case.problem, [trials[::-1]])[::-1]
            for check, pairs in (
                ("again", zip(first, again, strict=True)),
                ("group", zip(again, group, strict=True)),
                ("order", zip(group, turned, strict=True)),
            ):
                for one, other in pairs:
                    differ = _differ((one.reward, other.reward), TIE)
                    self._count(check, "plain answers", "differ", other, differ)

    def compare(
        self, cases: Sequence[Case], problem: Problem, response: str, is_cut_off: bool
    ) -> None:
        """Compare what a response earns with our verifier's verdict, which is no truth either."""
        middle = fmean(fmean(case.rewards) for case in cases)
        trial = Trial("responses", "wrong", response, is_right=False, is_cut_off=is_cut_off)
        (rollout,) = self._each(problem, [trial])
        if rollout.is_correct:
            trial = trial._replace(row="right", is_right=True)
        self._count_worth(trial, rollout, middle)

    def checks(self) -> list[dict[str, Any]]:
        """Return each check that was made, with its judgement and its rows."""
        checks = []
        tallies = by_key(self.tallies.values(), lambda tally: tally.check)
        ((constant, most),) = self.golds.most_common(1)

        def luck(asked: int) -> float:
            """Return how many of so many answers may be right by chance. Two counts of equal chance
            differ by three times sqrt(2 n) once in 700."""
            expected = asked * most / self.golds.total()
            return expected + 3 * math.sqrt(2 * expected)

        for name, table in CHECKS.items():
            if name not in tallies:
                continue
            rows = tallies[name]
            is_luck = "is_luck" in table
            shares = [(row.faults - is_luck * luck(row.asked)) / row.asked for row in rows]
            # One way of writing that is paid is enough.
            share = min(shares) if name == "plain" else max(shares)
            worst = rows[shares.index(share)]
            found = f"none of {worst.asked:,} {worst.fault}"
            judgement = "fine" if share <= FINE else "look" if share <= BAD else "bad"
            if worst.faults:
                found = f"{worst.row}: {worst.faults:,} of {worst.asked:,} {worst.fault}"
                judgement = table.get("any", judgement)
            if name == "blind":
                found += f"; the best constant, {constant}, is right on {most:,}"
            checks.append(
                {
                    "name": name,
                    "question": table["question"],
                    "judgement": judgement,
                    "found": found,
                    "rows": [vars(row) for row in rows],
                }
            )
        return checks

    def _cases(self, problems: Sequence[Problem]) -> list[Case]:
        """Pair each problem with the answer of another that is evidently not its own."""
        cases = []
        for number, problem in enumerate(problems, 1):
            gold = problem.answer or ""
            following = [*problems[number:], *problems[:number]]
            others = dict.fromkeys(other.answer or "" for other in following)
            for wrong in [*others][:_PARTNERS]:
                is_apart = gold not in wrong and wrong not in gold
                if is_apart and self.verifier.equal(gold, wrong) is Verdict.WRONG:
                    cases.append(Case(problem, gold, wrong, way=""))
                    break
        if not cases:
            raise UserError("audit: all problems have one answer, so that none is known as wrong")
        return cases

    def _count_worth(self, trial: Trial, rollout: Rollout, middle: float) -> None:
        """Count whether a reward is nearer to that of a plain answer of the other worth."""
        fault = "refused" if trial.is_right else "paid"
        is_paid = rollout.reward is not None and rollout.reward > middle
        self._count(trial.check, trial.row, fault, rollout, is_paid != trial.is_right)

    def _count(
        self, check: str, row: str, fault: str, rollout: Rollout, is_fault: bool, reason: str = ""
    ) -> None:
        tally = self.tallies.setdefault((check, row), Tally(check, row, fault))
        tally.asked += 1
        tally.faults += is_fault
        if is_fault and len(tally.examples) < _EXAMPLES:
            problem = rollout.prompt.problem
            tally.examples.append(
                {
                    "problem": problem.id,
                    "answer": problem.answer,
                    "response": rollout.text,
                    "reward": rollout.reward,
                    "reason": reason,
                }
            )

    def _each(self, problem: Problem, trials: Sequence[Trial]) -> list[Rollout]:
        """Return the responses with what each earns alone. The workers have them side by side."""
        return self._ask(problem, [[trial] for trial in trials])

    def _ask(self, problem: Problem, groups: Sequence[Sequence[Trial]]) -> list[Rollout]:
        """Return the responses with what they earn in their groups. Count those that failed."""
        prompt = Prompt(problem, "", (), think_open=False)
        started = [
            self.rewarder.start(problem, [trial.response for trial in trials]) for trials in groups
        ]
        rollouts: list[Rollout] = []
        for trials, pending in zip(groups, started, strict=True):
            judged = tuple(self._judged(prompt, trial) for trial in trials)
            reason = ""
            try:
                judged = self.rewarder.reward(Group(prompt, judged, 0), pending).rollouts
            except UserError as error:
                reason = str(error)
            for rollout in judged:
                why = reason
                verification = rollout.verification
                if rollout.reward is None and verification and verification.verdict == "timeout":
                    why = verification.reason
                self._count("failures", "responses", "failed", rollout, bool(why), why)
            rollouts += judged
        return rollouts

    def _judged(self, prompt: Prompt, trial: Trial) -> Rollout:
        """Return a response with our verdict, and without a reward."""
        text = trial.response
        row = prompt.problem.row
        attempt = Attempt(
            text, row["answer"] or "", truncated=trial.is_cut_off, place=place_of(row)
        )
        verification = self.verifier.verify(attempt)
        completion = Completion(range(len(text) // _CHARACTERS), (), "stop")
        return Rollout.of(prompt, 0, completion, text, verification)


def _differ(rewards: tuple[float | None, float | None], room: float) -> bool:
    """Return whether two rewards differ by more. None is a reward of its own here."""
    one, other = rewards
    if one is None or other is None:
        return one is not other
    return abs(one - other) > room
