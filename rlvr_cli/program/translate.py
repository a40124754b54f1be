"""Translate a run of TRL or verl: its keys, one by one, to settings, and to one command line."""

import math
import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import yaml

from rlvr_cli.config import (
    SETTINGS,
    Config,
    flags_of,
    resolve,
    set_layer,
    setting_at,
)
from rlvr_cli.config.foreign import (
    ForeignRow,
    ForeignTable,
    Quotient,
    Tool,
    foreign_table,
)
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.settings import default_in_words, kinds, leaves
from rlvr_cli.core.text import format_value, shortened
from rlvr_cli.program.foreign_run import number_in, parsed, refers_to_others, setting_named
from rlvr_cli.program.resolve import load

Heading = Literal[
    "the same here",
    "means something else here",
    "its default differs",
    "is not there",
    "is not known",
]
HEADINGS: tuple[Heading, ...] = get_args(Heading)
"""The parts of the table, in its order."""


@dataclass(frozen=True)
class TranslatedKey:
    """A row of the table: a key of the other program's run, and what it is here."""

    name: str
    value: object
    heading: Heading
    here: str


@dataclass(frozen=True)
class TranslatedRun:
    """A run of another program as one of this."""

    keys: tuple[TranslatedKey, ...]
    settings: Mapping[str, object]
    """By dotted name, in the order in which they are to be set."""
    options: Mapping[str, str]
    """Options that are no settings, such as --out."""

    @property
    def undecided(self) -> list[str]:
        """Return what the run does not name and a person would, with the value it then has."""
        flags = {setting.name: setting for setting in flags_of("train").values()}
        return [
            f"{flags[name].use.flag} ({default_in_words(flags[name].default)} if left out)"
            for name in ("data.source", "model", "steps")
            if name not in self.settings
        ]

    @property
    def command(self) -> str:
        """Return the command line that trains so."""
        return shlex.join(["rlvr", "train", *_words(self.settings, self.options)])

    @property
    def yaml(self) -> str:
        """Return the settings as --config reads them, with what is still to be decided."""
        open_keys = [
            key
            for key in self.keys
            if key.heading in ("is not there", "is not known") and key.value is not None
        ]
        notes = [f"# {key.name}: {' '.join(key.here.split())}\n" for key in open_keys]
        values = {name: _plain(value) for name, value in self.settings.items()}
        return "".join(notes) + yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def translate(
    entries: Mapping[str, object], flags: Mapping[str, object] | None = None
) -> TranslatedRun:
    """Translate the settings of a run of another program, by their own names.

    `flags` are settings of this program, which come last. Raises UserError if there is nothing to
    translate.
    """
    if not entries:
        raise UserError("--translate: give a file of TRL's or verl's with --config, or settings")
    return _Translator(entries, flags or {}).translated()


class _Translator:
    """Translates the entries of one run, in the order of the table's rows."""

    def __init__(self, entries: Mapping[str, object], flags: Mapping[str, object]) -> None:
        self.entries = entries
        self.flags = flags
        self.table: ForeignTable = foreign_table()
        self.tool: Tool = self.table.tools[_tool_of(entries, self.table)]
        self.names = {key: self.table.name_of(key) for key in entries}
        known = {name: entries[key] for key, name in self.names.items() if name is not None}
        self.known = known
        defaults = {
            name: value
            for name, value in self.tool.defaults.items()
            if not self._is_replaced(name, known)
        }
        self.values: dict[str, object] = {**defaults, **known}
        self.settings: dict[str, object] = dict(self.tool.base)
        self.options: dict[str, str] = {}
        self.said: dict[str, tuple[Heading, str]] = {}
        """The heading and the text of each name of the table."""
        self.from_defaults: dict[str, str] = {}
        """The name whose default alone set a setting."""
        self.from_run: set[str] = set()
        """The settings that the run itself sets."""

    def _is_replaced(self, name: str, known: Mapping[str, object]) -> bool:
        """Return whether the run gives a default's name, or another name of the same."""
        row = self.table.by_name[name][0]
        if row.translation in ("ratio", "parts"):
            return name in known
        return any(synonym in known for synonym in row.names)

    def translated(self) -> TranslatedRun:
        """Return the run, all of its rows translated."""
        for row in self.table.rows:
            for name in row.names:
                is_default = name not in self.known and name not in self.tool.quiet
                if name in self.values and (name in self.known or is_default):
                    self._translate(row, name)
        keys = [self._key(key, value) for key, value in self.entries.items()]
        self.settings.update(self.flags)
        keys += self._keys_of_defaults()
        return TranslatedRun(tuple(keys), self.settings, self.options)

    def _translate(self, row: ForeignRow, name: str) -> None:
        """Set what a row makes of a name's value, unless an earlier row did."""
        if name in self.said and self.said[name][0] != "is not known":
            return
        value = self.values[name]
        if not self._counts(row, value):
            if row is self.table.by_name[name][-1]:
                needs = " and ".join(f"{key}={'|'.join(v)}" for key, v in row.only_if.items())
                self.said[name] = ("the same here", f"without effect there but with {needs}")
            return
        try:
            sets = self._sets_of(row, name, value)
        except (OSError, TypeError, ValueError):  # whatever a file may hold
            sets = "no value for it"
        if isinstance(sets, str):
            self.said[name] = ("is not there", sets)
            return
        if row.translation in ("decision", "absent", "idle", "removed"):
            self.said[name] = self._unset(row, name, value)
            return
        is_default = name not in self.known
        if is_default:  # it changes nothing that the run sets
            sets = {key: entry for key, entry in sets.items() if key not in self.from_run}
        for option in [target for target in sets if target.startswith("--")]:
            self.options[option] = str(sets.pop(option))
        refusal = self._refusal(sets)
        if refusal is not None:
            self.said[name] = ("is not there", refusal)
            return
        for setting in sets:
            self.from_defaults.pop(setting, None)
            if is_default:
                self.from_defaults[setting] = name
            else:
                self.from_run.add(setting)
        self.settings.update(sets)
        self.said[name] = (self._heading(row, name), self._shown(row, name, sets))

    def _counts(self, row: ForeignRow, value: object) -> bool:
        """Return whether a row's conditions hold. A name without a value decides nothing."""
        if row.is_below_one and not 0 < (number_in(value) or 0) < 1:
            return False
        for name, words in row.only_if.items():
            decisive = self._value_of(name)
            if name in self.values or decisive is not None:
                word = _word(decisive, words)
                if word not in words and not any(
                    listed.startswith("not ") and listed != f"not {word}" for listed in words
                ):
                    return False
        return True

    def _value_of(self, name: str) -> object:
        """Return the value of a name, or of another name of the same row."""
        if name in self.known:
            return self.known[name]
        for row in self.table.by_name.get(name, ()):
            if row.translation in ("same", "count", "words"):
                for synonym in row.names:
                    if synonym in self.known:
                        return self.known[synonym]
        return self.values.get(name)

    def _sets_of(self, row: ForeignRow, name: str, value: object) -> dict[str, object] | str:
        """Return the settings that a value makes, or a sentence if it has no counterpart."""
        targets = [setting_named(target) for target in row.targets(name)]
        match row.translation:
            case "same":
                if value in (None, ""):
                    return {}
                return {**row.also, **{target: _typed(target, value) for target in targets}}
            case "count":
                number = number_in(value)
                is_none = value is None or (number is not None and number <= 0)
                entry = row.nothing if is_none else _typed(targets[0], value)
                return {} if entry is None else {targets[0]: entry}
            case "words":
                meaning = row.values.get(_word(value, row.values))
                if meaning is None and row.rest == "same":
                    return {targets[0]: _typed(targets[0], value)}
                if meaning is None and value is None:
                    return {}
                if meaning is None:
                    known = ", ".join(row.values)
                    return row.rest or f"its values here are those of {known}"
                return dict(meaning) if isinstance(meaning, Mapping) else meaning
            case "ratio":
                return self._quotient(row, targets[0], value, name)
            case "parts":
                return self._joined(row, targets[0])
        return {}

    def _quotient(
        self, row: ForeignRow, target: str, value: object, name: str
    ) -> dict[str, object] | str:
        """Return the first quotient of a row whose names all have a number."""
        it = number_in(value)
        uses_it = any("it" in quotient.times for quotient in row.quotients)
        if uses_it and (it is None or it < 0):
            return {} if it is not None or value is None else f"{format_value(value)}: no number"
        if uses_it and it == 0:
            return {target: 0}
        for quotient in row.quotients:
            number = self._number_of(quotient, it)
            if number is not None:
                if SETTINGS[target].annotation in (int, int | None):
                    whole = math.floor if row.rounds_down else math.ceil
                    # A quotient of floats may lie a rounding error above a whole number.
                    return {target: max(whole(round(number, 9)), 0 if row.rounds_down else 1)}
                return {target: number}
        return row.says or row.answer(name)

    def _number_of(self, quotient: Quotient, it: float | None) -> float | None:
        """Return the number of a quotient. Return None if a name has no number."""
        numbers = {
            name: number_in(self._value_of(name)) for name in (*quotient.times, *quotient.over)
        }
        numbers["it"] = it
        if any(numbers[name] is None for name in (*quotient.times, *quotient.over)):
            return None
        number = math.prod(numbers[name] or 0 for name in quotient.times)
        divisor = math.prod(numbers[name] or 0 for name in quotient.over)
        return number / divisor - quotient.minus if divisor else None

    def _joined(self, row: ForeignRow, target: str) -> dict[str, object] | str:
        """Return the values of a row's names together. Return {} if the first has none."""
        parts = [self._value_of(name) for name in row.names]
        if parts[0] is None:
            return {}
        if row.join:
            return {target: [row.join.join(str(part) for part in parts if part is not None)]}
        return {target: [number_in(part) for part in parts]}

    def _unset(self, row: ForeignRow, name: str, value: object) -> tuple[Heading, str]:
        """Return the heading and the text of a name that sets nothing."""
        answer = row.answer(name)
        if row.translation == "idle":
            return "the same here", answer
        is_off = value in (None, False, "", [], {}) or _word(value) in ("none", *row.off)
        if row.translation == "absent" and is_off:
            return "the same here", f"not used there, and {answer}"
        if is_off:
            return "the same here", "nothing to set"
        return "is not there", answer if " " in answer else f"decide: {answer}"

    def _refusal(self, sets: Mapping[str, object]) -> str | None:
        """Say why the settings cannot be set after those before. Return None if they can."""
        try:
            resolve(set_layer({**self.settings, **sets}))
        except UserError as error:
            return f"not set: {self._without_origin(str(error), sets)}"
        except TypeError:  # a list in place of a word
            return "not set: no value for it"
        return None

    def _without_origin(self, message: str, sets: Mapping[str, object]) -> str:
        """Return what is wrong with a setting without the option that names it."""
        for setting, entry in {**self.settings, **sets}.items():
            message = message.removeprefix(f"--set {shortened(f'{setting}={entry}')}: ")
        return message.removeprefix("configuration: ")

    def _heading(self, row: ForeignRow, name: str) -> Heading:
        """Return where a translated name stands in the table."""
        if row.translation not in ("same", "count"):
            return "means something else here"
        target = setting_named(row.targets(name)[0])
        default = self._default_of(name)
        if target not in SETTINGS or default is None:
            return "the same here"
        sets = self._sets_of(row, name, default)
        assert not isinstance(sets, str)
        ours = _at(self._base, target) if target in self._base else SETTINGS[target].default
        is_equal = _plain(sets.get(target, ours)) == _plain(ours)
        return "the same here" if is_equal else "its default differs"

    def _default_of(self, name: str) -> object:
        """Return what the other program has without a name. Return None if that is not known."""
        for row in self.table.by_name[name]:
            for synonym in row.names:
                if synonym in self.tool.defaults:
                    return self.tool.defaults[synonym]
        return None

    @cached_property
    def _base(self) -> Mapping[str, object]:
        """Return this program's settings without the run's."""
        return dict(leaves(resolve(set_layer({"algo": "grpo"})).model_dump()))

    def _shown(self, row: ForeignRow, name: str, sets: Mapping[str, object]) -> str:
        """Return a translated value as the options that make it."""
        words = _words(sets, {})
        for option in row.targets(name):
            if option in self.options:
                words += [option, self.options[option]]
        return shlex.join(words) if words else "nothing to set"

    def _key(self, key: str, value: object) -> TranslatedKey:
        """Return the row of the table for a key of the run."""
        name = self.names[key]
        if name in self.said:
            heading, here = self.said[name]
            if refers_to_others(value) and heading != "is not there":
                here = f"{here}; its value refers to another: put the value in"
            return TranslatedKey(key, value, heading, here)
        if setting_at(key) is not None and name is None:
            self.settings[key] = value
            return TranslatedKey(key, value, "the same here", shlex.join(_words({key: value}, {})))
        return TranslatedKey(key, value, "is not known", "neither TRL nor verl nor rlvr has it")

    def _keys_of_defaults(self) -> list[TranslatedKey]:
        """Return a row for each default that makes a difference or is not there, and drop the
        settings of defaults that change nothing."""
        expected = self._resolved(self.settings)
        keys = {}
        for setting, name in self.from_defaults.items():
            if setting in self.flags:
                continue
            rest = {key: value for key, value in self.settings.items() if key != setting}
            if self._resolved(rest) == expected:
                self.settings = rest
                continue
            here = f"not in the run: {self.said[name][1]}"
            keys[name] = TranslatedKey(name, self.tool.defaults[name], "its default differs", here)
        for name, value in self.tool.defaults.items():
            heading, here = self.said.get(name, ("the same here", ""))
            if name not in self.known and heading == "is not there":
                keys[name] = TranslatedKey(name, value, heading, f"not in the run: {here}")
        return list(keys.values())

    def _resolved(self, settings: Mapping[str, object]) -> Config | None:
        """Return the configuration of a run with these settings, or None if they contradict."""
        try:
            return load("train", {}, dict(settings))
        except UserError:
            return None


def _words(settings: Mapping[str, object], options: Mapping[str, str]) -> list[str]:
    """Return the words of a command line that makes these settings."""
    sources: list[str] = []
    words: list[str] = []
    sets: list[str] = []
    flags = {setting.name: setting for setting in flags_of("train").values()}
    for name, value in settings.items():
        flag = str(flags[name].use.flag) if name in flags else ""
        if name == "data.source":
            sources = [str(source) for source in _listed(value)]
        elif value is None or not flag or (kinds(flags[name].annotation) and not _is_number(value)):
            sets += ["--set", f"{name}={in_yaml(value)}"]
        elif isinstance(value, Mapping):
            words += [word for key, path in value.items() for word in (flag, f"{key}={path}")]
        elif isinstance(value, bool):
            words += [flag] if value else []
        else:
            words += [word for text in _listed(value) for word in (flag, str(text))]
    for option, text in options.items():
        words += [option, text]
    return [*sources, *words, *sets]


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else [value]


def in_yaml(value: object) -> str:
    """Return a value as --set reads it, a word without quotes."""
    if isinstance(value, str) and parsed(value) == value:
        return value
    text = yaml.safe_dump(_plain(value), default_flow_style=True, width=math.inf)
    return text.removesuffix("\n").removesuffix("\n...")


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _at(values: Mapping[str, object], name: str) -> object:
    """Return a setting's value, or the kind of a choice."""
    return values.get(name, values.get(f"{name}.kind"))


def _word(value: object, words: Collection[str] = ()) -> str:
    """Return a value as the table writes it: true, none, 1, or a word in lower case.

    1 and 0 are true and false among words that are so.
    """
    if value is None:
        return "none"
    number = number_in(value)
    if number in (0, 1) and not {"0", "1"} & {*words} and {"true", "false"} & {*words}:
        return str(bool(number)).lower()
    if number is not None:
        return f"{number:g}"
    return str(value).strip().lower()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _typed(target: str, value: object) -> object:
    """Return a value as a setting takes it: a text with a number as a number, a path in full."""
    if target not in SETTINGS:
        return value
    setting = SETTINGS[target]
    if setting.use.flag == "DATA" and setting.use.parse is not None:
        return setting.use.parse(map(os.path.expanduser, map(str, _listed(value))))
    annotation = setting.annotation
    types = {annotation, *get_args(annotation)}
    number = number_in(value)
    if isinstance(value, str) and number is not None and types & {int, float}:
        return int(number) if int in types and number.is_integer() else number
    if types & {int} and float not in types and isinstance(value, float) and value.is_integer():
        return int(value)
    if kinds(annotation) and isinstance(value, str) and number is not None:
        return number
    if isinstance(value, str) and value.startswith("~/"):
        return os.path.expanduser(value)
    if types == {str} and _is_number(value):
        return str(value)
    return value


def _tool_of(entries: Mapping[str, object], table: ForeignTable) -> str:
    """Return the program whose sections the keys are in: verl, or else TRL, which has none."""
    sections = table.tools["verl"].sections
    is_verl = any("." in key and key.split(".")[0] in sections for key in entries)
    return "verl" if is_verl else "trl"
