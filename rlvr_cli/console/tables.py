"""Tabulate the figures of a report, and print them on stdout in a format for programs."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from rlvr_cli.core.text import plural
from rlvr_cli.core.types import by_key

TABLE = "table"
Figures = dict[str, Any]
"""What `report.json` has of all results, of one, of a part of it, or of a comparison."""
Table = list[Sequence[Any]]
"""Rows of cells below a header."""
OTHER_NAMES = "pass@1 over n responses is avg@n elsewhere, and cons@k is maj@k"
PAIRED = (
    "a result less its baseline on the same problems; p is not corrected for several comparisons"
)
_TABULAR = r"""\begin{tabular}{%s}
\toprule
%s \\
\midrule
%s \\
\bottomrule
\end{tabular}"""
"""A table of LaTeX, from the letters of its columns, its header and its rows."""
_LONGEST_CELL = 32
_DIGITS = len("0.433")
"""The length of a share as tables print it."""
COLUMNS = (
    "model",
    "data",
    "version",
    "k",
    "problems",
    "pass@k [95 %]",
    "cons@k [95 %]",
    "pass@1 in any form [95 %]",
)
"""The columns of a table of results."""
_DIFFERENCES = (
    "model",
    "data",
    "baseline",
    "metric",
    "problems",
    "difference [95 %]",
    "p",
    "better",
    "worse",
)
_CSV = (
    "model",
    "data",
    "metric",
    "k",
    "level_field",
    "level",
    "value",
    "low",
    "high",
    "n",
    "baseline",
    "p",
    "better",
    "worse",
)
_WORDS = ("model", "data", "baseline", "metric", "arm")
"""The columns of words, which LaTeX sets flush left."""
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "_": r"\_",
        "&": r"\&",
        "%": r"\%",
        "#": r"\#",
        "$": r"\$",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "±": r"$\pm$",
    }
)
"""What LaTeX prints as this character."""


def by_k(entries: Sequence[Figures], names: Sequence[str] = COLUMNS) -> Table:
    """Return a line of pass@k and cons@k for each k and result. Lines of equal k are adjacent."""
    table: Table = [names]
    for k in sorted({int(k) for entry in entries for k in entry["pass@k"]}):
        for entry in entries:
            if str(k) in entry["pass@k"]:
                estimate = entry["pass@k"][str(k)]
                any_form = entry.get("any_form") if k == 1 else None
                cells = {
                    **entry,
                    "version": entry["data_version"] or "",
                    "k": str(k),
                    "problems": str(counted(estimate)),
                    "pass@k [95 %]": in_words(estimate),
                    "cons@k [95 %]": in_words(entry["cons@k"][str(k)]),
                    "pass@1 in any form [95 %]": in_words(any_form),
                }
                table.append([cells[name] for name in names])
    return _without_empty_columns(table)


def by_field(entries: Sequence[Figures], field: str, labels: Sequence[str] = ()) -> Table:
    """Return the figures of results by the values of a field, at k = 1 and at the largest k.
    `labels` are columns of the results before them."""
    largest = str(max(int(k) for entry in entries for k in entry["pass@k"]))
    columns = {"pass@1 [95 %]": ("pass@k", "1")}
    if largest != "1":
        columns[f"pass@{largest} [95 %]"] = ("pass@k", largest)
        columns[f"cons@{largest} [95 %]"] = ("cons@k", largest)
    table: Table = [[*labels, field, "problems", *columns]]
    for entry in entries:
        for value, part in entry["by"][field].items():
            total = counted(part["pass@k"]["1"])
            line = [*(entry[label] for label in labels), value, str(total)]
            for name, k in columns.values():
                estimate = part[name].get(k)
                text = in_words(estimate)
                if 0 < counted(estimate) < total:
                    text += f" of {counted(estimate)}"
                line.append(text)
            table.append(line)
    return _without_empty_columns(table)


def _without_empty_columns(table: Table) -> Table:
    """Return the columns that say something in a row."""
    columns = [column for column in zip(*table, strict=True) if not {"", "-"} >= set(column[1:])]
    return list(zip(*columns, strict=True))


def differences(comparisons: Sequence[Figures]) -> Table:
    """Return a line for each comparison, metric and k, except cons@1, which is pass@1."""
    table: Table = [_DIFFERENCES]
    for comparison in comparisons:
        for metric, k, estimate in _estimates(comparison):
            cells = {
                **comparison,
                **estimate,
                "metric": metric.replace("k", k),
                "difference [95 %]": in_words(estimate),
                "p": significance(estimate["p"]),
            }
            if cells["metric"] != "cons@1":
                table.append([str(cells[name]) for name in _DIFFERENCES])
    return table


def _estimates(figures: Figures) -> Iterator[tuple[str, str, Figures]]:
    """Yield each known estimate of a result, or of a comparison, with its metric and k."""
    for metric in ("pass@k", "cons@k"):
        for k, estimate in figures[metric].items():
            if estimate is not None:
                yield metric, k, estimate
    if figures.get("any_form"):
        yield "pass@k in any form", "1", figures["any_form"]


def report_tables(report: Figures) -> list[Table]:
    """Return the figures of a report as tables: of all results, by each field, and compared."""
    entries = report["results"]
    tables = [by_k(entries)]
    tables += [by_field(entries, field, COLUMNS[:2]) for field in entries[0].get("by", {})]
    comparisons = _comparisons(report)
    return [*tables, differences(comparisons)] if comparisons else tables


def _comparisons(report: Figures) -> list[Figures]:
    """Return the comparisons among the results of a report, then those with earlier results."""
    return report.get("paired", []) + report.get("against", {"results": []})["results"]


def _note(report: Figures) -> str:
    """Return what is to be said of the tables of a report."""
    names = f"Names: {OTHER_NAMES}."
    return f"{names} Differences: {PAIRED}." if _comparisons(report) else names


def as_markdown(report: Figures) -> str:
    """Format the tables of a report in Markdown."""

    def line(cells: Sequence[Any]) -> str:
        texts = (" ".join(str(cell).replace("|", r"\|").split()) for cell in cells)
        return f"| {' | '.join(texts)} |"

    texts = []
    for header, *rows in report_tables(report):
        rule = ["---"] * len(header)
        texts.append("\n".join(map(line, [header, rule, *rows])))
    return "\n\n".join([*texts, _note(report)])


def as_latex(report: Figures) -> str:
    """Format the tables of a report in LaTeX, for a document that uses the package booktabs."""
    texts = [f"% {' '.join(report['command'].split())}\n% {_note(report)}"]
    for table in report_tables(report):
        header, *rows = ([_latex(cell) for cell in line] for line in table)
        if "baseline" not in header:
            _embolden_best(rows, header.index("problems"))
        texts.append(_tabular(header, rows))
    return "\n\n".join(texts)


def _tabular(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    columns = "".join("l" if name in _WORDS else "r" for name in header)
    lines = " \\\\\n".join(" & ".join(row) for row in rows)
    return _TABULAR % (columns, " & ".join(header), lines)


def _embolden_best(rows: Sequence[list[str]], count: int) -> None:
    """Embolden the best of the results on a set at a k or level, if one is above all others as
    printed, and all are of equally many problems. The k or level is in the column before `count`,
    which has the number of problems."""
    set_and_k = itemgetter(1, count - 1)
    for group in by_key(rows, set_and_k).values():
        if len({row[count] for row in group}) == 1 < len(group):
            for column in range(count + 1, len(group[0])):
                *_, second, best = sorted(group, key=itemgetter(column))
                if any(" of " in row[column] for row in group):
                    continue  # fewer problems have as many responses
                if best[column][:_DIGITS] > second[column][:_DIGITS]:
                    best[column] = re.sub(r"^\S+", r"\\textbf{\g<0>}", best[column])


def _latex(cell: object) -> str:
    """Write a cell for LaTeX, an interval in small letters."""
    text = " ".join(str(cell).split()).translate(_LATEX)
    text = re.sub(r"^(?=[\[*])", "{}", text)  # else an option of the line break before it
    text = re.sub(r"(?<![\w.])-(?=\d)", "$-$", text)
    return re.sub(r" (\[\S+, \S+\])", r" {\\small \1}", text)


def table_as_latex(table: Table) -> str:
    """Format a table in LaTeX, for a document that uses the package booktabs."""
    header, *rows = ([_latex(cell) for cell in line] for line in table)
    return _tabular(header, rows)


def as_csv(report: Figures) -> str:
    """Format the figures of a report as CSV, one in a row, numbers in full. `n` counts problems."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _CSV, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for entry in report["results"]:
        writer.writerows(_long_rows(entry, entry))
        for field, parts in entry.get("by", {}).items():
            for level, part in parts.items():
                labels = {**entry, "level_field": field, "level": level}
                writer.writerows(_long_rows(part, labels))
    for comparison in _comparisons(report):
        writer.writerows(_long_rows(comparison, comparison, prefix="difference "))
    return text.getvalue().rstrip("\n")


def _long_rows(figures: Figures, labels: Figures, prefix: str = "") -> Iterator[Figures]:
    """Yield a row for each known figure of a result, of a part of it, or of a comparison."""
    for metric, k, estimate in _estimates(figures):
        low, high = estimate["interval"]
        name = f"{prefix}{metric}"
        cells = {"metric": name, "k": k, "low": low, "high": high, "n": estimate["problems"]}
        yield {**labels, **estimate, **cells}
    for name in ("format_share", "cut_off_share", "response_length"):
        if figures.get(name) is not None:
            yield {**labels, "metric": name, "value": figures[name]}


FORMATS: dict[str, Callable[[Figures], str]] = {
    "md": as_markdown,
    "latex": as_latex,
    "csv": as_csv,
    "json": lambda report: json.dumps(report, ensure_ascii=False, indent=2),
}
"""How `--format` prints figures on stdout. The table on stderr is for people."""


def print_report(report: Figures, format: str) -> None:
    """Print the figures of a report on stdout in one of the `FORMATS`."""
    print(FORMATS[format](report).encode(errors="backslashreplace").decode())


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


def counted(estimate: Figures | None) -> int:
    """Count the problems that had enough judged responses for an estimate."""
    return 0 if estimate is None else int(estimate["problems"])


def percent(share: float | None) -> str:
    """Format as `12.5%`, or `-` if unknown."""
    return "-" if share is None else f"{share:.1%}"


def in_words(estimate: Figures | None) -> str:
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
