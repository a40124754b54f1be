"""Read untrusted YAML: plain values, bounded in size and depth, each key once, no aliases."""

import re
from typing import Any

import yaml

from rlvr_cli.core.text import DEEPEST, shortened

LARGEST_YAML = 100_000
"""Characters of a document at most; the parser takes about a second for them."""
_TEXT, _BOOL = "tag:yaml.org,2002:str", "tag:yaml.org,2002:bool"


class _Loader(yaml.SafeLoader):
    """Safe YAML in which only true and false are truth values, so that `off` is a word."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise _refused("aliases are not taken", event)
        if self.depth > DEEPEST:
            raise _refused(f"nested more than {DEEPEST} levels deep", event)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if key.tag != _TEXT or not isinstance(key, yaml.ScalarNode):
                raise _refused("a key that is no text", key)
            if key.value in seen:
                raise _refused(f"the key {shortened(key.value)} stands twice", key)
            seen.add(key.value)
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except Exception:  # such as an impossible date
            raise _refused("a value that its tag does not allow", node) from None


_Loader.yaml_implicit_resolvers = {
    start: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
    for start, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile("^(true|false)$"), list("tf"))


def load_yaml(text: str) -> Any:
    """Parse one YAML document. Raises ValueError, in one line and with its place if known."""
    if len(text) > LARGEST_YAML:
        raise ValueError(f"more than {LARGEST_YAML} characters of YAML")
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        reason = " ".join(str(getattr(error, "problem", error) or "no reason given").split())
        raise ValueError(f"{where}not valid YAML ({shortened(reason)})") from None


def _refused(reason: str, at: Any) -> yaml.MarkedYAMLError:
    return yaml.composer.ComposerError(None, None, reason, at.start_mark)
