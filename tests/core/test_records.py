"""Groups go through JSON and come back as they were."""

import json
import math

from hypothesis import given
from hypothesis import strategies as st
from small_groups import LATE, RIGHT, WRONG, made_group, made_prompt

from rlvr_cli.core.records import groups_as_json, groups_from_json
from rlvr_cli.core.types import Completion, Group, Rollout
from verifiers import Verdict


def through_json(groups, prompts):
    return groups_from_json(json.loads(json.dumps(groups_as_json(groups, prompts))), prompts)


def test_groups_come_back_with_their_own_prompts_and_verdicts():
    groups = [made_group("a", RIGHT, WRONG, version=3), made_group("b", LATE, None)]
    prompts = [made_prompt("other"), groups[1].prompt, groups[0].prompt]
    assert [row["prompt"] for row in groups_as_json(groups, prompts)] == [2, 1]
    again = through_json(groups, prompts)
    assert again == groups
    assert again[0].prompt is groups[0].prompt
    assert all(rollout.prompt is again[1].prompt for rollout in again[1].rollouts)
    assert again[0].rollouts[0].verification.verdict is Verdict.CORRECT
    assert [rollout.sample for rollout in again[0].rollouts] == [0, 1]


@given(st.lists(st.floats(allow_nan=False, width=64), min_size=1))
def test_every_bit_of_a_log_probability_is_kept(logprobs):
    prompt = made_prompt()
    completion = Completion(list(range(len(logprobs))), logprobs, "length")
    group = Group(prompt, (Rollout(prompt, 0, completion, "\ud800é", None, 0.1 + 0.2),), 1)
    (again,) = through_json([group], [prompt])
    kept = again.rollouts[0]
    assert [x.hex() for x in kept.completion.logprobs] == [x.hex() for x in logprobs]
    assert kept.reward == math.nextafter(0.3, 1)
    assert (kept.text, kept.completion.finish_reason) == ("\ud800é", "length")
