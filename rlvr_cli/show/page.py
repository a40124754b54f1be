"""Write runs or results as one page that needs no network.

Nothing a model wrote is ever live: it is JSON in a block that no browser executes, and reaches the
page as text.
"""

import base64
import hashlib
import html
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from rlvr_cli.console.display import Display
from rlvr_cli.console.steps import held_out_names
from rlvr_cli.console.tables import Table
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import publish_new, try_file, writing
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.step_figures import History, held_out_row
from rlvr_cli.core.text import printable
from rlvr_cli.core.types import TOKEN_FIGURES
from rlvr_cli.evaluation.picture import COLORS, as_svg
from rlvr_cli.runs.stored import StoredTokens
from rlvr_cli.show.ablation import Findings, findings
from rlvr_cli.show.screen import pass_at_1_table, settings_table, short_names, truncate
from rlvr_cli.show.source import REASONS, UNKNOWN_FATE, Source, StoredGroup, reason

MOST_BYTES = 3_500_000
"""The most bytes of responses in a page, without the names of their fields. Of more responses it
shows a sample."""
_TOKENS_SHARE = 0.3
"""The share of these bytes for groups with stored tokens."""
_LONGEST_TEXT, _LONGEST_TOKEN = 4_000, 100
_LONGEST_FIELD, _MOST_FIELDS = 40, 8
_GOLDEN = (5**0.5 - 1) / 2
"""The golden ratio less 1: its multiples modulo 1 are spread evenly, however many are taken."""
_FILES = resources.files("rlvr_cli") / "show" / "page_files"
_STYLES = ("uPlot.min.css", "page.css")
_SCRIPTS = ("uPlot.iife.min.js", "page.js")
_FATES = (
    "trained",
    "dropped, all right",
    "dropped, all wrong",
    "dropped, mixed",
    "not judged",
    "cut off",
    UNKNOWN_FATE,
)
"""What became of a response's tokens, in the order of the chart."""


def write_page(
    sources: Sequence[Source], path: Path, display: Display, ablations: Sequence[Path] = ()
) -> None:
    """Write the page to a new file, with the table and the picture of each ablation. Raises
    UserError if the file exists or cannot be written."""
    if path.exists():
        raise UserError(f"--html {path}: it exists already; name another file or remove it")
    with writing(f"--html {path}"):
        try_file(path)
    ablation = findings(ablations[0]) if ablations else None
    text = page(sources, ablation)
    with writing(f"--html {path}"):
        publish_new(path, text)
    display.result("page", f"{path}, {len(text) / 1e6:.1f} MB: open it in a browser")


def page(sources: Sequence[Source], ablation: Findings | None = None) -> str:
    """Return the page of runs or results: its files and the data. That of an ablation begins with
    its picture.

    The page's policy allows its styles and scripts by their checksums, and nothing else.
    """
    names = (*_STYLES, *_SCRIPTS, "page.html", "LICENSE-uPlot")
    filled = {name: (_FILES / name).read_text(encoding="utf-8") for name in names}
    values = page_data(sources, ablation)
    filled["pictures"] = "" if ablation is None else as_svg(ablation.drawing)
    data = json.dumps(values, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        data = data.replace(character, f"\\u{ord(character):04x}")
    title = "rlvr: " + ", ".join(short_names(sources))
    if ablation is not None:
        title = f"rlvr: {ablation.name}"
    title = printable(title)
    filled["title"] = html.escape(title)
    filled["data"] = data
    for kind, files in (("styles", _STYLES), ("scripts", _SCRIPTS)):
        sums = (hashlib.sha256(filled[name].encode()).digest() for name in files)
        filled[kind] = " ".join(f"'sha256-{base64.b64encode(sha).decode()}'" for sha in sums)
    return re.sub(r"@\{(.+?)\}", lambda match: filled[match[1]], filled["page.html"])


@dataclass(frozen=True)
class _Entry:
    """A group with its problem and its responses, as the page has them."""

    place: float
    """The place in the even sample, in [0, 1)."""
    group: JsonObject
    """Its run, step, number and fate."""
    problem: JsonObject
    """Its id, problem, answer, and its short fields, each as `name: value`."""
    responses: list[JsonObject]
    """Each has sample, verdict, n_tokens, reward, advantage, response and reason, and with stored
    tokens also their texts and figures, a list each, or None for a figure that is not stored."""

    @cached_property
    def size(self) -> int:
        """Return its bytes in the page, without the names of fields."""
        values = _without_names([self.group, self.problem, self.responses])
        text = json.dumps(values, separators=(",", ":"))
        return len(text) + 5 * sum(map(text.count, "<>&"))  # these become six characters each


def _without_names(value: object) -> object:
    """Return a JSON value with a list of the values in place of each object."""
    if isinstance(value, dict):
        value = list(value.values())
    return [_without_names(item) for item in value] if isinstance(value, list) else value


class _EvenSample:
    """Hold groups up to a number of bytes, of more an evenly spread share.

    Each group has a place in [0, 1). Those above a limit go, which falls until the others fit.
    """

    def __init__(self, max_bytes: float) -> None:
        self.max_bytes = max_bytes
        self.limit = 1.0
        self.offered = 0
        self.bytes = 0
        self.entries: list[_Entry] = []

    def add(self, run: int, group: StoredGroup, tokens: Sequence[StoredTokens]) -> None:
        """Add a group of a run if there is room for it."""
        self.offered += 1
        place = self.offered * _GOLDEN % 1
        if place >= self.limit:
            return
        entry = _entry(place, run, group, tokens)
        self.entries.append(entry)
        self.bytes += entry.size
        while self.bytes > self.max_bytes:
            self.limit *= 0.97
            self.entries = [entry for entry in self.entries if entry.place < self.limit]
            self.bytes = sum(entry.size for entry in self.entries)


def page_data(sources: Sequence[Source], ablation: Findings | None = None) -> JsonObject:
    """Return all that the page shows, as JSON. The runs of an ablation are shown by their arms."""
    histories = [source.curves for source in sources]
    glossary = _glossary(histories)
    without_tokens = _EvenSample(MOST_BYTES)
    with_tokens = _EvenSample(_TOKENS_SHARE * MOST_BYTES)
    runs: list[JsonObject] = []
    names = short_names(sources)
    arms = [""] * len(sources) if ablation is None else [ablation.arm_of(s.path) for s in sources]
    colors = list(dict.fromkeys(arms)) if ablation is not None else []
    count = 0
    for source, name, arm, history in zip(sources, names, arms, histories, strict=True):
        fates: dict[int, Counter[str]] = defaultdict(Counter)
        masks_cut_off = source.config is not None and source.config.algorithm.masks_cut_off
        for group, tokens in _groups_with_tokens(source):
            without_tokens.max_bytes = MOST_BYTES - with_tokens.bytes
            sample = with_tokens if tokens else without_tokens
            sample.add(len(runs), group, tokens)
            count += len(group.members)
            for response in group.members:
                fate = group.fate
                if masks_cut_off and fate == "trained" and response.is_cut_off:
                    fate = "cut off"
                fates[group.step][fate] += response.n_tokens or 0
        shares = _shares(fates) if source.config and fates else None
        color = len(runs) if ablation is None else colors.index(arm)
        runs.append(
            {
                "name": name,
                "arm": arm or name,
                "color": color,
                "metrics": _columns(history, glossary),
                "fates": shares,
            }
        )
    shown = _in_tables([*without_tokens.entries, *with_tokens.entries])
    n_shown = len(shown["rows"])
    note = f"All {count:,} responses."
    if n_shown < count:
        note = (
            f"A sample of {n_shown:,} of {count:,} responses, whole groups spread evenly over "
            "the steps; the figures and curves are of all."
        )
    words = json.loads((_FILES / "words.json").read_text(encoding="utf-8"))
    for verdict, form in REASONS.items():
        words[verdict] = form.format_map(defaultdict(lambda: "…"))
    if ablation is not None:
        tables = _ablation_tables(sources, ablation)
        note = "\n".join([*ablation.failures_in_words, note])
    else:
        tables = [pass_at_1_table(sources, names)]
        if len(sources) > 1 and sources[0].config is not None:
            tables.append(settings_table(sources, names))
    limits = {
        key: (0.0, 1.0)
        for key, meaning in glossary.items()
        if "pass@1" in key or "share" in meaning.lower()
    }
    return {
        "runs": runs,
        "tables": tables,
        **shown,
        "note": note,
        "glossary": glossary,
        "limits": limits,
        "fates": _FATES,
        "colors": COLORS,
        "words": glossary | words,
    }


def _ablation_tables(sources: Sequence[Source], ablation: Findings) -> list[Table]:
    """Return the differences of arms, the settings in which arms differ, and pass@1 of each run
    less that of the base's run with the same seed."""
    by_path = {source.path.resolve(): source for source in sources}
    arms = {arm: next(iter(seeds.values())) for arm, seeds in ablation.runs.items()}
    of_base = ablation.runs[ablation.base]
    names = []
    baselines: list[Source | None] = []
    for source in sources:
        arm = ablation.arm_of(source.path)
        seed = ablation.seed_of(source.path)
        names.append(f"{arm}, seed {seed}")
        is_paired = arm != ablation.base and seed in of_base
        baselines.append(by_path[of_base[seed].resolve()] if is_paired else None)
    first_of_arms = [by_path[path.resolve()] for path in arms.values()]
    less = f"less {ablation.base} of the same seed"
    return [
        ablation.table,
        settings_table(first_of_arms, list(arms)),
        pass_at_1_table(sources, names, baselines, less),
    ]


def _in_tables(entries: Sequence[_Entry]) -> JsonObject:
    """Return the problems, each once, the groups, and the responses of all groups as rows.

    A group has the index of its problem, and a row that of its group.
    """
    numbers: dict[str, int] = {}
    groups: list[JsonObject] = []
    rows: list[JsonObject] = []
    in_order = itemgetter("run", "step", "number")
    for entry in sorted(entries, key=lambda entry: in_order(entry.group)):
        number = numbers.setdefault(json.dumps(entry.problem), len(numbers))
        rows += [{**response, "group": len(groups)} for response in entry.responses]
        groups.append({**entry.group, "problem": number})
    return {"problems": list(map(json.loads, numbers)), "groups": groups, "rows": rows}


def _groups_with_tokens(source: Source) -> Iterator[tuple[StoredGroup, Sequence[StoredTokens]]]:
    """Yield each group with the stored tokens of its responses, if there are any."""
    if not source.results and not source.files:
        return
    for step, groups in groupby(source.groups(), key=lambda group: group.step):
        tokens = source.tokens(step)
        for group in groups:
            yield group, tokens.get(group.number, ())


def _shares(fates: Mapping[int, Counter[str]]) -> JsonObject:
    """Return the share of a step's tokens that met each fate which occurs."""
    totals = {step: max(1, fates[step].total()) for step in sorted(fates)}
    occurring = [name for name in _FATES if any(of_step[name] for of_step in fates.values())]
    shares = {name: [fates[step][name] / n for step, n in totals.items()] for name in occurring}
    return {"step": list(totals), "shares": shares}


def _columns(history: History, glossary: Iterable[str]) -> JsonObject:
    """Return the values of the metrics that have a curve or bound one, by metric."""
    columns = {}
    # A line that was read lacks what was measured after the last step.
    rows = [{**figures.row, **held_out_row(figures.held_out)} for figures in history]
    for key in dict.fromkeys(key for row in rows for key in row):
        if key == "step" or key.replace("_low", "").replace("_high", "") in glossary:
            columns[key] = [row.get(key) for row in rows]
    return columns


def _glossary(histories: Sequence[History]) -> dict[str, str]:
    """Return the meanings of the metrics with a curve, in their order, for each held-out set."""
    meanings = json.loads((_FILES / "glossary.json").read_text(encoding="utf-8"))
    glossary: dict[str, str] = {}
    held_out = [f"/{name}" if name else "" for name in held_out_names(histories) or [""]]
    for key, meaning in meanings.items():
        suffixes = held_out if "held_out" in key else [""]
        for suffix in suffixes:
            glossary[f"{key}{suffix}"] = f"{suffix[1:]} {meaning}".strip()
    return glossary


def _entry(place: float, run: int, group: StoredGroup, tokens: Sequence[StoredTokens]) -> _Entry:
    """Return a group of a run as the page has it, with the stored tokens of some responses."""
    problem = group.problem
    fields = []
    for key, value in problem.extra.items():
        if isinstance(value, str | int) and len(str(value)) <= _LONGEST_FIELD:
            fields.append(f"{printable(key)[:_LONGEST_FIELD]}: {printable(str(value))}")
    del fields[_MOST_FIELDS:]
    if group.result:
        fields.append(f"result: {group.result}")
    tokens_by_sample: dict[int, JsonObject] = {}
    for stored in tokens:
        texts = [printable(text)[:_LONGEST_TOKEN] for text in stored.text]
        figures = stored.figures or dict.fromkeys(TOKEN_FIGURES)  # null if it was not passed
        tokens_by_sample[stored.sample] = {"text": texts, **figures}
    rows: list[JsonObject] = []
    for response in group.members:
        reward = response.reward
        advantage = None
        score = group.scores.get(response.sample)
        if score is not None:
            reward = score.reward
            advantage = None if score.advantage is None else round(score.advantage, 4)
        row: JsonObject = {
            "sample": response.sample,
            "verdict": response.verdict,
            "n_tokens": response.n_tokens or 0,
            "reward": reward,
            "advantage": advantage,
            "response": _short(response.text),
            "reason": _short(reason(response)),
        }
        if response.sample in tokens_by_sample:
            row["tokens"] = tokens_by_sample[response.sample]
        rows.append(row)
    return _Entry(
        place,
        {"run": run, "step": group.step, "number": group.number, "fate": group.fate},
        {
            "id": _short(problem.id),
            "problem": _short(problem.problem or None),
            "answer": _short(problem.answer),
            "fields": fields,
        },
        rows,
    )


def _short(value: object) -> str:
    return truncate(printable("-" if value is None else str(value)), _LONGEST_TEXT)
