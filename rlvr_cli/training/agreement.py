"""The guard against an engine whose weights are not the trainer's."""

from rlvr_cli.core.types import UserError


def check_agreement(mismatch: float | None, limit: float, step: int) -> None:
    """Raise UserError where engine and trainer disagree about tokens that were just sampled.

    `mismatch` is the mean over those tokens of |engine - trainer| log-probability, None where there
    were none. Equal weights give 1e-6 in float32 and up to about 1e-2 with an engine in bfloat16;
    weights that a push left stale or incomplete give several tenths.
    """
    if mismatch is None or mismatch <= limit:  # nan is neither
        return
    raise UserError(
        f"step {step}: the engine and the trainer disagree by {mismatch:.3g} about the "
        f"log-probability of a sampled token, more than rollout.mismatch_limit {limit:g}: the "
        "engine's weights are stale or incomplete, so what it sampled cannot be trained on; run "
        "again with --engine transformers, and please report it"
    )
