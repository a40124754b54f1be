"""Who decides whether a response is right: the rules of this package, or another library.

A judge is a row of `JUDGES`. Another library is imported in a worker process only, where it can be
killed however it hangs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

from verifiers.types import Judgement

Decide = Callable[[str, str], Judgement]
"""From a gold answer and a text to whether the text is right."""

OURS = "rlvr"
BAD_GOLD, NO_ANSWER = "gold does not parse", "no answer found"


def _rules() -> Decide:
    """Compare an extracted answer by the rules of this package."""
    from verifiers.equality.compare import compare

    return compare


def _math_verify() -> Decide:
    """Judge a whole response as lm-eval does: `parse` with its defaults (LaTeX, then plain
    expressions), gold in dollars. Its own timers are off: they need signals, and count as wrong."""
    from math_verify import parse, verify

    def decide(gold: str, response: str) -> Judgement:
        expected = parse(in_dollars(gold), parsing_timeout=None)
        if not expected:
            return Judgement(False, BAD_GOLD)
        found = parse(response, parsing_timeout=None)
        if not found:
            return Judgement(False, NO_ANSWER)
        equal = verify(expected, found, timeout_seconds=None)
        return Judgement(equal, "math-verify", str(found[-1]))

    return decide


def in_dollars(answer: str) -> str:
    """Return a bare answer as inline LaTeX."""
    answer = answer.strip()
    is_inline = len(answer) > 1 and answer[0] == answer[-1] == "$"
    return answer if is_inline else f"${answer}$"


@dataclass(frozen=True)
class Judge:
    """One judge: how a worker gets it, its seconds for one response, what decides its verdicts."""

    load: Callable[[], Decide]
    timeout: float = 2.0
    packages: tuple[str, ...] = ()

    def versions(self) -> dict[str, str]:
        """Return the installed version of each package; raises PackageNotFoundError if one is
        missing."""
        return {name: version(name) for name in self.packages}


JUDGES = {
    OURS: Judge(_rules),
    "math-verify": Judge(_math_verify, 10.0, ("math-verify", "latex2sympy2_extended", "sympy")),
}
