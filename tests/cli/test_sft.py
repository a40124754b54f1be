"""`rlvr train --algo sft`: the responses of the rows, in the engine's place."""

import json

import pytest

from rlvr_cli.core.errors import UserError
from rlvr_cli.program.resolve import load

EXAMPLES = [
    {"problem": f"What is {n} + 4?", "response": f"<think>{n} + 4 = {n + 4}</think>"}
    for n in range(3, 9)
]
SETTINGS = ("--set", "eval.limit=0", "--set", "optim.warmup_steps=0")
FLAGS = ("--algo", "sft", "--prompts", "6", *SETTINGS)


def jsonl(rows: list[dict]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_the_rows_responses_become_likelier_and_a_resume_is_exact(rlvr, tmp_path):
    (tmp_path / "rows.jsonl").write_text(jsonl(EXAMPLES))
    result = rlvr("train", "rows.jsonl", *FLAGS, "--steps", "4", "--out", "whole")
    assert result.returncode == 0, result.stderr
    assert "6 rows with their responses" in result.stderr
    assert "golds" not in result.stderr
    history = [json.loads(line) for line in result.stdout.splitlines()]
    losses = [row["loss"] for row in history]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.8 * losses[0]
    texts = {row["response"] for row in EXAMPLES}
    written = (tmp_path / "whole" / "rollouts" / "step-000001.jsonl").read_text().splitlines()
    assert {json.loads(line)["response"] for line in written} == texts
    # No gold answer is needed, and none judged: all rows train.
    assert all(row["tokens_trained"] == row["tokens_sampled"] for row in history)
    assert {row["pass@1"] for row in history} == {None}

    rlvr("train", "rows.jsonl", *FLAGS, "-n", "1", "--steps", "2", "--out", "half")
    # Its one response a problem is no setting of a command that does not train.
    for command in ("eval", "sample"):
        assert load(command, {"model": str(tmp_path / "half")}).rollout.samples == 8
    with pytest.raises(UserError, match="a group of one has no advantage"):
        load("train", {"model": str(tmp_path / "half")})
    resumed = rlvr("train", "--resume", "half", "--steps", "4")
    assert resumed.returncode == 0, resumed.stderr
    (_, last) = [json.loads(line) for line in resumed.stdout.splitlines()]
    assert last["loss"] == history[-1]["loss"]

    changed = [*EXAMPLES[:-1], {**EXAMPLES[-1], "response": "another"}]
    (tmp_path / "rows.jsonl").write_text(jsonl(changed))
    refused = rlvr("train", "--resume", "half", "--steps", "6")
    assert refused.returncode == 2
    assert "are not those that the run began with" in refused.stderr


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"problem": "What is 1 + 1?", "answer": 2}, "no field response, which --algo sft learns"),
        ({"problem": "What is 1 + 1?", "response": ["2"]}, "field response is not a text"),
        ({"problem": "What is 1 + 1?", "response": " "}, "field response is not a text"),
    ],
)
def test_a_row_without_a_response_is_named(rlvr, tmp_path, row, message):
    (tmp_path / "rows.jsonl").write_text(jsonl([EXAMPLES[0], row]))
    result = rlvr("train", "rows.jsonl", *FLAGS)
    assert result.returncode == 2
    assert f"rows.jsonl:2: {message}" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_response_that_is_too_long_is_named(rlvr, tmp_path):
    (tmp_path / "rows.jsonl").write_text(
        jsonl([EXAMPLES[0], {**EXAMPLES[1], "response": "1" * 99}])
    )
    result = rlvr("train", "rows.jsonl", *FLAGS)
    assert result.returncode == 2
    assert (
        "1 response longer than --max-tokens 80, first rows.jsonl-2: its response" in result.stderr
    )


def test_right_responses_of_a_run_are_rows_to_learn_from(rlvr, tmp_path):
    """Rejection sampling in two commands: eval, and sft on the rows that are right."""
    actual = rlvr("eval", "chains", "--limit", "16", "-n", "2", "--max-tokens", "70")
    right = [row for row in map(json.loads, actual.stdout.splitlines()) if row["reward"] == 1]
    assert right
    (tmp_path / "right.jsonl").write_text(jsonl(right))
    result = rlvr("train", "right.jsonl", *FLAGS, "--steps", "1", "--out", "run")
    assert result.returncode == 0, result.stderr
    (row,) = map(json.loads, result.stdout.splitlines())
    assert row["pass@1"] == 1
    ours = (tmp_path / "run" / "rollouts" / "step-000001.jsonl").read_text().splitlines()
    responses = {row["response"] for row in right}
    assert {json.loads(line)["response"] for line in ours} <= responses
    # The same tokens as were sampled, with the end token
    assert {json.loads(line)["n_tokens"] for line in ours} <= {row["n_tokens"] for row in right}
