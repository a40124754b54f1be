"""Set one setting over those before it, and answer for names that are no setting."""

import difflib
from collections.abc import Iterable
from importlib import resources
from types import NoneType
from typing import Any, get_args, get_origin

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.settings import NONE, Section, is_section, kinds, leaves, settings_of
from rlvr_cli.core.text import format_value, shortened
from rlvr_cli.core.yaml_text import load_yaml

Flat = dict[str, Any]
"""Settings by dotted name; a choice has its `.kind` and cells there, or None under its own name."""


def assign(root: type[Section], values: Flat, key: str, value: Any, origin: str) -> None:
    """Set one setting among the `values`.

    A choice is set by the name of a kind (`surrogate`=cispo, `kl`=none), or by a number where it
    has one (`kl`=0.01); its cells are those of the kind that is there. Raises UserError, beginning
    with `origin`, for a name or a kind that does not exist.
    """
    section, parts = root, key.split(".")
    for end, part in enumerate(parts, 1):
        name, rest = shortened(".".join(parts[:end])), parts[end:]
        if part not in section.model_fields:
            prefix = name.removesuffix(shortened(part))
            hint = f"{name} is not a setting; {_nearest(section, part, prefix, root)}"
            raise UserError(f"{origin}: {foreign_answer(key) or hint}")
        annotation: Any = section.model_fields[part].annotation
        types = {annotation, *get_args(annotation)}
        if choices := kinds(annotation):
            if rest in ([], ["kind"]):
                return _choose(values, name, choices, NoneType in types, value, origin)
            kind = values.get(f"{name}.kind")
            if kind is None:
                raise UserError(
                    f"{origin}: {name} is none here and has no {shortened('.'.join(rest))}; choose "
                    f"one first, {name}=KIND of {', '.join(choices)}"
                )
            section = choices[kind]
            others = [other for other in choices if rest[0] in choices[other].model_fields]
            if others and kind not in others:
                raise UserError(
                    f"{origin}: {name} {kind} has no {rest[0]}; choose {name}="
                    f"{' or '.join(others)}, or leave it out"
                )
        elif is_section(annotation):
            section = annotation
            if not rest and value != {}:
                inside = ", ".join(f"{name}.{part}" for part in section.model_fields)
                raise UserError(f"{origin}: {name} is a section; set one of {inside}")
        elif get_origin(annotation) is dict and (rest or isinstance(value, dict)):
            before = values.get(name)
            named = {".".join(rest): value} if rest else value
            values[name] = (before if isinstance(before, dict) else {}) | named
            return None
        elif rest:
            raise UserError(f"{origin}: {shortened(key)} is not a setting; {name} has none inside")
        elif isinstance(value, bool) and types & {int, float} and bool not in types:
            raise UserError(f"{origin}: {name} must be a number, not {value}")
        else:
            values[name] = value
    return None


def _choose(
    values: Flat, name: str, choices: dict[str, Any], is_optional: bool, value: Any, origin: str
) -> None:
    """Set a choice by a kind, a number or none. Another kind starts from its own defaults: the
    cells of the one before are dropped, unless the two kinds share them all."""
    old, first = values.get(f"{name}.kind"), next(iter(choices.values()))
    number = None
    if first.number and type(value) in (int, float):
        if value < 0:
            raise UserError(f"{origin}: {name} must be 0 or more, not {value}")
        number, value = value, (old or first.model_fields["kind"].default) if value else NONE
    if is_optional and value in (None, NONE):
        drop(values, name)
        values[name] = None
        return
    if not isinstance(value, str) or value not in choices:
        words = ", ".join([*choices, *([NONE] if is_optional else [])])
        raise UserError(f"{origin}: {name} cannot be {format_value(value)}; choose from {words}")
    if old is None or choices[old] is not choices[value]:
        drop(values, name)
        values |= leaves(choices[value].model_construct(kind=value).model_dump(), f"{name}.")
    values[f"{name}.kind"] = value
    if number is not None:
        values[f"{name}.{first.number}"] = number


def drop(values: Flat, name: str) -> None:
    """Remove a setting and all inside it."""
    for key in [key for key in values if key == name or key.startswith(f"{name}.")]:
        del values[key]


def nested(flat: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return settings by dotted name as sections inside one another."""
    whole: dict[str, Any] = {}
    for key, value in flat:
        inside = whole
        *path, last = key.split(".")
        for part in path:
            inside = inside.setdefault(part, {})
        inside[last] = value
    return whole


def _nearest(section: type[Section], key: str, prefix: str, root: type[Section]) -> str:
    """Say which setting may be meant: all of that last name, one nearby, or one spelled alike."""
    last = {setting.name: setting.name.rpartition(".")[2] for setting in settings_of(root)}
    same = [name for name in last if last[name] == key]
    near = [f"{prefix}{name}" for name in difflib.get_close_matches(key, section.model_fields, 1)]
    alike = difflib.get_close_matches(key, last.values(), 1)
    if meant := same or near or [name for name in last if last[name] in alike][:1]:
        return f"did you mean {'one of ' if len(meant) > 1 else ''}{', '.join(meant)}?"
    names = ", ".join(f"{prefix}{name}" for name in section.model_fields)
    return f"known: {names}; rlvr train --settings lists all"


def foreign_names() -> dict[str, list[str]]:
    """Return the names of other programs by our own, or by a sentence where there is none."""
    file = resources.files("rlvr_cli") / "config" / "foreign.yaml"
    return load_yaml(file.read_text(encoding="utf-8"))


def foreign_answer(name: str) -> str | None:
    """Say what a foreign flag or setting is here; None for a name that no other program has."""
    answers = {theirs: ours for ours, names in foreign_names().items() for theirs in names}
    parts = name.lstrip("-").lower().replace("-", "_").split(".")
    suffixes = (".".join(parts[start:]) for start in range(len(parts)))
    ours = next((answers[suffix] for suffix in suffixes if suffix in answers), None)
    if ours is None:
        return None
    if " " in ours:
        return f"{name}: {ours}"
    is_flag = ours.startswith("--") or ours.isupper()
    return f"{name} is {ours if is_flag else f'--set {ours}=…'} here"
