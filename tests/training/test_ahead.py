"""One step ahead: which weights sample which batch, the proof of them, the checkpoint, faults."""

import json
import shutil
import threading
import time
from itertools import islice

import pytest
import torch
from conftest import invoke, refused, small_run
from fake_vllm import FakeVllm, fake_vllm
from small_models import random_model
from small_servers import ON_SERVERS, is_even, trainer_on_servers
from small_trainer import has_even, make_trainer, weights

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.core.errors import EngineError, UserError
from rlvr_cli.core.seeds import response_seed
from rlvr_cli.core.types import Group
from rlvr_cli.data.problems import ProblemOrder
from rlvr_cli.model.loading import load_model
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
from rlvr_cli.training.ahead import batch_as_json, batch_from_json
from rlvr_cli.training.scoring import score_all
from rlvr_cli.training.trainer import Trainer

AHEAD = "rollout.ahead=1"
GRPO = ("algo=grpo", "steps=5", "optim.lr=0.03", AHEAD)


def held(trainer: Trainer) -> torch.nn.Module:
    """The model as it is now."""
    model = random_model()
    model.load_state_dict(trainer.session.policy.model.state_dict())
    return model


def as_sampled(groups: list[Group]) -> list[list[tuple]]:
    return [[(r.completion.token_ids, r.completion.logprobs) for r in g.rollouts] for g in groups]


def test_its_rollouts_are_those_of_the_weights_of_one_step_before():
    """A simulation without the loop: each batch by the weights that the update before last left,
    the first two by those of the start, to the last digit."""
    trainer = make_trainer(has_even, *GRPO)
    models = [held(trainer)]
    sampled = []
    for result in trainer.train_steps():
        assert result.figures.batch.no_update is None
        sampled.append(result.sampled)
        models.append(held(trainer))
    order = ProblemOrder(len(trainer.prompts), trainer.config.seed)
    for step, groups in enumerate(sampled, 1):
        weight_version = max(0, step - 2)
        draws = order.draw(3)
        prompts = [trainer.prompts[problem].token_ids for _, problem in draws]
        seeds = [response_seed(trainer.config.seed, "train", place) for place, _ in draws]
        engine = TransformersEngine(models[weight_version], 50, (1,), 64)
        expected = dict(engine.generate(prompts, trainer.params, seeds))
        assert [group.weight_version for group in groups] == [weight_version] * 3
        assert as_sampled(groups) == [
            [(c.token_ids, c.logprobs) for c in expected[p]] for p in range(3)
        ]
    in_turn = make_trainer(has_even, *GRPO, "rollout.ahead=0")
    other = [result.sampled for result in in_turn.train_steps()]
    assert as_sampled(sampled[0]) == as_sampled(other[0])
    assert as_sampled(sampled[1]) != as_sampled(other[1])


def test_all_rounds_of_a_batch_have_the_same_weights():
    trainer = make_trainer(has_even, "algo=dapo", "rollout.prompts=2", "steps=6", AHEAD)
    rounds = []
    version = 0
    for result in trainer.train_steps():
        rounds.append(result.figures.batch.gen_batches)
        of_batch = {group.weight_version for group in result.sampled}
        assert len(of_batch) <= 1
        assert of_batch <= {version - 1, 0}
        version = trainer.weight_version
    assert max(rounds) > 1


def test_older_tokens_are_weighed_as_those_of_partial_rollouts():
    trainer = make_trainer(has_even, *GRPO)
    assert trainer.config.algorithm.importance_correction.kind == "truncate"
    (*_, result) = islice(trainer.train_steps(), 3)
    samples = trainer.samples_of(result.sampled)  # two updates behind by now
    assert torch.equal(samples.anchored, samples.mask.bool())
    assert not samples.is_fresh.any()
    trainer.weight_version -= 1
    assert torch.equal(trainer.samples_of(result.sampled).is_fresh, samples.mask.bool())
    coupled = make_trainer(has_even, *GRPO, "algorithm.importance_correction=none")
    next(coupled.train_steps())
    first, second = (coupled.next_batch.groups.groups, coupled.weight_version)
    assert second == 1
    assert not coupled.samples_of(first).anchored.any()  # the ratio is to what sampled them
    coupled.weight_version = 0
    assert coupled.samples_of(first).anchored.any()


def test_figures_of_divergence_are_of_the_batch_that_was_sampled_ahead():
    settings = ("algo=ppo", "algorithm.advantage.critic.warmup=0", "algorithm.target_kl=1e-9")
    trainer = make_trainer(has_even, *settings, "algorithm.epochs=3", "steps=3", AHEAD)
    for result in trainer.train_steps():
        update = result.figures.update
        assert update.ref_kl is not None
        assert update.approx_kl_after is not None
        assert update.epochs == 1  # the target is below any change


def test_the_stored_batch_is_the_batch():
    trainer = make_trainer(has_even, "algo=dapo", "rollout.prompts=4", "steps=6", AHEAD)
    earlier = 0
    for _ in islice(trainer.train_steps(), 5):
        batch = trainer.next_batch
        row = json.loads(json.dumps(batch_as_json(batch, trainer.prompts)))
        stored = batch_from_json(row, trainer.prompts, 4, trainer.config.algorithm, ())
        assert json.loads(json.dumps(batch_as_json(stored, trainer.prompts))) == row
        earlier += len(row["earlier"])
        places = [
            [n for n, group in enumerate(one.groups.sampled) if any(group is g for g in trained)]
            for one, trained in ((batch, batch.groups.groups), (stored, stored.groups.groups))
        ]
        assert places[0] == places[1]  # the same groups, not copies of them
    assert earlier > 0
    with pytest.raises(ValueError, match="was not sampled"):
        batch_from_json({**row, "trained": [999]}, trainer.prompts, 4, batch.groups.algo, ())


def test_the_last_step_samples_no_batch_and_a_longer_run_begins_like_a_new_one():
    trainer = make_trainer(has_even, *GRPO)
    *_, last = trainer.train_steps()
    assert last.step == 5
    assert trainer.next_batch is None
    trainer.config = trainer.config.model_copy(update={"steps": 6})
    (result,) = trainer.train_steps()
    assert {group.weight_version for group in result.sampled} == {5}


def test_steps_on_servers_are_those_of_the_engine_of_this_process():
    here = make_trainer(is_even, *ON_SERVERS, AHEAD)
    expected = list(islice(here.train_steps(), 4))
    with trainer_on_servers(AHEAD) as (trainer, _):
        for result, other in zip(islice(trainer.train_steps(), 4), expected, strict=True):
            update = result.figures.update
            assert update.loss == pytest.approx(other.figures.update.loss, abs=1e-5)
            assert update.mismatch < 1e-5
            assert update.mismatch_tokens > 0
            for group, same in zip(result.sampled, other.sampled, strict=True):
                assert group.weight_version == same.weight_version
                assert [r.text for r in group.rollouts] == [r.text for r in same.rollouts]


def test_servers_sample_beside_the_update_and_get_its_weights_when_the_batch_is_whole():
    """They answer nothing of the next batch before the update has begun."""
    with trainer_on_servers(AHEAD, "rollout.prompts=2") as (trainer, servers):
        is_updating = threading.Event()
        trainer.watch = lambda phase, *_: is_updating.set() if phase == "update" else None
        batch_and_continued = 2 + 16
        waited = []
        for server in servers:
            sample = server.choices

            def choices(*body, sample=sample):
                answered = sum(s.seen["/inference/v1/generate"] for s in servers)
                if answered > batch_and_continued:
                    waited.append(is_updating.wait(1.9))
                    time.sleep(0.05)
                return sample(*body)

            server.choices = choices
        next(trainer.train_steps())
        assert waited == [True, True]
        assert trainer.next_batch.groups.groups[0].weight_version == 0
        for server in servers:
            paths = [path for path, _ in server.bodies]
            assert paths.index("/collective_rpc") < paths.index("/inference/v1/generate")
            reload = len(paths) - 1 - paths[::-1].index("/collective_rpc")
            assert "/inference/v1/generate" not in paths[reload:]


@pytest.mark.parametrize(
    ("fault", "lr", "least"),
    [
        ("keeps-weights", 3e-4, 0.01),  # the smallest change that has to be noticed
        ("other-model", 3e-4, 0.01),
        ("raw", 3e-4, 0.01),
        ("tied", 0.01, 0.05),  # a part of the weights moves by less than all of them
        ("leaves-out", 0.01, 0.05),
    ],
)
def test_weights_that_a_server_did_not_take_end_the_run_before_their_tokens_train(fault, lr, least):
    with trainer_on_servers(AHEAD, f"optim.lr={lr}") as (trainer, (_, second)):
        steps = trainer.train_steps()
        load = second.load

        def load_with_fault(directory):
            second.faults.add(fault)
            load(directory)

        second.load = load_with_fault
        result = next(steps)
        samples = trainer.samples_of(result.sampled)
        score_all(samples, 100, trainer.policy)
        change = (samples.trainer_logprobs - samples.rollout_logprobs)[samples.mask.bool()]
        assert least < float(change.abs().mean()) < 10 * least
        before = weights(trainer)
        with pytest.raises(EngineError) as error:
            next(steps)
        assert f"step 2: the server {second.url} and the trainer disagree by" in str(error.value)
        assert all(map(torch.equal, before, weights(trainer)))
        assert trainer.is_between_steps  # so that the end of step 1 is saved


def test_a_server_that_continues_nothing_samples_nothing_until_the_next_push():
    with trainer_on_servers(AHEAD) as (trainer, (first, second)):
        steps = trainer.train_steps()
        next(steps)
        sample = second.choices

        def choices(ids, params):
            if params["n"] == 1:
                raise OSError("nothing continued")
            return sample(ids, params)

        second.choices = choices
        result = next(steps)
        assert result.figures.update.mismatch < 1e-5
        assert samplers(trainer) == {first.url}
        second.choices = sample
        next(steps)
        assert samplers(trainer) == {first.url, second.url}


def samplers(trainer: Trainer) -> set[str]:
    """The servers of the batch of the next step."""
    groups = trainer.next_batch.groups.sampled
    return {rollout.completion.server for group in groups for rollout in group.rollouts}


def test_servers_that_die_while_a_step_trains_end_the_run():
    with trainer_on_servers(AHEAD) as (trainer, servers):
        steps = trainer.train_steps()
        next(steps)

        def watch(phase, *_):
            if phase == "logprobs":
                for server in servers:
                    server.faults.add("fails")

        trainer.watch = watch
        for server in servers:
            server.faults.add("slow")
        with pytest.raises(EngineError, match="no rollout server gives the responses"):
            next(steps)
        assert not trainer.is_between_steps  # its update is of no use: the step before stays saved


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("algo=sft",), "rollout.ahead with --algo sft, which samples no responses"),
        (
            ("algo=grpo", "algorithm.surrogate=policy_gradient"),
            "rollout.ahead with algorithm.surrogate policy_gradient",
        ),
        (("rollout.ahead=2",), "rollout.ahead"),
        (("rollout.ahead=-1",), "rollout.ahead"),
    ],
)
def test_what_does_not_fit_is_one_line(settings, message):
    with pytest.raises(UserError, match=message) as error:
        resolve(set_layer([AHEAD, *settings]))
    assert "\n" not in str(error.value)


def test_the_flag_is_refused_with_rows_that_give_the_responses():
    assert "rollout.ahead" in refused("train", "--algo", "sft", "--ahead", "1")


def batches(server: FakeVllm) -> list[dict]:
    """The requests for groups to train on, and not for the contract or the continued."""
    bodies = [body.get("sampling_params", {}) for _, body in server.bodies]
    return [params for params in bodies if params.get("max_tokens") == 12]


@pytest.mark.slow
def test_a_resumed_run_on_servers_trains_the_stored_batch_as_it_is_and_says_so(tmp_path):
    run = tmp_path / "run"
    policy = load_model("tiny")
    with fake_vllm(policy.model.config, len(policy.tokenizer), policy.tokenizer) as server:
        stored = ("checkpoint.every=1", "checkpoint.keep=3", "eval.limit=0")
        settings = [part for name in stored for part in ("--set", name)]
        short = ("--steps", "2", "--max-tokens", "12", "--algo", "grpo", *settings)
        result = invoke(
            *small_run(*short, "--rollout-server", server.url, "--ahead", "1", "--out", run)
        )
        assert result.exit_code == 0, result.stderr
        rollouts = (run / "rollouts" / "step-000002.jsonl").read_bytes()
        trained = (run / "checkpoints" / "step-2" / "model.safetensors").read_bytes()
        shutil.rmtree(run / "checkpoints" / "step-2")
        before = len(batches(server))
        result = invoke("train", "--resume", run)
        assert result.exit_code == 0, result.stderr
    assert "that of step 2; servers sample the later ones" in " ".join(result.stderr.split())
    assert (run / "rollouts" / "step-000002.jsonl").read_bytes() == rollouts
    assert (run / "checkpoints" / "step-2" / "model.safetensors").read_bytes() == trained
    assert len(batches(server)) == before  # none is sampled again
    lines = (run / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["no_update"] for line in lines] == [None, None]
