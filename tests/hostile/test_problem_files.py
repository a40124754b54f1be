"""Problem files from strangers."""

from pathlib import Path

from limits import Situation, check, table

EVAL = ("eval", "p.jsonl", "-n", "1", "--max-tokens", "3")
GOOD = '{"problem": "What is 1 + 1?", "answer": 2}\n'

SITUATIONS = [
    Situation("empty", EVAL, "no problems in it", files={"p.jsonl": ""}),
    Situation(
        "no answer", EVAL, "p.jsonl:1: no field answer", 2, files={"p.jsonl": '{"problem":"x"}'}
    ),
]


@table(SITUATIONS)
def test_situation(situation: Situation, tmp_path: Path) -> None:
    check(situation, tmp_path)
