"""Read untrusted YAML: plain values, bounded in size and depth, each key once, no aliases."""

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import read_regular, reading
from rlvr_cli.core.text import DEEPEST, first_mistake, one_line, shortened

T = TypeVar("T", bound=BaseModel)

LARGEST_YAML = 100_000
"""Characters of a document at most. The parser takes about a second for them."""
_Resolvers = list[tuple[str, re.Pattern[str]]]
_TEXT = "tag:yaml.org,2002:str"
_BOOL = "tag:yaml.org,2002:bool"


class _Loader(yaml.SafeLoader):
    """Safe YAML in which only true and false are truth values, so that `off` is a word."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise _refused("aliases are not taken", event)
        if self.depth > DEEPEST:
            raise _refused(f"nested more than {DEEPEST} levels deep", event)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        if isinstance(node, yaml.MappingNode):
            _check_keys(node.value)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        try:
            return super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except Exception:  # such as an impossible date
            raise _refused("a value that its tag does not allow", node) from None


class _FastLoader(_Loader):
    """The same, with the reader of libyaml, which takes a fifth of the time."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        from yaml._yaml import CParser

        events = CParser(stream)
        for name in ("check_event", "peek_event", "get_event"):
            setattr(self, name, getattr(events, name))


def _check_keys(pairs: Sequence[tuple[yaml.Node, yaml.Node]]) -> None:
    """Raise ComposerError for a key that is not a text, or that occurs twice."""
    names = set()
    for key, _ in pairs:
        if key.tag != _TEXT or not isinstance(key, yaml.ScalarNode):
            raise _refused("a key that is no text", key)
        if key.value in names:
            raise _refused(f"the key {shortened(key.value)} stands twice", key)
        names.add(key.value)


def _without_bool(resolvers: _Resolvers) -> _Resolvers:
    return [resolver for resolver in resolvers if resolver[0] != _BOOL]


_Loader.yaml_implicit_resolvers = {
    start: _without_bool(resolvers)
    for start, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile("^(true|false)$"), list("tf"))


def load_yaml(text: str) -> Any:
    """Parse one YAML document. Raises ValueError, in one line and with its place if known."""
    if len(text) > LARGEST_YAML:
        raise ValueError(f"more than {LARGEST_YAML} characters of YAML")
    if yaml.__with_libyaml__:
        with suppress(yaml.YAMLError):  # the reader in Python says what is wrong
            return yaml.load(text, _FastLoader)
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        reason = one_line(getattr(error, "problem", error) or "no reason given")
        raise ValueError(f"{place}not valid YAML ({shortened(reason)})") from None


def read_yaml(path: Path, schema: type[T]) -> T:
    """Read a YAML file of a schema. Raises UserError, in one line."""
    with reading(path):
        text = read_regular(path, LARGEST_YAML).decode()
    try:
        return schema.model_validate(load_yaml(text))
    except ValueError as error:
        raise UserError(f"{path}: {first_mistake(error)}") from None


def _refused(reason: str, at: Any) -> yaml.MarkedYAMLError:
    return yaml.composer.ComposerError(None, None, reason, at.start_mark)
