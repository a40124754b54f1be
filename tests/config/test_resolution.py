"""Layers of settings, names, and what a run saves."""

import re
from pathlib import Path

import pytest
import yaml

import rlvr_cli
from rlvr_cli.algorithm.choices import ALGORITHMS
from rlvr_cli.algorithm.filters import Mixed
from rlvr_cli.algorithm.kinds import SoftOverlong
from rlvr_cli.algorithm.objective import Cispo, Clip
from rlvr_cli.config import (
    MODEL_SETTINGS,
    Assignment,
    as_yaml,
    flag_layer,
    flags_of,
    layer,
    overrides,
    resolve,
    run_layer,
    set_layer,
    setting_at,
    yaml_layer,
)
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.yaml_text import LARGEST_YAML
from rlvr_cli.program.resolve import load_again


def test_later_layers_win_and_cells_of_the_preset_can_be_changed():
    config = resolve(
        [
            *layer("file", {"algo": "grpo", "optim": {"lr": 0.5, "grad_clip": 2}}),
            *flag_layer("optim.lr", 0.25),
            *set_layer(["algorithm.surrogate.high=0.3", "rollout.prompts=4"]),
        ]
    )
    assert (config.optim.lr, config.optim.grad_clip, config.rollout.prompts) == (0.25, 2, 4)
    assert config.algorithm == ALGORITHMS["grpo"].model_copy(update={"surrogate": Clip(high=0.3)})
    assert overrides(config) == {"surrogate.high": (0.2, 0.3)}


def test_a_saved_configuration_gives_the_same_run(tmp_path):
    config = resolve(set_layer(["algo=grpo", "algorithm.kl.coef=0.1", "optim.betas=[0.9, 0.95]"]))
    path = tmp_path / "config.yaml"
    path.write_text(as_yaml(config))
    assert resolve(yaml_layer(path)) == config


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("rollout.promts=3", "did you mean rollout.prompts?"),
        ("zzz=1", "zzz is not a setting; known: algo, steps"),
        ("optim=3", "optim is a section; set one of optim.lr"),
        ("steps", "write it as section.key=value"),
        ("steps=0", "steps must be 1 or more, not 0"),
        (
            "algorithm.surrogate.low=1.5",
            "algorithm.surrogate.low must be 1 or less, not 1.5",
        ),
        (
            "algorithm.importance_correction=trun",
            "cannot be 'trun'; choose from auto, truncate, sequence_truncate, mask, sequence_mask, "
            "geometric_mask, none",
        ),
        ("algorithm.surrogate=[1]", "algorithm.surrogate cannot be [1]; choose from"),
        ("algorithm.filter={}", "algorithm.filter cannot be {}; choose from"),
        ("algorithm.kl=[k3]", "algorithm.kl cannot be ['k3']; choose from"),
        ("algorithm.advantage=[my.py:f]", "algorithm.advantage cannot be ['my.py:f']; choose"),
        ("rollout.samples=1", "a group of one has no advantage"),
        ("rollout.top_p=0.9", "rollout.top_p must be 1 in training"),
        ("algorithm.top_entropy=1", "algorithm.top_entropy must be less than 1, not 1"),
        ("optim.lr=.inf", "optim.lr must be a finite number"),
        ("optim.betas=[2, 3]", "optim.betas must be less than 1"),
        ("algo=[1]", "no such algorithm"),
        ("data.limit=true", "data.limit must be a number, not True"),
        ("steps=x", "steps must be a whole number, not 'x'"),
        ("data.skip_bad=maybe", "data.skip_bad must be true or false, not 'maybe'"),
        ("data.source=[]", "data.source must be a text, not []"),
    ],
)
def test_a_bad_setting_names_itself(assignment, message):
    with pytest.raises(UserError, match=re.escape(message)) as error:
        resolve(set_layer([assignment]))
    assert "Traceback" not in str(error.value)


def test_a_group_of_two_can_be_mixed():
    assert resolve(set_layer(["algo=dapo", "rollout.samples=2"])).rollout.samples == 2
    with pytest.raises(UserError, match="a group of one is never mixed; sample 2 or more"):
        resolve(set_layer(["algo=ppo", "algorithm.filter=mixed", "rollout.samples=1"]))


def test_another_algorithm_brings_its_whole_row():
    saved = layer(
        "file", resolve(set_layer(["algo=dapo", "algorithm.surrogate.low=0.1"])).model_dump()
    )
    config = resolve(
        [*saved, *flag_layer("algo", "grpo"), *set_layer(["algorithm.surrogate.low=0.3"])]
    )
    assert config.algorithm == ALGORITHMS["grpo"].model_copy(update={"surrogate": Clip(low=0.3)})
    assert resolve(saved).algorithm.surrogate.low == 0.1


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_schedule_over_all_steps_keeps_their_number(tmp_path, schedule):
    config = resolve(set_layer([f"optim.schedule={schedule}", "steps=4"]))
    (tmp_path / "config.yaml").write_text(as_yaml(config))
    assert load_again(tmp_path, {"steps": 4}, None) == config
    for flags, assignments in (({"steps": 8}, None), ({}, ["steps=8"])):
        with pytest.raises(UserError, match=f"steps cannot change with optim.schedule {schedule}"):
            load_again(tmp_path, flags, assignments)


@pytest.mark.parametrize("algo", ["dapo", "grpo", "ppo"])
def test_cells_of_a_file_that_names_no_algorithm_hold_for_any(algo):
    file = layer("file", {"algorithm": {"surrogate": {"high": 0.4}}})
    config = resolve([*file, *flag_layer("algo", algo)])
    assert config.algorithm == ALGORITHMS[algo].model_copy(update={"surrogate": Clip(high=0.4)})
    assert overrides(config) == {"surrogate.high": (ALGORITHMS[algo].surrogate.high, 0.4)}


def test_another_prompt_drops_the_answer_format_of_the_one_before():
    model = layer("model", {"data": {"prompt": "plain", "answer_format": "think_answer"}})
    assert resolve(model).data.answer_format == "think_answer"
    boxed = flag_layer("data.prompt", "boxed")
    assert resolve([*model, *boxed]).data.answer_format is None
    assert (
        resolve([*model, *boxed, *set_layer(["data.answer_format=any"])]).data.answer_format
        == "any"
    )


def test_the_order_of_set_does_not_matter():
    pairs = [
        "data.answer_format=any",
        "data.prompt=boxed",
        "algorithm.surrogate.high=6",
        "algo=grpo",
    ]
    pairs.insert(2, "algorithm.surrogate=cispo")
    config = resolve([*flag_layer("algo", "dapo"), *set_layer(pairs)])
    assert config == resolve([*flag_layer("algo", "dapo"), *set_layer(pairs[::-1])])
    assert config.data.answer_format == "any"
    assert config.algorithm.surrogate == Cispo(high=6)


def test_off_is_a_word_and_not_a_truth_value():
    assert resolve(set_layer(["data.source=off"])).data.source == "off"
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
            resolve(yaml_layer(path))
    with pytest.raises(UserError, match="cannot be read"):
        yaml_layer(tmp_path / "none.yaml")


def test_the_presets_are_those_of_the_papers():
    dapo, grpo = ALGORITHMS["dapo"], ALGORITHMS["grpo"]
    assert (dapo.surrogate, dapo.aggregation) == (Clip(low=0.2, high=0.28), "token_mean")
    assert (dapo.kl, dapo.filter, dapo.overlong) == (None, Mixed(), SoftOverlong())
    assert (grpo.surrogate, grpo.aggregation) == (Clip(low=0.2, high=0.2), "sequence_mean")
    assert (grpo.kl.kind, grpo.filter, grpo.overlong) == ("k3", None, None)


def test_the_shipped_training_settings_of_tiny_are_valid():
    path = Path(rlvr_cli.__file__).parent / "tiny" / "rlvr.yaml"
    assert resolve(yaml_layer(path)).model == "tiny"
    assert yaml.safe_load(path.read_text())["data"] == {
        "prompt": "plain",
        "answer_format": "think_answer",
    }


def test_the_use_of_a_setting_is_its_own_or_that_of_its_section():
    assert setting_at("data.prompt").use.resets == "data.answer_format"
    assert setting_at("guards.max_kl").use.on_resume == "free"  # the section says it for all
    assert setting_at("data.chat.enable_thinking").name == "data.chat"
    assert setting_at("algorithm.kl.kind").name == "algorithm.kl"
    assert setting_at("nonsense.prompt") is None
    assert setting_at("") is None
    assert flags_of("eval")["max_tokens"].name == "rollout.max_tokens"
    assert flags_of("eval")["samples"].name == "eval.samples"
    assert flags_of("train")["samples"].name == "rollout.samples"
    assert None not in flags_of("train")
    assert set(MODEL_SETTINGS["data"]) == {"prompt", "system", "chat", "answer_format"}
    assert MODEL_SETTINGS["seed"] is True


def test_a_flag_is_quoted_as_it_was_given():
    assert flag_layer("steps", 3) == [Assignment("steps", 3, "--steps 3")]
    assert flag_layer("data.limit", 3) == [Assignment("data.limit", 3, "--limit 3")]
    fields = {"problem": "q", "id": "n"}
    assert flag_layer("data.fields", fields)[0].origin == "--field problem=q id=n"
    assert flag_layer("data.source", ("a", "b"))[0].origin == "DATA a b"


def test_a_key_without_a_name_and_a_value_that_is_no_yaml():
    for assignment in ("=3", " =3", "steps"):
        with pytest.raises(UserError, match=r"write it as section\.key=value"):
            set_layer([assignment])
    assert set_layer(["data.where=[a"]) == [Assignment("data.where", "[a", "--set data.where=[a")]
    keys = [item.origin for item in set_layer(["a.b.c=1", "a.b=1", "data.prompt=p", "a.kind=1"])]
    assert keys == ["--set data.prompt=p", "--set a.kind=1", "--set a.b=1", "--set a.b.c=1"]


def test_what_must_be_an_algorithm_and_what_has_an_end():
    for given, message in ((3, "3"), ("x" * 200, "x" * 100 + "…")):
        with pytest.raises(
            UserError, match=f"--algo {message}: no such algorithm; choose from ppo, "
        ):
            resolve([Assignment("algo", given, "here")])
    assert resolve([]).algo == "dapo"
    assert list(yaml.safe_load(as_yaml(resolve([]))))[:3] == ["algo", "steps", "seed"]
    assert resolve(set_layer(["data.source=[a, b]"])).data.sources == ("a", "b")
    assert resolve([]).data.sources == ("chains",)


def test_a_file_is_named_by_its_flag_or_by_its_own_origin(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("seed: 3\noptim: {lr: 0.5}\n")
    origin = f"--config {file}"
    assert yaml_layer(file) == [Assignment("seed", 3, origin), Assignment("optim.lr", 0.5, origin)]
    assert {item.origin for item in yaml_layer(file, "a run")} == {"a run"}
    for empty in ("", "#" * LARGEST_YAML):
        file.write_text(empty)
        assert yaml_layer(file) == []


def test_only_the_users_own_file_may_be_no_regular_one(tmp_path):
    (tmp_path / "c.yaml").write_text("seed: 3\n")
    link = tmp_path / "link.yaml"
    link.symlink_to("/dev/null")
    assert [*yaml_layer(link)] == []
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


KEYS = (
    "https://user:secret@host/v1",
    "https://secret@host/v1",
    "user:secret@host/v1",
    "https://host/v1?api_key=secret",
    "https://host/v1#secret",
    "https://user:se?cret@host/v1",
)


@pytest.mark.parametrize("url", KEYS)
def test_a_key_in_the_endpoint_is_refused_wherever_it_is_given_and_not_shown(url, tmp_path):
    (tmp_path / "c.yaml").write_text(f"server:\n  endpoint: '{url}'\n")
    for assignments in (
        set_layer([f"server.endpoint={url}"]),
        set_layer([f"server={{endpoint: '{url}', gone: 1}}"]),
        set_layer({"server.endpoint": url}),
        flag_layer("server.endpoint", url),
        yaml_layer(tmp_path / "c.yaml"),
    ):
        with pytest.raises(UserError, match="a key does not belong into the URL") as refused:
            resolve(assignments)
        assert "secret" not in str(refused.value)
        assert "cret" not in str(refused.value)


def test_a_run_of_02_is_read_unless_a_removed_setting_decided_something(tmp_path):
    """`eval.votes: valid` stands in every one of them, and is what `rlvr eval` does today."""
    stored = tmp_path / "config.yaml"
    stored.write_text("algo: dapo\nalgorithm: {kl: null}\neval: {limit: 7, votes: valid}\n")
    keys = [assignment.key for assignment in run_layer(tmp_path, "--from")]
    assert sorted(keys) == ["algo", "algorithm.kl", "eval.limit"]
    assert resolve(run_layer(tmp_path, "--from")).eval.limit == 7
    stored.write_text("algo: dapo\neval: {votes: all}\n")
    with pytest.raises(UserError, match=r"eval\.votes: it was removed"):
        resolve(run_layer(tmp_path, "--from"))
    typed = tmp_path / "typed.yaml"
    typed.write_text("eval: {votes: valid}\n")
    with pytest.raises(UserError, match=r"eval\.votes: it was removed"):
        resolve(yaml_layer(typed))


def test_a_stored_key_in_the_endpoint_is_left_out_and_said(tmp_path, capsys):
    (tmp_path / "config.yaml").write_text("server: {endpoint: 'https://me:secret@host/v1'}\n")
    assert resolve(run_layer(tmp_path, "show")).server.endpoint == "https://host/v1"
    said = capsys.readouterr().err
    assert said.endswith("config.yaml: server.endpoint is read without its key\n")
    assert "secret" not in said
