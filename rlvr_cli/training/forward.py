"""The forward passes before the first update: only those that the algorithm needs."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace

import torch
import torch.nn.functional as F

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.samples import Samples
from rlvr_cli.model.adapter import switched_off
from rlvr_cli.model.packing import send
from rlvr_cli.model.policy import Critic, Policy
from rlvr_cli.ranks.group import sum_tensor
from rlvr_cli.training.batch import MicroBatch, micro_batches


@torch.no_grad()
def add_logprobs(
    samples: Samples,
    algo: Algorithm,
    micro_tokens: int,
    policy: Policy,
    reference: Policy | None = None,
    critic: Critic | None = None,
    takes_engine: bool = False,
) -> int:
    """Fill those of `old_logprobs`, `entropy`, `ref_logprobs` and the values that the algorithm
    needs; carried rows keep the engine's log-probabilities as old ones, and with `takes_engine` all
    do. The policy may be its own reference: as it was, without its adapter. Return how many
    response tokens were passed."""
    passed, every_row = 0, range(len(samples))

    def each(
        batch: Samples,
        rows: Sequence[int],
        compute: Callable[[MicroBatch], torch.Tensor],
        n: int,
        model: Policy = policy,
    ) -> torch.Tensor:
        """Return `compute` [n, b, t] of these rows, laid out, as [n, B, T], 0 in the others."""
        nonlocal passed
        longest = max(map(len, batch.response_ids))
        columns = torch.zeros(n, len(batch), longest, dtype=policy.sum_dtype, device=policy.device)
        for part in micro_batches(model, batch, rows, micro_tokens):
            values = compute(part) * part.mask * part.counts
            places = send(torch.tensor(part.rows), policy.device)
            columns[:, places, : values.shape[-1]] = values.to(columns.dtype)
        passed += sum(len(batch.response_ids[row]) for row in rows)
        return sum_tensor(columns.cpu())  # here alone the GPU is waited for

    picks_tokens, fresh = algo.top_entropy is not None, samples.is_fresh
    if picks_tokens or (algo.needs_old_logprobs and not takes_engine):
        rows = [row for row in every_row if picks_tokens or fresh[row]]
        samples.old_logprobs, entropy = each(
            samples, rows, lambda part: torch.stack(policy(part.inputs, picks_tokens)[:2]), 2
        )
        samples.entropy = entropy if picks_tokens else None
        if samples.rollout_logprobs is not None and not fresh.all():
            kept = samples.rollout_logprobs
            samples.old_logprobs = torch.where(fresh[:, None], samples.old_logprobs, kept)
    if takes_engine:
        samples.old_logprobs = samples.rollout_logprobs
    if reference is not None:
        with switched_off(policy.model) if reference is policy else nullcontext():
            (samples.ref_logprobs,) = each(
                samples,
                every_row,
                lambda part: reference(part.inputs, False).logprobs,
                1,
                reference,
            )
    if critic is not None and algo.critic is not None:
        ids = samples.response_ids
        if algo.critic.cut_off_value == "bootstrap":
            # A cut-off response gets one more token, whose value follows its last.
            cut_off = zip(ids, samples.is_cut_off.tolist(), strict=True)
            ids = [[*own, own[-1]] if is_cut else own for own, is_cut in cut_off]

        def values(part: MicroBatch) -> torch.Tensor:
            states_N = policy(part.inputs, with_head=False) if critic.body is None else None
            of_tokens: torch.Tensor = critic(part.inputs, states_N)
            return of_tokens

        (predicted,) = each(replace(samples, response_ids=ids), every_row, values, 1)
        samples.old_values = predicted[:, : samples.mask.shape[1]] * samples.mask
        ends = samples.mask.sum(1, keepdim=True).long()
        samples.end_value = F.pad(predicted, (0, 1)).gather(1, ends)[:, 0]
    return passed
