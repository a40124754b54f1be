"""A step in words: the numbers are those of the files."""

import json

import pytest
from small_runs import made_metrics, made_row, made_run, made_tokens, write_rows

from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.show.explain import explain
from rlvr_cli.show.source import open_source


def said(capsys, run, step=None, group=None) -> str:
    explain(open_source(run), step, group, Display(stderr=False))
    return " ".join(capsys.readouterr().out.split())


def test_each_part_of_a_step_has_its_numbers(tmp_path, capsys):
    run = made_run(tmp_path / "run", "rollout.max_tokens=15", "algorithm.overlong.cache=0.2")
    text = said(capsys, run)
    for part in (
        "Step 2 of",
        "answered 2 problems 4 times each, in 1 round: 92 tokens.",
        "7 wrong, 1 correct",
        "rewards' mean is -0.583",  # 1, -1, -1, -1 - 1/3 for 13 tokens, over 12 of 15
        "by group_normalized sample 0 has +1.500.",  # as recorded; here it would be 1.484
        "1 wrong: 1 is not the gold answer 7 -1.000 -0.500 11",
        "2 wrong: 2 is not the gold answer 7 -1.000 -0.390 12",
        "All tokens of a response share its advantage.",
        "Of 2 groups 1 were alike in accuracy (1 all wrong)",
        "until 32 are not. 1 came, 1 trained, 0 wait for the next step",
        "Above 1.28 (for an advantage > 0) or below 0.8",
        "That was so for 1.00% of the tokens.",
        "Kept are 5 tokens of 2 responses: 3 had become likelier when the update last saw them, 0 "
        "less likely, 2 had not moved (none has before the first update); the clip took the "
        "gradient of 2.",
        '"<script>alert(1)</scrip 1.0 -4.000 1.300 1.500 0.500 "é" 1.0 -3.000 1.200 1.500 0.500',
        "13 of 46 tokens: it weighs 28.3%, by its tokens (by sequence_mean 25.0%).",
        "From 12 tokens on the reward falls, by 1 at 15: 2 were that long. 0 of 8",
        "was 0.002 nats a token from the one that sampled",
    ):
        assert part in text
    assert "Take group 2" in said(capsys, run, 1, 2)


def test_an_advantage_is_worked_out_where_the_update_saw_it_so(tmp_path, capsys):
    text = said(capsys, made_run(tmp_path / "run"))
    # Rewards 1, -1, -1, -1: mean -1/2, deviation 1.
    assert "sample 0 has (1 - (-0.500)) / 1.000 = +1.500." in text


def test_tokens_with_advantages_of_their_own_are_said_and_shown(tmp_path, capsys):
    run = made_run(tmp_path / "ppo", "algo=ppo")
    own = made_tokens(1, "a", "b", advantage=[-0.25, 0.75])
    for step in (1, 2):
        (run / "rollouts" / f"tokens-step-{step:06d}.json").write_text(json.dumps([own]))
    text = said(capsys, run)
    assert "Each token has an advantage of its own, by GAE" in text
    assert "-1.000 -0.250 to +0.750 11" in text
    assert "From the rewards goes 0.005 times the k1 estimate of the KL divergence." in text
    few = said(capsys, made_run(tmp_path / "few", "algorithm.top_entropy=0.2"))
    assert "The 20% tokens of highest entropy have it; the others have 0." in few


def test_groups_that_waited_are_counted_and_what_the_filter_looks_at_is_named(tmp_path, capsys):
    by_reward = "algorithm.filter={kind: mixed, metric: reward}"
    run = made_run(tmp_path / "run", by_reward)
    rows = [made_row("b", n, "wrong", reward=n / 10) for n in range(4)]
    write_rows(run / "rollouts" / "step-000002.jsonl", rows)
    write_rows(run / "metrics.jsonl", [made_metrics(2, groups_trained=3, groups_carried=1)])
    assert "Of 1 group 0 were alike in reward (1 all wrong)" in (text := said(capsys, run))
    assert "3 had waited since earlier steps, 1 came, 3 trained, 1 waits" in text


@pytest.mark.parametrize(
    ("algo", "words"),
    [
        ("grpo", "it weighs 25.0%, as each does (by tokens it would be 28.3%). To the loss comes"),
        ("dr_grpo", "averaged by constant_length. In this group the longest response has 13 of 46"),
        ("reinforce", "There is no ratio and no clip: a token's gradient is weighed by its adv"),
    ],
)
def test_each_algorithm_is_told_as_it_is(tmp_path, capsys, algo, words):
    assert words in said(capsys, made_run(tmp_path / "run", f"algo={algo}"))


def test_other_algorithms_and_a_step_without_an_update(tmp_path, capsys):
    run = made_run(tmp_path / "run", "algo=dr_grpo")
    (run / "rollouts" / "tokens-step-000001.json").unlink()
    write_rows(run / "metrics.jsonl", [made_metrics(1, no_update="no signal")])
    text = said(capsys, run)
    assert "by group_centered sample 0 has +1.500." in text
    assert "without dynamic sampling they stay" in text
    assert "No update: no signal." in text
    assert "Kept are" not in text
    assert "also depend on the batch" in said(capsys, made_run(tmp_path / "ppo", "algo=ppo"))


def test_a_step_or_group_that_is_not_there(tmp_path, capsys):
    run = made_run(tmp_path / "run")
    with pytest.raises(UserError, match="--group 3: step 2 of "):
        said(capsys, run, None, 3)
    (run / "metrics.jsonl").unlink()
    with pytest.raises(UserError, match="no finished step with responses"):
        said(capsys, run)
