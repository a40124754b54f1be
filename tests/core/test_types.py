"""What a group of responses says of itself."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_groups import LATE, RIGHT, WRONG, made_group, made_prompt, made_rollout

from rlvr_cli.core.carried import groups_as_json, groups_from_json
from rlvr_cli.core.types import Completion, Group, Problem, Rollout
from verifiers import Verdict


@pytest.mark.parametrize(
    ("verdicts", "is_mixed", "judged"),
    [
        ((RIGHT, WRONG), True, 2),
        ((RIGHT, RIGHT), False, 2),
        ((WRONG, WRONG), False, 2),
        ((RIGHT, LATE), False, 1),
        ((RIGHT, WRONG, LATE, Verdict.UNPARSEABLE_GOLD), True, 2),
        ((LATE, LATE), False, 0),
        ((None, None), False, 0),
        ((), False, 0),
    ],
)
def test_a_group_is_mixed_by_what_was_judged(verdicts, is_mixed, judged):
    group = made_group("a", *verdicts)
    assert (group.is_mixed, len(group.judged)) == (is_mixed, judged)


@pytest.mark.parametrize("verdict", [*Verdict, None])
def test_only_one_verdict_is_right(verdict):
    assert made_rollout(verdict).is_correct is (verdict is Verdict.CORRECT)


def test_problems_share_no_fields():
    first, other = Problem("1", "p", None), Problem("2", "q", None)
    first.extra["level"] = 3
    assert other.extra == {}


def through_json(groups, prompts):
    return groups_from_json(json.loads(json.dumps(groups_as_json(groups, prompts))), prompts)


def test_groups_come_back_with_their_own_prompts_and_verdicts():
    groups = [made_group("a", RIGHT, WRONG, version=3), made_group("b", LATE, None)]
    prompts = [made_prompt("other"), groups[1].prompt, groups[0].prompt]
    assert [row["prompt"] for row in groups_as_json(groups, prompts)] == [2, 1]
    repeated = through_json(groups, prompts)
    assert repeated == groups
    assert repeated[0].prompt is groups[0].prompt
    assert all(rollout.prompt is repeated[1].prompt for rollout in repeated[1].rollouts)
    assert repeated[0].rollouts[0].verification.verdict is Verdict.CORRECT
    assert [rollout.sample for rollout in repeated[0].rollouts] == [0, 1]


@given(st.lists(st.floats(allow_nan=False, width=64), min_size=1))
def test_every_bit_of_a_log_probability_is_kept(logprobs):
    prompt = made_prompt()
    completion = Completion(list(range(len(logprobs))), logprobs, "length")
    places = ((1, 0.1),)
    rollout = Rollout.of(prompt, 0, completion, "\ud800é", None, 0.1 + 0.2, places=places)
    group = Group(prompt, (rollout,), 1)
    (repeated,) = through_json([group], [prompt])
    retained = repeated.rollouts[0]
    assert [x.hex() for x in retained.completion.logprobs] == [x.hex() for x in logprobs]
    assert retained.reward == math.nextafter(0.3, 1)
    assert retained.places == ((1, 0.1),)
    assert (retained.text, retained.completion.finish_reason) == ("\ud800é", "length")
