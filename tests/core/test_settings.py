"""Layers of settings: sections are merged, choices change their kind."""

import re
from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import Field

from rlvr_cli.config.overlay import assign, nested
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.settings import (
    Choice,
    Section,
    Use,
    describe,
    kinds,
    leaves,
    setting,
    settings_of,
)


class Plain(Choice):
    kind: Literal["plain", "bare"] = "plain"
    share: float = 0.5


class Deep(Choice):
    kind: Literal["deep"] = "deep"
    share: float = 0.1
    floor: int
    inner: Plain = Plain()


class Part(Section):
    count: int = 1
    pair: tuple[int, int] = (1, 2)


class Top(Section):
    part: Part = Part()
    form: Annotated[Plain | Deep, Field(discriminator="kind")] = Plain()
    extra: Plain | None = None


BASE = Top().model_dump()


def over(values: dict, base: dict = BASE, root: type[Section] = Top) -> dict:
    flat = dict(leaves(base))
    for key, value in leaves(values):
        assign(root, flat, key, value)
    return nested(flat.items())


def test_a_section_is_merged_and_what_was_there_stays_as_it_was():
    merged = over({"part": {"count": 3}})
    assert merged["part"] == {"count": 3, "pair": (1, 2)}
    assert BASE["part"]["count"] == 1


def test_the_kinds_of_a_field():
    fields = {name: set(kinds(field.annotation)) for name, field in Top.model_fields.items()}
    assert fields == {
        "part": set(),
        "form": {"plain", "bare", "deep"},
        "extra": {"plain", "bare"},
    }
    assert set(kinds(Part.model_fields["pair"].annotation)) == set()


def test_another_kind_drops_the_cells_of_the_one_before():
    own = over({"form": {"share": 0.7}})
    assert own["form"] == {"kind": "plain", "share": 0.7}
    deep = over({"form": {"kind": "deep", "floor": 2}}, own)
    assert deep["form"] == {
        "kind": "deep",
        "share": 0.1,
        "floor": 2,
        "inner": {"kind": "plain", "share": 0.5},
    }
    assert over({"form": "plain"}, deep)["form"] == {"kind": "plain", "share": 0.5}


def test_the_same_kind_and_one_that_shares_its_cells_keep_them():
    own = over({"form": {"share": 0.7}})
    assert over({"form": "plain"}, own) == own
    assert over({"form": "bare"}, own)["form"] == {"kind": "bare", "share": 0.7}


def test_cells_inside_a_choice_inside_a_choice():
    deep = over({"form": {"kind": "deep", "floor": 2}})
    changed = over({"form": {"inner": {"share": 0.9}}}, deep)
    assert changed["form"] == {**deep["form"], "inner": {"kind": "plain", "share": 0.9}}


class Numbered(Choice):
    number: ClassVar[str] = "share"
    kind: Literal["first", "second"] = "first"
    share: float = 0.5


class ByNumber(Section):
    extra: Numbered | None = None


def test_a_number_sets_the_cell_of_a_choice_that_has_one():
    def numbered(value, base):
        return over({"extra": value}, {"extra": base}, ByNumber)["extra"]

    second = {"kind": "second", "share": 0.5}
    assert numbered(0.2, None) == {"kind": "first", "share": 0.2}
    assert numbered(0.2, second) == {"kind": "second", "share": 0.2}
    assert numbered(0, second) is None
    with pytest.raises(UserError, match="extra must be 0 or more, not -1"):
        numbered(-1, second)


@pytest.mark.parametrize("nothing", ["none", None, {"kind": "none"}])
def test_an_optional_choice_can_be_taken_back(nothing):
    created = over({"extra": "bare"})
    assert created["extra"] == {"kind": "bare", "share": 0.5}
    assert over({"extra": nothing}, created)["extra"] is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"prat": 1}, "prat is not a setting; did you mean part?"),
        ({"zzz": 1}, "zzz is not a setting; known: part, form, extra"),
        ({"part": {"zzz": 1}}, "part.zzz is not a setting; known: part.count, part.pair"),
        ({"part": 1}, "part is a section; set one of part.count, part.pair"),
        ({"form": "dip"}, "form cannot be 'dip'; choose from plain, bare, deep"),
        ({"form": None}, "form cannot be None; choose from plain, bare, deep"),
        ({"form": [1]}, "form cannot be [1]; choose from"),
        ({"form": {"kind": {}}}, "form cannot be {}; choose from"),
        ({"extra": "dip"}, "extra cannot be 'dip'; choose from plain, bare, none"),
        (
            {"form": {"floor": 1}},
            "form plain has no floor; choose form=deep, or leave it out",
        ),
        ({"form": {"shear": 1}}, "form.shear is not a setting; did you mean form.share?"),
        (
            {"extra": {"share": 1}},
            "extra is not set, so it has no share; choose one first, extra=KIND of plain, bare",
        ),
    ],
)
def test_what_does_not_exist_is_named_with_a_way_out(values, message):
    with pytest.raises(UserError, match=re.escape(message)):
        over(values)


def test_a_choice_is_shown_with_its_cells():
    assert str(Deep(floor=2)) == "deep (share 0.1, floor 2, inner plain (share 0.5))"
    assert Deep(floor=2).fields == {"share": 0.1, "floor": 2}


def test_a_setting_says_what_is_done_with_it():
    class Inner(Section):
        one: int = setting(1, flag="--one", with_model=True, ge=0)
        two: int = 2

    class Free(Section):
        use = Use(on_resume="free")
        count: int = 1
        flagged: int = setting(1, flag="--flagged")

    class Outer(Section):
        inner: Inner = Inner()
        whole: Free = Free()

    actual = {one.name: one for one in settings_of(Outer)}
    assert list(actual) == ["inner.one", "inner.two", "whole.count", "whole.flagged"]
    assert actual["inner.one"].use == Use(flag="--one", with_model=True)
    assert actual["inner.two"].use == Use()
    assert actual["whole.count"].use == Use(on_resume="free")
    assert actual["whole.flagged"].use == Use(flag="--flagged", on_resume="free")


def test_every_word_of_a_declaration_is_kept():
    message = {
        "read_by": ("eval", "sample"),
        "flag": "--max-tokens",
        "flag_of": ("eval",),
        "default_in": {"eval": "64"},
        "with_model": True,
        "on_resume": "moves",
        "resets": "other",
    }

    class Whole(Section):
        said_all: int = setting(1, **message, ge=0)
        said_none: int = setting(2)

    actual = {one.name: one.use for one in settings_of(Whole, "a.")}
    assert actual == {"a.said_all": Use(**message), "a.said_none": Use()}
    assert actual["a.said_none"].default_in == {}
    assert Whole().said_all + Whole().said_none == 3
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        Whole(said_all=-1)


def test_a_flag_is_a_parameter_of_the_commands_that_have_it():
    both = Use(("train", "eval"), "--max-tokens")
    assert (both.parameter("train"), both.parameter("eval")) == ("max_tokens",) * 2
    assert both.parameter("sample") is None
    assert Use(("train", "eval"), "MODEL", ("eval",)).parameter("eval") == "model"
    assert Use(("train", "eval"), "MODEL", ("eval",)).parameter("train") is None
    assert Use(("train",)).parameter("train") is None


def test_settings_flat_and_in_words():
    assert list(leaves({"a": 1, "b": {"c": 2, "d": {"e": 3}}})) == [
        ("a", 1),
        ("b.c", 2),
        ("b.d.e", 3),
    ]
    assert list(leaves({"a": {}})) == [("a", {})]
    cells = (("a", None), ("b", False), ("c", 0), ("d", 1.5), ("e", True))
    assert describe(cells) == "d 1.5, e True"
    assert str(Plain(share=0)) == "plain"
    assert over({"part": {"pair": (3, 4)}})["part"] == {"count": 1, "pair": (3, 4)}


class Shape(Choice):
    """A form with corners."""

    corners: int = 3
    """How many."""


class Flat(Shape):
    kind: Literal["flat", "even"] = "flat"
    corners: int = 4


class Solid(Shape):
    kind: Literal["solid"] = "solid"
    within: Plain | None = None
    """What is inside."""


class Listed(Section):
    part: Part = Part(count=5)
    shape: Annotated[Flat | Solid, Field(discriminator="kind")] = Solid(corners=9)
    form: Plain | Deep = Plain(kind="bare")
    word: Literal["a", "b"] | None = None
    """One
    of two."""
    number: int | None = 2
    many: dict[Literal["x"], str] = Field({})


def described(name, default, meaning, values=(), of=()):
    return name, default, meaning, values, of


def test_settings_are_listed_with_their_words_and_defaults():
    listing = [
        (one.name, one.default, one.meaning, one.values, one.kinds)
        for one in settings_of(Listed, "top.")
    ]
    assert listing == [
        described("top.part.count", 5, ""),
        described("top.part.pair", (1, 2), ""),
        described("top.shape", "solid", "A form with corners.", ("flat", "even", "solid")),
        described("top.shape.corners", 4, "How many.", (), ("flat", "even")),
        described("top.shape.corners", 9, "How many.", (), ("solid",)),
        described(
            "top.shape.within", None, "What is inside.", ("plain", "bare", "none"), ("solid",)
        ),
        described("top.shape.within.share", 0.5, ""),
        described("top.form", "bare", "", ("plain", "bare", "deep")),
        described("top.form.share", 0.5, "", (), ("plain", "bare")),
        described("top.form.share", 0.1, "", (), ("deep",)),
        described("top.form.floor", Deep.model_fields["floor"].default, "", (), ("deep",)),
        described("top.form.inner", "plain", "", ("plain", "bare"), ("deep",)),
        described("top.form.inner.share", 0.5, ""),
        described("top.word", None, "One of two.", ("a", "b", "none")),
        described("top.number", 2, ""),
        described("top.many", {}, ""),
    ]
