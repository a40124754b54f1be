"""Sample from vLLM servers, which get the weights by a directory that both sides see."""

import asyncio
import math
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from queue import Queue
from secrets import token_hex
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from rlvr_cli.core.errors import EngineError, UserError
from rlvr_cli.core.jsonl import parse_json
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.types import Completion, SamplingParams, TokenIds
from rlvr_cli.rollout.endpoint import KEY_VARIABLE, LARGEST_REPLY, Endpoint, run_coroutine
from rlvr_cli.rollout.engines.base import (
    CompletionStream,
    Engine,
    FinishedGroup,
    Listener,
    NamedTensors,
    not_finite,
    refuse_prompts,
)
from rlvr_cli.rollout.engines.pushed import VllmWeights, WeightsDirectory, in_type

if TYPE_CHECKING:
    from transformers import PreTrainedModel

GENERATE = "/inference/v1/generate"
_TOKEN_BYTES = 512
"""Bytes of a reply for a token, its log-probability and their names: 130 were seen."""
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 8.0
"""Seconds before the servers are asked again, after all of them failed. Each wait is twice as long
as the one before."""
_NOT_FINITE = -9999.0
"""What vLLM writes in place of a log-probability that is not finite."""
_ROUNDING = 1e-5
"""How far above 0 rounding may take the log-probability of a sure token."""


@dataclass(frozen=True)
class ServerSettings:
    """How the servers are asked."""

    key_variable: str = KEY_VARIABLE
    in_flight: int = 256
    """Groups that wait for the servers at a time."""
    timeout: float = 600.0
    """Seconds that a whole reply may take."""
    tries: int = 3
    """How often all servers are asked for a group before the run ends."""


class RequestFailedError(Exception):
    """A request that got no usable answer, with the reason."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        """The status of HTTP, if the server refused."""


class StaleServerError(RequestFailedError):
    """A server answered with other weights than those that it was given."""


@dataclass(frozen=True)
class RolloutServer(Endpoint):
    """One vLLM server."""

    flag: ClassVar[str] = "--rollout-server"
    form: ClassVar[str] = "http://127.0.0.1:8000"
    endpoint: str
    key_variable: str = KEY_VARIABLE
    timeout: float = 600.0
    largest_reply: int = LARGEST_REPLY

    async def request(self, client: Any, path: str, body: object = None) -> Any:
        """Return the answer to a request, which is a POST if it has a body.

        Raises RequestFailedError if it is refused, late, too large or not JSON.
        """
        import httpx2
        import openai

        try:
            async with asyncio.timeout(self.timeout):
                if body is None:
                    response = await client.get(path, cast_to=httpx2.Response)
                else:
                    response = await client.post(path, cast_to=httpx2.Response, body=body)
            return parse_json(response.content) if response.content else None
        except TimeoutError:
            raise RequestFailedError(f"no whole reply within {self.timeout:g} s") from None
        except openai.APIStatusError as error:
            raise RequestFailedError(self.reason(error), error.status_code) from None
        except openai.OpenAIError as error:
            raise RequestFailedError(self.reason(error)) from None
        except UserError as error:  # a reply beyond the bound
            raise RequestFailedError(str(error)) from None
        except ValueError as error:
            raise RequestFailedError(f"its reply to {path} is {error}") from None

    def ask(self, path: str, body: object = None) -> Any:
        """Return the answer to one request, as `request` does."""

        async def once() -> Any:
            async with self.client() as client:
                return await self.request(client, path, body)

        return run_coroutine(once())

    def rpc(self, method: str, **arguments: object) -> None:
        """Call a method of the server's workers."""
        self.ask("/collective_rpc", {"method": method, "kwargs": arguments})

    def load(self, path: str, version: str) -> None:
        """Have the server read the weights of a directory, and name them by a version.

        Raises RequestFailedError unless it says that it has read them.
        """
        self.ask("/pause?mode=abort", {})
        try:
            # What was started without weights would not read any.
            self.rpc("update_config", overrides={"load_config": {"load_format": "safetensors"}})
            self.rpc("reload_weights", weights_path=path)
            answer = self.ask("/reset_prefix_cache", {})
            if not isinstance(answer, dict) or answer.get("success") is not True:
                raise RequestFailedError("its cache of earlier prompts could not be emptied")
            self.ask("/update_weight_version", {"new_version": version})
        finally:
            with suppress(RequestFailedError):
                self.ask("/resume", {})
        if self.weight_version() != version:
            raise RequestFailedError("it does not name the version of the weights that it was told")

    def weight_version(self) -> str:
        """Return the server's name for its weights."""
        answer = self.ask("/weight_info")
        return str(answer.get("weight_version")) if isinstance(answer, dict) else ""


class NotFiniteError(RequestFailedError):
    """A server gave log-probabilities that are not finite."""


class _Read(BaseModel):
    """A part of a reply, of which other fields are not read."""

    model_config = ConfigDict(strict=True)


class _Entry(_Read):
    logprob: float


class _Logprobs(_Read):
    content: list[_Entry]


class _Span(_Read):
    version: str
    start: int
    end: int


class _Choice(_Read):
    """What is read of a sampled response."""

    index: int
    finish_reason: Literal["stop", "length"]
    token_ids: list[int]
    logprobs: _Logprobs
    weight_versions: list[_Span]


class _Group(_Read):
    choices: list[_Choice]


class ServerEngine(Engine):
    """An engine on servers that were started elsewhere (`rlvr serve`).

    `vocab_size` is the tokenizer's, `precision` the type in which the servers compute. A prompt is
    dealt to a server by its place, so a response does not depend on how many servers there are. A
    server that fails is asked again, and then another one, with the same seeds. One that answers
    with other weights, or did not take a push, is left out until the next push. Raises UserError
    for a URL that is none, and for a directory that cannot be used.
    """

    name = "a rollout server"

    def __init__(
        self,
        model: "PreTrainedModel",
        vocab_size: int,
        stop_ids: TokenIds,
        urls: Sequence[str],
        directory: WeightsDirectory,
        precision: str = "float32",
        settings: ServerSettings | None = None,
    ) -> None:
        self.model = model
        self.stop_ids = frozenset(stop_ids)
        self.settings = settings or ServerSettings()
        self.precision = precision
        self.servers = [
            RolloutServer(server_url(url), self.settings.key_variable, self.settings.timeout)
            for url in dict.fromkeys(urls)
        ]
        self.active = list(self.servers)
        """Those that have the newest weights."""
        self.refusals: dict[RolloutServer, RequestFailedError] = {}
        """Why the others did not take them."""
        self.directory = directory
        self.directory.open()
        self.weights = VllmWeights(model, vocab_size, ties=False)
        config = model.config.get_text_config()
        self.context = int(getattr(config, "max_position_embeddings", None) or 1 << 20)
        """Lowered to that of the servers by the contract."""
        self._run = token_hex(4)
        # Another run that pushed to the same server would use the same numbers.
        self.version = ""

    def generate(
        self,
        prompts: Sequence[TokenIds],
        params: SamplingParams,
        seeds: Sequence[int],
        listener: Listener | None = None,
    ) -> CompletionStream:
        """Generate as `Engine.generate` says. Raises EngineError if no server gives a group."""
        refuse_prompts(prompts, params.max_tokens, self.context)
        groups = _Groups(self, prompts, params, seeds)
        with groups.in_background() as finished:
            for _ in prompts:
                outcome = finished.get()
                if isinstance(outcome, BaseException):
                    raise outcome
                p, group = outcome
                if listener is not None:
                    for completion in group:
                        for token in completion.token_ids:
                            listener(token)
                yield p, group * (params.samples // len(group))

    def rely_on(self, servers: Collection[str]) -> None:
        """Leave out the servers of other addresses until the next push."""
        self.active = [server for server in self.active if server.endpoint in servers]

    def sync_weights(self, named_parameters: NamedTensors) -> None:
        """Write the weights to a new directory and have every server read it.

        Raises EngineError if it cannot be written, or if no server reads it.
        """
        tensors = in_type(self.weights.of(named_parameters), self.precision)
        path = self.directory.write(tensors, self.model)
        self.version = f"{self._run}-{self.directory.number}"
        self.refusals = run_coroutine(self._load_all(path))
        self.active = [server for server in self.servers if server not in self.refusals]
        said = in_words(self.refusals)
        if not self.active:
            raise EngineError(f"no rollout server takes the weights: {said}")
        if self.refusals:
            LOG.warning("warning    left out until the next push of weights: %s", said)
        self.directory.remove_older()

    async def _load_all(self, path: str) -> dict[RolloutServer, RequestFailedError]:
        """Push to all servers at a time. Return why it failed, for those that failed."""
        failures: dict[RolloutServer, RequestFailedError] = {}

        async def load(server: RolloutServer) -> None:
            try:
                await asyncio.to_thread(server.load, path, self.version)
            except RequestFailedError as error:
                failures[server] = error

        await asyncio.gather(*map(load, self.servers))
        return {server: failures[server] for server in self.servers if server in failures}

    def close(self) -> None:
        """Remove the directories of weights, and ask for no more groups. The servers go on."""
        self.active = []
        self.directory.close()

    def body(self, prompt: TokenIds, params: SamplingParams, seed: int) -> dict[str, object]:
        """Return the request for a group. At temperature 0 only one response is sampled."""
        return {
            "token_ids": list(prompt),
            "sampling_params": {
                "n": params.samples if params.temperature > 0 else 1,
                "max_tokens": params.max_tokens,
                "temperature": params.temperature,
                "top_p": params.top_p,
                "seed": seed,
                "stop_token_ids": sorted(self.stop_ids),
                "ignore_eos": True,
                "logprobs": 0,
                "detokenize": False,
            },
        }

    async def ask_group(
        self,
        server: RolloutServer,
        client: Any,
        prompt: TokenIds,
        params: SamplingParams,
        seed: int,
    ) -> list[Completion]:
        """Return the group of a prompt from one server.

        Raises RequestFailedError if its reply is not that of a group, and StaleServerError if one
        of its tokens was not sampled with the newest weights.
        """
        body = self.body(prompt, params, seed)
        reply = await server.request(client, GENERATE, body)
        try:
            choices = _Group.model_validate(reply).choices
        except ValidationError:
            raise RequestFailedError("its reply is no group of responses") from None
        choices.sort(key=lambda choice: choice.index)
        samples = params.samples if params.temperature > 0 else 1
        if [choice.index for choice in choices] != list(range(samples)):
            raise RequestFailedError(
                f"it gives {len(choices)} responses, and {samples} were to come"
            )
        return [self._completion(server, choice, params) for choice in choices]

    def _completion(
        self, server: RolloutServer, choice: _Choice, params: SamplingParams
    ) -> Completion:
        """Return one response, if it is one. Raises as `ask_group` does."""
        ids = choice.token_ids
        logprobs = [entry.logprob for entry in choice.logprobs.content]
        if not 0 < len(ids) <= params.max_tokens or len(logprobs) != len(ids):
            raise RequestFailedError(
                f"it gives {len(ids)} tokens with {len(logprobs)} log-probabilities, where 1 to "
                f"{params.max_tokens} were to come"
            )
        if not all(0 <= token < self.weights.vocab_size for token in ids):
            raise RequestFailedError("it samples tokens that are not in the vocabulary")
        if not all(_NOT_FINITE < logprob < math.inf for logprob in logprobs):  # nan is not
            raise NotFiniteError("its log-probabilities are not finite")
        if max(logprobs) > _ROUNDING:
            raise RequestFailedError("it gives a log-probability above 0")
        is_stopped = ids[-1] in self.stop_ids
        is_late = any(token in self.stop_ids for token in ids[:-1])
        is_short = not is_stopped and len(ids) < params.max_tokens
        if is_late or is_short or is_stopped != (choice.finish_reason == "stop"):
            raise RequestFailedError("it ends a response elsewhere than at a stop token")
        spans = [(span.version, span.start, span.end) for span in choice.weight_versions]
        if spans != [(self.version, 0, len(ids))]:
            names = ", ".join(dict.fromkeys(version for version, _, _ in spans)) or "none"
            raise StaleServerError(
                f"it samples with weights that it names {names[:100]}, not {self.version}"
            )
        if params.temperature == 0:
            logprobs = [0.0] * len(ids)
        return Completion(
            token_ids=ids,
            logprobs=[min(0.0, logprob) for logprob in logprobs],
            finish_reason=choice.finish_reason,
            server=server.endpoint,
        )


class _Groups:
    """The groups of one call of `generate`, asked for in a thread of their own."""

    def __init__(
        self,
        engine: ServerEngine,
        prompts: Sequence[TokenIds],
        params: SamplingParams,
        seeds: Sequence[int],
    ) -> None:
        self.engine = engine
        self.prompts = prompts
        self.params = params
        self.seeds = seeds
        self.failing: set[RolloutServer] = set()
        """Those whose newest reply was none. They are asked last."""
        self.finished: Queue[FinishedGroup | BaseException] = Queue()

    @contextmanager
    def in_background(self) -> Iterator["Queue[FinishedGroup | BaseException]"]:
        """Ask for all groups, and yield the queue in which they arrive, or an error.

        Leaving the block gives up the rest: their connections close, and the servers stop.
        """
        loop = asyncio.new_event_loop()
        work = loop.create_task(self._ask_all())

        def run() -> None:
            asyncio.set_event_loop(loop)
            with suppress(asyncio.CancelledError):
                loop.run_until_complete(work)
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

        thread = threading.Thread(target=run, name="rollouts", daemon=True)
        thread.start()
        try:
            yield self.finished
        finally:
            with suppress(RuntimeError):  # it is closed already
                loop.call_soon_threadsafe(work.cancel)
            thread.join()

    async def _ask_all(self) -> None:
        """Put every group into the queue as it arrives, or the first error."""
        numbers = iter(range(len(self.prompts)))

        async def work() -> None:
            # With one client for all, each request would look through the connections of all.
            async with AsyncExitStack() as stack:
                clients: dict[RolloutServer, Any] = {}
                for server in self.engine.servers:
                    bounded = self._bounded(server)
                    clients[server] = await stack.enter_async_context(bounded.client())
                for p in numbers:
                    self.finished.put((p, await self._group(clients, p)))

        try:
            async with asyncio.TaskGroup() as workers:  # an error of one ends the others
                for _ in range(min(self.engine.settings.in_flight, len(self.prompts))):
                    workers.create_task(work())
        except* Exception as errors:
            self.finished.put(errors.exceptions[0])

    def _bounded(self, server: RolloutServer) -> RolloutServer:
        """Return the server with the bound of a reply that holds a group."""
        tokens = self.params.samples * self.params.max_tokens
        return replace(server, largest_reply=LARGEST_REPLY + _TOKEN_BYTES * tokens)

    def _order(self, p: int) -> list[RolloutServer]:
        """Return the servers to ask for a prompt: from its place on, those that fail last."""
        active = self.engine.active
        start = p % max(1, len(active))
        return sorted([*active[start:], *active[:start]], key=lambda server: server in self.failing)

    async def _group(self, clients: dict[RolloutServer, Any], p: int) -> list[Completion]:
        """Return the group of a prompt, from the first server that gives it."""
        errors: dict[RolloutServer, RequestFailedError] = {}
        wait = _FIRST_WAIT
        for number in range(self.engine.settings.tries):
            if number:
                await asyncio.sleep(wait)
                wait = min(_LONGEST_WAIT, 2 * wait)
            for server in self._order(p):
                try:
                    group = await self.engine.ask_group(
                        server, clients[server], self.prompts[p], self.params, self.seeds[p]
                    )
                except RequestFailedError as error:
                    self._note(server, error)
                    errors[server] = error
                else:
                    self.failing.discard(server)
                    return group
            if not self.engine.active:
                break
        if all(isinstance(error, NotFiniteError) for error in errors.values()):
            raise not_finite(self.engine.precision)
        raise EngineError(f"no rollout server gives the responses: {in_words(errors)}")

    def _note(self, server: RolloutServer, error: RequestFailedError) -> None:
        """Note a failure of a server, say it once, and leave a stale one out."""
        active = self.engine.active
        if server in active and server not in self.failing:
            LOG.warning("warning    %s fails (%s): asked again", server.endpoint, error)
        self.failing.add(server)
        if isinstance(error, StaleServerError) and server in active:
            self.engine.active = [other for other in active if other != server]


def server_url(url: str) -> str:
    """Return the URL of a server without the end that chat clients need."""
    return url.rstrip("/").removesuffix("/v1")


def in_words(errors: Mapping[RolloutServer, RequestFailedError]) -> str:
    """Say in a line why each of these servers failed."""
    return "; ".join(f"{server.endpoint}: {error}" for server, error in errors.items())
