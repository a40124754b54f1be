"""`rlvr sample`, once its settings are resolved."""

from collections.abc import Sequence
from pathlib import Path

from rlvr_cli.commands.common import eval_params, opened, refuse_existing, say_template
from rlvr_cli.config import Config
from rlvr_cli.display import Display, show_response
from rlvr_cli.evaluate import evaluate
from rlvr_cli.problems import FILE_TYPES, ProblemSet, load_problems
from rlvr_cli.session import open_session, prompts_for
from rlvr_cli.tracking import write_rollouts
from rlvr_cli.types import Problem, UserError


def sample(config: Config, inputs: Sequence[str], out: Path | None, display: Display) -> None:
    """The whole of `rlvr sample`: readable on a terminal, JSONL in a pipe or in `out`."""
    sets = [_sample_problems(text, config) for text in inputs]
    problems = ProblemSet("sample", tuple(p for one in sets for p in one.problems), sets[0].prompt)
    refuse_existing(out)
    with open_session(config) as session:
        prompts = prompts_for(problems, session.policy, config, config.rollout.max_tokens)
        say_template(prompts, session, display)
        display.say("policy", f"{config.model}: {session.description}")
        groups = evaluate(session.sampler, prompts, eval_params(config), config.seed)
    with opened(out) as file:
        for group in groups:
            if file is not None:
                write_rollouts(file, [group])
                continue
            for rollout in group.rollouts:
                display.say("problem", group.prompt.problem.problem)
                show_response(rollout)


def _sample_problems(text: str, config: Config) -> ProblemSet:
    """Problems of a file or stdin, or the text itself as one; gold answers may be missing."""
    if text == "-" or text.endswith(FILE_TYPES):
        return load_problems(
            text,
            "test",
            limit=config.data.limit,
            skip_bad=config.data.skip_bad,
            need_answer=False,
        )
    if not text.strip():
        raise UserError("the prompt is empty; give a text, a .jsonl file, or - for stdin")
    return ProblemSet("prompt", (Problem("prompt", text, None),), "think_answer")
