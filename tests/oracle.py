"""The losses as the papers write them: sums over responses and tokens, one number at a time.

They are slow and plain on purpose, and every fast form of `rlvr_cli.algorithm` is compared with
them. The log-probabilities are float64 numbers, or torch's, through which a gradient flows; what a
paper puts under a stop-gradient is read from `frozen_logprobs`, which are always plain numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.kinds import Critic, GeometricMask
from rlvr_cli.algorithm.kl import KL
from rlvr_cli.algorithm.objective import LossDenominators

Number = float | torch.Tensor


@dataclass(frozen=True)
class Response:
    """The numbers of one response, each list with one number per token."""

    logprobs: Sequence[Number]
    frozen_logprobs: Sequence[float]
    old_logprobs: Sequence[float]
    rollout_logprobs: Sequence[float]
    ref_logprobs: Sequence[float]
    advantages: Sequence[float]
    entropy: Sequence[float]
    is_right: bool

    def __len__(self) -> int:
        return len(self.logprobs)

    def log_ratio(self, t: int) -> Number:
        return self.logprobs[t] - self.old_logprobs[t]

    def ratio(self, t: int) -> Number:
        return exp(self.log_ratio(t))

    def frozen_ratio(self, t: int) -> float:
        return math.exp(self.frozen_logprobs[t] - self.old_logprobs[t])


def exp(value: Number) -> Number:
    return value.exp() if isinstance(value, torch.Tensor) else math.exp(value)


def clamp(value: Number, low: float, high: float) -> Number:
    return min(max(value, low), high)


def policy_loss(
    algo: Algorithm, responses: Sequence[Response], n: LossDenominators, kl_coef: float
) -> Number:
    """Sum the loss of all tokens of an optimizer step."""
    loss: Number = 0.0
    for response in responses:
        for t in range(len(response)):
            token_loss = -surrogate(algo.surrogate, response, t)
            if algo.correction is not None:
                token_loss = token_loss * correction_weight(algo.correction, response, t)
            token_loss = token_loss - algo.entropy_coef * response.entropy[t]
            if algo.kl is not None and algo.kl.place == "loss":
                token_loss = token_loss + kl_coef * divergence(algo.kl, response, t)
            loss = loss + token_loss / divisor(algo.aggregation, len(response), n)
            if response.is_right:
                loss = loss - algo.positive_nll * response.logprobs[t] / n.right_tokens
    return loss


def divisor(aggregation: str, length: int, n: LossDenominators) -> float:
    return {
        "token_mean": n.tokens,
        "sequence_mean": n.responses * length,
        "sequence_sum": n.responses,
        "constant_length": n.responses * n.max_tokens,
    }[aggregation]


def surrogate(choice: Any, response: Response, t: int) -> Number:
    """Compute the objective of token t, which is maximized."""
    A = response.advantages[t]
    logprob = response.logprobs[t]
    match choice.kind:
        case "policy_gradient":
            return A * logprob
        case "ratio":
            return response.ratio(t) * A
        case "clip":
            return clipped(response.ratio(t), A, choice)
        case "dual_clip":
            least = choice.dual * A if A < 0 else -math.inf
            return max(clipped(response.ratio(t), A, choice), least)
        case "sequence_clip":  # the ratio is the geometric mean over the response
            log_ratios = [response.log_ratio(s) for s in range(len(response))]
            return clipped(exp(sum(log_ratios) / len(response)), A, choice)
        case "cispo":
            weight = clamp(response.frozen_ratio(t), 1 - choice.low, 1 + choice.high)
            return weight * A * logprob
        case "dppo":  # bounds on the probability itself
            rise = math.exp(response.frozen_logprobs[t]) - math.exp(response.old_logprobs[t])
            is_masked = rise > choice.high if A > 0 else rise < -choice.low
            return 0.0 if is_masked else response.ratio(t) * A
        case "sapo":
            tau = choice.tau_pos if A > 0 else choice.tau_neg
            return 4 / tau / (1 + exp(-tau * (response.ratio(t) - 1))) * A
        case "vespo":
            W = math.prod(response.frozen_ratio(s) for s in range(len(response)))
            k, lam = (choice.k_pos, choice.lam_pos) if A >= 0 else (choice.k_neg, choice.lam_neg)
            return W**k * math.exp(lam * (1 - W)) * A * logprob
        case "gmpo":
            product: Number = 1.0
            for s in range(len(response)):
                if response.advantages[s] > 0:
                    product = product * min(response.ratio(s), math.exp(choice.high))
                else:
                    product = product * max(response.ratio(s), math.exp(-choice.low))
            return product ** (1 / len(response)) * A
    raise AssertionError(f"a surrogate without its sum here: {choice.kind}")


def clipped(ratio: Number, A: float, bounds: Any) -> Number:
    return min(ratio * A, clamp(ratio, 1 - bounds.low, 1 + bounds.high) * A)


def correction_weight(correction: Any, response: Response, t: int) -> float:
    """Compute the weight of token t for the gap between trainer and engine."""
    pairs = zip(response.old_logprobs, response.rollout_logprobs, strict=True)
    weights = [math.exp(old - rollout) for old, rollout in pairs]
    product = math.prod(weights)
    weight = product if correction.kind.startswith("sequence") else weights[t]
    if correction.kind.endswith("truncate"):
        return min(weight, correction.cap)
    if not isinstance(correction, GeometricMask):
        return weight if correction.low <= weight <= correction.high else 0.0
    if not correction.low <= product ** (1 / len(response)) <= correction.high:
        return 0.0
    if correction.weight is None:
        return 1.0
    return correction_weight(correction.weight, response, t)


def divergence(kl: KL, response: Response, t: int) -> Number:
    """Estimate KL(pi|reference), or KL(old|pi) if the reference is the policy that sampled."""
    if kl.reference.kind == "old":
        p, q = response.old_logprobs[t], response.logprobs[t]
        frozen = response.old_logprobs[t] - response.frozen_logprobs[t]
    else:
        p, q = response.logprobs[t], response.ref_logprobs[t]
        frozen = response.frozen_logprobs[t] - response.ref_logprobs[t]
    d = p - q
    match kl.kind:
        case "k1":
            return d
        case "k2":
            return d * d / 2
        case "k3":
            return exp(-d) + d - 1
    # The value of k3 and the gradient of k2.
    return math.exp(-frozen) + frozen - 1 + (d * d - frozen * frozen) / 2


def critic_loss(
    critic: Critic,
    values: Sequence[Number],
    old_values: Sequence[float],
    returns: Sequence[float],
    tokens: int,
) -> Number:
    """Sum the value loss of the tokens of one response, divided by all tokens of the step."""
    loss: Number = 0.0
    for value, old_value, target in zip(values, old_values, returns, strict=True):
        error = (value - target) ** 2
        if critic.clip is not None:
            near = old_value + clamp(value - old_value, -critic.clip, critic.clip)
            error = max(error, (near - target) ** 2)
        loss = loss + critic.coef * error / tokens
    return loss
