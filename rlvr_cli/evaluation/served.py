"""Ask a server that speaks OpenAI's chat completions for responses."""

import asyncio
import ipaddress
import os
import re
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from rlvr_cli.core.environment import check_proxies
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import parse_json
from rlvr_cli.core.text import plural, shortened, without_key
from rlvr_cli.core.types import Problem, Response, SamplingParams
from rlvr_cli.data.fields import message_text
from rlvr_cli.evaluation.imported import finish_reason

T = TypeVar("T")
KEY_VARIABLE = "RLVR_API_KEY"
"""The environment variable that holds the key unless `--key-env` names another."""
NO_KEY = "none"
"""The key that the client sends without one, so that it does not look for one by itself."""
SHORTEST_KEY = 12  # characters: a shorter one is a dummy, such as EMPTY, or a word
SENT_HEADERS = {
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "user-agent",
}
"""The headers that a request needs besides the key."""
LARGEST_REPLY = 32 << 20  # bytes, some 8 million tokens: more is no list of responses
LARGEST_SEED = 2**31  # what every server takes as an integer
LONGEST_REASON = 200  # characters of what a server says about a failure
SHOWN_MODELS = 5
MOST_TOKENS = 1 << 31
CONNECT_SECONDS = 10.0
LONGEST_WAIT = 120.0
"""Seconds that the client waits before it tries again, at a server's word."""
HAND_OVER_SECONDS = 0.1
"""What arrives within this time is judged and written together: each write waits for the disk."""


@dataclass(frozen=True)
class Request:
    """A chat to which a server is to give some responses."""

    problem: Problem
    messages: Sequence[Mapping[str, str]]
    samples: int
    seed: int


@dataclass(frozen=True)
class Reply:
    """The responses that a server gave to a request."""

    responses: Sequence[Response]
    """A thought that the server keeps apart is put in front, between think tags."""
    tokens: float
    """Tokens of all of them. A server counts those of several together."""

    def first(self, count: int) -> "Reply":
        """Return the first responses, and their share of the tokens."""
        responses = self.responses[:count]
        return Reply(responses, self.tokens * len(responses) / len(self.responses))


class _Model(BaseModel):
    id: object


class _Models(BaseModel):
    """What is read of the list of models."""

    data: list[_Model]


class _Completion(BaseModel):
    """What is read of a chat completion. Servers write much else."""

    choices: list[object]
    usage: object = None

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


class NoReplyError(Exception):
    """A request that stayed without an answer after its tries, with the reason."""


Outcome = Reply | NoReplyError
"""What came of a request."""


@dataclass(frozen=True)
class Server:
    """Where the server is, and how it is asked."""

    endpoint: str
    """The URL in front of `/chat/completions`."""
    model: str
    """The model by the server's name for it."""
    key_variable: str = KEY_VARIABLE
    in_flight: int = 64
    timeout: float = 600.0
    """Seconds that a reply may take."""
    tries: int = 4
    """How often a request is sent if the server is busy, fails or does not answer."""
    template_arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments for the server's chat template."""
    has_max_tokens: bool = True
    """Whether to send the length limit. Otherwise the server gives what its context leaves."""

    def __post_init__(self) -> None:
        if self.key_variable != KEY_VARIABLE and not self.key:  # the key itself, by mistake?
            raise UserError(
                "--key-env: give the name of a variable that is set, not the key itself"
            )
        if not re.fullmatch("[!-~]*", self.key):
            raise UserError(f"{self.key_variable}: a key has ASCII characters alone, and no space")
        check_endpoint(self.endpoint, has_key=bool(self.key))

    @property
    def key(self) -> str:
        """Return the key from the environment, or an empty text."""
        return os.environ.get(self.key_variable, "").strip()

    def without_key(self, text: str) -> str:
        """Return a text without the key."""
        return text.replace(self.key, "***") if self.key else text

    def content(self, response: Any) -> bytes:
        """Return the body of a reply, without the key unless a text may have that by chance."""
        body: bytes = response.content
        if len(self.key) >= SHORTEST_KEY:
            return body.replace(self.key.encode(), b"***")
        return body

    def failure(self, text: str) -> UserError:
        """Return an error that names the endpoint."""
        return UserError(f"--endpoint {self.endpoint}: {self.without_key(text)}")

    def models(self) -> list[str]:
        """Return the names of the server's models, empty if it does not list them. Raises UserError
        if the server cannot be reached, refuses the key or lacks the model."""
        names = _run(self._models())
        if names and self.model not in names:
            known = ", ".join(shortened(name) for name in names[:SHOWN_MODELS])
            ellipsis = ", …" if len(names) > SHOWN_MODELS else ""
            raise self.failure(f"it has no model {shortened(self.model)}, but {known}{ellipsis}")
        return names

    async def _models(self) -> list[str]:
        async with self._client() as client:
            import httpx2
            import openai

            try:
                async with asyncio.timeout(self.timeout):
                    response = await client.get("/models", cast_to=httpx2.Response)
            except TimeoutError:
                raise self.failure(f"no list of models within {self.timeout:g} s") from None
            except openai.NotFoundError:
                return []
            except openai.OpenAIError as error:
                raise self.failure(self._reason(error)) from None
        try:
            listed = _Models.model_validate(parse_json(self.content(response)))
        except ValueError:
            raise self.failure(
                "what it answers to /models is no list of models; does the URL end in /v1?"
            ) from None
        return [str(model.id) for model in listed.data]

    def ask(
        self,
        requests: Sequence[Request],
        params: SamplingParams,
        on_outcomes: Callable[[Mapping[int, Outcome]], None],
    ) -> None:
        """Send every request, at most `in_flight` at a time.

        `on_outcomes` gets the outcomes by the numbers of the requests, soon after they arrive, and
        once more if this ends with an error. Raises UserError if the server refuses the key or the
        model, or if it does not answer any of the first `in_flight` requests.
        """
        # Ctrl-C may come between a coroutine and its await.
        warnings.filterwarnings("ignore", "coroutine .* was never awaited")
        _run(self._ask(requests, params, on_outcomes))

    async def _ask(
        self,
        requests: Sequence[Request],
        params: SamplingParams,
        on_outcomes: Callable[[Mapping[int, Outcome]], None],
    ) -> None:
        waiting = iter(enumerate(requests))
        outcomes: dict[int, Outcome] = {}
        is_answered = False

        async def work() -> None:
            # With one client for all, each request would look through the connections of all.
            async with self._client() as client:
                for number, request in waiting:
                    try:
                        outcomes[number] = await self._reply(client, request, params)
                    except NoReplyError as error:
                        outcomes[number] = error

        def hand_over() -> None:
            on_outcomes(outcomes)
            outcomes.clear()

        workers = min(self.in_flight, len(requests))
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {group.create_task(work()) for _ in range(workers)}
                while tasks:
                    _, tasks = await asyncio.wait(tasks, timeout=HAND_OVER_SECONDS)
                    came = outcomes.values()
                    is_answered = is_answered or any(isinstance(item, Reply) for item in came)
                    if is_answered:
                        hand_over()
                    elif len(outcomes) >= self.in_flight:
                        raise self.failure(
                            f"{plural(len(outcomes), 'request')} failed and none succeeded: "
                            f"{outcomes.popitem()[1]}"
                        )
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            hand_over()

    async def _reply(self, client: Any, request: Request, params: SamplingParams) -> Reply:
        """Return the reply to a request. A server that gives fewer responses than asked for, as
        those do that ignore `n`, is asked again for the rest. vLLM refuses `n` if it takes no
        chance."""
        responses: list[Response] = []
        tokens = 0.0
        while len(responses) < request.samples:
            left = request.samples - len(responses) if params.temperature else 1
            seed = (request.seed + len(responses)) % LARGEST_SEED
            part = await self._send(client, request, params, left, seed)
            part = part.first(left)
            responses += part.responses
            tokens += part.tokens
        return Reply(responses, tokens)

    async def _send(
        self, client: Any, request: Request, params: SamplingParams, samples: int, seed: int
    ) -> Reply:
        import httpx2
        import openai

        body = {
            "model": self.model,
            "messages": request.messages,
            "n": samples,
            "seed": seed,
            "temperature": params.temperature,
            "top_p": params.top_p,
        }
        if self.has_max_tokens:
            body["max_tokens"] = params.max_tokens
        if self.template_arguments:
            body["chat_template_kwargs"] = self.template_arguments
        longest = self.tries * (self.timeout + LONGEST_WAIT)
        try:
            async with asyncio.timeout(longest):
                # chat.completions.create takes half as much again: it looks through all types.
                response = await client.post(
                    "/chat/completions", cast_to=httpx2.Response, body=body
                )
        except (
            openai.AuthenticationError,
            openai.PermissionDeniedError,
            openai.NotFoundError,
        ) as error:
            raise self.failure(self._reason(error)) from None
        except openai.OpenAIError as error:
            raise NoReplyError(self._reason(error)) from None
        except TimeoutError:
            raise NoReplyError(f"no whole reply within {longest:g} s") from None
        return read_reply(self.content(response), request.problem)

    def _reason(self, error: Exception) -> str:
        """Say in a line why a request failed, and what to do if that is known."""
        import openai

        if isinstance(error, openai.APITimeoutError):
            return f"no reply within {self.timeout:g} s, {plural(self.tries, 'time')}"
        cause = error.__cause__ or error
        said = str(cause) or type(cause).__name__
        status = ""
        if isinstance(error, openai.APIStatusError):
            said = _message_of(error.body)
            location = error.response.headers.get("Location")
            if error.response.is_redirect and location:
                said = f"it redirects to {location}: name that address"
            status = f"{error.status_code} "
        line = status + " ".join(self.without_key(said).split())[:LONGEST_REASON]
        if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
            hint = f"set {self.key_variable}, or name the variable of the key with --key-env"
            return f"it refuses the key ({line}); {hint}"
        return line

    @asynccontextmanager
    async def _client(self) -> Any:
        """Open the client: no key but ours, no other host, no reply beyond a bound."""
        try:
            import httpx2
            import openai
        except ImportError:
            raise UserError("--endpoint needs the client: pip install 'rlvr[server]'") from None
        too_large = self.failure(f"a reply of more than {LARGEST_REPLY >> 20} MiB")

        class Bounded(httpx2.AsyncByteStream):
            def __init__(self, stream: Any) -> None:
                self.stream = stream

            async def __aiter__(self) -> AsyncIterator[bytes]:
                size = 0
                async for part in self.stream:
                    size += len(part)
                    if size > LARGEST_REPLY:
                        raise too_large
                    yield part

            async def aclose(self) -> None:
                await self.stream.aclose()

        async def send_less(request: Any) -> None:
            # The client adds what it finds in the environment, keys and accounts among it.
            for name in request.headers.keys() - SENT_HEADERS:
                del request.headers[name]
            request.headers["Authorization"] = f"Bearer {self.key or NO_KEY}"

        async def bound_reply(response: Any) -> None:
            response.stream = Bounded(response.stream)

        transport = openai.DefaultAsyncHttpxClient(
            follow_redirects=False,  # to a host that is to have no key of ours
            # A proxy of the environment is for other machines than those of plain http.
            trust_env=urlsplit(self.endpoint).scheme == "https",
            timeout=httpx2.Timeout(self.timeout, connect=CONNECT_SECONDS),
            verify=certificates(),
            event_hooks={"request": [send_less], "response": [bound_reply]},
        )
        client = openai.AsyncOpenAI(
            api_key=self.key or NO_KEY,
            base_url=self.endpoint,
            http_client=transport,
            max_retries=self.tries - 1,
            # A compressed reply could be small on the wire and large here.
            default_headers={"Accept-Encoding": "identity"},
        )
        async with client:
            yield client


@cache
def certificates() -> Any:
    """Read the certificates of this machine, which takes long, once for all clients."""
    import httpx2

    return httpx2.create_ssl_context()


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, in another thread if this one has a loop already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def check_endpoint(endpoint: str, has_key: bool) -> None:
    """Raise UserError for a text that is not a URL, or a URL that reveals a key."""
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise UserError(
            f"--endpoint {shortened(without_key(endpoint))}: give a URL such as "
            "http://localhost:8000/v1"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UserError(
            f"--endpoint of {host}: a key does not belong into the URL, which stands in results; "
            f"give the URL up to /v1, and the key in {KEY_VARIABLE}"
        )
    if parts.scheme == "https":  # plain http takes no proxy
        check_proxies()
    if has_key and parts.scheme == "http" and not is_this_machine(host):
        raise UserError(
            f"--endpoint {endpoint}: the key would go over the network in plain text; use https, "
            "or a tunnel to localhost, or unset the key"
        )


def is_this_machine(host: str) -> bool:
    """Return whether a host name is that of this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_reply(body: bytes, problem: Problem) -> Reply:
    """Read the choices of a chat completion. Raises NoReplyError without any."""
    try:
        completion = _Completion.model_validate(parse_json(body))
    except ValidationError:
        raise NoReplyError("the reply has no choices") from None
    except ValueError:
        raise NoReplyError("the reply is no JSON") from None
    if not completion.choices:
        raise NoReplyError("the reply has no choices")
    n_tokens = completion.tokens
    is_single = len(completion.choices) == 1
    responses: list[Response] = []
    for value in completion.choices:
        try:
            choice = _Choice.model_validate(value)
        except ValidationError:
            raise NoReplyError("a choice of the reply has no message") from None
        responses.append(
            Response(
                problem=problem,
                sample=len(responses),
                text=message_text(choice.message) or "",
                finish_reason=finish_reason(choice.finish_reason),
                n_tokens=n_tokens if is_single else None,
            )
        )
    return Reply(responses, float(n_tokens or 0))


class _Said(BaseModel):
    """What is read of an error."""

    error: object = None
    message: object = None


def _message_of(body: object) -> str:
    """Return the message of an error as servers write it, else the whole."""
    if not isinstance(body, dict):
        return str(body or "")
    error = _Said.model_validate(body).error or body
    if not isinstance(error, dict):
        return str(error)
    return str(_Said.model_validate(error).message or error)
