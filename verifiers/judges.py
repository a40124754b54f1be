"""List the judges that can decide whether a response is right: our rules, and another library.

Another library is imported in a worker process only, which can be killed when it hangs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version

from verifiers.types import Judgement

Decide = Callable[[str, str], Judgement]
"""Decides from a gold answer and a text whether the text is right."""

OURS = "rlvr"
BAD_GOLD, NO_ANSWER = "gold does not parse", "no answer found"


def _math_verify() -> Decide:
    """Return math-verify's judgement of a whole response, called as lm-eval calls it: `parse` with
    its defaults (LaTeX, then plain expressions), the gold answer in dollars. Its own timers are
    off: they need signals, and they count a timeout as wrong."""
    from math_verify import parse, verify

    def decide(gold: str, response: str) -> Judgement:
        expected = parse(in_dollars(gold), parsing_timeout=None)
        if not expected:
            return Judgement(False, BAD_GOLD)
        answer = parse(response, parsing_timeout=None)
        if not answer:
            return Judgement(False, NO_ANSWER)
        equal = verify(expected, answer, timeout_seconds=None)
        return Judgement(equal, "math-verify", str(answer[-1]))

    return decide


def in_dollars(answer: str) -> str:
    """Return a bare answer as inline LaTeX."""
    answer = answer.strip()
    is_inline = len(answer) > 1 and answer[0] == answer[-1] == "$"
    return answer if is_inline else f"${answer}$"


@dataclass(frozen=True)
class Judge:
    """Describe a judge: what a worker loads, the seconds that one response may take, and the
    packages whose versions decide its verdicts."""

    load: Callable[[], Decide]
    timeout: float = 2.0
    packages: tuple[str, ...] = ()

    def versions(self) -> dict[str, str]:
        """Return the installed version of each package. Raises PackageNotFoundError if one is
        missing."""
        return {name: version(name) for name in self.packages}


JUDGES = {
    OURS: Judge(lambda: import_module("verifiers.equality.compare").compare),
    # 10 s, five times our own limit, because sympy is slower (benchmarks/verifier_speed.py)
    "math-verify": Judge(_math_verify, 10.0, ("math-verify", "latex2sympy2_extended", "sympy")),
}
