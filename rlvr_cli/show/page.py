"""Write runs or results as one page that needs no network. Nothing a model wrote is ever live: it
is JSON in a block that no browser executes, and reaches the page as text."""

import base64
import hashlib
import html
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any

from rlvr_cli.console.curves import LIMITS, MEASURED, History, measured_sets
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import write_new, writing
from rlvr_cli.core.text import numbers_first, printable
from rlvr_cli.data.rows import ROW_KEYS
from rlvr_cli.runs.stored import StoredTokens
from rlvr_cli.show.screen import cut, differing, pass_at_1
from rlvr_cli.show.source import REASONS, ShownGroup, Source, as_trained, reason, trained

MOST_BYTES = 3_500_000
"""Of responses in a page; of more a sample is shown."""
_TOKENS_SHARE = 0.3
"""Of those bytes, for the groups whose tokens were kept."""
_LONGEST_TEXT, _MOST_FIELDS, _MOST_VALUES, _PARTS = 4_000, 8, 12, 4
_LONGEST_TOKEN = 100
_FILES = resources.files("rlvr_cli") / "show" / "page_files"
_STYLES, _SCRIPTS = ("uPlot.min.css", "page.css"), ("uPlot.iife.min.js", "page.js")
_ENDS = ("low", "high")
_FATES = ("trained", "dropped, all right", "dropped, all wrong", "not judged", "cut off")
Tokens = dict[int, list[Any]]
WORDS = {
    "advantage": "How much better a response was than its group; what the update follows.",
    "group": "The responses to one problem that were sampled together.",
    "trained, dropped": "A group whose responses are all right or all wrong has no advantage; with "
    "dynamic sampling it is dropped and another problem is sampled. What a step leaves over of "
    "the others trains in the next.",
    "color of tokens": "What the update saw of single tokens when it passed them last: their "
    "log-probability, its ratio to that when sampled, the advantage that each follows, the entropy "
    "before it. Kept for the first groups of a step that trained.",
    "cut off": "A response that reached the longest length and does not train for it.",
    **{verdict: words.format_map(defaultdict(lambda: "…")) for verdict, words in REASONS.items()},
}


def write_page(sources: Sequence[Source], path: Path, display: Display) -> None:
    """Write the page to a new file. Raises UserError where that cannot be."""
    if path.exists():
        raise UserError(f"--html {path}: it exists already; name another file or remove it")
    text = page(sources)
    with writing(f"--html {path}"):
        write_new(path, text)
    display.result("page", f"{path}, {len(text) / 1e6:.1f} MB: open it in a browser")


def page(sources: Sequence[Source]) -> str:
    """Return the page of runs or results."""
    parts = {name: (_FILES / name).read_text(encoding="utf-8") for name in (*_STYLES, *_SCRIPTS)}
    text = (_FILES / "page.html").read_text(encoding="utf-8")
    title = printable("rlvr: " + ", ".join(source.name for source in sources))
    data = json.dumps(page_data(sources), separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        data = data.replace(character, f"\\u{ord(character):04x}")
    licence = (_FILES / "LICENSE-uPlot").read_text(encoding="utf-8")
    scripts = "".join(f"<script>{parts[name]}</script>\n" for name in _SCRIPTS)
    filled = {
        "SCRIPTS": " ".join(_checksum(parts[name]) for name in _SCRIPTS),
        "STYLES": " ".join(_checksum(parts[name]) for name in _STYLES),
        "TITLE": html.escape(title),
        "STYLE": "".join(f"<style>{parts[name]}</style>\n" for name in _STYLES),
        "SCRIPT": f"<!-- uPlot: {licence} -->\n{scripts}",
        "DATA": data,
    }
    return re.sub("@(SCRIPTS?|STYLES?|TITLE|DATA)", lambda found: filled[found[1]], text)


def page_data(sources: Sequence[Source]) -> dict[str, Any]:
    """Return all that the page shows, as JSON."""
    histories = [source.metrics for source in sources]
    glossary = _glossary(histories)
    surveys = [_survey(source) for source in sources]
    shares = _affordable([sum(survey["bytes"][kind] for survey in surveys) for kind in (0, 1)])
    problems: dict[tuple[str, ...], int] = {}
    listed: list[list[Any]] = []
    groups: list[list[Any]] = []
    rows: list[list[Any]] = []
    for number, source in enumerate(sources):
        for group, tokens in _sample(source, shares):
            first = group.rows[0]
            fields = [f"{key}: {value}" for key, value in _fields(first).items()]
            fields += [f"result: {group.result}"] if group.result else []
            problem = _problem(first)
            place = problems.setdefault((*problem, *fields), len(problems))
            if place == len(listed):
                listed.append([*problem, fields])
            fate = trained(group, source.config) if source.config else ""
            groups.append([number, group.step, group.number, place, fate])
            rows += _rows(group, source, len(groups) - 1, tokens)
    is_compared = len(sources) > 1 and sources[0].config is not None
    count = sum(survey["responses"] for survey in surveys)
    note = f"All {count:,} responses."
    if shares != (1, 1):
        note = (
            f"A sample of {len(rows):,} of {count:,} responses, whole groups spread evenly over "
            "the steps, those with single tokens first; the figures and curves are of all."
        )
    return {
        "runs": [
            {"name": source.name, "metrics": _columns(history, glossary), "fates": survey["fates"]}
            for source, history, survey in zip(sources, histories, surveys, strict=True)
        ],
        "tables": [pass_at_1(sources), *([differing(sources)] if is_compared else [])],
        "moved": [table for survey in surveys for table in survey["moved"]],
        "problems": listed,
        "groups": groups,
        "rows": rows,
        "note": note,
        "glossary": glossary,
        "limits": LIMITS | {key: (0.0, 1.0) for key in glossary if key.startswith("held_out")},
        "words": glossary | WORDS,
    }


def _glossary(histories: Sequence[History]) -> dict[str, str]:
    """Return the drawn metrics in their order with what they say, each held-out set its own."""
    told: dict[str, str] = json.loads((_FILES / "glossary.json").read_text(encoding="utf-8"))
    found: dict[str, str] = {}
    sets = measured_sets(histories) or [MEASURED]
    for key, words in told.items():
        suffixes = [one.removeprefix(MEASURED) for one in sets] if "held_out" in key else [""]
        found |= {f"{key}{suffix}": f"{suffix[1:]} {words}".strip() for suffix in suffixes}
    return found


def _columns(history: History, glossary: dict[str, str]) -> dict[str, list[Any]]:
    ends = [key.replace(MEASURED, f"{MEASURED}_{end}") for key in glossary for end in _ENDS]
    known = ["step", *glossary, *(key for key in ends if key not in glossary)]
    keys = [key for key in known if any(row.get(key) is not None for row in history)]
    return {key: [row.get(key) for row in history] for key in keys}


def _survey(source: Source) -> dict[str, Any]:
    """Go through all responses of a source: bytes, counts, fates of tokens, verdicts by field."""
    size, responses = [0, 0], 0
    fates: dict[int, Counter[str]] = defaultdict(Counter)
    moved: dict[str, dict[str, dict[int, list[int]]]] = defaultdict(lambda: defaultdict(dict))
    steps = sorted(source.files)
    part_of = {step: place * _PARTS // len(steps) for place, step in enumerate(steps)}
    for group, tokens in _groups(source):
        responses += len(group.rows)
        size[bool(tokens)] += _size(group, tokens)
        fate = trained(group, source.config) if source.config else ""
        algo = source.config.algorithm if source.config else None
        is_masked = fate != "trained" or (algo is not None and algo.masks_cut_off)
        for row in group.rows:
            name = "cut off" if is_masked and row["finish_reason"] == "length" else fate
            fates[group.step][name] += row["n_tokens"] or 0
        for key, value in _fields(group.rows[0]).items():
            found = moved[key][value].setdefault(part_of[group.step], [0, 0])
            found[0] += group.right
            found[1] += len(group.judged)
    return {
        "bytes": size,
        "responses": responses,
        "fates": _shares(fates) if source.config and fates else None,
        "moved": [
            _moved(source, key, values, steps, part_of)
            for key, values in moved.items()
            if 1 < len(values) <= _MOST_VALUES
        ],
    }


def _shares(fates: dict[int, Counter[str]]) -> dict[str, Any]:
    steps = sorted(fates)
    totals = {step: max(1, fates[step].total()) for step in steps}
    shares = {name: [fates[step][name] / totals[step] for step in steps] for name in _FATES}
    return {"step": steps, "shares": shares}


def _moved(
    source: Source,
    key: str,
    values: dict[str, dict[int, list[int]]],
    steps: Sequence[int],
    part_of: dict[int, int],
) -> list[list[str]]:
    """Tabulate the share of right responses by the values of a field, in quarters of the steps."""
    quarters = sorted(set(part_of.values()))
    names = []
    for quarter in quarters:
        inside = [step for step in steps if part_of[step] == quarter]
        names.append(f"steps {inside[0]} to {inside[-1]}" if source.config else "right")
    lines = [[f"{source.name}: {key}", *names]]
    for value in sorted(values, key=numbers_first):
        found = [values[value].get(quarter, [0, 0]) for quarter in quarters]
        lines.append([value, *(f"{a / b:.2f} of {b}" if b else "-" for a, b in found)])
    return lines


def _groups(source: Source) -> Iterator[tuple[ShownGroup, Tokens]]:
    """Yield the groups with what is known of their tokens, by the number of the response."""
    step, tokens = 0, dict[int, list[StoredTokens]]()
    for group in source.groups() if any(source.files.values()) else ():
        if group.step != step:
            step, tokens = group.step, source.tokens(group.step)
        found = tokens.get(group.number, ())
        texts = [[printable(text)[:_LONGEST_TOKEN] for text in one.text] for one in found]
        both = zip(found, texts, strict=True)
        yield group, {one.sample: [text, *one.figures.values()] for one, text in both}


def _affordable(sizes: Sequence[int]) -> tuple[float, float]:
    """Return which share of the groups without and with tokens a page has room for."""
    with_tokens = min(1.0, _TOKENS_SHARE * MOST_BYTES / max(1, sizes[1]))
    return min(1.0, (MOST_BYTES - with_tokens * sizes[1]) / max(1, sizes[0])), with_tokens


def _sample(source: Source, shares: tuple[float, float]) -> Iterator[tuple[ShownGroup, Tokens]]:
    """Yield groups without and with tokens of these shares of their bytes, evenly spread."""
    seen, taken = [0, 0], [0, 0]
    for group, tokens in _groups(source):
        size, kind = _size(group, tokens), bool(tokens)
        seen[kind] += size
        if shares[kind] == 1 or taken[kind] + size <= seen[kind] * shares[kind]:
            taken[kind] += size
            yield group, tokens


def _size(group: ShownGroup, tokens: Tokens) -> int:
    """Estimate the bytes of a group in the page."""
    texts = [*_problem(group.rows[0]), *_fields(group.rows[0]).values()]
    texts += [_short(text) for row in group.rows for text in (row["response"], reason(row))]
    written = json.dumps([texts, [*tokens.values()]], separators=(",", ":"))
    return 60 * len(group.rows) + len(written) + 5 * sum(map(written.count, "<>&"))


def _problem(row: dict[str, Any]) -> list[str]:
    return [_short(row[key]) for key in ("id", "problem", "answer")]


def _rows(group: ShownGroup, source: Source, place: int, tokens: Tokens) -> Iterator[list[Any]]:
    known = as_trained(group, source.config) if source.config else {}
    for row in group.rows:
        _, advantage = known.get(row["sample"], (0, None))
        yield [
            *(place, row["sample"], row["verdict"], row["n_tokens"] or 0, row["reward"]),
            None if advantage is None else round(advantage, 4),
            *(_short(row["response"]), _short(reason(row))),
            *([tokens[row["sample"]]] if row["sample"] in tokens else []),
        ]


def _fields(row: dict[str, Any]) -> dict[str, str]:
    """Return the problem's own short fields."""
    own = (
        (printable(key)[:40], printable(str(value)))
        for key, value in row.items()
        if key not in ROW_KEYS and isinstance(value, str | int) and len(str(value)) <= 40
    )
    return dict(islice(own, _MOST_FIELDS))


def _short(value: Any) -> str:
    return cut(printable("-" if value is None else str(value)), _LONGEST_TEXT)


def _checksum(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
