"""Write responses as the rows of train, eval and sample, and read them again."""

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import open_regular, reading
from rlvr_cli.core.jsonl import JsonObject, bounded_lines, parse_json
from rlvr_cli.core.text import first_mistake
from rlvr_cli.core.types import Problem, Response, VersionRuns
from verifiers import Verdict, Verification

T = TypeVar("T")
ROW_VERSION = 1
"""The version of a row. It rises with a change that earlier versions would read wrongly."""
_Count = Annotated[int, Field(ge=0, lt=2**31)]
_RUNS = TypeAdapter(tuple[tuple[_Count, _Count], ...])


def _as_text(value: object) -> object:
    """Convert an id that is a number to text. Return any other value unchanged."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return value
    return str(value)


def _numbers_by_name(value: object) -> dict[object, float]:
    """Return the finite numbers of a mapping. Of anything else nothing is kept: other programs may
    use the key for something else."""
    numbers: dict[object, float] = {}
    if isinstance(value, dict):
        for name, number in value.items():
            if isinstance(number, int | float) and abs(number) <= sys.float_info.max:
                numbers[name] = float(number)
    return numbers


def _as_runs(value: object) -> VersionRuns:
    """Return runs of versions. Of anything else nothing is kept, as of numbers by name."""
    try:
        return _RUNS.validate_python(value)
    except ValidationError:
        return ()


class _Earned(BaseModel):
    """What only some rows have, of a response that earned more than its verdict, or that several
    versions of the weights sampled. They are fields of the problem as well: it may have others of
    these names."""

    rewards: Annotated[dict[str, float], BeforeValidator(_numbers_by_name)] = Field({})
    places: object = None
    """What was earned before the end, which nobody reads from a file."""
    versions: Annotated[VersionRuns, BeforeValidator(_as_runs)] = ()


class JudgedRow(BaseModel):
    """The schema of a row: a response with its verdict. The problem's other fields follow as
    further keys."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False, extra="allow")

    id: Annotated[str, BeforeValidator(_as_text)]
    sample: _Count = 0
    problem: str | None = None
    prompt: object = None
    """A text. Other programs may write a chat, which is not read."""
    response: str = ""
    finish_reason: str | None = None
    n_tokens: _Count | None = None
    answer: str | int | float | None = None
    extracted: str | None = None
    verdict: Annotated[Verdict, Field(strict=False)]
    format_ok: bool = True
    reward: float | None = None
    verifier: str = "any"
    row_version: Annotated[int, Field(ge=1, le=ROW_VERSION)] = ROW_VERSION

    @property
    def answered(self) -> Response:
        """Return the response. Its verdict has no reason, which is not stored."""
        earned = _Earned.model_validate(self.model_extra)
        return Response(
            problem=Problem(
                id=self.id,
                problem=self.problem or "",
                answer=None if self.answer is None else str(self.answer),
                extra=dict(self.model_extra or {}),
            ),
            sample=self.sample,
            text=self.response,
            prompt_text=self.prompt if isinstance(self.prompt, str) else None,
            finish_reason=self.finish_reason,
            n_tokens=self.n_tokens,
            verification=Verification(
                self.verdict,
                self.extracted,
                format_ok=self.format_ok,
                reason="",
                format=self.verifier,
            ),
            reward=self.reward,
            rewards=earned.rewards,
            versions=earned.versions,
        )


ROW_KEYS = tuple(JudgedRow.model_fields)
"""The keys of every row, in the order in which they are written."""
RESPONSE_KEYS = frozenset({*ROW_KEYS, *_Earned.model_fields})
"""The keys of a row that are not other fields of its problem."""


def as_row(response: Response) -> JsonObject:
    """Return the row of a response, with its verdict if it was judged. The problem's other fields
    follow, and replace nothing."""
    problem = response.problem
    verdict = {}
    verification = response.verification
    if verification is not None:
        verdict = {
            "extracted": verification.extracted,
            "verdict": verification.verdict.value,
            "format_ok": verification.format_ok,
            "reward": response.reward,
            "verifier": verification.format,
        }
    row = {
        "id": problem.id,
        "sample": response.sample,
        "problem": problem.problem or None,
        "prompt": response.prompt_text,
        "response": response.text,
        "finish_reason": response.finish_reason,
        "n_tokens": response.n_tokens,
        "answer": problem.answer,
        **verdict,
        "row_version": ROW_VERSION,
        **({"rewards": response.rewards} if response.rewards else {}),
        **({"places": response.places} if response.places else {}),
        **({"versions": response.versions} if response.versions else {}),
    }
    fields = problem.extra.items()
    return row | {key: value for key, value in fields if key not in {*ROW_KEYS, *row}}


def stored_responses(path: Path) -> Iterator[Response]:
    """Yield the judged responses of a file, without failures, which earlier versions judged too.
    Raises UserError for a row without a verdict."""
    advice = (
        "; rows that rlvr eval has judged are expected: judge others first with rlvr eval "
        "--responses"
    )
    rows = validated_lines(path, JudgedRow.model_validate, advice)
    return (row.answered for row in rows if not row.answered.has_failed)


def validated_lines(
    path: Path, validate: Callable[[object], T], advice: str = "", grows: bool = True
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
