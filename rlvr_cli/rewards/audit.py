"""Try a reward on responses whose worth is known, and judge its numbers (`rlvr audit`)."""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

from rlvr_cli.core.audit import AuditRow, Check, Example, PlainRewards, Rating
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import TIE, Completion, Group, Problem, Prompt, Rollout, by_key
from rlvr_cli.rewards.rewarder import Rewarder
from rlvr_cli.rewards.trials import CHECKS, CONSTANTS, Case, CheckTable, Trial
from verifiers import Verdict, Verifier

FINE = 0.02
"""Share of faults up to which a check is fine: one problem in fifty may be read in two ways."""
BAD = 0.2
"""Share of faults above which a check is bad: training soon exploits one on every fifth problem."""
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
LONGEST_S = 120.0
"""Seconds that an audit may take by its first problems. A slow reward is tried on fewer."""
_LEAST = 3
"""Problems that are tried however slow the reward is."""
_ALL_BY_PLAIN = 12
"""How many times as long as the plain answers all responses to a problem take: some 150 to 12."""


class Audit:
    """Asks a reward what responses earn, as training does, and counts its faults."""

    def __init__(
        self, rewarder: Rewarder, verifier: Verifier, tick: Callable[[str], object]
    ) -> None:
        self.rewarder = rewarder
        self.verifier = verifier
        self.tick = tick
        self.rows: dict[tuple[str, str], AuditRow] = {}
        """Each row by its check and its name."""
        self.seconds: list[float] = []
        self.golds: Counter[str] = Counter()
        """How many of the problems have each gold answer."""
        self.n_problems = 0
        """How many problems were tried with their plain answers."""
        self.is_slow = False
        """Whether problems were left out because the reward is slow."""
        self._paid_cases: dict[str, list[Case]] = {}

    @property
    def cases(self) -> list[Case]:
        """Return the cases whose plain right answer earns more than a wrong one, in the form of
        answers in which most cases do."""
        return max(self._paid_cases.values(), key=len, default=[])

    @property
    def has_signal(self) -> bool:
        """Return whether a plain right answer earns more on half of the problems tried."""
        return 2 * len(self.cases) >= self.n_problems > 0

    def try_plain_answers(self, problems: Sequence[Problem], answer_forms: dict[str, str]) -> None:
        """Ask what a right answer and a wrong one earn in each form, which gives the cases.

        Raises UserError if the reward fails wherever it is asked.
        """
        started = time.perf_counter()
        self._paid_cases = {name: [] for name in answer_forms}
        cases = self._cases(problems)
        self.golds = Counter(case.gold for case in cases)
        has_reward = False
        for number, case in enumerate(cases, 1):
            has_reward = self._try_forms(case, answer_forms) or has_reward
            if not has_reward and number in (_PROBED, len(cases)):
                raise UserError(f"audit: no response got a reward: {self._first_failure()}")
            self.n_problems = number
            self.tick("plain answers")
            if number == 1:  # its time includes the start of the workers
                started = time.perf_counter()
            seconds = _ALL_BY_PLAIN * (time.perf_counter() - started)
            self.is_slow = _LEAST <= number < len(cases) and seconds > LONGEST_S
            if self.is_slow:
                break

    def _try_forms(self, case: Case, answer_forms: dict[str, str]) -> bool:
        """Try a right and a wrong answer to a problem in each form. Return whether any response got
        a reward."""
        cases = [replace(case, answer_form=form) for form in answer_forms.values()]
        trials: list[Trial] = []
        for case_in_form in cases:
            right_trial, wrong_trial, _ = case_in_form.plain_trials
            trials += [right_trial, wrong_trial]
        rollouts = self._ask_each(case.problem, trials)
        rights = rollouts[::2]
        wrongs = rollouts[1::2]
        for name, case_in_form, right, wrong in zip(
            answer_forms, cases, rights, wrongs, strict=True
        ):
            is_paid = False
            if right.reward is not None and wrong.reward is not None:
                is_paid = right.reward > wrong.reward + TIE
                if is_paid:
                    rewards = PlainRewards(right.reward, wrong.reward)
                    self._paid_cases[name].append(replace(case_in_form, rewards=rewards))
            self._count("plain", name, "earn the same", right, not is_paid)
        return any(rollout.reward is not None for rollout in rollouts)

    def _first_failure(self) -> str:
        """Return why the first response that failed has no reward."""
        examples = self.rows["failures", "responses"].examples
        return examples[0].reason if examples else "it is None for each"

    def try_table(self) -> None:
        """Ask what the responses of the table earn, and two whole answers in either order."""
        for case in self.cases:
            self._try_both_orders(case)
            trials = list(case.trials(CONSTANTS))
            room = MOVED * (case.rewards.right - case.rewards.wrong)
            for trial, rollout in zip(trials, self._ask_each(case.problem, trials), strict=True):
                self._count_worth(trial, rollout, fmean(case.rewards))
                if trial.check == "length":
                    plain_reward = case.rewards.right if trial.is_right else case.rewards.wrong
                    is_changed = _is_different(rollout.reward, plain_reward, room)
                    self._count("value", trial.row, "changed", rollout, is_changed)
            self.tick("other answers")

    def _try_both_orders(self, case: Case) -> None:
        """Count whether a right answer gets its reward both before a wrong one and after it: such a
        reward is for guessing. A function that reads the first answer, or the last, rewards one
        order only."""
        right = case.text(case.gold)
        wrong = case.text(case.wrong)
        row = "two whole answers, in either order"
        trials = [
            Trial("several", row, f"{right}\n\n{wrong}", is_right=False),
            Trial("several", row, f"{wrong}\n\n{right}", is_right=False),
        ]
        rollouts = self._ask_each(case.problem, trials)
        middle = fmean(case.rewards)
        are_paid = [rollout.reward is not None and rollout.reward > middle for rollout in rollouts]
        self._count("several", row, "paid", rollouts[0], all(are_paid))

    def ask_again(self) -> None:
        """Ask the plain answers once more: alone, in a group, and in a group turned round."""
        for case in self.cases[:_AGAIN]:
            trials = case.plain_trials
            first = self._ask_each(case.problem, trials)
            alone: list[Rollout] = []
            for trial in trials:
                started = time.perf_counter()
                alone += self._ask_each(case.problem, [trial])
                self.seconds.append(time.perf_counter() - started)
                self._count("time", "asked alone", "slow", alone[-1], self.seconds[-1] > SLOW_S)
            group = self._ask(case.problem, [trials])
            turned = self._ask(case.problem, [trials[::-1]])[::-1]
            for check, pairs in (
                ("again", zip(first, alone, strict=True)),
                ("group", zip(alone, group, strict=True)),
                ("order", zip(group, turned, strict=True)),
            ):
                for earlier, later in pairs:
                    is_different = _is_different(earlier.reward, later.reward, TIE)
                    self._count(check, "plain answers", "differ", later, is_different)

    def compare(self, problem: Problem, response: str, is_cut_off: bool) -> None:
        """Compare what a response earns with our verifier's verdict, which may be wrong too."""
        middle = fmean(fmean(case.rewards) for case in self.cases)
        trial = Trial("responses", "wrong", response, is_right=False, is_cut_off=is_cut_off)
        (rollout,) = self._ask_each(problem, [trial])
        if rollout.is_correct:
            trial = trial._replace(row="right", is_right=True)
        self._count_worth(trial, rollout, middle)

    def checks(self) -> list[Check]:
        """Return each check that was made, with its judgement and its rows."""
        rows = by_key(self.rows.values(), lambda row: row.check)
        return [self._check(name, rows[name]) for name in CHECKS if name in rows]

    def _check(self, name: str, rows: list[AuditRow]) -> Check:
        """Judge a check by its worst row, or by the sum of its forms, each with its weight."""
        table = CHECKS[name]
        shares = [row.weight * row.faults / row.asked for row in rows]
        # One form of answers that earns more is enough.
        share = min(shares) if name == "plain" else max(shares)
        worst = rows[shares.index(share)]
        finding = f"none of {worst.asked:,} {worst.fault}"
        if worst.faults:
            finding = f"{worst.row}: {worst.faults:,} of {worst.asked:,} {worst.fault}"
        if name == "blind":
            ((constant, count),) = self.golds.most_common(1)
            finding += f"; the best constant, {constant}, is right on {count:,}"
        unseen = [row.row for row in rows if row.faults and not row.weight]
        if unseen:
            finding += f"; told, not counted, as no real response has it: {', '.join(unseen)}"
        if any(row.weight < 1 for row in rows):
            share = sum(shares)
        judgement = self._judgement(table, rows, share, has_fault=worst.faults > 0)
        return Check(name, table.question, judgement, finding, rows)

    def _judgement(
        self, table: CheckTable, rows: Sequence[AuditRow], share: float, has_fault: bool
    ) -> Rating:
        """Judge a check by its share of faults, unless its table has another rule."""
        if table.is_luck:
            is_beyond_luck = any(row.faults > self._luck(row.asked) for row in rows)
            return "bad" if is_beyond_luck else "fine"
        if has_fault and table.at_one_fault is not None:
            return table.at_one_fault
        return _rating(share)

    def _luck(self, answers: int) -> float:
        """Return how many of these answers may be right by chance.

        Two counts of equal chance differ by three times sqrt(2 n) once in 700.
        """
        ((_, count),) = self.golds.most_common(1)
        expected = answers * count / self.golds.total()
        return expected + 3 * math.sqrt(2 * expected)

    def _cases(self, problems: Sequence[Problem]) -> list[Case]:
        """Pair each problem with the answer of another that is evidently not its own."""
        cases = []
        for number, problem in enumerate(problems, 1):
            gold = problem.answer or ""
            following = [*problems[number:], *problems[:number]]
            answers = dict.fromkeys(neighbor.answer or "" for neighbor in following)
            for wrong in [*answers][:_PARTNERS]:
                is_apart = gold not in wrong and wrong not in gold
                if is_apart and self.verifier.equal(gold, wrong) is Verdict.WRONG:
                    cases.append(Case(problem, gold, wrong, answer_form=""))
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
        weight = CHECKS[check].weight_of(row)
        audited = self.rows.setdefault((check, row), AuditRow(check, row, fault, weight))
        audited.asked += 1
        if not is_fault:
            return
        audited.faults += 1
        if len(audited.examples) < _EXAMPLES:
            problem = rollout.prompt.problem
            audited.examples.append(
                Example(
                    problem=problem.id,
                    answer=problem.answer,
                    response=rollout.text,
                    reward=rollout.reward,
                    reason=reason,
                )
            )

    def _ask_each(self, problem: Problem, trials: Sequence[Trial]) -> list[Rollout]:
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
        token_ids = range(len(trial.response) // _CHARACTERS)
        completion = Completion(token_ids, (), "length" if trial.is_cut_off else "stop")
        rollout = Rollout.of(prompt, 0, completion, trial.response)
        return replace(rollout, verification=self.verifier.verify(rollout.attempt))


def _rating(share: float) -> Rating:
    """Return the judgement of a check by the share of faults in its worst row."""
    if share <= FINE:
        return "fine"
    return "look" if share <= BAD else "bad"


def _is_different(first: float | None, second: float | None, room: float) -> bool:
    """Return whether two rewards differ by more. None is a reward of its own here."""
    if first is None or second is None:
        return first is not second
    return abs(first - second) > room
