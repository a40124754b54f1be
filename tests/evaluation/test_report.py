"""Figures, and results to compare with, on rows made by hand."""

import json

import pytest
from conftest import invoke

from rlvr_cli.console.tables import by_k, differences
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.report import Comparison, Fingerprint, Judging
from rlvr_cli.data.rows import JudgedRow
from rlvr_cli.evaluation.estimators import Tally
from rlvr_cli.evaluation.figures import figures_of, judged_problems
from rlvr_cli.evaluation.report import (
    Result,
    check_comparable,
    check_fields,
    chosen_ks,
    compare_all,
    compare_results,
    compare_with_first,
    report_entry,
)
from rlvr_cli.evaluation.result_dir import find_match, read_results
from verifiers import Verifier


def row(identity, verdict, extracted=None, **more):
    values = {"id": identity, "problem": f"p{identity}", "verdict": verdict}
    values |= {"extracted": extracted, "format_ok": verdict == "correct", "n_tokens": 10}
    values |= {"response": "", "reward": None}
    return {**values, "finish_reason": "stop", **more}


ROWS = [
    row("1", "correct", "4"),
    row("1", "correct", "8/2"),
    row("1", "wrong", "1/2", finish_reason="length", n_tokens=30),
    row("1", "wrong", "0.5", level=3),
    row("2", "timeout", "9^9^9"),
    row("2", "no_answer"),
    row("2", "wrong", "2"),
    row("2", "wrong", "3"),
    *[row("3", "unparseable_gold")] * 4,
]


def judged(rows):
    with Verifier() as verifier:
        responses = [JudgedRow.model_validate(row).answered for row in rows]
        return judged_problems(responses, verifier.cluster)


def result(rows, model="m", data="d", form="think_answer"):
    fingerprint = Fingerprint({"seed": model}, Judging(form, version="1"))
    return Result(model, data, fingerprint, judged(rows))


def test_tallies_cluster_and_leave_out_what_was_not_judged():
    assert [problem.tally for problem in judged(ROWS)] == [
        Tally(2, (2,), 0),
        Tally(0, (1, 1), 1),
        Tally(0, (), 0),
    ]


def test_figures_by_hand():
    actual = figures_of(judged(ROWS), [1, 4])
    assert (actual.problems, actual.responses) == (3, 12)
    assert actual.pass_at[1].value == 0.25  # 2 of 4, and 0 of 3; the third has no judged one
    assert actual.pass_at[1].problems == 2
    assert (actual.pass_at[4].value, actual.pass_at[4].problems) == (1.0, 1)
    assert actual.cons_at[4].value == 0.5
    assert (actual.timeouts, actual.unparseable_golds) == (1, 4)
    assert actual.cut_off_share == pytest.approx(1 / 12)
    assert actual.format_share == pytest.approx(2 / 12)
    assert actual.response_length == pytest.approx((11 * 10 + 30) / 12)


def test_a_share_is_of_the_responses_it_is_known_of():
    ends = [row("1", "correct", "4", finish_reason=end) for end in ("length", "stop", None)]
    assert figures_of(judged(ends), [1]).cut_off_share == 0.5
    unknown = report_entry(result(ends[2:], form="any"), [1], [])
    assert unknown.figures.cut_off_share is None
    assert unknown.figures.format_share is None  # none was asked for
    assert unknown.figures.response_length == 10.0


def test_nothing_judged_is_not_zero():
    actual = figures_of(judged(ROWS[8:]), [1])
    assert actual.pass_at[1] is None
    assert actual.unparseable_golds == 4


def test_by_a_field_adds_up():
    rows = [{**item, "level": int(item["id"]) % 2 + 9} for item in ROWS]
    entry = report_entry(result(rows), [1], ["level"])
    parts = entry.by["level"]
    assert list(parts) == ["9", "10"]  # numbers in their own order
    assert [part.problems for part in parts.values()] == [1, 2]
    assert parts["10"].pass_at[1].value == 0.5


def test_ks():
    assert chosen_ks((), result(ROWS)) == [1, 2, 3]  # one of the four responses to 2 timed out
    assert chosen_ks((), result(ROWS[:4])) == [1, 2, 4]
    assert chosen_ks((), result(ROWS[8:])) == [1, 2, 4]  # none was judged
    assert chosen_ks((3,), result(ROWS)) == [1, 3]
    assert chosen_ks((40, 8), result([row("1", "correct", "1")] * 40)) == [1, 8, 40]
    assert chosen_ks((4,), result([*ROWS, row("4", "wrong", "1")])) == [1, 4]
    with pytest.raises(UserError, match="--k 5: no problem of d has more than 4 responses"):
        chosen_ks((2, 5), result(ROWS))


def test_a_timeout_drops_no_problem_from_a_default_k_and_tables_say_who_counts():
    actual = result(ROWS[:8])
    entry = report_entry(actual, chosen_ks((), actual), [])
    assert [estimate.problems for estimate in entry.figures.pass_at.values()] == [2, 2, 2]
    requested = by_k([report_entry(actual, chosen_ks((2, 4), actual), [])], ["k", "problems"])
    assert requested == [("k", "problems"), ("1", "2"), ("2", "2"), ("4", "1")]
    difference = differences([compare_results(actual, result(ROWS[:8], "n"), [3, 4])])
    assert [line[3:5] for line in difference[1:]] == [
        ["pass@3", "2"],
        ["pass@4", "1"],
        ["cons@3", "2"],
        ["cons@4", "1"],
    ]
    many = [row(str(n), "correct", "1") for n in range(20)]
    worse = [row(str(n), "wrong", "2") for n in range(20)]
    certain = differences([compare_results(result(many), result(worse, "n"), [1])])
    assert certain[1][-3:] == ["<0.001", "20", "0"]


def test_a_comparison_is_of_the_problems_in_common():
    ours = result([row("a", "correct", "1"), row("b", "wrong", "1"), row("c", "correct", "1")])
    reference = result(
        [row("b", "wrong", "1"), row("a", "wrong", "2"), row("x", "correct", "1")], "n"
    )
    actual = compare_results(ours, reference, [1])
    assert (actual.problems, actual.missing, actual.unjudged) == (2, 1, 0)
    assert actual.pass_at[1].value == 0.5
    assert (actual.pass_at[1].better, actual.pass_at[1].worse) == (1, 0)
    assert actual.differs == ["seed 'm', theirs 'n'"]
    late = result([row("a", "timeout"), row("b", "wrong", "1"), row("c", "timeout")], "n")
    actual = compare_results(result([row("a", "correct", "1"), row("b", "wrong", "1")]), late, [1])
    assert (actual.problems, actual.missing, actual.unjudged) == (1, 0, 1)
    with pytest.raises(UserError, match="no problem of d has judged responses on both sides"):
        compare_results(result([row("a", "correct", "1")]), late, [1])
    with pytest.raises(UserError, match="no problem of d is in it"):
        compare_results(ours, result([row("z", "correct", "1")]), [1])
    with pytest.raises(UserError, match="problem a of d is another problem there"):
        compare_results(ours, result([{**row("a", "correct", "1"), "problem": "other"}]), [1])


def compared(*results, ks=(1,)) -> list[Comparison]:
    return compare_with_first(results, [report_entry(result, ks, []) for result in results])


def sides(comparisons) -> list[tuple[str, str]]:
    return [
        (f"{item.model} on {item.data}", f"{item.against} on {item.against_data}")
        for item in comparisons
    ]


def test_the_first_result_on_a_set_is_the_baseline_of_all_later_ones():
    a = [row("a", "correct", "1"), row("b", "wrong", "2")]
    b = [{**item, "id": item["id"] + "2", "problem": f"{item['problem']}2"} for item in a]
    actual = compared(*(result(rows, model, data)
                        for model in "mno" for rows, data in ((a, "d"), (b, "e"))))  # fmt: skip
    assert sides(actual) == [
        ("n on d", "m on d"),
        ("n on e", "m on e"),
        ("o on d", "m on d"),
        ("o on e", "m on e"),
    ]
    assert compared(result(a)) == []
    assert compared(result(a, "m", "d"), result(b, "n", "e")) == []
    part = result(a[1:], "n", "d"), result(a, "o", "d")
    assert sides(compared(result(a[:1], "m", "d"), *part)) == [("o on d", "m on d")]


def test_sets_of_two_names_are_compared_if_ids_texts_and_golds_are_the_same():
    rows = [row("a", "correct", "1", answer="1"), row("b", "wrong", "2", answer="1")]
    first = result(rows, "m", "x.jsonl")
    assert sides(compared(first, result(rows[:1], "n", "y.jsonl"))) == [
        ("n on y.jsonl", "m on x.jsonl")
    ]
    for change in ({"problem": "another"}, {"answer": "2"}, {"id": "c"}):
        other = [{**rows[0], **change}]
        assert compared(first, result(other, "n", "y.jsonl")) == [], change
    same_name = compared(first, result([{**rows[0], "answer": "2"}], "n", "x.jsonl"))
    assert same_name[0].other_golds == ["a"]  # which is said, as the set is one
    named = result(rows, "n", "d"), result(rows, "o", "x.jsonl"), result(rows, "p", "d")
    assert sides(compared(first, *named)) == [
        ("n on d", "m on x.jsonl"),
        ("o on x.jsonl", "m on x.jsonl"),
        ("p on d", "n on d"),  # a set of the same name goes first
    ]


@pytest.mark.parametrize("names", ["ddd", "xyz", "xdd", "ddy"])
def test_holms_pairs_are_those_of_the_problems_whatever_their_files_are_called(names):
    """All six problems right against none: p is 2 / 2^6, times the three pairs."""
    verdicts = {"m": "wwwwww", "n": "cccccc", "o": "cccccc"}
    words = {"c": "correct", "w": "wrong"}
    results = [
        result([row(n, words[letter], letter) for n, letter in enumerate(text)], model, name)
        for (model, text), name in zip(verdicts.items(), names, strict=True)
    ]
    others = [row(f"other {n}", "correct", "1", problem="another") for n in range(6)]
    results += [result(others, model, "e") for model in "mn"]
    entries = [report_entry(each, (1,), ()) for each in results]
    corrected = {
        (pair.model, pair.against, pair.data == "e"): pair.pass_at[1].p_holm
        for pair in compare_all(results, entries)
    }
    assert corrected == {
        ("n", "m", False): 3 / 32,
        ("o", "m", False): 3 / 32,
        ("o", "n", False): 1.0,
        ("n", "m", True): 1.0,
    }


def test_a_paired_difference_by_hand():
    """The shares are 1, 1/2, 0, 0, 1, 1/2 and 1, 1, 1/2, 1, 1, 0."""
    verdicts = {"m": "cc cw ww ww cc cw", "n": "cc cc cw cc cc ww"}
    words = {"c": "correct", "w": "wrong"}
    m, n = (
        result([row(number, words[letter], letter)
                for number, pair in enumerate(text.split()) for letter in pair], model)
        for model, text in verdicts.items()
    )  # fmt: skip
    actual = compared(m, n, ks=(1, 2))[0]
    one = actual.pass_at[1]
    assert (one.value, one.better, one.worse, one.problems) == (0.25, 3, 1, 6)
    # Of 16 sums of +-1/2 +-1/2 +-1 +-1/2, 8 are at least as far from 0 as 3/2.
    assert one.p == 0.5
    # Wider than Student's 0.55: six problems may miss a share of 0.46, each farther off by 2.
    assert one.interval == (pytest.approx(0.25 - 2 * (1 - 0.025 ** (1 / 6))), 1.0)
    # 1, 1, 0, 0, 1, 1 and 1, 1, 1, 1, 1, 0; two of three that differ, 8 sums of which all are 1.
    two = actual.pass_at[2]
    assert (two.value, two.p) == (pytest.approx(1 / 6), 1.0)
    assert (two.better, two.worse) == (2, 1)


def test_the_result_to_compare_with(tmp_path):
    first, two = result(ROWS, "m", "d"), result(ROWS, "n", "d")
    assert find_match("m", "d", [first, two], tmp_path) is first
    assert find_match("new", "d", [two], tmp_path) is two
    assert find_match("new", "e", [two], tmp_path) is two
    moved, other = result(ROWS, "n", "there/d.jsonl"), result(ROWS, "n", "e.jsonl")
    assert find_match("new", "here/d.jsonl", [moved, other], tmp_path) is moved
    with pytest.raises(UserError, match="it has 2 results for d; it holds m on d, n on d"):
        find_match("new", "d", [first, two], tmp_path)
    with pytest.raises(UserError, match="it has none for e; it holds m on d, n on d"):
        find_match("new", "e", [first, two], tmp_path)


def test_a_file_of_several_results_is_not_one(tmp_path):
    path = tmp_path / "rows.jsonl"
    labelled = [
        row("1", verdict, "1", model=model, problem_set=data)
        for model, data, verdict in (
            ("good", "d", "correct"),
            ("bad", "d", "wrong"),
            ("bad", "e", "correct"),
        )
    ]
    path.write_text("".join(json.dumps(item) + "\n" for item in labelled))
    with Verifier() as verifier:
        actual = read_results(path, verifier.cluster)
    assert [(item.model, item.data) for item in actual] == [
        ("good", "d"),
        ("bad", "d"),
        ("bad", "e"),
    ]
    assert [item.problems[0].tally for item in actual] == [Tally(1), Tally(0, (1,)), Tally(1)]
    assert find_match("good", "d", actual, path) is actual[0]
    assert find_match("new", "e", actual, path) is actual[2]
    with pytest.raises(UserError, match="it has 2 results for d"):
        find_match("new", "d", actual, path)
    unnamed = [result(ROWS, "m", ""), result(ROWS, "n", "")]
    assert find_match("n", "d", unnamed, path) is unnamed[1]


def test_a_comparison_of_the_most_frequent_answers_by_hand():
    right = [row(n, "correct", "4") for n in "111222333"]
    one_of_three = [
        row(n, *message)
        for n in "123"
        for message in (("correct", "4"), ("wrong", "5"), ("wrong", "5"))
    ]
    entry = compare_results(result(right), result(one_of_three, model="other"), [1, 3])
    assert entry.pass_at[1].value == pytest.approx(1 - 1 / 3)
    assert entry.cons_at[1].value == pytest.approx(1 - 1 / 3)
    assert entry.cons_at[3].value == 1.0  # all three against none


def test_a_field_that_no_problem_has():
    check_fields(["b"], [{"a": 1, "b": None}], "d")
    with pytest.raises(UserError, match=r"--by x: no such field in d; it has a, b, c, d, e, f$"):
        check_fields(["x"], [dict.fromkeys("fdba"), dict.fromkeys("cea")], "d")


def test_figures_hold_no_more_and_no_less():
    rows = [row("1", "correct", "4", n_tokens=None), row("1", "wrong", "5")]
    wrong = [row("2", "wrong", message) for message in ("7", "5", "5", None, "")]
    actual = figures_of(judged([*rows, *wrong]), [1, 2])
    assert [item.tally for item in judged(wrong)] == [Tally(0, (2, 1), 2)]  # the larger first
    assert actual.verdicts == {"correct": 1, "wrong": 6}
    assert actual.response_length == 10  # of those that are known
    assert actual.cons_at[1].row.keys() == {"value", "interval", "problems"}
    assert actual.cons_at[1].value == 0.25
    assert len(actual.cons_at[1].interval) == 2
    assert actual.format_share == pytest.approx(1 / 7)
    entry = report_entry(result([*rows, *wrong]), [1], [])
    assert "by" not in entry.row
    assert (entry.model, entry.data, entry.figures.format_share) == ("m", "d", 1 / 7)
    anyhow = report_entry(result(rows, form="any"), [1], ["level"])
    assert anyhow.by["level"]["None"].format_share is None


def test_the_fewest_responses_of_a_problem_and_the_fewest_that_were_judged():
    three = [*[row("1", "correct", "1")] * 3, *[row("2", "timeout")] * 2]
    assert chosen_ks((), result(three)) == [1, 2, 3]
    assert chosen_ks((), result([row("1", "correct", "1")])) == [1]
    with pytest.raises(UserError, match=r"--k 2: no problem of d has more than 1 response$"):
        chosen_ks((2,), result([row("1", "correct", "1")]))


def test_two_results_are_of_the_same_problems_or_not_compared():
    reference = result([row("b", "wrong", "1"), row("a", "wrong", "1")], "n")
    check_comparable("d", {"a": "pa", "c": "pc"}, reference)
    check_comparable("d", {"a": None, "b": "pb"}, reference)
    with pytest.raises(UserError, match="problem a of d is another problem there"):
        check_comparable("d", {"b": "q", "a": "q"}, reference)
    with pytest.raises(UserError, match=r"the ids here are such as c, there b$"):
        check_comparable("d", {"c": "pc", "e": None}, reference)
    entry = compare_results(result([row("a", "correct", "1")]), reference, [1, 2])
    assert (list(entry.pass_at), list(entry.cons_at)) == ([1], [1])
    assert (entry.model, entry.data, entry.against) == ("m", "d", "n")
    assert entry.pass_at[1].row.keys() == {*("value", "interval", "p"), *COUNTS}


COUNTS = ("better", "worse", "problems")


def test_gold_answers_differ_where_both_results_know_them():
    """Of five problems b and e have different golds. A gold that one does not know is none."""
    golds = {"a": "1", "b": "2", "c": None, "d": None, "e": "5"}
    earlier = {"a": "1", "b": "3", "c": "4", "d": None, "e": "6"}
    results = [
        result([row(name, "correct", "1", answer=gold) for name, gold in by_name.items()])
        for by_name in (golds, earlier)
    ]
    assert compare_results(*results, [1]).other_golds == ["b", "e"]
    assert compare_results(*results[::-1], [1]).other_golds == ["b", "e"]


def test_a_field_is_of_a_set_that_has_fields():
    with pytest.raises(UserError, match=r"no such field in d; its problems have no fields$"):
        check_fields(["x"], [], "d")


def test_a_field_may_be_inside_another():
    rows = [{"doc": {"level": 3}}, {"doc": None}]
    check_fields(["doc.level"], rows, "d")
    with pytest.raises(UserError, match=r"--by doc\.topic: no such field in d; it has doc$"):
        check_fields(["doc.topic"], rows, "d")


def test_a_field_of_a_response_is_none_of_its_problem():
    """Else the problems would be parted by the outcome of their first response."""
    keys = ("level", "reward", "verdict", "n_tokens", "rewards")
    for field in keys[1:]:
        with pytest.raises(UserError, match=rf"--by {field}: no such field in d; it has level$"):
            check_fields([field], [dict.fromkeys(keys, 1)], "d")


def test_a_figure_that_leaves_out_hard_problems_says_so(tmp_path):
    """Ten problems with 4 right responses, and four with a single wrong one."""
    rows = [
        {
            "id": f"easy-{n}",
            "problem": f"{n} + 0?",
            "answer": n,
            "response": [f"\\boxed{{{n}}}"] * 4,
        }
        for n in range(10)
    ]
    rows += [
        {"id": f"hard-{n}", "problem": f"{n} + 1?", "answer": n + 1, "response": ["\\boxed{99}"]}
        for n in range(4)
    ]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    completed = invoke("eval", "--responses", path, "--k", "2,4", "--format", "json")
    (entry,) = json.loads(completed.stdout)["results"]
    expected = {"problems": 4, "pass@1": 0.0, "others": 1.0, "bias": "up"}
    assert entry["left_out"] == {"2": expected, "4": expected}
    said = " ".join(completed.stderr.split())
    assert (
        "at k 2, 4: the figures leave out 4 problems of 14 with fewer judged responses: their "
        "pass@1 is 0.000, that of the others 1.000, so the figures are biased up"
    ) in said
    assert "leave out" not in invoke("eval", "--responses", path).stderr
