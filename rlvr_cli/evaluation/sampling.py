"""Sample and judge responses by the first half of the training loop, without training."""

from collections.abc import Callable, Container, Sequence

from rlvr_cli.core.seeds import problem_seeds
from rlvr_cli.core.types import Group, Prompt, SamplingParams
from rlvr_cli.evaluation.task import Deliver
from rlvr_cli.rollout.sampler import Sampler
from rlvr_cli.setup.session import Session
from verifiers import Verifier


def sample_groups(
    sampler: Sampler,
    prompts: Sequence[Prompt],
    params: SamplingParams,
    seed: int,
    on_group: Callable[[Group], None] = lambda group: None,
    finished: Container[str] = (),
) -> list[Group]:
    """Sample and verify every prompt except those of problems whose ids are in `finished`.

    `on_group` gets each group when it is complete. The groups return in the order of the prompts.
    """
    remaining = []
    seeds = []
    for prompt, prompt_seed in zip(prompts, prompt_seeds(prompts, seed), strict=True):
        if prompt.problem.id not in finished:
            remaining.append(prompt)
            seeds.append(prompt_seed)
    stream = sampler.stream(remaining, params, seeds)
    return sampler.judge(remaining, stream, on_group=on_group)


def respond(
    session: Session,
    prompts: Sequence[Prompt],
    params: SamplingParams,
    finished: Container[str],
    verifier: Verifier,
    deliver: Deliver,
) -> dict[str, str]:
    """Sample and judge the responses of the session's policy (`Task.respond`). None is missing."""
    sampler = Sampler(session.engine, session.policy.tokenizer, verifier)

    def on_group(group: Group) -> None:
        tokens = sum(rollout.n_tokens or 0 for rollout in group.rollouts)
        deliver({group.prompt.problem.id: group.rollouts}, tokens)

    sample_groups(sampler, prompts, params, session.plan.config.seed, on_group, finished)
    return {}


def prompt_seeds(prompts: Sequence[Prompt], seed: int) -> list[int]:
    """Return the seed of each prompt's first response."""
    return problem_seeds([prompt.problem for prompt in prompts], seed)
