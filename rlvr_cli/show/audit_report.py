"""The work of `rlvr audit`: our verdicts beside those of the judge that others publish with."""

import sys
from collections.abc import Callable, Mapping, Sequence

from rlvr_cli.console.display import Display
from rlvr_cli.console.tables import table
from rlvr_cli.core.cores import usable_cores
from rlvr_cli.core.jsonl import jsonl_line
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import FieldName
from rlvr_cli.evaluation.agreement import (
    PEER,
    Agreement,
    Pair,
    agreement,
    answer_kind,
    judged_twice,
    parts,
    response_files,
)
from rlvr_cli.evaluation.fingerprint import judge_versions
from rlvr_cli.evaluation.report import check_fields
from rlvr_cli.evaluation.responses import ImportedResponse, read_responses, refuse_twice
from rlvr_cli.show.screen import cell
from verifiers import open_judge

_SHOWN = 20


def compare_judges(
    sources: Sequence[str],
    by: Sequence[str],
    limit: int | None,
    skip_bad: bool,
    display: Display,
    paths: Mapping[FieldName, str] | None = None,
) -> None:
    """Judge, report to people, and write the rows on which the judges differ to a pipe; `paths` say
    where a row has its fields. Raises UserError for sources that hold no responses, or rows that
    cannot be judged."""
    peer = f"{PEER} {judge_versions(PEER)[PEER]}"
    files = [name for source in sources for name in response_files(source)]
    refuse_twice(files)
    given = [read_responses(name, limit, skip_bad, paths) for name in files]
    fields = {key for rows in given for row in rows for key in row.problem.extra}
    check_fields(by, fields, ", ".join(sources))
    pairs = _judged(given, display)
    whole = agreement(pairs)
    count = plural(len({pair.problem for pair in pairs}), "problem")
    count += f", {plural(len(pairs), 'response')}"
    display.result("agreement", f"{_share(whole)} with {peer} ({count})")
    display.block(_by_part("our verdict", parts(pairs, lambda pair: pair.ours["verdict"])))
    kinds = parts(pairs, lambda pair: answer_kind(pair.ours["answer"]))
    display.block(_by_part("kind of gold", kinds))
    for field in by:
        listed = parts(pairs, _field(field))
        display.block(_by_part(field, listed), asked=True)
    _show_differing([pair for pair in pairs if pair.differs], display)
    if whole.unjudged:
        display.warn(
            f"{plural(whole.unjudged, 'response')} not judged by one or both (a timeout, an "
            "unreadable gold answer, a wrong format, or cut off); the figures leave them out"
        )
    if not sys.stdout.isatty():
        _pipe([pair for pair in pairs if pair.differs], peer)


def _judged(given: Sequence[Sequence[ImportedResponse]], display: Display) -> list[Pair]:
    total = sum(len(row.responses) for rows in given for row in rows)
    workers = usable_cores()
    with open_judge(PEER, workers=workers) as peer, display.judging(total) as on_batch:
        listed = (judged_twice(rows, peer, workers, on_batch) for rows in given)
        return [pair for pairs in listed for pair in pairs]


def _field(name: str) -> Callable[[Pair], object]:
    return lambda pair: pair.ours.get(name)


def _share(found: Agreement) -> str:
    share = found.share
    return "-" if share is None else f"{share.value:.4f} [{share.low:.4f}, {share.high:.4f}]"


def _by_part(name: str, listed: Mapping[str, Sequence[Pair]]) -> list[str]:
    """Tabulate how the judges agree in each part, and what only one finds right."""
    header = [name, "judged by both", "agreement [95 %]", "both right", "only ours"]
    header += [f"only {PEER}", "neither", "not judged"]
    lines = [header]
    for value, pairs in listed.items():
        found = agreement(pairs)
        counts = [found.both, found.only_ours, found.only_theirs, found.neither, found.unjudged]
        lines.append([value, str(found.responses), _share(found), *map(str, counts)])
    return table(lines)


def _show_differing(pairs: Sequence[Pair], display: Display) -> None:
    """List the first of the responses on which the judges differ."""
    if not pairs:
        return
    header = ["differ", "sample", "gold", "ours", "", PEER, ""]
    lines = [
        [
            cell(pair.ours["id"]),
            str(pair.ours["sample"]),
            cell(pair.ours["answer"]),
            cell(pair.ours["extracted"]),
            pair.ours["verdict"],
            cell(pair.theirs["extracted"]),
            pair.theirs["verdict"],
        ]
        for pair in pairs[:_SHOWN]
    ]
    display.block(table([header, *lines]))
    if len(pairs) > _SHOWN:
        display.say("", f"and {len(pairs) - _SHOWN} more; a pipe gets all of them")


def _pipe(pairs: Sequence[Pair], peer: str) -> None:
    """Return our row with what the other judge says."""
    for pair in pairs:
        other = {"verdict": pair.theirs["verdict"], "extracted": pair.theirs["extracted"]}
        sys.stdout.write(jsonl_line(pair.ours | {"judge": {"name": peer, **other}}))
    sys.stdout.flush()
