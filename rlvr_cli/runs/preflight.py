"""Check in seconds, before the first step, whether a run would learn anything."""

import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlvr_cli.algorithm.group_filter import trains, with_signal
from rlvr_cli.config import Config, DataConfig
from rlvr_cli.core.errors import Finding
from rlvr_cli.core.types import Group, Prompt
from rlvr_cli.evaluation.metrics import rollout_metrics
from rlvr_cli.rollout.sampler import response_seed
from rlvr_cli.rollout.session import NO_TEMPLATE, Session, unreadable_golds
from rlvr_cli.runs.fitting import check_memory, refuse_large_step
from rlvr_cli.runs.guards import MORE_SIGNAL
from verifiers import Attempt, Verdict, Verifier

PROBE_PROBLEMS = 8
_SHOWN = 600
_OFTEN = 0.5
_MANY = 100_000
"""Responses of a step that take long."""
_FORMATS: dict[str | None, str] = {
    "think_answer": "<think>…</think><answer>…</answer>",
    "boxed": "\\boxed{…}",
}


@dataclass(frozen=True)
class Stage:
    """The observations of one check as (label, text) lines, and its findings."""

    lines: tuple[tuple[str, str], ...]
    findings: Sequence[Finding]
    has_signal: bool = True
    """False where the probe found no responses to learn from."""


def preflight(session: Session, prompts: Sequence[Prompt]) -> Iterator[Stage]:
    """Check the data, then the memory, then a few responses of the policy, if it is to give any.

    Each stage is yielded before the next begins, so that nothing long starts behind an error. The
    probe's responses have seeds of their own: a run after it is the same as one without.
    """
    config, answer_format = session.plan.config, session.plan.answer_format
    refuse_large_step(config)
    yield _data_stage(session, prompts, config)
    line, findings = check_memory(session)
    yield Stage((("memory", line),), findings)
    if config.algorithm.reads_responses:
        return
    groups = probe(session, prompts)
    kept = [group for group in groups if trains(group, config.algorithm)]
    learns = bool(with_signal(kept, config.algorithm)) and any(
        rollout.is_correct or rollout.rewards for group in kept for rollout in group.rollouts
    )
    share = None if learns or answer_format == "any" else right_in_any_form(groups)
    yield Stage(
        (("probe", probe_line(groups, answer_format != "any")),),
        probe_findings(groups, learns, config.data, share),
        learns,
    )


def _data_stage(session: Session, prompts: Sequence[Prompt], config: Config) -> Stage:
    trained = [] if config.algorithm.reads_responses else prompts
    bad_golds = len(unreadable_golds(trained, session.sampler.verifier))
    has_template = session.policy.tokenizer.chat_template is not None
    golds = ("golds", f"{len(trained) - bad_golds} of {len(trained)} can be read")
    return Stage(
        (
            ("prompt", shortened(prompts[0].text)),
            ("template", _template_line(prompts[0], session)),
            *([golds] if trained else []),
            ("lengths", _lengths_line(prompts, session, config)),
        ),
        [
            *settings_findings(config, len(prompts)),
            *template_findings(prompts, has_template),
            *gold_findings(bad_golds, len(trained)),
        ],
    )


def probe(session: Session, prompts: Sequence[Prompt]) -> list[Group]:
    """Sample, verify and reward responses to a few problems as in training."""
    seed = session.plan.config.seed
    chosen = random.Random(f"{seed}:preflight").sample(
        range(len(prompts)), min(PROBE_PROBLEMS, len(prompts))
    )
    seeds = [response_seed(seed, "preflight", number) for number in chosen]
    tried = [prompts[number] for number in chosen]
    drawn = session.sampler.rollout(tried, session.plan.training, seeds)
    return session.sampler.verify(tried, drawn, session.rewarder)


def settings_findings(config: Config, problems: int) -> list[Finding]:
    """Find settings that are valid but probably not intended."""
    critic, drawn = config.algorithm.critic, config.rollout.prompts
    found = []
    if not config.optim.lr:
        found.append("the learning rate is 0, so the policy will not change: set --lr")
    if critic is not None and config.steps <= critic.warmup:
        found.append(
            f"in the first {critic.warmup} steps only the critic learns, and the run has "
            f"{config.steps}: raise --steps or lower algorithm.advantage.critic.warmup"
        )
    kept = config.algorithm.filter and config.algorithm.filter.metric
    rewards = {one.spec for one in config.reward.terms}
    if kept == "accuracy" and "math" not in rewards:
        found.append(
            "dynamic sampling keeps the groups with right and wrong answers, whatever your rewards "
            "are; algorithm.filter.metric=reward keeps those whose rewards differ"
        )
    responses = drawn * config.rollout.samples
    if responses >= _MANY:
        found.append(
            f"a step draws {responses} responses (--prompts {drawn} x -n "
            f"{config.rollout.samples}) and saves nothing before all are judged: lower either"
        )
    if drawn > problems:
        found.append(
            f"a step draws {drawn} of {problems} problems, some of them several times: lower "
            "--prompts or add problems"
        )
    return [Finding(text) for text in found]


def template_findings(prompts: Sequence[Prompt], has_template: bool) -> list[Finding]:
    """Find a missing chat template, or one that drops the problem."""
    if not has_template:
        return [Finding(NO_TEMPLATE)]
    lost = sum(prompt.problem.problem.strip() not in prompt.text for prompt in prompts)
    if not lost:
        return []
    return [
        Finding(
            f"the chat template leaves out or changes the text of {lost} of {len(prompts)} "
            "problems: look at the prompt above; take a model with another template",
            is_error=lost == len(prompts),
        )
    ]


def gold_findings(bad: int, problems: int) -> list[Finding]:
    """Find gold answers that the verifier cannot read, so that they never train."""
    if not bad:
        return []
    return [
        Finding(
            f"{bad} of {problems} gold answers cannot be read, and their problems never "
            "train: mend them, or cut the answer out with a YAML like those in datasets_cfg",
            is_error=bad == problems,
        )
    ]


def right_in_any_form(groups: Sequence[Group]) -> float:
    """Return the share of responses that state the right answer, whatever their format."""
    attempts = [
        Attempt(rollout.text, group.prompt.problem.answer or "", group.prompt.think_open)
        for group in groups
        for rollout in group.rollouts
    ]
    with Verifier(format="any") as verifier:
        found = verifier.verify_many(attempts)
    return sum(one.verdict is Verdict.CORRECT for one in found) / max(1, len(found))


def probe_findings(
    groups: Sequence[Group], learns: bool, data: DataConfig, in_any_form: float | None
) -> list[Finding]:
    """Find a policy that gives nothing to learn from, or hardly anything.

    `in_any_form` is the share of right responses whatever their form, None where any form counts.
    """
    found, metrics = [], rollout_metrics(groups)
    verdicts = ", ".join(f"{n} {verdict}" for verdict, n in metrics["verdicts"].items())
    if not learns:
        found.append(
            f"the probe found no signal: on {len(groups)} problems nothing sets right responses "
            f"apart from wrong ones ({verdicts}). Such a run learns nothing: {MORE_SIGNAL}"
        )
    if in_any_form is not None and not metrics["format_share"]:
        found.append(_missed_format(data, in_any_form))
    if metrics["cut_off_share"] > _OFTEN:
        found.append(
            f"{metrics['cut_off_share']:.0%} of the responses were cut off at --max-tokens: raise "
            "it, or take a model whose responses end"
        )
    return [Finding(text) for text in found]


def _missed_format(data: DataConfig, in_any_form: float) -> str:
    """Suggest what to do if no response had the required format."""
    missed = f"no response had the format {_FORMATS[data.answer_format]}, so none can be rewarded"
    if not in_any_form:
        return f"{missed}, and none states the right answer in any form: take a stronger model"
    other = "" if data.prompt == "boxed" else " --set data.prompt=boxed"
    return (
        f"{missed}, but {in_any_form:.0%} state the right answer in another form: judge any form "
        f"with --set data.answer_format=any{other}, or take a model that writes the format"
    )


def probe_line(groups: Sequence[Group], has_format: bool) -> str:
    """Summarize the probe in a line, with the share in the format if one is required."""
    metrics = rollout_metrics(groups)
    share = f"format right {metrics['format_share']:.0%}, " if has_format else ""
    verdicts = metrics["verdicts"]
    responses = sum(verdicts.values())
    means = [
        f", {name} {value:.3g}"
        for name, value in metrics.items()
        if name.startswith("reward/") and value is not None
    ]
    return (
        f"{len(groups)} problems, {responses} responses: {share}"
        f"correct {verdicts.get('correct', 0) / responses:.0%}, "
        f"mixed groups {metrics['mixed_share']:.0%}, cut off {metrics['cut_off_share']:.0%}"
        f"{''.join(means)}"
    )


def shortened(text: str) -> str:
    """Return the text, its middle omitted if it is long."""
    if len(text) <= _SHOWN:
        return text
    half = _SHOWN // 2
    return f"{text[:half]} … {text[-half:]}"


def _template_line(prompt: Prompt, session: Session) -> str:
    opened = "opens <think> by itself" if prompt.think_open else "leaves <think> to the policy"
    stops = session.policy.tokenizer.convert_ids_to_tokens(list(session.policy.stop_ids))
    return f"{opened}; a response ends with {' or '.join(map(str, stops))}"


def _lengths_line(prompts: Sequence[Prompt], session: Session, config: Config) -> str:
    lengths = [len(prompt.token_ids) for prompt in prompts]
    return (
        f"prompts of {statistics.median(lengths):.0f} tokens (longest {max(lengths)}), responses "
        f"of at most {config.rollout.max_tokens}, context {session.policy.context}"
    )
