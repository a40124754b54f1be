"""Words of a text, and the sums of their weights."""

import json

import pytest

from verifiers.extraction.context.weights import pairs, root, total, weights, words_in
from verifiers.grammar.tables import FOLDER


def test_words_are_small_letters_numbers_and_marks_by_name() -> None:
    assert words_in(r"It isn't $\boxed{1,200}$ [see](a.b)!") == [
        *("it", "is", "not", "<box>", "<num>", "!"),
    ]
    assert words_in(r"\frac{1}{2} of 3") == ["/", "<num>", "<num>", "of", "<num>"]
    assert words_in("答案是3。") == ["答", "案", "是", "<num>"]
    assert words_in("#### 7 https://a.b/c") == ["<hash>", "<num>"]


def test_pairs_are_words_and_neighbours() -> None:
    assert list(pairs(["a", "b", "c"])) == ["a", "b", "c", "a b", "b c"]


def test_a_sum_is_divided_by_the_root_of_its_known_words() -> None:
    table = {"<bias>": -1.0, "a": 2.0, "b": 4.0}
    assert total(table, ["a", "b", "unknown"]) == pytest.approx(-1 + 6 / 6**0.5)
    assert root(5) == 6**0.5
    assert root(16) == 4


@pytest.mark.parametrize("name", ["later_words", "words_around"])
def test_weights_are_whole_tenths(name: str) -> None:
    nested = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert weights(name)["<bias>"] == nested["<bias>"][""]
    assert len(weights(name)) == sum(map(len, nested.values())) > 10_000
    assert all(isinstance(weight, int) for weight in weights(name).values())
