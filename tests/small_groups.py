"""Groups made by hand, for tests of what comes after sampling."""

from rlvr_cli.algorithm.reward import reward
from rlvr_cli.core.types import Completion, Group, Problem, Prompt, Rollout
from verifiers import Verdict, Verification

RIGHT = Verdict.CORRECT
WRONG = Verdict.WRONG
LATE = Verdict.TIMEOUT


def made_prompt(name: str = "a", answer: str | None = "1") -> Prompt:
    return Prompt(Problem(name, f"What is {name}?", answer), f"<{name}>", (5, 6, 7), False)


def made_rollout(
    verdict: Verdict | None,
    n_tokens: int = 1,
    finish_reason: str = "stop",
    *,
    prompt: Prompt | None = None,
    sample: int = 0,
    format_ok: bool = True,
) -> Rollout:
    """A response of that many tokens; without a verdict none was given."""
    completion = Completion([7] * n_tokens, [-0.5] * n_tokens, finish_reason)
    actual = None if verdict is None else Verification(verdict, "1", format_ok, "as made")
    value = None if actual is None else reward(actual)
    return Rollout.of(prompt or made_prompt(), sample, completion, "text", actual, value)


def made_group(name: str, *verdicts: Verdict | None, n_tokens: int = 1, version: int = 0) -> Group:
    prompt = made_prompt(name)
    rollouts = [
        made_rollout(verdict, n_tokens, prompt=prompt, sample=sample)
        for sample, verdict in enumerate(verdicts)
    ]
    return Group(prompt, tuple(rollouts), version)
