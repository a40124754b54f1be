"""Tabulate the figures of a report, and print them on stdout in a format for programs."""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlvr_cli.core.text import plural

TABLE = "table"
Table = list[Sequence[Any]]
"""Rows of cells below a header."""
_LONGEST_CELL = 32
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
    """Return a line of pass@k and cons@k for each k and result. Lines of equal k are adjacent."""
    table: Table = [list(names)]
    for k in sorted({int(k) for entry in entries for k in entry["pass@k"]}):
        for entry in entries:
            if str(k) in entry["pass@k"]:
                table.append([COLUMNS[name](entry, str(k)) for name in names])
    return table


def by_field(entry: dict[str, Any], field: str) -> Table:
    """Return the figures of one result by the values of a field, at k = 1 and at the largest k."""
    largest = list(entry["pass@k"])[-1]
    columns = {"pass@1 [95 %]": ("pass@k", "1")}
    if largest != "1":
        columns[f"pass@{largest}"] = ("pass@k", largest)
        columns[f"cons@{largest}"] = ("cons@k", largest)
    table: Table = [[field, "problems", *columns]]
    for value, part in entry["by"][field].items():
        total = counted(part["pass@k"]["1"])
        line = [value, str(total)]
        for name, k in columns.values():
            count = counted(part[name][k])
            text = in_words(part[name][k])
            if 0 < count < total:
                text += f" of {count}"
            line.append(text)
        table.append(line)
    return table


def differences(comparison: dict[str, Any]) -> Table:
    """Return a line for each k of a comparison."""
    table: Table = [["ours less theirs", "problems", "difference [95 %]", "p", "better", "worse"]]
    for name in ("pass", "cons"):
        for k, estimate in comparison[f"{name}@k"].items():
            table.append(
                [
                    f"{name}@{k}",
                    str(counted(estimate)),
                    in_words(estimate),
                    significance(estimate["p"]),
                    str(estimate["better"]),
                    str(estimate["worse"]),
                ]
            )
    return table


def report_tables(report: dict[str, Any]) -> list[Table]:
    """Return the figures of a report as tables: of all results, by each field, and compared."""
    tables = [by_k(report["results"])]
    for entry in report["results"]:
        tables += [by_field(entry, field) for field in entry.get("by", {})]
    if "against" in report:
        tables += [differences(comparison) for comparison in report["against"]["results"]]
    return tables


def as_markdown(report: dict[str, Any]) -> str:
    """Format the tables of a report in Markdown."""

    def line(cells: Sequence[Any]) -> str:
        texts = (" ".join(str(cell).replace("|", r"\|").split()) for cell in cells)
        return f"| {' | '.join(texts)} |"

    texts = []
    for header, *rows in report_tables(report):
        rule = ["---"] * len(header)
        texts.append("\n".join(map(line, [header, rule, *rows])))
    return "\n\n".join(texts)


def as_csv(report: dict[str, Any]) -> str:
    """Format the figures of a report as CSV, numbers in full."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    header = ["model", "data", "version", "problems", "k", "pass@k", "low", "high"]
    writer.writerow([*header, "cons@k", "low", "high", "pass@1 in any form"])
    for entry in report["results"]:
        for k, estimate in entry["pass@k"].items():
            row = [entry["model"], entry["data"], entry["data_version"], counted(estimate), k]
            row += _value_and_ends(estimate)
            row += _value_and_ends(entry["cons@k"][k])
            row.append(entry["any_form"]["value"] if "any_form" in entry and k == "1" else "")
            writer.writerow(row)
    return text.getvalue().rstrip("\n")


def _value_and_ends(estimate: dict[str, Any] | None) -> list[Any]:
    """Return an estimate and the ends of its interval, or three empty cells if it is unknown."""
    return ["", "", ""] if estimate is None else [estimate["value"], *estimate["interval"]]


FORMATS: dict[str, Callable[[dict[str, Any]], str]] = {
    "md": as_markdown,
    "csv": as_csv,
    "json": lambda report: json.dumps(report, ensure_ascii=False, indent=2),
}
"""How `--format` prints figures on stdout. The table on stderr is for people."""


def print_report(report: dict[str, Any], format: str) -> None:
    """Print the figures of a report on stdout in one of the `FORMATS`."""
    print(FORMATS[format](report))


def by_level(before: Mapping[str, float | None], after: Mapping[str, float | None]) -> Table:
    """Return pass@1 of each level before and after training."""
    return [
        ["level", *after],
        ["before", *map(_hundredths, before.values())],
        ["after", *map(_hundredths, after.values())],
    ]


def _hundredths(value: float | None) -> str:
    """Format as `0.43`, or `-` if unknown."""
    return "-" if value is None else f"{value:.2f}"


def counted(estimate: dict[str, Any] | None) -> int:
    """Count the problems that had enough judged responses for an estimate."""
    return 0 if estimate is None else int(estimate["problems"])


def percent(share: float | None) -> str:
    """Format as `12.5%`, or `-` if unknown."""
    return "-" if share is None else f"{share:.1%}"


def in_words(estimate: dict[str, Any] | None) -> str:
    """Format as `0.433 [0.274, 0.608]`, with the error of sampled subsets if there is one."""
    if estimate is None:
        return "-"
    low, high = estimate["interval"]
    error = f" ±{estimate['error']:.3f}" if estimate.get("error") else ""
    return f"{estimate['value']:.3f}{error} [{low:.3f}, {high:.3f}]"


def sampling_in_words(problems: int, sampling: Mapping[str, Any]) -> str:
    """Describe how many responses were sampled, and with which settings."""
    limit = f"at most {sampling['max_tokens']} tokens"
    if sampling["max_tokens"] is None:  # that of a server, which nobody set
        limit = "the server's limit of tokens"
    return (
        f"{plural(problems, 'problem')} x {plural(sampling['samples'], 'sample')}, temperature "
        f"{sampling['temperature']:g}, top-p {sampling['top_p']:g}, {limit}"
    )


def cell(value: object) -> str:
    """Put a value on one line of a table, cut to 32 characters."""
    if value is None:
        return "-"
    text = " ".join(str(value)[: 4 * _LONGEST_CELL].split())
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"


def significance(p: float) -> str:
    """Format a p: as `0.031`, or `<0.001`."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"
