"""Compute the published figures from judged response rows, as JSON values: those of a result, its
difference from an earlier one, the agreement of two judges."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import numbers_first, plural
from rlvr_cli.core.types import NO_SIGNAL, by_key
from rlvr_cli.data.rows import ROW_KEYS, ResponseRow, attempt_of
from rlvr_cli.data.sources import find_spec, known_sets
from rlvr_cli.evaluation import estimators
from rlvr_cli.evaluation.fingerprint import Fingerprint, differences
from verifiers import Verifier

Cluster = Callable[[Sequence[str]], list[int]] | None
"""A function that gives equal answers the same number; None where cons@k is not asked for."""
UNJUDGED = frozenset(NO_SIGNAL)
PEER = "math-verify"
"""The judge that others publish with."""
BOTH = "both"
_NO_ANSWERS = UNJUDGED | {"bad_format", "truncated"}


@dataclass(frozen=True)
class JudgedProblem:
    """The responses to one problem, and their tally."""

    id: str
    rows: tuple[ResponseRow, ...]
    tally: estimators.Tally


@dataclass(frozen=True)
class Result:
    """One model on one problem set."""

    model: str
    data: str
    fingerprint: Fingerprint
    problems: tuple[JudgedProblem, ...]
    any_form: estimators.Estimate | None = None
    """pass@1 if a right answer counts in any form; None where the verdicts take any form."""
    speed: dict[str, float] | None = None
    """Tokens that this command sampled, and their seconds."""


def judged_problems(rows: Iterable[ResponseRow], cluster: Cluster) -> tuple[JudgedProblem, ...]:
    """Group the rows by problem, in the order in which the problems first come."""
    parts = by_key(rows, lambda row: row["id"]).items()
    return tuple(JudgedProblem(id, tuple(part), tally_of(part, cluster)) for id, part in parts)


def tally_of(rows: Sequence[ResponseRow], cluster: Cluster) -> estimators.Tally:
    """Tally the judged responses to one problem; all right ones count as one answer."""
    judged = [row for row in rows if row["verdict"] not in UNJUDGED]
    correct = sum(row["verdict"] == "correct" for row in judged)
    wrong = [row["extracted"] for row in judged if row["verdict"] == "wrong" and row["extracted"]]
    sizes = sorted(Counter(cluster(wrong) if cluster else range(len(wrong))).values(), reverse=True)
    return estimators.Tally(correct, tuple(sizes), len(judged) - correct - len(wrong))


def count_any_form(result: Result, verifier: Verifier) -> Result:
    """Add pass@1 of answers in any form where the verdicts ask for one form; right responses stay
    right. `verifier` must take any form."""
    if result.fingerprint.get("verifier", {}).get("format", "any") == "any":
        return result
    rows = [row for p in result.problems for row in p.rows if row["verdict"] != "correct"]
    again = (
        {"verdict": verification.verdict.value, "extracted": verification.extracted}
        for verification in verifier.verify_many(list(map(attempt_of, rows)))
    )
    tallies = [
        tally_of([row if row["verdict"] == "correct" else next(again) for row in p.rows], None)
        for p in result.problems
    ]
    return replace(result, any_form=estimators.pass_estimate(tallies, 1))


def chosen_ks(asked: Sequence[int], result: Result) -> list[int]:
    """Return the values of k for pass@k and cons@k, sorted: 1 and those asked for, else 1, 2, 4, …
    at which every problem with a judged response counts. Raises UserError if none has as many."""
    counts = [len(problem.rows) for problem in result.problems]
    if (largest := max(asked, default=1)) > max(counts):
        most = plural(max(counts), "response")
        raise UserError(f"--k {largest}: no problem of {result.data} has more than {most}")
    if asked:
        return sorted({1, *asked})
    judged = [problem.tally.n for problem in result.problems if problem.tally.n]
    return estimators.default_ks(min(judged or counts))


def figures(
    problems: Sequence[JudgedProblem], ks: Sequence[int], has_format: bool = True
) -> dict[str, Any]:
    """Compute all figures of a set of problems.

    pass@k and cons@k leave out responses that were not judged (timeouts, unreadable golds) and
    problems with fewer than k others; shares and the mean length are over all responses for which
    they are known. format_share is None without `has_format`.
    """
    tallies = [problem.tally for problem in problems]
    rows = [row for problem in problems for row in problem.rows]
    verdicts = Counter(sorted(row["verdict"] for row in rows))
    ends = [row["finish_reason"] for row in rows if row["finish_reason"] is not None]
    lengths = [row["n_tokens"] for row in rows if row["n_tokens"] is not None]
    return {
        "problems": len(problems),
        "responses": len(rows),
        "pass@k": {str(k): estimators.pass_estimate(tallies, k) for k in ks},
        "cons@k": {str(k): estimators.cons_estimate(tallies, k) for k in ks},
        "format_share": estimators.mean(row["format_ok"] for row in rows) if has_format else None,
        "cut_off_share": estimators.mean(end == "length" for end in ends),
        "timeouts": verdicts["timeout"],
        "unparseable_golds": verdicts["unparseable_gold"],
        "response_length": estimators.mean(lengths),
        "verdicts": dict(verdicts),
    }


def drawn_in_words(problems: int, drawn: Mapping[str, Any]) -> str:
    """Describe how many responses were sampled, and with which settings."""
    return (
        f"{plural(problems, 'problem')} x {plural(drawn['samples'], 'sample')}, temperature "
        f"{drawn['temperature']:g}, top-p {drawn['top_p']:g}, at most {drawn['max_tokens']} tokens"
    )


def report_entry(result: Result, ks: Sequence[int], by: Sequence[str]) -> dict[str, Any]:
    """Build a result's entry in `report.json`."""
    has_format = result.fingerprint["verifier"]["format"] != "any"
    spec = find_spec(result.data) if result.data in known_sets() else None
    entry = {
        "model": result.model,
        "data": result.data,
        "data_version": spec and spec.version,
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
    """Group the problems by the value of a field; the values are sorted, numbers by size."""
    parts = by_key(problems, lambda problem: str(problem.rows[0].get(field)))
    return {value: parts[value] for value in sorted(parts, key=numbers_first)}


def check_fields(by: Sequence[str], fields: Iterable[str], data: str) -> None:
    """Raise UserError for a field that no problem of the set has; those of a response are none."""
    names = sorted(set(fields) - {*ROW_KEYS, "rewards"})
    for field in by:
        if field not in names:
            has = f"it has {', '.join(names)}" if names else "its problems have no fields"
            raise UserError(f"--by {field}: no such field in {data}; {has}")


def check_comparable(data: str, ours: Mapping[str, str | None], theirs: Result) -> None:
    """Raise UserError if the problems of a set (texts by id, None if unknown) and the baseline have
    no id in common, or an id with two texts."""
    baseline = {problem.id: problem.rows[0]["problem"] for problem in theirs.problems}
    shared = ours.keys() & baseline.keys()
    for identity in sorted(shared):
        texts = ours[identity], baseline[identity]
        if None not in texts and texts[0] != texts[1]:
            raise UserError(f"--against: problem {identity} of {data} is another problem there")
    if not shared:
        raise UserError(
            f"--against: no problem of {data} is in it: the ids here are such as "
            f"{next(iter(ours))}, there {next(iter(baseline))}"
        )


def compare(ours: Result, theirs: Result, ks: Sequence[int]) -> dict[str, Any]:
    """Compare two results problem by problem. Raises UserError if no problem can be compared."""
    texts = {problem.id: problem.rows[0]["problem"] for problem in ours.problems}
    check_comparable(ours.data, texts, theirs)
    by_id = {problem.id: problem for problem in theirs.problems}
    shared = [(p, by_id[p.id]) for p in ours.problems if p.id in by_id]
    pairs = [(a, b) for a, b in shared if a.tally.n and b.tally.n]
    if not pairs:
        raise UserError(f"--against: no problem of {ours.data} has judged responses on both sides")
    golds = {a.id: [a.rows[0].get("answer"), b.rows[0].get("answer")] for a, b in shared}
    changed = [i for i, both in golds.items() if None not in both and len({*map(str, both)}) == 2]
    entry: dict[str, Any] = {
        "model": ours.model,
        "data": ours.data,
        "against": theirs.model,
        "against_data": theirs.data,
        "problems": len(pairs),
        "missing": len(ours.problems) - len(shared),
        "only_there": len(theirs.problems) - len(shared),
        "other_golds": changed,
        "unjudged": len(shared) - len(pairs),
        "differs": differences(ours.fingerprint, theirs.fingerprint),
    }
    tallies = [(a.tally, b.tally) for a, b in pairs]
    for name, value in (("pass@k", estimators.pass_of_tally), ("cons@k", estimators.cons_at_k)):
        entry[name] = {}
        for k in ks:
            values = [(value(a, k)[0], value(b, k)[0]) for a, b in tallies if min(a.n, b.n) >= k]
            if values:
                entry[name][str(k)] = estimators.paired_difference(*zip(*values, strict=True))
    return entry


Pair = tuple[tuple[str, ...], ResponseRow, ResponseRow]
"""One response: the key of its problem, its row by our judge, its row by the peer."""


def pair_judges(results: Sequence[Result]) -> list[Pair]:
    """Pair the rows of each result by our judge with the peer's result, which follows it."""
    return [
        ((ours.model, ours.data, problem.id), row, other)
        for ours, theirs in zip(results[::2], results[1::2], strict=True)
        for problem, same in zip(ours.problems, theirs.problems, strict=True)
        for row, other in zip(problem.rows, same.rows, strict=True)
    ]


def both_right(pair: Pair) -> tuple[bool, bool] | None:
    """Return whether our judge and whether the peer finds the response right; None unless both
    judged the answer, since only ours has verdicts about the format and about what was cut off."""
    ours, theirs = pair[1]["verdict"], pair[2]["verdict"]
    is_judged = {ours, theirs}.isdisjoint(_NO_ANSWERS)
    return (ours == "correct", theirs == "correct") if is_judged else None


def agreement(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Compute the mean over problems of the share of responses on which the judges agree, with its
    95 % interval (None where none was judged by both), and the numbers of responses behind it."""
    judged = [(pair[0], rights) for pair in pairs if (rights := both_right(pair))]
    by_problem = by_key(judged, lambda item: item[0]).values()
    shares = [sum(a == b for _, (a, b) in part) / len(part) for part in by_problem]
    counts = Counter(rights for _, rights in judged)
    return {
        "share": estimators.estimate(shares, min(map(len, by_problem), default=1)),
        "judged by both": len(judged),
        "both right": counts[True, True],
        "only ours": counts[True, False],
        f"only {PEER}": counts[False, True],
        "neither": counts[False, False],
        "not judged": len(pairs) - len(judged),
    }
