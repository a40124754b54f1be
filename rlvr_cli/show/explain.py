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
"""How the policy moved, by metric."""


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
    chosen = [one for one in groups if number in (None, one.number)]
    if not groups:
        left = "it trained groups that an earlier step had left over"
        raise UserError(f"--explain: step {step} of {run.path} sampled none; {left}")
    if not chosen:
        raise UserError(f"--group {number}: step {step} of {run.path} has {len(groups)} groups")
    group = min(chosen, key=lambda one: (one.number not in tokens, one.fate != "trained"))
    algo, first = config.algorithm, group.rows[0]
    rows = [row for one in groups for row in one.rows]
    lengths = [row["n_tokens"] or 0 for row in group.judged] or [0]
    paid = [reward for reward, _ in group.paid.values()]
    verdicts, fates = (
        ", ".join(f"{count} {name}" for name, count in Counter(names).most_common())
        for names in ((row["verdict"] for row in rows), (one.fate for one in groups))
    )
    recorded = {one.sample: one.figures["advantage"] for one in tokens.get(group.number, ())}
    compared = [["sample", "reward", "advantage", "tokens"]]
    for row in group.rows:  # advantages are those that the update saw, where they were kept
        reward, value = group.paid.get(row["sample"], (None, None))
        seen = recorded.get(row["sample"]) or ([] if value is None else [value])
        ends = dict.fromkeys(f"{end:+.3f}" for end in (min(seen), max(seen))) if seen else ["-"]
        name = f"{row['sample']} {row['verdict']}: {reason(row)}"[:_REASON]
        shown = "-" if reward is None else f"{reward:+.3f}"
        compared.append([name, shown, " to ".join(ends), str(row["n_tokens"])])
    kept, furthest = _furthest([one for listed in tokens.values() for one in listed])
    moves = [form.format(metrics[key]) for key, form in _MOVES.items() if metrics.get(key)]
    if metrics.get("no_update"):
        moves.insert(0, f"No update: {metrics['no_update']}.")
    said = {
        "1 sample": f"The policy answered {plural(len(groups), 'problem')} {len(group.rows)} times "
        f"each, in {plural(metrics.get('gen_batches', 1), 'round')}: "
        f"{sum(row['n_tokens'] or 0 for row in rows):,} tokens.",
        "2 judge": f"Rules compare each answer with the gold one: {verdicts}.",
        "3 compare": f"Take group {group.number}: {shortened(str(first['problem']))} Gold: "
        f"{shortened(str(first['answer']))}. Its rewards' mean is "
        f"{statistics.fmean(paid) if paid else math.nan:.3f}; advantages are by {algo.advantage}.",
        "4 choose": f"Of {plural(len(groups), 'group')}: {fates} (algorithm.filter {algo.filter}). "
        f"{metrics.get('groups_trained', 0)} trained in this step, "
        f"{metrics.get('groups_carried', 0)} wait for the next.",
        "5 clip": f"The surrogate is {algo.surrogate}. It took the gradient of "
        f"{metrics.get('clip_fraction') or 0:.2%} of the tokens.{kept}",
        "6 average": f"The loss is averaged by {algo.aggregation}. In this group the longest "
        f"response has {max(lengths)} of {sum(lengths)} tokens. KL to the reference: {algo.kl}.",
        "7 length": f"A response ends at {config.rollout.max_tokens} tokens; overlong is "
        f"{algo.overlong}. {sum(row['finish_reason'] == 'length' for row in rows)} of {len(rows)} "
        "responses were cut off.",
        "8 move": " ".join(moves),
    }
    display.lines([f"Step {step} of {run.path}: {config.algo}", ""])
    for label, text in said.items():
        display.say(label, text)
        if label == "3 compare" or (label == "5 clip" and furthest):
            display.table(compared if label == "3 compare" else furthest)


def _furthest(responses: Sequence[StoredTokens]) -> tuple[str, list[list[str]]]:
    """Say how many kept tokens had moved when last updated, and tabulate which of them furthest;
    nothing where none was kept."""
    if not responses:
        return "", []
    listed: list[tuple[float, list[str]]] = []
    for one in responses:
        for text, *figures in zip(one.text, *one.figures.values(), strict=True):
            place = [json.dumps(text, ensure_ascii=False)[:_TEXT], f"{one.group}.{one.sample}"]
            cells = [*place, *map("{:.3f}".format, figures[:4])]
            listed.append((math.log(max(figures[1], 1e-9)), cells))
    up, down = (sum(side * moved > 0 for moved, _ in listed) for side in (1, -1))
    kept = (
        f" Kept are {len(listed)} tokens of {plural(len(responses), 'response')}: {up} had become "
        f"likelier when the update last saw them, {down} less likely, {len(listed) - up - down} "
        "had not moved (none has before the first update)."
    )
    moved = [cells for far, cells in sorted(listed, key=lambda one: -abs(one[0])) if far]
    header = ["furthest", "response", "log-prob", "ratio", "advantage", "entropy"]
    return kept, [header, *moved[:_FURTHEST]] if moved else []
