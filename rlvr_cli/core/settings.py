"""Settings as typed sections and choices, what is done with them, and how one layer of them goes
over another."""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from types import NoneType
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import shortened, shown

NONE = "none"
"""The word for an optional choice that is not made; YAML's null means the same."""


class Section(BaseModel):
    """A part of the configuration: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Command = Literal["train", "eval", "sample", "responses"]
"""What reads settings; `responses` is `rlvr eval --responses`."""


@dataclass(frozen=True)
class Use:
    """What is done with a setting, said where it is declared (`setting`)."""

    read_by: tuple[Command, ...] = ("train",)
    flag: str | None = None
    """`--name` on the command line, or the metavar of an argument."""
    flag_of: tuple[Command, ...] | None = None
    """The commands that have the flag; None means all that read the setting."""
    default_in: dict[Command, str] = field(default_factory=dict)
    """Where a command has another default than the model: that one in words, for help."""
    kept: bool = False
    """A checkpoint keeps it beside the weights, and it is read again with the model."""
    on_resume: Literal["fixed", "free", "moves"] = "fixed"
    """A fixed setting decides what a run computes and cannot change; a free one may be given with
    --resume; one that moves says where things lie and may be edited in the run's config.yaml."""
    resets: str | None = None
    """Another setting that loses its value when this one is set."""

    def parameter(self, command: Command) -> str | None:
        """The name of the flag as a parameter of the command's function; None without a flag."""
        if self.flag is None or command not in (self.flag_of or self.read_by):
            return None
        return self.flag.removeprefix("--").replace("-", "_").lower()


def setting(
    default: Any,
    *,
    read_by: tuple[Command, ...] = ("train",),
    flag: str | None = None,
    flag_of: tuple[Command, ...] | None = None,
    default_in: dict[Command, str] | None = None,
    kept: bool = False,
    on_resume: Literal["fixed", "free", "moves"] = "fixed",
    resets: str | None = None,
    **limits: Any,
) -> Any:
    """Declare a setting: its default, its use (see `Use`), and the limits of pydantic's Field."""
    use = Use(read_by, flag, flag_of, default_in or {}, kept, on_resume, resets)
    return Field(default, json_schema_extra=asdict(use), **limits)


def uses(section: type[Section], prefix: str = "") -> dict[str, Use]:
    """The use of each setting by dotted name; a section that has one has it for all inside.

    Raises TypeError for a setting that is declared without `setting`.
    """
    found: dict[str, Use] = {}
    for name, declared in section.model_fields.items():
        annotation, extra = declared.annotation, declared.json_schema_extra
        if isinstance(extra, dict):
            found[f"{prefix}{name}"] = Use(**extra)  # type: ignore[arg-type]
        elif isinstance(annotation, type) and issubclass(annotation, Section):
            found |= uses(annotation, f"{prefix}{name}.")
        else:
            raise TypeError(f"{section.__name__}.{name}: declare it with setting(…)")
    return found


def kept(settings: dict[str, Use]) -> dict[str, Any]:
    """The names of the settings that a checkpoint keeps, by section; True where there is none."""
    found: dict[str, Any] = {}
    for key in (key for key, use in settings.items() if use.kept):
        section, _, name = key.rpartition(".")
        if section:
            found.setdefault(section, set()).add(name)
        else:
            found[name] = True
    return found


def leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as (dotted name, value)."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


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
        elif isinstance(value, dict) and isinstance(base.get(key), dict):
            merged[key] = base[key] | value
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
