"""Verify responses: extract the answer, compare it with the gold, in a worker if it may hang."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Self

from verifiers.equality.clusters import cluster
from verifiers.equality.compare import compare, members, same_number, same_text
from verifiers.extraction.echo import is_echo
from verifiers.extraction.extract import extract
from verifiers.extraction.golds import gold_value
from verifiers.extraction.marks import check_format, is_incomplete
from verifiers.extraction.undone import is_computation, is_left_undone
from verifiers.grammar.normalize import gold_text, undoubled
from verifiers.judges import BAD_GOLD, OURS
from verifiers.types import Attempt, Format, Judgement, Verdict, Verification
from verifiers.values.effort import OutOfEffortError, limited
from verifiers.workers.pool import GYM, LATE, Pool, WorkerLostError

EFFORT_HERE_S = 0.025  # processor time: most comparisons take under 1 ms, and need no worker
CACHE_SIZE = 1_000_000  # judgements, some 0.5 kB each; the cache is emptied when it is full
LONGEST_CACHED = 1_000  # characters of an answer; longer ones hardly ever repeat
GYM_S = 30.0  # a generator makes its problem again, which takes some of them seconds
GYM_MB = 4096  # that of reward functions: numpy and sympy are loaded


class Verifier:
    """Judges responses. Threads may share it. Use it as a context manager, or close it."""

    def __init__(
        self,
        *,
        format: Format = "any",
        workers: int = 1,
        timeout: float = 2.0,
        memory_mb: int = 1024,
        judge: str = OURS,
    ) -> None:
        self._format = format
        self._workers = workers
        self._pool = Pool(workers=workers, timeout=timeout, memory_mb=memory_mb, judge=judge)
        self._gym = Pool(workers=workers, timeout=GYM_S, memory_mb=GYM_MB, judge=GYM)
        self._cache: dict[tuple[str, str], Judgement] = {}

    def verify(
        self,
        attempt: Attempt | str,
        gold: str | None = None,
        *,
        think_open: bool = False,
        truncated: bool = False,
    ) -> Verification:
        """Judge one response: an attempt, or a response and its gold answer as in `verify`."""
        if not isinstance(attempt, Attempt):
            attempt = Attempt(attempt, gold, think_open, truncated)  # type: ignore[arg-type]
        elif gold is not None or think_open or truncated:
            raise TypeError(
                "an Attempt holds its gold answer and how it ended; give nothing beside"
            )
        return self._verify(attempt, self._judge)

    def verify_many(self, attempts: Sequence[Attempt]) -> list[Verification]:
        """Judge responses. Return one verification each, in the same order.

        This process judges the easy ones first; the workers judge the others side by side.
        """
        verifications: dict[int, Verification] = {}
        for index, attempt in enumerate(attempts):
            if attempt.place is not None:
                continue
            with suppress(OutOfEffortError, RecursionError):
                verifications[index] = self._verify(attempt, self._judge_here)
        hard = [index for index in range(len(attempts)) if index not in verifications]
        if hard:
            with ThreadPoolExecutor(self._workers) as threads:
                answers = threads.map(self.verify, [attempts[index] for index in hard])
                verifications.update(zip(hard, answers, strict=True))
        return [verifications[index] for index in range(len(attempts))]

    def _verify(self, attempt: Attempt, judge: Callable[[str, str], Judgement]) -> Verification:
        response = attempt.response
        think_open = attempt.think_open
        truncated = attempt.truncated
        gold = gold_text(attempt.gold)
        text, place = extract(
            response,
            format=self._format,
            gold=gold,
            think_open=think_open,
            cut_off=truncated,
            is_any_text=attempt.place is not None,
        )
        text = text and undoubled(text)
        if self._format == "boxed":
            format_ok = text is not None
        else:
            format_ok = check_format(response, think_open=think_open)

        def verification(
            verdict: Verdict, reason: str, extracted: str | None = None
        ) -> Verification:
            return Verification(verdict, extracted, format_ok, reason, self._format)

        if attempt.place is None and gold_value(gold) is None:
            if text is not None and same_text(gold, text):
                return verification(Verdict.CORRECT, f"{place}: same string", text)
            return verification(Verdict.UNPARSEABLE_GOLD, BAD_GOLD)
        if self._format == "think_answer" and not format_ok:
            if truncated and is_incomplete(response, think_open=think_open):
                return verification(Verdict.TRUNCATED, "cut off before the format was complete")
            return verification(Verdict.BAD_FORMAT, "not <think>…</think> then <answer>…</answer>")
        if text is None or not text.strip():
            verdict = Verdict.TRUNCATED if truncated else Verdict.NO_ANSWER
            return verification(verdict, place if text is None else f"{place}: empty")
        if attempt.place is not None:
            judgement = self._score(attempt.place, text)
            verdict = verdict_of(judgement)
            scored = verification(verdict, f"{place}: {judgement.reason}", text)
            return replace(scored, score=judgement.score)
        if is_left_undone(text, gold, strict=self._format != "any"):
            return verification(Verdict.NO_ANSWER, f"{place}: left undone", text)
        if attempt.problem and is_echo(text, attempt.problem, gold):
            return verification(Verdict.NO_ANSWER, f"{place}: a formula of the problem", text)
        judgement = judge(gold, text)
        reason = judgement.reason
        if judgement.equal is False and 1 < members(text) != members(gold):
            reason = f"{members(text)} values"
        return verification(verdict_of(judgement), f"{place}: {reason}", text)

    def answer(self, attempt: Attempt) -> str | None:
        """Return the text of a response's answer, found without its gold. Return None if it has
        none, not in the required format, a computation left undone, or a formula of the problem."""
        has_place = attempt.place is not None
        try:
            text, _ = extract(
                attempt.response,
                format=self._format,
                think_open=attempt.think_open,
                cut_off=attempt.truncated,
                is_any_text=has_place,
            )
            text = undoubled(text or "")
            if not text.strip():
                return None
            if not has_place and is_computation(text, strict=self._format != "any"):
                return None
            if not has_place and attempt.problem and is_echo(text, attempt.problem):
                return None
        except (OutOfEffortError, RecursionError):
            return None
        return text

    def check_gold(self, gold: str) -> bool:
        """Return whether a gold answer is a value or a few words, and no sentence without any."""
        return gold_value(gold_text(gold)) is not None

    def equal(self, a: str, b: str) -> Verdict:
        """Compare two answers: correct, wrong, or timeout."""
        return verdict_of(self._judge(a, b))

    def cluster(self, answers: Sequence[str]) -> list[int]:
        """Number the answers, so that equal ones share a number."""
        return cluster(answers, self.equal)

    def close(self) -> None:
        """End the worker processes, after which the verifier cannot be used."""
        self._pool.close()
        self._gym.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _judge(self, gold: str, answer: str) -> Judgement:
        try:
            return self._judge_here(gold, answer)
        except (OutOfEffortError, RecursionError):
            judgement = self._pool.ask(gold, answer)
        if (
            judgement.equal is not None or judgement.reason == LATE
        ):  # a lost worker may be asked again
            self._keep(gold, answer, judgement)
        return judgement

    def _score(self, place: str, answer: str) -> Judgement:
        """Score an answer by the rules of its problem, in a worker."""
        try:
            reply = self._gym.put({"place": place, "answer": answer})
        except WorkerLostError as error:
            return Judgement(None, str(error))
        if "error" in reply:
            return Judgement(None, reply["error"])
        score = reply["score"]
        return Judgement(score == 1, f"score {score:.3g}", score=score)

    def _keep(self, gold: str, answer: str, judgement: Judgement) -> None:
        if len(self._cache) > CACHE_SIZE:
            self._cache.clear()
        if len(answer) <= LONGEST_CACHED:
            self._cache[gold, answer] = judgement

    def _judge_here(self, gold: str, answer: str) -> Judgement:
        """Compare in this process. Raises OutOfEffortError or RecursionError where it cannot."""
        judgement = same_number(gold, answer) or self._cache.get((gold, answer))
        if judgement is not None:
            return judgement
        try:
            with limited(EFFORT_HERE_S):
                judgement = compare(gold, answer)
        except (OutOfEffortError, RecursionError):
            raise
        except Exception as error:  # an error in our rules must not end the caller's run
            judgement = Judgement(False, f"not comparable ({type(error).__name__})")
        self._keep(gold, answer, judgement)
        return judgement


def verdict_of(judgement: Judgement) -> Verdict:
    """Return the verdict on an answer that was compared."""
    if judgement.equal is None:
        return Verdict.TIMEOUT
    return Verdict.CORRECT if judgement.equal else Verdict.WRONG


_shared: dict[Format, Verifier] = {}
_shared_lock = threading.Lock()


def verify(
    response: str,
    gold: str,
    *,
    format: Format = "any",
    think_open: bool = False,
    truncated: bool = False,
) -> Verification:
    """Judge one response, with a verifier that stays open until this process ends."""
    with _shared_lock:
        if format not in _shared:
            _shared[format] = Verifier(format=format)
    return _shared[format].verify(Attempt(response, gold, think_open, truncated))
