"""One step ahead (`rollout.ahead`): while a step trains, the batch of the next one is sampled.

Both use the weights from before the update: the lag is fixed, and nothing is dropped. That batch is
part of the checkpoint. Servers sample in a thread, during the update. An engine of this process
takes turns with it, with the same tokens. Responses continued in each step prove that the engine
samples with the trainer's weights, while the trainer still has them.
"""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from threading import Thread
from typing import Literal

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.group_filter import GroupBatch
from rlvr_cli.core.carried import CarriedGroup, groups_as_json, groups_from_json
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.seeds import response_seed
from rlvr_cli.core.step_figures import PartialFigures
from rlvr_cli.core.stored import Count, Stored
from rlvr_cli.core.types import Group, Prompt, Rollout, SamplingParams
from rlvr_cli.ranks.group import world
from rlvr_cli.rollout.sampler import Sampler

_CONTINUED_CONTEXTS = 16
"""Contexts that are continued. With `_CONTINUED_TOKENS` each, a mean over 128 tokens."""
_CONTINUED_TOKENS = 8


@dataclass
class SampledBatch:
    """The batch of a step, with figures of its sampling."""

    groups: GroupBatch
    uniform: list[bool] = field(default_factory=list)
    """Whether the responses of each sampled group were equal (`is_uniform`)."""
    rested: int = 0
    """Problems that were passed over because they rest."""
    n_carried: int = 0
    """Groups that wait for the batch after it."""
    partial: PartialFigures | None = None
    """How responses went on. None in a run without partial rollouts."""


class StoredBatch(Stored):
    """A sampled batch in a checkpoint."""

    earlier: list[CarriedGroup]
    """Groups that train, and were sampled beyond an earlier batch."""
    sampled: list[CarriedGroup]
    trained: list[Count]
    """The places of groups that train, among the sampled ones."""
    gen_batches: Count
    given_up: Literal["skip", "stop"] | None
    uniform: list[bool]
    rested: Count
    n_carried: Count
    partial: PartialFigures | None


def batch_as_json(batch: SampledBatch, prompts: Sequence[Prompt]) -> JsonObject:
    """Convert a sampled batch to JSON values, with each group once."""
    groups = batch.groups
    places = {id(group): place for place, group in enumerate(groups.sampled)}
    earlier = [group for group in groups.groups if id(group) not in places]
    return {
        "earlier": groups_as_json(earlier, prompts),
        "sampled": groups_as_json(groups.sampled, prompts),
        "trained": [places[id(group)] for group in groups.groups if id(group) in places],
        "gen_batches": groups.gen_batches,
        "given_up": groups.given_up,
        "uniform": batch.uniform,
        "rested": batch.rested,
        "n_carried": batch.n_carried,
        "partial": None if batch.partial is None else asdict(batch.partial),
    }


def batch_from_json(
    row: JsonObject,
    prompts: Sequence[Prompt],
    size: int,
    algo: Algorithm,
    weightless: Collection[str],
) -> SampledBatch:
    """Convert the values of `batch_as_json` back to a batch. Raises ValueError."""
    stored = StoredBatch.model_validate(row, strict=False)
    sampled = groups_from_json(row["sampled"], prompts)
    if max(stored.trained, default=0) >= max(1, len(sampled)):
        raise ValueError("a group trains that was not sampled")
    earlier = groups_from_json(row["earlier"], prompts)
    groups = GroupBatch(
        size,
        algo,
        [*earlier, *(sampled[place] for place in stored.trained)],
        sampled,
        stored.gen_batches,
        stored.given_up,
        weightless,
    )
    return SampledBatch(groups, stored.uniform, stored.rested, stored.n_carried, stored.partial)


def begin_sampling(sample: Callable[[], SampledBatch], is_beside: bool) -> Future[SampledBatch]:
    """Sample a batch now or, `is_beside` the caller, in a thread. Errors of the thread are raised
    by the result.

    The thread ends with the process: a batch that nobody waits for holds nothing up.
    """
    future: Future[SampledBatch] = Future()
    if not is_beside:
        future.set_result(sample())
        return future

    def run() -> None:
        try:
            future.set_result(sample())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, name="ahead", daemon=True).start()
    return future


def continue_from_middles(
    sampler: Sampler,
    batch: GroupBatch,
    params: SamplingParams,
    seed: int,
    weight_version: int,
    servers: int,
) -> list[Group]:
    """Have the engine continue responses of the batch from their middles for a few tokens.

    There the weights have just changed. Return a group of one response for each context, with a
    reward of 0 so that it counts as a row. Each server and each process gets a context at least.
    A server that answers no context samples nothing until the next push.
    """
    groups = batch.groups or batch.sampled
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    count = max(_CONTINUED_CONTEXTS, servers, world())
    contexts = [_middle(rollouts[n * len(rollouts) // count]) for n in range(count)]
    tokens = min(_CONTINUED_TOKENS, params.max_tokens - params.max_tokens // 2)
    seeds = [response_seed(seed, "probe", n) for n in range(count)]
    stream = sampler.stream(contexts, replace(params, samples=1, max_tokens=tokens), seeds)
    continued = []
    for group in sampler.judge(contexts, stream, weight_version=weight_version):
        (rollout,) = group.rollouts
        continued.append(replace(group, rollouts=(replace(rollout, reward=0.0),)))
    answered = {rollout.completion.server for group in continued for rollout in group.rollouts}
    sampler.engine.rely_on(answered)
    return continued


def _middle(rollout: Rollout) -> Prompt:
    """Return a prompt that ends in the middle of a response, and asks for no verdict."""
    prompt = rollout.prompt
    ids = rollout.completion.token_ids
    return replace(
        prompt,
        problem=replace(prompt.problem, answer=None),
        token_ids=(*prompt.token_ids, *ids[: len(ids) // 2]),
    )
