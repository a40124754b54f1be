"""Scoring, advantages and the update on a model in float64: the papers' sums, and invariances."""

import dataclasses
import math
import random
from collections.abc import Callable
from functools import cache

import oracle
import pytest
import torch
from families import VOCAB
from small_models import double_model
from small_samples import Row, present, rows_of, samples_of
from transformers import PreTrainedModel

from rlvr_cli.algorithm.advantage import with_advantages
from rlvr_cli.algorithm.choices import ALGORITHMS, Algorithm
from rlvr_cli.algorithm.kinds import Critic, FixedReference, GeometricMask, KLControl, MaskOverlong
from rlvr_cli.algorithm.kl import KL
from rlvr_cli.algorithm.loss import rejected
from rlvr_cli.algorithm.objective import LossDenominators, Unclipped
from rlvr_cli.algorithm.token_advantage import Gae, Return
from rlvr_cli.core.errors import EngineError
from rlvr_cli.model import policy as models
from rlvr_cli.model.adapter import add_adapter, merged_parameters, trained
from rlvr_cli.model.policy import Policy, recompute
from rlvr_cli.model.settings import OptimConfig
from rlvr_cli.training.imitation import ImitationUpdater
from rlvr_cli.training.scoring import add_logprobs
from rlvr_cli.training.update import SCHEDULES, Updater

TEMPERATURE = 0.8
MAX_TOKENS, LONGEST = 11, 9
LAST_WARMUP_STEP = 2
STEP = LAST_WARMUP_STEP + 1
ENTROPY = Algorithm(top_entropy=0.3)
SHARED = Algorithm(
    advantage=Gae(gamma=0.9, critic=Critic(kind="shared", cut_off_value="bootstrap")),
    entropy_coef=0.01,
)
ROWS = {
    **ALGORITHMS,
    "shared critic": SHARED,
    "top entropy": ENTROPY,
    "masked": Algorithm(overlong=MaskOverlong()),
}


def make_rows(count: int = 9) -> list[Row]:
    """Rows of different lengths in three groups; the last group is carried over."""
    rng = random.Random(0)
    prompts = [[rng.randrange(2, VOCAB) for _ in range(rng.randint(1, 6))] for _ in range(3)]
    rows = []
    for index in range(count):
        length = rng.randint(1, LONGEST)
        rows.append(
            Row(
                prompt_ids=prompts[index % 3],
                response_ids=[rng.randrange(2, VOCAB) for _ in range(length)],
                rollout_logprobs=torch.tensor([-rng.random() * 9 for _ in range(length)]).double(),
                reward=rng.choice([-1.0, 1.0]) + rng.random() / 9,
                group=index % 3,
                is_fresh=index % 3 < 2,
                is_cut_off=index % 4 == 0,
            )
        )
    return [dataclasses.replace(row, is_correct=row.reward > 0) for row in rows]


class Learner:
    """Everything one step needs, on small random models; the critic's head is not zero."""

    updater_class = Updater

    def __init__(
        self,
        algo: Algorithm,
        micro_tokens: int = 10_000,
        make_model: Callable[..., PreTrainedModel] = double_model,
        **optim: object,
    ) -> None:
        model = make_model(seed=0)
        self.algo = algo
        self.policy = Policy(model, VOCAB, TEMPERATURE)
        self.reference, self.critic = None, None
        if algo.has_reference_model:
            self.reference = Policy(make_model(seed=1), VOCAB, TEMPERATURE)
        if algo.critic is not None:
            self.critic = models.Critic(model, algo.critic.kind == "own")
            head = self.critic.head.weight
            torch.manual_seed(2)
            head.data.copy_(torch.randn(head.shape))  # the same numbers in every type
        settings = OptimConfig(**{"lr": 0.0, "critic_lr": 0.0, "grad_clip": 1e9, **optim})
        settings = settings.model_copy(update={"micro_tokens": micro_tokens})
        self.micro_tokens = micro_tokens
        self.updater = self.updater_class(
            self.policy, self.critic, algo, settings, MAX_TOKENS, steps=10
        )

    def rows(self, rows: list[Row]) -> list[Row]:
        samples = samples_of(self.scored(rows))
        samples.is_rejected = rejected(samples, self.algo)
        return rows_of(with_advantages(samples, self.algo, self.updater.kl_coef))

    def scored(self, rows: list[Row]) -> list[Row]:
        samples = samples_of(rows)
        add_logprobs(
            samples,
            self.algo,
            self.micro_tokens,
            policy=self.policy,
            reference=self.reference,
            critic=self.critic,
            uses_engine_logprobs=self.updater.uses_engine_logprobs,
        )
        return rows_of(samples)

    def train(self, rows: list[Row], step: int = STEP, seed: int = 0, **more) -> dict[str, float]:
        samples = samples_of(rows)
        self.updater.measure_mismatch(samples, step)
        return present(self.updater.update(samples, step, seed, **more))

    def update(self, rows: list[Row], seed: int = 0) -> dict[str, float]:
        return self.train(self.rows(rows), STEP, seed)

    def gradients(self) -> dict[str, torch.Tensor]:
        named = dict(self.policy.model.named_parameters(prefix="policy"))
        if self.critic is not None:
            named |= dict(self.critic.named_parameters(prefix="critic"))
        return {name: p.grad.clone() for name, p in named.items() if p.grad is not None}


def once(algo: Algorithm) -> Algorithm:
    """One update a batch, so that the last gradient is that of the whole batch."""
    return algo.model_copy(update={"epochs": 1, "mini_batches": 1})


def token_logprobs(policy: Policy, row: Row) -> list[torch.Tensor]:
    """One token at a time, through the model's own logits."""
    ids = [*row.prompt_ids, *row.response_ids]
    logits = policy.model(input_ids=torch.tensor([ids])).logits[0] / TEMPERATURE
    start = len(row.prompt_ids)
    return [torch.log_softmax(logits[t - 1], -1)[ids[t]] for t in range(start, len(ids))]


def token_values(learner: Learner, row: Row) -> list[torch.Tensor]:
    """V before every token of the response and after the last, from the body's hidden states."""
    ids = torch.tensor([[*row.prompt_ids, *row.response_ids]])
    body = learner.critic.body or learner.policy.model.base_model
    hidden = body(input_ids=ids).last_hidden_state[0, len(row.prompt_ids) - 1 :]
    return list(learner.critic.head(hidden))


def oracle_responses(learner: Learner, rows: list[Row]) -> list[oracle.Response]:
    """The rows as the oracle reads them, scored one token at a time by the models' own logits."""
    responses = []
    for row in rows:
        logprobs = token_logprobs(learner.policy, row)
        frozen = torch.stack(logprobs).tolist()
        rollout = row.rollout_logprobs.tolist()
        takes_engine = learner.algo.old_logprobs == "engine" or not row.is_fresh
        reference = rollout
        if learner.reference is not None:
            reference = torch.stack(token_logprobs(learner.reference, row)).tolist()
        responses.append(
            oracle.Response(
                logprobs=logprobs,
                frozen_logprobs=frozen,
                old_logprobs=rollout if takes_engine else frozen,
                rollout_logprobs=rollout,
                ref_logprobs=reference,
                advantages=row.advantages.tolist(),
                entropy=[0.0] * len(logprobs),  # no preset has an entropy bonus
                is_right=row.is_correct,
            )
        )
    return responses


def papers_loss(learner: Learner, rows: list[Row]) -> torch.Tensor:
    """The loss of policy and critic on these rows, summed by the oracle."""
    algo = learner.algo
    right_tokens = sum(len(row.response_ids) for row in rows if row.is_correct)
    tokens = sum(len(row.response_ids) for row in rows)
    n = LossDenominators(tokens, len(rows), MAX_TOKENS, right_tokens)
    kl_coef = 0.0 if algo.kl is None else algo.kl.coef
    loss = oracle.policy_loss(algo, oracle_responses(learner, rows), n, kl_coef)
    if learner.critic is not None:
        for row in rows:
            values = token_values(learner, row)[:-1]
            loss = loss + oracle.critic_loss(
                critic=algo.critic,
                values=values,
                old_values=row.old_values.tolist(),
                returns=row.returns.tolist(),
                tokens=tokens,
            )
    return loss


@pytest.mark.parametrize("name", ALGORITHMS)
def test_loss_and_gradient_equal_the_papers_sums(name):
    algo = once(ALGORITHMS[name])
    assert algo.entropy_coef == 0
    learner = Learner(algo)
    rows = learner.rows(make_rows())
    metrics = learner.train(rows, STEP, 0)
    ours = learner.gradients()
    learner.updater.optimizer.zero_grad()
    expected = papers_loss(learner, rows)
    expected.backward()
    assert metrics["loss"] == pytest.approx(expected.item(), abs=1e-10)
    for key, gradient in learner.gradients().items():
        torch.testing.assert_close(ours[key], gradient, atol=1e-10, rtol=1e-8)


@cache
def update_of_the_whole(name: str) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """The metrics and gradients of an update in one micro-batch, made once for all cuts of it."""
    learner = Learner(ROWS[name])
    return learner.update(make_rows()), learner.gradients()


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("micro_tokens", [1, 30])
def test_cutting_the_batch_changes_nothing(name, micro_tokens):
    metrics, gradients = update_of_the_whole(name)
    cut = Learner(ROWS[name], micro_tokens)
    assert cut.update(make_rows()) == pytest.approx(metrics, abs=1e-10)
    for key, gradient in cut.gradients().items():
        torch.testing.assert_close(gradient, gradients[key], atol=1e-10, rtol=1e-8)


@pytest.mark.parametrize("name", ROWS)
def test_the_order_of_the_rows_changes_nothing(name):
    algo = once(ROWS[name])
    expected = Learner(algo).update(make_rows())
    assert Learner(algo).update(make_rows()[::-1], seed=5) == pytest.approx(expected, abs=1e-10)


def test_metrics_are_means_over_all_tokens_of_the_step():
    learner = Learner(ALGORITHMS["dapo"], micro_tokens=16)
    rows = learner.rows(make_rows())
    metrics = learner.train(rows, STEP, 0)
    high = 0
    low = 0
    old_minus_new = 0.0
    mismatch = 0.0
    tokens = 0
    fresh = 0
    for row in rows:
        for t, logprob in enumerate(token_logprobs(learner.policy, row)):
            new = logprob.item()
            advantage = row.advantages[t].item()
            old = new if row.is_fresh else row.rollout_logprobs[t].item()
            ratio = torch.tensor(new - old).exp().item()
            high += ratio > 1.28 and advantage > 0
            low += ratio < 0.8 and advantage < 0
            old_minus_new += old - new
            mismatch += abs(row.rollout_logprobs[t].item() - old)
            tokens += 1
            fresh += row.is_fresh
    assert min(high, low) > 0
    assert metrics["clip_fraction"] == pytest.approx((high + low) / tokens)
    assert metrics["clip_fraction_high"] == pytest.approx(high / tokens)
    assert metrics["clip_fraction_low"] == pytest.approx(low / tokens)
    assert metrics["approx_kl"] == pytest.approx(old_minus_new / tokens, abs=1e-12)
    assert metrics["mismatch"] == pytest.approx(
        mismatch / sum(len(row.response_ids) for row in rows if row.is_fresh), abs=1e-12
    )
    assert metrics["tokens_trained"] == tokens


def test_explained_variance_is_over_all_tokens_of_the_step():
    learner = Learner(ALGORITHMS["ppo"], micro_tokens=16)
    rows = learner.rows(make_rows())
    values = torch.cat([torch.stack(token_values(learner, row)[:-1]) for row in rows]).detach()
    returns = torch.cat([row.returns for row in rows])
    expected = 1 - ((returns - values).var(correction=0) / returns.var(correction=0)).item()
    metrics = learner.train(rows, STEP, 0)
    assert metrics["explained_variance"] == pytest.approx(expected, abs=1e-10)


def test_scoring_finds_the_log_probabilities_of_each_policy():
    learner = Learner(ALGORITHMS["ppo"], micro_tokens=30)
    for row in learner.scored(make_rows()):
        own = torch.stack(token_logprobs(learner.policy, row)).detach()
        old = own if row.is_fresh else row.rollout_logprobs
        torch.testing.assert_close(row.old_logprobs, old)
        reference = torch.stack(token_logprobs(learner.reference, row)).detach()
        torch.testing.assert_close(row.ref_logprobs, reference)
        values = torch.stack(token_values(learner, row)[:-1]).detach()
        torch.testing.assert_close(row.old_values, values)
        assert row.end_value == 0


def test_a_cut_off_response_ends_in_the_value_after_it_if_asked():
    learner = Learner(SHARED, micro_tokens=30)
    for row in learner.scored(make_rows()):
        expected = token_values(learner, row)[-1].item() if row.is_cut_off else 0.0
        assert row.end_value == pytest.approx(expected, abs=1e-10)


def test_nothing_is_scored_that_is_not_needed():
    for row in Learner(once(ALGORITHMS["dapo"])).scored(make_rows()):
        assert row.old_logprobs is row.ref_logprobs is row.old_values is row.entropy is None


def test_the_divergence_in_the_reward_stands_on_every_token():
    kl = KL(kind="k1", place="reward", coef=0.3)
    algo = Algorithm(advantage=Return(kind="return", gamma=0.5), kl=kl)
    for row in Learner(algo).rows(make_rows()):
        penalty = 0.3 * (row.old_logprobs - row.ref_logprobs)
        rewards = [-float(value) for value in penalty]
        rewards[-1] += row.reward
        expected = [
            sum(0.5 ** (s - t) * rewards[s] for s in range(t, len(rewards)))
            for t in range(len(rewards))
        ]
        assert row.advantages.tolist() == pytest.approx(expected, abs=1e-10)


def test_the_critic_learns_the_reward_to_go():
    algo = ALGORITHMS["ppo"]
    for row in Learner(algo).rows(make_rows()):
        penalty = algo.kl.coef * (row.old_logprobs - row.ref_logprobs)
        expected = row.reward - penalty.flip(0).cumsum(0).flip(0)
        torch.testing.assert_close(row.returns, expected, atol=1e-10, rtol=0)


def test_whitening_leaves_out_what_does_not_train():
    baseline = Return(kind="batch_baseline")
    algo = Algorithm(advantage=baseline, whiten=True, overlong=MaskOverlong())
    advantages = torch.cat([row.advantages for row in Learner(algo).rows(make_rows())])
    assert advantages.mean().item() == pytest.approx(0, abs=1e-10)
    assert advantages.std().item() == pytest.approx(1, abs=1e-6)


def test_masked_responses_count_in_the_baseline_and_do_not_train():
    rows = make_rows()
    everything = Learner(Algorithm()).rows(rows)
    retained = Learner(Algorithm(overlong=MaskOverlong())).rows(rows)
    expected = [row for row in everything if not row.is_cut_off]
    assert 0 < len(retained) < len(rows)
    for row, same in zip(retained, expected, strict=True):
        assert torch.equal(row.advantages, same.advantages)


def test_rejected_responses_count_in_the_baseline_and_do_not_train():
    """The last three rows are a thousandth off by engine, the others by nothing or by nats."""
    close = make_rows()
    for row in Learner(Algorithm(epochs=2)).scored(close)[-3:]:
        close[close.index(next(r for r in close if r.response_ids == row.response_ids))] = (
            dataclasses.replace(row, rollout_logprobs=row.old_logprobs + 1e-3, old_logprobs=None)
        )
    everything = Learner(Algorithm(importance_correction=None)).rows(close)
    learner = Learner(Algorithm(importance_correction=GeometricMask()))
    retained = learner.rows(close)
    expected = [everything[i] for i, row in enumerate(close) if i >= 6 or not row.is_fresh]
    assert len(retained) == len(expected) == 5
    for row, same in zip(retained, expected, strict=True):
        assert torch.equal(row.advantages, same.advantages)
    tokens = sum(len(row.response_ids) for row in retained)
    assert learner.train(retained)["tokens_trained"] == tokens


@pytest.mark.parametrize(
    ("precision", "correction", "gap", "takes"),
    [
        ("float32", None, None, False),  # nothing was measured yet
        ("float32", None, 1e-6, True),
        ("float32", None, 1e-3, False),
        ("float32", GeometricMask(), 1e-6, False),
        ("bfloat16", None, None, True),
        ("float16", None, 1e-3, True),
        ("bfloat16", None, 1e-3, True),
        ("bfloat16", GeometricMask(), 1e-3, False),  # it compares the engine's with a pass
    ],
)
def test_old_log_probabilities_are_the_engines_where_no_pass_would_help(
    precision, correction, gap, takes
):
    algo = Algorithm(epochs=2, importance_correction=correction)
    updater = Learner(algo, precision=precision).updater
    updater.mismatch = gap
    assert updater.uses_engine_logprobs == takes


def test_several_updates_train_every_row_once_an_epoch():
    learner = Learner(Algorithm(epochs=2, mini_batches=3))
    rows = make_rows()
    observed = mini_batches(learner, rows, STEP)
    assert sorted(row for part in observed for row in part) == sorted(2 * [*range(len(rows))])


def test_the_epochs_end_early_past_the_target():
    moving = {"lr": 0.05, "warmup_steps": 0}
    fresh = [dataclasses.replace(row, is_fresh=True) for row in make_rows()]
    free = Learner(Algorithm(epochs=4, mini_batches=3), **moving).update(fresh)
    bound = Learner(Algorithm(epochs=4, mini_batches=3, target_kl=1e-6), **moving).update(fresh)
    assert free["epochs"] == 4
    assert bound["epochs"] < 4


def gaps_by_hand(learner: Learner, rows: list[Row]) -> list[float]:
    """Old minus present log-probability of every token of scored rows."""
    return [
        float(old - new.detach())
        for row in rows
        for old, new in zip(row.old_logprobs, token_logprobs(learner.policy, row), strict=True)
    ]


@pytest.mark.parametrize("epochs", [2, 3])
def test_the_target_is_held_against_what_the_epoch_has_done(epochs):
    """With one mini-batch the first epoch itself sees no divergence: the policy has not moved."""
    fresh = [dataclasses.replace(row, is_fresh=True) for row in make_rows()]
    learner = Learner(Algorithm(epochs=epochs, target_kl=1e-9), lr=0.05, warmup_steps=0)
    rows = learner.rows(fresh)
    metrics = learner.train(rows, STEP, 0)
    assert metrics["epochs"] == 1
    assert metrics["approx_kl"] == pytest.approx(0, abs=1e-12)
    assert metrics["approx_kl_after"] > 1e-9
    gaps = gaps_by_hand(learner, rows)
    assert metrics["approx_kl_after"] == pytest.approx(sum(gaps) / len(gaps), abs=1e-10)


def test_the_coefficient_stays_where_no_update_was_taken():
    control = KLControl(kind="doubling", target=1e-3)
    old = FixedReference(kind="old")
    kl = KL(kind="k3", coef=0.1, reference=old, control=control)
    learner = Learner(Algorithm(surrogate=Unclipped(kind="ratio"), kl=kl, epochs=2), lr=0.02)
    head = learner.policy.model.get_output_embeddings().weight
    head.register_hook(lambda gradient: gradient * math.nan)
    assert learner.update(make_rows())["updates_skipped"] == 2
    assert learner.updater.kl_coef == 0.1


def test_the_penalty_form_follows_the_divergence_after_the_updates():
    """PPO, section 4: beta is doubled where d, taken after the updates, is past 1.5 targets."""
    control = KLControl(kind="doubling", target=1e-3)
    old = FixedReference(kind="old")
    kl = KL(kind="k3", coef=0.1, reference=old, control=control)
    algo = Algorithm(surrogate=Unclipped(kind="ratio"), kl=kl, epochs=2)
    fresh = [dataclasses.replace(row, is_fresh=True) for row in make_rows()]
    learner = Learner(algo, lr=0.02, warmup_steps=0)
    rows = learner.rows(fresh)
    metrics = learner.train(rows, STEP, 0)
    gaps = gaps_by_hand(learner, rows)
    after = sum(math.exp(-gap) - 1 + gap for gap in gaps) / len(gaps)
    assert metrics["ref_kl_after"] == pytest.approx(after, abs=1e-10)
    assert after > 1.5e-3
    assert learner.updater.kl_coef == 0.2


def test_carried_rows_tell_nothing_of_how_far_the_updates_moved():
    """Their old log-probabilities are those of older weights, here far off; with learning rate 0
    the policy has not moved at all."""
    algo = Algorithm(epochs=3, target_kl=0.01)
    assert Learner(algo).update(make_rows())["epochs"] == 3
    metrics = Learner(algo).update(make_rows())
    assert metrics["approx_kl_after"] == pytest.approx(0, abs=1e-12)
    stale = [dataclasses.replace(row, is_fresh=False) for row in make_rows()]
    metrics = Learner(algo).update(stale)
    assert metrics["epochs"] == 3
    assert "approx_kl_after" not in metrics


@pytest.mark.parametrize("reference", ["fixed", "old"])
def test_the_coefficient_follows_fresh_rows_alone(reference):
    control = KLControl(kind="doubling", target=1e-3)
    kl = KL(kind="k3", coef=0.1, reference=FixedReference(kind=reference), control=control)
    learner = Learner(Algorithm(kl=kl, epochs=2))
    if learner.reference is not None:
        learner.reference.model.load_state_dict(learner.policy.model.state_dict())
    learner.update(make_rows())
    assert learner.updater.kl_coef == 0.05  # fresh rows: no divergence, so half of it
    stale = Learner(Algorithm(kl=kl, epochs=2))
    stale.update([dataclasses.replace(row, is_fresh=False) for row in make_rows()])
    assert stale.updater.kl_coef == 0.1  # nothing was measured


def test_a_fresh_rows_divergence_from_the_reference_is_its_mean():
    learner = Learner(Algorithm(kl=KL(kind="k2", coef=0.1)))
    rows = [row for row in learner.rows(make_rows()) if row.is_fresh]
    squares = [
        (float(own.detach()) - float(ref)) ** 2 / 2
        for row in rows
        for own, ref in zip(token_logprobs(learner.policy, row), row.ref_logprobs, strict=True)
    ]
    metrics = learner.update(make_rows())
    assert metrics["ref_kl"] == pytest.approx(sum(squares) / len(squares), abs=1e-10)


def test_the_highest_entropies_of_the_batch_are_the_policys():
    learner = Learner(ENTROPY)
    plain = Learner(Algorithm()).rows(make_rows())
    selected = learner.rows(make_rows())
    entropies = [token_entropies(learner.policy, row).detach() for row in selected]
    ordered = torch.cat(entropies).sort(descending=True).values
    threshold = ordered[math.ceil(0.3 * len(ordered)) - 1]
    for row, before, entropy in zip(selected, plain, entropies, strict=True):
        expected = before.advantages * (entropy >= threshold - 1e-9)
        torch.testing.assert_close(row.advantages, expected)


def test_without_the_policy_only_the_critic_learns():
    learner = Learner(ALGORITHMS["ppo"], lr=0.1, critic_lr=0.1, weight_decay=0.1, warmup_steps=0)
    policy, critic = (
        [p.clone() for p in m.parameters()] for m in (learner.policy.model, learner.critic)
    )
    learner.train(learner.rows(make_rows()), STEP, 0, learns_policy=False)
    assert all(map(torch.equal, policy, learner.policy.model.parameters()))
    assert not any(map(torch.equal, critic, learner.critic.parameters()))


class Imitator(Learner):
    """A learner from responses that were not sampled."""

    updater_class = ImitationUpdater


def test_rows_that_were_not_sampled_train_without_an_engine_to_agree_with():
    learner = Imitator(ALGORITHMS["sft"])
    learner.updater.mismatch_limit = 0.0
    given = [dataclasses.replace(row, rollout_logprobs=None, is_fresh=True) for row in make_rows()]
    metrics = learner.update(given)
    logprobs = [float(v.detach()) for row in given for v in token_logprobs(learner.policy, row)]
    assert metrics["loss"] == pytest.approx(-sum(logprobs) / len(logprobs), abs=1e-10)
    assert metrics["mismatch"] == metrics["approx_kl"] == 0


def test_in_the_warm_up_only_the_critic_learns():
    learner = Learner(ALGORITHMS["ppo"], lr=0.1, critic_lr=0.1, weight_decay=0.1, warmup_steps=0)
    policy = [p.clone() for p in learner.policy.model.parameters()]
    critic = [p.clone() for p in learner.critic.parameters()]
    metrics = learner.train(learner.rows(make_rows()), LAST_WARMUP_STEP, 0)
    assert all(
        torch.equal(a, b) for a, b in zip(policy, learner.policy.model.parameters(), strict=True)
    )
    assert not any(
        torch.equal(a, b) for a, b in zip(critic, learner.critic.parameters(), strict=True)
    )
    assert metrics["entropy"] > 0
    learner.train(learner.rows(make_rows()), STEP, 0)
    assert not torch.equal(policy[0], next(learner.policy.model.parameters()))


def test_the_critic_has_a_learning_rate_of_its_own():
    learner = Learner(ALGORITHMS["ppo"], lr=0.0, critic_lr=0.1, warmup_steps=0)
    policy, critic = (
        [p.clone() for p in m.parameters()] for m in (learner.policy.model, learner.critic)
    )
    learner.update(make_rows())
    assert all(map(torch.equal, policy, learner.policy.model.parameters()))
    assert not any(map(torch.equal, critic, learner.critic.parameters()))


def test_the_coefficient_adapts_to_the_divergence():
    control = KLControl(kind="doubling", target=1e-3)
    learner = Learner(Algorithm(kl=KL(kind="k3", coef=0.1, control=control)))
    metrics = learner.update(make_rows())
    assert metrics["ref_kl"] > 1.5e-3
    assert metrics["kl_coef"] == 0.1
    assert learner.updater.kl_coef == 0.2


def test_the_coefficient_rests_while_only_the_critic_learns():
    kl = KL(kind="k1", place="reward", coef=0.005, control=KLControl(kind="doubling", target=0.01))
    learner = Learner(ALGORITHMS["ppo"].model_copy(update={"kl": kl}))
    rows = learner.rows(make_rows())
    learner.train(rows, LAST_WARMUP_STEP, 0)
    assert learner.updater.kl_coef == kl.coef
    learner.train(rows, STEP, 0)
    assert learner.updater.kl_coef != kl.coef


def test_weights_stay_where_engine_and_trainer_disagree():
    learner = Learner(Algorithm(), lr=0.1, warmup_steps=0)
    learner.updater.mismatch_limit = 0.1
    before = [p.clone() for p in learner.policy.model.parameters()]
    with pytest.raises(EngineError, match="step 3: the engine and the trainer disagree"):
        learner.update(make_rows())
    after = learner.policy.model.parameters()
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_engine_and_trainer_are_compared_over_the_whole_batch_before_the_first_update():
    rows = [dataclasses.replace(row, is_fresh=True) for row in make_rows()]
    learner = Learner(Algorithm(epochs=2, mini_batches=len(rows)), lr=0.1, warmup_steps=0)
    rows = learner.rows(rows)
    exact = [dataclasses.replace(row, rollout_logprobs=row.old_logprobs) for row in rows]
    off = dataclasses.replace(exact[0], rollout_logprobs=exact[0].old_logprobs - 1)
    mean_gap = len(off.response_ids) / sum(len(row.response_ids) for row in rows)
    before = [p.clone() for p in learner.policy.model.parameters()]
    learner.updater.mismatch_limit = 0.99 * mean_gap
    with pytest.raises(EngineError, match=f"disagree by {mean_gap:.3g} "):
        learner.train([*exact[1:], off], STEP, 0)
    after = learner.policy.model.parameters()
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    learner.updater.mismatch_limit = 1.01 * mean_gap
    assert learner.train([*exact[1:], off], STEP, 0)["mismatch"] > 0


def test_nothing_fresh_has_no_mismatch():
    stale = [dataclasses.replace(row, is_fresh=False) for row in make_rows()]
    assert "mismatch" not in Learner(Algorithm()).update(stale)


def test_the_learning_rate_warms_up_and_then_follows_its_schedule():
    def rates(schedule: str, steps: range) -> list[float]:
        learner = Learner(Algorithm(), lr=1e-6, warmup_steps=2, schedule=schedule)
        rows = learner.rows(make_rows(6))
        return [1e6 * learner.train(rows, step)["lr"] for step in steps]

    shares = [0.5, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]
    assert rates("linear", range(1, 11)) == pytest.approx(shares)
    assert SCHEDULES["cosine"](0.5) == pytest.approx(0.5)
    # After 0, 1/4, 1/2 and 3/4 of the steps behind the warm-up: (1 + cos of as much of pi) / 2.
    actual = rates("cosine", range(3, 10, 2))
    assert actual == pytest.approx([1, (2 + 2**0.5) / 4, 1 / 2, (2 - 2**0.5) / 4])


def test_adamw_has_the_numbers_of_the_settings():
    learner = Learner(
        ALGORITHMS["ppo"], lr=0.1, critic_lr=0.2, betas=(0.5, 0.7), weight_decay=0.25, eps=1e-5
    )
    for _ in range(2):
        groups = learner.updater.optimizer.param_groups
        assert [group["peak"] for group in groups] == [0.1, 0.2]
        assert {group["betas"] for group in groups} == {(0.5, 0.7)}
        assert {group["weight_decay"] for group in groups} == {0.25}
        assert {group["eps"] for group in groups} == {1e-5}
        learner.updater.reset_optimizer()


def test_a_critics_gradient_that_is_not_finite_reaches_no_weight():
    learner = Learner(ALGORITHMS["ppo"], lr=0.1, critic_lr=0.1, weight_decay=0.1, warmup_steps=0)
    learner.critic.head.weight.register_hook(lambda gradient: gradient * float("nan"))
    modules = (learner.policy.model, learner.critic)
    before = [parameter.clone() for module in modules for parameter in module.parameters()]
    assert learner.update(make_rows())["updates_skipped"] == 2
    after = [parameter for module in modules for parameter in module.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_gradients_of_policy_and_critic_are_clipped_each():
    learner = Learner(ALGORITHMS["ppo"], grad_clip=1e-3)
    metrics = learner.update(make_rows())
    assert metrics["grad_norm"] > 1e-3
    assert metrics["critic_grad_norm"] > 1e-3
    for part in ("policy.", "critic."):
        own = [g for name, g in learner.gradients().items() if name.startswith(part)]
        assert torch.cat([g.flatten() for g in own]).norm().item() == pytest.approx(1e-3, rel=1e-2)


def test_a_target_that_is_not_reached_ends_no_epoch():
    learner = Learner(Algorithm(epochs=4, target_kl=1e6), lr=0.01, warmup_steps=0)
    assert learner.update(make_rows())["epochs"] == 4


def mini_batches(learner: Learner, rows: list[Row], step: int) -> list[list[int]]:
    """The numbers of the rows in each optimizer step of one update."""
    observed: list[list[int]] = []
    own = type(learner.updater)._optimizer_step
    learner.updater._optimizer_step = lambda samples, part, *rest: (
        observed.append(list(part)),
        own(learner.updater, samples, part, *rest),
    )
    learner.train(learner.rows(rows), step)
    return observed


def test_mini_batches_are_drawn_anew_in_every_epoch_and_step():
    rows = make_rows()
    first = mini_batches(Learner(Algorithm(epochs=2, mini_batches=3)), rows, 3)
    repeated = mini_batches(Learner(Algorithm(epochs=2, mini_batches=3)), rows, 3)
    other = mini_batches(Learner(Algorithm(epochs=2, mini_batches=3)), rows, 4)
    assert first == repeated
    assert first[:3] != first[3:]
    assert first[:3] != other[:3]
    assert first[0] != [0, 3, 6]


def test_fewer_rows_than_mini_batches_are_as_many_updates():
    rows = make_rows()[::3]  # one group
    assert [len(part) for part in mini_batches(Learner(Algorithm(mini_batches=5)), rows, 3)] == [
        1
    ] * 3
    few, as_many = (Learner(Algorithm(mini_batches=n)).update(rows) for n in (5, 3))
    assert few == pytest.approx(as_many)


def test_carried_rows_do_not_dilute_how_far_engine_and_trainer_disagree():
    learner = Learner(Algorithm(), lr=0.1, warmup_steps=0)
    rows = learner.rows(make_rows())
    fresh = [row for row in rows if row.is_fresh]
    gaps = [
        abs(float(logprob.detach() - message))
        for row in fresh
        for logprob, message in zip(
            token_logprobs(learner.policy, row), row.rollout_logprobs, strict=True
        )
    ]
    mean_gap = sum(gaps) / len(gaps)
    learner.updater.mismatch_limit = 0.99 * mean_gap
    with pytest.raises(EngineError, match=f"disagree by {mean_gap:.3g} "):
        learner.train(rows, STEP, 0)


def token_entropies(policy: Policy, row: Row) -> torch.Tensor:
    """-sum p log p of the distribution of every token of the response, through the model's own
    logits."""
    ids = [*row.prompt_ids, *row.response_ids]
    logits = policy.model(input_ids=torch.tensor([ids])).logits[0] / TEMPERATURE
    logprobs = torch.log_softmax(logits[len(row.prompt_ids) - 1 : -1], -1)
    return -(logprobs.exp() * logprobs).sum(-1)


def test_the_entropy_bonus_has_a_gradient():
    """What the coefficient adds to the gradient is that of -0.5 x the mean entropy of a token."""
    plain, bonus = Learner(Algorithm()), Learner(Algorithm(entropy_coef=0.5))
    plain.update(make_rows())
    rows = bonus.rows(make_rows())
    bonus.train(rows, STEP, 0)
    ours = bonus.gradients()
    without = plain.gradients()
    bonus.updater.optimizer.zero_grad()
    (-0.5 * torch.cat([token_entropies(bonus.policy, row) for row in rows]).mean()).backward()
    for key, gradient in bonus.gradients().items():
        torch.testing.assert_close(ours[key] - without[key], gradient, atol=1e-10, rtol=1e-8)
        assert gradient.abs().sum() > 0


@pytest.mark.parametrize("name", ["dapo", "grpo", "ppo"])
def test_layers_computed_again_give_the_same_update(name):
    plain, other = Learner(once(ALGORITHMS[name])), Learner(once(ALGORITHMS[name]), 30)
    for module in filter(None, (other.policy, other.critic)):
        recompute(module)
    actual = other.update(make_rows())
    expected = plain.update(make_rows())
    assert actual == pytest.approx(expected, abs=1e-10)
    gradients = other.gradients()
    assert gradients.keys() == plain.gradients().keys()
    for key, gradient in plain.gradients().items():
        torch.testing.assert_close(gradients[key], gradient, atol=1e-10, rtol=1e-8)


@pytest.mark.parametrize("micro_tokens", [1, 30, 10_000])
def test_an_adapters_gradient_is_that_of_the_merged_weights(micro_tokens):
    """dL/dB = s dL/dW A^T and dL/dA = s B^T dL/dW, in float64, however the batch is cut."""
    lora, merged = (
        Learner(once(ALGORITHMS["dapo"]), micro_tokens),
        Learner(once(ALGORITHMS["dapo"])),
    )
    add_adapter(lora.policy.model, 2, 6, "all-linear", 0)
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in trained(lora.policy.model):
            parameter.data = torch.randn(parameter.shape).double() / 10
        for key, tensor in merged_parameters(lora.policy.model):
            merged.policy.model.get_parameter(key).copy_(tensor)
    lora.updater.reset_optimizer()
    actual = lora.update(make_rows())
    expected = merged.update(make_rows())
    assert actual["loss"] == pytest.approx(expected["loss"], abs=1e-9)
    ours = lora.gradients()
    unbroken = merged.gradients()
    assert len(ours) == 2 * 2 * 7
    for key in (key for key in ours if ".lora_A." in key):
        other = key.replace("lora_A", "lora_B")
        name = key.removeprefix("policy.")
        A = lora.policy.model.get_parameter(name).detach()
        B = lora.policy.model.get_parameter(name.replace("lora_A", "lora_B")).detach()
        gradient = unbroken[key.partition(".lora_A")[0] + ".weight"]
        torch.testing.assert_close(ours[key], 3 * B.T @ gradient, atol=1e-9, rtol=1e-7)
        torch.testing.assert_close(ours[other], 3 * gradient @ A.T, atol=1e-9, rtol=1e-7)


def test_a_target_without_fresh_rows_ends_no_epoch_and_divergences_have_an_order():
    algo = ALGORITHMS["grpo"].model_copy(update={"epochs": 3, "target_kl": 1e-9})
    carried = [dataclasses.replace(row, is_fresh=False) for row in make_rows(6)]
    learner = Learner(algo)
    assert learner.update(carried)["epochs"] == 3
    actual = learner.updater._divergence_after(samples_of(learner.rows(make_rows(6))))
    assert list(present(actual)) == ["approx_kl_after", "ref_kl_after"]
