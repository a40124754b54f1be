"""Fit the weights of words that speak against an answer, verifiers/tables/weights.json.

A logistic regression on words and pairs of words. The sentences after an answer are judged one by
one; the strongest speaks for all of them (a soft maximum). Learned from tests/verifiers/after
(labelled by hand) and from what follows the answers of the cases; the figures are those of
tests/verifiers/after/held_out, by set.

    python benchmarks/weigh_words.py
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from verifiers.extraction.context.aftermath import later_sentences
from verifiers.extraction.context.weighed import AGAINST, features, passages, root, total
from verifiers.extraction.places import marked, phrased
from verifiers.extraction.response.formats import after_thought
from verifiers.extraction.response.passages import final_text
from verifiers.grammar.tables import FOLDER

TESTS = Path(__file__).resolve().parents[1] / "tests" / "verifiers"
ABOUT = ("after ", "taken-back")
SHRINK = 3e-6
# What the rules' own tests ask for, and what models say most, counts so many times.
CERTAIN = 3
SMALLEST = 0.25
SHARPNESS = 2.0
STEPS = 600
Said = tuple[list[set[str]], bool]


def files(folder: str) -> list[Path]:
    return sorted((TESTS / folder).glob("*.jsonl"))


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def labelled(row: dict) -> Said:
    """Return the features of each sentence after an answer, and whether they take it away."""
    text = f"{row['before']}\n{row['after']}"
    return said_after(text, len(row["before"]), row["answer"]), row["away"]


def said_after(text: str, end: int, answer: str) -> list[set[str]]:
    return [features(passage, answer) for passage in passages(later_sentences(text, end))]


def from_cases() -> Iterator[Said]:
    """Yield what follows the answers of honest cases, and of those about just that."""
    for path in files("cases"):
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


def learned() -> list[Said]:
    """Return all that the weights are fitted to."""
    by_hand = [
        labelled(row)
        for path in files("after")
        for row in rows(path) * (CERTAIN if path.stem in ("cases", "usual") else 1)
    ]
    return [*by_hand, *from_cases()]


def fit(sets: list[Said]) -> dict[str, float]:
    """Return the weights that tell the sets apart."""
    sets = [said for said in sets if said[0]]
    counts = Counter(name for said, _ in sets for name in set().union(*said))
    index = {name: at for at, name in enumerate(sorted(n for n in counts if counts[n] > 1))}
    at, values, owner = [], [], []
    for number, (said, _) in enumerate(sets):
        for sentence in said:
            known = sorted(index[name] for name in sentence if name in index)
            at += [(len(owner), column) for column in known]
            values += [1 / root(len(known))] * len(known)
            owner.append(number)
    size = (len(owner), len(index))
    matrix = torch.sparse_coo_tensor(torch.tensor(at).T, torch.tensor(values).double(), size)
    away = torch.tensor([float(away) for _, away in sets]).double()
    more = (1 - away).sum() / away.sum()
    bag = torch.tensor(owner)
    weights = torch.zeros(len(index), dtype=torch.float64, requires_grad=True)
    bias = torch.zeros((), dtype=torch.float64, requires_grad=True)
    steps = torch.optim.LBFGS([weights, bias], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        steps.zero_grad()
        score = torch.sparse.mm(matrix, weights[:, None])[:, 0] + bias
        top = torch.full_like(away, -torch.inf).scatter_reduce(0, bag, score.detach(), "amax")
        total = torch.zeros_like(away).scatter_add(0, bag, (SHARPNESS * (score - top[bag])).exp())
        pooled = top + total.log() / SHARPNESS
        error = binary_cross_entropy_with_logits(pooled, away, pos_weight=more)
        error = error + SHRINK / 2 * (weights**2).sum()
        error.backward()
        return error

    steps.step(loss)  # type: ignore[no-untyped-call]
    return {"<bias>": bias.item(), **dict(zip(index, weights.tolist(), strict=True))}


def score(weights: dict[str, float], said: list[set[str]]) -> float:
    return max((total(weights, names) for names in said), default=-torch.inf)


def write(weights: dict[str, float]) -> None:
    """Write the weights in tenths, by their first word; those near 0 do not matter."""
    nested: dict[str, dict[str, int]] = {}
    for name, weight in sorted(weights.items()):
        first, _, second = name.partition(" ")
        if abs(weight) >= SMALLEST:
            nested.setdefault(first, {})[second] = round(10 * weight)
    lines = [f"{json.dumps(first)}: {json.dumps(rest)}" for first, rest in nested.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (FOLDER / "weights.json").write_text(text, encoding="utf-8")


def main() -> None:
    torch.set_num_threads(1)
    torch.sparse.check_sparse_tensor_invariants.disable()
    sets = learned()
    weights = fit(sets)
    print(f"{len(sets)} continuations, {len(weights)} weights")
    write(weights)
    for path in files("after/held_out"):
        said = [labelled(row) for row in rows(path)]
        found = [score(weights, one) > AGAINST for one, away in said if away]
        refused = [score(weights, one) > AGAINST for one, away in said if not away]
        print(
            f"{path.stem}: {sum(found)} of {len(found)} found, "
            f"{sum(refused)} of {len(refused)} harmless refused"
        )


if __name__ == "__main__":
    main()
