"""Sample responses from models on this machine, for `rlvr eval` and `rlvr sample`."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from datetime import datetime
from functools import partial

from rlvr_cli.config import Config
from rlvr_cli.console.display import Display, LiveResponse, show_verdict
from rlvr_cli.core.report import Sampling
from rlvr_cli.core.types import Label, Prompt, Response, SamplingParams, by_key
from rlvr_cli.data.problems import ProblemSet, warn_of_bad_golds
from rlvr_cli.data.prompts import template_text
from rlvr_cli.data.sources import DEFAULT_PROMPT
from rlvr_cli.evaluation.fingerprint import (
    data_hash,
    engine_fingerprint,
    fingerprint,
    judging_by,
    model_hash,
    prompts_hash,
)
from rlvr_cli.evaluation.sampling import prompt_seeds, respond, sample_groups
from rlvr_cli.evaluation.task import Deliver, Task
from rlvr_cli.model.loading import model_files
from rlvr_cli.program.problems import Sets
from rlvr_cli.ranks.group import broadcast_from_first, is_first
from rlvr_cli.setup.plan import Plan, asks_for_boxed, plan_evaluation, plan_for
from rlvr_cli.setup.prompts import prompts_for, say_template
from rlvr_cli.setup.session import Session, open_session, say_policy
from verifiers import OURS, Format, Verifier

is_writer = is_first


def tasks(
    configs: Sequence[Config], sets: Sets, judge: str, began: datetime, display: Display
) -> Iterator[Task]:
    """Plan all evaluations, and return an iterator that loads each model for its tasks."""
    # The first process knows when the evaluation began.
    began = datetime.fromisoformat(broadcast_from_first(str(began)))
    planned = []
    for config in configs:
        problems = sets[config.data.source]
        if asks_for_boxed(config, problems):
            display.say(
                "prompt",
                f"{config.model} is no run, so {problems.name} asks it for a \\boxed{{}} answer; "
                f"--prompt {DEFAULT_PROMPT} asks for the format that runs are trained on",
            )
        planned.append((plan_evaluation(config, problems, began), problems))
    return _loaded(planned, judge, display)


def _loaded(
    planned: Sequence[tuple[Plan, ProblemSet]], judge: str, display: Display
) -> Iterator[Task]:
    """Load each model, and yield its tasks while it is loaded."""
    for model, same_model in by_key(planned, lambda pair: pair[0].config.model).items():
        first_plan, _ = same_model[0]
        with open_session(first_plan) as session:
            say_policy(model, session, display)
            model_sha = model_hash(model_files(model))
            for plan, problems in same_model:
                prompts, params = _prompts_and_params(plan, problems, session)
                answer_format: Format = plan.answer_format if judge == OURS else "any"
                say_template(prompts, session, display)
                yield Task(
                    label=Label(model, problems.name),
                    problems=[prompt.problem for prompt in prompts],
                    respond=partial(_respond, session, prompts, params, display),
                    answer_format=answer_format,
                    fingerprint=fingerprint(
                        judging_by(answer_format, judge),
                        data=data_hash(prompt.problem for prompt in prompts),
                        source={"model": model_sha},
                        sampled=_prompts_fingerprint(plan, problems, prompts),
                        sampling=Sampling(params, plan.config.seed),
                        engine=engine_fingerprint(
                            session.engine.name,
                            precision=plan.config.rollout.precision,
                            device=session.device,
                            threads=session.plan.config.threads or 1,
                        ),
                        ends=session.plan.config.rollout.ends or (),
                    ),
                    samples=params.samples,
                )


def _prompts_fingerprint(
    plan: Plan, problems: ProblemSet, prompts: Sequence[Prompt]
) -> dict[str, str]:
    """Return the checksum of the prompts, and their template."""
    template = template_text(plan.config.data.prompt or problems.prompt)
    return {"prompts": prompts_hash(prompts), "prompt": template}


def _respond(
    session: Session,
    prompts: Sequence[Prompt],
    params: SamplingParams,
    display: Display,
    finished: Set[str],
    verifier: Verifier,
    deliver: Deliver,
) -> dict[str, str]:
    """Sample and judge the responses (`Task.respond`). None is missing."""
    warn_of_bad_golds([prompt.problem for prompt in prompts], verifier, display)
    finished = set(broadcast_from_first(list(finished)))
    return respond(session, prompts, params, finished, verifier, deliver)


def _prompts_and_params(
    plan: Plan, problems: ProblemSet, session: Session
) -> tuple[list[Prompt], SamplingParams]:
    """Return the prompts of the first `limit` problems, and the sampling settings.

    Unless it is set, the length of a response is what the longest prompt of the whole set leaves of
    the context, so that `limit` changes no answer.
    """
    config = plan.config
    limit = config.data.limit
    if "max_tokens" in config.rollout.model_fields_set:
        first = replace(problems, problems=problems.problems[:limit])
        prompts = prompts_for(first, session.policy, config, plan.evaluation.max_tokens)
        return prompts, plan.evaluation
    prompts = prompts_for(problems, session.policy, config, 1)
    longest = max(len(prompt.token_ids) for prompt in prompts)
    return prompts[:limit], plan.evaluation_within(session.policy.context - longest)


def sample(config: Config, problems: ProblemSet, display: Display, is_live: bool) -> list[Response]:
    """Run `rlvr sample`, and return the responses, or none if they are shown live on a terminal."""
    with open_session(plan_for(config, problems)) as session:
        config = session.plan.config
        prompts = prompts_for(problems, session.policy, config, config.rollout.max_tokens)
        say_template(prompts, session, display)
        say_policy(config.model, session, display)
        if is_live:
            _show_live(prompts, session, display)
            return []
        groups = sample_groups(session.sampler, prompts, session.plan.evaluation, config.seed)
    return [rollout for group in groups for rollout in group.rollouts]


def _show_live(prompts: Sequence[Prompt], session: Session, display: Display) -> None:
    """Show each response on a terminal while it is written, those that a pipe would get."""
    sampler = session.sampler
    params = session.plan.evaluation
    one_sample = replace(params, samples=1)
    first_seeds = prompt_seeds(prompts, session.plan.config.seed)
    for prompt, first in zip(prompts, first_seeds, strict=True):
        display.say("problem", prompt.problem.problem)
        for seed in range(first, first + params.samples):
            live = LiveResponse(sampler.decode, prompt.think_open)
            stream = sampler.stream([prompt], one_sample, [seed], live)
            (group,) = sampler.judge([prompt], stream)
            print()
            show_verdict(group.rollouts[0])
