"""Declare settings as typed sections and choices, with the use of each, and list them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from types import NoneType
from typing import Any, ClassVar, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticUndefined

NONE = "none"
"""The word for an optional choice that is not made; YAML's null means the same."""
Command = Literal["train", "eval", "sample", "responses"]
"""A reader of settings; `responses` is `rlvr eval --responses`, which has the flags of eval."""


@dataclass(frozen=True)
class Use:
    """The use of a setting: what its declaration (`setting`) leaves out holds for its section."""

    read_by: tuple[Command, ...] = ("train",)
    flag: str | None = None
    """`--name` on the command line, or the metavar of an argument."""
    flag_of: tuple[Command, ...] | None = None
    """The commands that have the flag; None means all that read the setting."""
    panel: str | None = None
    """The panel of help that shows the flag."""
    metavar: str | None = None
    """The name of the flag's value in help, where it is not the setting's type."""
    default_in: dict[Command, str] = field(default_factory=dict)
    """The default in words, for help, of a command where it is not the model's."""
    kept: bool = False
    """A checkpoint keeps it beside the weights, and it is read again with the model."""
    on_resume: Literal["fixed", "free", "moves"] = "fixed"
    """A fixed setting decides what a run computes and cannot change; a free one may be given with
    --resume; one that moves says where things lie and may be edited in the run's config.yaml."""
    resets: str | None = None
    """Another setting that loses its value when this one is set."""

    def parameter(self, command: Command) -> str | None:
        """Return the name of the command's parameter; None where it has no such flag."""
        if self.flag is None or command not in (self.flag_of or self.read_by):
            return None
        return self.flag.removeprefix("--").replace("-", "_").lower()


class Section(BaseModel):
    """A part of the configuration: unknown keys are errors, values never change."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
    use: ClassVar[Use] = Use()
    """The use of all its settings, but for what their declarations say."""


class Choice(Section):
    """One of several kinds, with the cells that this kind has. A subclass lists its kinds as the
    literals of `kind`; kinds that stand in one class share all their cells."""

    kind: str
    number: ClassVar[str | None] = None
    """The cell that a number in place of the choice sets; 0 takes an optional choice back."""

    @property
    def cells(self) -> dict[str, Any]:
        """Return the numbers and words of the kind, without the choices inside it."""
        declared = type(self).model_fields
        own = (name for name in declared if name != "kind" and not kinds(declared[name].annotation))
        return {name: getattr(self, name) for name in own}

    def __str__(self) -> str:
        inside = describe((name, value) for name, value in self if name != "kind")
        return f"{self.kind} ({inside})" if inside else self.kind


def setting(default: Any, **declared: Any) -> Any:
    """Declare a setting: its default, its use (fields of `Use`), limits of pydantic's Field."""
    use = {part.name: declared.pop(part.name) for part in fields(Use) if part.name in declared}
    return Field(default, json_schema_extra=use, **declared)


@dataclass(frozen=True)
class Setting:
    """A setting by its dotted name, as help and lists print it."""

    name: str
    default: Any
    meaning: str
    annotation: Any
    use: Use
    values: tuple[str, ...] = ()
    """The words that it can be, where they are few."""
    of: tuple[str, ...] = ()
    """The kinds of the choice around it that have it; none means all."""


def settings_of(
    section: type[Section], prefix: str = "", of: tuple[str, ...] = (), own: Any = None
) -> Iterator[Setting]:
    """Yield all settings inside a section, or inside a kind of a choice, in their order. `own` has
    the defaults where they are not the section's."""
    for name, field_info in section.model_fields.items():
        if name == "kind":
            continue
        annotation, path = field_info.annotation, f"{prefix}{name}"
        default = field_info.default if own is None else getattr(own, name)
        choices = kinds(annotation)
        if is_section(annotation) and not choices:
            yield from settings_of(annotation, f"{path}.", (), default)  # type: ignore[arg-type]
            continue
        parts = () if get_origin(annotation) is dict else (annotation, *get_args(annotation))
        literals = (get_args(part) for part in parts if get_origin(part) is Literal)
        words = tuple(choices) or tuple(str(word) for literal in literals for word in literal)
        if NoneType in parts and words:
            words = (*words, NONE)
        # A kind that only has another default inherits the docstring of the field; a choice without
        # one has that of the nearest class that all its kinds have above them.
        inherited = (getattr(above, "model_fields", {}).get(name) for above in section.__mro__)
        meaning = next((info.description for info in inherited if info and info.description), "")
        if not meaning and choices:
            classes = list(choices.values())
            shared = next(c for c in classes[0].__mro__ if all(issubclass(k, c) for k in classes))
            meaning = "" if shared is Choice else shared.__doc__ or ""
        use = replace(section.use, **(field_info.json_schema_extra or {}))  # type: ignore[arg-type]
        value = default.kind if isinstance(default, Choice) else default
        yield Setting(path, value, " ".join(meaning.split()), annotation, use, words, of)
        for kind in dict.fromkeys(choices.values()):
            names = tuple(name for name, other in choices.items() if other is kind)
            inside = default if isinstance(default, kind) else None
            only = names if len(names) < len(choices) else ()
            yield from settings_of(kind, f"{path}.", only, inside)


def is_section(annotation: Any) -> bool:
    """Return whether a field of this type is a section, or a choice that has to be made."""
    return isinstance(annotation, type) and issubclass(annotation, Section)


def kinds(annotation: Any) -> dict[str, type[Choice]]:
    """Return the kinds that a field of this type can take; none where it is not a choice."""
    if isinstance(annotation, type) and issubclass(annotation, Choice):
        return dict.fromkeys(get_args(annotation.model_fields["kind"].annotation), annotation)
    return {name: kind for part in get_args(annotation) for name, kind in kinds(part).items()}


def leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings as (dotted name, value)."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def describe(cells: Iterable[tuple[str, Any]]) -> str:
    """List the cells that are neither empty nor left to `auto`: `name value, name value`."""
    named = ((name, str(value)) for name, value in cells if value not in (None, False, 0))
    return ", ".join(f"{name} {value}" for name, value in named if value != "auto")


def default_in_words(value: Any) -> str:
    """Return a default as help and lists print it."""
    if value is PydanticUndefined:
        return "to be set"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bool):
        return str(value).lower()
    return NONE if value is None or value == {} else str(value)
