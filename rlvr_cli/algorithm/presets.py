"""The table of presets: each algorithm is a row of choices over shared components.

Every cell can be overridden on its own, `--set algorithm.surrogate.high=0.3`, and every choice by
the name of another kind, `--set algorithm.surrogate=cispo`. `rlvr train --list` prints the table.

ppo: Schulman et al. 2017, arXiv:1707.06347. grpo: Shao et al. 2024, arXiv:2402.03300.
dapo: Yu et al. 2025, arXiv:2503.14476. dr_grpo: Liu et al. 2025, arXiv:2503.20783.
rloo: Ahmadian et al. 2024, arXiv:2402.14740. reinforce: Williams 1992.
reinforce++: Hu et al. 2025, arXiv:2501.03262. gspo: Zheng et al. 2025, arXiv:2507.18071.
cispo: MiniMax 2025, arXiv:2506.13585.
"""

from rlvr_cli.algorithm.choices import (
    KL,
    Algorithm,
    Cispo,
    Clip,
    Critic,
    Gae,
    GroupBaseline,
    Mixed,
    PolicyGradient,
    Return,
    SequenceClip,
    SoftOverlong,
)

_K1_IN_REWARD = KL(kind="k1", coef=0.005, place="reward")

ALGORITHMS: dict[str, Algorithm] = {
    "ppo": Algorithm(
        advantage=Gae(lam=1.0, critic=Critic(clip=0.2, warmup=2)),
        whiten=True,
        kl=_K1_IN_REWARD,
        mini_batches=2,
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
        advantage=Return(kind="batch_baseline"), whiten=True, kl=_K1_IN_REWARD
    ),
    "gspo": Algorithm(surrogate=SequenceClip(low=3e-4, high=4e-4), aggregation="sequence_mean"),
    "cispo": Algorithm(surrogate=Cispo(low=1.0, high=4.0)),
}
