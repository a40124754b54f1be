"""Tabulate the figures of a report: pure functions from its entries to rows of cells."""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

TABLE = "table"
Table = list[Sequence[str]]
"""Rows of cells below a header."""
_CELL = 32
"""Characters of a cell."""


def records(report: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """Return the figures of a report as a header and a row for each result and k."""
    header = ["model", "data", "version", "problems", "k", "pass@k", "low", "high"]
    header += ["cons@k", "low", "high", "pass@1 in any form"]
    rows = []
    for entry in report["results"]:
        for k, found in entry["pass@k"].items():
            row = [entry["model"], entry["data"], entry["data_version"], counted(found), int(k)]
            for one in (found, entry["cons@k"][k]):
                row += ["", "", ""] if one is None else [one["value"], *one["interval"]]
            flexible = entry.get("any_form")
            rows.append([*row, flexible["value"] if flexible and k == "1" else ""])
    return header, rows


def as_markdown(report: dict[str, Any]) -> str:
    """Format the figures of a report as tables in Markdown: of all, by each field, and compared."""
    header, rows = records(report)
    tables: list[list[Sequence[Any]]] = [[header, *rows]]
    for entry in report["results"]:
        tables += [by_field(entry, field) for field in entry.get("by", {})]
    compared = report.get("against", {}).get("results", ())
    tables += [differences(comparison) for comparison in compared]
    return "\n\n".join(
        "\n".join(
            f"| {' | '.join(map(_cell, line))} |" for line in (head, ["---"] * len(head), *rest)
        )
        for head, *rest in tables
    )


def as_csv(report: dict[str, Any]) -> str:
    """Format the figures of a report as CSV."""
    header, rows = records(report)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue().rstrip("\n")


def as_json(report: dict[str, Any]) -> str:
    """Format the whole report, as report.json has it."""
    return json.dumps(report, ensure_ascii=False, indent=2)


def _cell(value: Any) -> str:
    text = f"{value:.4f}" if isinstance(value, float) else str("" if value is None else value)
    return " ".join(text.replace("|", "\\|").split())


FORMATS: dict[str, Callable[[dict[str, Any]], str]] = {
    "md": as_markdown,
    "csv": as_csv,
    "json": as_json,
}
"""How figures are printed on stdout, by name; a table is for people, on stderr."""


def overview(entries: Sequence[dict[str, Any]]) -> Table:
    """Format one line per result: the first and last common k, and statistics of the responses."""
    k = max(set.intersection(*(set(map(int, entry["pass@k"])) for entry in entries)))
    header = ["model", "data", "problems", "pass@1 [95 %]", f"pass@{k}", f"cons@{k}"]
    has_any = any("any_form" in entry for entry in entries)
    header += [*["in any form"] * has_any, "format", "cut off", "tokens"]
    return [
        header,
        *(
            [
                entry["model"],
                entry["data"],
                str(entry["problems"]),
                shown(entry["pass@k"]["1"]),
                shown(entry["pass@k"][str(k)]),
                shown(entry["cons@k"][str(k)]),
                *[shown(entry.get("any_form"))] * has_any,
                percent(entry["format_share"]),
                percent(entry["cut_off_share"]),
                "-" if entry["response_length"] is None else f"{entry['response_length']:.1f}",
            ]
            for entry in entries
        ),
    ]


def by_k(entry: dict[str, Any]) -> Table:
    """Format pass@k and cons@k of one result, one line per k, with the number of problems."""
    return [
        ["k", "problems", "pass@k [95 %]", "cons@k [95 %]"],
        *(
            [k, str(counted(found)), shown(found), shown(entry["cons@k"][k])]
            for k, found in entry["pass@k"].items()
        ),
    ]


def by_field(entry: dict[str, Any], field: str) -> Table:
    """Return the figures of one result by the values of a field, below a header."""
    last = list(entry["pass@k"])[-1]
    more = [("pass@k", last), ("cons@k", last)] if last != "1" else []
    columns = [f"{name[:-1]}{k}" for name, k in more]
    return [
        [field, "problems", "pass@1 [95 %]", *columns],
        *(
            [
                value,
                str(part["problems"]),
                shown(part["pass@k"]["1"]),
                *(shown(part[name][k]) for name, k in more),
            ]
            for value, part in entry["by"][field].items()
        ),
    ]


def by_level(before: Mapping[str, float | None], after: Mapping[str, float | None]) -> Table:
    """Format pass@1 of each level before and after training."""
    lines = [
        [when, *("-" if value is None else f"{value:.2f}" for value in values.values())]
        for when, values in (("before", before), ("after", after))
    ]
    return [["level", *after], *lines]


def differences(entry: dict[str, Any]) -> Table:
    """Return a comparison, one line per k, below a header."""
    return [
        ["ours less theirs", "problems", "difference [95 %]", "p", "better", "worse"],
        *(
            [
                f"{name[:-1]}{k}",
                str(counted(found)),
                shown(found),
                significance(found["p"]),
                str(found["better"]),
                str(found["worse"]),
            ]
            for name in ("pass@k", "cons@k")
            for k, found in entry[name].items()
        ),
    ]


def agreements(name: str, listed: Mapping[str, dict[str, Any]]) -> Table:
    """Tabulate how two judges agree in each part, and what only one finds right."""
    counts = [key for key in next(iter(listed.values())) if key != "share"]
    return [
        [name, "agreement [95 %]", *counts],
        *(
            [value, shown(found["share"]), *(str(found[key]) for key in counts)]
            for value, found in listed.items()
        ),
    ]


def counted(estimate: dict[str, Any] | None) -> int:
    """Count the problems that had enough judged responses for an estimate."""
    return 0 if estimate is None else int(estimate["problems"])


def percent(share: float | None) -> str:
    """Format as `12.5%`, or `-` if unknown."""
    return "-" if share is None else f"{share:.1%}"


def shown(estimate: dict[str, Any] | None) -> str:
    """Format as `0.433 [0.274, 0.608]`, with the error of drawn subsets if there is one."""
    if estimate is None:
        return "-"
    low, high = estimate["interval"]
    error = f" ±{estimate['error']:.3f}" if estimate.get("error") else ""
    return f"{estimate['value']:.3f}{error} [{low:.3f}, {high:.3f}]"


def cell(value: object) -> str:
    """Put a value on one line of a table, cut if it is long."""
    text = "-" if value is None else " ".join(str(value)[: 4 * _CELL].split())
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"


def significance(p: float) -> str:
    """Format a p: as `0.031`, or `<0.001`."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"
