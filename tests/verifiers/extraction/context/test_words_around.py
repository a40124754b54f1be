"""The words around a value, weighed."""

import json
from pathlib import Path

import pytest

from verifiers import Verdict, verify
from verifiers.extraction.context.words_around import (
    AGAINST,
    AGAINST_BOXED,
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
        *("p:^", "p:we", "p:add", "p:^ we", "p:we add", "lr:has left", "more"),
    }


def test_the_last_two_places_of_a_whole_value_are_looked_at() -> None:
    assert places("7, 17, 7.5, 7 and 7", "7") == [(18, 19), (12, 13)]
    assert places("7" * 300, "7" * 300) == []
    assert places("7", " ") == []
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


@pytest.mark.parametrize("name", SETS)
def test_responses_that_nothing_was_learned_from(name: str) -> None:
    """Short and hard ones, half of them stating a value and half only holding it."""
    found = [
        (row["expected"], verify(row["response"], row["answer"]).verdict is Verdict.CORRECT)
        for row in rows(AROUND / "held_out" / f"{name}.jsonl")
    ]
    stated, held = ([hit for was, hit in found if was is kind] for kind in (True, False))
    assert sum(stated) >= 0.6 * len(stated)
    assert sum(held) <= 0.2 * len(held)


def test_what_is_held_out_is_not_learned() -> None:
    def said(folder: Path) -> set[str]:
        return {row["response"] for path in folder.glob("*.jsonl") for row in rows(path)}

    assert len(said(AROUND)) > 2_500
    assert said(AROUND).isdisjoint(said(AROUND / "held_out"))
