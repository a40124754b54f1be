"""Try a reward on responses whose worth is known, and judge what it pays (`rlvr audit`)."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Completion, Group, Problem, Prompt, Rollout, are_different
from rlvr_cli.rewards.rewarder import Pending, Rewarder
from rlvr_cli.rewards.trials import CHECKS, CONSTANTS, Case, Trial
from verifiers import Attempt, Verdict, Verifier

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
Rewards = list[float | None]


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

    def plain(self, problems: Sequence[Problem], ways: dict[str, str]) -> list[Case]:
        """Return the cases whose plain right answer earns more than a wrong one, in the way of
        writing that is paid most often.

        Raises UserError if the reward fails wherever it is asked.
        """
        by_way: dict[str, list[Case]] = {name: [] for name in ways}
        cases = self._cases(problems)
        fails_always = True
        for number, case in enumerate(cases, 1):
            written = [replace(case, way=way) for way in ways.values()]
            trials = [_said(case, answer) for case in written for answer in (case.gold, case.wrong)]
            rewards = self._each(case.problem, trials)
            fails_always &= all(reward is None for reward in rewards)
            if fails_always and number in (_PROBED, len(cases)):
                examples = self.tallies["failures", "responses"].examples
                reason = examples[0]["reason"] if examples else "it is None for each"
                raise UserError(f"audit: no response got a reward: {reason}")
            pairs = zip(rewards[::2], rewards[1::2], strict=True)
            for name, case, (right, wrong) in zip(ways, written, pairs, strict=True):
                is_paid = right is not None and wrong is not None and right > wrong
                self._count("plain", name, "alike", case, trials[0], right, not is_paid)
                if is_paid:
                    by_way[name].append(replace(case, rewards=(right, wrong)))
            self.tick("plain answers")
        return max(by_way.values(), key=len)

    def try_table(self, cases: Sequence[Case]) -> None:
        """Ask what the responses of the table earn."""
        for case in cases:
            trials = list(case.trials(CONSTANTS))
            rewards = self._each(case.problem, trials)
            for trial, reward in zip(trials, rewards, strict=True):
                self._count_worth(trial.check, case, trial, reward)
                if trial.check == "length":
                    plain = case.rewards[not trial.is_right]
                    room = MOVED * (case.rewards[0] - case.rewards[1])
                    is_moved = reward is None or abs(reward - plain) > room
                    self._count("value", trial.row, "changed", case, trial, reward, is_moved)
            self.tick("other answers")

    def ask_again(self, cases: Sequence[Case]) -> None:
        """Ask the plain answers once more: alone, in a group, and in a group turned round."""
        for case in cases[:_AGAIN]:
            trials = [_said(case, answer) for answer in (case.gold, case.wrong, "")]
            first = self._each(case.problem, trials)
            again: Rewards = []
            for trial in trials:
                started = time.perf_counter()
                again += self._each(case.problem, [trial])
                self.seconds.append(time.perf_counter() - started)
                is_slow = self.seconds[-1] > SLOW_S
                self._count("time", "plain answers", "slow", case, trial, again[-1], is_slow)
            group = self._group(case.problem, trials)
            turned = self._group(case.problem, trials[::-1])[::-1]
            for check, earlier, later in (
                ("again", first, again),
                ("group", again, group),
                ("order", group, turned),
            ):
                for trial, *pair in zip(trials, earlier, later, strict=True):
                    differ = are_different(pair) or pair.count(None) == 1
                    self._count(check, "plain answers", "differ", case, trial, pair[1], differ)

    def compare(self, cases: Sequence[Case], rows: Sequence[tuple[Problem, Trial]]) -> None:
        """Compare what responses earn with our verifier's verdicts, which are no truth either."""
        middle = fmean(fmean(case.rewards) for case in cases)
        for problem, trial in rows:
            attempt = Attempt(trial.response, problem.answer or "", truncated=trial.is_cut_off)
            is_right = self.verifier.verify(attempt).verdict is Verdict.CORRECT
            (reward,) = self._each(problem, [trial])
            case = Case(problem, problem.answer or "", "", "", (middle, middle))
            self._count_worth("responses", case, trial._replace(is_right=is_right), reward)

    def checks(self) -> list[dict[str, Any]]:
        """Return each check that was made, with its judgement and its rows."""
        best = max(
            (tally for tally in self.tallies.values() if tally.check == "constant"),
            key=lambda tally: tally.faults,
            default=None,
        )
        checks = []
        for name, table in CHECKS.items():
            rows = [tally for tally in self.tallies.values() if tally.check == name]
            if not rows:
                continue
            allowed = 0.0
            if "is_luck" in table and best is not None:
                # Two counts of equal chance differ by three times sqrt(2 n) once in 700.
                allowed = best.faults + 3 * math.sqrt(2 * best.faults)
            judged = max if name != "plain" else min
            worst = judged(rows, key=lambda tally: (tally.faults - allowed) / tally.asked)
            share = (worst.faults - allowed) / worst.asked
            judgement = "fine" if share <= FINE else "look" if share <= BAD else "bad"
            if worst.faults and "any" in table:
                judgement = table["any"]
            asked = worst.asked if name == "plain" else sum(tally.asked for tally in rows)
            found = f"none of {asked:,} {worst.fault}"
            if worst.faults:
                found = f"{worst.row}: {worst.faults:,} of {worst.asked:,} {worst.fault}"
            if name == "blind" and best is not None:
                found += f"; the best constant, {best.row}: {best.faults}"
            checks.append(
                {
                    "name": name,
                    "question": table["question"],
                    "judgement": judgement,
                    "found": found,
                    "rows": list(map(vars, rows)),
                }
            )
        return checks

    def _cases(self, problems: Sequence[Problem]) -> list[Case]:
        """Pair each problem with the answer of another that is evidently not its own."""
        cases = []
        for number, problem in enumerate(problems, 1):
            gold = problem.answer or ""
            for other in (*problems[number:], *problems[:number])[:_PARTNERS]:
                wrong = other.answer or ""
                is_apart = gold not in wrong and wrong not in gold
                if is_apart and self.verifier.equal(gold, wrong) is Verdict.WRONG:
                    cases.append(Case(problem, gold, wrong, way=""))
                    break
        if not cases:
            raise UserError("audit: all problems have one answer, so that none is known as wrong")
        return cases

    def _count_worth(self, check: str, case: Case, trial: Trial, reward: float | None) -> None:
        """Count whether a reward is nearer to a plain answer's of the other worth."""
        is_paid = reward is not None and reward > fmean(case.rewards)
        fault = "refused" if trial.is_right else "paid"
        row = trial.row or fault
        self._count(check, row, fault, case, trial, reward, is_paid != trial.is_right)

    def _count(
        self,
        check: str,
        row: str,
        fault: str,
        case: Case,
        trial: Trial,
        reward: float | None,
        is_fault: bool,
        reason: str = "",
    ) -> None:
        tally = self.tallies.setdefault((check, row), Tally(check, row, fault))
        tally.asked += 1
        tally.faults += is_fault
        if is_fault and len(tally.examples) < _EXAMPLES:
            tally.examples.append(
                {
                    "problem": case.problem.id,
                    "answer": case.gold,
                    "response": trial.response,
                    "reward": reward,
                    "reason": reason,
                }
            )

    def _each(self, problem: Problem, trials: Sequence[Trial]) -> Rewards:
        """Return what each response earns alone. The workers have them side by side."""
        started = [self.rewarder.start(problem, [trial.response]) for trial in trials]
        rewards: Rewards = []
        for trial, pending in zip(trials, started, strict=True):
            rewards += self._finished(problem, [trial], pending)
        return rewards

    def _group(self, problem: Problem, trials: Sequence[Trial]) -> Rewards:
        """Return what the responses earn in one group."""
        pending = self.rewarder.start(problem, [trial.response for trial in trials])
        return self._finished(problem, trials, pending)

    def _finished(
        self, problem: Problem, trials: Sequence[Trial], pending: Sequence[Pending]
    ) -> Rewards:
        """Wait for the rewards of a group, and count those that failed or exceeded a limit."""
        prompt = Prompt(problem, "", (), think_open=False)
        rollouts = []
        for sample, trial in enumerate(trials):
            text = trial.response
            tokens = range(len(text) // _CHARACTERS)
            completion = Completion(tokens, (), "length" if trial.is_cut_off else "stop")
            attempt = Attempt(text, problem.answer or "", truncated=trial.is_cut_off)
            verification = self.verifier.verify(attempt)
            rollouts.append(Rollout(prompt, sample, completion, text, verification, reward=None))
        group = Group(prompt, tuple(rollouts), 0)
        reason = ""
        try:
            group = self.rewarder.reward(group, pending)
        except UserError as error:
            reason = str(error)
        case = Case(problem, problem.answer or "", "", "")
        for trial, rollout in zip(trials, group.rollouts, strict=True):
            late = ""
            if rollout.verification is not None and rollout.verification.verdict == "timeout":
                late = rollout.verification.reason
            self._count(
                "failures",
                "responses",
                "failed",
                case,
                trial,
                None,
                bool(reason or late),
                reason or late,
            )
        return [rollout.reward for rollout in group.rollouts]


def _said(case: Case, answer: str) -> Trial:
    return Trial("plain", answer, case.text(answer), is_right=answer == case.gold)
