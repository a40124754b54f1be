"""Choices: every kind has a component that takes its cells, and what means nothing is refused."""

import pytest

from rlvr_cli.algorithm.choices import ALGORITHMS, Algorithm, contradictions
from rlvr_cli.config import as_yaml, resolve, set_layer
from rlvr_cli.core.errors import UserError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["algo=grpo", "algorithm.kl=k1"], "algorithm.kl k1 with algorithm.kl.place loss"),
        (
            ["algo=grpo", "algorithm.kl.reference=old", "algorithm.kl.place=reward"],
            "algorithm.kl.reference old with algorithm.kl.place reward",
        ),
        (
            ["algo=grpo", "algorithm.kl.reference=old"],
            "algorithm.kl.reference old with one update a batch (algorithm.epochs 1",
        ),
        (
            ["algo=grpo", "algorithm.kl.function=my.py:f"],
            "algorithm.kl custom without a function, or a function with another kind",
        ),
        (
            ["algorithm.aggregation_settings.power=1"],
            "algorithm.aggregation token_mean has no settings",
        ),
        (
            ["algo=grpo", "algorithm.kl.settings.strength=2"],
            "algorithm.kl.settings are those of a custom estimator",
        ),
        (["algorithm.aggregation=tokens"], "algorithm.aggregation 'tokens' is not known"),
        (["algorithm.target_kl=0.1"], "algorithm.target_kl 0.1 with algorithm.epochs 1"),
        (
            ["algo=ppo", "algorithm.surrogate=sequence_clip"],
            "algorithm.surrogate sequence_clip with algorithm.advantage gae",
        ),
        (
            ["algo=rloo", "algorithm.epochs=2"],
            "algorithm.surrogate policy_gradient with several updates a batch (algorithm.epochs 2",
        ),
        (
            ["algo=rloo", "algorithm.filter=mixed"],
            "algorithm.surrogate policy_gradient with algorithm.filter mixed",
        ),
        (
            ["algo=gspo", "algorithm.top_entropy=0.2"],
            "algorithm.surrogate sequence_clip with algorithm.top_entropy 0.2",
        ),
        (
            ["algo=raft", "algorithm.whiten=true"],
            "algorithm.advantage right_only with algorithm.whiten",
        ),
        (
            ["algo=raft", "algorithm.overlong=soft"],
            "algorithm.advantage right_only reads no rewards",
        ),
        (["algo=sft", "algorithm.filter=mixed"], "algorithm.advantage one: its responses are not"),
        (
            [
                *("algo=grpo", "algorithm.advantage.normalization=each"),
                *("algorithm.kl=k1", "algorithm.kl.place=reward"),
            ],
            "algorithm.advantage.normalization each with algorithm.kl.place reward",
        ),
        (
            ["algorithm.old_logprobs=engine", "algorithm.importance_correction=geometric_mask"],
            "algorithm.old_logprobs engine with algorithm.importance_correction geometric_mask",
        ),
        (
            ["algo=opd", "teacher=other", "algorithm.filter=mixed"],
            "algorithm.advantage divergence is the penalty of each token and nothing else",
        ),
    ],
)
def test_what_contradicts_itself_is_refused_by_name(settings, message):
    with pytest.raises(UserError) as refused:
        resolve(set_layer(settings))
    assert str(refused.value).startswith("--set algorithm.")
    assert message in str(refused.value)
    assert "; " in str(refused.value)  # and a way out
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("estimator", ["k2", "k3", "k3_k2"])
def test_only_the_gradient_of_k1_is_that_of_the_divergence(estimator):
    """E[grad log pi x k3] is 0 to first order near the teacher, and so no policy comes nearer."""
    with pytest.raises(UserError, match=r"divergence is the penalty .* k1, whose gradient alone"):
        resolve(set_layer(["algo=opd", "teacher=other", f"algorithm.kl={estimator}"]))


def test_every_contradiction_is_tested():
    (parametrized,) = test_what_contradicts_itself_is_refused_by_name.pytestmark
    assert len(parametrized.args[1]) == len(contradictions(Algorithm()))


@pytest.mark.parametrize(
    "settings",
    [
        ["algo=grpo", "algorithm.kl=k1", "algorithm.kl.place=reward"],
        ["algo=grpo", "algorithm.kl=k1", "algorithm.kl.reference=old", "algorithm.epochs=2"],
        ["algo=grpo", "algorithm.kl.reference=old", "algorithm.mini_batches=2"],
        ["algorithm.target_kl=0.1", "algorithm.epochs=2"],
        ["algo=rloo", "algorithm.epochs=2", "algorithm.surrogate=ratio"],
        ["algo=rloo", "algorithm.filter=mixed", "algorithm.surrogate=clip"],
        ["algorithm.top_entropy=0.2"],
        ["algo=sft", "algorithm.epochs=2", "algorithm.overlong=mask", "algorithm.kl=k3"],
        ["rollout.prompts=1", "rollout.samples=3"],
    ],
)
def test_the_way_out_of_a_contradiction_is_open(settings):
    resolve(set_layer(settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["rollout.samples=1"], "rollout.samples 1 with algorithm.advantage group_normalized"),
        (
            ["algo=reinforce++", "rollout.samples=1", "algorithm.filter=mixed"],
            "rollout.samples 1 with algorithm.filter mixed",
        ),
        (["algo=sapo", "algorithm.surrogate.high=0.3"], "sapo has no high"),
        (["algorithm.importance_correction={kind: mask, cap: 2}"], "mask has no cap"),
        (
            ["algorithm.importance_correction={kind: geometric_mask, weight: sequence_mask}"],
            "algorithm.importance_correction.weight cannot be",
        ),
        (["algo=rloo", "algorithm.surrogate.low=0.1"], "policy_gradient has no low"),
        (["algorithm.advantage.gamma=0.9"], "group_normalized has no gamma"),
        (["algorithm.advantage.critic.clip=0.1"], "group_normalized has no critic"),
        (
            ["algo=grpo", "algorithm.filter.on_cap=stop"],
            "algorithm.filter is not set, so it has no",
        ),
        (["algo=grpo", "algorithm.kl.reference.every=5"], "algorithm.kl.reference fixed has no"),
        (["algo=grpo", "algorithm.kl.control=doubling"], "algorithm.kl.control.target has no"),
        (["algorithm.overlong=mask", "algorithm.overlong.cache=1"], "overlong mask has no cache"),
        (["algo=rloo", "algorithm.advantage.deviation=sample"], "leave_one_out has no deviation"),
        (["algo=opd"], "no teacher is given; name it with --teacher MODEL"),
        (
            ["teacher=tiny"],
            "--teacher tiny with --algo dapo, which has no teacher; take --algo",
        ),
        (["algo=ppo", "data.rest=true"], "data.rest with algorithm.advantage gae: groups that are"),
        (
            ["algo=grpo", "lora.rank=4", "algorithm.kl.reference={kind: iterative, mix: 0.5}"],
            "algorithm.kl.reference.mix below 1 with lora.rank or optim.weights bfloat16",
        ),
        (["data.rest=true", "data.source='-'"], "data.rest with problems from stdin: the history"),
        (["algo=opd", "teacher=tiny", "data.rest=true"], "data.rest with algorithm.advantage"),
    ],
)
def test_what_means_nothing_cannot_be_written(settings, message):
    with pytest.raises(UserError) as refused:
        resolve(set_layer(settings))
    assert message in str(refused.value)


def test_what_the_rest_of_the_program_asks_of_an_algorithm():
    ppo, grpo, dapo = (ALGORITHMS[name] for name in ("ppo", "grpo", "dapo"))
    iterative = resolve(set_layer(["algo=grpo", "algorithm.kl.reference=iterative"])).algorithm
    old = resolve(
        set_layer(
            [
                *("algo=grpo", "algorithm.kl.reference=old", "algorithm.mini_batches=4"),
                *("algorithm.kl.control={kind: doubling, target: 1}", "algorithm.epochs=2"),
            ]
        )
    ).algorithm
    masked = resolve(set_layer(["algorithm.overlong=mask"])).algorithm
    assert ppo.has_reference_model
    assert iterative.has_reference_model
    assert not dapo.has_reference_model
    assert not old.has_reference_model
    assert (ppo.rewards_kl, grpo.rewards_kl, dapo.rewards_kl) == (True, False, False)
    assert (ppo.updates, dapo.updates, old.updates) == (2, 4, 8)
    assert (grpo.renewal, dapo.renewal, iterative.renewal.every) == (None, None, 50)
    assert (grpo.kl.is_ppo_penalty, old.kl.is_ppo_penalty) == (False, True)
    assert (dapo.masks_cut_off, masked.masks_cut_off) == (False, True)
    assert (dapo.critic, ppo.critic.kind) == (None, "own")


@pytest.mark.parametrize("choice", ["advantage", "surrogate", "filter", "kl"])
def test_the_former_kind_of_a_custom_function_is_read(choice):
    """Stored runs and files of earlier versions say `own`."""
    setting = f"algorithm.{choice}={{kind: own, function: my.py:f}}"
    former = resolve(set_layer([setting]))
    assert former == resolve(set_layer([setting.replace("own", "custom")]))
    assert former == resolve(set_layer([f"algorithm.{choice}=my.py:f"]))
    assert "kind: custom\n" in as_yaml(former)


def test_the_former_kind_is_read_where_it_was_one_and_nowhere_else():
    by_words = ["algorithm.surrogate.kind=own", "algorithm.surrogate.function=my.py:f"]
    assert resolve(set_layer(by_words)).algorithm.custom_functions == {"surrogate": "my.py:f"}
    ppo = resolve(set_layer(["algo=ppo", "algorithm.advantage.critic=own"]))
    assert ppo.algorithm.critic.kind == "own"
    for name in ("overlong", "importance_correction", "aggregation"):
        with pytest.raises(UserError, match=rf"algorithm\.{name} .*own.* choose from "):
            resolve(set_layer([f"algorithm.{name}=own"]))


def test_a_row_is_shown_with_the_cells_of_its_kinds_alone():
    assert str(ALGORITHMS["rloo"]) == (
        "advantage leave_one_out, surrogate policy_gradient, aggregation sequence_sum, epochs 1, "
        "mini_batches 1"
    )
    assert "kl k1 (coef 0.005, place reward, reference fixed)" in str(ALGORITHMS["ppo"])
