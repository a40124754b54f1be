"""Compute the figures of judged responses: of a result, of a part of it, or of a held-out set."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.figures import Figures
from rlvr_cli.core.text import numbers_first
from rlvr_cli.core.types import WITHOUT_VERDICT, Response, by_key
from rlvr_cli.data.paths import BadRowError, value_at
from rlvr_cli.evaluation.estimators import Tally, cons_estimate, left_out, mean, pass_estimate
from verifiers import Verdict

Cluster = Callable[[Sequence[str]], list[int]] | None
"""A function that gives equal answers the same number, or None without cons@k."""
UNJUDGED = frozenset(WITHOUT_VERDICT)


@dataclass(frozen=True)
class JudgedProblem:
    """The responses to one problem, and their tally."""

    id: str
    responses: tuple[Response, ...]
    tally: Tally

    @property
    def text(self) -> str | None:
        """Return the problem's text, or None if it is not known."""
        return self.responses[0].problem.problem or None

    @property
    def gold(self) -> str | None:
        """Return the gold answer, or None if it is not known."""
        return self.responses[0].problem.answer


def judged_problems(
    responses: Iterable[Response], cluster: Cluster = None
) -> tuple[JudgedProblem, ...]:
    """Group the responses by problem, in the order in which the problems first come."""
    parts = by_key(responses, lambda response: response.problem.id).items()
    return tuple(JudgedProblem(id, tuple(part), tally_of(part, cluster)) for id, part in parts)


def tally_of(responses: Sequence[Response], cluster: Cluster = None) -> Tally:
    """Tally the judged responses to one problem. All right ones count as one answer."""
    judged = [
        response
        for response in responses
        if response.verdict is not None and response.verdict not in UNJUDGED
    ]
    correct = sum(response.is_correct for response in judged)
    wrong = [
        response.extracted
        for response in judged
        if response.verdict is Verdict.WRONG and response.extracted
    ]
    numbers = range(len(wrong)) if cluster is None else cluster(wrong)
    sizes = sorted(Counter(numbers).values(), reverse=True)
    silent = len(judged) - correct - len(wrong)
    return Tally(correct, tuple(sizes), silent)


def figures_of(
    problems: Sequence[JudgedProblem], ks: Iterable[int], has_format: bool = True
) -> Figures:
    """Compute the figures of problems, at each k. `has_format`: their prompts ask for a format."""
    tallies = [problem.tally for problem in problems]
    ks = list(ks)
    at_k = {k: left_out(tallies, k) for k in ks}
    responses = [response for problem in problems for response in problem.responses]
    judged = [response.verification for response in responses if response.verification is not None]
    verdicts = Counter(sorted(verification.verdict for verification in judged))
    ends = [response.is_cut_off for response in responses if response.finish_reason is not None]
    lengths = [response.n_tokens for response in responses if response.n_tokens is not None]
    formats = [verification.format_ok for verification in judged]
    return Figures(
        problems=len(problems),
        responses=len(responses),
        pass_at={k: pass_estimate(tallies, k) for k in ks},
        cons_at={k: cons_estimate(tallies, k) for k in ks},
        format_share=mean(formats) if has_format else None,
        cut_off_share=mean(ends),
        response_length=mean(lengths),
        verdicts=dict(verdicts),
        left_out={k: problems for k, problems in at_k.items() if problems is not None},
        without_answer=dict(sorted(Counter(filter(None, map(_silence, responses))).items())),
    )


def _silence(response: Response) -> str | None:
    """Return why a response holds no answer, if its end or its text says so."""
    end = response.finish_reason or ""
    if response.verification is None or response.is_correct or response.is_cut_off:
        return None
    if "refus" in end:
        return "refusal"
    if response.extracted is not None:
        return None
    if "tool" in end or "function" in end:
        return "tool call"
    return None if response.text.strip() else "empty text"


def by_value(problems: Sequence[JudgedProblem], field: str) -> dict[str, list[JudgedProblem]]:
    """Group the problems by the value of a field. The values are sorted, numbers by size."""
    parts = by_key(
        problems, lambda judged: str(field_value(judged.responses[0].problem.extra, field))
    )
    return {value: parts[value] for value in sorted(parts, key=numbers_first)}


def field_value(extra: Mapping[str, object], field: str) -> object:
    """Return the value of a field of `--by`, among the other fields of a problem. Raises UserError
    if its path may mean several."""
    try:
        return value_at(extra, field)
    except BadRowError as error:
        raise UserError(f"--by {field}: {error}") from None
