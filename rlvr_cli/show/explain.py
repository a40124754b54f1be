"""Walk through one step of a run in its own numbers and settings."""

import json
import math
import statistics
from collections import Counter
from collections.abc import Sequence

from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.runs.run_dir import StoredTokens
from rlvr_cli.show.source import Source, reason

_REASON, _TEXT, _FURTHEST = 48, 24, 6
_MOVES = {
    "approx_kl": "While it was updated the policy was {:.2g} nats a token from the one that "
    "sampled (mean of old less new log-probability before each mini-batch: 0 at the first).",
    "ref_kl": "From the reference it was {:.2g} nats a token.",
    "grad_norm": "The gradient was {:.3g} long.",
    "lr": "The learning rate was {:.2g}.",
    "entropy": "The entropy was {:.3f} nats.",
    "held_out_pass@1": "On held-out problems pass@1 was then {:.3f}.",
}
"""A sentence on how the policy moved, by metric."""


def explain(run: Source, step: int | None, number: int | None, display: Display) -> None:
    """Explain a step (by default the newest) by one of its groups (by default one that trained).
    Raises UserError where there is no such step or group."""
    config = run.config
    assert config is not None
    history = {row["step"]: row for row in run.metrics}
    if step is None:
        sampled = {at for at, path in run.files.items() if path.stat().st_size}
        step = max(history.keys() & sampled, default=None)
    if step is None:
        raise UserError(f"--explain: {run.path} has no finished step with responses")
    groups, tokens, metrics = list(run.groups(step)), run.tokens(step), history.get(step, {})
    chosen = [group for group in groups if number in (None, group.number)]
    if not groups:
        left = "it trained groups that an earlier step had left over"
        raise UserError(f"--explain: step {step} of {run.path} sampled none; {left}")
    if not chosen:
        raise UserError(f"--group {number}: step {step} of {run.path} has {len(groups)} groups")
    group = min(chosen, key=lambda group: (group.number not in tokens, group.fate != "trained"))
    algo, first = config.algorithm, group.rows[0]
    rows = [row for group in groups for row in group.rows]
    lengths = [row["n_tokens"] or 0 for row in group.judged] or [0]
    rewards = [reward for reward, _ in group.paid.values()]
    mean = statistics.fmean(rewards) if rewards else math.nan
    verdicts, fates = (
        ", ".join(f"{count} {name}" for name, count in Counter(names).most_common())
        for names in ((row["verdict"] for row in rows), (group.fate for group in groups))
    )
    # The table of advantages: those that the update saw, where they were stored.
    stored = {of.sample: of.figures["advantage"] for of in tokens.get(group.number, ())}
    compared = [["sample", "reward", "advantage", "tokens"]]
    for row in group.rows:
        reward, value = group.paid.get(row["sample"], (None, None))
        values = stored.get(row["sample"]) or ([] if value is None else [value])
        ends = [f"{end:+.3f}" for end in (min(values), max(values))] if values else ["-"]
        name = f"{row['sample']} {row['verdict']}: {reason(row)}"[:_REASON]
        paid = "-" if reward is None else f"{reward:+.3f}"
        compared.append([name, paid, " to ".join(dict.fromkeys(ends)), str(row["n_tokens"])])
    of_tokens, furthest = _furthest([of for of_group in tokens.values() for of in of_group])
    moves = [form.format(metrics[key]) for key, form in _MOVES.items() if metrics.get(key)]
    if metrics.get("no_update"):
        what = "The rewards trained nothing" if "lr" in metrics else "No update"
        moves.insert(0, f"{what}: {metrics['no_update']}.")
    parts = {
        "1 sample": f"The policy answered {plural(len(groups), 'problem')} {len(group.rows)} times "
        f"each, in {plural(metrics.get('gen_batches', 1), 'round')}: "
        f"{sum(row['n_tokens'] or 0 for row in rows):,} tokens.",
        "2 judge": f"Rules compare each answer with the gold one: {verdicts}.",
        "3 compare": f"Take group {group.number}: {shortened(str(first['problem']))} Gold: "
        f"{shortened(str(first['answer']))}. Its rewards' mean is {mean:.3f}; advantages are by "
        f"{algo.advantage}.",
        "4 choose": f"Of {plural(len(groups), 'group')}: {fates} (algorithm.filter "
        f"{algo.filter or 'none'}). {metrics.get('groups_trained', 0)} trained in this step, "
        f"{metrics.get('groups_carried', 0)} wait for the next.",
        "5 clip": f"The surrogate is {algo.surrogate}. Its bound was at work on "
        f"{metrics.get('clip_fraction') or 0:.2%} of the tokens. Its equation is in "
        f"rlvr_cli/algorithm/objective.py.{of_tokens}",
        "6 average": f"The loss is averaged by {algo.aggregation}. In this group the longest "
        f"response has {max(lengths)} of {sum(lengths)} tokens. KL: {algo.kl or 'none'}.",
        "7 length": f"A response ends at {config.rollout.max_tokens} tokens; overlong is "
        f"{algo.overlong or 'none'}. {sum(row['finish_reason'] == 'length' for row in rows)} of "
        f"{len(rows)} responses were cut off.",
        "8 move": " ".join(moves),
    }
    display.lines([f"Step {step} of {run.path}: {config.algo}", ""])
    for label, text in parts.items():
        display.say(label, text)
        if label == "3 compare" or (label == "5 clip" and furthest):
            display.table(compared if label == "3 compare" else furthest)


def _furthest(responses: Sequence[StoredTokens]) -> tuple[str, list[list[str]]]:
    """Count the stored tokens that had moved when last updated, in words, and tabulate those that
    moved furthest; return nothing where none was stored."""
    if not responses:
        return "", []
    tokens: list[tuple[float, list[str]]] = []
    for response in responses:
        for text, *figures in zip(response.text, *response.figures.values(), strict=True):
            quoted = json.dumps(text, ensure_ascii=False)[:_TEXT]
            cells = [quoted, f"{response.group}.{response.sample}"]
            cells += map("{:.3f}".format, figures[:4])
            tokens.append((math.log(max(figures[1], 1e-9)), cells))
    up, down = (sum(side * moved > 0 for moved, _ in tokens) for side in (1, -1))
    words = (
        f" Kept are {len(tokens)} tokens of {plural(len(responses), 'response')}: {up} had become "
        f"likelier when the update last saw them, {down} less likely, {len(tokens) - up - down} "
        "had not moved (none has before the first update)."
    )
    tokens.sort(key=lambda token: -abs(token[0]))
    moved = [cells for distance, cells in tokens if distance]
    header = ["furthest", "response", "log-prob", "ratio", "advantage", "entropy"]
    return words, [header, *moved[:_FURTHEST]] if moved else []
