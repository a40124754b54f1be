"""Patterns that are tried only where their words stand find what they find without."""

import json
import re
from pathlib import Path

import pytest

from verifiers.extraction.context import hedges, plain, standing
from verifiers.extraction.sentence import last_sentence, prose
from verifiers.grammar.gates import Gated, needed

CASES = Path(__file__).resolve().parents[1] / "cases"
GATED = {
    f"{module.__name__}.{name}": value
    for module in (standing, hedges, plain, prose, last_sentence)
    for name, value in vars(module).items()
    if isinstance(value, Gated)
}


@pytest.mark.parametrize(
    ("pattern", "letters"),
    [
        (r"\bsuppose\b", ("suppose",)),
        (r"\b(?:claim|says?)\s+so\b", ("claim", "say")),
        (r"x\s+(?:if)?", ()),
        (r"\bhalf(?:\s+of)+\b", ("half",)),
        (r"(?:not|\d)", ()),
        (r"[(\[]\d", ("(", "[")),
        (r"(?=never)\w+", ()),
        ("n['’]t", ("'", "’")),
    ],
)
def test_what_each_match_holds(pattern: str, letters: tuple[str, ...]) -> None:
    assert needed(pattern) == letters


def test_a_gate_lets_through_whatever_its_pattern_finds() -> None:
    rows = [
        json.loads(line)
        for path in sorted(CASES.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()[::8]
    ]
    texts = [row["response"][-200:] for row in rows]
    seen = 0
    for name, gated in GATED.items():
        for text in texts:
            plainly = gated.whole.search(text)
            assert gated.found(text) is (plainly is not None), (name, text)
            seen += plainly is not None
    assert len(GATED) > 20
    assert len(texts) > 500
    assert seen > 200


def test_letters_that_fold_to_others_close_no_gate() -> None:
    gated = Gated([r"\bsuppose\b", "кроме"], re.IGNORECASE)
    assert gated.found("\u017fuppose x = 2")
    assert gated.found("КРОМЕ 2")
    assert not gated.found("let x = 2")
