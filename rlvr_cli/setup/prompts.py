"""Make problems into prompts of a policy."""

from collections.abc import Sequence
from contextlib import suppress

from rlvr_cli.config import Config
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import Problem, Prompt
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.data.prompts import render_prompts
from rlvr_cli.model.loading import TINY, LoadedModel
from rlvr_cli.model.tokenizer import in_trial, there_and_back
from rlvr_cli.setup.session import Session

NO_TEMPLATE = "the tokenizer has no chat template: prompts are put as plain text"
_TRIED_PROBLEMS = 4
"""Problems whose prompts are made in a cage first."""
_NAMED_PROBLEMS = 3
"""Problems named one by one of those that are too long."""


def prompts_for(
    problems: ProblemSet, policy: LoadedModel, config: Config, max_tokens: int
) -> list[Prompt]:
    """Return the problems as prompts.

    Raises UserError if one does not fit the context. With `--skip-bad` it is skipped and counted.
    """

    def render(part: Sequence[Problem]) -> tuple[list[Prompt], list[str]]:
        return render_prompts(
            part,
            policy.tokenizer,
            template=config.data.prompt or problems.prompt,
            context=policy.context,
            max_tokens=max_tokens,
            system=config.data.system,
            arguments=config.data.chat,
            date=config.data.date,
        )

    def try_first() -> None:
        with suppress(UserError):  # which is raised again without a cage
            for prompt in render(problems.problems[:_TRIED_PROBLEMS])[0]:
                there_and_back(policy.tokenizer, prompt.text)

    if policy.name != TINY:
        in_trial(try_first, f"--model {policy.name}: its tokenizer fails: on the first problems")
    prompts, too_long = render(problems.problems)
    if not too_long:
        return prompts
    lines = too_long[:_NAMED_PROBLEMS]
    if len(too_long) > _NAMED_PROBLEMS:
        lines.append(f"… and {len(too_long) - _NAMED_PROBLEMS} more")
    if not (config.data.skip_bad and prompts):
        lines.append(
            f"prompts too long: {len(too_long)}; lower --max-tokens, shorten them, or leave them "
            "out with --skip-bad"
        )
        raise UserError("\n".join(lines))
    LOG.warning("%s", "\n".join([*lines, f"skipped {plural(len(too_long), 'prompt')}"]))
    return prompts


def say_template(prompts: Sequence[Prompt], session: Session, display: Display) -> None:
    """Warn of a missing chat template. Say so if it opens <think> by itself."""
    if session.policy.tokenizer.chat_template is None:
        display.warn(NO_TEMPLATE)
    elif prompts and prompts[0].think_open:
        display.say("template", "opens <think> by itself; responses are judged as if they began so")
