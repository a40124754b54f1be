"""Set one setting over the earlier ones, and answer names that are not settings."""

import difflib
from collections.abc import Iterable
from types import NoneType
from typing import Any, get_args, get_origin

from rlvr_cli.config.foreign import foreign_answer
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.settings import (
    CUSTOM,
    FORMER_CUSTOM,
    NONE,
    Choice,
    Kinds,
    Section,
    is_custom_function,
    is_section,
    kinds,
    leaves,
    none_word,
    settings_of,
)
from rlvr_cli.core.text import format_value, shortened

Flat = dict[str, Any]
"""Settings by dotted name. A choice has its `.kind` and fields, or None under its own name."""


def assign(root: type[Section], values: Flat, key: str, value: Any) -> None:
    """Set one setting among the `values`.

    A choice is set by the name of a kind (`surrogate`=cispo, `kl`=none), or by a number if it has
    one (`kl`=0.01). Its fields are those of the kind that is set. Raises UserError for a name or a
    kind that does not exist.
    """
    # Walk down the sections that the key names, and set the value in the last one.
    section = root
    parts = key.split(".")
    for end, part in enumerate(parts, 1):
        name = shortened(".".join(parts[:end]))
        rest = parts[end:]
        if part not in section.model_fields:
            prefix = name.removesuffix(shortened(part))
            raise UserError(
                foreign_answer(key)
                or f"{name} is not a setting; {_nearest(section, part, prefix, root)}"
            )
        annotation: object = section.model_fields[part].annotation
        choices = kinds(annotation)
        if choices and rest in ([], ["kind"]):
            _set_choice(values, name, value, choices, is_optional=NoneType in get_args(annotation))
            return
        if choices:
            is_custom = values.get(f"{name}.kind") == CUSTOM
            if is_custom and rest[0] not in choices[CUSTOM].model_fields:
                assign(root, values, f"{name}.settings.{'.'.join(rest)}", value)
                return
            section = _chosen_section(values, name, rest, choices)
        elif is_section(annotation):
            section = annotation
            if not rest and value != {}:
                names = ", ".join(f"{name}.{field}" for field in section.model_fields)
                raise UserError(f"{name} is a section; set one of {names}")
        elif get_origin(annotation) is dict and (rest or isinstance(value, dict)):
            before = values.get(name)
            entries = {".".join(rest): value} if rest else value
            values[name] = {**before, **entries} if isinstance(before, dict) else entries
            return
        elif rest:
            raise UserError(f"{shortened(key)} is not a setting; {name} has none inside")
        else:
            types = {annotation, *get_args(annotation)}
            # Python takes true for 1.
            if isinstance(value, bool) and types & {int, float} and bool not in types:
                raise UserError(f"{name} must be a number, not {value}")
            values[name] = value


def _chosen_section(values: Flat, name: str, rest: list[str], choices: Kinds) -> type[Choice]:
    """Return the fields of the chosen kind. Raises UserError without a choice, or if only different
    kinds have the field."""
    kind = values.get(f"{name}.kind")
    if kind is None:
        raise UserError(
            f"{name} is not set, so it has no {shortened('.'.join(rest))}; choose one first, "
            f"{name}=KIND of {', '.join(choices)}"
        )
    kinds_with_field = [other for other in choices if rest[0] in choices[other].model_fields]
    if kinds_with_field and kind not in kinds_with_field:
        raise UserError(
            f"{name} {kind} has no {rest[0]}; choose {name}={' or '.join(kinds_with_field)}, or "
            "leave it out"
        )
    return choices[kind]


def _set_choice(values: Flat, name: str, value: Any, choices: Kinds, is_optional: bool) -> None:
    """Set a choice by a kind, by its number, by a function of the user's, or to none.

    Another kind starts from its own defaults: the fields of the previous kind are dropped, unless
    the two kinds share them all.
    """
    previous_kind = values.get(f"{name}.kind")
    first = next(iter(choices.values()))
    is_kind = isinstance(value, str) and value in (*choices, NONE)
    kind = value
    fields: Flat = {}  # those that the value sets besides the kind
    if first.number and type(value) in (int, float):
        if value < 0:
            raise UserError(f"{name} must be 0 or more, not {value}")
        default = first.model_fields["kind"].default
        kind = NONE if value == 0 else previous_kind or default
        fields = {first.number: value}
    elif CUSTOM in choices and value == FORMER_CUSTOM:
        kind = CUSTOM
    elif CUSTOM in choices and not is_kind and is_custom_function(value, name.rpartition(".")[2]):
        kind = CUSTOM
        fields = {"function": value}
    if is_optional and kind in (None, NONE, none_word(choices)):
        drop(values, name)
        values[name] = None
        return
    if not isinstance(kind, str) or kind not in choices:
        words = [*choices, none_word(choices)] if is_optional else [*choices]
        if CUSTOM in choices:
            words[words.index(CUSTOM)] = "a custom FILE.py:NAME"
        raise UserError(f"{name} cannot be {format_value(kind)}; choose from {', '.join(words)}")
    if previous_kind is None or choices[previous_kind] is not choices[kind]:
        drop(values, name)
        defaults = choices[kind].model_construct(kind=kind).model_dump()
        values.update(leaves(defaults, f"{name}."))
    if kind != CUSTOM and f"{name}.function" in values:
        fields["function"] = None
    for field, entry in {"kind": kind, **fields}.items():
        values[f"{name}.{field}"] = entry


def drop(values: Flat, name: str) -> None:
    """Remove a setting and everything inside it."""
    for key in list(values):
        if key == name or key.startswith(f"{name}."):
            del values[key]


def nested(flat: Iterable[tuple[str, object]]) -> JsonObject:
    """Return settings by dotted name as nested sections."""
    root: JsonObject = {}
    for key, value in flat:
        section = root
        *path, last = key.split(".")
        for part in path:
            section = section.setdefault(part, {})
        section[last] = value
    return root


def _nearest(section: type[Section], key: str, prefix: str, root: type[Section]) -> str:
    """Suggest settings: all with this last name, else a similar one in the section, else a similar
    one anywhere."""
    last_names = {setting.name: setting.name.rpartition(".")[2] for setting in settings_of(root)}
    names = [name for name, last in last_names.items() if last == key]
    if not names:
        similar = difflib.get_close_matches(key, section.model_fields, 1)
        names = [f"{prefix}{name}" for name in similar]
    if not names:
        similar = difflib.get_close_matches(key, last_names.values(), 1)
        names = [name for name, last in last_names.items() if last in similar][:1]
    if len(names) > 1:
        return f"did you mean one of {', '.join(names)}?"
    if names:
        return f"did you mean {names[0]}?"
    known = ", ".join(f"{prefix}{name}" for name in section.model_fields)
    return f"known: {known}; rlvr train --settings lists all"
