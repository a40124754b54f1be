"""The table of presets, as the papers have it."""

from rlvr_cli.algorithm.choices import ALGORITHMS, without_ratio
from rlvr_cli.algorithm.group_advantage import GroupNormalized
from rlvr_cli.algorithm.kinds import TruncatedWeights
from rlvr_cli.algorithm.objective import Clip
from rlvr_cli.algorithm.token_advantage import Gae


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
        "vapo": ("gae", "clip", "token_mean", None, None, None),
        "grpo": ("group_normalized", "clip", "sequence_mean", ("k3", "loss"), None, None),
        "dapo": ("group_normalized", "clip", "token_mean", None, "mixed", "soft"),
        "dppo": ("group_normalized", "dppo", "token_mean", ("k2", "loss"), None, None),
        "maxrl": ("mean_normalized", "clip", "token_mean", *off),
        "dr_grpo": ("group_centered", "clip", "constant_length", *off),
        "rloo": ("leave_one_out", "policy_gradient", "sequence_sum", *off),
        "reinforce": ("return", "policy_gradient", "sequence_sum", *off),
        "reinforce++": ("batch_baseline", "clip", "token_mean", *in_reward),
        "gspo": ("group_normalized", "sequence_clip", "sequence_mean", *off),
        "cispo": ("group_normalized", "cispo", "token_mean", *off),
        "ppo_penalty": ("gae", "ratio", "token_mean", ("k3", "loss"), None, None),
        "reinforce++_baseline": ("group_centered", "clip", "token_mean", ("k2", "loss"), *off[:2]),
        "luspo": ("group_normalized", "sequence_clip", "sequence_sum", *off),
        "sapo": ("group_normalized", "sapo", "sequence_mean", *off),
        "vespo": ("group_normalized", "vespo", "token_mean", *off),
        "gmpo": ("group_normalized", "gmpo", "sequence_mean", *off),
        "raft": ("right_only", "policy_gradient", "token_mean", *off),
        "sft": ("one", "policy_gradient", "token_mean", *off),
        "opd": ("divergence", "clip", "token_mean", *in_reward),
    }


def test_the_numbers_of_the_presets():
    ppo = ALGORITHMS["ppo"]
    assert isinstance(ppo.advantage, Gae)
    assert (ppo.advantage.gamma, ppo.advantage.lam, ppo.mini_batches) == (1.0, 1.0, 2)
    assert (ppo.critic.kind, ppo.critic.clip, ppo.critic.warmup) == ("own", 0.2, 2)
    vapo = ALGORITHMS["vapo"]
    assert vapo.surrogate == Clip(low=0.2, high=0.28)
    assert (vapo.advantage.alpha, vapo.critic.lam, vapo.positive_nll) == (0.05, 1.0, 0.1)
    assert ALGORITHMS["dapo"].surrogate == Clip(low=0.2, high=0.28)
    assert ALGORITHMS["dapo"].advantage == GroupNormalized(deviation="sample")
    assert ALGORITHMS["dppo"].surrogate.fields == {"low": 0.2, "high": 0.2}
    assert ALGORITHMS["gspo"].surrogate.fields == {"low": 3e-4, "high": 4e-4}
    assert ALGORITHMS["cispo"].surrogate.fields == {"low": 1.0, "high": 4.0}
    coefs = {name: row.kl.coef for name, row in ALGORITHMS.items() if row.kl}
    assert coefs == {
        "ppo": 0.005,
        "ppo_penalty": 1.0,
        "grpo": 0.04,
        "dppo": 0.002,
        "reinforce++": 0.005,
        "reinforce++_baseline": 0.005,
        "opd": 1.0,
    }
    penalty = ALGORITHMS["ppo_penalty"].kl
    assert (penalty.reference.kind, penalty.control.kind, penalty.control.target) == (
        *("old", "doubling"),
        0.01,
    )
    references = {name: row.kl.reference.kind for name, row in ALGORITHMS.items() if row.kl}
    moved = {name: kind for name, kind in references.items() if kind != "fixed"}
    assert moved == {"ppo_penalty": "old", "dppo": "old", "opd": "teacher"}
    whitened = {name for name, row in ALGORITHMS.items() if row.whiten}
    assert whitened == {"vapo", "ppo", "ppo_penalty", "reinforce++", "reinforce++_baseline"}
    assert ALGORITHMS["luspo"].surrogate.fields == {"low": 2e-3, "high": 2.5e-3}
    assert ALGORITHMS["sapo"].surrogate.fields == {"tau_pos": 1.0, "tau_neg": 1.05}
    weights = {"k_pos": 2.0, "lam_pos": 3.0, "k_neg": 3.0, "lam_neg": 2.0}
    assert ALGORITHMS["vespo"].surrogate.fields == weights
    assert ALGORITHMS["gmpo"].surrogate.fields == {"low": 0.4, "high": 0.4}
    once = {name for name, row in ALGORITHMS.items() if row.updates == 1}
    assert once == {"grpo", "dr_grpo", "rloo", "reinforce", "raft", "sft"}


def test_no_row_is_another_under_a_second_name():
    """At its own number of updates; at one, several are, and the run says what ratios do."""
    rows = list(ALGORITHMS.values())
    assert all(a != b for n, a in enumerate(rows) for b in rows[:n])
    silent = {n for n, row in ALGORITHMS.items() if without_ratio(row) is None}
    assert set(ALGORITHMS) - silent == {"grpo", "dr_grpo"}
    assert without_ratio(ALGORITHMS["gspo"].model_copy(update={"mini_batches": 1})) == (
        "one update a batch: every ratio is 1, so sequence_clip is policy_gradient; "
        "algorithm.mini_batches or epochs make it differ"
    )
    carrying = ALGORITHMS["dapo"].model_copy(update={"mini_batches": 1})
    assert without_ratio(carrying) is None  # groups carried over have ratios of their own
    grpo = ALGORITHMS["grpo"].decided(computes_alike=True, rewards_verdict=True)
    assert without_ratio(grpo) is not None
    assert without_ratio(grpo, has_older_tokens=True) is None
    weighed = grpo.model_copy(update={"importance_correction": TruncatedWeights()})
    assert without_ratio(weighed, has_older_tokens=True) is not None  # its weight, in place of it
