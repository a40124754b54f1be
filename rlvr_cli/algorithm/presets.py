"""The presets of `presets.yaml`: each algorithm is a row of choices over shared components.

Every cell can be overridden on its own, `--set algorithm.surrogate.high=0.3`, and every choice by
the name of another kind, `--set algorithm.surrogate=cispo`.
"""

from importlib import resources

import yaml

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.kinds import PolicyGradient

_TABLE = resources.files("rlvr_cli") / "algorithm" / "presets.yaml"
ALGORITHMS: dict[str, Algorithm] = {
    name: Algorithm.model_validate(row)
    for name, row in yaml.safe_load(_TABLE.read_text(encoding="utf-8")).items()
}


def without_ratio(name: str, algo: Algorithm) -> str | None:
    """Say that the surrogate's ratio does nothing, and which other rows then do the same; None
    where it matters: with several updates a batch, or groups carried over."""
    if algo.updates > 1 or algo.filter is not None or algo.surrogate.is_on_policy:
        return None
    own = _at_one_update(algo)
    same = [row for row in ALGORITHMS if row != name and _at_one_update(ALGORITHMS[row]) == own]
    others = f" and the run does what {', '.join(same)} would" if same else ""
    return (
        f"one update a batch: every ratio is 1, so {algo.surrogate.kind} is policy_gradient"
        f"{others}; algorithm.mini_batches or epochs make it differ"
    )


def _at_one_update(algo: Algorithm) -> Algorithm:
    return algo.model_copy(
        update={"surrogate": PolicyGradient(), "epochs": 1, "mini_batches": 1, "target_kl": None}
    )
