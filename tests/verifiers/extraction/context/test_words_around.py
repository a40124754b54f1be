"""The words around a value, weighed."""

import json
from pathlib import Path

import pytest

from verifiers import Verdict, verify
from verifiers.extraction.context.words_around import (
    AGAINST,
    AGAINST_BOXED,
    doubtful,
    features,
    not_its_answer,
    places,
    weight,
)

AROUND = Path(__file__).resolve().parents[3] / "verifiers" / "around"
SETS = sorted(path.stem for path in (AROUND / "held_out").glob("*.jsonl"))


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_features_are_named_by_where_they_stand() -> None:
    text = "We add. So he has 7 left. Good."
    assert features(text, 18, 19) == {
        *("b:^", "b:so", "b:he", "b:has", "b:^ so", "b:so he", "b:he has"),
        *("a:left", "a:$", "a:left $", "l:has", "l:he has", "l:so he has", "r:left", "r:left $"),
        *("p:we", "p:add", "lr:has left", "more"),
    }


def test_the_last_two_places_of_a_whole_value_are_looked_at() -> None:
    assert places("7, 17, 7.5, 7 and 7", "7") == [(18, 19), (12, 13)]
    assert places("7" * 300, "7" * 300) == []
    assert places("7", " ") == []
    assert places("7 is it.", "7") == [(0, 1)]
    assert places("It is 7.5 or 7. No 7s.", "7.") == [(13, 14)]


def test_the_boxes_of_a_value_are_looked_at_and_need_more_to_be_taken_away() -> None:
    assert places(r"$\boxed{7}$, as 7 and 7", "7") == [(8, 9)]
    fractions = r"\boxed{\frac{1}{2}} or \boxed{ \frac{1}{2} }"
    assert [fractions[begin:end] for begin, end in places(fractions, r"\frac{1}{2}")] == [
        r"\frac{1}{2}"
    ] * 2
    assert AGAINST < AGAINST_BOXED


def test_signs_alone_do_not_speak_against_a_value() -> None:
    assert not not_its_answer("✗ 30 ✗ = ? 30 <", "30")


def test_one_place_that_states_it_is_enough() -> None:
    away = "Every pupil except Paul handed in the form, and the class has 30 pupils."
    assert weight(away, away.index("30"), away.index("30") + 2) > AGAINST
    assert not_its_answer(away, "30")
    assert not not_its_answer(f"{away}\n\nThe answer is 30.", "30")


def test_a_last_line_with_its_label_and_an_answer_block_say_what_they_are() -> None:
    away = "Every pupil except Paul handed in the form, and the class has 30 pupils."
    assert not not_its_answer(f"{away}\nAnswer: 30", "30")
    assert places("It is so.\n<answer>30</answer>", "30") == []
    assert places("We get <answer>30</answer> first.", "30") == [(15, 17)]


def test_what_words_do_not_speak_for_is_doubtful() -> None:
    assert doubtful(
        "Every pupil except Paul handed in the form, and the class has 30 pupils.", "30"
    )
    assert not doubtful("So Tom ends up with 7 apples.", "7")
    assert not doubtful("So Tom ends up with 7 apples.", "8")
    assert not doubtful("= 7 ?", "7")


@pytest.mark.parametrize("name", SETS)
def test_responses_that_nothing_was_learned_from(name: str) -> None:
    """Short and hard ones, half of them stating a value and half only holding it."""
    found = [
        (row["expected"], verify(row["response"], row["answer"]).verdict is Verdict.CORRECT)
        for row in rows(AROUND / "held_out" / f"{name}.jsonl")
    ]
    stated, held = ([hit for was, hit in found if was is kind] for kind in (True, False))
    # What is stated in plain prose, before a clause with another number, is often refused.
    assert sum(stated) >= (0.38 if name == "o" else 0.5) * len(stated)
    assert sum(held) <= 0.2 * len(held)


def test_what_is_held_out_is_not_learned() -> None:
    def said(folder: Path) -> set[str]:
        return {row["response"] for path in folder.glob("*.jsonl") for row in rows(path)}

    assert len(said(AROUND)) > 2_500
    assert said(AROUND).isdisjoint(said(AROUND / "held_out"))
