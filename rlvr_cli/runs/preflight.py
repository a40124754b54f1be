"""Check in seconds, before the first step, whether a run would learn anything."""

import random
import statistics
from collections.abc import Sequence

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.group_filter import trains, with_signal
from rlvr_cli.config import Config
from rlvr_cli.config.sections import DataConfig
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import Finding, UserError
from rlvr_cli.core.text import GIB
from rlvr_cli.core.types import Group, Prompt
from rlvr_cli.data.prompts import writes_date
from rlvr_cli.evaluation.measure import rollout_metrics
from rlvr_cli.rollout.sampler import response_seed
from rlvr_cli.runs.guards import MATH_EARNS_NOTHING, MORE_SIGNAL
from rlvr_cli.setup.memory import Memory
from rlvr_cli.setup.session import NO_TEMPLATE, Session, unreadable_golds

_PROBLEMS = 8
"""Problems of the probe: some seconds' work, and enough to see a signal that is there."""
_SHOWN = 600
"""Characters of a prompt that is shown."""
_OFTEN = 0.5
"""The share of responses cut off that is worth a warning."""
Lines = Sequence[tuple[str, str]]
"""Observations, each with its label."""


def preflight(session: Session, prompts: Sequence[Prompt], strict: bool, display: Display) -> None:
    """Check the data, then the memory, then a few responses of the policy, if it is to give any.
    Raises UserError if the run cannot go well; `strict` counts a probe without a signal as such.

    Nothing long starts behind an error. The probe's responses have seeds of their own: a run after
    it is the same as one without.
    """
    config = session.plan.config
    settle(*_of_data(session, prompts), display)
    settle(*of_memory(session.memory, config), display)
    if config.algorithm.reads_responses:
        return
    # As in training: sample, verify and reward responses to a few problems.
    rng, few = random.Random(f"{config.seed}:preflight"), min(_PROBLEMS, len(prompts))
    chosen = rng.sample(range(len(prompts)), few)
    seeds = [response_seed(config.seed, "preflight", number) for number in chosen]
    tried = [prompts[number] for number in chosen]
    for begun in session.rewarder.start(tried[0].problem, [tried[0].problem.answer or ""]):
        begun.result()  # a function that fails is said before anything is sampled
    drawn = session.sampler.stream(tried, session.plan.training, seeds)
    groups = session.sampler.judge(tried, drawn, session.rewarder)
    kept = [group for group in groups if trains(group, config.algorithm)]
    max_tokens = config.rollout.max_tokens
    signal = with_signal(kept, config.algorithm, max_tokens, config.reward.weightless)
    learns = bool(signal) and any(
        rollout.is_correct or rollout.rewards or not config.algorithm.needs_verdicts
        for group in kept
        for rollout in group.rollouts
    )
    lines, findings = of_probe(groups, learns, config.data, session.plan.answer_format != "any")
    if strict and not learns:
        text = "a run like this would learn nothing: see the warning about the probe"
        findings.append(Finding(text, is_error=True))
    settle(lines, findings, display)


def settle(lines: Lines, findings: Sequence[Finding], display: Display) -> None:
    """Show a check's lines and warnings. Raises UserError if one of its findings is an error."""
    for label, text in lines:
        display.say(label, text)
    for finding in findings:
        if not finding.is_error:
            display.warn(finding.text)
    if errors := [finding.text for finding in findings if finding.is_error]:
        raise UserError("\n".join(errors))


def _of_data(session: Session, prompts: Sequence[Prompt]) -> tuple[Lines, list[Finding]]:
    """Return lines on first prompt, golds and lengths, and faults of settings and problems."""
    config, tokenizer, first = session.plan.config, session.policy.tokenizer, prompts[0]
    half, text = _SHOWN // 2, first.text
    text = text if len(text) <= _SHOWN else f"{text[:half]} … {text[-half:]}"
    opened = "opens <think> by itself" if first.think_open else "leaves <think> to the policy"
    stops = map(str, tokenizer.convert_ids_to_tokens(list(session.policy.stop_ids)))
    ends = f"{opened}; a response ends with {' or '.join(stops)}"
    if config.data.date is not None and writes_date(tokenizer):
        ends += f"; it writes the date, {config.data.date:%Y-%m-%d}"
    lines = [("prompt", text), ("template", ends)]
    bad = 0
    if judged := to_judge(prompts, config.algorithm):
        bad = len(unreadable_golds(judged, session.sampler.verifier))
        lines.append(("golds", f"{len(judged) - bad} of {len(judged)} can be read"))
    lengths = [len(prompt.token_ids) for prompt in prompts]
    text = f"prompts of {statistics.median(lengths):.0f} tokens (longest {max(lengths)})"
    room = f"responses of at most {config.rollout.max_tokens}, context {session.policy.context}"
    lines.append(("lengths", f"{text}, {room}"))
    lost = bad if config.algorithm.needs_verdicts else 0
    return lines, data_findings(config, prompts, tokenizer.chat_template is not None, lost)


def to_judge(prompts: Sequence[Prompt], algo: Algorithm) -> list[Prompt]:
    """Return the problems whose responses are judged: none for responses that are given, and those
    with a gold answer where none is needed."""
    if algo.reads_responses:
        return []
    return [p for p in prompts if algo.needs_verdicts or p.problem.answer is not None]


def data_findings(
    config: Config, prompts: Sequence[Prompt], has_template: bool, bad_golds: int
) -> list[Finding]:
    """Find settings that are valid but probably not intended, a chat template that is missing or
    drops the problem, and gold answers that the verifier cannot read."""
    critic, drawn, count = config.algorithm.critic, config.rollout.prompts, len(prompts)
    texts = []
    if not config.optim.lr:
        texts.append("the learning rate is 0, so the policy will not change: set --lr")
    if critic is not None and config.steps <= critic.warmup:
        text = f"in the first {critic.warmup} steps only the critic learns"
        texts.append(f"{text}: raise --steps or lower algorithm.advantage.critic.warmup")
    if drawn > count:
        text = f"a step draws {drawn} of {count} problems, some several times"
        texts.append(f"{text}: lower --prompts or add problems")
    if not has_template:
        texts.append(NO_TEMPLATE)
    findings = [Finding(text) for text in texts]
    lost = sum(prompt.problem.problem.strip() not in prompt.text for prompt in prompts)
    if has_template and lost:
        text = f"the chat template changes the text of {lost} of {count} problems (prompt above)"
        findings.append(Finding(f"{text}: take a model with another", is_error=lost == count))
    if bad_golds:
        text = f"{bad_golds} of {count} gold answers cannot be read, so these problems never train"
        findings.append(Finding(f"{text}: mend them", is_error=bad_golds == count))
    return findings


def of_memory(memory: Memory, config: Config) -> tuple[Lines, list[Finding]]:
    """Return a line of what is needed by phase and part, and as a finding a need for more than is
    free, with settings that would need less. What cannot fit at all was refused before loading."""
    need, free = memory.needed(config), memory.machine.free
    phases = {"always": need.always, "to sample": need.sampling, "to update": need.updating}
    listing = "; ".join(
        f"{phase} " + ", ".join(f"{name} {size / GIB:.2f}" for name, size in parts.items())
        for phase, parts in phases.items()
        if parts
    )
    line = f"{free / GIB:.1f} GiB free, at most {need.peak / GIB:.2f} needed: {listing}"
    findings = []
    if need.peak > free:
        findings.append(Finding(f"{need.shortage(free)}: {memory.advice(config)}"))
    return [("memory", line)], findings


def of_probe(
    groups: Sequence[Group], learns: bool, data: DataConfig, has_format: bool
) -> tuple[Lines, list[Finding]]:
    """Return the probe in a line, with the share in the format if one is required, and as findings
    a policy that gives nothing to learn from, or hardly anything."""
    metrics, texts = rollout_metrics(groups), list[str]()
    verdicts, right = metrics["verdicts"], metrics["format_share"]
    responses, judged = sum(len(group.rollouts) for group in groups), sum(verdicts.values())
    parts = [
        *([f"format right {right:.0%}"] if has_format and judged else []),
        f"correct {verdicts.get('correct', 0) / max(1, judged):.0%}",
        f"mixed groups {metrics['mixed_share']:.0%}",
        f"cut off {metrics['cut_off_share']:.0%}",
    ]
    own = {name: mean for name, mean in metrics.items() if name.startswith("reward/")}
    parts += [f"{name} {mean:.3g}" for name, mean in own.items() if mean is not None]
    line = f"{len(groups)} problems, {responses} responses: {', '.join(parts)}"
    if has_format and judged and not right:
        other = "" if data.prompt == "boxed" else " --set data.prompt=boxed"
        text = f"no response had the format {data.answer_format}, so none can be rewarded"
        remedy = f"judge any form with --set data.answer_format=any{other}"
        texts.append(f"{text}: {remedy}, or take a model that writes it")
    if learns and judged and own and not verdicts.get("correct"):
        texts.append(f"no response of the probe is right: {MATH_EARNS_NOTHING}: {MORE_SIGNAL}")
    if not learns:
        verdict_counts = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items())
        text = f"the probe found no signal: on {len(groups)} problems nothing sets right responses"
        texts.append(f"{text} apart from wrong ones ({verdict_counts}): {MORE_SIGNAL}")
    if metrics["cut_off_share"] > _OFTEN:
        text = f"{metrics['cut_off_share']:.0%} of the responses were cut off at --max-tokens"
        texts.append(f"{text}: raise it, or take a model whose responses end")
    return [("probe", line)], [Finding(text) for text in texts]
