"""Read the responses that the rows of a data set give (`--algo sft`)."""

from collections.abc import Sequence

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import plural
from rlvr_cli.core.types import Completion, Prompt
from rlvr_cli.model.loading import LoadedModel

_SHOWN = 3


def tokenize_responses(
    prompts: Sequence[Prompt], policy: LoadedModel, max_tokens: int
) -> list[Completion]:
    """Return the field `response` of each prompt's row as tokens, without log-probabilities.

    An end token follows unless `finish_reason` says that the response was cut off. A `<think>` that
    the chat template has already opened is not repeated. Raises UserError if a response is longer
    than `max_tokens`.
    """
    end = policy.tokenizer.eos_token_id
    if end not in policy.stop_ids:
        end = policy.stop_ids[0]
    completions = []
    too_long = []
    for prompt in prompts:
        row = prompt.problem.extra
        text = row["response"]
        if prompt.think_open:
            text = text.removeprefix("<think>")
        token_ids = policy.tokenizer.encode(text, add_special_tokens=False)
        is_cut_off = row.get("finish_reason") == "length"
        if not is_cut_off:
            token_ids.append(end)
        completions.append(Completion(token_ids, (), "length" if is_cut_off else "stop"))
        if len(token_ids) > max_tokens:
            too_long.append(f"{prompt.problem.id}: its response has {len(token_ids)} tokens")
    if too_long:
        raise UserError(
            f"{plural(len(too_long), 'response')} longer than --max-tokens {max_tokens}, first "
            f"{'; '.join(too_long[:_SHOWN])}: raise it, or leave them out"
        )
    return completions
