"""What an ablation reads of its runs, and says of them, on runs that are made by hand."""

import csv
import io
import json
from pathlib import Path

import pytest
from conftest import refused
from small_runs import made_metrics, made_row, made_run, write_rows

from rlvr_cli.core.errors import UserError
from rlvr_cli.evaluation.curves import STEPS, ArmAtEnd
from rlvr_cli.evaluation.estimators import crossed_difference, least_seen, student
from rlvr_cli.program.ablate import Wishes, plan_of, try_functions
from rlvr_cli.program.resolve import load
from rlvr_cli.runs import ablation
from rlvr_cli.runs.ablation import run_figures
from rlvr_cli.show.ablation import arms_as_csv, of_arms, publish_ablation, show_ablation


class Screen:
    """A display that keeps what is said."""

    def __init__(self):
        self.said = []
        self.tables = []

    def say(self, label, text):
        self.said.append(f"{label}: {text}")

    def warn(self, text):
        self.say("warning", text)

    result = say

    def table(self, rows, is_result=False):
        self.tables.append(rows)


def ended_run(directory: Path, steps: int, right: int) -> Path:
    """A run that has ended, with 4 held-out problems of 10 answers, of which so many are right."""
    run = made_run(directory, steps=steps)
    rows = [made_metrics(n, seconds_processor=2.0, tokens_sampled=10) for n in range(1, steps + 1)]
    write_rows(run / "metrics.jsonl", rows)
    for when, count in (("before", 0), ("after", right)):
        answers = [
            made_row(f"h{problem}", sample, "correct" if 10 * problem + sample < count else "wrong")
            for problem in range(4)
            for sample in range(10)
        ]
        write_rows(run / "rollouts" / f"held-out-{when}.jsonl", answers)
    measured = {"pass@1": right / 40, "interval": [0.0, 1.0], "problems": 4, "responses": 40}
    summary = {"steps": steps, "after": {**measured, "by_level": {}}}
    (run / "summary.json").write_text(json.dumps(summary))
    return run


def test_an_interval_of_shares_ends_where_they_do():
    """F2: two seeds of +0.5 and -0.3; Student's half-width is 12.7 x 0.4."""
    actual = crossed_difference([[0.5] * 4, [-0.3] * 4])
    assert (actual.value, actual.interval) == (pytest.approx(0.1), (-1.0, 1.0))
    assert actual.seen == 1.0
    assert crossed_difference([[0.6] * 4, [0.5] * 4]).interval == (
        pytest.approx(0.55 - student(1) * 0.05),
        1.0,
    )
    assert crossed_difference([[-0.9] * 4, [-0.8] * 4]).interval[0] == -1.0
    table = of_arms([ArmAtEnd("a", STEPS, 9, 2, 0.5, actual)], "base")
    assert table[1][-3:] == ["+0.100 [-1.000, +1.000]", "4", "nothing"]


def test_what_more_seeds_would_show():
    """Standard error s of 2 seeds: with 8 it is half as large, and 2.365 + 0.896 of it are seen."""
    actual = crossed_difference([[0.01], [0.03]])
    assert actual.error == pytest.approx(0.01)
    assert actual.seen_with(8) == pytest.approx((2.3646 + 0.8960) * 0.005, rel=1e-3)
    assert actual.seen_with(2) == actual.seen


def test_answers_alone_hide_a_difference():
    """By hand: 100 problems of 4 answers, half of them right: s (1 - s) 4 / 3 / 4 = 1/12 an answer,
    2 / 12 / 500 over five seeds, and 2.8016 standard errors."""
    assert least_seen([0.5] * 100, 4, 5) == pytest.approx(2.8016 * (2 / 12 / 500) ** 0.5, rel=1e-4)
    assert least_seen([0.0, 1.0], 4, 5) == 0.0
    assert least_seen([0.0, 1.0], 1, 5) == 0.0  # one answer tells nothing of the variance


@pytest.mark.parametrize(
    ("values", "heaps"),
    [
        ((0.05, 0.07, 0.62), ([0.05, 0.07], [0.62])),
        ((0.7, 0.1, 0.65, 0.12, 0.1), ([0.1, 0.1, 0.12], [0.65, 0.7])),
        ((0.0, 0.9, 0.9, 0.9), ([0.0], [0.9, 0.9, 0.9])),
        ((0.1, 0.9), None),  # two seeds cannot tell
        ((0.3, 0.4, 0.5, 0.6, 0.7), None),
        ((0.1, 0.12, 0.3), None),  # apart by less than 0.25
        ((0.1, 0.3, 0.6), None),  # not twice as far as they spread
    ],
)
def test_seeds_that_fall_into_two_heaps(values, heaps):
    arm = ArmAtEnd("a", STEPS, 9, len(values), 0.5, None, dict(enumerate(values)))
    assert arm.heaps == heaps


def test_table_and_screen_have_each_seed_and_its_heaps(tmp_path):
    wishes = Wishes(arms={"slow": "optim.lr=1e-6"}, data="problems.yaml", seeds=[0, 1, 2], steps=2)
    plan = plan_of(wishes, tmp_path)
    plan.store()
    rights = {"dapo-0": 2, "dapo-1": 4, "dapo-2": 3, "slow-0": 2, "slow-1": 30, "slow-2": 28}
    for name, right in rights.items():
        ended_run(tmp_path / name, steps=2, right=right)
    screen = Screen()
    publish_ablation(tmp_path, screen)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text())))
    (slow,) = (row for row in rows if (row["arm"], row["axis"]) == ("slow", "steps"))
    seeds = [float(slow[f"pass@1 of seed {seed}"]) for seed in (0, 1, 2)]
    assert seeds == pytest.approx([2 / 40, 30 / 40, 28 / 40])
    assert float(slow["high"]) <= 1
    (warned,) = [text for text in screen.said if "heaps" in text]
    assert "slow: its seeds fall into two heaps (0.050 and 0.700 0.750)" in warned
    shown = Screen()
    show_ablation(tmp_path, shown)
    assert warned in shown.said


def test_a_seed_that_an_arm_lacks_is_an_empty_cell():
    arms = [
        ArmAtEnd("base", STEPS, 9, 2, 0.5, None, {0: 0.4, 3: 0.6}),
        ArmAtEnd("a", STEPS, 9, 1, 0.3, None, {3: 0.3}),
    ]
    rows = list(csv.DictReader(io.StringIO(arms_as_csv(arms))))
    assert [row["pass@1 of seed 0"] for row in rows] == ["0.4", ""]
    assert [row["pass@1 of seed 3"] for row in rows] == ["0.6", "0.3"]


@pytest.mark.parametrize(
    ("change", "line", "step"),
    [
        (lambda lines: [lines[0], lines[1][:20] + "\n", *lines[2:]], 2, 2),
        (lambda lines: [lines[0], *lines[2:]], 2, 2),
        (lambda lines: lines[1:], 1, 1),
        (lambda lines: lines[:3], 4, 4),
        (lambda lines: [*lines[:3], lines[3][:-9]], 4, 4),
        (lambda lines: [*lines[:2], "\n", *lines[3:]], 3, 3),
        (lambda lines: [], 1, 1),
    ],
)
def test_a_step_that_is_missing_is_an_error_with_its_line(tmp_path, change, line, step):
    run = ended_run(tmp_path / "run", steps=4, right=3)
    assert run_figures(run).measured[-1].tokens == 40
    path = run / "metrics.jsonl"
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))
    with pytest.raises(UserError, match=rf"{path}:{line}: step {step} is missing or cannot be"):
        run_figures(run)


def test_a_torn_line_whose_step_was_made_again_is_no_error(tmp_path):
    run = ended_run(tmp_path / "run", steps=3, right=3)
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], lines[1][:20] + "\n", lines[1], lines[2]]))
    assert run_figures(run).measured[-1].tokens == 30


def test_what_could_be_seen_is_said_once_two_seeds_have_ended(tmp_path):
    wishes = Wishes(arms={"slow": "optim.lr=1e-6"}, data="problems.yaml", steps=2)
    plan = plan_of(wishes, tmp_path)
    plan.store()
    screen = Screen()
    said = set()
    for name, right in {"dapo-0": 20, "slow-0": 22, "dapo-1": 20, "slow-1": 23}.items():
        assert screen.said == []
        ended_run(tmp_path / name, steps=2, right=right)
        ablation._say_seen(plan, said, screen)
    (text,) = screen.said
    assert text.startswith("could show: slow: a difference of 0.")
    assert text.endswith("in pass@1 with 5 seeds, if all vary as the first 2 do")
    ablation._say_seen(plan, said, screen)
    assert len(screen.said) == 1

    ablation._say_least(plan, [0.5] * 4, screen)
    answers = plan.arms["dapo"].eval.samples
    least = least_seen([0.5] * 4, answers, 5)
    assert f"not less than {least:.3f} in pass@1 with 5 seeds" in screen.said[-1]


@pytest.mark.parametrize(
    "settings",
    [
        "algo=ppo lora.rank=4",
        "algorithm.advantage=my.py:f algorithm.advantage.scale=2",
        "'reward.functions=[my.py]'",
        "algorithm.filter=none 'algorithm.kl=0.5'",
    ],
)
def test_a_run_reads_the_very_configuration_of_its_arm(tmp_path, settings):
    wishes = Wishes(
        arms={"mine": settings}, data="problems.yaml", set=["rollout.ends=[x]"], steps=2
    )
    plan = plan_of(wishes, tmp_path)
    for arm, seed in plan.runs:
        config = plan.config(arm, seed)
        file, out, _ = ablation._begin(plan.directory(arm, seed), config)
        assert out == f"--out={tmp_path}/{arm}-{seed}"
        read = load("train", {}, file=Path(file.removeprefix("--config=")))
        assert (read, read.seed, read.threads) == (config, seed, 1)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("algorithm.advantage=bad.py:advantage", r"arm mine: algorithm\.advantage bad\.py:adv"),
        ("algorithm.surrogate=bad.py:none", r"arm mine: algorithm\.surrogate bad\.py:none"),
        ("""'reward.functions=["bad.py:reward"]'""", r"arm mine: reward bad\.py:reward: .*not so"),
    ],
)
def test_the_custom_functions_of_every_arm_are_tried_before_a_run(
    tmp_path, monkeypatch, settings, says
):
    monkeypatch.chdir(tmp_path)
    code = "def advantage(rewards):\n    return 'no tensor'\n\n\n"
    code += "def reward(problem, response):\n    raise ValueError('not so')\n"
    Path("bad.py").write_text(code)
    Path("p.jsonl").write_text(json.dumps({"problem": "1 + 1?", "answer": "2"}) + "\n")
    arms = {"fine": "algorithm.filter=none", "mine": settings}
    with pytest.raises(UserError, match=says):
        try_functions(plan_of(Wishes(arms=arms, data="p.jsonl", steps=2), tmp_path / "out"))
    if "reward" not in settings:  # whose worker takes a second to start
        line = refused("ablate", "p.jsonl", "--arm", f"mine: {settings}", "--check", "--out", "out")
        assert "arm mine: " in line
        assert not Path("out").exists()
