"""Reading problem sets: every shape that people have, and a clear word about every bad line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_cli.config.built_in import known_sets
from rlvr_cli.core.errors import UserError
from rlvr_cli.data import problems as problems_module
from rlvr_cli.data.problems import ProblemOrder, load_problems
from rlvr_cli.data.sources import has_split
from rlvr_cli.evaluation.fingerprint import data_hash


def write(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ({"problem": "p", "answer": "204"}, "204"),
        ({"question": "p", "answer": 27.0}, "27"),
        ({"prompt": "p", "answer": 3}, "3"),
        ({"problem": "p", "answer": 0.5}, "0.5"),
        ({"question": "p", "answer": "9 + 9 = <<9+9=18>>18\n#### 18"}, "18"),
        ({"question": "p", "answer": "so\n#### 1,234 "}, "1,234"),
        ({"problem": "p", "answer": "\\frac{1}{2}"}, "\\frac{1}{2}"),
    ],
)
def test_field_aliases_and_gold_answers(tmp_path, row, answer):
    source = write(tmp_path / "p.jsonl", json.dumps({**row, "level": 3}))
    (problem,) = load_problems(source, "train").problems
    assert (problem.problem, problem.answer, problem.extra) == ("p", answer, {"level": 3})
    assert problem.id == "p.jsonl-1"


def test_ids_do_not_depend_on_where_a_file_lies(tmp_path):
    line = '{"problem": "p", "answer": "#### 1", "question": "p"}'
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        write(tmp_path / place / "gsm8k_test.jsonl", line)
    here, there = tmp_path / "here", tmp_path / "there"
    files = [load_problems(str(d / "gsm8k_test.jsonl"), "test") for d in (here, there)]
    sets = [load_problems("gsm8k", "test", root=str(d)) for d in (here, there)]
    assert [actual.problems[0].id for actual in files] == ["gsm8k_test.jsonl-1"] * 2
    assert [actual.problems[0].id for actual in sets] == ["gsm8k-1"] * 2
    for pair in (files, sets):
        assert len({data_hash(actual.problems) for actual in pair}) == 1
    assert files[1].places == (f"{there / 'gsm8k_test.jsonl'}:1",)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("not json", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ('{"answer": 1}', "no field problem; it has answer"),
        ('{"problem": "  ", "answer": 1}', "field problem is not a text"),
        ('{"problem": "p\\ud800", "answer": 1}', "field problem is not Unicode text"),
        ('{"problem": "p"}', "no field answer"),
        ('{"problem": "p", "answer": ""}', "field answer is empty"),
        ('{"problem": "p", "answer": "so\\n#### "}', "field answer is empty"),
        ('{"problem": "p", "answer": true}', "field answer is neither a text nor a number"),
        ('{"problem": "p", "answer": NaN}', "field answer is not a finite number"),
    ],
)
def test_a_bad_line_stops_with_its_number_and_reason(tmp_path, caplog, line, reason):
    good = '{"problem": "p", "answer": 1}'
    source = write(tmp_path / "p.jsonl", good, "", line, good)
    with pytest.raises(UserError) as error:
        load_problems(source, "train")
    assert f"{source}:3: {reason}" in str(error.value)
    assert "1 bad of 3 lines" in str(error.value)
    assert len(load_problems(source, "train", skip_bad=True).problems) == 2
    assert "bad lines skipped: 1" in caplog.text


def test_bytes_that_are_not_utf8_are_a_bad_line(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"problem": "\xff", "answer": 1}\n')
    with pytest.raises(UserError, match=r"p\.jsonl:1: not UTF-8 text"):
        load_problems(str(path), "train")


def test_limit_reads_no_further(tmp_path):
    source = write(tmp_path / "p.jsonl", '{"problem": "p", "answer": 1}', "bad")
    assert len(load_problems(source, "train", limit=1).problems) == 1


def test_parquet(tmp_path):
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "p.parquet"
    table = pyarrow.table({"question": ["p", "q"], "answer": [1.0, 2.5], "level": [1, 2]})
    pyarrow.parquet.write_table(table, path)
    problems = load_problems(str(path), "train").problems
    assert [(p.problem, p.answer, p.extra["level"]) for p in problems] == [
        ("p", "1", 1),
        ("q", "2.5", 2),
    ]


def test_a_yaml_of_the_users_own(tmp_path):
    write(tmp_path / "p.jsonl", '{"q": "p", "a": 1}')
    spec = write(
        tmp_path / "mine.yaml",
        "description: mine",
        "version: 1",
        "license: none",
        "source: p.jsonl",
        "fields: {problem: q, answer: a}",
        "prompt: plain",
    )
    loaded = load_problems(spec, "train")
    assert (loaded.problems[0].problem, loaded.prompt) == ("p", "plain")
    write(tmp_path / "mine.yaml", "source: p.jsonl", "versoin: 1")
    with pytest.raises(UserError, match=r"mine.yaml: versoin is not known"):
        load_problems(spec, "train")


@pytest.mark.parametrize("name", ["nothing", "no/such/file.jsonl", "missing.parquet"])
def test_a_source_that_does_not_exist(name):
    with pytest.raises(UserError):
        load_problems(name, "train")


def test_the_shipped_sets_are_described():
    assert set(known_sets()) >= {"chains", "gsm8k", "math500", "aime24", "amc23"}
    assert has_split("chains", "test")
    assert not has_split("math500", "train")


@pytest.mark.parametrize(
    ("file", "count", "first"),
    [
        ("gsm8k_test", 1319, "18"),
        ("aime24", 30, "204"),
        ("amc23", 40, "27"),
        ("math500", 500, None),
    ],
)
def test_real_problem_sets_are_read_whole(shared_data, file, count, first):
    problems = load_problems(str(shared_data / f"{file}.jsonl"), "test").problems
    assert len(problems) == count
    assert first in (None, problems[0].answer)


@pytest.mark.parametrize(
    ("where", "limit", "levels"),
    [("level=2", None, {2}), ("level= 1 , 8", None, {1, 8}), (None, None, set(range(1, 13)))],
)
def test_problems_are_chosen_by_a_field(where, limit, levels):
    selected = load_problems("chains", "test", where=where)
    assert {problem.extra["level"] for problem in selected.problems} == levels
    everything = load_problems("chains", "test").problems
    assert selected.problems == tuple(p for p in everything if p.extra["level"] in levels)
    assert len(selected.places) == len(selected.problems)
    first = load_problems("chains", "test", where=where, limit=3)
    assert first.problems == selected.problems[:3]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (
            "level=13",
            "no problem of chains has level 13; others are 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11",
        ),
        ("level=1,13,x", "no problem of chains has level 13 or x; others are 2, 3"),
        ("levle=1", "no problem of chains has levle 1"),
        ("level", "data.where level: give FIELD=VALUE, such as level=1,2"),
        ("level=1,", "give FIELD=VALUE"),
        ("=1", "give FIELD=VALUE"),
        ("level=" + "9" * 1000, "no problem of chains has level 999"),
    ],
)
def test_a_value_that_no_problem_has_is_said(where, message):
    with pytest.raises(UserError) as error:
        load_problems("chains", "test", where=where)
    assert message in str(error.value)
    assert len(str(error.value)) < 400


@given(size=st.integers(1, 20), seed=st.integers(0, 99), counts=st.lists(st.integers(0, 30)))
def test_every_problem_is_drawn_once_an_epoch_from_any_place_on(size, seed, counts):
    order = ProblemOrder(size, seed)
    drawn = []
    for count in counts:
        drawn += order.draw(count)
    assert drawn == ProblemOrder(size, seed).draw(len(drawn))
    assert [place for place, _ in drawn] == list(range(len(drawn)))
    for start in range(0, len(drawn) - size + 1, size):
        assert sorted(problem for _, problem in drawn[start : start + size]) == list(range(size))


def test_what_is_alike_rests_ever_longer_and_what_is_mixed_not_at_all(monkeypatch):
    """Problem 0 is always alike but for its fourth time: it is drawn in passes 0, 2 (after 1), 5
    (after 2) and 10 (after 4), is mixed there, and so in 11, 13 (after 1) and so on."""
    monkeypatch.setattr(problems_module, "_WOKEN_SHARE", 0)
    order = ProblemOrder(3, 0, rests=True)
    drawn_in = {0: [], 1: [], 2: []}
    while order.cursor < 3 * 15:
        ((place, problem),) = draws = order.draw(1)
        drawn_in[problem].append(place // 3)
        order.note(draws, [problem == 0 and place // 3 != 10])
    assert drawn_in[0] == [0, 2, 5, 10, 11, 13]
    assert drawn_in[1] == list(range(15))


def test_without_rests_nothing_is_kept_of_what_was_alike():
    order = ProblemOrder(4, 0)
    order.note(order.draw(4), [True] * 4)
    assert not order.resting


def test_a_tenth_of_what_rests_is_drawn_all_the_same_and_by_the_seed():
    runs = []
    for seed in (0, 0, 1):
        order = ProblemOrder(1000, seed, rests=True)
        order.resting = dict.fromkeys(range(1000), (64, 99))
        runs.append(order.draw(300))
        assert order.cursor / 300 == pytest.approx(10, rel=0.15)  # two deviations are 11 %
    assert runs[0] == runs[1] != runs[2]


def test_no_rest_is_longer_than_the_longest():
    order = ProblemOrder(1, 0, rests=True)
    for _ in range(9):
        order.note(order.draw(1), [True])
    assert order.resting[0][0] == 64
