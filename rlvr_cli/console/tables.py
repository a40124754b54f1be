"""Tabulate the figures of a report, and print them on stdout in a format for programs."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rlvr_cli.core.figures import Estimate, Figures, PairedDifference
from rlvr_cli.core.report import Comparison, Entry, Report
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import SamplingParams, by_key

TABLE = "table"
Table = list[Sequence[str]]
"""Rows of cells below a header."""
OTHER_NAMES = "pass@1 over n responses is avg@n elsewhere, and cons@k is maj@k"
_PAIRED = "a result less its baseline on the same problems"
_TABULAR = r"""\begin{tabular}{%s}
\toprule
%s
\midrule
%s \\
\bottomrule
\end{tabular}"""
"""A table of LaTeX, from the letters of its columns, its header and its rows."""
_NOISE = 0.05
"""The p from which on a difference may be chance, as that of the intervals."""
_ANY_FORM = "pass@1 in any form"
_LONGEST_CELL = 32


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


class Figure(NamedTuple):
    """A figure of a result: a metric at a k."""

    metric: str
    k: int

    @property
    def title(self) -> str:
        """Return the header of its column."""
        return f"{self.metric.replace('@k', f'@{self.k}')} [95 %]"

    def of(self, entry: Entry) -> Estimate | None:
        """Return the figure of a result, or None if it is not known."""
        if self.metric == _ANY_FORM:
            return entry.any_form
        by_k = entry.figures.pass_at if self.metric == "pass@k" else entry.figures.cons_at
        return by_k.get(self.k)


LABELS: dict[str, Callable[[Entry], str]] = {
    "model": lambda entry: entry.model,
    "data": lambda entry: entry.data,
}
"""The columns that name a result."""
COLUMNS: dict[str, Callable[[_Line], str]] = {
    "model": lambda line: line.entry.model,
    "data": lambda line: line.entry.data,
    "version": lambda line: _later_version(line.entry.data_version),
    "k": lambda line: str(line.k),
    "problems": lambda line: str(counted(line.estimate)),
    "pass@k [95 %]": lambda line: in_words(line.estimate),
    "cons@k [95 %]": lambda line: in_words(line.entry.figures.cons_at[line.k]),
    "pass@1 in any form [95 %]": lambda line: in_words(line.any_form),
}
"""The columns of a table of results."""
_HOLM = "p Holm"
"""The column of p-values that are corrected for the number of pairs."""
_DIFFERENCES = (
    "model",
    "data",
    "baseline",
    "metric",
    "problems",
    "difference [95 %]",
    "p",
    _HOLM,
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
    "p_holm",
)
_NO_COMPARISON = ("",) * 5
"""The last cells of a row of CSV that is no difference."""
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


def _later_version(version: int | None) -> str:
    """Return the version of a problem set, or nothing for the first one."""
    return str(version) if version is not None and version > 1 else ""


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


def differences(
    comparisons: Sequence[Comparison], figures: Sequence[Figure] | None = None
) -> Table:
    """Return a line for each comparison, metric and k, except cons@1, which is pass@1, or for each
    of `figures`. The corrected p has a column if there is any."""
    lines = []
    for comparison in comparisons:
        for metric, k, difference in _differences_of(comparison):
            if (metric, k) == ("cons@k", 1):
                continue
            if figures is not None and Figure(metric, k) not in figures:
                continue
            corrected = difference.p_holm
            lines.append(
                [
                    comparison.model,
                    comparison.data,
                    comparison.baseline,
                    metric.replace("k", str(k)),
                    str(difference.problems),
                    in_words(difference),
                    significance(difference.p),
                    "" if corrected is None else significance(corrected),
                    str(difference.better),
                    str(difference.worse),
                ]
            )
    table: Table = [_DIFFERENCES, *lines]
    column = _DIFFERENCES.index(_HOLM)
    if any(line[column] for line in lines):
        return table
    return [[*line[:column], *line[column + 1 :]] for line in table]


def paired_in_words(comparisons: Sequence[Comparison]) -> str:
    """Say what differences are, and for what their p is corrected."""
    for comparison in comparisons:
        for _, _, difference in _differences_of(comparison):
            if difference.p_holm is not None:
                return (
                    f"{_PAIRED}; {_HOLM} is corrected for all pairs of a set, and the interval is "
                    "that of p"
                )
    return f"{_PAIRED}; p is not corrected for several comparisons"


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
        notes.append(f"Differences: {paired_in_words(report.comparisons)}.")
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
    """Format the tables of a report in LaTeX, for a document that uses the package booktabs.

    The results have a row for each model: its pass@1, and cons@k at the largest k of all, or pass@k
    and cons@k at each k that was asked for.
    """
    entries = report.entries
    figures = _latex_figures(report)
    texts = [f"% {' '.join((report.command or '').split())}\n% {_note(report)}"]
    texts.append(_latex_results(report, figures))
    for field in entries[0].by:
        texts.append(table_as_latex(by_field(entries, field, tuple(LABELS))))
    if report.comparisons:
        texts.append(table_as_latex(differences(report.comparisons, figures)))
    return "\n\n".join(texts)


def _latex_figures(report: Report) -> list[Figure]:
    """Return the columns of figures in a table of results that some entry has."""
    entries = report.entries
    ks = [k for k in report.ks if k > 1]
    if not ks:
        common = set.intersection(*(set(entry.ks) for entry in entries)) - {1}
        known = [k for k in common if any(entry.figures.cons_at.get(k) for entry in entries)]
        ks = sorted(known)[-1:]
    columns = [Figure("pass@k", 1), Figure(_ANY_FORM, 1)]
    for k in sorted(ks):
        if report.ks:
            columns.append(Figure("pass@k", k))
        columns.append(Figure("cons@k", k))
    return [
        figure
        for figure in columns
        if figure == columns[0] or any(figure.of(entry) is not None for entry in entries)
    ]


def _latex_results(report: Report, figures: Sequence[Figure]) -> str:
    """Write the results of each model in a row, with a group of columns for each problem set.

    Models that each have a set of their own, such as their files, share the columns, and a column
    names the set.
    """
    entries = report.entries
    models = by_key(entries, lambda entry: entry.model)
    sets = list(by_key(entries, lambda entry: entry.data))
    is_shared = len(models) == len(entries) and len(sets) > 1
    groups = [list(entries)] if is_shared else list(by_key(entries, LABELS["data"]).values())
    titles = ["model", "data"] if is_shared else ["model"]
    header = [*titles, *([figure.title for figure in figures] * len(groups))]
    rows = []
    for model, entries_of_model in models.items():
        row = [_latex(model)]
        if is_shared:
            row.append(_latex(entries_of_model[0].data))
        for group in groups:
            entry = next((entry for entry in group if entry.model == model), None)
            row += [_latex_figure(entry, figure, group, report.paired) for figure in figures]
        rows.append(row)
    head = [] if is_shared else [_latex_groups(groups, len(figures))]
    head.append(" & ".join(map(_latex, header)) + r" \\")
    letters = "l" * len(titles) + "r" * len(figures) * len(groups)
    return _TABULAR % (letters, "\n".join(head), _latex_rows(rows))


def _latex_groups(groups: Sequence[Sequence[Entry]], width: int) -> str:
    """Write the line above the header that names the problem set of each group of columns."""
    cells = [""]
    rules = []
    for number, group in enumerate(groups):
        title = f"{group[0].data}, {plural(_problems_of(group), 'problem')}"
        cells.append(rf"\multicolumn{{{width}}}{{c}}{{{_latex(title)}}}")
        first = 2 + number * width
        rules.append(rf"\cmidrule(lr){{{first}-{first + width - 1}}}")
    return " & ".join(cells) + " \\\\\n" + " ".join(rules)


def _problems_of(group: Sequence[Entry]) -> int:
    """Return the number of problems of a set that any result has."""
    return max(entry.figures.problems for entry in group)


def _latex_figure(
    entry: Entry | None,
    figure: Figure,
    group: Sequence[Entry],
    paired: Sequence[Comparison],
) -> str:
    """Write a figure of a result, in bold if it is better than each other one of its group beyond
    the noise, and with the number of its problems if others have more."""
    estimate = None if entry is None else figure.of(entry)
    if entry is None or estimate is None:
        return "-"
    text = in_words(estimate)
    if estimate.problems < _problems_of(group):
        text += f" of {estimate.problems}"
    text = _latex(text)
    rivals = [rival for rival in group if rival is not entry and figure.of(rival) is not None]
    if rivals and all(_is_better(entry, rival, figure, paired) for rival in rivals):
        text = re.sub(r"^\S+", r"\\textbf{\g<0>}", text)
    return text


def _is_better(entry: Entry, rival: Entry, figure: Figure, paired: Sequence[Comparison]) -> bool:
    """Return whether a comparison shows that a result is better than another beyond the noise."""
    sides = [(entry.model, entry.data), (rival.model, rival.data)]
    for comparison in paired:
        compared = [
            (comparison.model, comparison.data),
            (comparison.against, comparison.against_data),
        ]
        if sorted(compared) != sorted(sides):
            continue
        for metric, k, difference in _differences_of(comparison):
            if figure == Figure(metric, k):
                p = difference.p if difference.p_holm is None else difference.p_holm
                sign = 1 if compared == sides else -1
                return p < _NOISE and sign * difference.value > 0
    return False


def _latex_rows(rows: Iterable[Sequence[str]]) -> str:
    return " \\\\\n".join(" & ".join(row) for row in rows)


def _latex(cell: str) -> str:
    """Write a cell for LaTeX, an interval in small letters."""
    text = " ".join(cell.split()).translate(_LATEX)
    text = re.sub(r"^(?=[\[*])", "{}", text)  # else an option of the line break before it
    text = re.sub(r"(?<![\w.])-(?=\d)", "$-$", text)
    return re.sub(r" (\[\S+, \S+\])", r" {\\small \1}", text)


def table_as_latex(table: Table) -> str:
    """Format a table in LaTeX, for a document that uses the package booktabs."""
    header, *rows = ([_latex(cell) for cell in line] for line in table)
    letters = "".join("l" if name in _WORDS else "r" for name in header)
    return _TABULAR % (letters, _latex_rows([header]) + r" \\", _latex_rows(rows))


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
            row = _long_row("pass@k in any form", 1, entry.any_form, labels)
            yield [*row, *_NO_COMPARISON]
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
            signs = [difference.p, difference.better, difference.worse]
            corrected = "" if difference.p_holm is None else difference.p_holm
            yield [*row, comparison.baseline, *signs, corrected]


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
                yield [*_long_row(metric, k, estimate, labels), *_NO_COMPARISON]


def _long_row(
    metric: str, k: int, estimate: Estimate | PairedDifference, labels: _Labels
) -> list[object]:
    """Return a row of CSV, without the cells of a comparison."""
    names = [labels.model, labels.data, metric, k, labels.level_field, labels.level]
    return [*names, estimate.value, *estimate.interval, estimate.problems]


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
            yield [*names, value, "", "", "", *_NO_COMPARISON]


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
