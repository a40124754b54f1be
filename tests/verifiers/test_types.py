"""The words that rows and files hold, and what can be shared between threads."""

from dataclasses import FrozenInstanceError

import pytest

from verifiers.types import Attempt, Judgement, Verdict, Verification


def test_verdicts_are_their_words_in_files() -> None:
    assert [str(verdict) for verdict in Verdict] == [
        *("correct", "wrong", "no_answer", "bad_format", "truncated", "timeout"),
        "unparseable_gold",
    ]
    assert Verdict("correct") is Verdict.CORRECT
    with pytest.raises(ValueError, match="right"):
        Verdict("right")


def test_what_is_shared_cannot_be_changed() -> None:
    verification = Verification(Verdict.WRONG, "5", False, "exact number")
    assert (verification.format, Attempt("5", "6").truncated, Judgement(True, "").extracted) == (
        *("any", False),
        None,
    )
    for shared in (verification, Attempt("5", "6"), Judgement(True, "")):
        with pytest.raises(FrozenInstanceError):
            shared.reason = "changed"
    assert {Attempt("5", "6"), Attempt("5", "6")} == {Attempt("5", "6")}
