"""A step in words: the numbers are those of the files."""

import json

import pytest
from small_runs import made_metrics, made_run, made_tokens, write_rows

from rlvr_cli.algorithm.choices import ALGORITHMS
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.show.explain import explain
from rlvr_cli.show.screen import show_responses
from rlvr_cli.show.source import open_source


def printed(capsys, run, step=None, group=None) -> str:
    explain(open_source(run), step, group, Display(stderr=False))
    return " ".join(capsys.readouterr().out.split())


def test_each_part_of_a_step_has_its_numbers(tmp_path, capsys):
    run = made_run(tmp_path / "run", "rollout.max_tokens=15", "algorithm.overlong.cache=0.2")
    text = printed(capsys, run)
    for part in (
        "Step 2 of",
        "answered 2 problems 4 times each, in 1 round: 92 tokens.",
        "7 wrong, 1 correct",
        "Its rewards' mean is -0.583",  # 1, -1, -1, -1 - 1/3 for 13 tokens, over 12 of 15
        "advantages are by group_normalized (deviation sample",
        "1 wrong: 1 is not the gold answer 7 -1.000 -0.500 11",
        "2 wrong: 2 is not the gold answer 7 -1.000 -0.390 12",
        "Of 2 groups: 1 trained, 1 dropped, all wrong (algorithm.filter mixed",
        "1 trained in this step, 0 wait for the next.",
        "The surrogate is clip (low 0.2, high 0.28). Its bound was at work on 1.00% of the tokens.",
        "Kept are 5 tokens of 2 responses: 3 had become likelier when the update last saw them, 0 "
        "less likely, 2 had not moved (none has before the first update).",
        '"<script>alert(1)</scrip 1.0 -4.000 1.300 1.500 0.500 "é" 1.0 -3.000 1.200 1.500 0.500',
        "averaged by token_mean. In this group the longest response has 13 of 46 tokens.",
        "A response ends at 15 tokens; overlong is soft (cache 0.2). 0 of 8 responses were cut",
        "was 0.002 nats a token from the one that sampled",
        "The entropy was 0.500 nats, over the tokens that the update passed.",
    ):
        assert part in text
    assert "Take group 2" in printed(capsys, run, 1, 2)


def test_a_response_that_was_not_passed_has_null(tmp_path, capsys):
    run = made_run(tmp_path / "run")
    tokens = [made_tokens(0, "7", "8"), {**made_tokens(1, "1"), "figures": None}]
    (run / "rollouts" / "tokens-step-000002.json").write_text(json.dumps(tokens))
    text = printed(capsys, run)
    assert "Kept are 2 tokens of 1 response: 1 had become likelier" in text
    assert (
        "The update did not pass 1 further response, whose advantages are 0: the figures of their "
        "tokens are null." in text
    )
    assert "1 wrong: 1 is not the gold answer 7 -1.000 -0.500 11" in text  # by its reward


def test_tokens_with_advantages_of_their_own_are_shown(tmp_path, capsys):
    run = made_run(tmp_path / "ppo", "algo=ppo")
    tokens = made_tokens(1, "a", "b", advantage=[-0.25, 0.75])
    for step in (1, 2):
        (run / "rollouts" / f"tokens-step-{step:06d}.json").write_text(json.dumps([tokens]))
    text = printed(capsys, run)
    assert "-1.000 -0.250 to +0.750 11" in text
    assert "advantages are by gae (" in text
    assert "KL: k1 (" in text


@pytest.mark.parametrize("algo", sorted(ALGORITHMS))
def test_each_algorithm_is_told_by_its_settings(tmp_path, capsys, algo):
    algorithm = ALGORITHMS[algo]
    teacher = ["teacher=other"] if algorithm.has_teacher else []
    text = printed(capsys, made_run(tmp_path / "run", f"algo={algo}", *teacher))
    for choice in (algorithm.advantage, algorithm.surrogate, algorithm.aggregation):
        assert str(choice) in text


def test_groups_that_waited_and_a_step_without_an_update(tmp_path, capsys):
    run = made_run(tmp_path / "run")
    (run / "rollouts" / "tokens-step-000001.json").unlink()
    metrics = made_metrics(1, no_update="no signal", groups_trained=3, groups_carried=1)
    write_rows(run / "metrics.jsonl", [metrics])
    text = printed(capsys, run)
    assert "3 trained in this step, 1 wait for the next." in text
    assert "No update: no signal." in text
    assert "Kept are" not in text


def test_a_step_or_group_that_is_not_there(tmp_path, capsys):
    run = made_run(tmp_path / "run")
    with pytest.raises(UserError, match="--group 3: step 2 of "):
        printed(capsys, run, None, 3)
    (run / "metrics.jsonl").unlink()
    with pytest.raises(UserError, match="no finished step with responses"):
        printed(capsys, run)


def test_a_step_that_sampled_nothing_is_passed_over(tmp_path, capsys):
    run = made_run(tmp_path / "run")
    (run / "rollouts" / "step-000002.jsonl").write_text("")
    assert "Step 1 of" in printed(capsys, run)
    with pytest.raises(UserError, match=r"step 2 of .* sampled none; it trained groups"):
        printed(capsys, run, 2)
    with pytest.raises(UserError, match=r"no response with --step 2$"):
        show_responses(open_source(run), 2, None, None, None, Display())
