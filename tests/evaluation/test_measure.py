"""An evaluation: whose turn it is, in which order it comes back, and its figures."""

from hypothesis import given
from hypothesis import strategies as st
from small_groups import LATE, RIGHT, WRONG, made_group, made_prompt

from rlvr_cli.core.seeds import response_seed
from rlvr_cli.core.step_figures import held_out_row
from rlvr_cli.core.types import Problem, Prompt, SamplingParams
from rlvr_cli.evaluation.figures import judged_problems
from rlvr_cli.evaluation.held_out import Measured, held_out_sets
from rlvr_cli.evaluation.measure import pass_at_1, summarize
from rlvr_cli.evaluation.sampling import prompt_seeds, sample_groups


def measured(groups, params, has_format=True) -> Measured:
    """The figures of groups whose answers are all one."""
    responses = [rollout for group in groups for rollout in group.rollouts]
    return summarize(judged_problems(responses, alike), params, has_format)


def alike(answers) -> list[int]:
    """All answers are one."""
    return [0] * len(answers)


PARAMS = SamplingParams(2, 30, 0.6, 0.95)


class Sampler:
    """The last prompt's group comes first."""

    def stream(self, prompts, params, seeds):
        self.asked = ([prompt.problem.id for prompt in prompts], params, list(seeds))

    def judge(self, prompts, stream, on_group):
        groups = [made_group(prompt.problem.id, RIGHT) for prompt in prompts]
        for group in reversed(groups):
            on_group(group)
        return groups


def test_what_is_done_is_left_out_and_the_rest_keeps_order_and_seeds():
    prompts = [made_prompt(name) for name in "abcd"]
    sampler = Sampler()
    observed = []
    actual = sample_groups(sampler, prompts, PARAMS, 5, observed.append, finished={"b"})
    seeds = prompt_seeds(prompts, 5)
    assert sampler.asked == (["a", "c", "d"], PARAMS, [seeds[0], seeds[2], seeds[3]])
    assert [group.prompt.problem.id for group in actual] == ["a", "c", "d"]
    assert [group.prompt.problem.id for group in observed] == ["d", "c", "a"]


def test_nothing_is_done_where_all_is_done():
    assert sample_groups(Sampler(), [made_prompt("a")], PARAMS, 0, finished=["a"]) == []


@given(st.lists(st.sampled_from("abc"), max_size=8), st.integers(0, 3))
def test_a_seed_hangs_on_text_and_repetition_alone(names, seed):
    def prompts(listing):
        return [Prompt(Problem(str(n), t, "1"), t, (n,), False) for n, t in enumerate(listing)]

    seeds = prompt_seeds(prompts(names), seed)
    assert len(set(seeds)) == len(seeds)
    for place, name in enumerate(names):
        before = names[:place].count(name)
        assert seeds[place] == response_seed(seed, "eval", name, before)
        assert seeds[place] == prompt_seeds(prompts([name] * (before + 1)), seed)[-1]


def test_the_figures_and_the_settings_in_words():
    groups = [made_group("a", RIGHT, WRONG, n_tokens=4), made_group("b", LATE, WRONG, n_tokens=8)]
    actual = measured(groups, PARAMS)
    assert (
        actual.settings == "2 problems x 2 samples, temperature 0.6, top-p 0.95, at most 30 tokens"
    )
    low, high = actual.interval
    assert 0 <= low < 0.25 < high <= 1
    assert actual.row == {
        "pass@1": 0.25,
        "interval": (low, high),
        "cons@k": 0.5,  # of a alone: one right, one wrong, a draw; b has one judged response
        "problems": 2,
        "samples": 2,
        "temperature": 0.6,
        "top_p": 0.95,
        "max_tokens": 30,
        "format_share": 1.0,
        "cut_off_share": 0.0,
        "response_length": 6.0,
        "verdicts": {"correct": 1, "timeout": 1, "wrong": 2},
        "by_level": {},
        "settings": actual.settings,
    }
    assert next(iter(actual.row)) == "pass@1"
    item = measured(groups[:1], SamplingParams(1, 30), has_format=False)
    assert item.format_share is None
    assert item.cons_at_k is None  # one vote
    assert item.settings.startswith("1 problem x 1 sample, temperature 1, top-p 1,")


def test_pass_at_1_has_the_last_digit_that_the_steps_of_a_run_have():
    third = made_group("a", RIGHT, WRONG, WRONG)
    assert measured([third], SamplingParams(3, 30)).pass_at_1 == pass_at_1([third]) == 1 / 3


def test_cons_is_over_all_samples_of_the_problems_that_have_them():
    agree = [made_group("a", RIGHT, RIGHT, WRONG), made_group("b", WRONG, WRONG, RIGHT)]
    actual = measured(agree, SamplingParams(3, 30))
    assert (actual.pass_at_1, actual.cons_at_k) == (0.5, 0.5)
    late = measured([made_group("a", LATE, LATE)], PARAMS)
    assert (late.pass_at_1, late.interval, late.cons_at_k) == (None, None, None)


def test_the_first_set_has_the_plain_names_and_others_their_own():
    sets = {
        name: measured([made_group("a", *verdicts)], PARAMS)
        for name, verdicts in (("one", (RIGHT, RIGHT)), ("two", (RIGHT, WRONG)), ("x/y", (LATE,)))
    }
    actual = held_out_row(held_out_sets(sets))
    assert actual["held_out_pass@1"] == actual["held_out_cons@k"] == 1.0
    assert actual["held_out_pass@1/two"] == actual["held_out_cons@k/two"] == 0.5
    low, high = sets["two"].interval
    assert (actual["held_out_pass@1_low/two"], actual["held_out_pass@1_high/two"]) == (low, high)
    assert actual["held_out_pass@1/x/y"] is actual["held_out_pass@1_low/x/y"] is None
    assert [key for key in actual if "by_level" in key] == ["held_out_by_level"]
    assert held_out_row(held_out_sets({})) == {}
