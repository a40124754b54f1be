"""Settings: layers, names, and what a run saves."""

import ast
import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

import rlvr_cli
from rlvr_cli.algorithm.presets import ALGORITHMS
from rlvr_cli.cli.resolve import resolve_again
from rlvr_cli.config import (
    Config,
    Layer,
    as_yaml,
    changed_cells,
    flag_layer,
    resolve,
    set_layer,
    yaml_layer,
)
from rlvr_cli.core.types import UserError


def test_later_layers_win_and_cells_of_the_preset_can_be_changed():
    config = resolve(
        [
            Layer("file", {"algo": "grpo", "optim": {"lr": 0.5, "grad_clip": 2}}),
            flag_layer("optim.lr", 0.25),
            *set_layer(["algorithm.clip_high=0.3", "rollout.prompts=4"]),
        ]
    )
    assert (config.optim.lr, config.optim.grad_clip, config.rollout.prompts) == (0.25, 2, 4)
    assert config.algorithm == ALGORITHMS["grpo"].model_copy(update={"clip_high": 0.3})
    assert changed_cells(config) == {"clip_high": (0.2, 0.3)}


def test_a_saved_configuration_gives_the_same_run(tmp_path):
    config = resolve(set_layer(["algo=grpo", "algorithm.kl_coef=0.1", "optim.betas=[0.9, 0.95]"]))
    path = tmp_path / "config.yaml"
    path.write_text(as_yaml(config))
    assert resolve([yaml_layer(path)]) == config


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("rollout.promts=3", "did you mean rollout.prompts?"),
        ("zzz=1", "zzz is not a setting; known: algo, steps"),
        ("optim=3", "optim is a section; set one of optim.lr"),
        ("steps", "write it as section.key=value"),
        ("steps=0", "steps: input should be greater than or equal to 1, not 0"),
        ("algorithm.clip_low=1.5", "algorithm.clip_low: input should be less than or equal to 1"),
        ("algorithm.kl=k3", "set both or neither"),
        ("rollout.samples=1", "a group of one has no advantage"),
        ("rollout.top_p=0.9", "rollout.top_p must be 1 in training"),
        ("algorithm.mini_batches=100", "does not divide"),
        ("optim.lr=.inf", "optim.lr: input should be a finite number"),
        ("optim.betas=[2, 3]", "optim.betas: input should be less than 1"),
        ("algo=[1]", "no such algorithm"),
    ],
)
def test_a_bad_setting_names_itself(assignment, message):
    with pytest.raises(UserError, match=re.escape(message)) as error:
        resolve(set_layer([assignment]))
    assert "Traceback" not in str(error.value)


def test_another_algorithm_brings_its_whole_row():
    saved = Layer("file", resolve(set_layer(["algo=dapo", "algorithm.clip_low=0.1"])).model_dump())
    config = resolve([saved, flag_layer("algo", "grpo"), *set_layer(["algorithm.clip_low=0.3"])])
    assert config.algorithm == ALGORITHMS["grpo"].model_copy(update={"clip_low": 0.3})
    assert resolve([saved]).algorithm.clip_low == 0.1


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_schedule_over_all_steps_keeps_their_number(tmp_path, schedule):
    config = resolve(set_layer([f"optim.schedule={schedule}", "steps=4"]))
    (tmp_path / "config.yaml").write_text(as_yaml(config))
    assert resolve_again(tmp_path, {"steps": 4}, None) == config
    for flags, assignments in (({"steps": 8}, None), ({}, ["steps=8"])):
        with pytest.raises(UserError, match=f"steps cannot change with optim.schedule {schedule}"):
            resolve_again(tmp_path, flags, assignments)


@pytest.mark.parametrize("algo", ["dapo", "grpo", "ppo"])
def test_cells_of_a_file_that_names_no_algorithm_hold_for_any(algo):
    file = Layer("file", {"algorithm": {"clip_high": 0.4}})
    config = resolve([file, flag_layer("algo", algo)])
    assert config.algorithm == ALGORITHMS[algo].model_copy(update={"clip_high": 0.4})
    assert changed_cells(config)["clip_high"] == (ALGORITHMS[algo].clip_high, 0.4)


def test_another_prompt_drops_the_verifier_of_the_one_before():
    model = Layer("model", {"data": {"prompt": "plain", "verifier": "think_answer"}})
    assert resolve([model]).data.verifier == "think_answer"
    boxed = flag_layer("data.prompt", "boxed")
    assert resolve([model, boxed]).data.verifier is None
    assert resolve([model, boxed, *set_layer(["data.verifier=any"])]).data.verifier == "any"
    assert model.values["data"]["verifier"] == "think_answer"  # the layer itself is as it was


def test_the_order_of_set_does_not_matter():
    pairs = ["data.verifier=any", "data.prompt=boxed", "algorithm.clip_high=0.4", "algo=grpo"]
    config = resolve([flag_layer("algo", "dapo"), *set_layer(pairs)])
    assert config == resolve([flag_layer("algo", "dapo"), *set_layer(pairs[::-1])])
    assert (config.data.verifier, config.algorithm.clip_high) == ("any", 0.4)


def test_off_is_a_word_and_not_a_truth_value():
    assert resolve(set_layer(["algorithm.overlong=off"])).algorithm.overlong == "off"
    assert resolve(set_layer(["data.skip_bad=true"])).data.skip_bad is True


def test_a_bad_file_is_named(tmp_path):
    path = tmp_path / "c.yaml"
    for text, message in [
        ("a: [", "line 1: not valid YAML"),
        ("- 1", "a mapping of settings is expected"),
        ("rolout: {}", "did you mean rollout?"),
    ]:
        path.write_text(text)
        with pytest.raises(UserError, match=re.escape(message)):
            resolve([yaml_layer(path)])
    with pytest.raises(UserError, match="cannot be read"):
        yaml_layer(tmp_path / "none.yaml")


def sections() -> dict[str, type[BaseModel]]:
    """The parts of the configuration by name; what stands on top is the part `config`."""
    fields = {name: field.annotation for name, field in Config.model_fields.items()}
    nested = {n: a for n, a in fields.items() if isinstance(a, type) and issubclass(a, BaseModel)}
    return {"config": Config, **nested}


def last_name(node: ast.AST | None) -> str | None:
    """`c` of the expression `a.b.c`, `a` of `a`."""
    return getattr(node, "attr", getattr(node, "id", None))


def reads(tree: ast.AST) -> set[tuple[str, str]]:
    """(section, setting) of every `…section.setting` in a module, and of every `x.setting` where
    `x` is annotated with the section's type or assigned from `…section`."""
    nodes = list(ast.walk(tree))
    types = {kind.__name__: name for name, kind in sections().items()}
    named = {(name, name) for name in sections()}
    for node in nodes:
        if isinstance(node, ast.arg) and last_name(node.annotation) in types:
            named.add((node.arg, types[last_name(node.annotation)]))
        elif isinstance(node, ast.Assign):
            left, right = node.targets[0], node.value
            pairs = zip(
                getattr(left, "elts", [left]), getattr(right, "elts", [right]), strict=False
            )
            named |= {(last_name(to), last_name(of)) for to, of in pairs}
    return {
        (name, node.attr)
        for node in nodes
        if isinstance(node, ast.Attribute)
        for alias, name in named
        if alias == last_name(node.value)
    }


def test_every_setting_is_read_somewhere():
    package = Path(rlvr_cli.__file__).parent
    found = set()
    for path in package.rglob("*.py"):
        if path.name not in ("config.py", "presets.py", "main.py"):
            found |= reads(ast.parse(path.read_text()))
    settings = {(name, key) for name, kind in sections().items() for key in kind.model_fields}
    assert settings - found - {("config", name) for name in sections()} == set()


def test_a_setting_is_not_read_because_another_has_its_name():
    module = "every = config.eval.every\noptim, b = self.optim, 1\nprint(optim.lr, 'data.root')"
    assert {("eval", "every"), ("optim", "lr")} <= reads(ast.parse(module))
    assert not {("checkpoint", "every"), ("data", "root")} & reads(ast.parse(module))


def test_the_presets_are_those_of_the_papers():
    dapo, grpo = ALGORITHMS["dapo"], ALGORITHMS["grpo"]
    assert (dapo.clip_low, dapo.clip_high, dapo.aggregation) == (0.2, 0.28, "token_mean")
    assert (dapo.kl, dapo.group_filter, dapo.overlong) == ("none", "mixed", "soft")
    assert (grpo.clip_low, grpo.clip_high, grpo.aggregation) == (0.2, 0.2, "sequence_mean")
    assert (grpo.kl, grpo.group_filter, grpo.overlong) == ("k3", "none", "off")


def test_the_shipped_training_settings_of_tiny_are_valid():
    path = Path(rlvr_cli.__file__).parent / "tiny" / "rlvr.yaml"
    assert resolve([yaml_layer(path)]).model == "tiny"
    assert yaml.safe_load(path.read_text())["data"] == {
        "prompt": "plain",
        "verifier": "think_answer",
    }
