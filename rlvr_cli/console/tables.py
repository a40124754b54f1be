"""Tabulate the figures of a report, and print them on stdout in a format for programs."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from rlvr_cli.core.figures import Estimate, Figures, PairedDifference
from rlvr_cli.core.report import Comparison, Entry, Report
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import SamplingParams, by_key

TABLE = "table"
Table = list[Sequence[str]]
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


@dataclass(frozen=True)
class _Line:
    """A line of a table of results: a result at one k."""

    entry: Entry
    k: int

    @property
    def estimate(self) -> Estimate | None:
        """Return pass@k."""
        return self.entry.figures.pass_at[self.k]

    @property
    def any_form(self) -> Estimate | None:
        """Return pass@1 in any form. Only the line of k = 1 shows it."""
        return self.entry.any_form if self.k == 1 else None


LABELS: dict[str, Callable[[Entry], str]] = {
    "model": lambda entry: entry.model,
    "data": lambda entry: entry.data,
}
"""The columns that name a result."""
COLUMNS: dict[str, Callable[[_Line], str]] = {
    "model": lambda line: line.entry.model,
    "data": lambda line: line.entry.data,
    "version": lambda line: str(line.entry.data_version or ""),
    "k": lambda line: str(line.k),
    "problems": lambda line: str(counted(line.estimate)),
    "pass@k [95 %]": lambda line: in_words(line.estimate),
    "cons@k [95 %]": lambda line: in_words(line.entry.figures.cons_at[line.k]),
    "pass@1 in any form [95 %]": lambda line: in_words(line.any_form),
}
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
_MARKDOWN = str.maketrans({mark: f"\\{mark}" for mark in "\\`<>|"})
"""What Markdown shows as this character."""
_FORMULA = "=+-@\t\r\n＝＋－＠"
"""Characters with which a spreadsheet begins a formula."""
_NUMBER = r"[+-]?\d[\d,]*(\.\d+)?([eE][+-]?\d+)?%?"
_FIGURE = re.compile(rf"{_NUMBER}( ±{_NUMBER})?( \[{_NUMBER}, {_NUMBER}\])?", re.ASCII)
"""A number or an interval."""


def by_k(entries: Sequence[Entry], names: Sequence[str] = tuple(COLUMNS)) -> Table:
    """Return a line of pass@k and cons@k for each k and result. Lines of equal k are adjacent."""
    columns = [COLUMNS[name] for name in names]
    table: Table = [names]
    for k in sorted({k for entry in entries for k in entry.ks}):
        for entry in entries:
            if k in entry.ks:
                line = _Line(entry, k)
                table.append([cell_of(line) for cell_of in columns])
    return _without_empty_columns(table)


def by_field(entries: Sequence[Entry], field: str, labels: Sequence[str] = ()) -> Table:
    """Return the figures of results by the values of a field, at k = 1 and at the largest k.
    `labels` are columns of the results before them."""
    largest = max(k for entry in entries for k in entry.ks)
    header = [*labels, field, "problems", "pass@1 [95 %]"]
    if largest != 1:
        header += [f"pass@{largest} [95 %]", f"cons@{largest} [95 %]"]
    table: Table = [header]
    for entry in entries:
        for value, part in entry.by[field].items():
            estimates = [part.pass_at[1]]
            if largest != 1:
                estimates += [part.pass_at.get(largest), part.cons_at.get(largest)]
            total = counted(part.pass_at[1])
            line = [*(LABELS[label](entry) for label in labels), value, str(total)]
            for estimate in estimates:
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


def differences(comparisons: Sequence[Comparison]) -> Table:
    """Return a line for each comparison, metric and k, except cons@1, which is pass@1."""
    table: Table = [_DIFFERENCES]
    for comparison in comparisons:
        for metric, k, difference in _differences_of(comparison):
            if (metric, k) == ("cons@k", 1):
                continue
            table.append(
                [
                    comparison.model,
                    comparison.data,
                    comparison.baseline,
                    metric.replace("k", str(k)),
                    str(difference.problems),
                    in_words(difference),
                    significance(difference.p),
                    str(difference.better),
                    str(difference.worse),
                ]
            )
    return table


def _differences_of(comparison: Comparison) -> Iterator[tuple[str, int, PairedDifference]]:
    """Yield each difference of a comparison with its metric and k."""
    for metric, by_k in (("pass@k", comparison.pass_at), ("cons@k", comparison.cons_at)):
        for k, difference in by_k.items():
            yield metric, k, difference


def report_tables(report: Report) -> list[Table]:
    """Return the figures of a report as tables: of all results, by each field, and compared."""
    entries = report.entries
    tables = [by_k(entries)]
    tables += [by_field(entries, field, tuple(LABELS)) for field in entries[0].by]
    comparisons = report.comparisons
    return [*tables, differences(comparisons)] if comparisons else tables


def _note(report: Report) -> str:
    """Return what is to be said of the tables of a report."""
    notes = [f"Names: {OTHER_NAMES}."]
    if report.comparisons:
        notes.append(f"Differences: {PAIRED}.")
    for entry in report.entries:
        if entry.failed:
            count = plural(sum(entry.failed.values()), "response")
            notes.append(f"Missing: {count} of {entry.model} on {entry.data}, which failed.")
    return " ".join(notes)


def as_markdown(report: Report) -> str:
    """Format the tables of a report in Markdown."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(map(_markdown, cells))} |"

    texts = []
    for header, *rows in report_tables(report):
        rule = ["---"] * len(header)
        texts.append("\n".join(map(line, [header, rule, *rows])))
    return "\n\n".join([*texts, _markdown(_note(report))])


def _markdown(text: str) -> str:
    """Write a text for Markdown, with nothing that a viewer would run or fetch: no HTML, no code,
    no image and no link. An interval stays as it is."""
    safe = " ".join(text.split()).translate(_MARKDOWN)
    return re.sub(r"\[(?![-+]?\d)|\](?=[(\[:])", r"\\\g<0>", safe)


def as_latex(report: Report) -> str:
    """Format the tables of a report in LaTeX, for a document that uses the package booktabs."""
    texts = [f"% {' '.join((report.command or '').split())}\n% {_note(report)}"]
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


def _latex(cell: str) -> str:
    """Write a cell for LaTeX, an interval in small letters."""
    text = " ".join(cell.split()).translate(_LATEX)
    text = re.sub(r"^(?=[\[*])", "{}", text)  # else an option of the line break before it
    text = re.sub(r"(?<![\w.])-(?=\d)", "$-$", text)
    return re.sub(r" (\[\S+, \S+\])", r" {\\small \1}", text)


def table_as_latex(table: Table) -> str:
    """Format a table in LaTeX, for a document that uses the package booktabs."""
    header, *rows = ([_latex(cell) for cell in line] for line in table)
    return _tabular(header, rows)


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Format rows as CSV. A text that a spreadsheet would run begins with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([*map(_neutral, row)] for row in rows)
    return text.getvalue()


def _neutral(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = value.replace("\r", "\n")  # which would be quoted, and end no row
    is_run = value.startswith(tuple(_FORMULA)) and not _FIGURE.fullmatch(value)
    return f"'{text}" if is_run else text


def as_csv(report: Report) -> str:
    """Format the figures of a report as CSV, one in a row, numbers in full. `n` counts problems."""
    return csv_text(_csv_rows(report)).rstrip("\n")


def _csv_rows(report: Report) -> Iterator[Sequence[object]]:
    yield _CSV
    for entry in report.entries:
        labels = _Labels(entry.model, entry.data)
        yield from _long_rows(entry.figures, labels)
        if entry.any_form is not None:
            yield _long_row("pass@k in any form", 1, entry.any_form, labels)
        yield from _shares(entry.figures, labels)
        for field, parts in entry.by.items():
            for level, part in parts.items():
                of_part = _Labels(entry.model, entry.data, field, level)
                yield from _long_rows(part, of_part)
                yield from _shares(part, of_part)
    for comparison in report.comparisons:
        labels = _Labels(comparison.model, comparison.data)
        for metric, k, difference in _differences_of(comparison):
            row = _long_row(f"difference {metric}", k, difference, labels)
            row[-4:] = [comparison.baseline, difference.p, difference.better, difference.worse]
            yield row


class _Labels(NamedTuple):
    """The result and the part of it that a row of CSV is about."""

    model: str
    data: str
    level_field: str = ""
    level: str = ""


def _long_rows(figures: Figures, labels: _Labels) -> Iterator[list[object]]:
    """Yield a row for each known estimate of a result, or of a part of it."""
    for metric, by_k in (("pass@k", figures.pass_at), ("cons@k", figures.cons_at)):
        for k, estimate in by_k.items():
            if estimate is not None:
                yield _long_row(metric, k, estimate, labels)


def _long_row(
    metric: str, k: int, estimate: Estimate | PairedDifference, labels: _Labels
) -> list[object]:
    """Return a row of CSV, without the cells of a comparison."""
    names = [labels.model, labels.data, metric, k, labels.level_field, labels.level]
    return [*names, estimate.value, *estimate.interval, estimate.problems, "", "", "", ""]


def _shares(figures: Figures, labels: _Labels) -> Iterator[list[object]]:
    """Yield a row for each known share and for the mean length."""
    shares = {
        "format_share": figures.format_share,
        "cut_off_share": figures.cut_off_share,
        "response_length": figures.response_length,
    }
    for metric, value in shares.items():
        if value is not None:
            names = [labels.model, labels.data, metric, "", labels.level_field, labels.level]
            yield [*names, value, *[""] * 7]


FORMATS: dict[str, Callable[[Report], str]] = {
    "md": as_markdown,
    "latex": as_latex,
    "csv": as_csv,
    "json": lambda report: json.dumps(report.row, ensure_ascii=False, indent=2),
}
"""How `--format` prints figures on stdout. The table on stderr is for people."""


def print_report(report: Report, format: str) -> None:
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


def counted(estimate: Estimate | None) -> int:
    """Count the problems that had enough judged responses for an estimate."""
    return 0 if estimate is None else estimate.problems


def percent(share: float | None) -> str:
    """Format as `12.5%`, or `-` if unknown."""
    return "-" if share is None else f"{share:.1%}"


def in_words(estimate: Estimate | PairedDifference | None) -> str:
    """Format as `0.433 [0.274, 0.608]`, with the error of sampled subsets if there is one."""
    if estimate is None:
        return "-"
    low, high = estimate.interval
    error = ""
    if isinstance(estimate, Estimate) and estimate.error:
        error = f" ±{estimate.error:.3f}"
    return f"{estimate.value:.3f}{error} [{low:.3f}, {high:.3f}]"


def sampling_in_words(problems: int, params: SamplingParams, has_max_tokens: bool = True) -> str:
    """Describe how many responses were sampled, and with which settings."""
    limit = f"at most {params.max_tokens} tokens"
    if not has_max_tokens:
        limit = "the server's limit of tokens"
    return (
        f"{plural(problems, 'problem')} x {plural(params.samples, 'sample')}, temperature "
        f"{params.temperature:g}, top-p {params.top_p:g}, {limit}"
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
