"""Files of several models are judged as people have them: with names, in three shapes, in pairs."""

import json
from pathlib import Path

import pytest
from conftest import invoke, refused

from rlvr_cli.core.errors import UserError
from rlvr_cli.data.packaged import packaged_golds, text_digest
from rlvr_cli.data.problems import load_problems
from rlvr_cli.evaluation.estimators import holm
from rlvr_cli.evaluation.imported import read_responses, response_sources

AIME24 = packaged_golds("aime24")


def write(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def batch_row(identity: str, *texts: str) -> dict:
    """A line of a server's batch output."""
    choices = [{"message": {"role": "assistant", "content": text}} for text in texts]
    return {"custom_id": identity, "response": {"body": {"model": "default", "choices": choices}}}


def answers(share: float) -> list[tuple[str, str]]:
    """The id of each problem of AIME 2024, and a response that is right in the first ones."""
    right = round(share * len(AIME24.problems))
    return [
        (problem.id, problem.answer if number < right else "-1")
        for number, problem in enumerate(AIME24.problems)
    ]


@pytest.fixture
def three_files(tmp_path) -> list[str]:
    """Three models' responses, each file in another shape, and the options that name them."""
    names = {id: other for other, id in AIME24.other_ids.items() if other.startswith("2024-")}
    first = [batch_row(names[id], text, text) for id, text in answers(0.5)]
    second = [{"id": id, "completions": [text, text]} for id, text in answers(0.9)]
    third = [{"n": id, "texts": [text, text]} for id, text in answers(0.6)]
    files = {
        "A-7B": write(tmp_path / "a.jsonl", first),
        "org/B": write(tmp_path / "b.jsonl", second),
        "C=1e-5": write(tmp_path / "c.jsonl", third),
    }
    return [part for name, file in files.items() for part in ("--responses", f"{name}={file}")]


def test_three_models_in_three_shapes_are_compared_in_all_pairs(three_files):
    fields = ("--field", "response=texts", "--field", "id=n")
    result = invoke("eval", "aime24", *three_files, *fields, "--pairs", "all", "--format", "latex")
    assert result.exit_code == 0, result.stderr
    table, pairs = result.stdout.split("\\begin{tabular}")[1:]
    assert " & \\multicolumn{2}{c}{aime24, 30 problems} \\\\" in table
    assert "A-7B & 0.500 " in table
    assert "org/B & \\textbf{0.900} " in table
    assert "C=1e-5 & 0.600 " in table
    assert [line.split(" & ")[:4:2] for line in pairs.splitlines()[4:10:2]] == [
        ["org/B", "A-7B"],
        ["C=1e-5", "A-7B"],
        ["C=1e-5", "org/B"],
    ]
    assert "& p Holm &" in pairs
    report = invoke(
        "eval", "aime24", *three_files, *fields, "--pairs", "all", "--format", "json"
    ).stdout
    paired = json.loads(report)["paired"]
    first = [pair["pass@k"]["1"] for pair in paired]
    assert [pair["p_holm"] for pair in first] == pytest.approx(holm([pair["p"] for pair in first]))


def test_a_path_of_a_field_that_no_file_has_is_an_error_of_each(three_files):
    text = invoke("eval", "aime24", *three_files, "--field", "response=nowhere").stderr
    assert "a.jsonl:1: no nowhere, which --field response names" in text


def test_a_file_has_fields_of_its_own(tmp_path):
    """One file has the ids of the set, one its order, and one numbers in a column of its own."""
    first = [{"id": id, "output": text} for id, text in reversed(answers(0.9))]
    second = [{"texts": [text, text]} for _, text in answers(0.8)]
    third = [{"no": n, "texts": text} for n, (_, text) in enumerate(answers(0.7))] * 2
    files = [
        write(tmp_path / "ids.jsonl", first),
        write(tmp_path / "order.jsonl", second) + "::id=order::response=texts",
        write(tmp_path / "numbers.jsonl", third) + "::response=texts::id=order:no",
    ]
    options = [part for file in files for part in ("--responses", file)]
    report = json.loads(invoke("eval", "aime24", *options, "--format", "json").stdout)
    shares = [result["pass@k"]["1"]["value"] for result in report["results"]]
    assert shares == pytest.approx([0.9, 0.8, 0.7])
    unordered = files[2].replace("order:", "")
    text = invoke("eval", "aime24", "--responses", unordered).stderr
    assert "Its 60 rows have 30 ids. If the file has the set's order: --field id=order:no," in text
    assert "write it as NAME=path" in refused("eval", "--responses", f"{files[0]}::texts")


def test_colons_in_the_name_of_a_file_are_no_field(tmp_path):
    path = write(tmp_path / "a::b=c.jsonl", [])
    for text in (path, f"A={path}"):
        (source,) = response_sources([text])
        assert (source.path, source.fields) == (path, {})


def test_two_paths_of_one_field_are_refused():
    text = refused("eval", "--responses", "r", "--field", "response=a", "--field", "response=b")
    assert "response=a stands before it; for one file of --responses write FILE::response=b" in text


@pytest.mark.parametrize(
    ("ps", "corrected"),
    [
        ([], []),
        ([0.03], [0.03]),
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),  # 3 x 0.01, 2 x 0.03, and no less than before
        ([0.5, 0.9, 0.02], [1.0, 1.0, 0.06]),
    ],
)
def test_holms_correction_by_hand(ps, corrected):
    assert holm(ps) == pytest.approx(corrected)


def test_a_name_is_before_the_first_equals_sign_that_a_file_stands_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("r.jsonl", "lr=1.jsonl"):
        write(tmp_path / name, [{"answer": 1, "response": "1"}])
    for text, expected in {
        "r.jsonl": (None, "r.jsonl"),
        "lr=1.jsonl": (None, "lr=1.jsonl"),
        "A=r.jsonl": ("A", "r.jsonl"),
        "A=lr=1.jsonl": ("A", "lr=1.jsonl"),
        "lr=3=r.jsonl": ("lr=3", "r.jsonl"),
        "Org/A=-": ("Org/A", "-"),
    }.items():
        (source,) = response_sources([text])
        assert (source.model, source.path) == expected
    for text, message in {
        "A=no.jsonl": "no such file as no.jsonl",
        "=r.jsonl": "write NAME=FILE",
    }.items():
        with pytest.raises(UserError, match=message):
            response_sources([text])
    with pytest.raises(UserError, match="given twice"):
        response_sources(["A=r.jsonl", "B=./r.jsonl"])


def test_rows_of_several_models_have_no_common_name(tmp_path):
    rows = [{"model": model, "id": 1, "answer": 1, "response": "1"} for model in ("m", "n")]
    path = write(tmp_path / "r.jsonl", rows)
    with pytest.raises(UserError, match=r"of several models \(m, n\), which cannot all be A"):
        read_responses(f"A={path}", None, skip_bad=False)
    (response,) = read_responses(f"A={write(tmp_path / 's.jsonl', rows[:1])}", None, skip_bad=False)
    assert response.origin.label.model == "A"


@pytest.mark.parametrize("name", ["aime24", "amc23"])
def test_the_golds_of_the_package_are_those_of_the_set(name, shared_data):
    golds = packaged_golds(name)
    problems = load_problems(name, "test", root=str(shared_data)).problems
    assert not golds.has_texts
    assert [(gold.id, gold.answer) for gold in golds.problems] == [
        (problem.id, problem.answer) for problem in problems
    ]
    assert [golds.other_ids[text_digest(problem.problem)] for problem in problems] == [
        problem.id for problem in problems
    ]
    assert packaged_golds("math500") is None


def read_with_golds(path: str, **options):
    return read_responses(path, None, skip_bad=False, golds=AIME24, **options)


def test_a_row_number_is_no_id_of_the_package(tmp_path):
    row = {"doc_id": 60, "doc": {"problem": "Another text?"}, "target": "1", "resps": [["204"]]}
    with pytest.raises(UserError, match="and no texts of the problems"):
        read_with_golds(write(tmp_path / "r.jsonl", [row]))


def test_the_hint_for_repeated_ids_fits_and_works(tmp_path):
    rows = [
        batch_row(f"req-{number}", problem.answer)
        for number, problem in enumerate(AIME24.problems)
        for _ in range(3)
    ]
    path = write(tmp_path / "r.jsonl", rows)
    with pytest.raises(UserError) as error:
        read_with_golds(path)
    text = str(error.value)
    assert text.count("no problem of aime24") == 1
    assert "Its 90 rows have 30 ids. If the file has the set's order: --field id=order" in text
    assert "(and 89 more for this reason)" in text
    responses = read_with_golds(path, fields={"id": "order"})
    assert [row.problem.answer == row.text for row in responses] == [True] * 90
    interleaved = write(tmp_path / "i.jsonl", [*rows[::3], *rows[1::3]])
    responses = read_with_golds(interleaved, fields={"id": "order"})
    assert [row.problem.answer == row.text for row in responses] == [True] * 60
    with pytest.raises(UserError, match=r"29 ids for 30 problems"):
        read_with_golds(write(tmp_path / "s.jsonl", rows[3:]), fields={"id": "order"})
    with pytest.raises(UserError, match=r"aime24 has 30 problems, with ids such as 60 or 2024-I-1"):
        read_with_golds(write(tmp_path / "t.jsonl", rows[3:]))


def test_an_error_is_said_once_with_its_count(tmp_path, caplog):
    good = {"problem": "1 + 1?", "answer": 2}
    rows = [good, *[{"problem": "p", "answer": ""}] * 7, {"problem": "q"}, *[{"problem": ""}] * 2]
    path = write(tmp_path / "p.jsonl", rows)
    assert len(load_problems(path, "test", skip_bad=True).problems) == 1
    (message,) = caplog.messages
    first, second, third, count = message.splitlines()
    assert first == f"{path}:2: field answer is empty (and 6 more for this reason)"
    assert second.startswith(f"{path}:9: no field answer; it has problem")
    assert third.startswith(f"{path}:10: field problem is not a text")
    assert third.endswith("(and 1 more for this reason)")
    assert count == "bad lines skipped: 10"
    values = [{"id": n, "answer": 1, "responses": ["1", {"of": n}]} for n in range(9)]
    with pytest.raises(UserError, match=r"(?s)number 2 of 2 is .* \(and 8 more for this reason"):
        read_responses(write(tmp_path / "d.jsonl", values), None, skip_bad=False)
