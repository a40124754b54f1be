"""Another library as the judge, behind the calls of our own verifier."""

from collections.abc import Callable, Sequence

from verifiers.api import Verifier
from verifiers.equality.clusters import cluster
from verifiers.extraction.marks import check_format
from verifiers.judges import BAD_GOLD, JUDGES, NO_ANSWER, OURS, in_dollars
from verifiers.types import Attempt, Format, Judgement, Verdict, Verification
from verifiers.values.effort import OutOfEffortError


class PeerVerifier(Verifier):
    """Judges responses as another library does, each in a worker process.

    It is given the text after the last `</think>`, of an answer block what is in it as a box, and
    finds the answer itself, in any form.
    """

    def __init__(self, judge: str, *, workers: int = 1, timeout: float | None = None) -> None:
        limit = JUDGES[judge].timeout if timeout is None else timeout
        super().__init__(workers=workers, timeout=limit, judge=judge)
        self._name = judge

    def check_gold(self, gold: str) -> bool:
        """Say whether the library reads a gold answer."""
        return self._judge(gold, in_dollars(gold)).reason != BAD_GOLD

    def equal(self, a: str, b: str) -> Verdict:
        """Compare two answers: correct, wrong, or timeout."""
        return super().equal(a, in_dollars(b))

    def cluster(self, answers: Sequence[str]) -> list[int]:
        """Number the answers, so that equal ones share a number. The library has written them in
        a form of its own: only those that may have one value are given to it again."""
        return cluster(answers, self.equal, odd=False)

    def _verify(self, attempt: Attempt, judge: Callable[[str, str], Judgement]) -> Verification:
        found = judge(attempt.gold, answer_part(attempt.response))
        if found.equal is None:
            verdict = Verdict.TIMEOUT
        elif found.reason == BAD_GOLD:
            verdict = Verdict.UNPARSEABLE_GOLD
        elif found.reason == NO_ANSWER:
            verdict = Verdict.TRUNCATED if attempt.truncated else Verdict.NO_ANSWER
        else:
            verdict = Verdict.CORRECT if found.equal else Verdict.WRONG
        format_ok = check_format(attempt.response, think_open=attempt.think_open)
        return Verification(verdict, found.extracted, format_ok, found.reason, self._name)

    def _judge_here(self, gold: str, answer: str) -> Judgement:
        """Raise OutOfEffortError for what no worker has decided: a library never runs here."""
        if (gold, answer) not in self._cache:
            raise OutOfEffortError
        return self._cache[gold, answer]


def answer_part(response: str) -> str:
    """Return what a peer is given: all after the thought; an answer block, whose tags none knows,
    as the box that it stands for."""
    text = response.rpartition("</think>")[2]
    _, tag, rest = text.rpartition("<answer>")
    block, end, _ = rest.partition("</answer>")
    if not tag or not end or "\\boxed" in block:
        return text
    return f"\\boxed{{{block.strip()}}}"


def open_judge(judge: str, *, format: Format = "any", workers: int = 1) -> Verifier:
    """Return the verifier of that name; raises KeyError for one that is not in `JUDGES`."""
    if judge == OURS:
        return Verifier(format=format, workers=workers)
    return PeerVerifier(judge, workers=workers)
