"""Read untrusted YAML: plain values, bounded in size and depth, each key once, no aliases."""

import re
from typing import Any

import yaml

from rlvr_cli.core.text import DEEPEST, shortened

LARGEST_YAML = 100_000
"""Characters: the parser takes about a second for so many."""
_TEXT, _BOOL = "tag:yaml.org,2002:str", "tag:yaml.org,2002:bool"


class BadYamlError(ValueError):
    """A text is not YAML as it is accepted here; with its line if known."""


class _Loader(yaml.SafeLoader):
    """Safe YAML in which only true and false are truth values, so that `off` is a word."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise _refused("aliases are not taken", event.start_mark)
        if self.depth > DEEPEST:
            raise _refused(f"nested more than {DEEPEST} levels deep", event.start_mark)
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if key.tag != _TEXT or not isinstance(key, yaml.ScalarNode):
                raise _refused("a key that is no text", key.start_mark)
            if key.value in seen:
                raise _refused(f"the key {shortened(key.value)} stands twice", key.start_mark)
            seen.add(key.value)
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except Exception:  # such as an impossible date
            raise _refused("a value that its tag does not allow", node.start_mark) from None


_Loader.yaml_implicit_resolvers = {
    start: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
    for start, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile("^(true|false)$"), list("tf"))


def load_yaml(text: str) -> Any:
    """Parse one YAML document. Raises BadYamlError."""
    if len(text) > LARGEST_YAML:
        raise BadYamlError(f"more than {LARGEST_YAML} characters of YAML")
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise BadYamlError(f"{where}not valid YAML ({_line(error.problem)})") from None
    except yaml.YAMLError as error:
        raise BadYamlError(f"not valid YAML ({_line(error)})") from None


def _refused(reason: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.composer.ComposerError(None, None, reason, mark)


def _line(reason: object) -> str:
    return shortened(" ".join(str(reason or "no reason given").split()))
