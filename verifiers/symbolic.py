"""What only a worker process does: comparison without a budget of effort."""

from verifiers.compare import compare
from verifiers.types import Judgement


def decide(gold: str, answer: str) -> Judgement:
    """Compare two answers, however long it takes."""
    return compare(gold, answer)
