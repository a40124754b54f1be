"""What is judged is read whole: no number that is a part of a stated value is the answer."""

import re
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest

from verifiers import Attempt, Verdict, Verifier

PIECES = tomllib.loads(Path(__file__).with_name("read_whole.toml").read_text(encoding="utf-8"))
ALONE = re.compile(r"(?<!\d)5(?!\d)")
NUMBER = re.compile(r"(?<![\d.,])\d+(?:\.\d+)?(?![\d,]*\d)")
# Where at least so many are needed, the number is meant; the rest is refused elsewhere.
MEANT = {
    "It takes {} days.": ("the number after 5",),
    "He needs {}.": ("at least 5", "at most 5"),
    "Hence x = {}.": ("at least 5", "at most 5", "x + 5 = 7"),
    "所以一共有{}个。": ("5 to 3", "5 to 6"),
}

# Pieces that may stand around a mark: in them the word is another one, or belongs to the mark.
AROUND_A_MARK = ("no 5", "5 of 6", "the number after 5", "5 and 7", "80의 5%")


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


@pytest.mark.parametrize("mark", [r"$\boxed{5}$", r"\boxed{5}", "<answer>5</answer>"])
@pytest.mark.parametrize("room", sorted(PIECES.keys() - {"signs", "latex"}))
def test_no_marked_part_of_a_value_is_the_answer(room: str, mark: str) -> None:
    accepted = []
    with Verifier() as verifier:
        for piece in PIECES[room]["pieces"]:
            if piece in AROUND_A_MARK or not ALONE.search(piece):
                continue
            for frame in (one for one in PIECES[room]["frames"] if "boxed" not in one):
                response = frame.format(ALONE.sub(lambda _: mark, piece, count=1))
                if verifier.verify(Attempt(response, "5")).verdict is Verdict.CORRECT:
                    accepted.append(response)
    assert accepted == []
