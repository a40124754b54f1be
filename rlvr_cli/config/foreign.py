"""Read the table of names that other programs have for settings, and answer such a name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Literal

from rlvr_cli.core.yaml_text import load_yaml

Translation = Literal[
    "same", "count", "words", "ratio", "parts", "decision", "absent", "idle", "removed"
]
"""How a value goes over (foreign.yaml has their meanings)."""
Values = Mapping[str, object]


@dataclass(frozen=True)
class Quotient:
    """The product of some names' numbers, divided by others', less a number."""

    times: tuple[str, ...]
    over: tuple[str, ...]
    minus: float = 0.0


@dataclass(frozen=True)
class ForeignRow:
    """A row of foreign.yaml, with its fields."""

    names: tuple[str, ...]
    translation: Translation = "same"
    to: str | tuple[str, ...] | Mapping[str, str] = ""
    says: str = ""
    only_if: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    also: Values = field(default_factory=dict)
    """What is set besides."""
    values: Mapping[str, Values | str] = field(default_factory=dict)
    rest: str = ""
    nothing: object = None
    quotients: tuple[Quotient, ...] = ()
    rounds_down: bool = False
    is_below_one: bool = False
    join: str = ""
    off: tuple[str, ...] = ()

    def targets(self, name: str) -> tuple[str, ...]:
        """Return the flags or settings that a name's value goes to."""
        if isinstance(self.to, str):
            return (self.to,) if self.to else ()
        return self.to if isinstance(self.to, tuple) else (self.to[name],)

    def answer(self, name: str) -> str:
        """Return what a name is here: a flag, a setting or a sentence."""
        return self.says or self.targets(name)[0]


@dataclass(frozen=True)
class Tool:
    """Another program: the sections of its files, and what it does where a file says nothing."""

    base: Values
    defaults: Values
    quiet: tuple[str, ...]
    sections: tuple[str, ...] = ()


@dataclass(frozen=True)
class ForeignTable:
    """All rows by name, each name's in their order, and the tools by name."""

    rows: tuple[ForeignRow, ...]
    by_name: Mapping[str, tuple[ForeignRow, ...]]
    tools: Mapping[str, Tool]

    def name_of(self, key: str) -> str | None:
        """Return the name in the table that a key ends with, or the section that it is in.

        The longest one counts, and at equal length a name before a section. Return None without
        one.
        """
        parts = key.lstrip("-").lower().replace("-", "_").split(".")
        for start in range(len(parts)):
            names = [".".join(parts[start:])]
            names += [".".join([*parts[start:end], "*"]) for end in range(len(parts), start, -1)]
            for name in names:
                if name in self.by_name:
                    return name
        return None


@cache
def foreign_table() -> ForeignTable:
    """Read foreign.yaml."""
    file = resources.files("rlvr_cli") / "config" / "foreign.yaml"
    document = load_yaml(file.read_text(encoding="utf-8"))
    rows = tuple(_row(entry) for entry in document["rows"])
    by_name: dict[str, tuple[ForeignRow, ...]] = {}
    for row in rows:
        for name in row.names:
            by_name[name] = (*by_name.get(name, ()), row)
    tools = {
        name: Tool(
            base=entry["base"],
            defaults=entry["defaults"],
            quiet=tuple(entry["quiet"]),
            sections=tuple(entry.get("sections", ())),
        )
        for name, entry in document["tools"].items()
    }
    return ForeignTable(rows, by_name, tools)


def _row(entry: dict[str, object]) -> ForeignRow:
    """Return the row that an entry of foreign.yaml declares."""
    fields = dict(entry)
    renamed = {
        "as": "translation",
        "if": "only_if",
        "with": "also",
        "ways": "quotients",
        "down": "rounds_down",
        "below_one": "is_below_one",
    }
    for word, name in renamed.items():
        if word in fields:
            fields[name] = fields.pop(word)
    quotients = fields.pop("quotients", ())
    assert isinstance(quotients, list | tuple)
    fields["quotients"] = tuple(
        Quotient(tuple(way["times"]), tuple(way["over"]), way.get("minus", 0.0))
        for way in quotients
    )
    for name in ("names", "off", "to"):
        if isinstance(fields.get(name), list):
            fields[name] = tuple(fields[name])  # type: ignore[arg-type]
    return ForeignRow(**fields)  # type: ignore[arg-type]


def foreign_names() -> dict[str, list[str]]:
    """Return the names that other programs have, by our name, or by a sentence if we have none."""
    names: dict[str, list[str]] = {}
    for name, rows in foreign_table().by_name.items():
        names.setdefault(rows[0].answer(name), []).append(name)
    return names


def foreign_answer(name: str) -> str | None:
    """Say what another program's flag or setting is called here. Return None if no other program
    has this name."""
    table = foreign_table()
    found = table.name_of(name)
    if found is None:
        return None
    answer = table.by_name[found][0].answer(found)
    if " " in answer:
        return f"{name}: {answer}"
    if answer.startswith("--") or answer.isupper():
        return f"{name} is {answer} here"
    return f"{name} is --set {answer}=… here"
