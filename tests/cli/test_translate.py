"""A run of TRL or verl as one of this program: every key once, its value, and a run that has it."""

import ast
import importlib.util
import json
import shlex
from itertools import groupby
from pathlib import Path

import pytest
import yaml
from conftest import invoke, refused

from rlvr_cli.__main__ import _run
from rlvr_cli.config.foreign import foreign_table
from rlvr_cli.core.settings import leaves
from rlvr_cli.program.foreign_run import read_run, take_foreign
from rlvr_cli.program.translate import HEADINGS, translate

CASES = Path(__file__).parent / "cases" / "translated.jsonl"
FIELDS = Path(__file__).parents[1] / "config" / "cases"
"""Lists of the names of other programs' settings, which may grow by a version."""
ROWS = [json.loads(line) for line in CASES.read_text().splitlines()]
RUNS = {name: list(rows) for name, rows in groupby(ROWS, key=lambda row: row["run"])}


def words_of(rows) -> list[str]:
    """The run as verl's command line has it."""
    words = [f"{row['key']}={row['value']}" for row in rows if row["key"]]
    return ["python3", "-m", "verl.trainer.main_ppo", *(w.removesuffix("=") for w in words)]


def file_of(rows, directory: Path) -> Path:
    """The run as TRL's script reads it."""
    file = directory / "trl.yaml"
    file.write_text(yaml.safe_dump({row["key"]: row["value"] for row in rows if row["key"]}))
    return file


def settings_of_run(*words: object) -> dict[str, object]:
    """The settings that a command would run with, by dotted name."""
    shown = yaml.safe_load(invoke("train", *words, "--print-config").stdout)
    return {"data.chat": shown["data"]["chat"], **dict(leaves(shown))}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_translated_whole_and_what_follows_has_its_settings(name, tmp_path):
    rows = RUNS[name]
    words = ["--config", file_of(rows, tmp_path)] if name[:3] == "trl" else words_of(rows)
    out = tmp_path / "ours.yaml"
    message = invoke("train", "--translate", "--out", out, *words).stdout
    parts = {}
    for line in message.split("\n\n")[0].splitlines():
        if line in HEADINGS:
            heading = line
        else:
            key = line.split()[0]
            assert key not in parts, key
            parts[key] = heading
    for row in rows:
        if row["key"]:
            assert parts[row["key"].lstrip("+~")] == row["heading"], row
    line = next(line for line in message.splitlines() if line.startswith("rlvr train "))
    typed = shlex.split(line)[2:]
    run = settings_of_run(*typed)
    assert run == settings_of_run("--config", out)
    for row in rows:
        for setting, value in row["sets"].items():
            actual = run.get(setting)
            assert actual == pytest.approx(value) if type(value) is float else actual == value, row


def test_what_stands_nowhere_has_the_default_of_the_program():
    """verl's GAE, dual clip of 3 and 1024 problems; TRL's 8 x 1 / 8 problems, without KL."""
    verl = translate({"trainer.total_training_steps": 3}).settings
    assert verl["algorithm.advantage"] == "gae"
    assert verl["algorithm.surrogate"] == "dual_clip"
    assert verl["rollout.prompts"] == 1024
    trl = translate({"num_generations": 8}).settings
    assert trl["algorithm.kl"] == 0
    assert trl["rollout.prompts"] == 1


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("actor_rollout_ref.rollout.n=${data.samples}", "rollout.samples"),
        ("actor_rollout_ref.rollout.n='24'", "rollout.samples"),
        ("++actor_rollout_ref.rollout.n=24", "rollout.samples"),
    ],
)
def test_the_ways_of_hydra_to_write_a_value(entry, name):
    ours, entries = take_foreign([entry, "data.samples=24", "--lr", "1e-5"], {"--lr": True})
    assert ours == ["--lr", "1e-5"]
    entries["algorithm.adv_estimator"] = "grpo"
    assert translate(entries).settings[name] == 24


def test_a_script_is_read_with_its_variables_and_broken_lines(tmp_path):
    script = tmp_path / "run.sh"
    script.write_text(
        "set -x\nn_resp=6\nexport MODEL=Qwen/Qwen3-0.6B  # the policy\n"
        "python3 -m verl.trainer.main_ppo \\\n    algorithm.adv_estimator=grpo \\\n"
        '    actor_rollout_ref.model.path="$MODEL" \\\n'
        "    actor_rollout_ref.rollout.n=${n_resp} $@\n"
    )
    run = translate(read_run(script))
    assert run.settings["model"] == "Qwen/Qwen3-0.6B"
    assert run.settings["rollout.samples"] == 6
    assert len([key for key in run.keys if not key.here.startswith("not in the run")]) == 3


def test_a_script_computes_its_values_as_a_shell_does(tmp_path):
    """Sums, defaults of variables, variables in variables and in lists. What it does not know
    stays a text, for which a value is to be put in."""
    script = tmp_path / "run.sh"
    script.write_text(
        "longest=$((1024 * 3))\nbatch=${BATCH:-48}\nmini=$(( (batch - 16) / 4 ))\n"
        'ROOT=${ROOT:-"${PWD}"}\nDATA=/data\na=$DATA/a.parquet\n'
        "files=\"['$a', '$DATA/b.parquet']\"\n"
        "ray job submit -- python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\\n"
        '  data.max_response_length=${longest} data.train_files="$files" \\\n'
        "  data.train_batch_size=${batch} actor_rollout_ref.actor.ppo_mini_batch_size=$mini \\\n"
        "  reward_model.overlong_buffer.enable=True \\\n"
        "  reward_model.overlong_buffer.len=$((longest / 2 % 1000)) \\\n"
        "  actor_rollout_ref.rollout.n=$((2 ** 9)) actor_rollout_ref.model.path=${ROOT}/model\n"
    )
    run = translate(read_run(script))
    assert run.settings["rollout.max_tokens"] == 3072
    assert run.settings["rollout.prompts"] == 48
    assert run.settings["algorithm.mini_batches"] == 6
    assert run.settings["algorithm.overlong.cache"] == 536 / 3072
    assert run.settings["data.source"] == ("/data/a.parquet", "/data/b.parquet")
    here = {key.name.rpartition(".")[2]: key.here for key in run.keys}
    assert "must be a whole number" in here["n"]
    assert "put the value in" in here["path"]


def test_a_script_of_trl_has_each_of_its_flags(tmp_path):
    """Also those with `no` before them, and those that no program has. The launcher's are none."""
    script = tmp_path / "run.sh"
    script.write_text(
        "accelerate launch --config_file zero2.yaml --num_processes 4 train.py --use_vllm \\\n"
        "  --per_device_train_batch_size=8 --num_generations 16 --no_gradient_checkpointing \\\n"
        "  --colour blue --flavour=sweet --max_steps 40\n"
    )
    run = translate(read_run(script))
    assert run.settings["rollout.prompts"] == 2
    assert run.settings["optim.checkpointing"] == "off"
    assert run.settings["steps"] == 40
    unknown = [key.name for key in run.keys if key.heading == "is not known"]
    assert unknown == ["--colour", "--flavour"]
    assert "--config_file" not in {key.name for key in run.keys}


def test_references_that_grow_are_not_followed(tmp_path):
    """Thirty variables that each name the one before ten times: 10^30 characters."""
    lines = ["v0=x", *(f"v{i}={f'$v{i - 1}' * 10}" for i in range(1, 31))]
    script = tmp_path / "run.sh"
    script.write_text("\n".join([*lines, "python3 -m x algorithm.adv_estimator=grpo data.y=$v30"]))
    assert len(str(read_run(script)["data.y"])) < 100_000


def test_nested_sections_of_a_file_are_keys_of_their_own(tmp_path):
    file = tmp_path / "verl.yaml"
    file.write_text(
        "algorithm: {adv_estimator: grpo, filter_groups: {enable: true, metric: seq_reward}}\n"
        "data: {gen_batch_size: 96, train_batch_size: 32, apply_chat_template_kwargs: {a: 1}}\n"
        "actor_rollout_ref: {rollout: {n: 3}, actor: {_target_: verl.X, ppo_mini_batch_size: 8}}\n"
    )
    run = translate(read_run(file))
    assert run.settings["algorithm.filter.metric"] == "reward"
    assert run.settings["algorithm.mini_batches"] == 4
    assert run.settings["data.chat"] == {"a": 1}


def test_foreign_flags_are_answered_together(capsys):
    assert _run(["train", "--num_generations", "6", "--beta", "0.1", "--epochs=2"]) == 2
    message = capsys.readouterr().err
    assert "--num_generations is --samples here" in message
    assert "--beta is --kl here" in message
    assert "--epochs is --set algorithm.epochs=… here" in message
    assert "--translate" in message
    assert _run(["train", "actor_rollout_ref.rollout.n=8", "data.limit=3"]) == 2
    message = capsys.readouterr().err
    assert "actor_rollout_ref.rollout.n is --samples here" in message
    assert "data.limit is --set data.limit=… here" in message


def test_a_foreign_file_is_refused_with_all_its_answers(tmp_path):
    file = tmp_path / "trl.yaml"
    file.write_text("beta: 0.1\nnum_generations: 6\nseed: 3\n")
    message = refused("train", "--config", file)
    assert "beta is --kl here; num_generations is --samples here; add --translate" in message


def test_flags_of_ours_go_with_the_translation_and_win():
    message = invoke("train", "gsm8k", "--translate", "--beta", "0.1", "--kl", "0.2").stdout
    (line,) = [line for line in message.splitlines() if line.startswith("rlvr train gsm8k ")]
    assert "--kl 0.2 " in line
    assert "--beta 0.1: --kl 0.1" in message
    assert "not named there: --model (tiny if left out), --steps (100 if left out)" in message


def test_no_file_is_overwritten_and_nothing_to_translate_is_said(tmp_path):
    out = tmp_path / "there.yaml"
    out.write_text("mine")
    assert "there.yaml" in refused("train", "--translate", "--beta", "1", "--out", out)
    assert out.read_text() == "mine"
    assert "give a file" in refused("train", "--translate")


@pytest.mark.parametrize("list_", ["trl-1.16-grpo-config.txt", "verl-0.9.1-defaults.txt"])
def test_every_setting_of_the_other_program_is_answered(list_):
    names = (FIELDS / list_).read_text().split()
    table = foreign_table()
    assert len(names) > 180
    assert [name for name in names if table.name_of(name) is None] == []


def test_the_list_of_trl_is_that_of_its_source():
    """Of the installed version: the fields of GRPOConfig and of what it inherits, read as text."""
    if importlib.util.find_spec("trl") is None:
        pytest.skip("trl is not installed, whose fields the list has")
    names = set()
    for package, file, class_name in (
        ("trl", "trainer/grpo_config.py", "GRPOConfig"),
        ("trl", "trainer/base_config.py", "_BaseConfig"),
        ("transformers", "training_args.py", "TrainingArguments"),
    ):
        root = Path(importlib.util.find_spec(package).origin).parent
        for node in ast.parse((root / file).read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name == class_name:
                names |= {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}
    table = foreign_table()
    assert [name for name in names if table.name_of(name) is None] == []
    assert names == {*(FIELDS / "trl-1.16-grpo-config.txt").read_text().split()}


STRANGE = [10**400, "1e999", [[1]], {"a": {}}, "\x1b[2J", "${x}"]


@pytest.mark.parametrize("key", ["num_generations", "max_steps", "loss_type", "beta", "data"])
@pytest.mark.parametrize("value", STRANGE, ids=range(len(STRANGE)))
def test_a_strange_value_is_told_and_breaks_nothing(key, value):
    run = translate({key: value, "learning_rate": 0.001})
    assert [row.name for row in run.keys][:2] == [key, "learning_rate"]
    assert run.command.startswith("rlvr train ")
    assert yaml.safe_load(run.yaml)["optim.lr"] == 0.001
