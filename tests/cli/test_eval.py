"""`rlvr eval` as people run it: stopped and gone on with, piped, compared."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import jsonl
from forked import Fork

import rlvr_cli

TINY = Path(rlvr_cli.__file__).parent / "tiny"
LIMIT = ("--limit", "16", "--set", "rollout.kv_budget_mb=1")


def files(directory):
    """What each file holds, a report without its date, command and speed."""
    actual = {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }
    if "report.json" in actual:
        own = json.loads(actual["report.json"])
        dated = (own.pop("created"), own.pop("command"), own.pop("speed"))
        assert all(dated)
        actual["report.json"] = json.dumps(own).encode()
    return actual


def report(directory):
    return json.loads((directory / "report.json").read_text())


def killed_midway(directory, at_least):
    """Start an evaluation and SIGKILL it once some problems are done; the unfinished file."""
    process = Fork(("eval", *LIMIT, "--out", "broken"), directory)
    unfinished = directory / "broken" / "unfinished" / "chains--tiny.jsonl"
    process.await_(lambda: unfinished.exists() and unfinished.read_bytes().count(b"\n") >= at_least)
    os.kill(process.pid, signal.SIGKILL)
    process.done()
    return unfinished


def test_a_killed_evaluation_goes_on_and_ends_byte_for_byte_the_same(rlvr, tmp_path):
    unbroken = rlvr("eval", *LIMIT, "--out", "whole")
    assert unbroken.returncode == 0, unbroken.stderr
    (speed,) = report(tmp_path / "whole")["speed"]
    assert speed["tokens"] > 64
    assert speed["seconds"] > 0
    assert f"{speed['tokens']:,} tokens, " in unbroken.stderr
    unfinished = killed_midway(tmp_path, at_least=2)
    result = unfinished.read_text().splitlines(keepends=True)
    assert 2 <= len(result) < 16
    unfinished.write_text("".join(result) + result[-1][:30])  # as a kill within a write leaves it

    other = rlvr("eval", *LIMIT, "--out", "broken", "--temperature", "1", "--seed", "3")
    assert other.returncode == 2
    assert "--out broken: begun with other settings" in other.stderr
    assert "sampling.temperature 1.0, theirs 0.6; sampling.seed 3, theirs 0" in other.stderr

    repeated = rlvr("eval", *LIMIT, "--out", "broken")
    assert repeated.returncode == 0, repeated.stderr
    assert f"{len(result)} of 16 problems are done already" in repeated.stderr
    assert files(tmp_path / "broken") == files(tmp_path / "whole")
    assert sorted(files(tmp_path / "whole")) == ["report.json", "responses/chains--tiny.jsonl"]


@pytest.mark.parametrize(
    ("number", "out", "words"),
    [
        (signal.SIGINT, ("--out", "result"), "result keeps the sampled responses; give the"),
        pytest.param(
            signal.SIGTERM,
            (),
            "nothing is kept; rlvr eval with --out DIR keeps",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_interrupted_evaluation_says_what_is_kept(tmp_path, number, out, words):
    process = Fork(("eval", "-n", "32", *out), tmp_path)
    unfinished = tmp_path / "result" / "unfinished" / "chains--tiny.jsonl"
    process.await_(lambda: "policy" in process.err and (not out or unfinished.exists()))
    time.sleep(0.5)
    os.kill(process.pid, number)
    result = process.done()
    assert result.rc == 130
    assert re.search(f"^rlvr: interrupted; {words}", result.err, re.MULTILINE)
    assert "Traceback" not in result.err


def test_a_dated_template_is_another_fingerprint_on_another_day(rlvr, tmp_path):
    """The same files make other prompts: a template that tells the time, as others do the date."""
    model = tmp_path / "dated"
    shutil.copytree(TINY, model)
    requested = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    (model / "chat_template.jinja").write_text("{{ strftime_now('%f') }}\n" + requested)
    command = ("eval", "--model", "dated", "--limit", "1", "-n", "1", "--max-tokens", "4")
    first = rlvr(*command, "--out", "first")
    assert first.returncode == 0, first.stderr
    second = rlvr(*command, "--out", "second", "--against", "first")
    assert second.returncode == 0, second.stderr
    (comparison,) = report(tmp_path / "second")["against"]["results"]
    assert [text.split()[0] for text in comparison["differs"]] == ["prompts"]


def test_models_and_sets_in_one_table_and_tested_against_another(rlvr, tmp_path):
    shutil.copytree(TINY, tmp_path / "other")
    (tmp_path / "other" / "README").write_text("not of the model")
    (tmp_path / "a.jsonl").write_text(
        jsonl(*({"problem": f"What is {n} + 4?", "answer": n + 4, "n": n % 2} for n in range(6)))
    )
    (tmp_path / "b.csv").write_text("question,answer,n\nWhat is 3 + 9?,12,0\n")
    first = rlvr("eval", "a.jsonl", "--seed", "1", "--out", "first")
    assert first.returncode == 0, first.stderr
    pair = ("a.jsonl", "b.csv", "--model", "tiny", "--model", "other", "--by", "n", "--out", "both")
    both = rlvr("eval", *pair)
    assert both.returncode == 0, both.stderr
    results = report(tmp_path / "both")["results"]
    assert [(entry["model"], entry["data"]) for entry in results] == [
        ("tiny", "a.jsonl"),
        ("tiny", "b.csv"),
        ("other", "a.jsonl"),
        ("other", "b.csv"),
    ]
    assert results[0]["fingerprint"] == results[2]["fingerprint"]  # the same model by another name
    assert results[0]["pass@k"] == results[2]["pass@k"]
    assert {value: part["problems"] for value, part in results[0]["by"]["n"].items()} == {
        "0": 3,
        "1": 3,
    }
    paired = report(tmp_path / "both")["paired"]
    sides = [(pair["data"], pair["model"], pair["against"], pair["problems"]) for pair in paired]
    assert sides == [("a.jsonl", "other", "tiny", 6), ("b.csv", "other", "tiny", 1)]
    assert {pair["pass@k"]["1"]["value"] for pair in paired} == {0.0}
    assert len((tmp_path / "both/responses/a.jsonl--other.jsonl").read_text().splitlines()) == 24
    assert both.stderr.count("\na.jsonl") + both.stderr.count("\nother ") >= 2

    rows = "both/responses/a.jsonl--tiny.jsonl"
    scored = rlvr("eval", "--responses", rows, "--against", "first/report.json", "--out", "again")
    assert scored.returncode == 0, scored.stderr
    assert "think_answer, as the rows say" in scored.stderr
    repeated = report(tmp_path / "again")
    for key in ("pass@k", "cons@k", "verdicts", "format_share", "response_length"):
        assert repeated["results"][0][key] == results[0][key]
    hashes = [entry["fingerprint"]["data"] for entry in (repeated["results"][0], results[0])]
    assert hashes[0] == hashes[1]
    (comparison,) = repeated["against"]["results"]
    earlier = report(tmp_path / "first")["results"][0]
    for k in ("1", "4"):
        expected = results[0]["pass@k"][k]["value"] - earlier["pass@k"][k]["value"]
        assert comparison["pass@k"][k]["value"] == pytest.approx(expected)
    assert any(text.startswith("sampling.seed") for text in comparison["differs"])


def test_a_model_that_is_no_run_is_asked_for_a_box(rlvr, tmp_path):
    model = tmp_path / "published"
    shutil.copytree(TINY, model)
    (model / "rlvr.yaml").unlink()
    quick = ("eval", "--model", "published", "--limit", "2", "-n", "1", "--max-tokens", "4")
    result = rlvr(*quick, "--out", "own")
    assert (
        "published is no run, so chains asks it for a \\boxed{} answer; --prompt" in result.stderr
    )
    (entry,) = report(tmp_path / "own")["results"]
    assert entry["fingerprint"]["prompt"].endswith("within \\boxed{}.")
    assert entry["fingerprint"]["verifier"]["format"] == "boxed"
    assert entry["any_form"]["problems"] == 2
    assert entry["data_version"] >= 1
    requested = rlvr(*quick, "--prompt", "think_answer", "--out", "asked")
    (entry,) = report(tmp_path / "asked")["results"]
    assert entry["fingerprint"]["verifier"]["format"] == "think_answer"
    assert "is no run" not in requested.stderr


def test_a_limit_leaves_the_same_room_for_responses(rlvr, tmp_path):
    model = tmp_path / "bare"
    shutil.copytree(TINY, model)
    (model / "rlvr.yaml").unlink()
    problems = jsonl(P, {"problem": "q" * 1200, "answer": 1})
    command = ("eval", "-", "--model", "bare", "-n", "1", "--prompt", "plain")
    unbroken = rlvr(*command, stdin=problems)
    first = rlvr(*command, "--limit", "1", stdin=problems)
    for result in (unbroken, first):
        assert result.returncode == 0, result.stderr
        assert f"at most {2048 - 1200 - 3} tokens" in result.stderr
    assert first.stdout == unbroken.stdout.splitlines(keepends=True)[0]


ELSEWHERE = jsonl(
    {"id": 1, "answer": "0.5", "responses": [r"\boxed{\frac12}", "2", "x = 2", "it is 2.0"]},
    {"id": 2, "answer": 7, "responses": ["7", "so the answer is 7.", "8", "I do not know"]},
)


def test_responses_of_any_tool_by_hand(rlvr, tmp_path):
    result = rlvr("eval", "--responses", "-", "--out", "scored", stdin=ELSEWHERE)
    assert result.returncode == 0, result.stderr
    (entry,) = report(tmp_path / "scored")["results"]
    # Problem 1: one right, three times 2. Problem 2: two right, one 8, one silent.
    values = {k: actual["value"] for k, actual in entry["pass@k"].items()}
    assert values == pytest.approx({"1": 3 / 8, "2": (1 / 2 + 5 / 6) / 2, "4": 1.0})
    # k = 2, problem 1: a right one beside a 2 ties, 3 of 6 pairs at 1/2. Problem 2: both right 1,
    # right and 8 tie twice, right and silent win twice, 8 and silent lose: (1 + 1 + 2) / 6.
    votes = {k: actual["value"] for k, actual in entry["cons@k"].items()}
    assert votes == pytest.approx({"1": 3 / 8, "2": (1 / 4 + 4 / 6) / 2, "4": 1 / 2})
    assert entry["verdicts"] == {"correct": 3, "no_answer": 1, "wrong": 4}
    piped = rlvr("eval", "--responses", "-", stdin=ELSEWHERE)
    assert (tmp_path / "scored/responses/stdin--responses.jsonl").read_text() == piped.stdout
    once_more = rlvr("eval", "--responses", "-", stdin=piped.stdout)
    assert once_more.stdout == piped.stdout


def test_a_limit_is_one_of_problems(rlvr):
    rows = [
        {"model": model, "id": identity, "answer": 1, "response": "1"}
        for identity in ("a", "b", "c")
        for model in ("m", "n")
        for _ in range(2)
    ]
    apart = [*rows[::2], *rows[1::2]]  # the second responses of all problems come after the first
    result = rlvr("eval", "--responses", "-", "--limit", "2", stdin=jsonl(*apart))
    assert result.returncode == 0, result.stderr
    retained = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["model"], row["id"], row["sample"]) for row in retained] == [
        (model, identity, sample) for model in "mn" for identity in "ab" for sample in (0, 1)
    ]


def test_problems_that_do_not_count_are_said(rlvr):
    rows = jsonl(
        {"id": 1, "answer": 1, "responses": ["1", "2"]},
        {"id": 2, "answer": "a sentence that is no answer (", "responses": ["1", "2"]},
    )
    result = rlvr("eval", "--responses", "-", "--k", "2", stdin=rows)
    assert result.returncode == 0, result.stderr
    assert re.search(r"^2 +1  1\.000 \[", result.stderr, re.MULTILINE)  # the table says of how many
    assert "2 responses could not be judged" in result.stderr


def test_a_thought_that_the_prompt_opens_is_judged_as_open(rlvr):
    row = {"prompt": "2 + 2? <think>", "response": "…</think><answer>4</answer>", "answer": "4"}
    rows = jsonl(row, {**row, "problem": "2 + 2?"})
    strict = ("--set", "data.answer_format=think_answer")
    result = rlvr("eval", "--responses", "-", *strict, stdin=rows)
    assert [json.loads(line)["verdict"] for line in result.stdout.splitlines()] == ["correct"] * 2


def test_ids_of_a_foreign_file_match_whatever_their_type(rlvr, tmp_path):
    reference = [{"id": i, "verdict": "wrong", "answer": 1, "response": "2"} for i in ("b", 1)]
    (tmp_path / "theirs.jsonl").write_text(jsonl(*reference))
    ours = jsonl(*({"id": i, "answer": 1, "response": "1"} for i in (1, "b")))
    result = rlvr("eval", "--responses", "-", "--against", "theirs.jsonl", stdin=ours)
    assert result.returncode == 0, result.stderr
    assert "against    theirs.jsonl, 2 problems" in result.stderr


def test_a_colon_in_a_path_is_part_of_the_name(rlvr, tmp_path):
    (tmp_path / "x:y").mkdir()
    (tmp_path / "x:y" / "r.jsonl").write_text(jsonl(GOOD))
    result = rlvr("eval", "--responses", "x:y/r.jsonl")
    assert "on x:y/r.jsonl (1 problem," in result.stderr


GOOD = {"id": "a", "answer": 1, "response": "1"}


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ((), (), "stdin: no responses in it"),
        (({"response": "1"},), (), "stdin:1: no field answer; it has response"),
        (({"answer": 1},), (), "stdin:1: no field response; it has answer"),
        (({"answer": 1, "responses": [1]},), (), "field responses is neither a text nor a list"),
        ((GOOD, {**GOOD, "answer": 2}), (), "stdin:2: problem a has two different gold answers"),
        (
            ({**GOOD, "problem": "p"}, {**GOOD, "problem": "q"}),
            (),
            "stdin:2: the id a is that of another problem (stdin:1)",
        ),
        (
            ({**GOOD, "problem": "p"}, {**GOOD, "problem": "p", "id": "b", "answer": 2}),
            (),
            "stdin:2: problem b has two different gold answers, '2', '1' in stdin:1",
        ),
        (
            ({**GOOD, "verifier": "boxed"}, GOOD),
            (),
            "judged in different ways (stdin:1: verifier boxed; stdin:2: verifier None)",
        ),
        ((GOOD,), ("--k", "2"), "--k 2: no problem of stdin has more than 1 response"),
        ((GOOD,), ("--by", "level"), "--by level: no such field in stdin; its problems have no"),
        (({**GOOD, "x": 1},), ("--by", "level"), "--by level: no such field in stdin; it has x"),
        ((GOOD,), ("--against", "none"), "--against none: no such result or file"),
        ((GOOD,), ("--model", "tiny"), "leave --model out, and give at most one problem set"),
        (
            (GOOD,),
            ("--responses", "-"),
            "--responses -: given twice",
        ),
    ],
)
def test_bad_responses_are_one_line(rlvr, rows, options, message):
    result = rlvr("eval", "--responses", "-", *options, stdin=jsonl(*rows))
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.strip().splitlines()[-1].startswith("rlvr: error: ")
    assert "Traceback" not in result.stderr


P = {"problem": "p", "answer": 1}


def test_a_problem_that_stands_twice_is_warned_of(rlvr):
    short = ("-n", "1", "--max-tokens", "4", "-q")
    result = rlvr("eval", "-", *short, stdin=jsonl(P, {"problem": "q", "answer": 2}, P))
    assert result.returncode == 0
    assert "stdin: 1 problem with the text of another: each counts as a problem of" in result.stderr


@pytest.mark.parametrize(
    ("args", "rows", "message"),
    [
        (("-", "--k", "5"), (P,), "--k 5: larger than the 4 samples a problem (-n)"),
        (("-",), (P, {"problem": "q"}), "stdin:2: no field answer"),
        (("-",), (P, {**P, "answer": 2}), "problem stdin-2 has two different gold answers"),
        (
            ("-",),
            ({**P, "id": 1}, {"problem": "q", "answer": 1, "id": 1}),
            "stdin:2: the id 1 is that of another problem (stdin:1)",
        ),
        (("chains", "--by", "topic"), (), "--by topic: no such field in chains; it has"),
        (("gsm8k",), (), "save a copy as DIR/gsm8k_test.jsonl and add --set data.root=DIR"),
        (("gsm8k", "--set", "data.root=."), (), "gsm8k: . holds no gsm8k_test.jsonl"),
        (("-", "--prompt", "none.txt"), (P,), "prompt none.txt: no such template; choose from"),
        (("-", "--out", "taken"), (P,), "--out taken: it exists already"),
    ],
)
def test_bad_evaluations_are_one_line(rlvr, tmp_path, args, rows, message):
    (tmp_path / "taken").mkdir()
    result = rlvr("eval", *args, stdin=jsonl(*rows))
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.strip().splitlines()[-1].startswith("rlvr: error: ")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("prompt", "judged"), [("boxed", "boxed"), ("think_answer", "think_answer"), ("plain", "any")]
)
def test_answers_are_judged_as_the_prompt_asks_for_them(rlvr, prompt, judged):
    result = rlvr("eval", "-", "--prompt", prompt, "-n", "1", stdin=jsonl(P))
    assert result.returncode == 0, result.stderr
    assert f"answers judged as {judged})" in result.stderr


def test_the_sets_are_listed_without_torch(rlvr):
    result = rlvr("eval", "--list")
    names = [json.loads(line)["name"] for line in result.stdout.splitlines()]
    assert {name for name in names if not name.startswith("gym:")} == {
        *("chains", "gsm8k", "math500", "math", "aime24", "aime25", "amc23", "minerva"),
        *("olympiadbench", "dapo-math-17k", "deepscaler", "aime26", "hmmt-feb25", "brumo25"),
        *("olymmath-easy", "olymmath-hard", "gsm-plus", "mmlu", "mmlu-pro"),
    }
    code = (
        "import sys; from rlvr_cli.cli.listings import list_sets; list_sets(); "
        "from rlvr_cli.program.recorded import score; "
        "print({'torch', 'transformers', 'datasets'} & set(sys.modules), file=sys.stderr)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert loaded.stderr.strip() == "set()"
