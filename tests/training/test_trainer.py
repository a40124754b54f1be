"""The loop, in process, on a random model and made-up verdicts where a real one would take long."""

import itertools
import json
import time

import pytest
import torch
from small_models import random_model
from small_trainer import (
    has_even,
    make_trainer,
    steps,
    weights,
)

from rlvr_cli.algorithm.choices import ALGORITHMS
from rlvr_cli.algorithm.kinds import TruncatedWeights
from rlvr_cli.core.errors import EngineError
from rlvr_cli.data import problems
from rlvr_cli.evaluation.held_out import Measured
from rlvr_cli.model.policy import weights_digest

SAMPLED = [name for name, row in ALGORITHMS.items() if row.needs_verdicts]
SKIPS = [
    name
    for name in SAMPLED
    if name != "reinforce"
    and ALGORITHMS[name].critic is None
    and (ALGORITHMS[name].kl is None or ALGORITHMS[name].rewards_kl)
]
"""Rows that have nothing to learn from a batch without a signal."""


@pytest.mark.parametrize(
    "algo",
    [
        name if name in ("dapo", "grpo", "ppo") else pytest.param(name, marks=pytest.mark.slow)
        for name in SAMPLED
    ],
)
def test_what_is_rewarded_becomes_likelier(tmp_path, algo):
    trainer = make_trainer(has_even, f"algo={algo}", "steps=25", "optim.warmup_steps=0")
    history = steps(trainer, tmp_path / "run")
    shares = [row["pass@1"] for row in history if row["groups_sampled"]]
    assert sum(shares[-5:]) / 5 > shares[0] + 0.2


def test_the_same_seed_gives_the_same_run(tmp_path):
    runs = []
    for name in ("a", "b"):
        trainer = make_trainer(has_even, "steps=3")
        steps(trainer, tmp_path / name)
        runs.append(weights(trainer))
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
    other = make_trainer(has_even, "steps=3", "seed=1")
    steps(other, tmp_path / "c")
    assert not all(torch.equal(a, b) for a, b in zip(runs[0], weights(other), strict=True))


@pytest.mark.parametrize("algo", SKIPS)
def test_without_a_signal_the_weights_stay_as_they_are(tmp_path, algo):
    trainer = make_trainer(lambda text: False, f"algo={algo}", "steps=2")
    before = weights(trainer)
    history = steps(trainer, tmp_path / "run")
    assert [row["groups_trained"] for row in history] == [0, 0]
    assert [row["signal_share"] for row in history] == [0, 0]
    assert all(torch.equal(a, b) for a, b in zip(before, weights(trainer), strict=True))


@pytest.mark.parametrize("algo", ["ppo", "ppo_penalty"])
def test_without_a_signal_the_critic_learns_and_the_policy_stays(tmp_path, algo):
    options = ("algorithm.advantage.critic.warmup=0", "optim.critic_lr=0.01")
    trainer = make_trainer(lambda text: False, f"algo={algo}", "steps=4", *options)
    before = weights(trainer)
    history = steps(trainer, tmp_path / "run")
    assert [row["no_update"] for row in history] == ["no signal"] * 4
    assert [row["groups_trained"] for row in history] == [0] * 4
    assert history[-1]["value_loss"] < history[0]["value_loss"] / 2
    assert all(torch.equal(a, b) for a, b in zip(before, weights(trainer), strict=True))


@pytest.mark.parametrize("algo", ["grpo", "reinforce++_baseline"])
def test_without_a_signal_the_reference_in_the_loss_pulls(tmp_path, algo):
    options = ("optim.weight_decay=0", "optim.warmup_steps=0", "algorithm.aggregation=token_mean")
    once = "algorithm.mini_batches=1"
    trainer = make_trainer(lambda text: False, f"algo={algo}", "steps=1", *options, once)
    with torch.no_grad():
        for parameter in trainer.session.policy.model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    before = weights(trainer)
    (row,) = steps(trainer, tmp_path / "run")
    assert row["no_update"] == "no signal"
    assert row["loss"] == pytest.approx(row["kl_coef"] * row["ref_kl"])
    assert row["ref_kl"] > 0.01
    assert not any(torch.equal(a, b) for a, b in zip(before, weights(trainer), strict=True))


def test_the_reference_pulls_beside_a_critic_too():
    pulled = ("algo=grpo", "algorithm.advantage=gae", "optim.weight_decay=0", "steps=1")
    trainer = make_trainer(lambda text: False, *pulled, "optim.warmup_steps=0")
    policy = trainer.session.policy.model
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(1.1)
    before = weights_digest(policy.parameters())
    (result,) = trainer.train_steps()
    assert (result.figures.batch.no_update, result.figures.update.ref_kl > 0) == ("no signal", True)
    assert weights_digest(policy.parameters()) != before


def test_reinforce_learns_of_one_response_a_step(tmp_path):
    """Its advantage is the reward itself, which no baseline takes away."""
    settings = ("algo=reinforce", "rollout.prompts=1", "rollout.samples=1", "steps=3")
    history = steps(make_trainer(has_even, *settings), tmp_path / "run")
    assert [row["no_update"] for row in history] == [None] * 3
    assert all(row["tokens_trained"] == row["tokens_sampled"] for row in history)


def test_raft_learns_of_the_right_ones_alone(tmp_path):
    trainer = make_trainer(has_even, "algo=raft", "steps=2")
    for row in steps(trainer, tmp_path / "run"):
        path = tmp_path / "run" / "rollouts" / f"step-{row['step']:06d}.jsonl"
        responses = [json.loads(line) for line in path.read_text().splitlines()]
        right = [r["n_tokens"] for r in responses if r["verdict"] == "correct"]
        assert 0 < row["tokens_trained"] == sum(right) < row["tokens_sampled"]
        assert row["signal_share"] == pytest.approx(sum(right) / row["tokens_sampled"])


def test_a_student_comes_nearer_to_its_teacher_whatever_the_verdicts(tmp_path):
    """With one response a problem, all of them wrong."""
    settings = ("algo=opd", "rollout.samples=1", "rollout.prompts=9", "optim.warmup_steps=0")
    history = steps(make_trainer(lambda text: False, *settings, "steps=12"), tmp_path / "run")
    divergences = [row["ref_kl"] for row in history]
    assert sum(divergences[-3:]) < 0.6 * sum(divergences[:3])
    assert all(row["tokens_trained"] == row["tokens_sampled"] for row in history)
    assert [row["no_update"] for row in history] == [None] * 12


def test_problems_rest_whose_groups_were_alike(tmp_path, monkeypatch):
    """Nothing is ever right: nine problems are drawn in pass 0, rest in 1, are drawn in 2, rest in
    3 and 4, are drawn in 5, and will rest for four passes."""
    monkeypatch.setattr(problems, "_WOKEN_SHARE", 0)
    settings = ("algo=grpo", "data.rest=true", "rollout.prompts=9", "steps=3")
    trainer = make_trainer(lambda text: False, *settings)
    rows = steps(trainer, tmp_path / "run")
    assert [row["rested"] for row in rows] == [0, 9, 18]
    assert [row["groups_with_signal"] for row in rows] == [0, 0, 0]
    assert trainer.order.resting == dict.fromkeys(range(9), (4, 10))
    plain = steps(make_trainer(lambda text: False, "algo=grpo", "steps=1"), tmp_path / "plain")
    assert not {"rested", "groups_with_signal"} & plain[0].keys()


def test_no_response_of_any_step_shares_its_seed(tmp_path):
    trainer = make_trainer(has_even, "algo=grpo", "steps=2", "rollout.prompts=9")
    generate = trainer.session.engine.generate
    response_seeds = []

    def spy(prompts, params, seeds, *rest):
        response_seeds.extend(seed + sample for seed in seeds for sample in range(params.samples))
        return generate(prompts, params, seeds, *rest)

    trainer.session.engine.generate = spy
    steps(trainer, tmp_path / "run")
    assert len(set(response_seeds)) == len(response_seeds) == 2 * 9 * 4


def test_the_verifier_is_told_what_was_cut_off(tmp_path):
    trainer = make_trainer(has_even, "steps=1")
    verifier = trainer.session.sampler.verifier
    verify_many = type(verifier).verify_many
    seen_attempts = []

    def spy(attempts):
        seen_attempts.extend(attempts)
        return verify_many(verifier, attempts)

    verifier.verify_many = spy
    (row,) = steps(trainer, tmp_path / "run")
    assert 0 < row["cut_off_share"] < 1
    n_truncated = sum(attempt.truncated for attempt in seen_attempts)
    assert n_truncated / len(seen_attempts) == row["cut_off_share"]
    for attempt in seen_attempts:
        assert attempt.truncated == (attempt.response.split()[-1] != "1")


def test_every_epoch_counts_as_updated_tokens(tmp_path):
    settings = ("algo=grpo", "steps=1", "algorithm.epochs=2")
    (row,) = steps(make_trainer(has_even, *settings), tmp_path / "run")
    assert row["tokens_updated"] == 2 * row["tokens_trained"] > 0


def test_an_iterative_reference_becomes_the_policy(tmp_path):
    settings = ("algorithm.kl.reference=iterative", "algorithm.kl.reference.every=2")
    trainer = make_trainer(has_even, "algo=grpo", "steps=3", "optim.warmup_steps=0", *settings)
    history = steps(trainer, tmp_path / "run")
    divergences = [row["ref_kl"] for row in history]
    assert divergences[0] == pytest.approx(0, abs=1e-9)
    assert divergences[1] > 1e-6
    assert divergences[2] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("mix", [0.25, 1.0])
def test_a_moving_reference_is_the_mixture_of_its_past(tmp_path, mix):
    settings = (f"algorithm.kl.reference={{kind: iterative, every: 1, mix: {mix}}}", "steps=3")
    trainer = make_trainer(has_even, "algo=grpo", "optim.warmup_steps=0", *settings)
    expected = weights(trainer)
    for _ in trainer.train_steps():
        expected = [
            (1 - mix) * old + mix * new for old, new in zip(expected, weights(trainer), strict=True)
        ]
        actual = [p.detach() for p in trainer.reference.model.parameters()]
        for ours, reference in zip(actual, expected, strict=True):
            torch.testing.assert_close(ours, reference)
        same = all(torch.equal(a, b) for a, b in zip(actual, weights(trainer), strict=True))
        assert same == (mix == 1.0)


def test_a_reference_that_is_renewed_can_reset_the_optimizer(tmp_path):
    settings = ("algorithm.kl.reference=iterative", "algorithm.kl.reference.every=1")
    for reset, retained in (("true", 0), ("false", 1)):
        option = f"algorithm.kl.reference.resets_optimizer={reset}"
        trainer = make_trainer(has_even, "algo=grpo", "steps=1", *settings, option)
        steps(trainer, tmp_path / reset)
        assert bool(trainer.updater.optimizer.state) == bool(retained)


def test_every_response_of_every_step_is_written(tmp_path):
    trainer = make_trainer(has_even, "steps=2")
    history = steps(trainer, tmp_path / "run")
    for row in history:
        path = tmp_path / "run" / "rollouts" / f"step-{row['step']:06d}.jsonl"
        responses = [json.loads(line) for line in path.read_text().splitlines()]
        assert len(responses) == row["groups_sampled"] * 4
        assert sum(response["n_tokens"] for response in responses) == row["tokens_sampled"]
        rewards = [response["reward"] for response in responses]
        assert row["reward"] == pytest.approx(sum(rewards) / len(rewards))


def test_judging_before_a_step_is_no_time_of_the_step(tmp_path):
    trainer = make_trainer(has_even, "steps=2", "algo=grpo")
    trainer.session.sampler.seconds = 1e6
    for row in steps(trainer, tmp_path / "run"):
        assert row["seconds_rollout"] > 0
        assert 0 < row["seconds_verification"] < row["seconds_step"]


def test_without_a_format_asked_for_none_has_a_share(tmp_path):
    for verifier, share in (("any", None), ("boxed", 1.0)):
        trainer = make_trainer(has_even, "steps=1", f"data.answer_format={verifier}")
        (metrics,) = steps(trainer, tmp_path / verifier)
        assert metrics["format_share"] == share


def test_the_engine_and_the_trainer_agree_on_fresh_tokens(tmp_path):
    history = steps(make_trainer(has_even, "steps=3", "algo=grpo"), tmp_path / "run")
    assert all(row["mismatch"] < 1e-5 for row in history)


def test_an_engine_with_other_weights_stops_the_run(tmp_path):
    trainer = make_trainer(has_even, "steps=3")
    trainer.session.engine.model = random_model(seed=1)
    with pytest.raises(EngineError, match=r"step 1: the engine and the trainer disagree by"):
        steps(trainer, tmp_path / "run")


def test_the_engines_log_probabilities_spare_a_pass_once_they_are_the_trainers(tmp_path):
    scored = {}
    for whose in ("auto", "trainer", "engine"):
        settings = ("algo=gspo", "steps=3", f"algorithm.old_logprobs={whose}")
        history = steps(make_trainer(has_even, *settings), tmp_path / whose)
        assert all(0 < row["mismatch"] < 1e-5 for row in history)
        scored[whose] = [row["tokens_scored"] > 0 for row in history]
    assert scored == {"auto": [1, 0, 0], "trainer": [1, 1, 1], "engine": [0, 0, 0]}


def test_an_engine_that_goes_stale_is_met_before_the_first_update(tmp_path):
    """The second step makes no pass of its own; its first update's pass meets the other weights."""
    trainer = make_trainer(has_even, "algo=gspo", "steps=3")
    steps_of = trainer.train_steps()
    next(steps_of)
    assert trainer.updater.uses_engine_logprobs
    before = weights(trainer)
    trainer.session.engine.model = random_model(seed=1)
    with pytest.raises(EngineError, match=r"step 2: the engine and the trainer disagree by"):
        next(steps_of)
    assert all(map(torch.equal, before, weights(trainer)))


def test_a_gap_in_bfloat16_is_corrected_by_itself_without_a_pass_and_rejects_nothing(tmp_path):
    trainer = make_trainer(has_even, "algo=dr_grpo", "rollout.precision=bfloat16")
    assert trainer.config.algorithm.correction == TruncatedWeights(cap=2.0)
    trainer = make_trainer(has_even, "algo=dr_grpo", "steps=2", "optim.precision=bfloat16")
    assert trainer.config.algorithm.correction == TruncatedWeights(cap=2.0)
    for row in steps(trainer, tmp_path / "run"):
        assert row["mismatch"] > 1e-4
        assert row["tokens_scored"] == 0
        assert row["rejected_share"] is None
        assert row["tokens_trained"] == row["tokens_sampled"]


def test_what_a_mask_rejects_does_not_train(tmp_path):
    trainer = make_trainer(
        has_even,
        *("algo=grpo", "steps=2", "optim.precision=bfloat16", "algorithm.kl=none"),
        "algorithm.importance_correction={kind: geometric_mask, low: 0.998, high: 1.002}",
    )
    shares = []
    for row in steps(trainer, tmp_path / "run"):
        assert row["mismatch"] > 1e-4
        shares.append(row["rejected_share"])
        assert (row["tokens_trained"] < row["tokens_sampled"]) == (row["rejected_share"] > 0)
    assert 0 < min(shares) <= max(shares) < 1
    nothing = "algorithm.importance_correction={kind: geometric_mask, low: 1, high: 1}"
    trainer = make_trainer(has_even, "algo=ppo", "optim.precision=bfloat16", "steps=1", nothing)
    before = weights(trainer)
    (row,) = steps(trainer, tmp_path / "nothing")
    assert (row["no_update"], row["rejected_share"]) == ("all rejected", 1.0)
    assert all(map(torch.equal, before, weights(trainer)))


def test_a_likelihood_without_a_right_response_has_no_signal_and_rejects_nothing(tmp_path):
    trainer = make_trainer(lambda text: False, "algo=raft", "algorithm.kl=0.05", "steps=1")
    assert trainer.config.algorithm.has_reference_loss
    (row,) = steps(trainer, tmp_path / "run")
    assert (row["no_update"], row["rejected_share"]) == ("no signal", None)


def test_a_run_goes_on_where_nothing_trains_and_each_reward_is_normalized(tmp_path):
    rewards = "reward.functions=[math, 'format:0.2']"
    each = "algorithm.advantage.normalization=each"
    trainer = make_trainer(lambda text: False, "algo=dapo", rewards, each, "steps=2")
    history = steps(trainer, tmp_path / "run")
    assert [row["no_update"] for row in history] == ["no signal", "no signal"]


def test_at_the_cap_the_run_stops_if_so_asked(tmp_path):
    trainer = make_trainer(lambda text: False, "steps=5", "algorithm.filter.on_cap=stop")
    assert len(steps(trainer, tmp_path / "run")) == 1
    assert trainer.is_stopped


def test_at_the_cap_a_skipped_step_keeps_its_groups(tmp_path):
    settings = ("steps=6", "algorithm.filter.on_cap=skip", "algorithm.filter.max_gen_batches=1")
    trainer = make_trainer(lambda text: text.startswith("5 "), *settings, "rollout.prompts=4")
    history = steps(trainer, tmp_path / "run")
    carried = 0
    for row in history:
        mixed = round((row["mixed_share"] or 0) * row["groups_sampled"])
        assert row["groups_trained"] + row["groups_carried"] == carried + mixed
        assert row["groups_trained"] in (0, 4)
        carried = row["groups_carried"]
    assert any(row["groups_trained"] == 0 for row in history)


def test_a_gradient_that_is_not_finite_never_reaches_the_weights(tmp_path):
    trainer = make_trainer(has_even, "steps=2")
    head = trainer.updater.policy.model.get_output_embeddings().weight
    head.register_hook(lambda gradient: gradient * float("nan"))
    before = weights(trainer)
    assert [row["updates_skipped"] for row in steps(trainer, tmp_path / "run")] == [4, 4]
    assert all(torch.equal(a, b) for a, b in zip(before, weights(trainer), strict=True))


@pytest.mark.parametrize("algo", ["dapo", "ppo"])
def test_bfloat16_changes_little_and_leaves_the_weights_in_float32(tmp_path, algo):
    settings = (f"algo={algo}", "steps=1", "algorithm.filter=none")
    settings = (*settings, "algorithm.importance_correction=none")
    plain = make_trainer(has_even, *settings, "optim.precision=float32")
    mixed = make_trainer(has_even, *settings, "optim.precision=bfloat16")
    (exact,), (near,) = (steps(t, tmp_path / str(i)) for i, t in enumerate((plain, mixed)))
    assert exact["entropy"] != near["entropy"]
    assert near["entropy"] == pytest.approx(exact["entropy"], rel=0.05)
    assert near["loss"] == pytest.approx(exact["loss"], abs=0.05)
    assert {p.dtype for p in mixed.session.policy.model.parameters()} == {torch.float32}


def test_the_policy_learns_at_the_temperature_that_sampled(tmp_path):
    settings = ("steps=1", "algo=grpo", "rollout.temperature=0.5")
    (row,) = steps(make_trainer(has_even, *settings), tmp_path / "run")
    assert row["mismatch"] < 1e-5


def test_one_response_that_is_cut_off_and_masked_leaves_the_others(tmp_path):
    trainer = make_trainer(has_even, "steps=1", "algo=grpo", "algorithm.overlong=mask")
    (row,) = steps(trainer, tmp_path / "run")
    assert 0 < row["cut_off_share"] < 1
    assert row["no_update"] is None
    assert 0 < row["tokens_trained"] < row["tokens_sampled"]


def test_nothing_is_left_where_all_are_cut_off_and_masked(tmp_path):
    trainer = make_trainer(has_even, "steps=1", "algo=grpo", "algorithm.overlong=mask")
    trainer.session.engine.stop_ids = trainer.session.engine.stop_ids[:0]  # nothing ends itself
    before = weights(trainer)
    (row,) = steps(trainer, tmp_path / "run")
    assert row["cut_off_share"] == 1
    assert row["no_update"] == "all cut off"
    assert all(torch.equal(a, b) for a, b in zip(before, weights(trainer), strict=True))


def test_a_step_broken_off_in_its_update_is_not_settled(tmp_path):
    trainer = make_trainer(has_even, "steps=2", "algo=grpo")
    going = trainer.train_steps()
    next(going)
    assert trainer.is_between_steps

    def broken(*args):
        raise KeyboardInterrupt

    trainer.updater.update = broken
    with pytest.raises(KeyboardInterrupt):
        next(going)
    assert not trainer.is_between_steps
    assert trainer.step == 1


def test_the_engine_is_given_the_weights_of_every_update(tmp_path):
    trainer = make_trainer(has_even, "steps=2", "algo=grpo", "optim.warmup_steps=0")
    given = [weights(trainer)]
    trainer.session.engine.sync_weights = lambda named: given.append(
        [parameter.detach().clone() for _, parameter in named]
    )
    steps(trainer, tmp_path / "run")
    assert len(given) == 3
    for before, after in itertools.pairwise(given):
        assert not all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(given[-1], weights(trainer), strict=True))


def test_the_seconds_of_the_phases_are_those_of_the_step(tmp_path):
    started = time.perf_counter()
    rows = steps(make_trainer(has_even, "steps=2", "algo=grpo"), tmp_path / "run")
    elapsed = time.perf_counter() - started
    phases = ("rollout", "verification", "logprobs", "update", "sync")
    spent = sum(row[f"seconds_{phase}"] for row in rows for phase in phases)
    assert 0 < spent <= elapsed


def test_what_a_run_starts_from_by_hand():
    plain = make_trainer(has_even, "algo=dapo", "seed=3")
    assert torch.initial_seed() == 3
    assert (plain.reference, plain.start_digest, plain.updater.critic) == (None, "", None)
    assert (plain.step, plain.weight_version, plain.is_between_steps, plain.is_stopped) == (
        0,
        0,
        True,
        False,
    )
    apart = make_trainer(has_even, "algo=grpo")
    model = apart.session.policy.model
    assert apart.reference.model is not model
    assert not any(p.requires_grad for p in apart.reference.model.parameters())
    assert all(p.requires_grad for p in model.parameters())
    assert apart.start_digest == weights_digest(model.parameters())
    shared = make_trainer(has_even, "algo=grpo", "lora.rank=2")
    model = shared.session.policy.model
    assert shared.reference is shared.policy
    frozen = [p for p in model.parameters() if not p.requires_grad]
    assert shared.start_digest == weights_digest(frozen)
    assert make_trainer(has_even, "algo=dapo", "lora.rank=2").start_digest == shared.start_digest
    renewed = ("algo=grpo", "lora.rank=2", "algorithm.kl.reference=iterative")
    moving = make_trainer(has_even, *renewed).reference
    assert moving.model is not model
    kinds = [
        make_trainer(has_even, "algo=ppo", f"algorithm.advantage.critic={kind}").updater.critic.body
        for kind in ("own", "shared")
    ]
    assert [body is None for body in kinds] == [False, True]


def test_held_out_problems_are_measured_every_so_many_steps(monkeypatch):
    def measured(every: int, held_out: list) -> list[int]:
        settings = (f"eval.every={every}", "steps=6", "algo=grpo", "rollout.prompts=1")
        trainer = make_trainer(has_even, *settings)
        trainer.held_out = held_out
        values = {"pass@1": 0.5, "interval": (0.25, 0.75), "cons@k": 1.0, "by_level": {"1": 0.25}}
        figures = Measured.model_validate(values)
        monkeypatch.setattr(trainer, "measure", lambda: (["response"], {"": figures}))
        actual = [result for result in trainer.train_steps() if result.held_out == ["response"]]
        for result in actual:
            figures = {k: v for k, v in result.figures.row.items() if k.startswith("held_out")}
            assert figures == {
                "held_out_pass@1": 0.5,
                "held_out_pass@1_low": 0.25,
                "held_out_pass@1_high": 0.75,
                "held_out_cons@k": 1.0,
                "held_out_by_level": {"1": 0.25},
            }
        return [result.step for result in actual]

    assert measured(3, ["problem"]) == [3, 6]
    assert measured(0, ["problem"]) == measured(3, []) == []
