"""What people type who come from other programs."""

import re

import pytest
from typer.main import get_command

from rlvr_cli.__main__ import _run
from rlvr_cli.cli.main import app
from rlvr_cli.cli.resolve import OTHER_FLAGS, foreign_answer, resolve
from rlvr_cli.config import SETTINGS, Config
from rlvr_cli.config.foreign import foreign_names
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.settings import described

ROWS = list(described(Config))
TRIED = [
    *("--learning-rate", "--learning_rate", "--batch-size", "--num-generations"),
    *("--beta", "--output-dir", "--max-steps", "--epochs"),
    *("--dtype", "--report-to", "--wandb", "--lora-r"),
    *("--gradient-checkpointing", "--system-prompt", "--prompt", "--reward"),
    *("--eval-every", "--push-to-hub", "--name", "--device"),
]
"""What people type who come from TRL."""


def flags() -> set[str]:
    return {option for one in get_command(app).commands["train"].params for option in one.opts}


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


def test_what_foreign_names_stand_for_exists_or_is_said_to_be_missing():
    known = {row.name for row in ROWS} | {use.flag for use in SETTINGS.values()} | OTHER_FLAGS
    names, _ = foreign_names()
    missing = {ours for ours in names if ours not in known}
    assert missing <= {"--track", "--reward"}
    for ours, (name, *_) in names.items():
        said = "no counterpart here yet" if ours in missing else f"{ours}"
        assert said in foreign_answer(name)
    assert foreign_answer("zzz") is None


@pytest.mark.parametrize(
    ("assignment", "answer"),
    [
        ("beta=0.1", "beta is --kl here"),
        ("actor_rollout_ref.actor.optim.lr=1", "actor_rollout_ref.actor.optim.lr is --lr here"),
        ("algorithm.beta=1", "algorithm.beta is --kl here"),
        ("data.train_files=x", "data.train_files is DATA here"),
        ("critic_lr=1", "critic_lr is not a setting; did you mean optim.critic_lr?"),
        ("lr=1", "lr is not a setting; did you mean optim.lr?"),
        ("micro_token=1", "micro_token is not a setting; did you mean optim.micro_tokens?"),
        ("every=1", "every is not a setting; did you mean one of algorithm.kl.reference.every"),
    ],
)
def test_a_name_that_is_not_ours_is_answered(assignment, answer):
    with pytest.raises(UserError, match=re.escape(f"--set {assignment}: {answer}")):
        resolve({}, None, [assignment], "train")
