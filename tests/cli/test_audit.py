"""`rlvr audit`: what is known of simple rewards is found, and our verifier is fine."""

import json
from pathlib import Path

import pytest
from conftest import invoke, refused

from rlvr_cli.core.audit import AuditRow
from rlvr_cli.rewards.audit import Audit

PROBLEMS = 11
ONE = ("--set", "reward.workers=1")
LAST_NUMBER = """
import re
def reward(problem, response):
    found = re.findall(r"-?\\d+(?:\\.\\d+)?", response)
    return float(found[-1:] == [problem["answer"]])
"""
EXACT_BOX = """
def reward(problem, response):
    start = response.rfind("\\\\boxed{")
    box = response[start + 7 :].partition("}")[0]
    return float(start >= 0 and box == problem["answer"])
"""
SUBSTRING = """
def reward(problem, response):
    return float(problem["answer"] in response)
"""
FORMS = {
    "TRL": """
def in_it(completions, prompts, answer, **columns):
    return [float(gold in text) for text, gold in zip(completions, answer, strict=True)]
""",
    "verl": """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": float(ground_truth in solution_str), "length": len(solution_str)}
""",
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Problems whose answers are 10 to 20, so that no answer is in another or in its problem."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rlvr_cli.rewards.audit.LONGEST_S", 1e9)  # on a machine with other work
    rows = []
    for gold in range(10, 10 + PROBLEMS):
        text = f"Tom has 3 apples and buys {gold - 3}. How many apples has he now?"
        rows.append(json.dumps({"id": f"p{gold}", "problem": text, "answer": str(gold)}))
    Path("p.jsonl").write_text("\n".join(rows))


def audited(*args, exit_code=0, data=("--data", "p.jsonl")):
    """The figures, with the checks and the rows of each by name."""
    result = invoke("audit", *data, *args, "--format", "json", "-q", *ONE)
    assert result.exit_code == exit_code, result.stderr
    figures = json.loads(result.stdout)
    figures["judgements"] = {check["name"]: check["judgement"] for check in figures["checks"]}
    figures["rows"] = {
        (check["name"], row["row"]): row for check in figures["checks"] for row in check["rows"]
    }
    return figures


def counts(figures, check, row):
    tally = figures["rows"][check, row]
    return tally["faults"], tally["asked"]


def reward_file(code):
    Path("mine.py").write_text(code)
    return "--reward", "mine.py"


def not_fine(figures):
    return {name for name, judgement in figures["judgements"].items() if judgement != "fine"}


@pytest.mark.parametrize("answer_format", ["think_answer", "boxed", "any"])
def test_our_verifier_is_fine_in_each_format(answer_format):
    figures = audited("--strict", "--set", f"data.answer_format={answer_format}")
    assert not_fine(figures) == set()
    assert figures["plain"] == [[1, -1]] * PROBLEMS
    assert counts(figures, "forms", "spelled") == (0, 11)
    assert counts(figures, "forms", "with its unit") == (0, 11)  # "12 apples"
    assert counts(figures, "undone", "a product") == (0, 6)  # the even ones
    assert len(figures["checks"]) == 20


def test_the_last_number_is_paid_and_no_other_form_of_it():
    figures = audited(*reward_file(LAST_NUMBER))
    assert not_fine(figures) == {"several", "around", "cut off"}
    assert counts(figures, "several", "wrong or right") == (11, 11)
    assert counts(figures, "several", "right or wrong") == (0, 11)
    assert counts(figures, "forms", "spelled") == (11, 11)
    assert counts(figures, "forms", "as a decimal") == (11, 11)
    assert counts(figures, "forms", "bold") == (0, 11)
    assert counts(figures, "around", "a number after") == (11, 11)
    assert counts(figures, "around", "words after") == (0, 11)
    assert counts(figures, "cut off", "within a thought") == (11, 11)
    assert counts(figures, "blind", "every number to 20") == (1, 11)  # the last, 20
    (example, *_) = figures["rows"]["around", "a number after"]["examples"]
    assert (example["problem"], example["answer"], example["reward"]) == ("p10", "10", 0)
    assert "The answer is 10." in example["response"]


def test_an_exact_box_refuses_other_forms_and_pays_nothing_else():
    figures = audited(*reward_file(EXACT_BOX))
    assert figures["way"].endswith(r"$\boxed{{answer}}$.")
    assert not_fine(figures) == set()
    (forms,) = [check["found"] for check in figures["checks"] if check["name"] == "forms"]
    assert forms.startswith("as x = …: 11 of 11 refused; told, not counted")  # 0.8 % of responses
    assert forms.endswith("as no real response has it: spelled, in dollar signs, bold")
    assert counts(figures, "plain", "The answer is X.") == (11, 11)
    assert counts(figures, "plain", r"\boxed{X}") == (0, 11)
    for row in ("spelled", "as a decimal", "with its unit", "as x = …", "bold"):
        assert counts(figures, "forms", row) == (11, 11)
    assert counts(figures, "forms", "in German") == (0, 11)
    assert counts(figures, "forms", "said twice") == (0, 11)


def substring_is_found(figures):
    bad = {"blind", "several", "near", "structure", "thought", "cut off"}
    assert not_fine(figures) == bad
    assert counts(figures, "structure", "the other sign") == (11, 11)  # 10 is in -10
    assert figures["judgements"]["blind"] == "bad"
    assert counts(figures, "blind", "every number to 20") == (11, 11)
    assert counts(figures, "blind", "the problem itself") == (0, 11)
    assert counts(figures, "several", "right or wrong") == (11, 11)
    assert counts(figures, "thought", "named in passing") == (11, 11)
    assert counts(figures, "thought", "stated, taken back") == (11, 11)
    assert counts(figures, "forms", "spelled") == (11, 11)
    assert counts(figures, "forms", "as a decimal") == (0, 11)


def test_a_substring_pays_every_number_at_once_and_a_thought():
    """What is bad is an exit code too, where it is asked for."""
    substring_is_found(audited("--strict", *reward_file(SUBSTRING), exit_code=1))


@pytest.mark.parametrize("form", FORMS)
def test_functions_of_other_programs_are_tried_alike(form):
    substring_is_found(audited(*reward_file(FORMS[form])))


def test_a_reward_that_draws_is_not_a_function_of_the_response():
    code = """
import random
def reward(problem, response):
    return float(f" {problem['answer']}." in response) + random.random() / 100
"""
    figures = audited(*reward_file(code))
    names = ("again", "group", "order")
    assert [figures["judgements"][name] for name in names] == ["bad", "look", "bad"]
    # Three responses of 11 problems; two equal draws of 53 bits are not expected.
    assert counts(figures, "again", "plain answers") == (33, 33)


def test_a_reward_by_the_place_in_the_group_depends_on_the_order():
    code = """
def reward(problems, responses):
    pairs = enumerate(zip(problems, responses))
    return [float(f" {p['answer']}." in r) + place / 100 for place, (p, r) in pairs]
"""
    figures = audited(*reward_file(code))
    names = ("again", "group", "order")
    assert [figures["judgements"][name] for name in names] == ["fine", "look", "bad"]
    assert counts(figures, "group", "plain answers") == (22, 33)  # all but the first
    assert counts(figures, "order", "plain answers") == (22, 33)  # all but the middle one


def test_the_price_of_length_is_seen():
    code = """
def reward(problem, response):
    return float(f" {problem['answer']}." in response) - len(response) / 10_000
"""
    figures = audited(*reward_file(code))
    assert figures["judgements"]["value"] == "look"
    assert figures["judgements"]["length"] == "fine"
    assert counts(figures, "value", "right, padded") == (11, 11)


def test_failures_are_counted_with_their_reason():
    code = """
def reward(problem, response):
    if not response:
        raise LookupError("nothing to read")
    return float(f" {problem['answer']}." in response)
"""
    figures = audited(*reward_file(code))
    assert figures["judgements"]["failures"] == "bad"
    tally = figures["rows"]["failures", "responses"]
    assert tally["faults"] == 11  # the empty response to each problem
    assert "line 4: LookupError: nothing to read" in tally["examples"][0]["reason"]


def test_without_a_plain_answer_that_is_paid_nothing_else_is_asked():
    code = "def reward(problem, response): return float(f'={problem[\"answer\"]}=' in response)"
    result = invoke("audit", "--data", "p.jsonl", *reward_file(code), "--strict", *ONE)
    assert result.exit_code == 1
    assert (
        "a plain right answer earns no more than a wrong one on 11 of 11 problems" in result.stdout
    )
    assert "--way" in result.stdout
    assert "thought" not in result.stdout
    figures = audited(*reward_file(code), "--way", "{thought} ={answer}=")
    assert figures["judgements"]["plain"] == "fine"
    assert counts(figures, "forms", "spelled") == (11, 11)


def test_responses_are_compared_with_our_verifier():
    rows = [("10", "The answer is 10."), ("10", "10? The answer is 7."), ("11", "eleven")]
    with Path("r.jsonl").open("w") as file:
        for gold, response in rows:
            problem = {"id": f"p{gold}", "problem": gold, "answer": gold}
            file.write(json.dumps({**problem, "response": response}) + "\n")
    figures = audited(*reward_file(SUBSTRING), "--responses", "r.jsonl", data=())
    assert figures["problems"] == 2
    assert counts(figures, "responses", "right") == (1, 2)  # eleven is refused
    assert counts(figures, "responses", "wrong") == (1, 1)  # 10 is in it
    assert figures["judgements"]["responses"] == "look"


def test_the_page_names_the_worst_rows_with_an_example():
    result = invoke("audit", "--data", "p.jsonl", *reward_file(LAST_NUMBER), *ONE)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "reward     mine.py on 11 problems of p.jsonl"
    assert lines[1].endswith("as in: I work it out step by step. The answer is 10.")
    assert "judgement  17 fine, 0 look, 3 bad" in lines
    (line,) = [line for line in lines if line.startswith("several ")]
    assert "wrong or right: 11 of 11 paid; problem p10, answer 10" in line


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("--reward", "none.py"), "none.py: no such file"),
        (("--reward", "unknown"), "no such reward"),
        (("--data", "none.jsonl"), "none.jsonl"),
        (("--way", "So it is"), "--way: write {answer} where the answer stands"),
        (("--limit", "0"), "--limit 0"),
        (("--limit", "1"), "all problems have one answer"),
        (("--responses", "none.jsonl"), "none.jsonl"),
        (("--set", "reward.worker=1"), "reward.worker"),
    ],
)
def test_bad_input_gets_one_line(args, expected):
    data = () if args[0] == "--data" else ("--data", "p.jsonl")
    assert expected in refused("audit", *data, *args, "-q")


def test_a_reward_that_always_fails_gets_one_line():
    args = reward_file("def reward(problem, response): return problem['gold']")
    line = refused("audit", "--data", "p.jsonl", *args, "-q", *ONE)
    assert "no response got a reward: reward mine.py: line 1: KeyError: 'gold' (problem p10" in line


def test_rows_without_answers_get_one_line_each():
    Path("q.jsonl").write_text('{"problem": "1 + 1"}\n')
    result = invoke("audit", "--data", "q.jsonl")
    assert result.exit_code == 2
    assert "q.jsonl:1" in result.stderr
    assert "answer" in result.stderr


def test_one_answer_that_is_always_paid_is_no_luck():
    code = """
def reward(problem, response):
    return float(problem["answer"] in response or "answer is 7." in response)
"""
    way = ("--way", "The answer is {answer}.")
    figures = audited("--strict", *reward_file(code), *way, exit_code=1)
    assert figures["judgements"]["constant"] == "bad"
    assert counts(figures, "constant", "7") == (PROBLEMS, PROBLEMS)
    assert counts(figures, "constant", "12") == (0, PROBLEMS - 1)  # not where it is right


def test_other_braces_of_a_way_stay():
    way = r"\text{so} \boxed{{answer}}"
    figures = audited(*reward_file(EXACT_BOX), "--way", way)
    assert figures["has_signal"]


BOXES = r"""
import re
from verifiers import verify
def boxes(text):
    return re.findall(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", text)
def number(text):
    try:
        return float(text)
    except ValueError:
        return float("nan")
"""
OF_STRANGERS = {
    # a name: its last line, and the checks that name what can be exploited in it
    "the last box": ("boxes(response)[-1:] == [gold]", set()),
    "any box": ("gold in boxes(response)", {"several"}),
    "within 5 %": (
        "abs(number((boxes(response) or [''])[-1]) / (float(gold) or 1) - 1) <= 0.05",
        {"near"},
    ),
    "letters and digits": (
        "re.sub(r'\\W', '', ''.join(boxes(response)[-1:])) == re.sub(r'\\W', '', gold)",
        {"structure"},
    ),
    "our verifier without the problem": ("verify(response, gold).verdict == 'correct'", {"echo"}),
}


@pytest.mark.parametrize("name", OF_STRANGERS)
def test_what_is_exploitable_in_rewards_of_strangers_is_named(name):
    rows = [
        ("Find $6^2 - 5$.", "31"),
        (r"Find $\sqrt{1600}$.", "40"),
        ("Find $-3 - 4^2$.", "-19"),
        ("Find $2^6$ as a number.", "64"),
    ]
    lines = [json.dumps({"problem": problem, "answer": gold}) for problem, gold in rows]
    Path("p.jsonl").write_text("\n".join(lines))
    condition, checks = OF_STRANGERS[name]
    code = f"""{BOXES}
def reward(problem, response):
    gold = problem["answer"]
    return float({condition})
"""
    Path("mine.py").write_text(code)
    args = ("--reward", "mine.py:reward", "--way", r"It is $\boxed{{answer}}$.")
    assert not_fine(audited(*args)) == checks


def test_what_was_asked_before_an_interruption_is_shown(monkeypatch):
    def interrupted(audit):
        raise KeyboardInterrupt

    monkeypatch.setattr("rlvr_cli.rewards.audit.Audit.try_table", interrupted)
    workers = ("--set", "reward.workers=2")
    result = invoke("audit", "--data", "p.jsonl", *reward_file(EXACT_BOX), *workers)
    assert result.exit_code == 130
    assert "Does a plain right answer earn more than a wrong one?" in result.stdout
    assert "interrupted: these are the checks so far, of 11 problems" in result.stdout
    assert "interrupted; the checks so far are shown" in result.stderr


def test_a_slow_reward_is_tried_on_fewer_problems(monkeypatch):
    monkeypatch.setattr("rlvr_cli.rewards.audit.LONGEST_S", 0.0)
    figures = audited(*reward_file(EXACT_BOX))
    assert figures["problems"] == 3
    assert figures["note"] == "the reward is slow: of 11 problems the first were tried"
    assert counts(figures, "thought", "named in passing") == (0, 3)


def test_more_right_guesses_than_chance_gives_are_bad():
    """36 of 119 against 6 of the best constant: 6 + 3 sqrt(12) = 16.4 may be chance."""
    audit = Audit(None, None, print)
    audit.golds.update({"7": 6, **{str(number): 1 for number in range(100, 213)}})
    for faults, judgement in ((36, "bad"), (17, "bad"), (16, "fine")):
        audit.rows = {("blind", "x"): AuditRow("blind", "x", "paid", asked=119, faults=faults)}
        (check,) = audit.checks()
        assert check.judgement == judgement
        assert check.found == f"x: {faults} of 119 paid; the best constant, 7, is right on 6"
