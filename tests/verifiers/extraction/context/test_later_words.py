"""Sentences after an answer, judged by the weights of their words."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from verifiers.extraction.context.aftermath import later_sentences
from verifiers.extraction.context.later_words import (
    AGAINST,
    against,
    features,
    passages,
    speaks_against,
)
from verifiers.extraction.context.weights import total, weights

ROOT = Path(__file__).resolve().parents[4]
AFTER = ROOT / "tests" / "verifiers" / "after"
SETS = sorted(path.stem for path in (AFTER / "held_out").glob("*.jsonl"))


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def taken_away(row: dict) -> bool:
    text = f"{row['before']}\n{row['after']}"
    sentences = passages(later_sentences(text, len(row["before"])))
    return any(speaks_against(sentence, row["answer"]) for sentence in sentences)


def test_features_are_words_pairs_and_beginnings_with_numbers_by_their_part() -> None:
    assert features("It isn't 12, but 1,200!", "12") == {
        "it", "is", "not", "<own>", ",", "but", "<num>", "!", "<own~", "<num~",
        "^ it", "it is", "is not", "not <own>", "<own> ,", ", but", "but <num>", "<num> !", "! $",
    }  # fmt: skip
    assert features(r"要求的是 $\boxed{3}$。", "12") >= {"要", "求", "^ 要", "要 求", "是 <box>"}
    assert "feet" not in features("Feets are 3.", "12")
    assert "feet~" in features("Feets are 3.", "12")


def test_a_weight_is_the_bias_and_the_sum_by_the_root_of_their_number() -> None:
    table = weights("later_words")
    known = [table[name] for name in ("wrong", "wron~", "^ wrong", "wrong $") if name in table]
    assert against("Wrong.", "7") == pytest.approx((table["<bias>"] + sum(known) / 6**0.5) / 10)
    assert against("Xylophon zzgl.", "7") == table["<bias>"] / 10 < AGAINST


def test_words_beyond_the_limit_do_not_count() -> None:
    assert against("It is so. " + "fine " * 200 + "But it is wrong.", "7") == against(
        "It is so. " + "fine " * 200, "7"
    )


@pytest.mark.parametrize("name", SETS)
def test_sentences_that_nothing_was_learned_from(name: str) -> None:
    """The shares found and refused, of sentences whose writers saw neither rules nor weights."""
    found = [(row["away"], taken_away(row)) for row in rows(AFTER / "held_out" / f"{name}.jsonl")]
    away, kept = ([hit for was, hit in found if was is kind] for kind in (True, False))
    least, most = (0.8, 0.13) if name in ("u", "v") else (0.33, 0.3)
    assert sum(away) >= least * len(away)
    assert sum(kept) <= most * len(kept)


def test_what_is_held_out_is_not_learned() -> None:
    def said(folder: Path) -> set[str]:
        return {row["after"] for path in folder.glob("*.jsonl") for row in rows(path)}

    assert len(said(AFTER)) > 5_000
    assert said(AFTER).isdisjoint(said(AFTER / "held_out"))


def test_the_table_is_what_the_script_makes() -> None:
    """A table that nobody can make again could not be read; another machine may round otherwise."""
    spec = spec_from_file_location("weigh_words", ROOT / "benchmarks" / "weigh_words.py")
    assert spec is not None
    assert spec.loader is not None
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    fitted = script.learn(script.learned_later(), 1, script.SHRINK["later_words"], AGAINST)
    held_out = [row for name in SETS for row in rows(AFTER / "held_out" / f"{name}.jsonl")]
    scores = [
        max((total(fitted, names) for names in script.later(row)[0][0]), default=-990.0) / 10
        for row in held_out
    ]
    same = [
        (score > AGAINST) == taken_away(row) for score, row in zip(scores, held_out, strict=True)
    ]
    assert sum(same) >= 0.98 * len(same)
