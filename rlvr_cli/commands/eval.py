"""`rlvr eval`, once its settings are resolved."""

from pathlib import Path

from rlvr_cli.commands.common import (
    eval_params,
    opened,
    refuse_existing,
    say_template,
    warn_of_bad_golds,
    warn_of_unjudged,
)
from rlvr_cli.config import Config
from rlvr_cli.display import Display
from rlvr_cli.evaluate import Evaluation, evaluate, summarise
from rlvr_cli.problems import load_problems
from rlvr_cli.session import open_session, prompts_for
from rlvr_cli.tracking import write_rollouts
from rlvr_cli.types import Group


def eval_(config: Config, out: Path | None, display: Display) -> None:
    """The whole of `rlvr eval`: rows to `out` or a pipe, figures to stderr."""
    problems = load_problems(
        config.data.source,
        config.data.split or "test",
        limit=config.data.limit,
        skip_bad=config.data.skip_bad,
    )
    refuse_existing(out)
    with open_session(config) as session:
        prompts = prompts_for(problems, session.policy, config, config.rollout.max_tokens)
        warn_of_bad_golds(prompts, session, display)
        say_template(prompts, session, display)
        display.say("policy", f"{config.model}: {session.description}")
        params = eval_params(config)
        with display.progress("evaluating", len(prompts)) as bar:
            correct: list[float] = []

            def on_group(group: Group) -> None:
                correct.extend(float(rollout.is_correct) for rollout in group.rollouts)
                bar.tick(f"pass@1 {sum(correct) / len(correct):.3f}", print_note=False)

            groups = evaluate(session.sampler, prompts, params, config.seed, on_group)
    with opened(out) as file:
        if file is not None:
            write_rollouts(file, groups)
    _show_evaluation(problems.name, summarise(groups, params), display)
    if out:
        display.say("rows", str(out))


def _show_evaluation(name: str, evaluation: Evaluation, display: Display) -> None:
    display.result("pass@1", f"{evaluation.pass_at_1:.4f} on {name} ({evaluation.settings})")
    display.say(
        "responses",
        f"format right {evaluation.format_share:.1%}, cut off {evaluation.cut_off_share:.1%}, "
        f"{evaluation.response_length:.1f} tokens on average",
    )
    counts = ", ".join(f"{count} {verdict}" for verdict, count in evaluation.verdicts.items())
    display.say("verdicts", counts)
    warn_of_unjudged(evaluation, display)
