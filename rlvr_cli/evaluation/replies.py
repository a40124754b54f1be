"""Read what a server of chat completions replies: responses, or the reason for a failure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from rlvr_cli.core.jsonl import parse_json
from rlvr_cli.core.text import shortened
from rlvr_cli.core.types import Problem, Response
from rlvr_cli.data.chats import message_text
from rlvr_cli.evaluation.imported import finish_reason, is_error_body, names_an_error

MOST_TOKENS = 1 << 31


class NoReplyError(Exception):
    """A request that stayed without an answer after its tries, with the reason."""


@dataclass(frozen=True)
class Reply:
    """The responses that a server gave to a request."""

    responses: Sequence[Response]
    """A thought that the server keeps apart is put in front, between think tags."""
    tokens: float
    """Tokens of all of them. A server counts those of several together."""
    model: str | None = None
    """The model that the reply names, if it names one."""

    def first(self, count: int) -> "Reply":
        """Return the first responses, and their share of the tokens."""
        responses = self.responses[:count]
        return Reply(responses, self.tokens * len(responses) / len(self.responses), self.model)


class _Completion(BaseModel):
    """What is read of a chat completion. Servers write much else."""

    choices: list[object] | None = None
    usage: object = None
    model: object = None
    error: object = None

    @property
    def tokens(self) -> int | None:
        """Return the tokens of all its choices. Return None if the server does not count them."""
        try:
            return _Usage.model_validate(self.usage).completion_tokens
        except ValidationError:
            return None


class _Usage(BaseModel):
    completion_tokens: Annotated[int, Field(strict=True, ge=0, lt=MOST_TOKENS)]


class _Choice(BaseModel):
    message: dict[str, Any]
    finish_reason: object = None
    error: object = None

    def response(self, problem: Problem, sample: int, n_tokens: int | None) -> Response:
        """Return the response. It has failed if its end, its text or an error says so. Raises
        NoReplyError for a content of no known form."""
        if not isinstance(self.message.get("content"), str | list | None):
            raise NoReplyError("a choice of the reply has a content that is no text")
        text = message_text(self.message) or ""
        end = finish_reason(self.finish_reason)
        if self.message.get("refusal") and not text:
            end = "refusal"
        if names_an_error(self.error) or is_error_body(text):
            end = "error"
        return Response(
            problem=problem, sample=sample, text=text, finish_reason=end, n_tokens=n_tokens
        )

    @property
    def failure(self) -> str:
        """Say why it has failed. Return None for a response."""
        if names_an_error(self.error):
            return message_of({"error": self.error})
        text = message_text(self.message) or ""
        if is_error_body(text):
            return message_of(parse_json(text.encode()))
        return f"finish_reason {shortened(str(finish_reason(self.finish_reason)))}"


class _Said(BaseModel):
    """What is read of an error."""

    error: object = None
    message: object = None
    detail: object = None
    """What FastAPI names the message."""
    param: object = None
    """The parameter that it is about."""


def read_reply(body: bytes, problem: Problem) -> Reply:
    """Read the choices of a chat completion, without those that failed. Raises NoReplyError if all
    failed, and for a body that names an error or has another form."""
    try:
        value = parse_json(body)
    except ValueError:
        raise NoReplyError("the reply is no JSON") from None
    try:
        completion = _Completion.model_validate(value)
    except ValidationError:
        raise NoReplyError("the reply has no choices") from None
    if names_an_error(completion.error):
        raise NoReplyError(message_of(value))
    if not completion.choices:
        said = _Said.model_validate(value)
        raise NoReplyError(str(said.message or said.detail or "the reply has no choices"))
    is_single = len(completion.choices) == 1
    n_tokens = completion.tokens
    responses: list[Response] = []
    reasons: list[str] = []
    for choice_value in completion.choices:
        try:
            choice = _Choice.model_validate(choice_value)
        except ValidationError:
            raise NoReplyError("a choice of the reply has no message") from None
        response = choice.response(problem, len(responses), n_tokens if is_single else None)
        if response.has_failed:
            reasons.append(choice.failure)
        else:
            responses.append(response)
    if not responses:
        raise NoReplyError(reasons[0])
    share = len(responses) / len(completion.choices)
    model = completion.model if isinstance(completion.model, str) else None
    return Reply(responses, (n_tokens or 0) * share, model)


def message_of(body: object) -> str:
    """Return the message of an error as servers write it, and the parameter that it is about, else
    the whole."""
    if not isinstance(body, dict):
        return str(body or "")
    error = _Said.model_validate(body).error or body
    if not isinstance(error, dict):
        return str(error)
    said = _Said.model_validate(error)
    message = str(said.message or error)
    return f"{message} ({said.param})" if said.param else message
