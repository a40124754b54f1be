"""Walk through one step of a run in its own numbers and settings."""

import json
import math
import statistics
from collections import Counter
from collections.abc import Sequence

from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.step_figures import StepFigures
from rlvr_cli.core.text import counts_in_words, plural, shortened
from rlvr_cli.runs.stored import StoredTokens
from rlvr_cli.show.source import Source, StoredGroup, reason

_REASON, _TEXT = 48, 24
"""The most characters of a response's reason and of a token in the tables."""
_FURTHEST = 6
"""The most tokens in the table of those that moved furthest."""


def explain(run: Source, step: int | None, number: int | None, display: Display) -> None:
    """Explain a step in words and numbers, with one of its groups as the example.

    The newest step is the default, and a group that trained. Raises UserError for an unknown step
    or group.
    """
    config = run.config
    assert config is not None
    history = {figures.step: figures for figures in run.metrics}
    if step is None:
        with_responses = {stored for stored, path in run.files.items() if path.stat().st_size}
        step = max(history.keys() & with_responses, default=None)
    if step is None:
        raise UserError(f"--explain: {run.path} has no finished step with responses")
    groups = list(run.groups(step))
    tokens = run.tokens(step)
    figures = history.get(step, StepFigures(step))
    batch = figures.batch
    if not groups:
        raise UserError(
            f"--explain: step {step} of {run.path} sampled none; it trained groups that an earlier "
            "step had left over"
        )
    choices = [group for group in groups if number in (None, group.number)]
    if not choices:
        raise UserError(f"--group {number}: step {step} of {run.path} has {len(groups)} groups")
    group = min(choices, key=lambda group: (group.number not in tokens, group.fate != "trained"))

    algo = config.algorithm
    responses = [response for group in groups for response in group.members]
    lengths = [response.n_tokens or 0 for response in group.judged] or [0]
    rewards = [score.reward for score in group.scores.values()]
    mean = statistics.fmean(rewards) if rewards else math.nan
    verdicts = _tally([str(response.verdict) for response in responses])
    fates = _tally([group.fate for group in groups])
    movement, furthest = _furthest([response for stored in tokens.values() for response in stored])

    display.lines([f"Step {step} of {run.path}: {config.algo}", ""])
    display.say(
        "1 sample",
        f"The policy answered {plural(len(groups), 'problem')} {len(group.members)} times each, in "
        f"{plural(batch.gen_batches, 'round')}: "
        f"{sum(response.n_tokens or 0 for response in responses):,} tokens.",
    )
    display.say("2 judge", f"Rules compare each answer with the gold one: {verdicts}.")
    display.say(
        "3 compare",
        f"Take group {group.number}: {shortened(group.problem.problem)} Gold: "
        f"{shortened(str(group.problem.answer))}. Its rewards' mean is {mean:.3f}; advantages are "
        f"by {algo.advantage}.",
    )
    display.table(_advantages(group, tokens.get(group.number, ())))
    display.say(
        "4 choose",
        f"Of {plural(len(groups), 'group')}: {fates} (algorithm.filter {algo.filter or 'none'}). "
        f"{batch.groups_trained} trained in this step, {batch.groups_carried} wait for the next.",
    )
    display.say(
        "5 clip",
        f"The surrogate is {algo.surrogate}. Its bound was at work on "
        f"{figures.update.clip_fraction or 0:.2%} of the tokens. Its equation is in "
        f"rlvr_cli/algorithm/objective.py.{movement}",
    )
    if furthest:
        display.table(furthest)
    display.say(
        "6 average",
        f"The loss is averaged by {algo.aggregation}. In this group the longest response has "
        f"{max(lengths)} of {sum(lengths)} tokens. KL: {algo.kl or 'none'}.",
    )
    display.say(
        "7 length",
        f"A response ends at {config.rollout.max_tokens} tokens; overlong is "
        f"{algo.overlong or 'none'}. "
        f"{sum(response.is_cut_off for response in responses)} of {len(responses)} responses were "
        "cut off.",
    )
    display.say("8 move", " ".join(_moves(figures)))


def _moves(figures: StepFigures) -> list[str]:
    """Return sentences on how the policy moved, those that have a figure."""
    update = figures.update
    forms = [
        (
            "While it was updated the policy was {:.2g} nats a token from the one that sampled "
            "(mean of old less new log-probability before each mini-batch: 0 at the first).",
            update.approx_kl,
        ),
        ("From the reference it was {:.2g} nats a token.", update.ref_kl),
        ("The gradient was {:.3g} long.", update.grad_norm),
        ("The learning rate was {:.2g}.", update.lr),
        ("The entropy was {:.3f} nats, over the tokens that the update passed.", update.entropy),
        (
            "Over all sampled tokens it was {:.3f}, by the engine.",
            figures.sampled.sampled_entropy,
        ),
        ("On held-out problems pass@1 was then {:.3f}.", figures.measured),
    ]
    moves = [form.format(value) for form, value in forms if value]
    if figures.batch.no_update:
        subject = "No update" if update.lr is None else "The rewards trained nothing"
        moves.insert(0, f"{subject}: {figures.batch.no_update}.")
    return moves


def _tally(names: Sequence[str]) -> str:
    """Count names in words, the commonest first."""
    return counts_in_words(dict(Counter(names).most_common()))


def _advantages(group: StoredGroup, responses: Sequence[StoredTokens]) -> list[list[str]]:
    """Tabulate rewards and advantages: those that the update saw, if they were stored."""
    stored = {
        response.sample: response.figures["advantage"]
        for response in responses
        if response.figures is not None
    }
    table = [["sample", "reward", "advantage", "tokens"]]
    for response in group.members:
        score = group.scores.get(response.sample)
        reward = "-" if score is None else f"{score.reward:+.3f}"
        values = stored.get(response.sample, [])
        if not values and score is not None and score.advantage is not None:
            values = [score.advantage]
        ends = [f"{end:+.3f}" for end in (min(values), max(values))] if values else ["-"]
        name = f"{response.sample} {response.verdict}: {reason(response)}"[:_REASON]
        table.append([name, reward, " to ".join(dict.fromkeys(ends)), str(response.n_tokens)])
    return table


def _furthest(responses: Sequence[StoredTokens]) -> tuple[str, list[list[str]]]:
    """Count the stored tokens that had moved when last updated, and tabulate the furthest.

    Return "" and no table if no response was stored.
    """
    if not responses:
        return "", []
    scored = [response for response in responses if response.figures is not None]
    n_null = len(responses) - len(scored)
    tokens: list[tuple[float, list[str]]] = []
    for response in scored:
        columns = (response.figures or {}).values()
        for text, *figures in zip(response.text, *columns, strict=True):
            quoted = json.dumps(text, ensure_ascii=False)[:_TEXT]
            cells = [quoted, f"{response.group}.{response.sample}"]
            cells += map("{:.3f}".format, figures[:4])
            tokens.append((math.log(max(figures[1], 1e-9)), cells))
    up = sum(log_ratio > 0 for log_ratio, _ in tokens)
    down = sum(log_ratio < 0 for log_ratio, _ in tokens)
    words = (
        f" Kept are {len(tokens)} tokens of {plural(len(scored), 'response')}: {up} had become "
        f"likelier when the update last saw them, {down} less likely, {len(tokens) - up - down} "
        "had not moved (none has before the first update)."
    )
    if n_null:
        words += (
            f" The update did not pass {plural(n_null, 'further response')}, whose advantages are "
            "0: the figures of their tokens are null."
        )
    tokens.sort(key=lambda token: -abs(token[0]))
    lines = [cells for log_ratio, cells in tokens if log_ratio]
    header = ["furthest", "response", "log-prob", "ratio", "advantage", "entropy"]
    return words, [header, *lines[:_FURTHEST]] if lines else []
