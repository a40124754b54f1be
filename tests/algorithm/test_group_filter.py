"""Dynamic sampling: what is kept, refilled, carried over, and what happens at the cap."""

from dataclasses import replace

import pytest

from rlvr_cli.algorithm.choices import ALGORITHMS, Algorithm
from rlvr_cli.algorithm.filters import Mixed
from rlvr_cli.algorithm.group_advantage import GroupNormalized
from rlvr_cli.algorithm.group_filter import GroupBatch, is_uniform, trains, with_signal
from rlvr_cli.algorithm.kinds import MaskOverlong, SoftOverlong
from rlvr_cli.algorithm.reward import Reward, RewardConfig, reward
from rlvr_cli.algorithm.samples import to_samples
from rlvr_cli.core.types import Completion, Group, Problem, Prompt, Rollout
from rlvr_cli.evaluation.measure import rollout_metrics
from verifiers import Verdict, Verification

DAPO, GRPO = ALGORITHMS["dapo"], ALGORITHMS["grpo"]
RIGHT = Verdict.CORRECT
WRONG = Verdict.WRONG
LATE = Verdict.TIMEOUT


def make_group(name: object, *verdicts: Verdict, n_tokens: int = 1, version: int = 0) -> Group:
    prompt = Prompt(Problem(str(name), "?", "1"), "?", (5,), False)
    completion = Completion([7] * n_tokens, [-1.0] * n_tokens, "stop")
    rollouts = [
        Rollout.of(
            prompt,
            sample,
            completion,
            "",
            Verification(verdict, None, True, ""),
            reward(Verification(verdict, None, True, "")),
        )
        for sample, verdict in enumerate(verdicts)
    ]
    return Group(prompt, tuple(rollouts), version)


class Source:
    """Groups named 0, 1, 2, …; every `mixed_every`-th is mixed."""

    def __init__(self, mixed_every: int) -> None:
        self.mixed_every = mixed_every
        self.next = 0
        self.counts = []

    def __call__(self, count: int) -> list[Group]:
        self.counts.append(count)
        names = range(self.next, self.next + count)
        self.next += count
        return [make_group(n, RIGHT, WRONG if n % self.mixed_every == 0 else RIGHT) for n in names]


def names(groups: list[Group]) -> list[int]:
    return [int(group.prompt.problem.id) for group in groups]


def test_all_right_and_all_wrong_groups_are_not_mixed():
    assert make_group(0, RIGHT, WRONG, WRONG).is_mixed
    assert not make_group(0, RIGHT, RIGHT).is_mixed
    assert not make_group(0, WRONG, Verdict.BAD_FORMAT).is_mixed


def test_a_timeout_is_not_a_wrong_answer():
    assert not make_group(0, RIGHT, RIGHT, LATE).is_mixed
    group = make_group(0, RIGHT, WRONG, LATE, Verdict.UNPARSEABLE_GOLD)
    assert group.is_mixed
    assert len(to_samples([group], DAPO, max_tokens=10, weight_version=0)) == 2


def test_what_was_not_judged_counts_in_no_figure():
    bad_gold = make_group(1, Verdict.UNPARSEABLE_GOLD, Verdict.UNPARSEABLE_GOLD)
    groups = [make_group(0, RIGHT, WRONG, RIGHT, LATE), bad_gold, make_group(2, WRONG, LATE)]
    metrics = rollout_metrics(groups)
    assert metrics.pass_at_1 == (2 / 3 + 0) / 2  # over problems; over responses it would be 2 / 4
    assert metrics.reward == 0.0
    assert metrics.unjudged_share == 4 / 8


def test_the_length_penalty_never_makes_a_group_mixed():
    long, short = make_group(0, WRONG, n_tokens=10), make_group(0, WRONG, n_tokens=1)
    group = Group(long.prompt, long.rollouts + short.rollouts, 0)
    assert not group.is_mixed
    assert to_samples([group], DAPO, 10, weight_version=0).reward.tolist() == [-2.0, -1.0]


def test_a_signal_is_a_difference_within_a_group_or_within_the_batch():
    ppo = ALGORITHMS["ppo"]
    all_right, all_wrong = make_group(0, RIGHT, RIGHT), make_group(1, WRONG, WRONG)
    assert not with_signal([all_right, all_wrong], GRPO, 10)
    assert len(with_signal([all_right, all_wrong], ppo, 10)) == 4
    assert not with_signal([all_wrong, all_wrong], ppo, 10)
    assert len(with_signal([make_group(2, RIGHT, WRONG, LATE), all_right], GRPO, 10)) == 2


def test_what_length_costs_is_a_signal_too_where_no_filter_asks_for_verdicts():
    long, short = make_group(0, RIGHT, n_tokens=10), make_group(0, RIGHT, n_tokens=1)
    group = Group(long.prompt, long.rollouts + short.rollouts, 0)  # paid 0 and 1 of at most 10
    shaped = GRPO.model_copy(update={"overlong": SoftOverlong(cache=0.5)})
    for algo, count in ((GRPO, 0), (shaped, 2), (DAPO, 0)):
        groups = [group] if trains(group, algo) else []
        assert len(with_signal(groups, algo, 10)) == count
        assert is_uniform(group, algo, 10) == (count == 0)
    assert not with_signal([group], shaped, 20)  # both are shorter than what costs anything


def test_what_is_masked_gives_no_signal():
    group = make_group(0, RIGHT, WRONG)
    cut = replace(group.rollouts[1], finish_reason="length", n_tokens=10)
    group = Group(group.prompt, (*group.rollouts, cut), 0)
    for name, count in (("grpo", 3), ("sft", 3), ("raft", 1)):
        algo = ALGORITHMS[name]
        assert len(with_signal([group], algo, 10)) == count
        masked = algo.model_copy(update={"overlong": MaskOverlong()})
        assert len(with_signal([group], masked, 10)) == min(count, 2)


def test_without_a_baseline_every_reward_is_a_signal():
    wrong = [make_group(0, WRONG), make_group(1, LATE)]
    assert len(with_signal(wrong, ALGORITHMS["reinforce"], 10)) == 1
    assert not with_signal(wrong, ALGORITHMS["reinforce"].model_copy(update={"whiten": True}), 10)
    assert not with_signal(wrong, ALGORITHMS["reinforce++"], 10)


def test_the_right_ones_are_the_signal_where_no_others_train():
    groups = [make_group(0, RIGHT, WRONG), make_group(1, RIGHT, RIGHT), make_group(2, WRONG, LATE)]
    assert len(with_signal(groups, ALGORITHMS["raft"], 10)) == 3
    assert not with_signal(groups[2:], ALGORITHMS["raft"], 10)
    assert len(with_signal(groups, ALGORITHMS["sft"], 10)) == 6  # whatever their verdicts
    assert len(to_samples(groups, ALGORITHMS["sft"], 10, 0)) == 6


class Steps:
    """The batches of steps that follow one another, each filled as the loop fills it."""

    def __init__(self, size: int, algo: Algorithm, carried: list[Group] | None = None) -> None:
        self.size = size
        self.algo = algo
        self.carried = carried or []

    def next(self, source: "Source") -> GroupBatch:
        batch = GroupBatch(self.size, self.algo, self.carried)
        while count := batch.problems_needed():
            batch.add(source(count))
        self.carried = batch.finish()
        return batch


def test_the_batch_is_refilled_and_the_surplus_carried_over():
    source = Source(mixed_every=2)
    steps = Steps(4, DAPO)
    batch = steps.next(source)
    assert source.counts == [4, 4]
    assert names(batch.groups) == [0, 2, 4, 6]
    assert len(batch.sampled) == 8
    assert batch.given_up is None
    assert steps.carried == []


def test_no_group_is_lost_or_trained_twice_over_many_steps():
    source = Source(mixed_every=3)
    steps = Steps(4, DAPO)
    trained = [name for _ in range(20) for name in names(steps.next(source).groups)]
    waiting = names(steps.carried)
    assert trained + waiting == list(range(0, source.next, 3))


def test_carried_groups_come_first_and_count_as_stale():
    steps = Steps(2, DAPO, [make_group(n, RIGHT, WRONG, version=3) for n in (91, 92, 93)])
    batch = steps.next(Source(mixed_every=1))
    assert names(batch.groups) == [91, 92]
    assert batch.gen_batches == 0
    assert names(steps.carried) == [93]
    stale = to_samples(batch.groups[:1], DAPO, max_tokens=10, weight_version=4)
    fresh = to_samples(batch.groups[:1], DAPO, max_tokens=10, weight_version=3)
    assert not stale.is_fresh.any()
    assert fresh.is_fresh.tolist() == fresh.mask.bool().tolist()


def test_the_cap_ends_a_hopeless_search():
    source = Source(mixed_every=10**9)
    source.next = 1
    batch = Steps(4, DAPO).next(source)
    assert batch.gen_batches == DAPO.filter.max_gen_batches == len(source.counts)
    assert batch.groups == []


def test_without_a_filter_one_batch_is_taken_as_it_is():
    source = Source(mixed_every=2)
    batch = Steps(4, GRPO).next(source)
    assert source.counts == [4]
    assert names(batch.groups) == [0, 1, 2, 3]


def test_what_trains_without_a_filter_has_enough_judged_responses():
    late, first, two = ((RIGHT,) * n + (LATE,) for n in range(3))
    groups = [make_group(0, *verdicts) for verdicts in (late, first, two)]
    actual = {
        name: [trains(group, ALGORITHMS[name]) for group in groups]
        for name in ("grpo", "ppo", "sft", "dapo")
    }
    assert actual == {
        "grpo": [False, False, True],
        "ppo": [False, True, True],
        "sft": [True, True, True],
        "dapo": [False, False, False],
    }


@pytest.mark.parametrize(
    ("mixed", "solved", "asked"),
    [(4, 6, 5), (3, 6, 9), (2, 6, 16), (1, 9, 20), (0, 9, 24), (6, 0, 0), (5, 0, 1)],
)
def test_a_refill_counts_on_the_share_that_passed(mixed, solved, asked):
    batch = GroupBatch(6, DAPO, [])
    assert batch.problems_needed() == 6
    groups = [make_group(n, RIGHT, WRONG if n < mixed else RIGHT) for n in range(mixed + solved)]
    batch.add(groups)
    assert batch.problems_needed() == asked
    assert (batch.gen_batches, len(batch.sampled)) == (1, mixed + solved)


@pytest.mark.parametrize(
    ("on_cap", "kept", "given_up", "waiting"),
    [
        ("train", 3, None, 0),
        ("skip", 3, "skip", 3),
        ("stop", 3, "stop", 3),
        ("skip", 4, None, 0),
        ("skip", 6, None, 2),
    ],
)
def test_a_batch_that_is_short_at_the_cap(on_cap, kept, given_up, waiting):
    selected = DAPO.filter.model_copy(update={"on_cap": on_cap})
    batch = GroupBatch(4, DAPO.model_copy(update={"filter": selected}), [])
    batch.add([make_group(n, RIGHT, WRONG) for n in range(kept)])
    carried = batch.finish()
    assert (batch.given_up, len(batch.groups)) == (given_up, min(kept, 4))
    first = 0 if given_up else 4
    assert names(carried) == [*range(first, first + waiting)]


def test_without_a_filter_a_short_batch_trains():
    batch = GroupBatch(4, GRPO, [])
    batch.add([make_group(0, LATE)])
    assert (batch.groups, batch.problems_needed()) == ([], 0)
    batch = GroupBatch(4, GRPO, [])
    batch.add([make_group(0, RIGHT, WRONG)])
    assert (batch.finish(), len(batch.groups), batch.given_up) == ([], 1, None)


def test_the_metric_of_the_filter_says_what_differs():
    """Right, right and wrong, wrong: the sum differs in the first, `my` in the second only."""
    values = (((1.5, 1.0), (0.0, 0.0)), ((-1.0, -1.0), (0.0, 0.5)))
    created = (make_group(0, RIGHT, RIGHT), make_group(1, WRONG, WRONG))
    groups = [
        replace(
            group,
            rollouts=tuple(
                replace(rollout, reward=reward, rewards={"my": my, "reward": 0.0})
                for rollout, reward, my in zip(group.rollouts, *pair, strict=True)
            ),
        )
        for group, pair in zip(created, values, strict=True)
    ]
    assert not any(group.is_mixed for group in groups)
    for metric, expected in (("accuracy", [0, 0]), ("reward", [1, 0]), ("my", [0, 1])):
        algo = Algorithm(filter=Mixed(metric=metric))
        assert [trains(group, algo) for group in groups] == expected
    assert len(with_signal(groups, Algorithm(), 10)) == 2  # the sums of the second are equal


def paid(group: Group, *rewards: dict[str, float]) -> Group:
    """The group with these rewards, whose sum is what a response is paid."""
    pairs = zip(group.rollouts, rewards, strict=True)
    return replace(
        group, rollouts=tuple(replace(r, reward=sum(own.values()), rewards=own) for r, own in pairs)
    )


def test_rewards_that_are_normalized_each_set_apart_what_their_sum_does_not():
    each, summed = Algorithm(advantage=GroupNormalized(normalization="each")), Algorithm()
    group = paid(make_group(0, RIGHT, WRONG), {"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0})
    assert (is_uniform(group, each, 10), len(with_signal([group], each, 10))) == (
        False,
        2,
    )
    assert (is_uniform(group, summed, 10), len(with_signal([group], summed, 10))) == (
        True,
        0,
    )


def test_a_reward_without_weight_sets_nothing_apart():
    each = Algorithm(advantage=GroupNormalized(normalization="each"))
    right = paid(make_group(0, RIGHT, RIGHT), {"math": 0.7}, {"math": 0.7})
    group = replace(
        right,
        rollouts=tuple(
            replace(rollout, rewards={"math": 1.0, "format": float(sample)})
            for sample, rollout in enumerate(right.rollouts)
        ),
    )
    ignored = RewardConfig(functions=("math:0.7", "format:0")).weightless
    assert ignored == {"format"}
    assert (
        is_uniform(group, each, 10, ignored),
        with_signal([group], each, 10, ignored),
    ) == (
        True,
        [],
    )
    assert len(with_signal([group], each, 10)) == 2  # with a weight it would


def test_sums_that_tie_up_to_rounding_are_alike():
    group = paid(make_group(0, RIGHT, RIGHT, RIGHT), {"a": 0.1, "b": 0.2}, {"a": 0.3}, {"a": 0.3})
    assert len({rollout.reward for rollout in group.rollouts}) == 2  # 0.30000000000000004 and 0.3
    for algo in (GRPO, ALGORITHMS["maxrl"]):
        assert is_uniform(group, algo, 10)
        assert with_signal([group], algo, 10) == []
    assert not group.differs_in("reward")
    apart = paid(make_group(0, RIGHT, RIGHT), {"a": 0.3}, {"a": 0.3 + 1e-6})
    assert (is_uniform(apart, GRPO, 10), apart.differs_in("reward")) == (False, True)


def test_a_reward_without_parts_is_normalized_by_itself():
    each = Algorithm(advantage=GroupNormalized(normalization="each"))
    group = make_group(0, RIGHT, WRONG)
    assert (is_uniform(group, each, 10), len(with_signal([group], each, 10))) == (
        False,
        2,
    )
    terms = to_samples([group], each, 10, 0, [Reward("math", "math", 1.0)]).terms
    assert terms[:, 0].tolist() == [[1.0, 1.0], [-1.0, 1.0]]  # value and weight


def test_a_figure_is_no_reward_and_what_is_left_out_does_not_differ():
    each = Algorithm(advantage=GroupNormalized(normalization="each"))
    group = paid(make_group(0, RIGHT, RIGHT), {"a": 1.0, "a/acc": 0.0}, {"a": 1.0, "a/acc": 1.0})
    group = replace(group, rollouts=tuple(replace(item, reward=1.0) for item in group.rollouts))
    assert is_uniform(group, each, 10)
    group = paid(make_group(0, RIGHT, RIGHT), {"a": 1.0}, {"b": 1.0})
    assert is_uniform(group, each, 10)
    assert not group.differs_in("a")
    terms = to_samples([group], each, 10, 0, [Reward("a", "a", 1.0)]).terms
    assert (terms[0, 0, 0], terms[1, 0, 0].isnan()) == (1.0, True)


def test_what_a_custom_reward_pays_without_a_verdict_is_not_judged():
    group = make_group(0, RIGHT, RIGHT, LATE, Verdict.UNPARSEABLE_GOLD)
    metrics = rollout_metrics([paid(group, *({"my": 0.5} for _ in range(4)))])
    assert (metrics.pass_at_1, metrics.unjudged_share, metrics.reward) == (1.0, 0.5, 0.5)
    assert metrics.mixed_share == 0.0  # nothing is wrong in it


def test_without_a_cap_the_search_goes_on():
    batch = GroupBatch(2, Algorithm(filter=Mixed(max_gen_batches=0)), [])
    for number in range(50):
        assert batch.problems_needed() > 0
        batch.add([make_group(number, RIGHT, RIGHT)])


def rounds(size: int, source: Source, **fields) -> tuple[GroupBatch, list[Group]]:
    """Fill a batch, and return it with the groups that the next one begins with."""
    algo = DAPO.model_copy(update={"filter": Mixed(metric="accuracy", **fields)})
    batch = GroupBatch(size, algo, [])
    while missing := batch.problems_needed():
        batch.add(source(missing))
    return batch, batch.finish()


def test_a_round_draws_gen_batch_size_problems():
    """Every third group is mixed: 0 and 3 of the first round of six, 6 and 9 of the second."""
    source = Source(mixed_every=3)
    batch, carried = rounds(4, source, gen_batch_size=6)
    assert source.counts == [6, 6]
    assert names(batch.groups) == [0, 3, 6, 9]
    assert carried == []
    source = Source(mixed_every=3)
    batch, carried = rounds(4, source, gen_batch_size=18)
    assert source.counts == [18]  # DAPO: 1,536 for 512
    assert (names(batch.groups), names(carried)) == ([0, 3, 6, 9], [12, 15])


def test_rounds_of_gen_batch_size_end_at_the_cap():
    source = Source(mixed_every=100)
    batch, _ = rounds(4, source, gen_batch_size=5, max_gen_batches=3)
    assert source.counts == [5, 5, 5]
    assert (batch.gen_batches, len(batch.sampled), names(batch.groups)) == (3, 15, [0])
