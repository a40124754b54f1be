"""The table of presets: each algorithm is a row of choices over shared components.

Every cell can be overridden on its own, `--set algorithm.surrogate.high=0.3`, and every choice by
the name of another kind, `--set algorithm.surrogate=cispo`. `rlvr train --list` prints the table.

ppo, ppo_penalty: Schulman et al. 2017, arXiv:1707.06347 (clip; section 4: adaptive penalty with
beta 1 and target 0.01, here a k3 estimate a token). grpo: Shao et al. 2024, arXiv:2402.03300.
dapo: Yu et al. 2025, arXiv:2503.14476. dr_grpo: Liu et al. 2025, arXiv:2503.20783.
rloo: Ahmadian et al. 2024, arXiv:2402.14740. reinforce: Williams 1992.
reinforce++, reinforce++_baseline: Hu et al. 2025, arXiv:2501.03262. gspo: Zheng et al. 2025,
arXiv:2507.18071. luspo: Liu et al. 2026, arXiv:2602.05261. cispo: MiniMax 2025, arXiv:2506.13585.
sapo: Gao et al. 2025, arXiv:2511.20347. vespo: 2026, arXiv:2602.10693. gmpo: Zhao et al. 2025,
arXiv:2507.20673. raft: Dong et al. 2023, arXiv:2304.06767, Xiong et al. 2025, arXiv:2504.11343.
sft: maximum likelihood of the responses in the data's rows.

Rows whose ratios matter take several updates a batch: GSPO's 4, where DAPO's and MiniMax's papers
have 16 on far larger batches.
"""

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.kinds import (
    KL,
    Cispo,
    Clip,
    Critic,
    FixedReference,
    Gae,
    Gmpo,
    GroupBaseline,
    KLControl,
    Likelihood,
    Mixed,
    PolicyGradient,
    Ratio,
    Return,
    Sapo,
    SequenceClip,
    SoftOverlong,
    Vespo,
)

_GAE = Gae(lam=1.0, critic=Critic(clip=0.2, warmup=2))
_K1_IN_REWARD = KL(kind="k1", coef=0.005, place="reward")
_TO_OLD = KL(
    kind="k3",
    coef=1.0,
    reference=FixedReference(kind="old"),
    control=KLControl(kind="doubling", target=0.01),
)

ALGORITHMS: dict[str, Algorithm] = {
    "ppo": Algorithm(advantage=_GAE, whiten=True, kl=_K1_IN_REWARD, mini_batches=2),
    "ppo_penalty": Algorithm(
        advantage=_GAE, whiten=True, surrogate=Ratio(), kl=_TO_OLD, mini_batches=4
    ),
    "grpo": Algorithm(aggregation="sequence_mean", kl=KL(kind="k3", coef=0.04)),
    "dapo": Algorithm(
        surrogate=Clip(high=0.28), filter=Mixed(), overlong=SoftOverlong(), mini_batches=4
    ),
    "dr_grpo": Algorithm(
        advantage=GroupBaseline(kind="group_centered"), aggregation="constant_length"
    ),
    "rloo": Algorithm(
        advantage=GroupBaseline(kind="leave_one_out"),
        surrogate=PolicyGradient(),
        aggregation="sequence_sum",
    ),
    "reinforce": Algorithm(
        advantage=Return(kind="return"), surrogate=PolicyGradient(), aggregation="sequence_sum"
    ),
    "reinforce++": Algorithm(
        advantage=Return(kind="batch_baseline"), whiten=True, kl=_K1_IN_REWARD, mini_batches=4
    ),
    "reinforce++_baseline": Algorithm(
        advantage=GroupBaseline(kind="group_centered"),
        whiten=True,
        kl=KL(kind="k2", coef=0.005),
        mini_batches=4,
    ),
    "gspo": Algorithm(
        surrogate=SequenceClip(low=3e-4, high=4e-4), aggregation="sequence_mean", mini_batches=4
    ),
    "luspo": Algorithm(
        surrogate=SequenceClip(low=2e-3, high=2.5e-3), aggregation="sequence_sum", mini_batches=4
    ),
    "cispo": Algorithm(surrogate=Cispo(low=1.0, high=4.0), mini_batches=4),
    "sapo": Algorithm(surrogate=Sapo(), aggregation="sequence_mean", mini_batches=4),
    "vespo": Algorithm(surrogate=Vespo(), mini_batches=4),
    "gmpo": Algorithm(surrogate=Gmpo(), aggregation="sequence_mean", mini_batches=4),
    "raft": Algorithm(advantage=Likelihood(kind="right_only"), surrogate=PolicyGradient()),
    "sft": Algorithm(advantage=Likelihood(kind="one"), surrogate=PolicyGradient()),
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
