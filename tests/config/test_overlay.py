"""One layer of settings over another, and the answer to a name that is none."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from rlvr_cli.__main__ import _run
from rlvr_cli.cli.main import app
from rlvr_cli.config import Config
from rlvr_cli.config.foreign import foreign_answer, foreign_names
from rlvr_cli.config.overlay import assign, nested
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.settings import leaves, settings_of
from rlvr_cli.program.resolve import load


@pytest.mark.parametrize(
    ("top", "message"),
    [
        ({"lr": 1}, "lr is not a setting; did you mean optim.lr?"),
        ({"optim": {"lrr": 1}}, "optim.lrr is not a setting; did you mean optim.lr?"),
        ({"micro_token": 1}, "micro_token is not a setting; did you mean optim.micro_tokens?"),
        ({"guard": {"max_kl": 1}}, "guard is not a setting; did you mean guards?"),
        ({"actor": {"zz": {"zy": 1}}}, "actor is not a setting; known: algo"),
        ({"actor": {"optim": {"lr": 1}}}, "actor.optim.lr is --lr here"),
    ],
)
def test_an_unknown_name_says_what_may_be_meant(top, message):
    ((key, value),) = leaves(top)
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        assign(Config, {}, key, value)


def test_free_names_are_merged_one_by_one():
    values = {}
    for key, value in (("data.chat", {"a": 1, "b.c": 2}), ("data.chat.b.c", 3), ("data.chat", {})):
        assign(Config, values, key, value)
    assert nested(values.items())["data"]["chat"] == {"a": 1, "b.c": 3}
    assign(Config, values, "data.chat", 3)
    assign(Config, values, "data.chat.a", 2)
    assert values["data.chat"] == {"a": 2}


ROWS = list(settings_of(Config))
TRIED = [
    "--learning-rate",
    "--learning_rate",
    "--batch-size",
    "--num-generations",
    "--beta",
    "--output-dir",
    "--max-steps",
    "--epochs",
    "--dtype",
    "--report-to",
    "--wandb",
    "--lora-r",
    "--gradient-checkpointing",
    "--system-prompt",
    "--prompt",
    "--reward",
    "--eval-every",
    "--push-to-hub",
    "--name",
    "--device",
    "--delta",
    "--num-epochs",
    "--multi_objective_aggregation",
    "--clip_ratio_c",
    "--use_kl_in_reward",
    "--critic_warmup",
    "--norm_adv_by_std_in_grpo",
    "--overlong_buffer_len",
    "--filter_groups",
    "--tools",
    "--repetition_penalty",
    "--vllm_server_host",
    "--deepspeed",
    "--load_in_4bit",
    "--use_liger_kernel",
    "--off_policy_mask_threshold",
    "--use_bias_correction_kl",
    "--val_before_train",
    "--cast_lm_head_to_fp32",
    "--generation_kwargs",
    "--shuffle_dataset",
    "--num_generations_eval",
    "--vllm_tensor_parallel_size",
]
"""What people type who come from TRL."""


def flags() -> set[str]:
    commands = get_command(app).commands.values()
    return {option for command in commands for item in command.params for option in item.opts}


@pytest.mark.parametrize("flag", TRIED)
def test_every_flag_that_people_try_is_known_or_answered(flag, capsys):
    if flag in flags():
        return
    assert _run(["train", flag, "1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    answer = re.fullmatch(rf"rlvr: error: {flag}(:| is| has) (.*) \(rlvr train --help\)", line)
    assert answer, line
    for named in re.findall(r"--[a-z-]+", answer[2]):
        assert named in flags()


def test_what_foreign_names_stand_for_exists():
    expected = {row.name for row in ROWS} | flags() | {"DATA"}
    assert {ours for ours in foreign_names() if ours not in expected and " " not in ours} == set()
    for ours, (name, *_) in foreign_names().items():
        assert ours in foreign_answer(name)
    assert foreign_answer("zzz") is None


def test_what_is_counted_otherwise_is_said_with_its_arithmetic():
    """TRL 1.16: 8 responses a device x 4 steps of generation / 8 samples are 4 problems."""
    sentences = [ours for ours in foreign_names() if " " in ours]
    told = {name for item in sentences for name in foreign_names()[item]}
    assert {"epsilon", "scale_rewards", "steps_per_generation", "warmup_ratio"} <= told
    message = foreign_answer("per_device_train_batch_size")
    assert message.startswith("per_device_train_batch_size: --prompts counts problems: devices x ")
    assert foreign_answer("report_to") == "report_to is --track here"
    settings = {name for text in sentences for name in re.findall(r"--set ([\w.]+)=", text)}
    assert settings <= {row.name for row in ROWS}


def test_each_foreign_name_in_the_tables_of_the_page_is_answered():
    """Words in backticks of the columns of TRL and verl, without a class, a command or a value."""
    page = Path(__file__).parents[2] / "docs" / "coming-from.md"
    rows = [line.split("|")[1:3] for line in page.read_text().splitlines() if line[:2] == "| "]
    named = [word for row in rows[1:] for cell in row for word in re.findall(r"`([^`]+)`", cell)]
    names = [re.split("[=,]", part)[0] for word in named for part in word.split(", ")]
    tried = [name for name in names if re.fullmatch(r"[a-z][\w.]+", name) and name.islower()]
    assert {"beta", "norm_adv_by_std_in_grpo", "scale_rewards", "train_batch_size"} <= {*tried}
    assert [name for name in tried if foreign_answer(name) is None] == []


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("delta", "--set algorithm.surrogate=dual_clip --set algorithm.surrogate.dual=… here"),
        ("push_to_hub", "rlvr export RUN --push NAME"),
        ("fp16", "--set optim.precision=float16 --set rollout.precision=float16 here"),
        ("bf16", "--set optim.precision=bfloat16 --set rollout.precision=bfloat16 here"),
        ("torch_dtype", "is --set optim.precision=… here"),
        ("num_epochs", "an epoch is problems / --prompts of them"),
        ("multi_objective_aggregation", "is --set algorithm.advantage.normalization=… here"),
        ("use_kl_in_reward", "is --set algorithm.kl.place=… here"),
    ],
)
def test_a_foreign_name_is_answered_by_what_does_the_same(name, answer):
    assert answer in foreign_answer(name)


@pytest.mark.parametrize(
    ("assignment", "answer"),
    [
        ("beta=0.1", "beta is --kl here"),
        ("actor_rollout_ref.actor.optim.lr=1", "actor_rollout_ref.actor.optim.lr is --lr here"),
        ("algorithm.beta=1", "algorithm.beta is --kl here"),
        ("data.train_files=x", "data.train_files is DATA here"),
        ("critic_lr=1", "critic_lr is not a setting; did you mean optim.critic_lr?"),
        ("rollout.seeded=true", "rollout.seeded: it was removed: every response has a seed"),
        (
            "algorithm.filter.surplus=abort",
            "algorithm.filter.surplus: it was removed: groups beyond",
        ),
        ("rollout.tensor_parallel=2", "rollout.tensor_parallel: it was removed: each GPU has"),
        ("lr=1", "lr is not a setting; did you mean optim.lr?"),
        ("micro_token=1", "micro_token is not a setting; did you mean optim.micro_tokens?"),
        ("every=1", "every is not a setting; did you mean one of algorithm.kl.reference.every"),
    ],
)
def test_a_name_that_is_not_ours_is_answered(assignment, answer):
    with pytest.raises(UserError, match=re.escape(f"--set {assignment}: {answer}")):
        load("train", {}, [assignment])
