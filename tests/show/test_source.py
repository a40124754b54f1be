"""What a run or a result left on disk, as it is read to be shown."""

import json
import os

import pytest
from small_runs import made_result, made_row, made_run, made_tokens, write_rows

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Response
from rlvr_cli.data.rows import JudgedRow
from rlvr_cli.show.source import (
    StoredGroup,
    grouped,
    open_source,
    reason,
)
from verifiers import Verdict


def responses_of(rows: list[dict], **changed) -> tuple[Response, ...]:
    """The responses of these rows, with some of their values changed."""
    return tuple(JudgedRow.model_validate(row | changed).answered for row in rows)


def test_the_groups_of_a_run(tmp_path):
    run = open_source(made_run(tmp_path / "run"))
    groups = list(run.groups())
    assert [(item.step, item.number, item.right, item.fate) for item in groups] == [
        (1, 1, 1, "trained"),
        (1, 2, 0, "dropped, all wrong"),
        (2, 1, 1, "trained"),
        (2, 2, 0, "dropped, all wrong"),
    ]
    assert [figures.step for figures in run.metrics] == [1, 2]
    assert [problem.tally.correct for problem in run.held_out()[""]] == [1] * 6
    assert [problem.tally.correct for problem in run.held_out(before_training=True)[""]] == [0] * 6


def test_one_problem_twice_is_two_groups_and_what_is_not_judged_no_signal(tmp_path):
    config = open_source(made_run(tmp_path / "run")).config
    rows = [made_row("a", n, "timeout") for n in (0, 1, 0, 1)]
    first, second = grouped(responses_of(rows))
    assert (len(first), len(second)) == (2, 2)
    assert StoredGroup(3, 1, first, config).fate == "not judged"
    rows = [made_row("a", 0, "correct"), made_row("a", 1, "timeout")]
    (right,) = grouped(responses_of(rows))
    assert StoredGroup(3, 1, right, config).fate == "dropped, all right"
    assert StoredGroup(0, 1, right).fate == ""


def test_what_a_custom_reward_paid_trained_whatever_its_verdict(tmp_path):
    config = open_source(made_run(tmp_path / "run", "algo=grpo")).config
    rows = [made_row("a", n, "unparseable_gold", reward=float(n)) for n in range(4)]
    group = StoredGroup(3, 1, responses_of(rows), config)
    assert (group.fate, len(group.judged)) == ("trained", 4)
    assert [reward for reward, _ in group.scores.values()] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("settings", "rewards", "expected"),
    [
        (("rollout.max_tokens=99",), [1, -1, -1, -1], [1.5, -0.5, -0.5, -0.5]),
        (
            ("rollout.max_tokens=12", "algorithm.overlong.cache=0.5"),
            [1 - 4 / 6, -1 - 5 / 6, -2, -2],
            [1.4964, -0.4015, -0.5475, -0.5475],
        ),
        (("algo=dr_grpo",), [1, -1, -1, -1], [1.5, -0.5, -0.5, -0.5]),
        (("algo=ppo",), [1, -1, -1, -1], [None] * 4),
    ],
)
def test_rewards_and_advantages_are_those_of_the_run(tmp_path, settings, rewards, expected):
    run = open_source(made_run(tmp_path / "run", *settings))
    actual = next(run.groups()).scores
    assert [item for item, _ in actual.values()] == pytest.approx(rewards)
    assert [item for _, item in actual.values()] == pytest.approx(expected, abs=1e-4)


def test_what_trains_is_what_the_filter_of_the_run_lets_through(tmp_path):
    rows = [made_row("a", n, "correct", rewards={"math": n}) for n in range(2)]
    config = open_source(made_run(tmp_path / "run")).config
    assert StoredGroup(1, 1, responses_of(rows), config).fate == "dropped, all right"
    config = open_source(made_run(tmp_path / "own", "algorithm.filter.metric=math")).config
    assert StoredGroup(1, 1, responses_of(rows), config).fate == "trained"
    long = StoredGroup(1, 1, responses_of(rows, n_tokens=2**31 - 1), config)
    assert long.scores == {0: (0.0, 0.0), 1: (0.0, 0.0)}  # a penalty of 1 each
    odd = StoredGroup(1, 1, responses_of(rows, rewards=[7]), config)
    assert odd.fate == "dropped, all right"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (json.dumps([made_tokens(0, "a", ratio=[])]), "0: its lists are not of one length"),
        (json.dumps([made_tokens(0, "a", entropy=["x"])]), "0.figures.entropy.0 must be a"),
        (json.dumps([made_tokens(0, "a", more=[1])]), "0: its figures are not logprob, ratio"),
        ("[" * 2000, "cannot be read .not a JSON object"),
    ],
)
def test_tokens_are_read_whole_or_not_at_all(tmp_path, bad, message):
    run = open_source(made_run(tmp_path / "run"))
    assert [(item.sample, item.text[:3]) for item in run.tokens(1)[1]] == [
        (0, ["7", "", "é"]),
        (1, ["1"]),
    ]
    assert run.tokens(7) == {}
    (run.path / "rollouts" / "tokens-step-000002.json").write_text(
        json.dumps([{**made_tokens(0, "a"), "figures": None}])
    )
    assert run.tokens(2)[1][0].figures is None
    (run.path / "rollouts" / "tokens-step-000001.json").write_text(bad)
    with pytest.raises(UserError, match=f"tokens-step-000001.json: {message}"):
        run.tokens(1)


def test_a_result_and_a_file_of_rows(tmp_path):
    result = made_result(tmp_path / "result")
    for path in (result, result / "report.json", result / "responses" / "set--model.jsonl"):
        source = open_source(path)
        assert source.config is None
        assert [problem.tally.correct for problem in source.held_out()[""]] == [2, 0, 1]


def test_results_of_several_models_stay_apart(tmp_path):
    """Also where two sets call different problems by one id."""
    result = made_result(tmp_path / "result")
    rows = [made_row("a", 0, "wrong"), made_row("a", 1, "wrong")]
    write_rows(result / "responses" / "set--other.jsonl", rows)
    listing = [{"model": name, "data": "set", "fingerprint": {}} for name in ("model", "other")]
    (result / "report.json").write_text(json.dumps({"results": listing}))
    source = open_source(result)
    rights = {
        name: [problem.tally.correct for problem in actual]
        for name, actual in source.held_out().items()
    }
    assert rights == {"model on set": [2, 0, 1], "other on set": [0]}
    groups = [(first.number, first.result, first.right) for first in source.groups()]
    assert [number for number, *_ in groups] == [1, 2, 3, 4]
    assert groups[-1] == (4, "other on set", 0)
    piped = [{**row, "model": model} for model in ("m", "n") for row in rows]
    write_rows(tmp_path / "piped.jsonl", piped)
    assert list(open_source(tmp_path / "piped.jsonl").held_out()) == ["m", "n"]


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_has_a_reason(verdict):
    (response,) = responses_of([made_row("a", 3, verdict.value)])
    assert reason(response)
    if verdict is Verdict.WRONG:
        assert reason(response) == "3 is not the gold answer 7"


def test_what_is_neither_is_said(tmp_path):
    (tmp_path / "unfinished").mkdir()
    with pytest.raises(UserError, match="not finished; give its rlvr eval command again"):
        open_source(tmp_path)
    with pytest.raises(UserError, match="neither a run"):
        open_source(tmp_path / "nothing")


def test_metrics_in_no_file_are_an_error(tmp_path):
    run = open_source(made_run(tmp_path / "run"))
    (run.path / "metrics.jsonl").unlink()
    assert run.metrics == []
    os.mkfifo(run.path / "metrics.jsonl")
    with pytest.raises(UserError, match=r"metrics.jsonl: cannot be read \(not a regular file\)"):
        _ = run.metrics
