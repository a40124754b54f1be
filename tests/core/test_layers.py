"""Settings of one source: what it sets, and which files it can be read from."""

import pytest

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.layers import Layer, yaml_layer
from rlvr_cli.core.yaml_text import LARGEST_YAML


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ([], True),
        (["a"], True),
        (["a", "b"], True),
        (["a", "b", "c"], False),
        (["a", "z"], False),
        (["text", "t"], False),
        (["z"], False),
    ],
)
def test_a_path_is_set_where_every_part_of_it_is_there(path, expected):
    assert Layer("here", {"a": {"b": None}, "text": "t"}).sets(path) is expected


def test_a_file_is_named_by_its_flag_or_by_its_own_origin(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("seed: 3\noptim: {lr: 0.5}\n")
    assert yaml_layer(file) == Layer(f"--config {file}", {"seed": 3, "optim": {"lr": 0.5}})
    assert yaml_layer(file, "a run").origin == "a run"
    for empty in ("", "#" * LARGEST_YAML):
        file.write_text(empty)
        assert yaml_layer(file).values == {}


def test_only_the_users_own_file_may_be_no_regular_one(tmp_path):
    (tmp_path / "c.yaml").write_text("seed: 3\n")
    link = tmp_path / "link.yaml"
    link.symlink_to("/dev/null")
    assert yaml_layer(link).values == {}
    with pytest.raises(UserError, match=r"^a run: cannot be read"):
        yaml_layer(link, "a run")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"seed: \xff", "cannot be read ("),
        (b"- 1", "a mapping of settings is expected"),
        (b"0", "a mapping of settings is expected"),
        (b"a: [", "line 1: not valid YAML"),
        (b"#" * (LARGEST_YAML + 1), "more than 100000 characters"),
    ],
)
def test_a_file_that_holds_no_settings_is_one_line(tmp_path, content, message):
    file = tmp_path / "c.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError) as refused:
        yaml_layer(file, "here")
    assert str(refused.value).startswith(f"here: {message}")
    assert "\n" not in str(refused.value)
