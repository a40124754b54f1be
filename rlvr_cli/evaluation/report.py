"""Compute the published figures from judged response rows, as JSON values: those of a result, and
its difference from another."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlvr_cli.config.problem_sets import known_sets
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import numbers_first, plural
from rlvr_cli.core.types import WITHOUT_VERDICT, by_key
from rlvr_cli.data.fields import BadRowError, first_step, value_at
from rlvr_cli.data.rows import ROW_KEYS, ResponseRow, attempt_of
from rlvr_cli.data.sources import find_spec
from rlvr_cli.evaluation.estimators import (
    Estimate,
    Tally,
    cons_at_k,
    cons_estimate,
    default_ks,
    mean,
    paired_difference,
    pass_estimate,
    pass_of_tally,
)
from rlvr_cli.evaluation.fingerprint import Fingerprint, differences
from verifiers import Verifier

Cluster = Callable[[Sequence[str]], list[int]] | None
"""A function that gives equal answers the same number, or None without cons@k."""
UNJUDGED = frozenset(WITHOUT_VERDICT)


@dataclass(frozen=True)
class JudgedProblem:
    """The responses to one problem, and their tally."""

    id: str
    rows: tuple[ResponseRow, ...]
    tally: Tally


@dataclass(frozen=True)
class Result:
    """The judged responses of one model to one problem set."""

    model: str
    data: str
    fingerprint: Fingerprint
    problems: tuple[JudgedProblem, ...]
    any_form: Estimate | None = None
    """pass@1 if a right answer counts in any form, or None if the verdicts take any form anyway."""
    speed: dict[str, float] | None = None
    """Tokens that this command sampled, and their seconds."""

    @property
    def rows(self) -> list[ResponseRow]:
        """Return the rows of all problems."""
        return [row for problem in self.problems for row in problem.rows]


def judged_problems(rows: Iterable[ResponseRow], cluster: Cluster) -> tuple[JudgedProblem, ...]:
    """Group the rows by problem, in the order in which the problems first come."""
    parts = by_key(rows, lambda row: row["id"]).items()
    return tuple(JudgedProblem(id, tuple(part), tally_of(part, cluster)) for id, part in parts)


def tally_of(rows: Sequence[ResponseRow], cluster: Cluster) -> Tally:
    """Tally the judged responses to one problem. All right ones count as one answer."""
    judged = [row for row in rows if row["verdict"] not in UNJUDGED]
    correct = sum(row["verdict"] == "correct" for row in judged)
    wrong = [row["extracted"] for row in judged if row["verdict"] == "wrong" and row["extracted"]]
    numbers = range(len(wrong)) if cluster is None else cluster(wrong)
    sizes = sorted(Counter(numbers).values(), reverse=True)
    silent = len(judged) - correct - len(wrong)
    return Tally(correct, tuple(sizes), silent)


def count_any_form(result: Result, verifier: Verifier) -> Result:
    """Add pass@1 of answers in any form, if the verdicts ask for one form.

    `verifier` must take any form. It judges the responses that are not right already.
    """
    if result.fingerprint.get("verifier", {}).get("format", "any") == "any":
        return result
    missed = [row for row in result.rows if row["verdict"] != "correct"]
    verifications = iter(verifier.verify_many([attempt_of(row) for row in missed]))
    tallies = []
    for problem in result.problems:
        rows = []
        for row in problem.rows:
            if row["verdict"] != "correct":
                verification = next(verifications)
                row = {
                    "verdict": verification.verdict.value,
                    "extracted": verification.extracted,
                }
            rows.append(row)
        tallies.append(tally_of(rows, cluster=None))
    return replace(result, any_form=pass_estimate(tallies, 1))


def chosen_ks(requested: Sequence[int], result: Result) -> list[int]:
    """Return the values of k for pass@k and cons@k, sorted: 1 and those requested.

    If none are, they are 1, 2, 4, … up to the smallest number of judged responses of a problem that
    has any. Raises UserError if no problem has as many responses as the largest.
    """
    sizes = [len(problem.rows) for problem in result.problems]
    largest = max(requested, default=1)
    if largest > max(sizes):
        limit = plural(max(sizes), "response")
        raise UserError(f"--k {largest}: no problem of {result.data} has more than {limit}")
    if requested:
        return sorted({1, *requested})
    judged = [problem.tally.n for problem in result.problems if problem.tally.n]
    return default_ks(min(judged or sizes))


def figures(
    problems: Sequence[JudgedProblem], ks: Sequence[int], has_format: bool = True
) -> dict[str, Any]:
    """Compute all figures of a set of problems.

    pass@k and cons@k leave out responses that were not judged (timeouts, unreadable golds) and
    problems with fewer than k judged ones. Shares and the mean length are over all responses for
    which they are known. format_share is None without `has_format`.
    """
    tallies = [problem.tally for problem in problems]
    rows = [row for problem in problems for row in problem.rows]
    verdicts = Counter(sorted(row["verdict"] for row in rows))
    ends = [row["finish_reason"] for row in rows if row["finish_reason"] is not None]
    lengths = [row["n_tokens"] for row in rows if row["n_tokens"] is not None]
    return {
        "problems": len(problems),
        "responses": len(rows),
        "pass@k": {str(k): pass_estimate(tallies, k) for k in ks},
        "cons@k": {str(k): cons_estimate(tallies, k) for k in ks},
        "format_share": mean(row["format_ok"] for row in rows) if has_format else None,
        "cut_off_share": mean(end == "length" for end in ends),
        "timeouts": verdicts["timeout"],
        "unparseable_golds": verdicts["unparseable_gold"],
        "response_length": mean(lengths),
        "verdicts": dict(verdicts),
    }


def report_entry(result: Result, ks: Sequence[int], by: Sequence[str]) -> dict[str, Any]:
    """Build a result's entry in `report.json`."""
    has_format = result.fingerprint["verifier"]["format"] != "any"
    spec = find_spec(result.data) if result.data in known_sets() else None
    entry = {
        "model": result.model,
        "data": result.data,
        "data_version": None if spec is None else spec.version,
        "fingerprint": result.fingerprint,
        **figures(result.problems, ks, has_format),
    }
    if result.any_form is not None:
        entry["any_form"] = result.any_form
    if by:
        entry["by"] = {
            field: {
                value: figures(part, ks, has_format)
                for value, part in by_value(result.problems, field).items()
            }
            for field in by
        }
    return entry


def by_value(problems: Sequence[JudgedProblem], field: str) -> dict[str, list[JudgedProblem]]:
    """Group the problems by the value of a field. The values are sorted, numbers by size."""
    parts = by_key(problems, lambda problem: str(field_value(problem.rows[0], field)))
    return {value: parts[value] for value in sorted(parts, key=numbers_first)}


def field_value(row: Mapping[str, Any], field: str) -> Any:
    """Return the value of a field of `--by`. Raises UserError if its path may mean several."""
    try:
        return value_at(row, field)
    except BadRowError as error:
        raise UserError(f"--by {field}: {error}") from None


def check_fields(by: Sequence[str], rows: Sequence[Mapping[str, Any]], data: str) -> None:
    """Raise UserError for a path of a field that no row of the set's problems has. Fields of a
    response do not count."""
    names = sorted({key for row in rows for key in row} - {*ROW_KEYS, "rewards", "places"})
    for field in by:
        values = [field_value(row, field) for row in rows]
        has_value = any(value is not None for value in values)
        if field not in names and not (has_value and first_step(field) in names):
            has = f"it has {', '.join(names)}" if names else "its problems have no fields"
            raise UserError(f"--by {field}: no such field in {data}; {has}")


def check_comparable(data: str, texts: Mapping[str, str | None], baseline: Result) -> None:
    """Raise UserError if a result on the set `data` cannot be compared with the baseline.

    `texts` has the text of each problem by its id, or None if it is not known. An id of the
    baseline must be among them, and must not have another text there.
    """
    other_texts = {problem.id: problem.rows[0]["problem"] for problem in baseline.problems}
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


def compare(result: Result, baseline: Result, ks: Sequence[int]) -> dict[str, Any]:
    """Compare two results problem by problem. Raises UserError if no problem can be compared."""
    texts = {problem.id: problem.rows[0]["problem"] for problem in result.problems}
    check_comparable(result.data, texts, baseline)
    by_id = {problem.id: problem for problem in baseline.problems}
    shared = [(problem, by_id[problem.id]) for problem in result.problems if problem.id in by_id]
    pairs = [(a.tally, b.tally) for a, b in shared if a.tally.n and b.tally.n]
    if not pairs:
        raise UserError(
            f"--against: no problem of {result.data} has judged responses on both sides"
        )
    entry: dict[str, Any] = {
        "model": result.model,
        "data": result.data,
        "against": baseline.model,
        "against_data": baseline.data,
        "baseline": baseline.model,
        "problems": len(pairs),
        "missing": len(result.problems) - len(shared),
        "only_there": len(baseline.problems) - len(shared),
        "other_golds": [a.id for a, b in shared if _golds_differ(a, b)],
        "unjudged": len(shared) - len(pairs),
        "differs": differences(result.fingerprint, baseline.fingerprint),
    }
    for name, estimator in (("pass@k", pass_of_tally), ("cons@k", cons_at_k)):
        entry[name] = {}
        for k in ks:
            enough = [(a, b) for a, b in pairs if min(a.n, b.n) >= k]
            if enough:
                entry[name][str(k)] = paired_difference(
                    [estimator(a, k).value for a, _ in enough],
                    [estimator(b, k).value for _, b in enough],
                )
    return entry


def compare_with_first(
    results: Sequence[Result], entries: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Compare each result, at the k of its entry, with the first before it on the same problems.

    Those on a set of its name come first. Sets of other names, such as two files, have a problem in
    common if it has the same id and text, and no other gold answer.
    """
    comparisons = []
    for number, result in enumerate(results):
        ks = [int(k) for k in entries[number]["pass@k"]]
        for earlier in sorted(results[:number], key=lambda other: other.data != result.data):
            try:
                comparison = compare(result, earlier, ks)
            except UserError:  # they have no problem in common
                continue
            if earlier.data == result.data or not comparison["other_golds"]:
                comparisons.append(comparison)
                break
    return comparisons


def _golds_differ(problem: JudgedProblem, other: JudgedProblem) -> bool:
    """Return whether the gold answers of a problem are known in two results, and differ."""
    gold = problem.rows[0].get("answer")
    other_gold = other.rows[0].get("answer")
    return gold is not None and other_gold is not None and str(gold) != str(other_gold)
