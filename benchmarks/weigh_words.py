"""Fit the weights of words that speak against an answer, in verifiers/tables.

Two logistic regressions on words and pairs of words. `later_words.json`: sentences after an answer,
the strongest of which speaks for all of them (a soft maximum), learned from tests/verifiers/after
(labelled by hand) and from what follows the answers of the cases. `words_around.json`: the words
around a value where it stands last, the weakest place counts (a soft minimum), learned from
tests/verifiers/around and from the places of the right answer in all cases. Each is fitted twice,
with what the first fit gets wrong counted once more. The figures are those of the table as it is
written, on the folders held_out, by set.

    python benchmarks/weigh_words.py
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from verifiers import Verdict, Verifier
from verifiers.extraction.context import later_words, words_around
from verifiers.extraction.context.aftermath import later_sentences
from verifiers.extraction.context.weights import root, total
from verifiers.extraction.context.weights import weights as tenths
from verifiers.extraction.extract import answer_of
from verifiers.extraction.found import Extraction
from verifiers.extraction.places import marked, phrased
from verifiers.extraction.response.formats import after_thought
from verifiers.extraction.response.passages import final_text
from verifiers.grammar.tables import FOLDER

TESTS = Path(__file__).resolve().parents[1] / "tests" / "verifiers"
sys.path.append(str(TESTS))
from verifier_response_cases import CASES as RESPONSES  # noqa: E402
from verifier_spoken_cases import CASES as SPOKEN  # noqa: E402

ABOUT = ("after ", "taken-back")
SHRINK = {"later_words": 3e-6, "words_around": 1e-6}
# What the rules' own tests ask for, and what models say most, counts so many times.
CERTAIN = 3
SMALLEST = 0.25
SHARPNESS = 2.0
STEPS = 600
# What every feature is counted more often than it was met.
UNSEEN = 0.5
SMALLEST_CONTRAST = 0.1
EQUALITY = Verifier()
Said = tuple[list[set[str]], bool]


def files(folder: str) -> list[Path]:
    return sorted((TESTS / folder).glob("*.jsonl"))


# Moving a case beyond reach does not change what is learned.
CASES = [*files("cases"), TESTS / "beyond_reach.jsonl"]


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def later(row: dict) -> list[Said]:
    """Return the features of each sentence after an answer, and whether they take it away."""
    text = f"{row['before']}\n{row['after']}"
    return [(said_after(text, len(row["before"]), row["answer"]), row["away"])]


def said_after(text: str, end: int, answer: str) -> list[set[str]]:
    sentences = later_words.passages(later_sentences(text, end))
    return [later_words.features(sentence, answer) for sentence in sentences]


def from_cases() -> Iterator[Said]:
    """Yield what follows the answers of honest cases, and of those about just that."""
    for path in CASES:
        for row in rows(path):
            about = row["kind"].startswith(ABOUT)
            text = after_thought(row["response"])
            if not text or not (row["expected"] or about):
                continue
            text = final_text(text)
            places = marked(text) or phrased(text, [])
            place = places[0 if about else -1] if places else None
            value = place.value if place else row["answer"]
            end = place.end if place and place.certain else text.rfind(value) + len(value)
            if said := said_after(text, end, row["answer"]):
                yield said, not row["expected"]


def around(row: dict) -> list[Said]:
    """Return the features of each place of the right answer, and whether it is not stated; those
    of a wrong number that rules read in an honest response, not stated where the right one is.

    Where only later sentences take it back, its own words do not: such a row has no place here.
    """
    text = final_text(after_thought(row["response"]) or "")
    found, value = answer_of(text, format="any", cut_off=False), row["answer"]
    places = words_around.places(text, value)
    if row["expected"] and found.text:
        number = places and any(map(str.isdigit, value))
        if not number or EQUALITY.equal(value, found.text) is not Verdict.WRONG:
            return [_around(text, found.text, against=False)]
        return [_around(text, value, against=False), _around(text, found.text, against=True)]
    if not row["expected"] and not _holds(found, value) and places:
        ended = words_around.SENTENCE_ENDS.search(text, places[0][1])
        alone = answer_of(text[: ended.end()] if ended else text, format="any", cut_off=False)
        if _holds(alone, value):
            return []
    said = [_around(text, value, against=not row["expected"])]
    if found.text and row.get("trick") is False:
        said.append(_around(text, found.text, against=False))
    return said


def _around(text: str, value: str, *, against: bool) -> Said:
    places = words_around.places(text, value)
    return [words_around.features(text, *place) for place in places], against


def _holds(found: Extraction, value: str) -> bool:
    return bool(found.text) and value in found.text and not found.rivals


def learned_later() -> list[Said]:
    """Return what the weights of later words are fitted to."""
    by_hand = [
        said
        for path in files("after")
        for row in rows(path) * (CERTAIN if path.stem in ("cases", "usual") else 1)
        for said in later(row)
    ]
    return [*by_hand, *from_cases()]


def learned_around() -> list[Said]:
    """Return what the weights of words around a value are fitted to."""
    cases = [row for path in CASES for row in rows(path) if row["format"] == "any"]
    by_hand = [
        row
        for path in files("around")
        for row in rows(path) * (2 * CERTAIN if path.stem == "cases" else 1)
    ]
    rules = [
        {"response": response, "answer": gold, "expected": verdict == "correct"}
        for cases_of in (RESPONSES, SPOKEN)
        for said in cases_of.values()
        for response, gold, verdict in said
    ]
    statements = [
        {"response": row["before"], "answer": row["answer"], "expected": True}
        for path in files("after")
        for row in rows(path)
    ]
    learned = (*cases, *by_hand, *CERTAIN * rules, *statements)
    return [said for row in learned for said in around(row)]


def contrast(sets: list[Said], names: Iterable[str]) -> torch.Tensor:
    """Return how differently the two kinds of sets use each feature: the logarithm of the ratio of
    its shares, without its sign (Wang and Manning 2012, Baselines and Bigrams)."""
    counts: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for said, away in sets:
        counts[away].update(set().union(*said))
    many = Counter(away for _, away in sets)
    shares = [
        torch.tensor([(counts[away][name] + UNSEEN) / (many[away] + UNSEEN) for name in names])
        for away in (True, False)
    ]
    return (shares[0] / shares[1]).log().abs().double() + SMALLEST_CONTRAST


def fit(sets: list[Said], sign: int, shrink: float, *, by_contrast: bool) -> dict[str, float]:
    """Return the weights that tell the sets apart, each by its strongest (sign 1) or its weakest
    (sign -1) part; those of features that both kinds use alike are held smaller if asked."""
    sets = [said for said in sets if said[0]]
    counts = Counter(name for said, _ in sets for name in set().union(*said))
    index = {name: at for at, name in enumerate(sorted(n for n in counts if counts[n] > 1))}
    size_of = contrast(sets, index) if by_contrast else torch.ones(len(index)).double()
    at, values, owner = [], [], []
    for number, (said, _) in enumerate(sets):
        for sentence in said:
            known = sorted(index[name] for name in sentence if name in index)
            at += [(len(owner), column) for column in known]
            values += [1 / root(len(known))] * len(known)
            owner.append(number)
    size = (len(owner), len(index))
    matrix = torch.sparse_coo_tensor(
        torch.tensor(at).T, torch.tensor(values).double(), size, check_invariants=False
    )
    away = torch.tensor([float(away) for _, away in sets]).double()
    more = (1 - away).sum() / away.sum()
    bag = torch.tensor(owner)
    weights = torch.zeros(len(index), dtype=torch.float64, requires_grad=True)
    bias = torch.zeros((), dtype=torch.float64, requires_grad=True)
    steps = torch.optim.LBFGS([weights, bias], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        steps.zero_grad()
        score = sign * (torch.sparse.mm(matrix, (weights * size_of)[:, None])[:, 0] + bias)
        top = torch.full_like(away, -torch.inf).scatter_reduce(0, bag, score.detach(), "amax")
        total = torch.zeros_like(away).scatter_add(0, bag, (SHARPNESS * (score - top[bag])).exp())
        pooled = sign * (top + total.log() / SHARPNESS)
        error = binary_cross_entropy_with_logits(pooled, away, pos_weight=more)
        error = error + shrink / 2 * (weights**2).sum()
        error.backward()
        return error

    steps.step(loss)  # type: ignore[no-untyped-call]
    return {"<bias>": bias.item(), **dict(zip(index, (weights * size_of).tolist(), strict=True))}


def _missed(weights: dict[str, float], said: Said, sign: int, limit: float) -> bool:
    parts, against = said
    score = sign * max(sign * total(weights, part) for part in parts)
    return (score > limit) != against


def learn(sets: list[Said], sign: int, shrink: float, limit: float) -> dict[str, int]:
    """Fit the weights, and once more with what lay on the wrong side of the limit counted twice;
    return them in tenths without those near 0, which do not matter."""
    by_contrast = sign > 0
    weights = fit(sets, sign, shrink, by_contrast=by_contrast)
    hard = [said for said in sets if said[0] and _missed(weights, said, sign, limit)]
    weights = fit([*sets, *hard], sign, shrink, by_contrast=by_contrast)
    return {name: round(10 * w) for name, w in weights.items() if abs(w) >= SMALLEST}


def write(name: str, weights: dict[str, int]) -> None:
    """Write the weights by their first word."""
    nested: dict[str, dict[str, int]] = {}
    for feature, weight in sorted(weights.items()):
        first, _, second = feature.partition(" ")
        nested.setdefault(first, {})[second] = weight
    lines = [f"{json.dumps(first)}: {json.dumps(rest)}" for first, rest in nested.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")


def report(
    weights: dict[str, int], held_out: dict[str, list[Said]], sign: int, limit: float
) -> None:
    """Print how many of the rows that were not learned lie on the right side of a limit."""
    for name, said in held_out.items():
        scores = [
            (
                sign
                * max((sign * total(weights, part) for part in parts), default=-sign * 99)
                / 10,
                against,
            )
            for parts, against in said
        ]
        found = [score > limit for score, against in scores if against]
        refused = [score > limit for score, against in scores if not against]
        print(
            f"  {name}: {sum(found)} of {len(found)} found, "
            f"{sum(refused)} of {len(refused)} harmless refused"
        )


def main() -> None:
    torch.set_num_threads(1)
    for name, learned, folder, read, sign, limit in TABLES:
        sets = learned()
        weights = learn(sets, sign, SHRINK[name], limit)
        print(f"{name}: {len(sets)} rows, {len(weights)} weights")
        write(name, weights)
        tenths.cache_clear()
        later_words.against.cache_clear()
        unread = {
            path.stem: [said for row in rows(path) for said in read(row)] for path in files(folder)
        }
        report(weights, unread, sign, limit)


# The second is fitted to what rules and the first read.
TABLES = (
    ("later_words", learned_later, "after/held_out", later, 1, later_words.AGAINST),
    ("words_around", learned_around, "around/held_out", around, -1, words_around.AGAINST),
)


if __name__ == "__main__":
    main()
