"""Every setting is read somewhere."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import rlvr_cli
from rlvr_cli.config import SETTINGS, Config, overlay
from rlvr_cli.core.settings import Choice, Section, kinds
from rlvr_cli.program import resolve

ALIASES = {
    ("algo", "algorithm"),
    ("renewal", "reference"),
    ("correction", "importance_correction"),
    ("correction", "weight"),
}
"""Names of the program for a section of another name."""


def parts(of: type[Section] = Config, name: str = "config") -> Iterator[tuple[str, type[Section]]]:
    """Every section and every class of a choice by the name of its field; the top is `config`."""
    yield name, of
    for key, field in of.model_fields.items():
        for part in classes(field.annotation):
            yield from parts(part, key)


def classes(annotation: object) -> list[type[Section]]:
    """The sections and choices that a field of this type can hold."""
    if isinstance(annotation, type) and issubclass(annotation, Choice):
        return [*dict.fromkeys(kinds(annotation).values())]
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [actual for part in get_args(annotation) for actual in classes(part)]


def last_name(node: ast.AST | None) -> str | None:
    """`c` of the expression `a.b.c`, `a` of `a`."""
    return getattr(node, "attr", getattr(node, "id", None))


def reads(tree: ast.AST) -> set[tuple[str, str]]:
    """(section, setting) of every `…section.setting` in a module, and of every `x.setting` where
    `x` is annotated with the section's type or assigned from `…section`; also of a dump that
    includes it, `section.model_dump(include={"setting"})`."""
    nodes = list(ast.walk(tree))
    types = {kind.__name__: name for name, kind in parts()}
    named = {(name, name) for name, _ in parts()} | ALIASES
    for node in nodes:
        if isinstance(node, ast.arg):
            # The section of `config: Section | None` is the left one.
            section = last_name(getattr(node.annotation, "left", node.annotation))
            if section in types:
                named.add((node.arg, types[section]))
        elif isinstance(node, ast.Assign):
            left, right = node.targets[0], node.value
            pairs = zip(
                getattr(left, "elts", [left]), getattr(right, "elts", [right]), strict=False
            )
            named |= {(last_name(to), last_name(of)) for to, of in pairs}
        elif isinstance(node, ast.NamedExpr):
            named.add((last_name(node.target), last_name(node.value)))
    actual = {
        (last_name(node.value), node.attr) for node in nodes if isinstance(node, ast.Attribute)
    }
    for node in nodes:
        if isinstance(node, ast.Call) and last_name(node.func) == "model_dump":
            for word in node.keywords:
                if word.arg == "include" and isinstance(word.value, ast.Set):
                    actual |= {
                        (last_name(node.func.value), key) for key in ast.literal_eval(word.value)
                    }
    return {(name, key) for of, key in actual for alias, name in named if alias == of}


def test_every_setting_is_read_somewhere():
    package = Path(rlvr_cli.__file__).parent
    actual = set()
    for path in package.rglob("*.py"):
        if path.name not in ("sections.py", "choices.py", "kinds.py", "main.py"):
            actual |= reads(ast.parse(path.read_text()))
    actual |= {(name, "source") for name, key in actual if key == "sources"}  # one, as a list
    actual |= {(name, "importance_correction") for name, key in actual if key == "correction"}
    actual |= {("kl", "function")}  # `custom_functions`
    for name, part in parts():
        if (name, "fields") in actual:  # the component takes them all: algorithm/test_choices.py
            continue
        settings = set(part.model_fields) - {"kind"}
        assert {key for key in settings if (name, key) not in actual} == set(), name


def test_a_setting_is_not_read_because_another_has_its_name():
    module = "every = config.eval.every\noptim, b = self.optim, 1\nprint(optim.lr, 'data.root')"
    assert {("eval", "every"), ("optim", "lr")} <= reads(ast.parse(module))
    assert not {("checkpoint", "every"), ("data", "root")} & reads(ast.parse(module))


def test_what_resolves_settings_names_none():
    """A rule for one setting stands where the setting is declared."""
    dotted = {name for name in SETTINGS if "." in name}
    for module in (resolve, overlay):
        texts = [
            node.value
            for node in ast.walk(ast.parse(Path(module.__file__).read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        assert texts
        assert not {name for name in dotted for text in texts if name in text}, module.__name__
