"""Settings as typed sections and choices, and how one layer of them goes over another."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from types import NoneType
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import shortened, shown

NONE = "none"
"""The word for an optional choice that is not made; YAML's null means the same."""


class Section(BaseModel):
    """A part of the configuration: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Choice(Section):
    """One of several kinds, with the cells that this kind has. A subclass lists its kinds as the
    literals of `kind`; kinds that stand in one class share all their cells."""

    kind: str

    @property
    def cells(self) -> dict[str, Any]:
        """The numbers and words of the kind, without the choices inside it."""
        return {k: v for k, v in self if k != "kind" and not isinstance(v, Choice)}

    def __str__(self) -> str:
        inside = describe((name, value) for name, value in self if name != "kind")
        return f"{self.kind} ({inside})" if inside else self.kind


def describe(cells: Iterable[tuple[str, Any]]) -> str:
    """List the cells that are not empty: `name value, name value`."""
    return ", ".join(f"{name} {value}" for name, value in cells if value not in (None, False, 0))


def kinds(annotation: Any) -> dict[str, type[Choice]]:
    """The kinds that a field of this type can take; none where it is not a choice."""
    if isinstance(annotation, type) and issubclass(annotation, Choice):
        return dict.fromkeys(get_args(annotation.model_fields["kind"].annotation), annotation)
    return {name: kind for part in get_args(annotation) for name, kind in kinds(part).items()}


def overlay(
    section: type[Section], base: dict[str, Any], top: dict[str, Any], origin: str, prefix: str = ""
) -> dict[str, Any]:
    """Put the settings of `top` over those of `base`, section by section.

    A choice is set by the name of a kind (`surrogate: cispo`, `kl: none`), or by a mapping, whose
    cells go to the kind that it names or else to the one that is there. Another kind starts from
    its own defaults: the cells of the one before are dropped, unless the two kinds share them all.
    Raises UserError, beginning with `origin`, for a key or a kind that does not exist.
    """
    merged = dict(base)
    for key, value in top.items():
        name = f"{prefix}{shortened(str(key))}"
        if key not in section.model_fields:
            near = difflib.get_close_matches(str(key), section.model_fields, 1)
            hint = f"did you mean {prefix}{near[0]}?" if near else f"known: {_known(section, name)}"
            raise UserError(f"{origin}: {name} is not a setting; {hint}")
        annotation = section.model_fields[key].annotation
        if kinds(annotation):
            merged[key] = _choose(annotation, base.get(key), value, origin, name)
        elif isinstance(annotation, type) and issubclass(annotation, Section):
            if not isinstance(value, dict):
                known = _known(annotation, f"{name}.")
                raise UserError(f"{origin}: {name} is a section; set one of {known}")
            merged[key] = overlay(annotation, base.get(key, {}), value, origin, f"{name}.")
        else:
            merged[key] = value
    return merged


def _choose(
    annotation: Any, old: dict[str, Any] | None, value: Any, origin: str, name: str
) -> dict[str, Any] | None:
    found, is_optional = kinds(annotation), NoneType in get_args(annotation)
    if is_optional and value in (None, NONE, {"kind": NONE}):
        return None
    listed = ", ".join([*found, *([NONE] if is_optional else [])])
    cells = value if isinstance(value, dict) else {"kind": value}
    if "kind" not in cells and old is None:
        named = shortened(", ".join(map(str, cells)))
        raise UserError(
            f"{origin}: {name} is none here and has no {named}; choose one "
            f"first, {name}=KIND of {', '.join(found)}"
        )
    kind = cells.get("kind", old and old["kind"])
    if not isinstance(kind, str) or kind not in found:
        raise UserError(f"{origin}: {name} cannot be {shown(kind)}; choose from {listed}")
    for cell in (name for name in cells if name not in found[kind].model_fields):
        if others := [other for other in found if cell in found[other].model_fields]:
            raise UserError(
                f"{origin}: {name} {kind} has no {cell}; choose {name}={' or '.join(others)}, or "
                "leave it out"
            )
    if old is None or found[old["kind"]] is not found[kind]:
        old = found[kind].model_construct(kind=kind).model_dump()
    return overlay(found[kind], old, {**cells, "kind": kind}, origin, f"{name}.")


def _known(section: type[Section], name: str) -> str:
    prefix = name.rpartition(".")[0]
    return ", ".join(f"{prefix}.{key}" if prefix else key for key in section.model_fields)


def differences(old: Section, new: Section, prefix: str = "") -> dict[str, tuple[Any, Any]]:
    """What differs, as (old, new) by dotted name, with the word for what is not there; a choice of
    another class differs as a whole."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, value in new:
        before = getattr(old, name)
        if isinstance(value, Section) and type(value) is type(before):
            found |= differences(before, value, f"{prefix}{name}.")
        elif value != before:
            found[f"{prefix}{name}"] = (_word(before), _word(value))
    return found


def _word(value: Any) -> Any:
    return NONE if value is None else value


@dataclass(frozen=True)
class Layer:
    """Settings from one place, which error messages name."""

    origin: str
    values: dict[str, Any]

    def sets(self, path: list[str]) -> bool:
        """Whether the layer says something at this place."""
        inside: Any = self.values
        for part in path:
            if not isinstance(inside, dict) or part not in inside:
                return False
            inside = inside[part]
        return True
