"""`rlvr sample`, once its settings are resolved."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rlvr_cli.commands.common import eval_params, opened, refuse_existing, say_template
from rlvr_cli.config import Config
from rlvr_cli.display import Display, LiveResponse, show_response, show_verdict
from rlvr_cli.evaluate import evaluate
from rlvr_cli.problems import ProblemSet, load_problems
from rlvr_cli.rollout import Sampler
from rlvr_cli.session import answer_format, open_session, prompts_for
from rlvr_cli.sources import FILE_TYPES
from rlvr_cli.tracking import write_rollouts
from rlvr_cli.types import Group, Problem, UserError
from verifiers import Verifier


def sample(config: Config, inputs: Sequence[str], out: Path | None, display: Display) -> None:
    """The whole of `rlvr sample`: readable on a terminal, JSONL in a pipe or in `out`.

    A terminal sees a single response while it is written, and several as soon as a problem's are
    done; a pipe has all in the order of the problems.
    """
    sets = [_sample_problems(text, f"prompt-{n}", config) for n, text in enumerate(inputs, 1)]
    one = sets[0]
    all_problems = tuple(problem for part in sets for problem in part.problems)
    problems = ProblemSet("sample", all_problems, one.prompt, one.verifier)
    refuse_existing(out)
    readable = out is None and sys.stdout.isatty()

    def on_group(group: Group) -> None:
        for rollout in group.rollouts if readable else ():
            if live is not None:
                print()
                show_verdict(rollout)
                continue
            display.say("problem", group.prompt.problem.problem)
            show_response(rollout)

    with (
        open_session(config) as session,
        Verifier(format=answer_format(problems, config.data)) as verifier,
    ):
        prompts = prompts_for(problems, session.policy, config, config.rollout.max_tokens)
        say_template(prompts, session, display)
        display.say("policy", f"{config.model}: {session.description}")
        sampler = Sampler(session.engine, session.policy.tokenizer, verifier)
        params = eval_params(config)
        live = None
        if readable and len(prompts) == params.samples == 1:
            live = LiveResponse(sampler.decode, prompts[0].think_open)
        groups = evaluate(sampler, prompts, params, config.seed, on_group, listener=live)
    with opened(out) as file:
        if file is not None:
            write_rollouts(file, groups)


def _sample_problems(text: str, name: str, config: Config) -> ProblemSet:
    """Problems of a file or stdin, or the text itself as one of that name; gold answers may be
    missing."""
    if text == "-" or text.endswith(FILE_TYPES):
        return load_problems(
            text,
            config.data.split or "test",
            limit=config.data.limit,
            skip_bad=config.data.skip_bad,
            need_answer=False,
            root=config.data.root,
        )
    if not text.strip():
        raise UserError("the prompt is empty; give a text, a .jsonl file, or - for stdin")
    return ProblemSet("prompt", (Problem(name, text, None),), "think_answer")
