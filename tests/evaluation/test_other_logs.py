"""Files of responses as other programs write them, read without an option.

lm_eval.jsonl, lighteval.parquet and inspect.json were written by lm-eval 0.4.13, lighteval 0.13.0
and inspect 0.3.285 of the built-in policy and of a mock model (of inspect's, the events are left
out). The others have the shapes of their programs, with problems of our own.
"""

import json
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
from conftest import invoke

from rlvr_cli.core.errors import UserError
from rlvr_cli.data.paths import BadRowError, value_at
from rlvr_cli.data.problems import load_problems
from rlvr_cli.data.shapes import SHAPES
from rlvr_cli.evaluation.imported import read_responses

LOGS = Path(__file__).parent / "logs"


def evaluated(*arguments: str) -> tuple[dict, list[dict], str]:
    """The report's entry, the rows as they were judged, and what was said of the file."""
    report = invoke("eval", *arguments, "--format", "json")
    rows = invoke("eval", *arguments)
    (entry,) = json.loads(report.stdout)["results"]
    (said,) = [line for line in report.stderr.splitlines() if line.startswith("read ")]
    return entry, [json.loads(line) for line in rows.stdout.splitlines()], said


def refused(*arguments: str) -> str:
    """What is said of a file that cannot be judged: a line for each bad row, and one for all."""
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    return result.stderr


def rows_of(name: str) -> list[dict]:
    return [json.loads(line) for line in (LOGS / name).read_text().splitlines()]


def write(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_lm_evals_samples_give_its_own_figure():
    lines = rows_of("lm_eval.jsonl")
    reference = [row["exact_match"] for row in lines if row["filter"] == "strict-match"]
    entry, rows, said = evaluated("--responses", str(LOGS / "lm_eval.jsonl"))
    assert entry["pass@k"]["1"]["value"] == pytest.approx(sum(reference) / len(reference)) != 0
    assert len(lines) == 2 * len(rows) == 6  # a row for each of two filters
    assert rows[0]["problem"] == "Start at 3, keep last digits: (a) +4"
    assert rows[0]["answer"] == "7"
    assert (
        "6 rows as lm-eval samples, filter strict-match of 2, 3 of them with the responses of "
        "another left out; problem from doc.question, answer from target, response from resps[0]; "
        "3 responses to 3 problems"
    ) in said


def test_an_old_log_of_lm_eval_has_each_problem_once_too(tmp_path):
    lines = [
        {key: value for key, value in row.items() if key != "filter"}
        for row in rows_of("lm_eval.jsonl")
    ]
    entry, _, said = evaluated("--responses", write(tmp_path / "old.jsonl", lines))
    assert (entry["responses"], entry["problems"], list(entry["pass@k"])) == (3, 3, ["1"])
    assert "filter" not in said


def test_a_breakdown_may_be_by_a_field_inside_the_document(tmp_path):
    lines = rows_of("lm_eval.jsonl")
    for line in lines:
        line["doc"]["level"] = line["doc_id"] % 2
    entry, _, _ = evaluated("--responses", write(tmp_path / "s.jsonl", lines), "--by", "doc.level")
    counts = {value: part["problems"] for value, part in entry["by"]["doc.level"].items()}
    assert counts == {"0": 2, "1": 1}


def test_repeats_of_lm_eval_are_samples_of_their_problem(tmp_path):
    lines = [{**row, "resps": [["It is 7.", "It is 8."]]} for row in rows_of("lm_eval.jsonl")]
    entry, _, _ = evaluated("--responses", write(tmp_path / "s.jsonl", lines))
    assert (entry["responses"], entry["problems"]) == (6, 3)


def test_lightevals_details_give_its_own_figure_but_for_the_tags_that_it_does_not_know():
    reference = pyarrow.parquet.read_table(LOGS / "lighteval.parquet").to_pylist()
    entry, rows, said = evaluated("--responses", str(LOGS / "lighteval.parquet"))
    assert [row["response"] for row in rows] == [
        item["model_response"]["text"][0] for item in reference
    ]
    assert [item["metric"]["extractive_match"] for item in reference] == [0, 0, 0]
    assert [row["verdict"] for row in rows] == ["wrong", "wrong", "correct"]
    assert rows[2]["response"].endswith("<answer>5</answer>")
    assert entry["problems"] == 3
    assert "answer from doc.choices[doc.gold_index]" in said


def test_inspects_log_gives_its_own_figure_by_its_model_and_task():
    log = json.loads((LOGS / "inspect.json").read_text())
    reference = [sample["scores"]["match"]["value"] == "C" for sample in log["samples"]]
    entry, rows, _ = evaluated("--responses", str(LOGS / "inspect.json"))
    assert (entry["model"], entry["data"]) == ("mockllm/model", "sums")
    assert entry["pass@k"]["1"]["value"] == sum(reference) / len(reference) == 0.25
    assert [(row["id"], row["level"]) for row in rows] == [("sum-a", 1)] * 2 + [("sum-b", 2)] * 2
    assert [row["n_tokens"] for row in rows] == [7, 15, 15, 1]


def test_inspects_packed_log_needs_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    (tmp_path / "log.eval").write_bytes(b"PK")
    text = refused("eval", "--responses", str(tmp_path / "log.eval"))
    assert "pip install inspect-ai" in text


def test_inspects_packed_log_is_that_of_its_json(tmp_path):
    inspect_log = pytest.importorskip("inspect_ai.log", reason="inspect-ai is not installed here")
    unbroken = json.loads((LOGS / "inspect.json").read_text())
    unbroken["eval"]["config"] = {}  # which the stored one leaves out
    (tmp_path / "log.json").write_text(json.dumps(unbroken))
    log = inspect_log.read_eval_log(str(tmp_path / "log.json"))
    inspect_log.write_eval_log(log, str(tmp_path / "log.eval"))
    packed = read_responses(str(tmp_path / "log.eval"), None, skip_bad=False)
    plain = read_responses(str(LOGS / "inspect.json"), None, skip_bad=False)
    assert [row.values for row in packed] == [row.values for row in plain]
    (tmp_path / "bad.eval").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(UserError, match=r"bad\.eval: inspect-ai cannot read it"):
        read_responses(str(tmp_path / "bad.eval"), None, skip_bad=False)


def test_samples_of_qwens_harness_give_its_own_scores():
    reference = [score for row in rows_of("qwen_math.jsonl") for score in row["score"]]
    entry, rows, said = evaluated("--responses", str(LOGS / "qwen_math.jsonl"), "--by", "level")
    assert [row["verdict"] == "correct" for row in rows] == reference
    assert entry["pass@k"]["1"]["value"] == 0.5
    assert entry["pass@k"]["2"]["value"] == 2 / 3
    assert "problem from question, answer from gt, response from code" in said
    by_level = {level: part["pass@k"]["1"]["value"] for level, part in entry["by"]["level"].items()}
    assert by_level == {"1": 1, "2": 0.5, "3": 0}


def test_batch_output_is_joined_with_its_problems_by_the_id_of_its_requests():
    problems = str(LOGS / "batch_problems.jsonl")
    entry, rows, said = evaluated(problems, "--responses", str(LOGS / "batch.jsonl"))
    assert [(row["id"], row["verdict"]) for row in rows] == [
        ("chairs", "correct"),  # the 13 stands in its thought, which is kept apart
        ("chairs", "wrong"),
        ("half", "correct"),
        ("half", "truncated"),  # its thought has the answer, and does not end
    ]
    assert rows[0]["response"].startswith("<think>Is it ")
    assert entry["cut_off_share"] == 0.25
    assert rows[0]["n_tokens"] is None  # the server counted those of both together
    assert entry["model"] == "served-7b"
    assert "joined with" in said
    assert "by id (2)" in said


def test_batch_output_alone_is_refused_with_what_would_do():
    text = refused("eval", "--responses", str(LOGS / "batch.jsonl"))
    assert "rlvr eval SET --responses FILE" in text


def test_a_request_that_failed_is_counted_apart(tmp_path):
    (row, other) = rows_of("batch.jsonl")
    for error in (
        {"error": {"message": "expired"}, "response": {"status_code": 500}},
        {"response": {"status_code": 400, "body": {"error": {"message": "expired"}}}},
    ):
        path = write(tmp_path / "b.jsonl", [row, other | error])
        arguments = (str(LOGS / "batch_problems.jsonl"), "--responses", path)
        entry, rows, _ = evaluated(*arguments)
        assert (entry["failed"], len(rows)) == ({"error": 1}, 2)
        said = " ".join(invoke("eval", *arguments).stderr.split())
        assert "served-7b: 1 response failed (1 error; the first at " in said
        assert "b.jsonl:2), which no figure counts" in said


def test_rollouts_of_verl_are_read_as_they_are():
    reference = [row["score"] for row in rows_of("verl.jsonl")]
    entry, rows, said = evaluated("--responses", str(LOGS / "verl.jsonl"))
    assert [float(row["verdict"] == "correct") for row in rows] == reference
    assert (entry["problems"], entry["responses"]) == (2, 4)
    assert "as rollouts of verl; problem from input, answer from gts, response from output" in said


def test_completions_of_trl_are_joined_by_the_text_within_their_prompts():
    table = pyarrow.parquet.read_table(LOGS / "trl.parquet").to_pylist()
    problems = str(LOGS / "trl_problems.jsonl")
    _, rows, said = evaluated(problems, "--responses", str(LOGS / "trl.parquet"))
    assert [row["id"] for row in rows] == ["half", "half", "part", "part"]
    assert [float(row["verdict"] == "correct") for row in rows] == [
        row["accuracy_reward"] for row in table
    ]
    assert "by text within the prompt (4)" in said


def test_a_prompt_with_the_texts_of_two_problems_is_of_neither(tmp_path):
    problems = rows_of("trl_problems.jsonl")
    both = f"{problems[0]['problem']}\n{problems[1]['problem']}"
    path = write(tmp_path / "r.jsonl", [{"prompt": both, "completion": "42"}])
    golds = load_problems(str(LOGS / "trl_problems.jsonl"), "test")
    with pytest.raises(UserError, match=r"no problem of .* has its text"):
        read_responses(path, None, skip_bad=False, golds=golds)


def test_skythoughts_object_keyed_by_problem_gives_its_own_figure():
    reference = json.loads((LOGS / "skythought.json").read_text())
    entry, rows, said = evaluated("--responses", str(LOGS / "skythought.json"))
    assert [row["verdict"] == "correct" for row in rows] == [
        response["correctness"]
        for item in reference.values()
        for response in item["responses"]["0.6"]
    ]
    assert [row["id"] for row in rows[::2]] == list(reference)
    assert (entry["problems"], entry["response_length"]) == (3, 7.5)
    assert "3 rows as object keyed by problem" in said


def test_an_object_keyed_by_problem_may_have_no_other_text_of_it(tmp_path):
    entry = {"answer": "2", "responses": {"0": {"content": "2"}, "1": {"content": "3"}}}
    (tmp_path / "r.json").write_text(json.dumps({"1 + 1?": entry}))
    responses = read_responses(str(tmp_path / "r.json"), None, skip_bad=False)
    assert [(r.problem.problem, r.text) for r in responses] == [
        ("1 + 1?", "2"),
        ("1 + 1?", "3"),
    ]


def test_responses_of_two_temperatures_are_not_mixed(tmp_path):
    lists = {"0.6": [{"content": "2"}], "1.0": [{"content": "3"}, {"content": "4"}]}
    (tmp_path / "r.json").write_text(json.dumps({"1 + 1?": {"answer": "2", "responses": lists}}))
    with pytest.raises(UserError, match=r"lists of 0\.6, 1\.0, which are not to be mixed"):
        read_responses(str(tmp_path / "r.json"), None, skip_bad=False)
    path = {"response": "responses[1.0][*].content"}
    responses = read_responses(str(tmp_path / "r.json"), None, skip_bad=False, fields=path)
    assert [response.text for response in responses] == ["3", "4"]


def test_a_file_in_the_order_of_a_set_is_joined_by_order_only_on_request(tmp_path):
    lines = [
        {"n": number, "output": text, "gold": "?"} for number, text in enumerate(("42", "13", "5"))
    ]
    path = write(tmp_path / "r.jsonl", lines)
    problems = str(LOGS / "trl_problems.jsonl")
    text = refused("eval", problems, "--responses", path)
    assert "--field id=order, but look whether its first row" in text
    assert "is to chairs (A hall has 6 rows of 7 chairs. How many chairs?)" in text
    _, rows, said = evaluated(problems, "--responses", path, "--field", "id=order")
    assert [(row["id"], row["verdict"]) for row in rows] == [
        ("chairs", "correct"),
        ("half", "correct"),
        ("part", "wrong"),
    ]
    assert "by order (3)" in said


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"response": "1"}] * 2, "2 rows for 3 problems; --field id=order needs one for each"),
        ([{"response": "1"}] * 4, "row 4: "),
        ([{"response": "1", "problem": "1 + 1?"}] * 3, ":1: row 1 of"),
        ([{"response": "1", "problem_id": "half"}] * 3, ":1: by order it is to chairs, but its id"),
    ],
)
def test_a_file_in_another_order_is_refused(tmp_path, rows, words):
    path = write(tmp_path / "r.jsonl", rows)
    problems = str(LOGS / "trl_problems.jsonl")
    assert words in refused("eval", problems, "--responses", path, "--field", "id=order")


@pytest.mark.parametrize(
    ("problems", "rows", "words"),
    [
        (["8 * 7?", "x"], [{"prompt": "Solve 8 * 71?", "completion": "5"}], "has its text"),
        (
            ["Compute 8 * 7", "x"],
            [{"prompt": "Compute 8 * 7.5", "completion": "5"}],
            "has its text",
        ),
        (
            ["Compute 8 * 7"],
            [{"prompt": f"Compute 8 * 7. Then {word}", "completion": "5"} for word in ("a", "b")],
            ":2: another prompt has the text of 0 too",
        ),
        (["1 + 1", "1 + 1"], [{"prompt": "1 + 1", "completion": "2"}], "several problems of"),
    ],
)
def test_a_row_that_may_be_of_another_problem_is_refused(tmp_path, problems, rows, words):
    golds = [{"id": str(n), "problem": text, "answer": "2"} for n, text in enumerate(problems)]
    path = write(tmp_path / "r.jsonl", rows)
    assert words in refused("eval", write(tmp_path / "p.jsonl", golds), "--responses", path)


def test_a_shuffled_batch_is_not_in_order(tmp_path):
    rows = [{"custom_id": f"request-{n}", "response": {"body": b}} for n, b in ((2, {}), (1, {}))]
    for row in rows:
        row["response"]["body"]["choices"] = [{"message": {"role": "assistant", "content": "1"}}]
    path = write(tmp_path / "r.jsonl", rows)
    problems = str(LOGS / "batch_problems.jsonl")
    text = refused("eval", problems, "--responses", path, "--field", "id=order")
    assert ":2: its id request-1 is below that of a row before: not in order" in text
    for row, name in zip(rows, ("2024-I-15", "2024-II-1"), strict=True):
        row["custom_id"] = name
    path = write(tmp_path / "r.jsonl", rows)
    assert invoke("eval", problems, "--responses", path, "--field", "id=order").exit_code == 0


def test_the_number_of_a_row_in_another_program_is_no_id_of_a_set(tmp_path):
    rows = [{"id": 2, "problem": "A hall has 6 rows of 7 chairs. How many chairs?", "answer": 42}]
    rows += [{"id": 0, "problem": "Half of 18 is added to 4. What is it?", "answer": 13}]
    problems = write(tmp_path / "p.jsonl", rows)
    log = write(tmp_path / "r.jsonl", rows_of("qwen_math.jsonl")[:2])
    entry, _, said = evaluated(problems, "--responses", log)
    assert entry["pass@k"]["1"]["value"] == 0.75
    assert "by text (2)" in said


def test_the_same_response_from_two_runs_of_lm_eval_counts_twice(tmp_path):
    lines = [row for row in rows_of("lm_eval.jsonl") if row["filter"] == "strict-match"]
    entry, _, _ = evaluated("--responses", write(tmp_path / "s.jsonl", [*lines, *lines]))
    assert (entry["responses"], entry["problems"]) == (6, 3)


def test_a_request_without_content_counts_as_a_response_without_an_answer(tmp_path):
    (row, _) = rows_of("batch.jsonl")
    row["response"]["body"]["choices"] = [
        {"message": {"role": "assistant", "content": None}, "finish_reason": "length"}
    ]
    path = write(tmp_path / "b.jsonl", [row])
    entry, _, _ = evaluated(str(LOGS / "batch_problems.jsonl"), "--responses", path)
    assert (entry["responses"], entry["cut_off_share"]) == (1, 1)
    assert entry["verdicts"] == {"truncated": 1}


def test_two_gold_answers_of_a_row_are_said(tmp_path):
    row = {"question": "1 + 1?", "answer": "9", "gold": "2", "response": "9"}
    result = invoke("eval", "--responses", write(tmp_path / "r.jsonl", [row]))
    assert (
        "answer and gold hold different gold answers in 1 row; the first one counts"
        in result.stderr
    )
    path = write(tmp_path / "r.jsonl", [{**row, "gold": "9"}])
    assert "different gold" not in invoke("eval", "--responses", path).stderr


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"responses": "['2', '3']", "answer": "2"}, "a list as Python prints it"),
        ({"output": "2", "question": "1 + 1?"}, "no field answer; it has output"),
        (
            {
                "doc": {"query": "q", "choices": ["1", "2"], "gold_index": [0, 1]},
                "model_response": {"text": ["1"]},
            },
            "doc.gold_index names several right answers",
        ),
    ],
)
def test_what_has_no_one_right_answer_is_refused(tmp_path, row, words):
    assert words in refused("eval", "--responses", write(tmp_path / "r.jsonl", [row]))


def test_a_sample_of_inspect_with_several_right_answers_is_refused(tmp_path):
    log = json.loads((LOGS / "inspect.json").read_text())
    log["samples"][0]["target"] = ["41", "42"]
    (tmp_path / "log.json").write_text(json.dumps(log))
    text = refused("eval", "--responses", str(tmp_path / "log.json"))
    assert "log.json:1: target has several right answers" in text


def test_order_is_that_of_a_named_set(tmp_path):
    path = write(tmp_path / "r.jsonl", [{"response": "1", "answer": "1"}])
    text = refused("eval", "--responses", path, "--field", "id=order")
    assert "--field id=order: name the problem set that has this order" in text


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"output": "It is 2.", "gold_answer": "2"}, "output"),
        ({"gen": "It is 2.", "expected": "2"}, "gen"),
        ({"raw_response": "It is 2.", "reference_answer": "2"}, "raw_response"),
        ({"generated_responses": ["It is 2."], "gt": "2"}, "generated_responses"),
        ({"model_outputs": [{"model_output": "It is 2."}], "gt": "2"}, "model_outputs[*]"),
        ({"choices": [{"message": {"role": "assistant", "content": "2"}}], "gt": 2}, "choices[*]"),
    ],
)
def test_other_names_of_a_response_beside_a_gold_answer(tmp_path, row, field):
    path = write(tmp_path / "r.jsonl", [{**row, "question": "1 + 1?"}])
    entry, _, said = evaluated("--responses", path)
    assert entry["pass@k"]["1"]["value"] == 1
    assert f"response from {field}" in said


def test_a_row_of_ours_has_no_other_programs_shape():
    """Each shape needs at least two marks, or stands around all rows."""
    assert all(len(shape.marks) > 1 or shape.rows for shape in SHAPES)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a[*].b", [1, 2]),
        ("a[-1].b", 2),
        ("a[i].b", 2),
        ("a[j.k].b", 1),
        ("a[9].b", None),
        ("o[x].b", 3),
        ("o[*].b", [3]),
        ("l[*][*].b", [1, 2, 4]),
        ("a[*].c", None),
        ("a[*].d", [None, 5]),
        ("s[*]", None),
        ("a[s].b", None),
    ],
)
def test_paths_reach_all_elements_and_the_one_that_another_field_names(path, value):
    row = {
        "a": [{"b": 1}, {"b": 2, "d": 5}],
        "i": 1,
        "j": {"k": [0]},
        "o": {"x": {"b": 3}},
        "l": [[{"b": 1}, {"b": 2}], [{"b": 4}]],
        "s": "text",
    }
    assert value_at(row, path) == value


def test_a_blank_line_shifts_no_row_to_the_next_problem(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"response": "42"}\n\n{"response": "13"}\n{"response": "5"}\n')
    problems = str(LOGS / "trl_problems.jsonl")
    text = refused("eval", problems, "--responses", str(path), "--field", "id=order", "--skip-bad")
    assert "row 4: " in text
    assert "counts blank lines and bad rows" in text


def test_a_field_that_may_mean_several_is_one_line(tmp_path):
    row = {"problem": "2 + 2", "answer": "4", "response": "4", "c": ["x", "y"], "g": [0, 1]}
    text = refused("eval", "--responses", write(tmp_path / "r.jsonl", [row]), "--by", "c[g]")
    assert "--by c[g]: g names several right answers" in text


def test_a_lone_surrogate_of_a_file_does_not_lose_the_report(tmp_path):
    row = {"model": "x\ud800", "problem": "2 + 2", "answer": "4", "response": "4"}
    path = write(tmp_path / "r.jsonl", [row])
    result = invoke("eval", "--responses", path, "--format", "md", "--out", str(tmp_path / "o"))
    assert result.exit_code == 0, result.stderr
    report = json.loads((tmp_path / "o" / "report.json").read_text())
    assert report["results"][0]["model"] == "x\ud800"


def test_lists_under_several_keys_are_not_mixed():
    with pytest.raises(BadRowError, match="lists of x, y"):
        value_at({"o": {"x": [1], "y": [2]}}, "o[*][*]")
