"""Declare settings as typed sections and choices, with their flags and readers, and list them."""

import ast
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Literal, TypeGuard, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticUndefined
from pydantic_core.core_schema import tagged_union_schema

NONE = "none"
"""The word for an optional choice that is not made. YAML's null means the same."""
ON = "on"
OFF = "off"
"""The word for `NONE` in a setting that can be `ON`."""
Command = Literal["train", "eval", "sample", "responses"]
"""A reader of settings. `responses` is `rlvr eval --responses`, which has the flags of eval."""


@dataclass(frozen=True)
class Use:
    """The use of a setting. What its declaration (`setting`) leaves out is that of its section."""

    read_by: tuple[Command, ...] = ("train",)
    flag: str | None = None
    """`--name` on the command line, or the metavar of an argument."""
    flag_of: tuple[Command, ...] | None = None
    """The commands that have the flag. None means all that read the setting."""
    panel: str | None = None
    """The panel of help that shows the flag."""
    metavar: str | None = None
    """The name of the flag's value in help, if it is not the setting's type."""
    default_in: dict[Command, str] = field(default_factory=dict)
    """The default in words, for the help of commands in which it differs from the setting's."""
    with_model: bool = False
    """Whether a checkpoint stores it beside the weights, and it is read again with the model."""
    on_resume: Literal["fixed", "free", "moves"] = "fixed"
    """A fixed setting decides what a run computes and cannot change. A free one may be set with
    --resume. One that moves names a place, and may be edited in the run's config.yaml."""
    resets: str | None = None
    """Another setting that loses its value when this one is set."""
    words: Collection[str] = ()
    """The words that it can be besides the names of custom functions, if it is no choice."""
    parse: Callable[[Any], object] | None = None
    """Reads what the flag gives. None means that the setting's type says how."""
    refused_in_model: Callable[[str], str | None] | None = None
    """Says what is wrong with a text in a model's own settings, if anything is."""
    names_code: bool = False
    """Whether it may name code, which no directory may have run: the user names it again."""
    replaces_model: bool = False
    """Whether a value of it means that no model is loaded, whose own settings would be read."""
    inherited: bool = True
    """Whether a run takes it from the parent that --from names."""
    in_old_runs: object = None
    """The value in a run that an earlier version began without it. None means that such a run has
    the default, and does not go on with another."""

    def parameter(self, command: Command) -> str | None:
        """Return the name of the command's parameter. Return None if it has no such flag."""
        if self.flag is None or command not in (self.flag_of or self.read_by):
            return None
        return self.flag.removeprefix("--").replace("-", "_").lower()


class Section(BaseModel):
    """A part of the configuration. Unknown keys are errors, and values never change."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,  # until something is validated: help and lists need no validator
    )
    use: ClassVar[Use] = Use()
    """The use of all its settings, unless their declarations say otherwise."""


class Choice(Section):
    """One of several kinds, with the parameters of this kind. A subclass lists its kinds as the
    literals of `kind`, and all of them have its fields."""

    kind: str
    registered: ClassVar["Kinds"] = {}
    """The kinds by name, of a base whose kinds `register` adds. A base has a mapping of its own."""
    number: ClassVar[str | None] = None
    """The field that a number in place of the choice sets. 0 unsets an optional choice."""

    @property
    def component(self) -> str:
        """Return the name of the function that computes it, in the table of its choice."""
        return self.kind

    @property
    def fields(self) -> dict[str, object]:
        """Return the numbers and words of the kind, without the choices inside it."""
        return {
            name: getattr(self, name)
            for name, info in type(self).model_fields.items()
            if name != "kind" and not kinds(info.annotation)
        }

    def __str__(self) -> str:
        settings = describe((name, value) for name, value in self if name != "kind")
        return f"{self.kind} ({settings})" if settings else self.kind


Values = dict[str, bool | int | float | str]
"""The settings of a custom function: its keyword arguments."""
CUSTOM = "custom"
"""The kind of a choice that names a custom function."""
FORMER_CUSTOM = "own"
"""The name of that kind in files of earlier versions, which is still read."""


ENTRY_POINTS = {
    "advantage": "rlvr.advantages",
    "aggregation": "rlvr.aggregations",
    "filter": "rlvr.filters",
    "kl": "rlvr.kl_estimators",
    "surrogate": "rlvr.surrogates",
}
"""The entry points at which an installed package names functions for a choice."""


def is_custom_function(value: object, choice: str) -> bool:
    """Return whether a text names a custom function for a choice.

    It does as FILE.py:NAME, as MODULE:NAME or as an entry point.
    """
    if not isinstance(value, str):
        return False
    return ":" in value or value in entry_points(group=ENTRY_POINTS[choice]).names


class CustomChoice(Choice):
    """A custom function, by FILE.py:NAME, MODULE:NAME or the name of an entry point."""

    function: str
    """The function, as FILE.py:NAME, MODULE:NAME or an entry point."""
    settings: Values = {}
    """Its keyword arguments. What is left out has the function's own default."""

    @property
    def component(self) -> str:
        return self.function

    @property
    def fields(self) -> dict[str, object]:
        return dict(self.settings)

    def __str__(self) -> str:
        inside = describe((name, value) for name, value in self if name not in ("kind", "function"))
        return f"{self.function} ({inside})" if inside else self.function


Kinds = dict[str, type[Choice]]
"""The kinds of a choice by name."""
Table = dict[str, Callable[..., Any]]
"""The functions of a choice by kind. Custom ones are added when they are loaded."""
F = TypeVar("F", bound=Callable[..., Any])


def register(
    table: Table, choice: type[Choice] | None = None, kind: str | None = None
) -> Callable[[F], F]:
    """Return a decorator that puts a function into a table, and its kind into the choice's.

    `choice` is the class with the fields that the function takes by name. A class of several kinds
    names the one that the function computes. A function without a choice has its own name.
    """
    if kind is None and choice is not None:
        kind = choice.model_fields["kind"].default

    def add(function: F) -> F:
        name = kind or function.__name__
        table[name] = function
        if choice is not None:
            choice.registered[name] = choice
        return function

    return add


class ByRegisteredKind:
    """Marks a choice that is checked by the fields of the kind that it names."""

    def __get_pydantic_core_schema__(
        self, base: type[Choice], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of all the registered kinds of a base."""
        schemas = {name: handler.generate_schema(kind) for name, kind in base.registered.items()}
        return tagged_union_schema(
            schemas, discriminator="kind", strict=False, from_attributes=True
        )


def setting(default: Any, **declared: Any) -> Any:
    """Declare a setting: its default, its use (fields of `Use`), limits of pydantic's Field."""
    use = {part.name: declared.pop(part.name) for part in fields(Use) if part.name in declared}
    return Field(default, json_schema_extra=use, **declared)


@dataclass(frozen=True)
class Setting:
    """A setting by its dotted name, as help and lists print it."""

    name: str
    default: object
    section: type[Section]
    """The class that declares it."""
    annotation: object
    use: Use
    values: tuple[str, ...] = ()
    """The words that it can be, if it is limited to a few."""
    kinds: tuple[str, ...] = ()
    """The kinds of the choice around it that have it. Empty means all."""

    @property
    def meaning(self) -> str:
        """Return its docstring, on one line."""
        return _meaning(self.section, self.name.rpartition(".")[2], kinds(self.annotation))


def settings_of(
    section: type[Section],
    prefix: str = "",
    section_kinds: tuple[str, ...] = (),
    defaults: object = None,
) -> Iterator[Setting]:
    """Yield all settings inside a section, or inside a kind of a choice, in their order.

    `section_kinds` are the kinds that have this section, if not all do. `defaults` is an instance
    of the section that replaces its defaults.
    """
    for name, info in section.model_fields.items():
        if name == "kind":
            continue
        path = f"{prefix}{name}"
        default = info.default if defaults is None else getattr(defaults, name)
        annotation: object = info.annotation
        choices = kinds(annotation)
        if is_section(annotation) and not choices:
            yield from settings_of(annotation, f"{path}.", defaults=default)
            continue
        use = replace(section.use, **(info.json_schema_extra or {}))  # type: ignore[arg-type]
        yield Setting(
            name=path,
            default=default.kind if isinstance(default, Choice) else default,
            section=section,
            annotation=annotation,
            use=use,
            values=_words(annotation, choices) or tuple(use.words),
            kinds=section_kinds,
        )
        for kind in dict.fromkeys(choices.values()):
            names = tuple(kind_name for kind_name, its_kind in choices.items() if its_kind is kind)
            yield from settings_of(
                kind,
                f"{path}.",
                section_kinds=names if len(names) < len(choices) else (),
                defaults=default if isinstance(default, kind) else None,
            )


def none_word(words: Collection[str]) -> str:
    """Return the word that messages use for no choice, in a setting with these choices."""
    return OFF if ON in words else NONE


def _words(annotation: object, choices: Kinds) -> tuple[str, ...]:
    """Return the words that a field of this type can be. Return () if it takes other values."""
    if get_origin(annotation) is dict:
        return ()
    parts = (annotation, *get_args(annotation))
    words = list(choices)
    if not choices:
        for part in parts:
            if get_origin(part) is Literal:
                words += map(str, get_args(part))
    if words and NoneType in parts:
        words.append(none_word(words))
    return tuple(words)


def _meaning(section: type[Section], name: str, choices: Kinds) -> str:
    """Return the docstring of a field, on one line.

    A kind that only has another default inherits the docstring of its base's field. A choice
    without a docstring has that of the nearest base that all its kinds share.
    """
    for base in section.__mro__:
        if not issubclass(base, Section):
            continue
        text = _docstrings(base.__module__).get((base.__qualname__, name))
        if text:
            return " ".join(text.split())
    if not choices:
        return ""
    classes = list(choices.values())
    shared = next(base for base in classes[0].__mro__ if all(issubclass(c, base) for c in classes))
    if shared is Choice:
        return ""
    return " ".join((shared.__doc__ or "").split())


@cache
def _docstrings(module: str) -> dict[tuple[str, str], str]:
    """Return the docstring below each field of a module's classes, by class and field.

    It is read when a list or help first needs it. Pydantic would read it for each class that is
    imported, which takes a third of the time of an import.
    """
    file = sys.modules[module].__file__
    assert file is not None
    docstrings = {}
    for node in ast.parse(Path(file).read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for declared, below in pairwise(node.body):
            if not isinstance(declared, ast.AnnAssign) or not isinstance(below, ast.Expr):
                continue
            if isinstance(declared.target, ast.Name) and isinstance(below.value, ast.Constant):
                docstrings[node.name, declared.target.id] = str(below.value.value)
    return docstrings


def is_section(annotation: object) -> TypeGuard[type[Section]]:
    """Return whether a field of this type is a section, or a choice that has to be made."""
    return isinstance(annotation, type) and issubclass(annotation, Section)


def kinds(annotation: object) -> Kinds:
    """Return the kinds that a field of this type can take. Return {} if it is not a choice."""
    if isinstance(annotation, type) and issubclass(annotation, Choice):
        if annotation.registered:
            return {**annotation.registered}
        return dict.fromkeys(get_args(annotation.model_fields["kind"].annotation), annotation)
    all_kinds: Kinds = {}
    for part in get_args(annotation):
        all_kinds.update(kinds(part))
    return all_kinds


def number_of(annotation: object) -> str | None:
    """Return the field that a number in place of a choice sets, or None without such a field."""
    first = next(iter(kinds(annotation).values()), None)
    return None if first is None else first.number


def leaves(values: dict[str, object], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings as (dotted name, value)."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def describe(fields: Iterable[tuple[str, object]]) -> str:
    """List the fields that are neither empty nor left to `auto`: `name value, name value`."""
    named = ((name, str(value)) for name, value in fields if value not in (None, False, 0, {}))
    return ", ".join(f"{name} {value}" for name, value in named if value != "auto")


def default_in_words(value: object) -> str:
    """Return a default as help and lists print it."""
    if value is PydanticUndefined:
        return "to be set"
    if value is None or value == {}:
        return NONE
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
