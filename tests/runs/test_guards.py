"""Each guard fires on a run built to trigger it, says so once, and is silent on a good run."""

import pytest
import torch
from small_runs import made_figures
from small_trainer import has_even, make_trainer

from rlvr_cli.config.sections import GuardsConfig
from rlvr_cli.core.step_figures import StepFigures
from rlvr_cli.runs.guards import check
from verifiers import Verdict

GOOD = {
    "no_update": None,
    "mixed_share": 0.6,
    "updates_skipped": 0,
    "cut_off_share": 0.0,
    "rejected_share": 0.0,
    "entropy": 0.3,
    "sampled_entropy": 0.3,
    "pass@1": 0.4,
    "approx_kl": 0.001,
    "ref_kl": 0.01,
    "verdicts": {"correct": 40, "wrong": 60},
}
WARNED = {
    "cut off": ({"cut_off_share": 0.9}, "90% of the responses are cut off; raise --max-tokens"),
    "entropy": (
        {"sampled_entropy": 0.001},
        "entropy has collapsed to 0.001 nats a token, with 40% right",
    ),
    "old": ({"approx_kl": 2.0}, "KL to the policy that sampled is 2 nats a token"),
    "reference": ({"ref_kl": 3.0}, "KL to the reference policy is 3 nats a token"),
    "none right": (
        {"verdicts": {"wrong": 100}, "reward/brief": 0.5, "pass@1": 0.0, "mixed_share": 0.0},
        "no response is right: what trains is another reward than math, on wrong responses alone",
    ),
    "majority": (
        {"reward/majority/share": 0.99},
        "the majority has 99% of the responses: the policy agrees with itself",
    ),
    "timeouts": (
        {"verdicts": {"timeout": 10, "wrong": 90}},
        "the verifier ran out of time on 10% of the responses",
    ),
}


def run_of(*rows: dict) -> list[StepFigures]:
    return [made_figures({**GOOD, **row, "step": step}) for step, row in enumerate(rows, 1)]


def findings(history: list[StepFigures], config: GuardsConfig) -> list[tuple[int, str, bool]]:
    """(number of steps so far, text, stops) as a run would meet them."""
    return [
        (step, finding.text, finding.is_error)
        for step in range(1, len(history) + 1)
        for finding in check(history[:step], config)
    ]


@pytest.mark.parametrize("name", WARNED)
def test_a_warning_is_given_once_and_again_after_it_was_over(name):
    row, text = WARNED[name]
    bad, good = [row] * 5, [{"reward/majority/share": 0.5}] * 5
    actual = findings(run_of(*bad, *good, *bad), GuardsConfig())
    assert [stops for _, _, stops in actual] == [False, False]
    assert actual[0][0] == 3
    assert actual[0][1].startswith(f"step 3: {text}")
    assert actual[1][0] > 10


def test_what_a_correction_rejects_is_said_in_its_step():
    history = run_of({}, {"rejected_share": 0.1}, {"rejected_share": 0.25}, {"rejected_share": 0.5})
    ((step, text, stops),) = findings(history, GuardsConfig())
    assert (step, stops) == (3, False)
    assert text.startswith("step 3: the correction rejects 25% of the responses")


HALF = [0.031, 0.029, 0.035, 0.026, 0.038, 0.033]
"""Gaps between engine and trainer of healthy steps in bfloat16."""


@pytest.mark.parametrize(
    ("gaps", "said"),
    [
        ([*HALF, 0.07, 0.07, 0.03, 0.08], [7, 10]),  # once while it lasts
        ([*HALF, None, 0.07], [8]),  # a step without an update measures nothing
        ([*HALF, 0.042], []),  # 1.27 times 0.033
        ([0.03, 0.07], [2]),
        ([0.07, None, 0.03], []),
        ([2e-6, 1e-6, 9e-6], []),  # rounding in float32
        ([2e-6, 1e-6, 2e-3], [3]),
    ],
)
def test_a_gap_that_grows_is_said_in_its_step(gaps, said):
    actual = findings(run_of(*({"mismatch": gap} for gap in gaps)), GuardsConfig())
    assert [step for step, _, _ in actual] == said
    for _, text, stops in actual:
        assert not stops
        assert "engine and trainer differ by 0.0" in text
        assert "times as much as in the steps before" in text


@pytest.mark.parametrize(("tokens", "said"), [(4096, [3]), (64, [3]), (16, [])])
def test_a_gap_of_few_tokens_may_grow_by_chance(tokens, said):
    """1.3 + 3 sqrt(1/n + 1/2n) is 1.36, 1.76 and 2.22."""
    rows = ({"mismatch": gap, "mismatch_tokens": tokens} for gap in (0.03, 0.03, 0.065))
    assert [step for step, _, _ in findings(run_of(*rows), GuardsConfig())] == said


def sometimes_late(text: str) -> Verdict:
    late = int(text.split()[0]) % 3 == 0
    return Verdict.TIMEOUT if late else RULE[has_even(text)]


RULE = {True: Verdict.CORRECT, False: Verdict.WRONG}
BUILT = {
    "are cut off; raise --max-tokens": ("algo=grpo", "rollout.max_tokens=2"),
    "KL to the policy that sampled": (
        "algo=grpo",
        "algorithm.epochs=8",
        "optim.lr=0.1",
        "guards.max_kl=0.05",
    ),
    "KL to the reference policy": ("algo=grpo", "optim.lr=0.02"),
    "entropy has collapsed": ("algo=reinforce", "optim.lr=0", "steps=20"),
    "the verifier ran out of time": ("algo=grpo",),
}


@pytest.mark.parametrize("text", BUILT)
def test_each_warning_comes_of_a_run_built_for_it(tmp_path, text):
    trainer = make_trainer(has_even, "steps=8", "optim.warmup_steps=0", *BUILT[text])
    if "time" in text:
        trainer.session.sampler.verifier.judge = sometimes_late
    if "entropy" in text:
        with torch.no_grad():
            trainer.session.policy.model.model.norm.weight.mul_(999)  # always the likeliest token
    history = [result.figures for result in trainer.train_steps()]
    assert any(text in actual for _, actual, _ in findings(history, trainer.config.guards))


def test_nothing_is_said_of_a_good_run():
    assert findings(run_of(*[{}] * 30), GuardsConfig()) == []


def test_a_step_that_does_not_know_of_skipped_updates_has_none():
    assert findings(run_of(*[{"updates_skipped": None}] * 30), GuardsConfig()) == []


def test_low_entropy_of_a_policy_that_is_right_is_no_collapse():
    sure = {"sampled_entropy": 0.001, "pass@1": 0.95}
    assert findings(run_of(*[sure] * 5), GuardsConfig()) == []


def test_the_entropy_of_all_sampled_tokens_counts_and_not_of_those_that_trained():
    assert findings(run_of(*[{"entropy": 0.001}] * 5), GuardsConfig()) == []
    older = [{"entropy": 0.001, "sampled_entropy": None}] * 5  # or supervised training
    ((step, text, _),) = findings(run_of(*older), GuardsConfig())
    assert (step, "entropy has collapsed" in text) == (3, True)


def test_no_signal_stops_at_its_number_of_steps_in_a_row():
    silent = {"no_update": "no signal", "mixed_share": 0.0}
    config = GuardsConfig(no_signal_steps=4)
    assert findings(run_of(*[silent] * 3, {}, *[silent] * 3), config) == []
    ((step, text, stops),) = findings(run_of({}, *[silent] * 4), config)
    assert (step, stops) == (5, True)
    assert text.startswith("step 5: no signal for 4 steps")


def test_a_step_that_waits_for_a_full_batch_has_a_signal():
    waiting = {"no_update": "batch not full", "mixed_share": 0.1}
    assert findings(run_of(*[waiting] * 20), GuardsConfig()) == []


def test_a_gradient_that_is_not_finite_is_skipped_warned_of_and_then_stops(tmp_path):
    trainer = make_trainer(has_even, "algo=grpo", "steps=5", "guards.not_finite_steps=3")
    head = trainer.updater.policy.model.get_output_embeddings().weight
    head.register_hook(lambda gradient: gradient * float("inf"))
    history: list[StepFigures] = []
    stopped = 0
    for result in trainer.train_steps():
        history.append(result.figures)
        actual = check(history, trainer.config.guards)
        if any(finding.is_error for finding in actual):
            stopped = result.step
            break
        assert [finding.text[:12] for finding in actual] == ["step 1: the "] * (len(history) == 1)
    assert stopped == 3
    assert [figures.update.updates_skipped for figures in history] == [1, 1, 1]


@pytest.mark.parametrize("algo", ["dapo", "grpo", "ppo"])
def test_a_run_that_learns_is_left_alone(tmp_path, algo):
    trainer = make_trainer(has_even, f"algo={algo}", "steps=12", "rollout.max_tokens=20")
    history = [result.figures for result in trainer.train_steps()]
    own_limits = GuardsConfig(cut_off_share=1.0, max_kl=5.0)  # a random model, large steps
    assert findings(history, own_limits) == []


def test_a_run_without_a_signal_is_stopped_and_can_go_on(rlvr, tmp_path):
    problem = '{"problem": "Prove it.", "answer": "no"}\n'
    few = ("--prompts", "2", "-n", "4", "--max-tokens", "8", "--set", "guards.no_signal_steps=2")
    result = rlvr("train", "-", "--steps", "9", *few, "--out", "run", stdin=problem)
    assert result.returncode == 3
    assert len(result.stdout.splitlines()) == 2
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("rlvr: error: step 2: no signal for 2 steps")
    assert last.endswith("saved up to step 2; go on with rlvr train --resume run")
    assert "Traceback" not in result.stderr
    longer = rlvr("train", "--resume", "run", "--set", "guards.no_signal_steps=4")
    assert longer.returncode == 3
    assert "step 4: no signal for 4 steps" in longer.stderr
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 4


def test_a_batch_that_cannot_be_filled_stops_the_run_if_so_asked(rlvr):
    problem = '{"problem": "Prove it.", "answer": "no"}\n'
    few = (
        "--prompts",
        "2",
        "-n",
        "4",
        "--max-tokens",
        "8",
        "--set",
        "algorithm.filter.on_cap=stop",
    )
    result = rlvr("train", "-", "--steps", "9", *few, "--out", "run", stdin=problem)
    assert result.returncode == 3
    assert len(result.stdout.splitlines()) == 1
    assert "stopped after 1 step" in result.stderr
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("rlvr: error: step 1: 4 generation batches did not fill the batch")
    assert last.endswith("saved up to step 1; go on with rlvr train --resume run")


def test_a_majority_collapses_if_it_is_less_often_right_than_at_first():
    shares = [n / 20 for n in range(12)]
    rows = [{"reward/majority/share": 0.99, "reward/majority/right": share} for share in shares]
    assert findings(run_of(*rows), GuardsConfig()) == []
    ((step, text, _),) = findings(run_of(*rows[::-1]), GuardsConfig())
    assert step == 4
    assert "99% of the responses, and its right share fell to 45%" in text
