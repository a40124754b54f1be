"""The preflight shows what a run would be, and each finding fires on a run built for it."""

import json
from dataclasses import replace

import pytest
from conftest import invoke

from rlvr_cli.config import resolve, set_layer
from rlvr_cli.config.sections import DataConfig
from rlvr_cli.core.types import Completion, Group, Problem, Prompt, Rollout, SamplingParams
from rlvr_cli.evaluation.figures import judged_problems
from rlvr_cli.evaluation.measure import rollout_metrics, summarize
from rlvr_cli.runs.preflight import (
    data_findings,
    review_probe,
)
from verifiers import Verdict, Verification

FEW = ("--prompts", "2", "-n", "4", "--max-tokens", "40", "--limit", "16")
REJECTS_ALL = "{kind: geometric_mask, low: 1, high: 1}"


def prompt(problem: str = "What is 1 + 1?", answer: str = "2", text: str | None = None) -> Prompt:
    return Prompt(Problem("1", problem, answer), text or f"<{problem}>", (1, 2, 3), False)


def group(*verdicts: Verdict, cut_off: bool = False) -> Group:
    completion = Completion([1], [0.0], "length" if cut_off else "stop")
    rollouts = [
        Rollout.of(
            prompt(), n, completion, "", Verification(v, None, v is not Verdict.BAD_FORMAT, ""), 0.0
        )
        for n, v in enumerate(verdicts)
    ]
    return Group(prompt(), tuple(rollouts), 0)


def of_prompts(prompts: list[Prompt], has_template: bool = True, bad_golds: int = 0) -> list:
    config = resolve(set_layer(["rollout.prompts=1"]))
    return data_findings(config, prompts, has_template, bad_golds)


def test_a_template_that_loses_the_problem():
    assert of_prompts([prompt()] * 2) == []
    (some,) = of_prompts([prompt(), prompt(text="<nothing>")])
    assert not some.is_error
    assert "the text of 1 of 2 problems" in some.text
    (all_of_them,) = of_prompts([prompt(text="<nothing>")])
    assert all_of_them.is_error
    (plain,) = of_prompts([prompt()], has_template=False)
    assert "no chat template" in plain.text


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ((), None),
        (("optim.lr=0",), "the learning rate is 0"),
        (("algo=ppo", "steps=2"), "in the first 2 steps only the critic learns"),
        (("algo=ppo", "steps=3"), None),
        (("rollout.prompts=10",), None),
        (("rollout.prompts=11",), "a step draws 11 of 10 problems"),
        (("rollout.samples=11111",), None),
        (("rollout.ahead=1",), "nothing is faster: leave it out"),
        (("rollout.ahead=1", "engine=server"), None),
    ],
)
def test_settings_that_are_hardly_meant(settings, text):
    config = resolve(set_layer(["rollout.prompts=9", *settings]))
    actual = [finding.text for finding in data_findings(config, [prompt()] * 10, True, 0)]
    assert [text in finding for finding in actual] == ([True] if text else [])


def test_golds_that_cannot_be_read():
    (some,) = of_prompts([prompt()] * 2, bad_golds=1)
    assert not some.is_error
    assert some.text.startswith("1 of 2 gold answers cannot be read")
    (none,) = of_prompts([prompt()], bad_golds=1)
    assert none.is_error


@pytest.mark.parametrize(
    ("groups", "learns", "texts"),
    [
        ([group(Verdict.CORRECT, Verdict.WRONG)], True, []),
        ([group(Verdict.WRONG, Verdict.WRONG)], False, ["no signal"]),
        (
            [group(Verdict.BAD_FORMAT, Verdict.BAD_FORMAT)],
            False,
            ["had the format think_answer", "no signal"],
        ),
        ([group(Verdict.CORRECT, Verdict.WRONG, cut_off=True)], True, ["100% of the responses"]),
    ],
)
def test_what_the_probe_can_find(groups, learns, texts):
    _, actual = review_probe(groups, learns, DataConfig(answer_format="think_answer"), True)
    assert len(actual) == len(texts)
    assert all(text in finding.text for text, finding in zip(texts, actual, strict=True))
    assert not any(finding.is_error for finding in actual)


def test_advice_on_a_missed_format_is_another_setting_than_the_one_in_force():
    without = [Group(prompt(), group(Verdict.BAD_FORMAT).rollouts, 0)]
    requested = DataConfig(prompt="boxed", answer_format="boxed")
    _, (missed,) = review_probe(without, True, requested, True)
    assert "no response had the format boxed," in missed.text
    assert "--set data.answer_format=any" in missed.text
    assert "data.prompt=boxed" not in missed.text
    requested = DataConfig(prompt="think_answer", answer_format="think_answer")
    _, (missed,) = review_probe(without, True, requested, True)
    assert "--set data.answer_format=any --set data.prompt=boxed" in missed.text
    assert review_probe(without, True, DataConfig(answer_format="any"), False)[1] == []


def test_a_signal_of_wrong_responses_alone_is_warned_of():
    wrong = group(Verdict.WRONG, Verdict.WRONG)
    paid = tuple(
        replace(rollout, rewards={"math": -1.0, "brief": sample / 2})
        for sample, rollout in enumerate(wrong.rollouts)
    )
    groups = [replace(wrong, rollouts=paid)]
    _, (warned,) = review_probe(groups, True, DataConfig(), False)
    assert "no response of the probe is right: what trains is another reward than" in warned.text
    right = group(Verdict.CORRECT, Verdict.WRONG)
    groups.append(replace(right, rollouts=right.rollouts + paid))
    assert review_probe(groups, True, DataConfig(), False)[1] == []


def test_no_share_of_a_format_that_nobody_asked_for(rlvr):
    assert rollout_metrics([group(Verdict.BAD_FORMAT)], has_format=False).format_share is None
    problems = judged_problems(group(Verdict.BAD_FORMAT).rollouts)
    assert summarize(problems, SamplingParams(1, 1), has_format=False).format_share is None
    result = rlvr("train", "--check", *FEW, "--set", "data.answer_format=any", "--max-tokens", "2")
    assert "probe      8 problems, 32 responses: correct " in result.stderr
    assert "no response had the format" not in result.stderr


def test_long_prompts_are_shown_from_both_ends():
    row = json.dumps({"problem": "x".join(map(str, range(300))), "answer": "1"})
    result = invoke("train", "-", "--check", *FEW, stdin=row)
    (line,) = (item for item in result.stderr.splitlines() if item.startswith("prompt "))
    assert "0x1x2" in line
    assert " … " in line
    assert "x299" in line
    assert len(line) < 700


def test_check_says_it_all_and_starts_nothing(rlvr, tmp_path):
    result = rlvr("train", "--check", *FEW)
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    for line in (
        "prompt     <|user|>Start at ",
        "template   leaves <think> to the policy; a response ends with <|end|>",
        "golds      16 of 16 can be read",
        "needed: always weights 0.00, responses of a step 0.00, AdamW 0.01; to sample keys and ",
        "probe      8 problems, 32 responses: format right ",
        "check      nothing stands in the way of this run",
    ):
        assert line in result.stderr
    assert "warning" not in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "; 4 updates a step, learning rate 0.0001 after 5 steps"),
        (("--set", "algorithm.mini_batches=500"), "; 8 updates a step, learning rate 0.0001 "),
        (("--set", "optim.warmup_steps=0", "--algo", "grpo"), "; 1 update a step, learning rate "),
    ],
)
def test_the_updates_of_a_step_are_those_that_its_responses_allow(args, message):
    result = invoke("train", "--check", *FEW, "--max-tokens", "8", "--steps", "9", *args)
    assert message in result.stderr


def test_no_signal_is_a_loud_warning_and_an_error_of_check(rlvr):
    problems = "".join(
        json.dumps({"problem": f"Prove the {n}th theorem.", "answer": "no"}) + "\n"
        for n in range(9)
    )
    few = ("-", "--prompts", "2", "-n", "2", "--max-tokens", "8")
    result = rlvr("train", *few, "--check", stdin=problems)
    assert result.returncode == 2
    assert "warning    the probe found no signal: on 8 problems nothing sets" in result.stderr
    assert "a run like this would learn nothing" in result.stderr.splitlines()[-1]
    run = rlvr("train", *few, "--steps", "1", "--quiet", stdin=problems)
    assert run.returncode == 0
    assert "warning    the probe found no signal" in run.stderr


def test_golds_that_nobody_can_read_refuse_the_run(rlvr, tmp_path):
    problem = '{"problem": "What is 1 + 1?", "answer": "((("}\n'
    result = rlvr("train", "-", "--steps", "1", stdin=problem)
    assert result.returncode == 2
    assert "1 of 1 gold answers cannot be read" in result.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("correction", "share"),
    [("auto", None), ("{kind: geometric_mask, low: 0.5, high: 2}", 0), (REJECTS_ALL, 100)],
)
def test_check_says_what_share_a_correction_would_reject(correction, share):
    half = ("--set", "rollout.precision=bfloat16", "--set", "optim.precision=bfloat16")
    selected = ("--set", f"algorithm.importance_correction={correction}")
    result = invoke("train", "--check", *FEW, *half, *selected)
    assert result.exit_code == 0
    said = [line for line in result.stderr.splitlines() if "would reject" in line]
    kind = "geometric_mask would reject"
    if share is None:
        assert said == []
    elif share == 0:
        assert said == [f"correction {kind} 0% of the 32 responses"]
    else:
        assert said[0] == f"correction {kind} 100% of the 32 responses"
        assert said[1].startswith(f"warning    {kind} 100% of the 32 responses: widen its bounds")


def test_a_correction_is_tried_on_rewards_in_places_and_on_no_response_too(tmp_path):
    """A reward earned before the end needs the tokenizer, and one of None leaves nothing to try."""
    half = ("--set", "rollout.precision=bfloat16", "--set", "optim.precision=bfloat16")
    selected = ("--set", f"algorithm.importance_correction={REJECTS_ALL}")
    for name, algo, reply, share in (
        (
            "places",
            "reinforce",
            "[(0, len(response) % 2), (len(response), 1)]",
            "would reject 100%",
        ),
        ("nothing", "dapo", "None", None),
    ):
        reward = tmp_path / f"{name}.py"
        reward.write_text(f"def reward(problem, response):\n    return {reply}\n")
        result = invoke(
            "train",
            "--check",
            *FEW,
            *half,
            *selected,
            *("--set", "reward.workers=1"),
            *("--reward", str(reward), "--algo", algo),
        )
        assert "Traceback" not in result.stderr
        assert not isinstance(result.exception, TypeError | ValueError | AttributeError)
        if share is not None:
            assert share in result.stderr
