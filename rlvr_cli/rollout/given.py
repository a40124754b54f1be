"""Take responses from the data's rows, in the engine's place (`--algo sft`)."""

from collections.abc import Sequence

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import Completion, Prompt
from rlvr_cli.model.loading import LoadedModel

_SHOWN = 3


def given_completions(
    prompts: Sequence[Prompt], policy: LoadedModel, max_tokens: int
) -> list[Completion]:
    """Return the field `response` of each prompt's row as tokens, with the end token unless
    `finish_reason` says that it was cut off; log-probabilities are empty.

    A `<think>` that the chat template has opened already is not repeated. Raises UserError if a
    response is longer than `max_tokens`.
    """
    end = policy.tokenizer.eos_token_id
    end = end if end in policy.stop_ids else policy.stop_ids[0]
    completions, too_long = [], []
    for prompt in prompts:
        row = prompt.problem.extra
        text = row["response"].removeprefix("<think>" if prompt.think_open else "")
        token_ids = policy.tokenizer.encode(text, add_special_tokens=False)
        is_cut_off = row.get("finish_reason") == "length"
        token_ids += [] if is_cut_off else [end]
        completions.append(Completion(token_ids, (), "length" if is_cut_off else "stop"))
        if len(token_ids) > max_tokens:
            too_long.append(f"{prompt.problem.id}: its response has {len(token_ids)} tokens")
    if too_long:
        listed = "; ".join(too_long[:_SHOWN])
        raise UserError(
            f"{plural(len(too_long), 'response')} longer than --max-tokens {max_tokens}, first "
            f"{listed}: raise it, or leave them out"
        )
    return completions
