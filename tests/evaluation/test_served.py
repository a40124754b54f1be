"""A server's responses, and each way in which a server can fail."""

import asyncio
import sys

import pytest
from faulty_server import MODEL, faulty_server

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Problem, SamplingParams
from rlvr_cli.evaluation.served import NoReplyError, Reply, Request, Server

pytest.importorskip("openai")
PARAMS = SamplingParams(samples=2, max_tokens=16, temperature=0.5, top_p=0.9)
SECRET = "sk-very-secret-key"


@pytest.fixture(scope="module")
def running():
    with faulty_server() as server:
        yield server


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    """Wait a tenth of a second for a server that answers nobody, in place of a minute."""
    monkeypatch.setattr("rlvr_cli.evaluation.served.OUTAGE_SECONDS", 0.1)
    monkeypatch.setattr("rlvr_cli.evaluation.served.SHORTEST_WAIT", 0.01)


def request_of(text: str, samples: int = 2) -> Request:
    messages = [{"role": "user", "content": text}]
    return Request(Problem(text, text, None), messages, samples, seed=3)


def parts_of(reply: Reply) -> tuple[list[tuple[str, str | None, int | None]], float]:
    """The text, end and length of each response, and the tokens of all."""
    responses = [(each.text, each.finish_reason, each.n_tokens) for each in reply.responses]
    return responses, reply.tokens


def asked(server: Server, *texts: str, samples: int = 2) -> list[Reply | NoReplyError]:
    """The replies to one question a text, in the order of the texts."""
    replies = {}
    requests = [request_of(text, samples) for text in texts]
    server.ask(requests, PARAMS, replies.update)
    return [replies[number] for number in range(len(texts))]


def served(running, kind: str = "", **settings) -> Server:
    return Server(**{"endpoint": running.url(kind), "model": MODEL, "tries": 3, **settings})


def test_replies_come_with_what_was_asked_for(running):
    server = served(running, "thinks", template_arguments={"enable_thinking": True})
    first, other = asked(server, "1 + 2?", "20 + 3?")
    assert parts_of(first) == ([("<think>add them</think>\\boxed{3}", "stop", None)] * 2, 14.0)
    assert [response.problem.id for response in first.responses] == ["1 + 2?"] * 2
    assert other.responses[0].text.endswith("\\boxed{23}")
    _, path, headers, body = running.seen[-1]
    assert path == "/thinks/v1/chat/completions"
    assert headers["Authorization"] == "Bearer none"
    assert (body["n"], body["temperature"], body["top_p"], body["max_tokens"]) == (2, 0.5, 0.9, 16)
    assert body["chat_template_kwargs"] == {"enable_thinking": True}


def test_a_server_can_be_asked_from_within_a_loop_as_in_a_notebook(running):
    async def cell():
        return asked(served(running, "thinks"), "1 + 2?")

    (first,) = asyncio.run(cell())
    assert first.responses[0].text == "<think>add them</think>\\boxed{3}"


def test_a_server_that_ignores_n_is_asked_for_each(running):
    (reply,) = asked(served(running, "single"), "4 + 4?", samples=3)
    assert parts_of(reply) == ([("\\boxed{8}", "stop", 7)] * 3, 21.0)
    bodies = [body for _, path, _, body in running.seen if path.startswith("/single")]
    assert [(body["n"], body["seed"]) for body in bodies] == [(3, 3), (2, 4), (1, 5)]


def test_a_server_that_refuses_n_without_chance_is_asked_for_each(running):
    replies = {}
    requests = [request_of("6 + 6?")]
    params = SamplingParams(samples=2, max_tokens=16, temperature=0.0)
    served(running, "greedy").ask(requests, params, replies.update)
    assert parts_of(replies[0]) == ([("\\boxed{12}", "stop", 7)] * 2, 14.0)


@pytest.mark.parametrize("kind", ["busy", "bursts", "cut"])
def test_what_passes_is_tried_again(running, kind):
    (reply,) = asked(served(running, kind), f"{kind} 1 + 1?")
    assert [response.text for response in reply.responses] == ["\\boxed{2}"] * 2
    assert running.counts[f"{kind} 1 + 1?"] == {"busy": 2, "bursts": 3, "cut": 2}[kind]


@pytest.mark.parametrize(
    ("kind", "reply"),
    [
        ("parts", ([("so: \\boxed{3}", "stop", 7)], 7.0)),
        ("bare", ([("", None, None)], 0.0)),
        ("negative", ([("\\boxed{3}", "stop", None)], 0.0)),
    ],
)
def test_replies_of_unusual_shape(running, kind, reply):
    (actual,) = asked(served(running, kind), "1 + 2?", samples=1)
    assert parts_of(actual) == reply


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("broken", "500 out of luck"),
        ("later", "429 tomorrow"),
        ("never", "no whole reply within 0.1 s, 3 times"),
        ("empty", "the reply has no choices"),
        ("page", "the reply is no JSON"),
    ],
)
def test_what_stays_without_an_answer_has_its_reason(running, kind, reason):
    (error,) = asked(served(running, kind, timeout=0.1), f"{kind} 1?")
    assert str(error) == reason
    assert running.counts[f"{kind} 1?"] == (1 if kind == "later" else 3)
    with pytest.raises(UserError, match=f"[23] requests failed and none succeeded: {reason}"):
        asked(served(running, kind, timeout=0.1, in_flight=2), "a 1?", "b 2?", "c 3?")


def test_a_reply_that_comes_byte_by_byte_takes_no_longer_than_another(running):
    (error,) = asked(served(running, "drips", timeout=0.3, tries=2), "drips 1?")
    assert str(error) == "no whole reply within 0.3 s, 2 times"
    assert running.counts["drips 1?"] == 2


def test_a_prompt_that_a_server_refuses_costs_no_other(running):
    good, bad = asked(served(running, "refused"), "2 + 2?", "bad 1?")
    assert good.responses[0].text == "\\boxed{4}"
    assert str(bad) == "400 this prompt is too long"


def test_no_model_and_no_list(running):
    assert served(running).models() == [MODEL, "org/other"]
    assert served(running, "no-list").models() == []
    with pytest.raises(UserError, match=f"it has no model mine, but {MODEL}, org/other"):
        served(running, model="mine").models()
    with pytest.raises(UserError, match="no list of models; does the URL end in /v1"):
        served(running, "html").models()
    with pytest.raises(UserError, match="404 no such model"):
        asked(served(running, "gone"), "1?")


def test_without_the_client(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(UserError, match=r"pip install 'rlvr\[server\]'"):
        Server("http://localhost:1/v1", MODEL).models()


def test_nobody_there():
    with faulty_server() as server:
        url = server.url()
    with pytest.raises(UserError, match=f"--endpoint {url}: .*(refused|failed)"):
        Server(url, MODEL, tries=1).models()


def test_the_key_goes_to_the_server_alone(running, monkeypatch):
    monkeypatch.setenv("MY_KEY", SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-found")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-found")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-found")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer found\nX-Key: found")
    asked(served(running), "1 + 1?")
    headers = running.seen[-1][2]
    assert headers.get_all("Authorization") == ["Bearer none"]
    assert "found" not in str(headers)
    with pytest.raises(UserError, match=r"it refuses the key \(401") as caught:
        served(running, "locked", key_variable="MY_KEY").models()
    assert running.seen[-1][2]["Authorization"] == f"Bearer {SECRET}"
    assert SECRET not in str(caught.value)
    assert "--key-env" in str(caught.value)
    with pytest.raises(UserError, match=r"302 it redirects to http://another\.invalid/v1"):
        served(running, "elsewhere", key_variable="MY_KEY", tries=1).models()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("localhost:8000", "give a URL such as"),
        ("ftp://localhost/v1", "give a URL such as"),
        ("http://[half/v1", "give a URL such as"),
        ("https://user:pass@host/v1", "a key does not belong into the URL"),
        ("https://host/v1?api_key=1", "a key does not belong into the URL"),
        ("http://host/v1", "in plain text"),
        ("http://10.0.0.1:80/v1", "in plain text"),
    ],
)
def test_urls_that_are_refused(monkeypatch, url, reason):
    monkeypatch.setenv("RLVR_API_KEY", SECRET)
    with pytest.raises(UserError, match=reason) as caught:
        Server(url, MODEL)
    assert SECRET not in str(caught.value)
    assert "pass" not in str(caught.value)


def test_without_a_key_any_host_is_allowed(monkeypatch):
    monkeypatch.delenv("RLVR_API_KEY", raising=False)
    assert Server("http://node7:8000/v1", MODEL).key == ""
    monkeypatch.setenv("RLVR_API_KEY", SECRET)
    assert Server("http://127.0.0.2:8000/v1", MODEL).key == SECRET


def test_a_key_that_comes_back_stands_in_no_response(running, monkeypatch):
    monkeypatch.setenv("RLVR_API_KEY", SECRET)
    (reply,) = asked(served(running, "echoes"), "1?", samples=1)
    assert reply.responses[0].text == "Bearer ***"
    monkeypatch.setenv("RLVR_API_KEY", "EMPTY")  # a dummy that a text may have by chance
    (reply,) = asked(served(running, "echoes"), "1?", samples=1)
    assert reply.responses[0].text == "Bearer EMPTY"


def test_a_key_in_place_of_its_variable_is_not_shown(monkeypatch):
    with pytest.raises(UserError, match="--key-env: give the name of a variable") as caught:
        Server("http://localhost/v1", MODEL, key_variable=SECRET)
    assert SECRET not in str(caught.value)
    monkeypatch.setenv("RLVR_API_KEY", f"{SECRET}\n\x07")
    with pytest.raises(UserError, match="RLVR_API_KEY: a key has ASCII characters") as caught:
        Server("http://localhost/v1", MODEL)
    assert SECRET not in str(caught.value)
