"""What is judged is read whole: no number that is a part of a stated value is the answer."""

import re
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest

from verifiers import Attempt, Verdict, Verifier

PIECES = tomllib.loads(Path(__file__).with_name("read_whole.toml").read_text(encoding="utf-8"))
NUMBER = re.compile(r"(?<![\d.,])\d+(?:\.\d+)?(?![\d,]*\d)")
# Where at least so many are needed, the number is meant; the rest is refused elsewhere.
MEANT = {
    "He needs {}.": ("at least 5", "at most 5"),
    "Hence x = {}.": ("at least 5", "at most 5", "x + 5 = 7"),
    "所以一共有{}个。": ("5 to 3", "5 to 6"),
}


@pytest.mark.parametrize("room", PIECES)
def test_no_part_of_a_value_is_the_answer(room: str) -> None:
    frames, pieces = PIECES[room]["frames"], PIECES[room]["pieces"]
    worth = PIECES[room].get("worth", {})
    accepted = []
    with Verifier() as verifier:
        for piece in (*pieces, *worth):
            value = Fraction(worth[piece]) if piece in worth else None
            for number in set(NUMBER.findall(piece)):
                if Fraction(number) == value:
                    continue
                for frame in frames:
                    response = frame.format(piece)
                    found = verifier.verify(Attempt(response, number)).verdict
                    if found is Verdict.CORRECT and piece not in MEANT.get(frame, ()):
                        accepted.append((response, number))
    assert accepted == []


@pytest.mark.parametrize("room", PIECES)
def test_a_number_alone_is_the_answer_of_most_frames(room: str) -> None:
    frames = PIECES[room]["frames"]
    with Verifier() as verifier:
        found = [verifier.verify(Attempt(frame.format("5"), "5")).verdict for frame in frames]
    assert found.count(Verdict.CORRECT) >= len(frames) - 2
