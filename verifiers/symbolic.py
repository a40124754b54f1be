"""What only a worker process does: computer algebra on text that the own parser cannot settle."""

from math_verify import parse, verify
from math_verify.parser import ExprExtractionConfig, LatexExtractionConfig

from verifiers.types import Judgement


def decide(gold: str, answer: str) -> Judgement:
    """Compare two answers with math-verify."""
    settings = [LatexExtractionConfig(), ExprExtractionConfig()]
    parsed = [
        parse(f"${text}$", settings, fallback_mode="no_fallback", parsing_timeout=None)
        for text in (gold, answer)
    ]
    if not all(parsed):
        return Judgement(False, "not comparable")
    return Judgement(verify(*parsed, timeout_seconds=None), "symbolic")
