"""`rlvr sample`, once its settings are resolved."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rlvr_cli.config import Config
from rlvr_cli.console.display import Display, LiveResponse, show_verdict
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Problem, Prompt, SamplingParams
from rlvr_cli.data.problems import ProblemSet, joined, load_all
from rlvr_cli.data.sources import FILE_TYPES
from rlvr_cli.evaluation.measure import evaluate, prompt_seeds
from rlvr_cli.rollout.plan import plan_for
from rlvr_cli.rollout.sampler import Sampler
from rlvr_cli.rollout.session import open_session, prompts_for
from rlvr_cli.runs.narration import opened, refuse_existing, say_template
from rlvr_cli.runs.run_dir import rollout_lines


def sample(config: Config, inputs: Sequence[str], out: Path | None, display: Display) -> None:
    """Run `rlvr sample`: readable on a terminal, JSONL in a pipe or in `out`."""
    problems = joined(
        [_sample_problems(text, f"prompt-{n}", config) for n, text in enumerate(inputs, 1)]
    )
    refuse_existing(out)
    with open_session(plan_for(config, problems)) as session:
        config = session.plan.config
        prompts = prompts_for(problems, session.policy, config, config.rollout.max_tokens)
        say_template(prompts, session, display)
        display.say("policy", f"{config.model}: {session.description}")
        sampler, params = session.sampler, session.plan.evaluation
        if out is None and sys.stdout.isatty():
            _show_live(sampler, prompts, params, config.seed, display)
            return
        groups = evaluate(sampler, prompts, params, config.seed)
    with opened(out) as file:
        file.writelines(rollout_lines(groups))


def _show_live(
    sampler: Sampler, prompts: Sequence[Prompt], params: SamplingParams, seed: int, display: Display
) -> None:
    """Show each response while it is written, one after the other: those that a pipe would get."""
    one = replace(params, samples=1)
    for prompt, first in zip(prompts, prompt_seeds(prompts, seed), strict=True):
        display.say("problem", prompt.problem.problem)
        for number in range(params.samples):
            live = LiveResponse(sampler.decode, prompt.think_open)
            drawn = sampler.rollout([prompt], one, [first + number], live)
            (group,) = sampler.verify([prompt], drawn)
            print()
            show_verdict(group.rollouts[0])


def _sample_problems(text: str, name: str, config: Config) -> ProblemSet:
    """Read problems of a file or stdin, or the text as one; gold answers may be missing."""
    if text == "-" or text.endswith(FILE_TYPES):
        return load_all([text], config.data.split or "test", config.data, need_answer=False)
    if not text.strip():
        raise UserError("the prompt is empty; give a text, a .jsonl file, or - for stdin")
    return ProblemSet("prompt", (Problem(name, text, None),), "plain")
