"""Reach a server over HTTP: one host, our key alone, replies of bounded size."""

import asyncio
import ipaddress
import os
import re
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel

from rlvr_cli.core.environment import check_proxies
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.text import shortened, without_key

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
LONGEST_REASON = 200  # characters of what a server says about a failure
CONNECT_SECONDS = 10.0


class Endpoint:
    """A server, and the client that reaches it. Subclasses are dataclasses with these fields."""

    flag: ClassVar[str] = "--endpoint"
    """The option that names the server, with which messages begin."""
    form: ClassVar[str] = "http://localhost:8000/v1"
    """An example of its URL."""
    endpoint: str
    """The URL in front of the paths that are asked for."""
    largest_reply: int = LARGEST_REPLY
    """Bytes of a reply at most."""
    key_variable: str
    """The environment variable that holds the key."""

    def __post_init__(self) -> None:
        if self.key_variable != KEY_VARIABLE and not self.key:  # the key itself, by mistake?
            raise UserError(
                "--key-env: give the name of a variable that is set, not the key itself"
            )
        if not re.fullmatch("[!-~]*", self.key):
            raise UserError(f"{self.key_variable}: a key has ASCII characters alone, and no space")
        check_endpoint(self.endpoint, bool(self.key), self.flag, self.form)

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
        return UserError(f"{self.flag} {self.endpoint}: {self.without_key(text)}")

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
            raise UserError(f"{self.flag} needs the client: pip install 'rlvr[server]'") from None
        largest = self.largest_reply
        too_large = self.failure(f"a reply of more than {largest >> 20} MiB")

        class Bounded(httpx2.AsyncByteStream):
            def __init__(self, stream: Any) -> None:
                self.stream = stream

            async def __aiter__(self) -> AsyncIterator[bytes]:
                size = 0
                async for part in self.stream:
                    size += len(part)
                    if size > largest:
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


class Said(BaseModel):
    """What is read of an error."""

    error: object = None
    message: object = None
    detail: object = None
    """What FastAPI names the message."""
    param: object = None
    """The parameter that it is about."""


def message_of(body: object) -> str:
    """Return the message of an error as servers write it, and the parameter that it is about, else
    the whole."""
    if not isinstance(body, dict):
        return str(body or "")
    error = Said.model_validate(body).error or body
    if not isinstance(error, dict):
        return str(error)
    said = Said.model_validate(error)
    message = str(said.message or error)
    return f"{message} ({said.param})" if said.param else message


@cache
def certificates() -> Any:
    """Read the certificates of this machine, which takes long, once for all clients."""
    import httpx2

    return httpx2.create_ssl_context()


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, in another thread if this one has a loop already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def check_endpoint(
    endpoint: str, has_key: bool, flag: str = Endpoint.flag, form: str = Endpoint.form
) -> None:
    """Raise UserError for a text that is not a URL, or a URL that reveals a key."""
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise UserError(f"{flag} {shortened(without_key(endpoint))}: give a URL such as {form}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UserError(
            f"{flag} of {host}: a key does not belong into the URL, which stands in results; "
            f"give the URL alone, as {form}, and the key in {KEY_VARIABLE}"
        )
    if parts.scheme == "https":  # plain http takes no proxy
        check_proxies()
    if has_key and parts.scheme == "http" and not is_this_machine(host):
        raise UserError(
            f"{flag} {endpoint}: the key would go over the network in plain text; use https, "
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
