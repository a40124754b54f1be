"""YAML of strangers: plain values as JSON has them, each mistake one line."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_cli.core.text import DEEPEST
from rlvr_cli.core.yaml_text import LARGEST_YAML, load_yaml

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40)
@given(PLAIN)
def test_what_was_written_as_yaml_is_read_back(value):
    assert load_yaml(written(value)) == value


def written(value):
    """As YAML without aliases, words that are no truth values among them in quotes."""

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data):
            return True

    return yaml.dump(value, Dumper=Dumper, allow_unicode=False)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", "off"),
        ("yes", "yes"),
        ("True", "True"),
        ("true", True),
        ("false", False),
        ("[on, true]", ["on", True]),
        ("truely", "truely"),
        ("0x10", 16),
        ("1e-3", "1e-3"),
        ("1.0e-3", 0.001),
        ("", None),
        ("a: {b: 1}", {"a": {"b": 1}}),
    ],
)
def test_values_as_they_are_meant(text, value):
    assert load_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: &x 2\nc: *x\n", r"^line 3: not valid YAML \(aliases are not taken\)$"),
        ("a: 1\na: 2\n", r"^line 2: .*the key a stands twice"),
        ("x: {a: 1, a: 2}\n", "the key a stands twice"),
        ("1: 2\n", "a key that is no text"),
        ("? [a]\n: 1\n", "a key that is no text"),
        ("a: !!int x\n", "a value that its tag does not allow"),
        ("a: !!python/name:os.system\n", "not valid YAML"),
        ("a: [\n", "^line 2: not valid YAML"),
        ("a\0", "^not valid YAML"),
        ("a\n---\nb\n", "not valid YAML"),
    ],
)
def test_what_is_not_taken_is_one_line_with_its_place(text, message):
    with pytest.raises(ValueError, match=message) as refused:
        load_yaml(text)
    assert "\n" not in str(refused.value)


def test_bounds_of_depth_and_size():
    load_yaml("[" * DEEPEST + "1" + "]" * DEEPEST)
    load_yaml("[" + "[1], " * 2 * DEEPEST + "]")
    with pytest.raises(ValueError, match=f"nested more than {DEEPEST} levels deep"):
        load_yaml("[" * (DEEPEST + 1) + "1" + "]" * (DEEPEST + 1))
    assert load_yaml("#" * LARGEST_YAML) is None
    with pytest.raises(ValueError, match=f"^more than {LARGEST_YAML} characters of YAML$"):
        load_yaml("#" * (LARGEST_YAML + 1))
