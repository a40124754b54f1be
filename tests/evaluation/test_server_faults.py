"""Faults of a server on the wire, against a real one: none is a wrong answer, and none is final."""

import asyncio
import json
import math
import threading
import time
from collections import Counter
from contextlib import contextmanager

import pytest
from conftest import invoke, jsonl

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Problem, SamplingParams
from rlvr_cli.evaluation import served
from rlvr_cli.evaluation.replies import NoReplyError, Reply
from rlvr_cli.evaluation.served import Request, Server, refused_parameter, seconds_told

pytest.importorskip("openai")
PARAMS = SamplingParams(samples=2, max_tokens=16, temperature=0.5, top_p=0.9)
TRIES = 3


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(served, "OUTAGE_SECONDS", 0.1)
    monkeypatch.setattr(served, "SHORTEST_WAIT", 0.01)


def choice(text="\\boxed{2}", end="stop", **more):
    return {"message": {"content": text}, "finish_reason": end, **more}


def completion(*choices, tokens=7, **more):
    usage = {"completion_tokens": tokens * len(choices)}
    return {"model": "m", "choices": list(choices), "usage": usage, **more}


def http(body, status=200, length=None, headers=""):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    size = len(data) if length is None else length
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {size}\r\nContent-Type: application/json\r\n"
    return f"{head}{headers}Connection: close\r\n\r\n".encode() + data


GOOD = completion(choice(), choice())
FAULTS = {
    "an end that is an error": http(completion(choice("", "error"), choice("", "error"))),
    "aborted halfway": http(completion(choice("It is", "abort"), choice("It", "abort"))),
    "filtered": http(completion(*[choice("", "content_filter")] * 2)),
    "choices with an error": http(completion(*[choice("", None, error={"code": 502})] * 2)),
    "an error of state 200": http({"error": {"message": "credit is used up", "code": 402}}),
    "an error beside choices": http(completion(choice(), choice(), error={"message": "late"})),
    "an old error of vLLM": http({"object": "error", "message": "engine is dead", "code": 500}),
    "cut JSON": http(json.dumps(GOOD).encode()[:-9]),
    "a cut body": http(json.dumps(GOOD).encode()[:-9], length=500),
    "an error as the text": http(completion(*[choice('{"error": {"message": "502"}}')] * 2)),
    "a content of no form": http(completion(*[choice({"value": "\\boxed{2}"})] * 2)),
    "an error of FastAPI": http({"detail": "no worker"}),
    "no choices": http(completion()),
    "null for choices": http({"choices": None}),
    "a choice without a message": http({"choices": [{"finish_reason": "stop"}]}),
    "a page": http(b"<html>Bad gateway</html>"),
    "nothing": http(b""),
    "a list": http([GOOD]),
    "500": http({"error": {"message": "out of luck"}}, 500),
    "503 without a body": http(b"", 503),
    "429": http({"detail": "slow down"}, 429, headers="Retry-After: 0.01\r\n"),
    "a connection that ends": b"",
    "no HTTP": b"SSH-2.0-OpenSSH\r\n",
}
REASONS = {
    "an end that is an error": "finish_reason error",
    "aborted halfway": "finish_reason abort",
    "filtered": "finish_reason content_filter",
    "choices with an error": "{'code': 502}",
    "an error of state 200": "credit is used up",
    "an error beside choices": "late",
    "an old error of vLLM": "engine is dead",
    "cut JSON": "the reply is no JSON",
    "an error as the text": "502",
    "a content of no form": "a choice of the reply has a content that is no text",
    "an error of FastAPI": "no worker",
    "no choices": "the reply has no choices",
    "500": "500 out of luck",
}


class Wire:
    """What a server saw and does: `answer` takes a body, and how often that came before."""

    def __init__(self, answer):
        self.answer = answer
        self.bodies = Counter()
        self.asked = []

    async def serve(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(head.split("content-length:")[1].split()[0]) if "content-length" in head else 0
        if size == 0:
            writer.write(http({"data": [{"id": "m"}]}))
        else:
            text = (await reader.readexactly(size)).decode()
            before = self.bodies[text]
            self.bodies[text] += 1
            self.asked.append(json.loads(text))
            reply = self.answer(json.loads(text), before)
            if reply is None:
                await reader.read()  # until the client goes away
            elif isinstance(reply, list):
                for part in reply:
                    writer.write(part)
                    await asyncio.sleep(0.02)
            else:
                writer.write(reply)
        writer.close()


@contextmanager
def serving(answer):
    """A server of asyncio in a thread. Yields its endpoint and what it saw."""
    wire = Wire(answer)
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(wire.serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", wire
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def ask(endpoint, *texts, params=PARAMS, timeout=30.0):
    replies = {}
    requests = [
        Request(Problem(text, text, None), [{"role": "user", "content": text}], params.samples, 3)
        for text in texts
    ]
    server = Server(endpoint, "m", tries=TRIES, timeout=timeout)
    server.ask(requests, params, replies.update)
    return [replies[number] for number in range(len(texts))]


def problem_of(body):
    return body["messages"][-1]["content"]


def test_no_fault_is_an_answer_and_each_is_tried_again():
    """All faults at once: each stays for one problem, and passes after a try for another."""

    def answer(body, before):
        name, _, is_passing = problem_of(body).partition("|")
        return FAULTS[name] if not is_passing or before == 0 else http(GOOD)

    names = list(FAULTS)
    with serving(answer) as (endpoint, wire):
        outcomes = ask(endpoint, *names, *[f"{name}|passes" for name in names])
    for name, outcome in zip(names, outcomes, strict=False):
        assert isinstance(outcome, NoReplyError), name
        assert REASONS.get(name, str(outcome)) == str(outcome)
    for name, outcome in zip(names, outcomes[len(names) :], strict=True):
        assert isinstance(outcome, Reply), (name, outcome)
        assert [response.text for response in outcome.responses] == ["\\boxed{2}"] * 2
    sent = Counter({problem_of(json.loads(text)): n for text, n in wire.bodies.items()})
    assert [sent[name] for name in names] == [TRIES] * len(names)
    assert {sent[f"{name}|passes"] for name in names} == {2}


def test_only_the_choices_that_failed_are_asked_again():
    def answer(body, before):
        bad = choice("half", "abort")
        return http(completion(choice("a"), bad, choice("b")) if body["n"] == 3 else GOOD)

    with serving(answer) as (endpoint, wire):
        (reply,) = ask(endpoint, "1?", params=SamplingParams(3, 16, 0.5))
    assert [response.text for response in reply.responses] == ["a", "b", "\\boxed{2}"]
    assert [(body["n"], body["seed"]) for body in wire.asked] == [(3, 3), (1, 5)]


def test_silence_is_a_failure_after_the_timeout_of_each_try():
    with serving(lambda body, before: None) as (endpoint, wire):
        (error,) = ask(endpoint, "1?", timeout=0.3)
    assert str(error) == f"no whole reply within 0.3 s, {TRIES} times"
    assert len(wire.asked) == TRIES


def test_a_reply_that_drips_is_cut_off_and_tried_again():
    slow = [b"HTTP/1.1 200 X\r\nContent-Length: 999\r\n\r\n", *[b" "] * 200]
    with serving(lambda body, before: slow if before == 0 else http(GOOD)) as (endpoint, wire):
        (reply,) = ask(endpoint, "1?", timeout=0.5)  # of the 4 s that it would drip
    assert len(reply.responses) == 2
    assert len(wire.asked) == 2


@pytest.mark.parametrize(
    ("name", "message", "status"),
    [
        ("n", "n > 1 is not supported", 400),
        ("n", {"loc": ["body", "n"], "msg": "extra fields not permitted"}, 422),
        ("n", "Only one completion choice is allowed", 400),
        ("seed", "Unrecognized request argument supplied: seed", 400),
        ("seed", "property 'seed' is unsupported", 422),
        ("temperature", "Unsupported value: 'temperature' must be 1", 400),
        ("max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'", 400),
    ],
)
def test_a_server_that_refuses_a_parameter_is_asked_without(caplog, name, message, status):
    def answer(body, before):
        if name in body:
            return http({"error": {"message": message}}, status)
        return http(completion(choice()) if name == "n" else GOOD)

    with serving(answer) as (endpoint, wire):
        replies = ask(endpoint, "1?", "2?", "3?")
    assert [len(reply.responses) for reply in replies] == [2, 2, 2]
    assert max(wire.bodies.values()) == 1
    (said,) = [text for text in caplog.messages if "refuses" in text]
    assert f"the server refuses {name} and is asked without it" in said
    rest = [body for body in wire.asked if name not in body]
    assert len(rest) == (6 if name == "n" else 3)
    assert {"n", "seed", "temperature", "max_tokens", "top_p"} - rest[-1].keys() == {name}
    if name == "n":  # once a sample, each with a seed of its own
        assert sorted(body["seed"] for body in rest) == [3, 3, 3, 4, 4, 4]


def test_two_parameters_may_be_refused():
    def answer(body, before):
        for name in ("seed", "temperature"):
            if name in body:
                return http({"error": {"message": "Unsupported parameter", "param": name}}, 400)
        return http(GOOD)

    with serving(answer) as (endpoint, wire):
        (reply,) = ask(endpoint, "1?")
    assert len(reply.responses) == 2
    assert len(wire.asked) == 3


@pytest.mark.parametrize(
    "reason",
    [
        "400 This model's maximum context length is 4096 tokens; reduce max_tokens",
        "400 max_tokens is too large: 9000",
        "400 this prompt is too long",
        "400 it doesn't know the model of an engine",
        "413 content too large",
    ],
)
def test_what_refuses_the_prompt_refuses_no_parameter(reason):
    assert refused_parameter(reason, {"n": 2, "seed": 1, "max_tokens": 9000}) is None


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        ("400 multiple choices are not supported", "n"),
        ("400 this server gives one completion for each request", "n"),
        ("400 seed is of no use for chat completions", "seed"),
        ("400 tool_choice is not supported", None),
    ],
)
def test_a_refusal_of_several_samples_may_not_name_n(reason, name):
    assert refused_parameter(reason, {"n": 2, "seed": 1}) == name
    assert refused_parameter(reason, {}) is None


def test_a_parameter_stays_if_the_request_fails_without_it_too(caplog):
    def answer(body, before):
        if problem_of(body) == "bad":
            return http({"error": {"message": "no seed can help"}}, 400)
        return http(GOOD)

    with serving(answer) as (endpoint, _):
        bad, good = ask(endpoint, "bad", "1?")
    assert str(bad) == "400 no seed can help"
    assert len(good.responses) == 2
    assert not [text for text in caplog.messages if "refuses" in text]


def test_another_models_name_is_said_once(caplog):
    with serving(lambda body, before: http({**GOOD, "model": "org/another"})) as (endpoint, _):
        ask(endpoint, "1?", "2?")
    (said,) = [text for text in caplog.messages if "replies as" in text]
    assert "the server replies as model org/another, and was asked for m" in said


@pytest.mark.parametrize(
    ("tokens", "temperature", "is_equal", "is_said"),
    [
        (20, 0.5, lambda text: True, True),
        (20, 0.5, lambda text: text in "12", True),
        (20, 0.5, lambda text: text == "1", False),
        (19, 0.5, lambda text: True, False),
        (20, 0.0, lambda text: True, False),
    ],
)
def test_equal_samples_of_some_length_are_said(caplog, tokens, temperature, is_equal, is_said):
    """Of four problems: at least half must have equal samples, of 20 tokens, sampled by chance."""

    def answer(body, before):
        other = "one" if is_equal(problem_of(body)) else "other"
        return http(completion(choice("one"), choice(other), tokens=tokens))

    with serving(answer) as (endpoint, _):
        ask(endpoint, *"1234", params=SamplingParams(2, 16, temperature))
    assert bool([text for text in caplog.messages if "same text" in text]) == is_said


def test_an_outage_is_outlasted_and_a_failure_beside_replies_waits_less(monkeypatch):
    """A server that answers nobody for its first 0.5 s, where an outage may take 0.6 s."""
    monkeypatch.setattr(served, "OUTAGE_SECONDS", 0.6)
    began = time.monotonic()
    down = http(b"", 503)
    with serving(lambda body, before: down if time.monotonic() < began + 0.5 else http(GOOD)) as (
        endpoint,
        wire,
    ):
        replies = ask(endpoint, *"12345")
    assert [len(reply.responses) for reply in replies] == [2] * 5
    assert max(wire.bodies.values()) <= TRIES

    # Waits of a request while the server answers nobody (0.6 s in all), and while it does others.
    asking = served._Asking(Server("http://localhost/v1", "m", tries=4), PARAMS)
    monkeypatch.setattr(served, "JITTER", 0.0)
    asking.failing_since = 100.0
    waits = [asking._wait(number, 100.1, 100.0) for number in (1, 2, 3)]
    assert waits == pytest.approx([0.6 / 21, 2.4 / 21, 9.6 / 21])
    asking.failing_since = 100.05  # another request was answered since this one failed first
    assert [asking._wait(number, 100.1, 100.0) for number in (1, 2, 3)] == [0.01, 0.02, 0.04]
    asking.failing_since = 90.0  # the outage is longer than that
    assert asking._wait(3, 100.1, 100.0) == 0.04
    asking.failing_since = 100.0
    assert asking._wait(2, 100.1, -math.inf) == 0.02  # it replied, if nothing that can be read


def test_how_long_a_server_asks_to_wait():
    assert seconds_told({"Retry-After": "1.5"}) == 1.5
    assert seconds_told({"Retry-After": "-3"}) == 0
    assert seconds_told({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert seconds_told({"Retry-After": "Sun, 01 Jan 2090 00:00:00 GMT"}) > 1e6
    for text in ("soon", "inf", "nan", ""):
        assert seconds_told({"Retry-After": text}) is None
    assert seconds_told({}) is None


@pytest.mark.parametrize("proxy", ["socks5://me:secret@host:1", "ftp://host", "socks4://host"])
def test_a_proxy_of_another_kind_is_one_line(monkeypatch, proxy):
    monkeypatch.setenv("ALL_PROXY", proxy)
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="ALL_PROXY") as caught:
        Server("https://host.invalid/v1", "m", tries=1).models()
    assert "secret" not in str(caught.value)


def test_a_figure_leaves_out_what_failed_and_says_how_many(tmp_path):
    rows = [{"id": name, "problem": f"{name} 1 + 1?", "answer": "2"} for name in "abc"]
    (tmp_path / "sums.jsonl").write_text(jsonl(*rows))

    def answer(body, before):
        is_bad = problem_of(body).startswith("b")
        return FAULTS["an end that is an error"] if is_bad else http(GOOD)

    with serving(answer) as (endpoint, _):
        arguments = ("eval", tmp_path / "sums.jsonl", "--endpoint", endpoint, "--model", "m")
        result = invoke(*arguments, "-n", "2", "--set", "server.tries=2", "--format", "json")
    assert result.exit_code == 0, result.stderr
    (entry,) = json.loads(result.stdout)["results"]
    assert (entry["pass@k"]["1"]["value"], entry["problems"]) == (1.0, 2)
    assert entry["failed"] == {"no reply": 2}
    said = " ".join(result.stderr.split())
    assert "no reply to 1 problem of 3, which the figures leave out" in said
    assert "finish_reason error" in said
    assert "2 missing" in said
