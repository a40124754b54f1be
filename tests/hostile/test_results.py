"""Results and responses from strangers, and what bad luck leaves of an evaluation."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from forked import forked
from limits import Situation, check, table

JUDGE = ("eval", "--responses", "r.jsonl", "-q")
GOOD = {"id": "1", "answer": "2", "response": "2"}
ROW = {"id": "1", "problem": None, "verdict": "correct", "extracted": "2"}
REPORT = {"results": [{"model": "responses", "data": "r.jsonl", "fingerprint": {}}]}
ROWS = "theirs/responses/r.jsonl--responses.jsonl"
OUT = r"out(/.*)?"


def line(row: object) -> str:
    return json.dumps(row) + "\n"


def responses(name: str, content: str, says: str, rc: int = 2, **more: object) -> Situation:
    return Situation(name, JUDGE, says, rc, {"r.jsonl": content}, **more)  # type: ignore[arg-type]


def against(name: str, rows: object, says: str, rc: int = 2) -> Situation:
    """Compared with a file of rows."""
    content = rows if isinstance(rows, str | bytes) else "".join(map(line, rows))  # type: ignore[call-overload]
    files = {"r.jsonl": line(GOOD), "t.jsonl": content}
    return Situation(f"against rows: {name}", (*JUDGE, "--against", "t.jsonl"), says, rc, files)


def reported(name: str, report: object, says: str, rows: str = line(ROW), rc: int = 2) -> Situation:
    """Compared with a finished directory."""
    text = report if isinstance(report, str | bytes) else json.dumps(report)
    files = {"r.jsonl": line(GOOD), "theirs/report.json": text, ROWS: rows}
    return Situation(f"against a report: {name}", (*JUDGE, "--against", "theirs"), says, rc, files)


def changed(**fields: object) -> list[dict[str, object]]:
    return [{**ROW, **fields}]


def entry(**fields: object) -> dict[str, object]:
    return {"results": [{**REPORT["results"][0], **fields}]}


def nested(depth: int) -> dict[str, object]:
    return {"a": nested(depth - 1)} if depth else {}


NO_REPORT = "no report.json of rlvr eval in it"
RESPONSES = [
    responses("no responses", "", "no responses in it"),
    responses(
        "a response of another type", line({**GOOD, "response": 7}), "neither a text nor a l"
    ),
    responses("responses that are empty", line({"answer": 1, "responses": []}), "an empty list"),
    responses("no response", line({"answer": 1}), "no field response"),
    responses(
        "the gold twice", '{"answer": 1, "answer": 2, "response": "2"}\n', "answer stands twice"
    ),
    responses(
        "two golds of one id", line(GOOD) + line({**GOOD, "answer": "3"}), "two different gold"
    ),
    responses("deep", '{"response": ' + "[" * 90_000, "not a JSON object|nested"),
    responses(
        "a gold of spaces", line({**GOOD, "answer": "####" + " " * 99_999 + "\nx"}), "longer"
    ),
    responses("tokens below zero", line({**GOOD, "n_tokens": -5}), r"pass@1 .*1.0000", 0),
    responses("10^400 tokens", line({**GOOD, "n_tokens": 10**400}), r"pass@1 .*1.0000", 0),
    responses("tokens that are a text", line({**GOOD, "n_tokens": "9"}), r"pass@1 .*1.0000", 0),
    responses(
        "odd types elsewhere",
        line({**GOOD, "finish_reason": [1], "verifier": 7}),
        "1.0000",
        0,
    ),
    responses("a model that is an object", line({**GOOD, "model": {"a": [1]}}), "1.0000", 0),
    responses(
        "escapes in a model's name",
        line({**GOOD, "model": "\x1b[2J"}) + line({**GOOD, "model": "b"}),
        "1.0000",
        0,
    ),
    responses("a response of 5 MB", line({**GOOD, "response": "1+" * 2_500_000}), "pass@1", 0),
    responses("nested boxes", line({**GOOD, "response": "\\boxed{" * 20_000}), "pass@1", 0),
    responses("no id", line({"answer": "2", "response": "2"}), "1.0000", 0),
    Situation(
        "a model of 10,000 characters",
        (*JUDGE, "--out", "out"),
        "1.0000",
        0,
        {"r.jsonl": line({**GOOD, "model": "m" * 10_000})},
        changes=OUT,
    ),
    Situation(
        "a place that cannot be written is known before judging",
        (*JUDGE, "--out", "/proc/out"),
        "--out /proc/out: cannot be written",
        2,
        {"r.jsonl": line(GOOD)},
    ),
    Situation(
        "a name too long for a place",
        (*JUDGE, "--out", "x" * 300),
        "[Ff]ile name too long",
        2,
        {"r.jsonl": line(GOOD)},
    ),
]
AGAINST = [
    against("empty", "", "no rows in it"),
    against("no object", "7\n", "t.jsonl:1: "),
    against("a list", "[1]\n", "t.jsonl:1: "),
    against("NUL", b"\0" * 512, "t.jsonl:1: not a JSON object"),
    against("no verdict", [{"id": "1"}], "t.jsonl:1: verdict is missing"),
    against("no id", [{"verdict": "wrong"}], "t.jsonl:1: id is missing"),
    against("an id of none", changed(id=None), "t.jsonl:1: id"),
    against("an id that is a list", changed(id=[1]), "t.jsonl:1: id"),
    against("an unknown verdict", changed(verdict="excellent"), "t.jsonl:1: verdict must be"),
    against("a verdict that is a list", changed(verdict=["correct"]), "t.jsonl:1: verdict"),
    against("a verdict that is an object", changed(verdict={}), "t.jsonl:1: verdict"),
    against("a verdict that is a number", changed(verdict=1), "t.jsonl:1: verdict"),
    against(
        "an answer that is a number", changed(verdict="wrong", extracted=7), "t.jsonl:1: extracted"
    ),
    against(
        "an answer that is a list", changed(verdict="wrong", extracted=[7]), "t.jsonl:1: extracted"
    ),
    against("a problem that is a list", changed(problem=[7]), "t.jsonl:1: problem"),
    against(
        "a verdict twice", '{"id": "1", "verdict": "wrong", "verdict": "correct"}\n', "stands twice"
    ),
    against("a deep row", '{"id": "1", "x": ' + "[" * 5000 + "]" * 5000 + "}\n", "t.jsonl:1: "),
    against("another problem", changed(id="2"), "no problem of r.jsonl is in it"),
    against("an id that is a number", changed(id=1), "pass@1", 0),
    against("models that are objects", changed(model={"a": 1}, problem_set=[1]), "pass@1", 0),
    against("a model's name with escapes", changed(model="\x1b[2J"), "pass@1", 0),
    reported("whole", REPORT, "pass@1", rc=0),
    reported("empty", b"", NO_REPORT),
    reported("NUL", b"\0" * 4096, NO_REPORT),
    reported("a list", [], NO_REPORT),
    reported("deep", "[" * 100_000, NO_REPORT),
    reported("deep objects", '{"results": ' * 90_000, NO_REPORT),
    reported("results that are none", {"results": 7}, NO_REPORT),
    reported("results that are texts", {"results": ["x"]}, NO_REPORT),
    reported("no fingerprint", {"results": [{"model": "m", "data": "d"}]}, NO_REPORT),
    reported("a fingerprint that is a list", entry(fingerprint=[]), NO_REPORT),
    reported("a deep fingerprint", entry(fingerprint=nested(150)), NO_REPORT),
    reported(
        "a fingerprint of odd values",
        entry(fingerprint={"model": [1, {}], "x": None}),
        "pass@1",
        rc=0,
    ),
    reported("a model that is a list", entry(model=[1]), NO_REPORT),
    reported("data that is none", entry(data=None), NO_REPORT),
    reported("a model's name that climbs", entry(model="../../../../etc/passwd"), "cannot be read"),
    reported("a model's name too long", entry(model="m" * 9000), "cannot be read"),
    reported("a key twice", '{"results": [], "results": []}', NO_REPORT),
    reported("no results", {"results": []}, "none for r.jsonl"),
    reported("rows that are none", REPORT, "responses.jsonl:1: ", "7\n"),
    reported("no rows", REPORT, "no rows in it", ""),
    Situation(
        "against a report: a FIFO",
        (*JUDGE, "--against", "theirs"),
        NO_REPORT,
        2,
        {"r.jsonl": line(GOOD), "theirs/report.json": os.mkfifo},
    ),
    Situation(
        "against a report: a device",
        (*JUDGE, "--against", "theirs"),
        NO_REPORT,
        2,
        {"r.jsonl": line(GOOD), "theirs/report.json": lambda path: path.symlink_to("/dev/zero")},
    ),
]


@table([*RESPONSES, *AGAINST])
def test_situation(situation: Situation, tmp_path: Path) -> None:
    check(situation, tmp_path)


EVAL = ("eval", "p.jsonl", "-n", "2", "--max-tokens", "3", "--out", "out")
PROBLEMS = "".join(
    line({"problem": f"Start at {n}, keep last digits: (a) +2", "answer": n + 2}) for n in range(4)
)
NAME = "p.jsonl--tiny.jsonl"
Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def half(tmp_path_factory) -> tuple[Path, Path]:
    """A finished evaluation, and one that was stopped with all of it done but the report."""
    place = tmp_path_factory.mktemp("half")
    (place / "p.jsonl").write_text(PROBLEMS)
    (place / "theirs").mkdir()
    result = forked(EVAL, place)
    assert result.rc == 0, result.err
    (place / "out").rename(place / "whole")

    def stopped() -> None:
        from rlvr_cli.__main__ import main
        from rlvr_cli.evaluation.result_dir import ResultDirectory

        def finish(*args: object) -> None:
            raise KeyboardInterrupt

        ResultDirectory.finish = finish  # type: ignore[method-assign, assignment]
        main()

    assert forked(EVAL, place, program=stopped).rc == 130
    return place / "whole", place / "out"


def on_rows(change: Callable[[bytes], bytes]) -> Change:
    def damage(out: Path) -> None:
        path = out / "unfinished" / NAME
        path.write_bytes(change(path.read_bytes()))

    return damage


def linked(name: str) -> Change:
    def damage(out: Path) -> None:
        (out.parent / "outside").mkdir()
        (out.parent / "outside" / "kept").write_text("not ours")
        if (out / name).is_dir():
            shutil.rmtree(out / name)
        (out / name).unlink(missing_ok=True)
        (out / name).symlink_to("../outside" if "/" not in name else "../../outside/kept")

    return damage


STOPPED: list[tuple[str, Change, str, int]] = [
    ("whole", lambda out: None, "4 of 4 problems are done already", 0),
    ("a torn end", on_rows(lambda b: b[:-20]), "1 line could not be read", 0),
    ("NUL at the end", on_rows(lambda b: b[:-512] + b"\0" * 512), "could not be read", 0),
    ("NUL and a newline", on_rows(lambda b: b + b"\0" * 512 + b"\n"), "1 line could not be", 0),
    ("NUL in the middle", on_rows(lambda b: b[:900] + b"\0" * 200 + b[1100:]), "could not be", 0),
    ("NUL at the start", on_rows(lambda b: b"\0" * 100 + b[100:]), "3 of 4 problems are done", 0),
    ("all of it NUL", on_rows(lambda b: b"\0" * len(b)), "result|pass@1", 0),
    ("bytes that are no text", on_rows(lambda b: b + b"\xff\xfe\n"), "1 line could not be read", 0),
    ("a row without verdict", on_rows(lambda b: b.replace(b'"verdict"', b'"x"', 1)), "1 line", 0),
    ("a deep line", on_rows(lambda b: b + b"[" * 100_000 + b"\n"), "1 line could not be read", 0),
    ("empty", on_rows(lambda b: b""), "pass@1", 0),
    (
        "other settings",
        on_rows(lambda b: b.replace(b'"seed": 0', b'"seed": 1', 1)),
        "seed 0, their",
        2,
    ),
    ("a link as its directory", linked("unfinished"), "not followed", 2),
    ("a link as its responses", linked("responses"), "not followed", 2),
    ("a link as its rows", linked(f"unfinished/{NAME}"), "cannot be written", 2),
    ("a link as its lock", linked("unfinished/.lock"), "cannot be written to", 2),
]


@pytest.mark.parametrize(("name", "damage", "says", "rc"), STOPPED, ids=[row[0] for row in STOPPED])
def test_a_stopped_evaluation(name, damage, says, rc, half, tmp_path):
    unbroken, stopped = half
    shutil.copytree(stopped, tmp_path / "out")
    (tmp_path / "p.jsonl").write_text(PROBLEMS)
    damage(tmp_path / "out")
    check(Situation(name, EVAL, says, rc, changes=OUT), tmp_path)
    if rc == 0:
        ours = (tmp_path / "out/responses" / NAME).read_bytes()
        assert ours == (unbroken / "responses" / NAME).read_bytes()
        assert not (tmp_path / "out/unfinished").exists()


def test_thousands_of_models_take_a_time_that_grows_with_them(tmp_path):
    """Counted, not timed: a quadratic number of comparisons would take minutes."""
    rows = [{**GOOD, "model": f"m{n}"} for n in range(4000)]
    (tmp_path / "r.jsonl").write_text("".join(map(line, rows)))

    def judged() -> None:
        from rlvr_cli.core.types import by_key
        from rlvr_cli.evaluation.imported import read_responses

        assert (
            len(by_key(read_responses("r.jsonl", None, False), lambda row: row.origin.label))
            == 4000
        )

    assert forked((), tmp_path, seconds=10, program=judged).rc == 0
