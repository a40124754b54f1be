"""Put one layer of settings over another, and answer for names that are none."""

import difflib
from importlib import resources
from types import NoneType
from typing import Any, get_args

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.settings import NONE, Section, kinds, leaves, settings_of
from rlvr_cli.core.text import shortened, shown
from rlvr_cli.core.yaml_text import load_yaml


def overlay(
    section: type[Section],
    base: dict[str, Any],
    top: dict[str, Any],
    origin: str,
    prefix: str = "",
    root: type[Section] | None = None,
) -> dict[str, Any]:
    """Put the settings of `top` over those of `base`, section by section.

    A choice is set by the name of a kind (`surrogate: cispo`, `kl: none`), by a number where it has
    one (`kl: 0.01`), or by a mapping, whose cells go to the kind that it names or else to the one
    that is there. Another kind starts from its own defaults: the cells of the one before are
    dropped, unless the two kinds share them all. Raises UserError, beginning with `origin`, for a
    key or a kind that does not exist.
    """
    merged, root = dict(base), root or section
    for key, value in top.items():
        name = f"{prefix}{shortened(str(key))}"
        if key not in section.model_fields:
            whole = next((leaf for leaf, _ in leaves({name: value})), name)
            answer = foreign_answer(whole)
            hint = f"{name} is not a setting; {_nearest(section, str(key), prefix, root)}"
            raise UserError(f"{origin}: {answer or hint}")
        annotation = section.model_fields[key].annotation
        types = {annotation, *get_args(annotation)}
        if kinds(annotation):
            merged[key] = _choose(annotation, base.get(key), value, origin, name, root)
        elif isinstance(annotation, type) and issubclass(annotation, Section):
            if not isinstance(value, dict):
                known = _known(annotation, f"{name}.")
                raise UserError(f"{origin}: {name} is a section; set one of {known}")
            inside = base.get(key, {})
            merged[key] = overlay(annotation, inside, value, origin, f"{name}.", root)
        elif isinstance(value, dict) and isinstance(base.get(key), dict):
            merged[key] = base[key] | value
        elif isinstance(value, bool) and types & {int, float} and bool not in types:
            raise UserError(f"{origin}: {name} must be a number, not {value}")
        else:
            merged[key] = value
    return merged


def _choose(
    annotation: Any,
    old: dict[str, Any] | None,
    value: Any,
    origin: str,
    name: str,
    root: type[Section],
) -> dict[str, Any] | None:
    found, is_optional = kinds(annotation), NoneType in get_args(annotation)
    first = next(iter(found.values()))
    if first.number and type(value) in (int, float):
        default = first.model_fields["kind"].default
        value = {"kind": old["kind"] if old else default, first.number: value} if value else NONE
    if is_optional and value in (None, NONE, {"kind": NONE}):
        return None
    cells = value if isinstance(value, dict) else {"kind": value}
    if "kind" not in cells and old is None:
        named = shortened(", ".join(map(str, cells)))
        raise UserError(
            f"{origin}: {name} is none here and has no {named}; choose one "
            f"first, {name}=KIND of {', '.join(found)}"
        )
    kind = cells.get("kind", old and old["kind"])
    if not isinstance(kind, str) or kind not in found:
        listed = ", ".join([*found, *([NONE] if is_optional else [])])
        raise UserError(f"{origin}: {name} cannot be {shown(kind)}; choose from {listed}")
    for cell in (name for name in cells if name not in found[kind].model_fields):
        if others := [other for other in found if cell in found[other].model_fields]:
            raise UserError(
                f"{origin}: {name} {kind} has no {cell}; choose {name}={' or '.join(others)}, or "
                "leave it out"
            )
    if old is None or found[old["kind"]] is not found[kind]:
        old = found[kind].model_construct(kind=kind).model_dump()
    return overlay(found[kind], old, {**cells, "kind": kind}, origin, f"{name}.", root)


def _nearest(section: type[Section], key: str, prefix: str, root: type[Section]) -> str:
    """Say which setting may be meant: one of that last name, one nearby, or one spelled alike."""
    last = {one.name: one.name.rpartition(".")[2] for one in settings_of(root)}
    same = [name for name in last if last[name] == key]
    if len(same) > 1:
        return f"did you mean one of {', '.join(same)}?"
    near = difflib.get_close_matches(key, section.model_fields, 1)
    if near and not same:
        return f"did you mean {prefix}{near[0]}?"
    alike = difflib.get_close_matches(key, last.values(), 1)
    if found := same or [name for name in last if alike and last[name] == alike[0]]:
        return f"did you mean {found[0]}?"
    return f"known: {_known(section, prefix)}; rlvr train --settings lists all"


def _known(section: type[Section], prefix: str) -> str:
    return ", ".join(f"{prefix}{key}" for key in section.model_fields)


def foreign_names() -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the names of other programs by ours, and sentences by names that have none here."""
    file = resources.files("rlvr_cli") / "config" / "foreign.yaml"
    table = load_yaml(file.read_text(encoding="utf-8"))
    said = {theirs: text for text, listed in table["sentences"].items() for theirs in listed}
    return table["names"], said


def foreign_answer(name: str) -> str | None:
    """Say what a foreign flag or setting is here; None for a name that no other program has."""
    names, sentences = foreign_names()
    ours_of = {theirs: ours for ours, listed in names.items() for theirs in listed}
    parts = name.lstrip("-").lower().replace("-", "_").split(".")
    for suffix in (".".join(parts[start:]) for start in range(len(parts))):
        if suffix in sentences:
            return f"{name}: {sentences[suffix]}"
        if ours := ours_of.get(suffix):
            is_flag = ours.startswith("--") or ours.isupper()
            return f"{name} is {ours if is_flag else f'--set {ours}=…'} here"
    return None
