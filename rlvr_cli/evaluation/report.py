"""Report results: the figures of each, its difference from another, and both as JSON."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rlvr_cli.config.built_in import known_sets
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.figures import Estimate, PairedDifference
from rlvr_cli.core.report import Comparison, Entry, Fingerprint, Speed
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import Response, by_key
from rlvr_cli.data.paths import first_step
from rlvr_cli.data.rows import RESPONSE_KEYS
from rlvr_cli.data.sources import find_spec
from rlvr_cli.evaluation.estimators import (
    Chance,
    Tally,
    cons_at_k,
    default_ks,
    holm,
    paired_difference,
    pass_estimate,
    pass_of_tally,
)
from rlvr_cli.evaluation.figures import (
    JudgedProblem,
    by_value,
    field_value,
    figures_of,
    tally_of,
)
from rlvr_cli.evaluation.fingerprint import fingerprint_differences
from verifiers import Format

if TYPE_CHECKING:
    from verifiers import Verifier


@dataclass(frozen=True)
class Result:
    """The judged responses of one model to one problem set."""

    model: str
    data: str
    fingerprint: Fingerprint
    problems: tuple[JudgedProblem, ...]
    any_form: Estimate | None = None
    """pass@1 if a right answer counts in any form, or None if the verdicts take any form anyway."""
    speed: Speed | None = None
    """That of the tokens that this command sampled."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """How many responses are missing since they failed, by the reason."""

    @property
    def responses(self) -> list[Response]:
        """Return the responses to all problems."""
        return [response for problem in self.problems for response in problem.responses]

    @property
    def answer_format(self) -> Format:
        """Return the format that the verdicts ask for, or `any` if that is not known."""
        judging = self.fingerprint.judging
        return "any" if judging is None else judging.answer_format


def count_any_form(result: Result, verifier: "Verifier") -> Result:
    """Add pass@1 of answers in any form, if the verdicts ask for one form.

    `verifier` must take any form. It judges the responses that are not right already.
    """
    if result.answer_format == "any":
        return result
    missed = [response for response in result.responses if not response.is_correct]
    verifications = iter(verifier.verify_many([response.attempt for response in missed]))
    tallies = []
    for problem in result.problems:
        responses = [
            response if response.is_correct else replace(response, verification=next(verifications))
            for response in problem.responses
        ]
        tallies.append(tally_of(responses))
    return replace(result, any_form=pass_estimate(tallies, 1))


def chosen_ks(requested: Sequence[int], result: Result) -> list[int]:
    """Return the values of k for pass@k and cons@k, sorted: 1 and those requested.

    If none are, they are 1, 2, 4, … up to the smallest number of judged responses of a problem that
    has any. Raises UserError if no problem has as many responses as the largest.
    """
    sizes = [len(problem.responses) for problem in result.problems]
    largest = max(requested, default=1)
    if largest > max(sizes):
        limit = plural(max(sizes), "response")
        raise UserError(f"--k {largest}: no problem of {result.data} has more than {limit}")
    if requested:
        return sorted({1, *requested})
    judged = [problem.tally.n for problem in result.problems if problem.tally.n]
    return default_ks(min(judged or sizes))


def report_entry(result: Result, ks: Sequence[int], by: Sequence[str]) -> Entry:
    """Compute what a report says of a result."""
    has_format = result.answer_format != "any"
    spec = find_spec(result.data) if result.data in known_sets() else None
    return Entry(
        model=result.model,
        data=result.data,
        data_version=None if spec is None else spec.version,
        fingerprint=result.fingerprint,
        figures=figures_of(result.problems, ks, has_format),
        any_form=result.any_form,
        by={
            name: {
                value: figures_of(part, ks, has_format)
                for value, part in by_value(result.problems, name).items()
            }
            for name in by
        },
        failed=result.failed,
    )


def check_fields(by: Sequence[str], extras: Sequence[Mapping[str, object]], data: str) -> None:
    """Raise UserError for a path of a field that no problem of a set has, of which `extras` are the
    other fields. Fields of a response do not count."""
    names = sorted({key for extra in extras for key in extra} - RESPONSE_KEYS)
    for name in by:
        values = [field_value(extra, name) for extra in extras]
        has_value = any(value is not None for value in values)
        if name not in names and not (has_value and first_step(name) in names):
            has = f"it has {', '.join(names)}" if names else "its problems have no fields"
            raise UserError(f"--by {name}: no such field in {data}; {has}")


def check_comparable(data: str, texts: Mapping[str, str | None], baseline: Result) -> None:
    """Raise UserError if a result on the set `data` cannot be compared with the baseline.

    `texts` has the text of each problem by its id, or None if it is not known. An id of the
    baseline must be among them, and must not have another text there.
    """
    other_texts = {problem.id: problem.text for problem in baseline.problems}
    shared = texts.keys() & other_texts.keys()
    for identity in sorted(shared):
        text = texts[identity]
        other_text = other_texts[identity]
        if text is not None and other_text is not None and text != other_text:
            raise UserError(f"--against: problem {identity} of {data} is another problem there")
    if not shared:
        raise UserError(
            f"--against: no problem of {data} is in it: the ids here are such as "
            f"{next(iter(texts))}, there {next(iter(other_texts))}"
        )


def compare_results(result: Result, baseline: Result, ks: Sequence[int]) -> Comparison:
    """Compare two results problem by problem. Raises UserError if no problem can be compared."""
    texts = {problem.id: problem.text for problem in result.problems}
    check_comparable(result.data, texts, baseline)
    by_id = {problem.id: problem for problem in baseline.problems}
    shared = [(problem, by_id[problem.id]) for problem in result.problems if problem.id in by_id]
    pairs = [(a.tally, b.tally) for a, b in shared if a.tally.n and b.tally.n]
    if not pairs:
        raise UserError(
            f"--against: no problem of {result.data} has judged responses on both sides"
        )
    return Comparison(
        model=result.model,
        data=result.data,
        against=baseline.model,
        against_data=baseline.data,
        baseline=baseline.model,
        problems=len(pairs),
        missing=len(result.problems) - len(shared),
        only_there=len(baseline.problems) - len(shared),
        other_golds=[a.id for a, b in shared if _golds_differ(a, b)],
        unjudged=len(shared) - len(pairs),
        differs=fingerprint_differences(result.fingerprint.row, baseline.fingerprint.row),
        pass_at=_paired(pairs, ks, pass_of_tally),
        cons_at=_paired(pairs, ks, cons_at_k),
    )


def _paired(
    pairs: Sequence[tuple[Tally, Tally]],
    ks: Sequence[int],
    estimator: Callable[[Tally, int], Chance],
) -> dict[int, PairedDifference]:
    """Compute the differences at each k for which a pair has enough responses."""
    by_k = {}
    for k in ks:
        enough = [(a, b) for a, b in pairs if min(a.n, b.n) >= k]
        if enough:
            by_k[k] = paired_difference(
                [estimator(a, k).value for a, _ in enough],
                [estimator(b, k).value for _, b in enough],
            )
    return by_k


def compare_with_first(results: Sequence[Result], entries: Sequence[Entry]) -> list[Comparison]:
    """Compare each result, at the k of its entry, with the first before it on the same problems."""
    comparisons = []
    for number, result in enumerate(results):
        comparison = next(_comparisons(result, results[:number], entries[number].ks), None)
        if comparison is not None:
            comparisons.append(comparison)
    return comparisons


def compare_all(results: Sequence[Result], entries: Sequence[Entry]) -> list[Comparison]:
    """Compare each result, at the k of its entry, with all before it on the same problems.

    The p-values of one metric, k and problem set are corrected for the number of pairs. Files whose
    problems are compared are one set, whatever their names.
    """
    comparisons: list[Comparison] = []
    for number, result in enumerate(results):
        comparisons += _comparisons(result, results[:number], entries[number].ks)
    corrected = []
    sets = _joined_sets(comparisons)
    for on_a_set in by_key(comparisons, lambda comparison: sets[comparison.data]).values():
        pass_at = _corrected([comparison.pass_at for comparison in on_a_set])
        cons_at = _corrected([comparison.cons_at for comparison in on_a_set])
        for comparison, of_pass, of_cons in zip(on_a_set, pass_at, cons_at, strict=True):
            corrected.append(replace(comparison, pass_at=of_pass, cons_at=of_cons))
    return corrected


def _joined_sets(comparisons: Sequence[Comparison]) -> dict[str, frozenset[str]]:
    """Return the problem sets that are one with each, by its name: those whose results were
    compared."""
    sets: dict[str, frozenset[str]] = {}
    for comparison in comparisons:
        names = frozenset({comparison.data, comparison.against_data})
        joined = names.union(*(sets.get(name, names) for name in names))
        sets.update(dict.fromkeys(joined, joined))
    return sets


def _comparisons(
    result: Result, earlier_results: Sequence[Result], ks: Sequence[int]
) -> Iterator[Comparison]:
    """Yield the differences of a result from the earlier ones with problems in common.

    Those on a set of its name come first. Sets of other names, such as two files, have a problem in
    common if it has the same id and text, and no other gold answer.
    """
    for earlier in sorted(earlier_results, key=lambda candidate: candidate.data != result.data):
        try:
            comparison = compare_results(result, earlier, ks)
        except UserError:  # they have no problem in common
            continue
        if earlier.data == result.data or not comparison.other_golds:
            yield comparison


def _corrected(
    differences: Sequence[Mapping[int, PairedDifference]],
) -> list[dict[int, PairedDifference]]:
    """Correct the p of the differences at each k for the number of pairs (`holm`)."""
    corrected: list[dict[int, PairedDifference]] = [{} for _ in differences]
    for k in sorted({k for at_k in differences for k in at_k}):
        pairs = [index for index, at_k in enumerate(differences) if k in at_k]
        ps = holm([differences[index][k].p for index in pairs])
        for index, p in zip(pairs, ps, strict=True):
            corrected[index][k] = replace(differences[index][k], p_holm=p)
    return corrected


def _golds_differ(problem: JudgedProblem, baseline: JudgedProblem) -> bool:
    """Return whether the gold answers of a problem are known in two results, and differ."""
    is_known = problem.gold is not None and baseline.gold is not None
    return is_known and problem.gold != baseline.gold
