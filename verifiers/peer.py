"""Judge responses with another library, through the interface of our own verifier."""

from collections.abc import Callable, Sequence

from verifiers.api import Verifier, verdict_of
from verifiers.equality.clusters import cluster
from verifiers.extraction.marks import check_format
from verifiers.extraction.turns import final_text
from verifiers.judges import BAD_GOLD, JUDGES, NO_ANSWER, OURS, in_dollars
from verifiers.types import Attempt, Format, Judgement, Verdict, Verification
from verifiers.values.effort import OutOfEffortError


class PeerVerifier(Verifier):
    """Judges responses as another library does, each in a worker process.

    The library gets the final text, with an answer block rewritten as a box, and looks for the
    answer itself.
    """

    def __init__(self, judge: str, *, workers: int = 1, timeout: float | None = None) -> None:
        limit = JUDGES[judge].timeout if timeout is None else timeout
        super().__init__(workers=workers, timeout=limit, judge=judge)
        self._name = judge

    def check_gold(self, gold: str) -> bool:
        """Return whether the library can read a gold answer."""
        return self._judge(gold, in_dollars(gold)).reason != BAD_GOLD

    def equal(self, a: str, b: str) -> Verdict:
        """Compare two answers: correct, wrong, or timeout."""
        return super().equal(a, in_dollars(b))

    def cluster(self, answers: Sequence[str]) -> list[int]:
        """Number the answers, so that equal ones share a number. The library writes answers in
        a form of its own, so only those that may have the same value are given to it again."""
        return cluster(answers, self.equal, odd=False)

    def _verify(self, attempt: Attempt, judge: Callable[[str, str], Judgement]) -> Verification:
        judgement = judge(attempt.gold, answer_part(attempt.response))
        if judgement.reason == BAD_GOLD:
            verdict = Verdict.UNPARSEABLE_GOLD
        elif judgement.reason == NO_ANSWER:
            verdict = Verdict.TRUNCATED if attempt.truncated else Verdict.NO_ANSWER
        else:
            verdict = verdict_of(judgement)
        format_ok = check_format(attempt.response, think_open=attempt.think_open)
        return Verification(verdict, judgement.extracted, format_ok, judgement.reason, self._name)

    def _judge_here(self, gold: str, answer: str) -> Judgement:
        """Return what a worker has decided before. Raises OutOfEffortError for anything else,
        because the library never runs in this process."""
        if (gold, answer) not in self._cache:
            raise OutOfEffortError
        return self._cache[gold, answer]


def answer_part(response: str) -> str:
    """Return the text after the thought, as the library gets it: an answer block, whose tags the
    library does not know, becomes a box."""
    final = final_text(response)
    text = response if final is None else final
    _, tag, rest = text.rpartition("<answer>")
    block, end, _ = rest.partition("</answer>")
    if not tag or not end or "\\boxed" in block:
        return text
    return f"\\boxed{{{block.strip()}}}"


def open_judge(judge: str, *, format: Format = "any", workers: int = 1) -> Verifier:
    """Return a verifier that asks the judge of this name. Raises KeyError if `JUDGES` lacks it."""
    if judge == OURS:
        return Verifier(format=format, workers=workers)
    return PeerVerifier(judge, workers=workers)
