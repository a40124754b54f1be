"""Walk through one step of a run in words (explain.txt) and its own numbers."""

import json
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.kinds import Clip, DualClip, SoftOverlong
from rlvr_cli.config import Config
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.runs.stored import StoredTokens
from rlvr_cli.show.source import ShownGroup, Source, as_trained, reason, trained

Recorded = Mapping[int, Sequence[float]]
"""The advantages of a response's tokens as the update saw them, by the number of the response."""
_REASON, _TEXT, _FURTHEST = 48, 24, 6
_SMALL, _ROUNDED = 1e-6, 2e-3
_WORDS = resources.files("rlvr_cli") / "show" / "explain.txt"


def explain(run: Source, step: int | None, number: int | None, display: Display) -> None:
    """Explain a step (by default the newest) by one of its groups (by default one that trained).
    Raises UserError where there is no such step or group."""
    config = run.config
    assert config is not None
    history = {row["step"]: row for row in run.metrics}
    step = step if step is not None else max(history.keys() & run.files.keys(), default=None)
    if step is None:
        raise UserError(f"--explain: {run.path} has no finished step with responses")
    groups, tokens = list(run.groups(step)), run.tokens(step)
    chosen = [one for one in groups if number in (None, one.number)]
    chosen.sort(key=lambda one: (one.number not in tokens, trained(one, config) != "trained"))
    if not chosen:
        raise UserError(f"--group {number}: step {step} of {run.path} has {len(groups)} groups")
    display.lines([f"Step {step} of {run.name}: {config.algo}", ""])
    recorded = {one.sample: one.figures["advantage"] for one in tokens.get(chosen[0].number, ())}
    said = figures(groups, chosen[0], history.get(step, {}), config, recorded)
    for line in _WORDS.read_text(encoding="utf-8").splitlines():
        label, _, words = line.partition("|")
        display.say(label, words.format_map(said))
        if label == "3 compare":
            display.table(_rows(chosen[0], config, recorded))
        if label == "5 clip" and tokens:
            _show_furthest([one for listed in tokens.values() for one in listed], display)


def figures(
    groups: Sequence[ShownGroup],
    group: ShownGroup,
    metrics: Mapping[str, Any],
    config: Config,
    recorded: Recorded,
) -> dict[str, Any]:
    """Return what explain.txt names; `recorded` are advantages that the update saw."""
    rows, algo = [row for one in groups for row in one.rows], config.algorithm
    verdicts = Counter(row["verdict"] for row in rows).most_common()
    lengths = [row["n_tokens"] or 0 for row in group.judged] or [0]
    longest, total = max(lengths), max(1, sum(lengths))
    entropy = metrics.get("entropy")
    return {
        "problems": len(groups),
        "samples": len(group.rows),
        "rounds": plural(metrics.get("gen_batches", 1), "round"),
        "tokens": sum(row["n_tokens"] or 0 for row in rows),
        "verdicts": ", ".join(f"{count} {verdict}" for verdict, count in verdicts),
        "number": group.number,
        "asked": shortened(str(group.rows[0]["problem"])),
        "gold": shortened(str(group.rows[0]["answer"])),
        "baseline": _baseline(group, config, recorded),
        "sharing": _sharing(algo),
        "choice": _choice(groups, metrics, config),
        "clip": _clip(metrics, config),
        "aggregation": algo.aggregation,
        "longest": longest,
        "total": total,
        "weight": _weight(algo.aggregation, longest / total, 1 / len(lengths)),
        "penalty": _penalty(algo, metrics),
        "length": _length(rows, config),
        "cut": sum(row["finish_reason"] == "length" for row in rows),
        "responses": len(rows),
        "update": _update(metrics),
        "entropy": "not measured," if entropy is None else f"{entropy:.3f}",
    }


def _rows(group: ShownGroup, config: Config, recorded: Recorded) -> list[list[str]]:
    """Return the responses of a group below a header."""
    known = as_trained(group, config)
    lines = [["sample", "reward", "advantage", "tokens"]]
    for row in group.rows:
        reward, value = known.get(row["sample"], (None, None))
        seen = recorded.get(row["sample"]) or ([] if value is None else [value])
        ends = dict.fromkeys(f"{end:+.3f}" for end in (min(seen), max(seen))) if seen else ["-"]
        name = f"{row['sample']} {row['verdict']}: {reason(row)}"[:_REASON]
        shown = "-" if reward is None else f"{reward:+.3f}"
        lines.append([name, shown, " to ".join(ends), str(row["n_tokens"])])
    return lines


def _baseline(group: ShownGroup, config: Config, recorded: Recorded) -> str:
    known = as_trained(group, config)
    listed = ((sample, *pair) for sample, pair in known.items())
    first, reward, value = next((one for one in listed if one[2] is not None), (0, 0.0, None))
    if value is None:
        return "Its advantages also depend on the batch, a critic or a reference."
    seen = recorded.get(first, ())
    rewards = [each for each, _ in known.values()]
    kind, mean = config.algorithm.advantage, statistics.fmean(rewards)
    start = f"The rewards' mean is {mean:.3f}"
    if kind.kind == "group_normalized":
        deviation = (statistics.stdev if kind.deviation == "sample" else statistics.pstdev)(rewards)
        normalized = (reward - mean) / max(deviation, _SMALL)
        if all(abs(one - normalized) < _ROUNDED for one in (value, *(one for one in seen if one))):
            return (
                f"{start}, their deviation {deviation:.3f}. An advantage is "
                f"(reward - mean) / deviation: sample {first} has ({reward:g} - ({mean:.3f})) / "
                f"{deviation:.3f} = {value:+.3f}."
            )
    value = seen[0] if seen else value
    return f"{start}; by {kind.kind} sample {first} has {value:+.3f}."


def _sharing(algo: Algorithm) -> str:
    """Say what the tokens of a response have of its advantage."""
    if algo.critic is not None:
        return (
            "Each token has an advantage of its own, by GAE: what the rewards after it and the "
            "critic's value of its place add up to, less the critic's value here."
        )
    if algo.rewards_kl or getattr(algo.advantage, "gamma", 1.0) < 1:
        return "Each token has an advantage of its own, by the rewards after it."
    if algo.top_entropy is not None:
        return f"The {algo.top_entropy:.0%} tokens of highest entropy have it; the others have 0."
    return "All tokens of a response share its advantage."


def _weight(aggregation: str, by_token: float, by_response: float) -> str:
    """Say what the longest response of a group weighs in it."""
    if aggregation == "sequence_mean":
        return f"it weighs {by_response:.1%}, as each does (by tokens it would be {by_token:.1%})"
    return f"it weighs {by_token:.1%}, by its tokens (by sequence_mean {by_response:.1%})"


def _penalty(algo: Algorithm, metrics: Mapping[str, Any]) -> str:
    """Say what pulls towards the reference, if anything does."""
    if algo.kl is None or algo.kl.coef == 0:
        return ""
    place = "From the rewards goes" if algo.rewards_kl else "To the loss comes"
    known = metrics.get("ref_kl")
    now = "" if known is None else f", which is now {known:.2g} nats a token"
    return f" {place} {algo.kl.coef:g} times the {algo.kl.kind} estimate of the KL divergence{now}."


def _choice(groups: Sequence[ShownGroup], metrics: Mapping[str, Any], config: Config) -> str:
    algo, count = config.algorithm, len(groups)
    fates = Counter(group.fate for group in groups)
    same = ", ".join(f"{n} {fate}" for fate, n in fates.items() if fate != "mixed") or "none"
    if algo.filter is None:
        same = f"right and wrong: {same}" if fates.keys() - {"mixed"} else "all mixed"
        rewards = [{one.reward for one in group.group.judged} for group in groups]
        alike = sum(len(found) < 2 for found in rewards)
        return (
            f"Of {plural(count, 'group')} {alike} had one reward for all responses, which sets "
            f"nothing apart ({same}); without dynamic sampling they stay in the batch."
        )
    fresh = sum(trained(group, config) == "trained" for group in groups)
    took, left = metrics.get("groups_trained", 0), metrics.get("groups_carried", 0)
    before = max(0, took + left - fresh)
    waited = f"{before} had waited since earlier steps, " if before else ""
    return (
        f"Of {plural(count, 'group')} {count - fresh} were alike in {algo.filter.metric} ({same}) "
        f"and set nothing apart: dynamic sampling drops them and samples others until "
        f"{config.rollout.prompts} are not. {waited}{fresh} came, {took} trained, {left} "
        f"{'wait' if left != 1 else 'waits'} for the next step."
    )


def _clip(metrics: Mapping[str, Any], config: Config) -> str:
    surrogate, share = config.algorithm.surrogate, metrics.get("clip_fraction", 0)
    if surrogate.is_on_policy:
        return "There is no ratio and no clip: a token's gradient is weighed by its advantage."
    if not isinstance(surrogate, Clip | DualClip):
        return f"The surrogate {surrogate.kind} treats ratios in its own way; see docs/settings.md."
    low, high = surrogate.low, surrogate.high
    wider = ", more room upwards, so that rare tokens can become likely" * (high > low)
    return (
        f"A token's ratio is its probability now over that when sampled. Above {1 + high:g} (for "
        f"an advantage > 0) or below {1 - low:g} (< 0) it has no gradient{wider}. That was so for "
        f"{share:.2%} of the tokens."
    )


def _show_furthest(responses: Sequence[StoredTokens], display: Display) -> None:
    """Show how many kept tokens had moved when last updated, and which of them furthest."""
    listed = [
        (math.log(max(figures[1], 1e-9)), text, f"{one.group}.{one.sample}", figures)
        for one in responses
        for text, *figures in zip(one.text, *one.figures.values(), strict=True)
    ]
    up, down = (sum(side * one[0] > 0 for one in listed) for side in (1, -1))
    display.say(
        "",
        f"Kept are {len(listed)} tokens of {plural(len(responses), 'response')}: {up} had become "
        f"likelier when the update last saw them, {down} less likely, {len(listed) - up - down} "
        "had not moved (none has before the first update); the clip took the gradient of "
        f"{sum(figures[4] > 0 for *_, figures in listed)}.",
    )
    moved = [one for one in sorted(listed, key=lambda one: -abs(one[0])) if one[0]][:_FURTHEST]
    lines = [
        [json.dumps(text, ensure_ascii=False)[:_TEXT], place, *map("{:.3f}".format, figures[:4])]
        for _, text, place, figures in moved
    ]
    if lines:
        header = ["furthest", "response", "log-prob", "ratio", "advantage", "entropy"]
        display.table([header, *lines])


def _length(rows: Sequence[Mapping[str, Any]], config: Config) -> str:
    overlong, longest = config.algorithm.overlong, config.rollout.max_tokens
    if not isinstance(overlong, SoftOverlong):
        return f"At {longest} tokens a response ends; there is no soft penalty."
    start = longest * (1 - overlong.cache)
    long = sum((row["n_tokens"] or 0) > start for row in rows)
    return f"From {start:g} tokens on the reward falls, by 1 at {longest}: {long} were that long."


def _update(metrics: Mapping[str, Any]) -> str:
    if skipped := metrics.get("no_update"):
        return f"No update: {skipped}."
    forms = {
        "approx_kl": "While it was updated the policy was {:.2g} nats a token from the one that "
        "sampled (mean of old less new log-probability before each mini-batch: 0 at the first).",
        "grad_norm": "The gradient was {:.3g} long.",
        "lr": "The learning rate was {:.2g}.",
        "held_out_pass@1": "On held-out problems pass@1 was then {:.3f}.",
    }
    known = [(form, metrics.get(key)) for key, form in forms.items()]
    return " ".join(form.format(value) for form, value in known if value is not None)
