"""Check in seconds, before the first step, whether a run would learn anything."""

import random
import statistics
from collections.abc import Sequence
from dataclasses import replace

from rlvr_cli.algorithm.group_filter import trains, with_signal
from rlvr_cli.algorithm.loss import rejected
from rlvr_cli.config import Config
from rlvr_cli.config.sections import DataConfig
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import Finding, UserError
from rlvr_cli.core.seeds import response_seed
from rlvr_cli.core.text import GIB, counts_in_words
from rlvr_cli.core.types import Group, Prompt
from rlvr_cli.data.problems import unreadable_golds
from rlvr_cli.data.prompts import writes_date
from rlvr_cli.evaluation.measure import rollout_metrics
from rlvr_cli.runs.guards import MATH_EARNS_NOTHING, MORE_SIGNAL, REJECTS_LESS
from rlvr_cli.setup.memory import Memory, Parts
from rlvr_cli.setup.prompts import NO_TEMPLATE
from rlvr_cli.setup.session import Session
from rlvr_cli.training.scoring import add_logprobs
from rlvr_cli.training.trainer import Trainer

# A few seconds' work, and enough to see a signal if there is one.
_PROBE_PROBLEMS = 8
# Of a prompt that is shown.
_SHOWN_CHARACTERS = 600
# The share of responses cut off that is worth a warning.
_MUCH_CUT_OFF = 0.5
Lines = Sequence[tuple[str, str]]
"""Observations, each with its label."""
Review = tuple[Lines, list[Finding]]


def preflight(
    session: Session, prompts: Sequence[Prompt], strict: bool, display: Display
) -> list[Group]:
    """Check the data, then the memory, then a few responses of the policy. Return these responses.

    Responses that the rows give are not tried. Raises UserError if the run cannot go well, with
    `strict` also for a probe without a signal.

    Nothing long starts after an error. The probe's responses have seeds of their own, so a run with
    a probe is the same as one without.
    """
    config = session.plan.config
    settle(*review_data(session, prompts), display)
    longest = max(len(prompt.token_ids) for prompt in prompts)
    memory = replace(session.memory, prompt_tokens=longest)
    settle(*review_memory(memory, config, not session.engine.has_adapter), display)
    if config.algorithm.reads_responses:
        return []
    # A reward function that fails is reported before anything is sampled.
    lines = session.rewarder.rehearse(prompts[0].problem)
    settle([], [Finding(line) for line in lines], display)
    groups = _sample_probe(session, prompts)
    learns = _has_signal(groups, config)
    has_format = session.plan.answer_format != "any"
    probe_lines, findings = review_probe(groups, learns, config.data, has_format)
    if strict and not learns:
        findings.append(
            Finding(
                "a run like this would learn nothing: see the warning about the probe",
                is_error=True,
            )
        )
    settle(probe_lines, findings, display)
    return groups


def review_correction(trainer: Trainer, groups: Sequence[Group]) -> Review:
    """Return a line on the share of the probe that the correction rejects, and a warning if that is
    much. Return nothing if the correction never rejects, or if no response may train."""
    config = trainer.config
    algo = config.algorithm
    if algo.correction is None or not algo.correction.rejects:
        return [], []
    samples = trainer.samples_of(groups)
    if not len(samples):
        return [], []
    engine = trainer.session.engine
    engine.sleep()
    add_logprobs(samples, algo, config.optim.micro_tokens, trainer.policy)
    trainer.session.push_weights()
    engine.wake()
    is_rejected = rejected(samples, algo)
    assert is_rejected is not None
    share = float(is_rejected.double().mean())
    text = f"{algo.correction.kind} would reject {share:.0%} of the {len(samples)} responses"
    findings = []
    if share > config.guards.rejected_share:
        findings.append(Finding(f"{text}: {REJECTS_LESS} (guards.rejected_share)"))
    return [("correction", text)], findings


def settle(lines: Lines, findings: Sequence[Finding], display: Display) -> None:
    """Show a check's warnings, and in detail its lines. Raises UserError if one of its findings is
    an error."""
    for label, text in lines:
        display.detail(label, text)
    for finding in findings:
        if not finding.is_error:
            display.warn(finding.text)
    errors = [finding.text for finding in findings if finding.is_error]
    if errors:
        raise UserError("\n".join(errors))


def review_data(session: Session, prompts: Sequence[Prompt]) -> Review:
    """Return lines on first prompt, golds and lengths, and faults of settings and problems."""
    config = session.plan.config
    tokenizer = session.policy.tokenizer
    text = prompts[0].text
    if len(text) > _SHOWN_CHARACTERS:
        half = _SHOWN_CHARACTERS // 2
        text = f"{text[:half]} … {text[-half:]}"
    opening = "opens <think> by itself" if prompts[0].think_open else "leaves <think> to the policy"
    stops = map(str, tokenizer.convert_ids_to_tokens(list(session.policy.stop_ids)))
    template = f"{opening}; a response ends with {' or '.join(stops)}"
    if config.data.date is not None and writes_date(tokenizer):
        template += f"; it writes the date, {config.data.date:%Y-%m-%d}"
    lines = [("prompt", text), ("template", template)]
    bad_golds = 0
    judged = to_judge(prompts, config)
    if judged:
        problems = [prompt.problem for prompt in judged]
        bad_golds = len(unreadable_golds(problems, session.sampler.verifier))
        lines.append(("golds", f"{len(judged) - bad_golds} of {len(judged)} can be read"))
    lengths = [len(prompt.token_ids) for prompt in prompts]
    text = (
        f"prompts of {statistics.median(lengths):.0f} tokens (longest {max(lengths)}), responses "
        f"of at most {config.rollout.max_tokens}, context {session.policy.context}"
    )
    lines.append(("lengths", text))
    return lines, data_findings(config, prompts, tokenizer.chat_template is not None, bad_golds)


def to_judge(prompts: Sequence[Prompt], config: Config) -> list[Prompt]:
    """Return the prompts whose responses are judged: those with a gold answer. Responses that the
    rows give are not judged."""
    if config.algorithm.reads_responses:
        return []
    return [prompt for prompt in prompts if prompt.problem.answer is not None]


def data_findings(
    config: Config, prompts: Sequence[Prompt], has_template: bool, bad_golds: int
) -> list[Finding]:
    """Find settings that are valid but probably not intended, and problems that cannot train.

    Those are problems whose text the chat template drops, and gold answers that the verifier
    cannot read.
    """
    critic = config.algorithm.critic
    batch = config.rollout.prompts
    count = len(prompts)
    texts = []
    if not config.optim.lr:
        texts.append("the learning rate is 0, so the policy will not change: set --lr")
    if critic is not None and config.steps <= critic.warmup:
        texts.append(
            f"in the first {critic.warmup} steps only the critic learns: raise --steps or lower "
            "algorithm.advantage.critic.warmup"
        )
    if batch > count:
        texts.append(
            f"a step draws {batch} of {count} problems, some several times: lower --prompts or add "
            "problems"
        )
    if not has_template:
        texts.append(NO_TEMPLATE)
    rollout = config.rollout
    if rollout.ahead and not config.samples_beside:
        texts.append(
            "rollout.ahead without --rollout-server: sampling and training take turns on this "
            "machine, so older weights sample and nothing is faster: leave it out"
        )
    findings = [Finding(text) for text in texts]
    changed = sum(prompt.problem.problem.strip() not in prompt.text for prompt in prompts)
    if has_template and changed:
        text = (
            f"the chat template changes the text of {changed} of {count} problems (-v shows the "
            "prompt): take a model with another"
        )
        findings.append(Finding(text, is_error=changed == count))
    if bad_golds and config.algorithm.needs_verdicts and config.data.answers is None:
        text = (
            f"{bad_golds} of {count} gold answers cannot be read, so these problems never train: "
            "mend them"
        )
        findings.append(Finding(text, is_error=bad_golds == count))
    return findings


def review_memory(memory: Memory, config: Config, dequantizes: bool | None = None) -> Review:
    """Return a line on what is needed, and a warning if that is more than is free.

    The line has each phase and part, the warning settings that need less. What cannot fit at all
    was refused before loading. `dequantizes`: as the engine does (`Memory.needed`).
    """
    need = memory.needed(config, dequantizes)
    free = memory.machine.free
    phases = {"always": need.always, "to sample": need.sampling, "to update": need.updating}
    listing = "; ".join(f"{phase} {_listed(parts)}" for phase, parts in phases.items() if parts)
    line = f"{free / GIB:.1f} GiB free, at most {need.peak / GIB:.2f} needed: {listing}"
    findings = []
    if need.peak > free:
        findings.append(Finding(f"{need.shortage(free)}: {memory.advice(config)}"))
    return [("memory", line)], findings


def _listed(parts: Parts) -> str:
    return ", ".join(f"{name} {size / GIB:.2f}" for name, size in parts.items())


def _sample_probe(session: Session, prompts: Sequence[Prompt]) -> list[Group]:
    """Sample, judge and reward responses to a few problems, as in training."""
    seed = session.plan.config.seed
    count = min(_PROBE_PROBLEMS, len(prompts))
    numbers = random.Random(f"{seed}:preflight").sample(range(len(prompts)), count)
    seeds = [response_seed(seed, "preflight", number) for number in numbers]
    probe = [prompts[number] for number in numbers]
    completions = session.sampler.stream(probe, session.plan.training, seeds)
    return session.sampler.judge(probe, completions, session.rewarder)


def _has_signal(groups: Sequence[Group], config: Config) -> bool:
    """Return whether a run on these groups would learn what it is rewarded for."""
    algo = config.algorithm
    trained = [group for group in groups if trains(group, algo)]
    weightless = config.reward.weightless
    return bool(with_signal(trained, algo, config.rollout.max_tokens, weightless)) and any(
        rollout.is_correct or rollout.rewards or not algo.needs_verdicts
        for group in trained
        for rollout in group.rollouts
    )


def review_probe(
    groups: Sequence[Group], learns: bool, data: DataConfig, has_format: bool
) -> Review:
    """Return a line on the probe, and warnings if there is nothing to learn from, or hardly any.

    The line has the share in the required format, if one is required.
    """
    sampled = rollout_metrics(groups)
    verdicts = sampled.verdicts
    format_share = sampled.format_share
    cut_off_share = sampled.cut_off_share or 0.0
    cut_off = f"{cut_off_share:.0%}"
    responses = sum(len(group.rollouts) for group in groups)
    judged = sum(verdicts.values())
    parts = [f"cut off {cut_off}"]
    if judged:
        parts.insert(0, f"mixed groups {sampled.mixed_share:.0%}")
        parts.insert(0, f"correct {verdicts.get('correct', 0) / judged:.0%}")
    if has_format and judged:
        parts.insert(0, f"format right {format_share:.0%}")
    for name, mean in sampled.rewards.items():
        if mean is not None:
            parts.append(f"reward/{name} {mean:.3g}")
    line = f"{len(groups)} problems, {responses} responses: {', '.join(parts)}"
    texts = list[str]()
    if has_format and judged and not format_share:
        prompt = "" if data.prompt == "boxed" else " --set data.prompt=boxed"
        texts.append(
            f"no response had the format {data.answer_format}, so none can be rewarded: judge any "
            f"form with --set data.answer_format=any{prompt}, or take a model that writes it"
        )
    if learns and judged and sampled.rewards and not verdicts.get("correct"):
        texts.append(f"no response of the probe is right: {MATH_EARNS_NOTHING}: {MORE_SIGNAL}")
    if not learns:
        texts.append(
            f"the probe found no signal: on {len(groups)} problems nothing sets right responses "
            f"apart from wrong ones ({counts_in_words(verdicts)}): {MORE_SIGNAL}"
        )
    if cut_off_share > _MUCH_CUT_OFF:
        texts.append(
            f"{cut_off} of the responses were cut off at --max-tokens: raise it, or take a model "
            "whose responses end"
        )
    return [("probe", line)], [Finding(text) for text in texts]
