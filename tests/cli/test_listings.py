"""What --list prints: tables for people, JSON lines for a pipe."""

import json
import sys

from rich.text import Text

from rlvr_cli.algorithm.choices import ALGORITHMS, Algorithm
from rlvr_cli.cli.listings import list_algorithms, list_sets
from rlvr_cli.config.built_in import known_sets
from rlvr_cli.data.sources import find_spec
from verifiers.gym import ACCEPTED


def test_a_piped_preset_can_be_read_back_whole(capsys):
    list_algorithms()
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    actual = {row.pop("algo"): Algorithm.model_validate(row) for row in rows}
    assert actual == ALGORITHMS
    assert list(actual) == list(ALGORITHMS)


def test_presets_on_a_terminal_are_a_line_each(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setenv("TERM", "xterm")
    list_algorithms()
    lines = Text.from_ansi(capsys.readouterr().out).plain.splitlines()
    assert [line.split()[0] for line in lines] == list(ALGORITHMS)
    for line, algorithm in zip(lines, ALGORITHMS.values(), strict=True):
        assert line.rstrip().endswith(str(algorithm))


def test_sets_in_a_pipe_and_on_a_terminal(capsys, monkeypatch):
    list_sets()
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    names = [row["name"] for row in rows]
    assert names == [*known_sets(), *(f"gym:{name}" for name in ACCEPTED)]
    for row in rows:
        spec = find_spec(row["name"])
        assert row["splits"] == spec.split_names()
        assert (row["license"], row["description"]) == (spec.license, spec.description)
        assert "sizes" not in row
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setenv("TERM", "xterm")
    list_sets()
    lines = [line.rstrip() for line in Text.from_ansi(capsys.readouterr().out).plain.splitlines()]
    for line, row in zip(lines, rows, strict=True):
        assert line.split()[:2] == [row["name"], "+".join(row["splits"])]
        assert line.endswith(row["description"])
    places = {line.index(row["description"]) for line, row in zip(lines, rows, strict=True)}
    assert len(places) == 1  # the columns line up
