"""`rlvr sample`, once its settings are resolved."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rlvr_cli.config import Config
from rlvr_cli.console.display import Display, LiveResponse, show_verdict
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import writing
from rlvr_cli.core.types import Problem
from rlvr_cli.data.problems import ProblemSet, joined, load_all
from rlvr_cli.data.sources import FILE_TYPES
from rlvr_cli.evaluation.measure import evaluate, prompt_seeds
from rlvr_cli.rollout.plan import plan_for
from rlvr_cli.rollout.session import open_session, prompts_for
from rlvr_cli.runs.narration import say_template
from rlvr_cli.runs.run_dir import rollout_lines


def sample(config: Config, inputs: Sequence[str], out: Path | None, display: Display) -> None:
    """Run `rlvr sample`: readable on a terminal, JSONL in a pipe or in `out`."""
    parts = []
    for number, text in enumerate(inputs, 1):
        if text == "-" or text.endswith(FILE_TYPES):
            split = config.data.split or "test"
            parts.append(load_all([text], split, config.data, need_answer=False))
        elif text.strip():
            problem = Problem(f"prompt-{number}", text, None)
            parts.append(ProblemSet("prompt", (problem,), "plain"))
        else:
            raise UserError("the prompt is empty; give a text, a .jsonl file, or - for stdin")
    problems = joined(parts)
    if out is not None and out.exists():
        raise UserError(f"--out {out}: it exists already; name another or remove it")
    with open_session(plan_for(config, problems)) as session:
        config = session.plan.config
        prompts = prompts_for(problems, session.policy, config, config.rollout.max_tokens)
        say_template(prompts, session, display)
        display.say("policy", f"{config.model}: {session.description}")
        sampler, params = session.sampler, session.plan.evaluation
        if out is not None or not sys.stdout.isatty():
            groups = evaluate(sampler, prompts, params, config.seed)
            if out is None:
                sys.stdout.writelines(rollout_lines(groups))
                return
            with writing(f"--out {out}"), out.open("x", encoding="utf-8") as file:
                file.writelines(rollout_lines(groups))
            return
        # Each response is shown while it is written: those that a pipe would get.
        for prompt, first in zip(prompts, prompt_seeds(prompts, config.seed), strict=True):
            display.say("problem", prompt.problem.problem)
            for seed in range(first, first + params.samples):
                live = LiveResponse(sampler.decode, prompt.think_open)
                drawn = sampler.rollout([prompt], replace(params, samples=1), [seed], live)
                (group,) = sampler.verify([prompt], drawn)
                print()
                show_verdict(group.rollouts[0])
