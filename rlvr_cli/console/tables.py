"""Tabulate the figures of a report, and print them on stdout in a format for programs."""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

TABLE = "table"
Table = list[Sequence[Any]]
"""Rows of cells below a header."""
COLUMNS: dict[str, Callable[[dict[str, Any], str], Any]] = {
    "model": lambda entry, k: entry["model"],
    "data": lambda entry, k: entry["data"],
    "version": lambda entry, k: entry["data_version"] or "",
    "problems": lambda entry, k: str(counted(entry["pass@k"][k])),
    "k": lambda entry, k: k,
    "pass@k [95 %]": lambda entry, k: in_words(entry["pass@k"][k]),
    "cons@k [95 %]": lambda entry, k: in_words(entry["cons@k"][k]),
    "pass@1 in any form": lambda entry, k: in_words(entry.get("any_form")) if k == "1" else "",
}
"""The cells of a result at one k, by the name of their column."""


def by_k(entries: Sequence[dict[str, Any]], names: Sequence[str] = tuple(COLUMNS)) -> Table:
    """Return pass@k and cons@k, a line for each k and result; equal k stand together."""
    pairs = sorted(((int(k), e) for e in entries for k in e["pass@k"]), key=lambda pair: pair[0])
    return [list(names), *([COLUMNS[name](entry, str(k)) for name in names] for k, entry in pairs)]


def by_field(entry: dict[str, Any], field: str) -> Table:
    """Return the figures of one result by the values of a field: at k = 1 and at the last."""
    last = list(entry["pass@k"])[-1]
    columns = {"pass@1 [95 %]": ("pass@k", "1")}
    if last != "1":
        columns |= {f"{name[:-1]}{last}": (name, last) for name in ("pass@k", "cons@k")}
    lines = []
    for value, part in entry["by"][field].items():
        most, cells = counted(part["pass@k"]["1"]), []
        for name, k in columns.values():
            count = counted(part[name][k])
            cells.append(in_words(part[name][k]) + (f" of {count}" if 0 < count < most else ""))
        lines.append([value, str(most), *cells])
    return [[field, "problems", *columns], *lines]


def differences(entry: dict[str, Any]) -> Table:
    """Return a comparison, one line per k."""
    lines = [["ours less theirs", "problems", "difference [95 %]", "p", "better", "worse"]]
    for name in ("pass@k", "cons@k"):
        for k, estimate in entry[name].items():
            cells = [f"{name[:-1]}{k}", str(counted(estimate)), in_words(estimate)]
            cells += [significance(estimate["p"]), str(estimate["better"]), str(estimate["worse"])]
            lines.append(cells)
    return [*lines]


def as_markdown(report: dict[str, Any]) -> str:
    """Format the figures of a report as tables in Markdown: of all, by each field, and compared."""
    tables = [by_k(report["results"])]
    tables += [by_field(entry, by) for entry in report["results"] for by in entry.get("by", {})]
    tables += [differences(entry) for entry in report.get("against", {}).get("results", ())]

    def line(cells: Sequence[Any]) -> str:
        texts = (" ".join(str(cell).replace("|", r"\|").split()) for cell in cells)
        return f"| {' | '.join(texts)} |"

    return "\n\n".join(
        "\n".join(map(line, (table[0], ["---"] * len(table[0]), *table[1:]))) for table in tables
    )


def as_csv(report: dict[str, Any]) -> str:
    """Format the figures of a report as CSV, numbers in full."""
    header = ["model", "data", "version", "problems", "k", "pass@k", "low", "high"]
    rows = [[*header, "cons@k", "low", "high", "pass@1 in any form"]]
    for entry in report["results"]:
        for k, passed in entry["pass@k"].items():
            row = [entry["model"], entry["data"], entry["data_version"], counted(passed), k]
            for estimate in (passed, entry["cons@k"][k]):
                value = estimate and [estimate["value"], *estimate["interval"]]
                row += value or ["", "", ""]
            flexible = entry.get("any_form")
            rows.append([*row, flexible["value"] if flexible and k == "1" else ""])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().rstrip("\n")


FORMATS: dict[str, Callable[[dict[str, Any]], str]] = {
    "md": as_markdown,
    "csv": as_csv,
    "json": lambda report: json.dumps(report, ensure_ascii=False, indent=2),
}
"""How `--format` prints figures on stdout; a table is for people, on stderr."""


def print_report(report: dict[str, Any], format: str) -> None:
    """Print the figures of a report on stdout in one of the `FORMATS`."""
    print(FORMATS[format](report))


def by_level(before: Mapping[str, float | None], after: Mapping[str, float | None]) -> Table:
    """Format pass@1 of each level before and after training."""
    lines = [
        [when, *("-" if value is None else f"{value:.2f}" for value in values.values())]
        for when, values in (("before", before), ("after", after))
    ]
    return [["level", *after], *lines]


def counted(estimate: dict[str, Any] | None) -> int:
    """Count the problems that had enough judged responses for an estimate."""
    return 0 if estimate is None else int(estimate["problems"])


def percent(share: float | None) -> str:
    """Format as `12.5%`, or `-` if unknown."""
    return "-" if share is None else f"{share:.1%}"


def in_words(estimate: dict[str, Any] | None) -> str:
    """Format as `0.433 [0.274, 0.608]`, with the error of drawn subsets if there is one."""
    if estimate is None:
        return "-"
    low, high = estimate["interval"]
    error = f" ±{estimate['error']:.3f}" if estimate.get("error") else ""
    return f"{estimate['value']:.3f}{error} [{low:.3f}, {high:.3f}]"


def cell(value: object) -> str:
    """Put a value on one line of a table, cut to 32 characters."""
    text = "-" if value is None else " ".join(str(value)[:128].split())
    return text if len(text) <= 32 else f"{text[:31]}…"


def significance(p: float) -> str:
    """Format a p: as `0.031`, or `<0.001`."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"
