"""Ask a server that speaks OpenAI's chat completions for responses."""

import asyncio
import ipaddress
import math
import os
import random
import re
import time
import warnings
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.utils import mktime_tz, parsedate_tz
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel

from rlvr_cli.core.environment import check_proxies
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import parse_json
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.text import plural, shortened, without_key
from rlvr_cli.core.types import Problem, SamplingParams
from rlvr_cli.evaluation.replies import NoReplyError, Reply, message_of, read_reply

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
CONNECT_SECONDS = 10.0
LONGEST_WAIT = 120.0
"""Seconds that the client waits before it tries again, at a server's word."""
SHORTEST_WAIT = 0.5
LONGEST_SHORT_WAIT = 8.0
"""Seconds before the second try of a server that answers others. Each later wait is twice as long,
up to this."""
OUTAGE_SECONDS = 60.0
"""How long a server may answer nobody, as when it is started again, before requests are lost."""
OUTAGE_GROWTH = 4.0
"""The factor by which a wait is longer than the previous one, while a server answers nobody."""
JITTER = 0.25
"""Share by which waits are longer at random, so that not all requests come at once."""
PASSING_STATUS = {408, 409, 429}
"""States after which another try may succeed, in addition to those of 500 and above."""
FEWEST_EQUAL_TOKENS = 20
"""Tokens from which on two samples are not equal by chance."""
OPTIONAL = {
    "n": "each sample is a request of its own",
    "seed": "its samples are not seeded",
    "temperature": "it samples at a temperature of its own",
    "max_tokens": "responses end at a limit of its own",
}
"""Parameters that a request can do without, and what that means."""
_OF_SAMPLES = re.compile(r"(?<!\w)(choice|completion)s?(?!\w)")
"""What a refusal of `n` may say that does not name it: llama.cpp allows `one completion choice`."""
_OF_THE_PROMPT = re.compile("context|too (long|large)")
"""What a refusal says of a prompt that is too long, which may name `max_tokens` too."""
HAND_OVER_SECONDS = 0.1
"""What arrives within this time is judged and written together: each write waits for the disk."""


@dataclass(frozen=True)
class Request:
    """A chat to which a server is to give some responses."""

    problem: Problem
    messages: Sequence[Mapping[str, str]]
    samples: int
    seed: int


class _Model(BaseModel):
    id: object


class _Models(BaseModel):
    """What is read of the list of models."""

    data: list[_Model]


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
    """Seconds that a whole reply may take."""
    tries: int = 4
    """How often a request is sent if the server is busy, fails, or gives no reply to read."""
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
        async with self.client() as client:
            import httpx2
            import openai

            try:
                async with asyncio.timeout(self.timeout):
                    listing = client.with_options(max_retries=self.tries - 1)
                    response = await listing.get("/models", cast_to=httpx2.Response)
            except TimeoutError:
                raise self.failure(f"no list of models within {self.timeout:g} s") from None
            except openai.NotFoundError:
                return []
            except openai.OpenAIError as error:
                raise self.failure(self.reason(error)) from None
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
        _run(_Asking(self, params).ask(requests, on_outcomes))

    def reason(self, error: Exception) -> str:
        """Say in a line why a request failed, and what to do if that is known."""
        import openai

        cause = error.__cause__ or error
        said = str(cause) or type(cause).__name__
        status = ""
        if isinstance(error, openai.APIStatusError):
            said = message_of(error.body)
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
    async def client(self) -> Any:
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

        try:
            transport = openai.DefaultAsyncHttpxClient(
                follow_redirects=False,  # to a host that is to have no key of ours
                # A proxy of the environment is for other machines than those of plain http.
                trust_env=urlsplit(self.endpoint).scheme == "https",
                timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),  # `timeout` is of the whole
                verify=certificates(),
                event_hooks={"request": [send_less], "response": [bound_reply]},
            )
        except ImportError:  # whose text may have the password of a proxy
            raise self.failure(
                "the proxy of the environment (ALL_PROXY, HTTPS_PROXY) is a socks proxy, which "
                "needs another package: name one of http or https, or unset it"
            ) from None
        client = openai.AsyncOpenAI(
            api_key=self.key or NO_KEY,
            base_url=self.endpoint,
            http_client=transport,
            max_retries=0,  # a reply that cannot be read is tried again too: `_Asking.attempt`
            # A compressed reply could be small on the wire and large here.
            default_headers={"Accept-Encoding": "identity"},
        )
        async with client:
            yield client


class _RefusedError(Exception):
    """What a server says of a request that is not as it takes them."""


class _Asking:
    """The requests of one `Server.ask`, and what they have shown of the server."""

    def __init__(self, server: Server, params: SamplingParams) -> None:
        self.server = server
        self.params = params
        self.refused: set[str] = set()
        """Parameters without which a request succeeded that was refused with them."""
        self.failing_since = math.inf
        """When a request got no reply first since the last one that was answered."""
        self.foreign_models: set[str] = set()
        self.compared = 0
        """Replies with several samples of some length."""
        self.equal = 0
        """How many of these have one text in all samples."""

    async def ask(
        self,
        requests: Sequence[Request],
        on_outcomes: Callable[[Mapping[int, Outcome]], None],
    ) -> None:
        """Send every request (`Server.ask`), and warn if samples are equal."""
        waiting = iter(enumerate(requests))
        outcomes: dict[int, Outcome] = {}
        is_answered = False

        async def work() -> None:
            # With one client for all, each request would look through the connections of all.
            async with self.server.client() as client:
                for number, request in waiting:
                    try:
                        outcomes[number] = await self._reply(client, request)
                    except NoReplyError as error:
                        outcomes[number] = error

        def hand_over() -> None:
            on_outcomes(outcomes)
            outcomes.clear()

        in_flight = self.server.in_flight
        workers = min(in_flight, len(requests))
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {group.create_task(work()) for _ in range(workers)}
                while tasks:
                    _, tasks = await asyncio.wait(tasks, timeout=HAND_OVER_SECONDS)
                    came = outcomes.values()
                    is_answered = is_answered or any(isinstance(item, Reply) for item in came)
                    if is_answered:
                        hand_over()
                    elif len(outcomes) >= in_flight:
                        raise self.server.failure(
                            f"{plural(len(outcomes), 'request')} failed and none succeeded: "
                            f"{outcomes.popitem()[1]}"
                        )
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            hand_over()
        self._warn_of_equal_samples()

    async def _reply(self, client: Any, request: Request) -> Reply:
        """Return the reply to a request. A server that gives fewer responses than asked for, as
        those do that ignore `n`, is asked again for the rest. vLLM refuses `n` if it takes no
        chance."""
        parts: list[Reply] = []
        count = 0
        while count < request.samples:
            samples = request.samples - count if self.params.temperature else 1
            seed = (request.seed + count) % LARGEST_SEED
            part = await self._send(client, request, samples, seed)
            parts.append(part.first(samples))
            count += len(parts[-1].responses)
        responses = [response for part in parts for response in part.responses]
        reply = Reply(responses, sum(part.tokens for part in parts))
        self._compare_samples(reply)
        return reply

    async def _send(self, client: Any, request: Request, samples: int, seed: int) -> Reply:
        """Return the reply to a request for some samples. It is sent again without a parameter that
        the server refuses, and so are all later ones if that succeeds."""
        reasons: dict[str, str] = {}
        while True:
            body = self._body(request, samples, seed, self.refused | reasons.keys())
            try:
                reply = await self.attempt(client, body, request.problem)
                break
            except _RefusedError as error:
                name = refused_parameter(str(error), body)
                if name is None:
                    raise NoReplyError(str(error)) from None
                reasons[name] = str(error)
        for name, reason in reasons.items():
            if name not in self.refused:
                self.refused.add(name)
                LOG.warning(
                    "the server refuses %s and is asked without it, so that %s (%s)",
                    name,
                    OPTIONAL[name],
                    reason,
                )
        self._note_model(reply)
        return reply

    def _body(
        self, request: Request, samples: int, seed: int, refused: Collection[str]
    ) -> dict[str, object]:
        """Return the body of a request without the parameters that are refused."""
        body: dict[str, object] = {
            "model": self.server.model,
            "messages": request.messages,
            "n": samples,
            "seed": seed,
            "temperature": self.params.temperature,
            "top_p": self.params.top_p,
        }
        if self.server.has_max_tokens:
            body["max_tokens"] = self.params.max_tokens
        if self.server.template_arguments:
            body["chat_template_kwargs"] = self.server.template_arguments
        return {name: value for name, value in body.items() if name not in refused}

    async def attempt(self, client: Any, body: Mapping[str, object], problem: Problem) -> Reply:
        """Return the reply to a body, which is sent at most `tries` times: again if the server is
        busy, fails, takes too long or gives a reply that cannot be read.

        Raises NoReplyError if none is left, _RefusedError if the server does not take the body, and
        UserError if it refuses the key or the model.
        """
        import httpx2
        import openai

        first_failure = math.inf
        for number in range(1, self.server.tries + 1):
            told = None
            is_away = True
            try:
                async with asyncio.timeout(self.server.timeout):
                    # chat.completions.create takes half as much again: it looks through all types.
                    response = await client.post(
                        "/chat/completions", cast_to=httpx2.Response, body=body
                    )
                reply = read_reply(self.server.content(response), problem)
            except (
                openai.AuthenticationError,
                openai.PermissionDeniedError,
                openai.NotFoundError,
            ) as error:
                raise self.server.failure(self.server.reason(error)) from None
            except openai.APIStatusError as error:
                reason = self.server.reason(error)
                if error.status_code < 500 and error.status_code not in PASSING_STATUS:
                    raise _RefusedError(reason) from None
                told = seconds_told(error.response.headers)
            except openai.OpenAIError as error:
                reason = self.server.reason(error)
            except TimeoutError:
                times = plural(number, "time")
                reason = f"no whole reply within {self.server.timeout:g} s, {times}"
                is_away = False
            except NoReplyError as error:
                reason = self.server.without_key(str(error))
                is_away = False
            else:
                self.failing_since = math.inf
                return reply
            now = time.monotonic()
            if is_away:
                first_failure = min(first_failure, now)
                self.failing_since = min(self.failing_since, now)
            wait = self._wait(number, now, first_failure if is_away else -math.inf)
            wait = wait if told is None else told
            if number == self.server.tries or wait > LONGEST_WAIT:
                break
            await asyncio.sleep(wait)
        raise NoReplyError(reason[:LONGEST_REASON])

    def _wait(self, number: int, now: float, first_failure: float) -> float:
        """Return the seconds to wait after a failure of this number at the time `now`.

        While the server has answered nobody since `first_failure` of this request, the waits of all
        its tries make up the time of an outage, unless that is over already. After a reply that
        cannot be read the server is there, and `first_failure` is -inf.
        """
        seconds = min(LONGEST_SHORT_WAIT, SHORTEST_WAIT * 2.0 ** (number - 1))
        since = self.failing_since
        if since <= first_failure and now - since < OUTAGE_SECONDS:
            waits = [OUTAGE_GROWTH**place for place in range(self.server.tries - 1)]
            if number <= len(waits):
                seconds = OUTAGE_SECONDS * waits[number - 1] / sum(waits)
        return seconds * random.uniform(1, 1 + JITTER)

    def _note_model(self, reply: Reply) -> None:
        """Warn once of each other model that a reply names."""
        name = reply.model
        if not name or name == self.server.model or name in self.foreign_models:
            return
        self.foreign_models.add(name)
        if len(self.foreign_models) <= SHOWN_MODELS:
            LOG.warning(
                "the server replies as model %s, and was asked for %s: which one is measured?",
                shortened(name),
                shortened(self.server.model),
            )

    def _compare_samples(self, reply: Reply) -> None:
        """Count a reply whose samples are long enough to differ, and whether they are all equal."""
        texts = [response.text for response in reply.responses]
        tokens = reply.tokens / len(texts) or len(texts[0].split())
        if len(texts) > 1 and self.params.temperature and tokens >= FEWEST_EQUAL_TOKENS:
            self.compared += 1
            self.equal += len(set(texts)) == 1

    def _warn_of_equal_samples(self) -> None:
        """Warn if the samples of half of the problems are equal, though their seeds are not."""
        if self.equal and 2 * self.equal >= self.compared:
            LOG.warning(
                "all samples have the same text in %d of %s: a cache, or a server that ignores "
                "seeds, gives one sample for several",
                self.equal,
                plural(self.compared, "problem"),
            )


def refused_parameter(reason: str, body: Mapping[str, object]) -> str | None:
    """Return the parameter of a body that a refusal names, or `n` if it names none and speaks of
    choices. Return None if none can be left out, or if it speaks of the prompt."""
    if _OF_THE_PROMPT.search(reason.lower()):
        return None
    for name in OPTIONAL:
        if name in body and re.search(rf"(?<!\w){name}(?!\w)", reason):
            return name
    return "n" if "n" in body and _OF_SAMPLES.search(reason) else None


def seconds_told(headers: Mapping[str, str]) -> float | None:
    """Return how long a server asks to wait before another try. Return None if it does not."""
    text = headers.get("Retry-After", "")
    date = parsedate_tz(text)
    with suppress(ValueError):
        seconds = float(text) if date is None else float(mktime_tz(date)) - time.time()
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


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
