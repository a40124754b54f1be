"""Every file that is read back, changed at random: it is read whole, or refused in one line."""

import io
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from forked import forked
from fuzz import fuzzed
from hypothesis import strategies as st

from rlvr_cli import config
from rlvr_cli.config.sections import GuardsConfig
from rlvr_cli.console.steps import draw_curves
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import integrity_error
from rlvr_cli.core.report import Fingerprint
from rlvr_cli.core.yaml_text import load_yaml
from rlvr_cli.data.problems import load_problems
from rlvr_cli.data.rows import JudgedRow
from rlvr_cli.data.sources import find_spec
from rlvr_cli.evaluation.figures import figures_of, judged_problems
from rlvr_cli.evaluation.imported import read_responses
from rlvr_cli.evaluation.result_dir import PartialResult, read_results
from rlvr_cli.runs.checkpoint import Checkpoint
from rlvr_cli.runs.guards import check
from rlvr_cli.runs.run_dir import RunDirectory
from rlvr_cli.runs.stored import read_problems, read_tokens
from rlvr_cli.training.throughput import run_throughput

NASTY = (
    None,
    True,
    0,
    -1,
    2**63,
    10**400,
    1e308,
    float("nan"),
    float("-inf"),
    "",
    "\0",
    "\ud800",
    "x" * 9999,
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"a": {"a": 1}},
    "correct",
    "../../x",
    0.5,
)
PIECES = (
    b"\0" * 512,
    b"\n",
    b'"',
    b"{",
    b"}",
    b"[" * 999,
    b",",
    b":",
    b"null",
    b"NaN",
    b"\xff",
    b"1e999",
    b"9" * 5000,
    b"\\ud800",
    b"&a [*a]",
    b"!!int x",
    b"---\n",
    b"\xef\xbb\xbf",
    b"- ",
)
START = 20
ENDLESS = st.integers(0, 2**63)


def mutated(document: bytes, rng: random.Random) -> bytes:
    """The document with a few changes: a block lost, doubled, torn or moved, a value replaced."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(document) + 1)
        to = min(len(document), at + rng.choice((1, 1, 8, 64, 512, 9999)))
        how = rng.randrange(8)
        if how == 0:
            document = document[:at] + document[to:]
        elif how == 1:
            document = document[:to] + document[at:]
        elif how == 2:
            document = document[:at] + b"\0" * (to - at) + document[to:]
        elif how == 3:
            document = document[:at] + rng.choice(PIECES) + document[at:]
        elif how == 4:
            document = document[:at] + rng.randbytes(to - at) + document[to:]
        elif how == 5:
            document = document[:at]
        else:
            document = replaced(document, rng)
    return document


def replaced(document: bytes, rng: random.Random) -> bytes:
    """The document with another value somewhere in one of its lines of JSON, if it has any."""
    lines = document.split(b"\n")
    number = rng.randrange(len(lines))
    unbroken = b"\n".join(lines) if rng.random() < 0.5 else lines[number]
    try:
        value = json.loads(unbroken)
    except (ValueError, RecursionError):
        return document
    node = value
    while isinstance(node, dict | list) and node:
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        if not isinstance(node[key], dict | list) or rng.random() < 0.3:
            if isinstance(node, dict) and rng.random() < 0.3:
                del node[key]
            else:
                node[key] = rng.choice(NASTY)
            break
        node = node[key]
    text = json.dumps(value).encode()
    return (
        text
        if unbroken is not lines[number]
        else b"\n".join([*lines[:number], text, *lines[number + 1 :]])
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A run of two steps, a finished evaluation and an unfinished one."""
    place = tmp_path_factory.mktemp("fuzz")
    requested = "Start at {}, keep last digits: (a) +2"
    rows = [{"problem": requested.format(n), "answer": n + 2, "level": n} for n in range(4)]
    stdin = "".join(json.dumps(row) + "\n" for row in rows).encode()
    small = ("-n", "2", "--max-tokens", "8", "-q", "--out")
    train = ("train", "-", "--steps", "2", "--prompts", "2", *small, "run")
    assert forked((*train, "--set", "algo=grpo"), place, stdin).rc == 0
    assert forked(("eval", "-", *small, "result"), place, stdin).rc == 0
    retained = PartialResult(place / "unfinished.jsonl", Fingerprint({"seed": 1}), 2)
    listing = (place / "result/responses/stdin--tiny.jsonl").read_text().splitlines()
    for first, second in zip(listing[::2], listing[1::2], strict=True):
        pair = [JudgedRow.model_validate_json(line).answered for line in (first, second)]
        retained.add({pair[0].problem.id: pair})
    return place


def apart(answers):
    return list(range(len(answers)))


def refusal(read: Callable[[], object], kind: type[Exception]) -> str:
    """What is said where it is refused, else nothing."""
    try:
        read()
    except kind as error:
        return str(error)
    return ""


def look(document: bytes, read: Callable[[bytes], object]) -> None:
    """Read the document as it stands, then changed at random; only UserError may come of it."""

    def one(number: object) -> None:
        assert isinstance(number, int)
        changed = mutated(document, random.Random(number))
        message = refusal(lambda: read(changed), UserError)
        assert len(message) < 3000
        assert message.count("\n") <= 6

    read(document)
    assert fuzzed(ENDLESS, one) >= START


def test_manifest(place, tmp_path):
    step = shutil.copytree(place / "run/checkpoints/step-2", tmp_path / "step-2")
    path = step / "manifest.json"

    def read(document: bytes) -> None:
        path.write_bytes(document)
        assert integrity_error(step) is None or len(str(integrity_error(step))) < 300

    look(path.read_bytes(), read)


def test_state(place, tmp_path):
    step = shutil.copytree(place / "run/checkpoints/step-2", tmp_path / "step-2")
    path = step / "trainer/state.json"

    def read(document: bytes) -> None:
        path.write_bytes(document)
        message = refusal(lambda: Checkpoint(2, step).load_state(), ValueError)
        assert len(message) < 300

    look(path.read_bytes(), read)


def test_metrics(place, tmp_path):
    run = RunDirectory(shutil.copytree(place / "run", tmp_path / "run"))
    path = tmp_path / "run/metrics.jsonl"

    def read(document: bytes) -> None:
        path.write_bytes(document)
        history = run.truncate_to(2)
        if history:
            check(history, GuardsConfig())
        draw_curves([history])
        run_throughput(history)

    look(path.read_bytes(), read)
    run.close()


def test_kept_problems(place, tmp_path):
    (tmp_path / "problems.jsonl").touch()

    def read(document: bytes) -> None:
        (tmp_path / "problems.jsonl").write_bytes(document)
        assert all(isinstance(problem.id, str) for problem in read_problems(tmp_path))

    look((place / "run/problems.jsonl").read_bytes(), read)


@pytest.mark.parametrize("skip_bad", [False, True])
def test_rollouts_as_responses(place, tmp_path, skip_bad, capfd):
    path = tmp_path / "r.jsonl"

    def read(document: bytes) -> None:
        path.write_bytes(document)
        assert all(isinstance(row.text, str) for row in read_responses(str(path), 9, skip_bad))

    look((place / "run/rollouts/step-000001.jsonl").read_bytes(), read)


def test_tokens_of_an_update(place, tmp_path):
    def read(document: bytes) -> None:
        (tmp_path / "tokens.json").write_bytes(document)
        for row in read_tokens(tmp_path / "tokens.json"):
            assert {len(one) for one in row.figures.values()} == {len(row.text)}

    look((place / "run/rollouts/tokens-step-000001.json").read_bytes(), read)


def test_rows_to_compare_with(place, tmp_path):
    path = tmp_path / "r.jsonl"

    def read(document: bytes) -> None:
        path.write_bytes(document)
        for result in read_results(path, apart):
            assert all(problem.tally.n <= len(problem.responses) for problem in result.problems)

    look((place / "result/responses/stdin--tiny.jsonl").read_bytes(), read)


def test_unfinished_rows(place, tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    path = tmp_path / "a/b/u.jsonl"

    def read(document: bytes) -> None:
        path.write_bytes(document)
        actual = PartialResult(path, Fingerprint({"seed": 1}), 2)
        responses = actual.responses(actual.responses_to)
        figures_of(judged_problems(responses, apart), [1, 2])

    look((place / "unfinished.jsonl").read_bytes(), read)


def test_report(place, tmp_path):
    reference = shutil.copytree(place / "result", tmp_path / "theirs")
    path = reference / "report.json"

    def read(document: bytes) -> None:
        path.write_bytes(document)
        assert all(isinstance(result.data, str) for result in read_results(reference, apart))

    look(path.read_bytes(), read)


def test_yaml_of_settings(place):
    def read(document: bytes) -> None:
        text = document.decode("utf-8", "replace")
        message = refusal(lambda: load_yaml(text), ValueError)
        assert len(message) < 300
        if not message and isinstance(values := load_yaml(text), dict):
            config.resolve(config.layer("a file", values))

    look((place / "run/config.yaml").read_bytes(), read)


def test_yaml_of_a_problem_set(tmp_path):
    path = tmp_path / "s.yaml"
    document = b"description: d\nversion: 1\nlicense: l\nsource: a.jsonl\nsplits: {test: train}\n"

    def read(changed: bytes) -> None:
        path.write_bytes(changed)
        find_spec(str(path))

    look(document + b"fields: {problem: question, answer: a}\n", read)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_problems(tmp_path, kind, capfd):
    path = tmp_path / f"p.{kind}"
    rows = [{"problem": f"{n} + 1, {n}?", "answer": f"a\n#### {n}", "x": n / 7} for n in range(9)]
    if kind == "jsonl":
        document = "".join(json.dumps(row) + "\n" for row in rows).encode()
    elif kind == "csv":
        document = b"problem,answer,x\n" + b'"a, b",1,2\nc,"d\ne",3\n' * 4
    else:
        sink = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), sink)
        document = sink.getvalue()

    def read(changed: bytes) -> None:
        path.write_bytes(changed)
        assert all(one.problem.strip() for one in load_problems(str(path), "test").problems)

    look(document, read)
