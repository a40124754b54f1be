"""Agreement of two judges, by numbers that can be checked by hand."""

import time

import pytest

from rlvr_cli.evaluation.agreement import Pair, agreement, answer_kind, parts, response_files


def pair(problem, ours, theirs, **fields):
    return Pair((problem, ""), {"verdict": ours, **fields}, {"verdict": theirs})


def test_agreement_is_the_mean_over_problems():
    pairs = [
        pair("a", "correct", "correct"),
        pair("a", "correct", "wrong"),
        pair("b", "no_answer", "wrong"),
        pair("b", "wrong", "correct"),
        pair("b", "bad_format", "correct"),
        pair("b", "truncated", "correct"),
        pair("b", "wrong", "no_answer"),
        pair("b", "wrong", "timeout"),
        pair("c", "unparseable_gold", "correct"),
    ]
    found = agreement(pairs)
    assert found.share.value == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert found.share.problems == 2
    counts = (found.both, found.only_ours, found.only_theirs, found.neither, found.unjudged)
    assert counts == (1, 1, 1, 2, 4)
    assert found.responses == 5
    assert [one.differs for one in pairs] == [False, True, False, True, *[False] * 5]


def test_full_agreement_is_not_certain():
    share = agreement([pair(str(n), "correct", "correct") for n in range(30)]).share
    assert (share.value, share.high) == (1, 1)
    assert share.low == pytest.approx(1 - 0.1135, abs=1e-4)  # Wilson's lower end of 30 of 30


def test_nothing_judged_is_no_figure():
    assert agreement([pair("a", "timeout", "correct")]).share is None


def test_parts_come_with_the_most_frequent_first():
    pairs = [pair(str(n), "correct", "correct", level=level) for n, level in enumerate([2, 1, 1])]
    found = parts(pairs, lambda one: one.ours.get("level"))
    assert {key: len(part) for key, part in found.items()} == {"1": 2, "2": 1}
    assert list(found) == ["1", "2"]


@pytest.mark.parametrize(
    ("gold", "kind"),
    [
        ("-12", "integer"),
        ("1,234", "integer"),
        ("$18$", "integer"),
        ("0.5", "decimal"),
        (".5", "decimal"),
        (r"\frac{3}{4}", "fraction"),
        ("3/4", "fraction"),
        (r"\text{(B)}", "choice"),
        ("C", "choice"),
        ("Evelyn", "words"),
        (r"\text{no solution}", "words"),
        ("x = 5", "relation"),
        (r"x \le 3", "relation"),
        (r"\left(1, 2\right]", "tuple or interval"),
        ("1, 2, 3", "list or set"),
        (r"\{1, 2\}", "list or set"),
        (r"2\sqrt{3}", "expression"),
        ("", "expression"),
    ],
)
def test_the_kind_of_a_gold_answer(gold, kind):
    assert answer_kind(gold) == kind


@pytest.mark.parametrize("unit", ["(,", "1", "1,", r"\frac{", "a ", "=<", "-", "{"])
def test_the_kind_of_a_long_answer_is_found_in_linear_time(unit):
    def seconds(length):
        text = unit * length + "\n;"
        started = time.process_time()
        answer_kind(text)
        return time.process_time() - started

    assert seconds(4000) < 16 * max(seconds(1000), 1e-3)


def test_a_directory_stands_for_its_files(tmp_path):
    for name in ("rollouts/step-000002", "rollouts/step-000001", "rollouts/held-out-after"):
        path = tmp_path / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    names = [name.rsplit("/", 1)[1] for name in response_files(str(tmp_path))]
    assert names == ["held-out-after.jsonl", "step-000001.jsonl", "step-000002.jsonl"]
    assert response_files("-") == ["-"]
