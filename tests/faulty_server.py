"""A small server of chat completions that answers, or fails in a way that its path names."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "org/model"


def answer_to(body: dict[str, Any]) -> str:
    """What the model says: the sum of the numbers in the last message, boxed."""
    words = body["messages"][-1]["content"].replace("?", " ").replace("+", " ").split()
    return f"\\boxed{{{sum(int(word) for word in words if word.isdecimal())}}}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Server"

    def log_message(self, *args: object) -> None:
        pass

    def send(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        """Send a body, as JSON unless it is text."""
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.server.seen.append(("GET", self.path, self.headers, None))
        if "no-list" in self.path:
            self.send(404, {"error": {"message": "nothing here"}})
        elif "html" in self.path:
            self.send(200, "<html>Welcome</html>")
        elif "locked" in self.path:
            key = self.headers["Authorization"]
            self.send(401, {"error": {"message": f"Incorrect API key: {key}"}})
        elif "elsewhere" in self.path:
            self.send(302, "", {"Location": "http://another.invalid/v1/models"})
        else:
            self.send(200, {"object": "list", "data": [{"id": MODEL}, {"id": "org/other"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.seen.append(("POST", self.path, self.headers, body))
            self.server.counts[body["messages"][-1]["content"]] += 1
            times = self.server.counts[body["messages"][-1]["content"]]
            self.server.at_once += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.at_once)
        time.sleep(self.server.seconds)
        with self.server.lock:
            self.server.at_once -= 1
        path = self.path
        if "busy" in path and times == 1:
            self.send(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.01"})
        elif ("bursts" in path and times < 3) or "broken" in path:
            self.send(500, {"error": "out of luck"}, {"Retry-After": "0.01"})
        elif "cut" in path and times == 1:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
            self.close_connection = True
        elif "greedy" in path and body["temperature"] == 0 and body["n"] > 1:
            self.send(400, {"error": {"message": "n must be 1 when using greedy sampling"}})
        elif "later" in path:
            self.send(429, {"error": {"message": "tomorrow"}}, {"Retry-After": "10000"})
        elif "drips" in path:
            self.send_response(200)
            self.end_headers()
            for _ in range(100):
                self.wfile.write(b" ")
                time.sleep(0.02)
        elif "never" in path:
            time.sleep(1.0)
            self.close_connection = True
        elif "empty" in path:
            self.send(200, {"choices": []})
        elif "page" in path:
            self.send(200, "<html>Gateway</html>")
        elif "refused" in path and "bad" in body["messages"][-1]["content"]:
            self.send(400, {"error": {"message": "this prompt is too long"}})
        elif "gone" in path:
            self.send(404, {"error": {"message": "no such model"}})
        else:
            count = 1 if "single" in path else body.get("n") or 1
            message = {"role": "assistant", "content": answer_to(body)}
            if "thinks" in path:
                message["reasoning_content"] = "add them"
            if "parts" in path:
                parts = [{"type": "text", "text": text} for text in ("so: ", answer_to(body))]
                message["content"] = [*parts, {"type": "image", "text": None}, 3]
            if "echoes" in path:
                message["content"] = self.headers["Authorization"]
            choice = {"message": message, "finish_reason": "stop", "unknown": [1]}
            completion = {"choices": [choice] * count, "usage": {"completion_tokens": 7 * count}}
            if "bare" in path:
                choice = {"message": {"content": None}, "finish_reason": None}
                completion = {"choices": [choice] * count}
            if "negative" in path:
                completion["usage"] = {"completion_tokens": -1}
            self.send(200, completion)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, seconds: float) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seconds = seconds
        self.seen: list[tuple[str, str, Any, Any]] = []
        self.counts: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing about a client that went away."""

    def url(self, kind: str = "") -> str:
        """The endpoint of which the path names a fault."""
        return f"http://127.0.0.1:{self.server_port}/{kind}/v1".replace("//v1", "/v1")


@contextmanager
def faulty_server(seconds: float = 0.0) -> Iterator[Server]:
    """Serve on a free port of this machine until the end of the block."""
    server = Server(seconds)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    with faulty_server(seconds=0.05) as running:
        print(running.url(), flush=True)
        threading.Event().wait()
