"""Write runs or results as one page that needs no network. Nothing a model wrote is ever live: it
is JSON in a block that no browser executes, and reaches the page as text."""

import base64
import hashlib
import html
import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from rlvr_cli.console.display import Display
from rlvr_cli.console.steps import LIMITS, MEASURED, History, measured_sets
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import write_new, writing
from rlvr_cli.core.text import printable
from rlvr_cli.data.rows import ROW_KEYS
from rlvr_cli.runs.run_dir import StoredTokens
from rlvr_cli.show.screen import cut, differing, pass_at_1
from rlvr_cli.show.source import REASONS, Source, StoredGroup, reason

MOST_BYTES = 3_500_000
"""Bytes of the responses in a page; of more a sample is shown."""
_TOKENS_SHARE = 0.3
"""The share of these bytes for groups with stored tokens."""
_LONGEST_TEXT, _LONGEST_TOKEN, _LONGEST_FIELD, _MOST_FIELDS = 4_000, 100, 40, 8
_GOLDEN = (5**0.5 - 1) / 2
"""The golden ratio less 1: its multiples modulo 1 are spread evenly, however many are taken."""
_FILES = resources.files("rlvr_cli") / "show" / "page_files"
_STYLES, _SCRIPTS = ("uPlot.min.css", "page.css"), ("uPlot.iife.min.js", "page.js")
_DROPPED = ("dropped, all right", "dropped, all wrong", "dropped, mixed")
_FATES = ("trained", *_DROPPED, "not judged", "cut off")


def write_page(sources: Sequence[Source], path: Path, display: Display) -> None:
    """Write the page to a new file. Raises UserError where that cannot be."""
    if path.exists():
        raise UserError(f"--html {path}: it exists already; name another file or remove it")
    text = page(sources)
    with writing(f"--html {path}"):
        write_new(path, text)
    display.result("page", f"{path}, {len(text) / 1e6:.1f} MB: open it in a browser")


def page(sources: Sequence[Source]) -> str:
    """Return the page of runs or results: the files of the page, which its policy allows by their
    checksums, and the data."""
    names = (*_STYLES, *_SCRIPTS, "page.html", "LICENSE-uPlot")
    filled = {name: (_FILES / name).read_text(encoding="utf-8") for name in names}
    data = json.dumps(page_data(sources), separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        data = data.replace(character, f"\\u{ord(character):04x}")
    title = printable("rlvr: " + ", ".join(str(source.path) for source in sources))
    filled |= {"title": html.escape(title), "data": data}
    for kind, files in (("styles", _STYLES), ("scripts", _SCRIPTS)):
        sums = (hashlib.sha256(filled[name].encode()).digest() for name in files)
        filled[kind] = " ".join(f"'sha256-{base64.b64encode(sha).decode()}'" for sha in sums)
    return re.sub(r"@\{(.+?)\}", lambda match: filled[match[1]], filled["page.html"])


class _Sample:
    """Hold groups up to a number of bytes. Of more it holds an evenly spread share: each group has
    a place in [0, 1), and those above a limit go, which falls until the others fit."""

    def __init__(self, most: float) -> None:
        self.most, self.limit, self.seen, self.size = most, 1.0, 0, 0
        self.entries: list[tuple[float, int, list[Any]]] = []

    def add(self, source: int, group: StoredGroup, tokens: dict[int, list[StoredTokens]]) -> None:
        """Add a group of a source if there is room for it."""
        self.seen += 1
        if (place := self.seen * _GOLDEN % 1) >= self.limit:
            return
        entry = _entry(source, group, tokens)
        written = json.dumps(entry, separators=(",", ":"))
        size = len(written) + 5 * sum(map(written.count, "<>&"))
        self.entries.append((place, size, entry))
        self.size += size
        while self.size > self.most:
            self.limit *= 0.97
            self.entries = [entry for entry in self.entries if entry[0] < self.limit]
            self.size = sum(size for _, size, _ in self.entries)


def page_data(sources: Sequence[Source]) -> dict[str, Any]:
    """Return all that the page shows, as JSON."""
    histories = [source.metrics for source in sources]
    glossary = _glossary(histories)
    plain, with_tokens = _Sample(MOST_BYTES), _Sample(_TOKENS_SHARE * MOST_BYTES)
    runs: list[dict[str, Any]] = []
    names = {source.path.resolve().name for source in sources}
    count = 0
    for source, history in zip(sources, histories, strict=True):
        fates: dict[int, Counter[str]] = defaultdict(Counter)
        tokens: dict[int, list[StoredTokens]] = {}
        step = 0
        for group in source.groups() if source.results or source.files else ():
            if group.step != step:
                step, tokens = group.step, source.tokens(group.step)
            plain.most = MOST_BYTES - with_tokens.size
            sample = with_tokens if group.number in tokens else plain
            sample.add(len(runs), group, tokens)
            count += len(group.rows)
            masks = source.config is not None and source.config.algorithm.masks_cut_off
            for row in group.rows:
                is_cut = row["finish_reason"] == "length" and masks and group.fate == "trained"
                fates[step]["cut off" if is_cut else group.fate] += row["n_tokens"] or 0
        totals = {step: max(1, fates[step].total()) for step in sorted(fates)}
        shares = {name: [fates[step][name] / n for step, n in totals.items()] for name in _FATES}
        where = {"step": list(totals), "shares": shares} if source.config and fates else None
        drawn = [
            key
            for key in dict.fromkeys(key for row in history for key in row)
            if key == "step" or key.replace("_low", "").replace("_high", "") in glossary
        ]
        columns = {key: [row.get(key) for row in history] for key in drawn}
        name = source.path.resolve().name if len(names) == len(sources) else str(source.path)
        runs.append({"name": name, "metrics": columns, "fates": where})
    problems: dict[str, tuple[int, list[Any]]] = {}
    groups: list[list[Any]] = []
    rows: list[list[Any]] = []
    entries = [entry for *_, entry in (*plain.entries, *with_tokens.entries)]
    for group, problem, of_group in sorted(entries, key=lambda entry: entry[0][:3]):
        place, _ = problems.setdefault(json.dumps(problem), (len(problems), problem))
        groups.append([*group[:3], place, group[3]])
        rows += [[len(groups) - 1, *row] for row in of_group]
    note = f"All {count:,} responses."
    if len(rows) < count:
        note = (
            f"A sample of {len(rows):,} of {count:,} responses, whole groups spread evenly over "
            "the steps; the figures and curves are of all."
        )
    words = json.loads((_FILES / "words.json").read_text(encoding="utf-8"))
    for verdict, form in REASONS.items():
        words[verdict] = form.format_map(defaultdict(lambda: "…"))
    is_compared = len(sources) > 1 and sources[0].config is not None
    return {
        "runs": runs,
        "tables": [pass_at_1(sources), *([differing(sources)] if is_compared else [])],
        "problems": [problem for _, problem in problems.values()],
        "groups": groups,
        "rows": rows,
        "note": note,
        "glossary": glossary,
        "limits": LIMITS | {key: (0.0, 1.0) for key in glossary if key.startswith("held_out")},
        "words": glossary | words,
    }


def _glossary(histories: Sequence[History]) -> dict[str, str]:
    """Return the meaning of the drawn metrics in their order, of each held-out set in turn."""
    meanings = json.loads((_FILES / "glossary.json").read_text(encoding="utf-8"))
    glossary: dict[str, str] = {}
    sets = measured_sets(histories) or [MEASURED]
    for key, meaning in meanings.items():
        suffixes = [name.removeprefix(MEASURED) for name in sets] if "held_out" in key else [""]
        glossary |= {f"{key}{suffix}": f"{suffix[1:]} {meaning}".strip() for suffix in suffixes}
    return glossary


def _entry(source: int, group: StoredGroup, tokens: dict[int, list[StoredTokens]]) -> list[Any]:
    """Return a group, its problem and its responses, as the page has them."""
    first = group.rows[0]
    own = [
        f"{printable(key)[:_LONGEST_FIELD]}: {printable(str(value))}"
        for key, value in first.items()
        if key not in ROW_KEYS
        and isinstance(value, str | int)
        and len(str(value)) <= _LONGEST_FIELD
    ]
    fields = own[:_MOST_FIELDS] + ([f"result: {group.result}"] if group.result else [])
    figures = {
        stored.sample: [
            [printable(text)[:_LONGEST_TOKEN] for text in stored.text],
            *stored.figures.values(),
        ]
        for stored in tokens.get(group.number, ())
    }
    rows = []
    for row in group.rows:
        reward, advantage = group.paid.get(row["sample"], (row["reward"], None))
        entry = [row["sample"], row["verdict"], row["n_tokens"] or 0, reward]
        entry += [None if advantage is None else round(advantage, 4)]
        entry += [_short(row["response"]), _short(reason(row))]
        rows.append(entry + ([figures[row["sample"]]] if row["sample"] in figures else []))
    problem = [*(_short(first[key]) for key in ("id", "problem", "answer")), fields]
    return [[source, group.step, group.number, group.fate], problem, rows]


def _short(value: Any) -> str:
    return cut(printable("-" if value is None else str(value)), _LONGEST_TEXT)
