"""Write responses as the rows of train, eval and sample, and read them again."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import open_regular, reading
from rlvr_cli.core.jsonl import bounded_lines, parse_json
from rlvr_cli.core.text import first_mistake, opens_thought
from rlvr_cli.core.types import Problem, Rollout
from verifiers import Attempt, Verdict, Verification
from verifiers.gym import place_of

T = TypeVar("T")
_Count = Annotated[int, Field(ge=0, lt=2**31)]


def _as_text(value: Any) -> Any:
    """Convert an id that is a number to text. Return any other value unchanged."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return value
    return str(value)


ResponseRow = dict[str, Any]
"""A response as JSON. With a verdict it has the keys of `JudgedRow`."""


class JudgedRow(BaseModel):
    """A response with its verdict. The problem's other fields follow as further keys."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False, extra="allow")

    id: Annotated[str, BeforeValidator(_as_text)]
    sample: _Count = 0
    problem: str | None = None
    prompt: Any = None
    response: str = ""
    finish_reason: str | None = None
    n_tokens: _Count | None = None
    answer: str | int | float | None = None
    extracted: str | None = None
    verdict: Annotated[Verdict, Field(strict=False)]
    format_ok: bool = True
    reward: float | None = None
    verifier: str = "any"

    @property
    def values(self) -> ResponseRow:
        """Return the row as JSON, with every key of `ROW_KEYS`."""
        return self.model_dump(mode="json")


ROW_KEYS = tuple(JudgedRow.model_fields)
"""The keys of a response row, in the order in which they are written."""
RESPONSE_KEYS = ("prompt", "response", "finish_reason", "n_tokens")
"""The keys that describe the response and its prompt, not the problem or the verdict."""


def row_of(
    problem: Problem,
    sample: int,
    values: Mapping[str, Any],
    verification: Verification | None,
    reward: float | None,
    rewards: Mapping[str, float] = MappingProxyType({}),
    places: Sequence[tuple[int, float]] = (),
) -> ResponseRow:
    """Build the row of a response from its problem, the `values` of `RESPONSE_KEYS` and, if it was
    judged, its verdict. The problem's other fields follow, and replace nothing."""
    row: ResponseRow = {
        "id": problem.id,
        "sample": sample,
        "problem": problem.problem or None,
        **values,
        "answer": problem.answer,
    }
    if verification is not None:
        row["extracted"] = verification.extracted
        row["verdict"] = verification.verdict.value
        row["format_ok"] = verification.format_ok
        row["reward"] = reward
        row["verifier"] = verification.format
    if rewards:
        row["rewards"] = rewards
    if places:
        row["places"] = places
    for key, value in problem.extra.items():
        if key not in ROW_KEYS:
            row.setdefault(key, value)
    return row


def response_row(rollout: Rollout) -> ResponseRow:
    """Return the row of a sampled response."""
    completion = rollout.completion
    values = {
        "prompt": rollout.prompt.text,
        "response": rollout.text,
        "finish_reason": completion.finish_reason,
        "n_tokens": len(completion.token_ids),
    }
    return row_of(
        rollout.prompt.problem,
        rollout.sample,
        values,
        rollout.verification,
        rollout.reward,
        rollout.rewards,
        rollout.places,
    )


def attempt_of(row: Mapping[str, Any]) -> Attempt:
    """Return a row's response and gold answer as a verifier takes them."""
    prompt = row.get("prompt")
    if not isinstance(prompt, str):  # other programs may write a chat
        prompt = None
    return Attempt(
        row["response"],
        str(row["answer"] or ""),
        think_open=opens_thought(prompt),
        truncated=row.get("finish_reason") == "length",
        place=place_of(row),
    )


def stored_rows(path: Path) -> Iterator[ResponseRow]:
    """Yield the judged rows of a file. Raises UserError for a row without a verdict."""
    advice = (
        "; rows that rlvr eval has judged are expected: judge others first with rlvr eval "
        "--responses"
    )
    return (row.values for row in validated_lines(path, JudgedRow.model_validate, advice))


def validated_lines(
    path: Path, validate: Callable[[Any], T], advice: str = "", grows: bool = True
) -> Iterator[T]:
    """Yield what `validate` returns for each line of a JSONL file.

    A file that still `grows` may end in an unfinished line, which is left out. Raises UserError
    with file and line for invalid JSON, and with `advice` for an invalid row.
    """
    with reading(path), open_regular(path) as file:
        for number, line in enumerate(bounded_lines(str(path), file), 1):
            try:
                row = validate(parse_json(line))
            except ValidationError as error:
                raise UserError(f"{path}:{number}: {first_mistake(error)}{advice}") from None
            except ValueError as error:
                if grows and number > 1 and not line.endswith(b"\n"):
                    return
                raise UserError(f"{path}:{number}: {error}") from None
            yield row
