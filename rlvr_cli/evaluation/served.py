"""Ask a server that speaks OpenAI's chat completions for responses."""

import asyncio
import ipaddress
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.core.types import SamplingParams

KEY_VARIABLE = "RLVR_API_KEY"
"""The environment variable that holds the key unless `--key-env` names another."""
NO_KEY = "none"
"""What the client sends as a key if there is none: it would look for one by itself otherwise."""
LARGEST_REPLY = 32 << 20  # bytes, some 8 million tokens: more is no list of responses
LARGEST_SEED = 2**31  # what every server takes as an integer
LONGEST_REASON = 200  # characters of what a server says about a failure
SHOWN_MODELS = 5
CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Request:
    """A chat to which a server is to give some responses."""

    messages: Sequence[Mapping[str, str]]
    samples: int
    seed: int


@dataclass(frozen=True)
class Reply:
    """A response as a server gave it."""

    text: str
    """With the thought in front, between think tags, if the server keeps it apart."""
    finish_reason: str | None
    n_tokens: int | None
    """Tokens of the response. None if the server counts only those of several together."""


class NoReplyError(Exception):
    """A request that stayed without an answer after its tries, with the reason."""


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
        check_endpoint(self.endpoint, has_key=bool(self.key))

    @property
    def key(self) -> str:
        """Return the key from the environment, empty if there is none."""
        return os.environ.get(self.key_variable, "").strip()

    def masked(self, text: str) -> str:
        """Return what a server said in one short line, without the key."""
        line = " ".join(text.split())
        if self.key:
            line = line.replace(self.key, "***")
        return line[:LONGEST_REASON]

    def failure(self, text: str) -> UserError:
        """Return an error that names the endpoint."""
        return UserError(f"--endpoint {self.endpoint}: {text}")

    def models(self) -> list[str]:
        """Return the names of the server's models, empty if it does not list them. Raises UserError
        if the server cannot be reached, refuses the key or lacks the model."""
        names = asyncio.run(self._models())
        if names and self.model not in names:
            known = ", ".join(shortened(name) for name in names[:SHOWN_MODELS])
            more = ", …" if len(names) > SHOWN_MODELS else ""
            raise self.failure(f"it has no model {shortened(self.model)}, but {known}{more}")
        return names

    async def _models(self) -> list[str]:
        import openai

        async with self._client() as client:
            try:
                body = (await client.models.with_raw_response.list()).content
            except openai.NotFoundError:
                return []
            except openai.OpenAIError as error:
                raise self.failure(self._reason(error)) from None
        try:
            rows = json.loads(body)["data"]
            return [str(row["id"]) for row in rows]
        except (ValueError, TypeError, KeyError):
            raise self.failure(
                "what it answers to /models is no list of models; does the URL end in /v1?"
            ) from None

    def ask(
        self,
        requests: Sequence[Request],
        params: SamplingParams,
        on_reply: Callable[[int, list[Reply] | NoReplyError], None],
    ) -> None:
        """Send every request, at most `in_flight` at a time, and call `on_reply` with the number of
        a request and its replies as they come. Raises UserError if the server refuses the key or
        the model, or if the first `in_flight` requests all fail."""
        asyncio.run(self._ask(requests, params, on_reply))

    async def _ask(
        self,
        requests: Sequence[Request],
        params: SamplingParams,
        on_reply: Callable[[int, list[Reply] | NoReplyError], None],
    ) -> None:
        waiting: Iterator[tuple[int, Request]] = iter(enumerate(requests))
        counts = {"answered": 0, "failed": 0}

        async def work(client: Any) -> None:
            for number, request in waiting:
                try:
                    replies = await self._replies(client, request, params)
                except NoReplyError as error:
                    counts["failed"] += 1
                    if not counts["answered"] and counts["failed"] >= self.in_flight:
                        count = plural(counts["failed"], "request")
                        raise self.failure(f"{count} failed and none succeeded: {error}") from None
                    on_reply(number, error)
                else:
                    counts["answered"] += 1
                    on_reply(number, replies)

        async with self._client() as client:
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self.in_flight, len(requests))):
                        group.create_task(work(client))
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None

    async def _replies(self, client: Any, request: Request, params: SamplingParams) -> list[Reply]:
        """Return the replies to a request. A server that gives fewer than asked for, as those do
        that ignore `n`, is asked again for the rest."""
        replies: list[Reply] = []
        while len(replies) < request.samples:
            left = request.samples - len(replies)
            seed = (request.seed + len(replies)) % LARGEST_SEED
            replies += (await self._send(client, request.messages, params, left, seed))[:left]
        return replies

    async def _send(
        self,
        client: Any,
        messages: Sequence[Mapping[str, str]],
        params: SamplingParams,
        samples: int,
        seed: int,
    ) -> list[Reply]:
        import openai

        extra = {"chat_template_kwargs": dict(self.template_arguments)}
        try:
            response = await client.chat.completions.with_raw_response.create(
                model=self.model,
                messages=messages,
                n=samples,
                seed=seed,
                temperature=params.temperature,
                top_p=params.top_p,
                max_tokens=params.max_tokens if self.has_max_tokens else openai.NOT_GIVEN,
                extra_body=extra if self.template_arguments else None,
            )
        except (
            openai.AuthenticationError,
            openai.PermissionDeniedError,
            openai.NotFoundError,
        ) as error:
            raise self.failure(self._reason(error)) from None
        except openai.OpenAIError as error:
            raise NoReplyError(self._reason(error)) from None
        return read_replies(response.content)

    def _reason(self, error: Exception) -> str:
        """Say in a line why a request failed, and what to do if that is known."""
        import openai

        if isinstance(error, openai.APITimeoutError):
            return f"no reply within {self.timeout:g} s, {plural(self.tries, 'time')}"
        if isinstance(error, openai.APIStatusError):
            said = self.masked(_message_of(error.body))
            if error.status_code in (401, 403):
                hint = f"set {self.key_variable}, or name the variable of the key with --key-env"
                return f"it refuses the key ({error.status_code} {said}); {hint}"
            return f"{error.status_code} {said}"
        cause = error.__cause__
        return self.masked(str(cause or error)) or type(cause or error).__name__

    @asynccontextmanager
    async def _client(self) -> Any:
        """Open the client: no key but ours, no other host, no reply beyond a bound."""
        try:
            import httpx2
            import openai
        except ImportError:
            raise UserError("--endpoint needs the client: pip install 'rlvr[server]'") from None
        host = urlsplit(self.endpoint).netloc

        async def check_request(request: Any) -> None:
            if request.url.netloc.decode() != host:
                raise self.failure(f"it redirects to another host ({request.url.host})")
            for name in ("OpenAI-Organization", "OpenAI-Project"):
                request.headers.pop(name, None)

        async def bound_reply(response: Any) -> None:
            response.stream = bounded(response.stream)

        def bounded(stream: Any) -> Any:
            too_large = self.failure(f"a reply of more than {LARGEST_REPLY >> 20} MiB")

            class Bounded(httpx2.AsyncByteStream):
                async def __aiter__(self) -> AsyncIterator[bytes]:
                    size = 0
                    async for part in stream:
                        size += len(part)
                        if size > LARGEST_REPLY:
                            raise too_large
                        yield part

                async def aclose(self) -> None:
                    await stream.aclose()

            return Bounded()

        transport = openai.DefaultAsyncHttpxClient(
            follow_redirects=True,
            # A proxy of the environment is for other machines than those of plain http.
            trust_env=urlsplit(self.endpoint).scheme == "https",
            timeout=httpx2.Timeout(self.timeout, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=self.in_flight),
            event_hooks={"request": [check_request], "response": [bound_reply]},
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


def check_endpoint(endpoint: str, has_key: bool) -> None:
    """Raise UserError for a URL that is none, holds a key, or would send one in the open."""
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise UserError(
            f"--endpoint {shortened(endpoint)}: give a URL such as http://localhost:8000/v1"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UserError(
            f"--endpoint of {host}: a key does not belong into the URL, which stands in results; "
            f"give the URL up to /v1, and the key in {KEY_VARIABLE}"
        )
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


def read_replies(body: bytes) -> list[Reply]:
    """Read the choices of a chat completion. Raises NoReplyError if there are none."""
    try:
        completion = json.loads(body)
    except ValueError:
        raise NoReplyError("the reply is no JSON") from None
    choices = completion.get("choices") if isinstance(completion, dict) else None
    if not isinstance(choices, list) or not choices:
        raise NoReplyError("the reply has no choices")
    usage = completion.get("usage")
    n_tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if len(choices) > 1 or not isinstance(n_tokens, int):
        n_tokens = None
    replies = []
    for choice in choices:
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            raise NoReplyError("a choice of the reply has no message")
        finish_reason = choice.get("finish_reason")
        replies.append(
            Reply(
                text=message_text(message),
                finish_reason=finish_reason if isinstance(finish_reason, str) else None,
                n_tokens=n_tokens,
            )
        )
    return replies


def message_text(message: Mapping[str, Any]) -> str:
    """Return the text of an assistant's message, behind its thought if that is kept apart."""
    content = message.get("content")
    text = content if isinstance(content, str) else ""
    thought = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thought, str):
        return f"<think>{thought}</think>{text}"
    return text


def _message_of(body: object) -> str:
    """Return the message of an error as servers write it, else the whole."""
    if isinstance(body, dict):
        error = body.get("error", body)
        if isinstance(error, dict):
            return str(error.get("message", error))
        return str(error)
    return str(body or "")
