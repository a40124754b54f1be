"""The table of presets, as the papers have it."""

from rlvr_cli.algorithm.choices import Clip, Gae, GroupNormalized
from rlvr_cli.algorithm.presets import ALGORITHMS


def test_the_presets_of_the_design():
    rows = {
        name: (
            row.advantage.kind,
            row.surrogate.kind,
            row.aggregation,
            row.kl and (row.kl.kind, row.kl.place),
            row.filter and row.filter.kind,
            row.overlong and row.overlong.kind,
        )
        for name, row in ALGORITHMS.items()
    }
    off = (None, None, None)
    in_reward = (("k1", "reward"), None, None)
    assert rows == {
        "ppo": ("gae", "clip", "token_mean", *in_reward),
        "grpo": ("group_normalized", "clip", "sequence_mean", ("k3", "loss"), None, None),
        "dapo": ("group_normalized", "clip", "token_mean", None, "mixed", "soft"),
        "dr_grpo": ("group_centered", "clip", "constant_length", *off),
        "rloo": ("leave_one_out", "policy_gradient", "sequence_sum", *off),
        "reinforce": ("return", "policy_gradient", "sequence_sum", *off),
        "reinforce++": ("batch_baseline", "clip", "token_mean", *in_reward),
        "gspo": ("group_normalized", "sequence_clip", "sequence_mean", *off),
        "cispo": ("group_normalized", "cispo", "token_mean", *off),
    }


def test_the_numbers_of_the_presets():
    ppo = ALGORITHMS["ppo"]
    assert isinstance(ppo.advantage, Gae)
    assert (ppo.advantage.gamma, ppo.advantage.lam, ppo.mini_batches) == (1.0, 1.0, 2)
    assert (ppo.critic.kind, ppo.critic.clip, ppo.critic.warmup) == ("own", 0.2, 2)
    assert ALGORITHMS["dapo"].surrogate == Clip(low=0.2, high=0.28)
    assert ALGORITHMS["dapo"].advantage == GroupNormalized(deviation="sample")
    assert ALGORITHMS["gspo"].surrogate.cells == {"low": 3e-4, "high": 4e-4}
    assert ALGORITHMS["cispo"].surrogate.cells == {"low": 1.0, "high": 4.0}
    coefs = {name: row.kl.coef for name, row in ALGORITHMS.items() if row.kl}
    assert coefs == {"ppo": 0.005, "grpo": 0.04, "reinforce++": 0.005}
    assert {row.kl.reference.kind for row in ALGORITHMS.values() if row.kl} == {"fixed"}
    whitened = {name for name, row in ALGORITHMS.items() if row.whiten}
    assert whitened == {"ppo", "reinforce++"}
