"""A server of the OpenAI protocol that answers a prompt badly at first and well later on: for engine `remote`."""

from __future__ import annotations

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GOOD = "all is well"
_MESSAGE = {"role": "assistant", "content": GOOD}
_WHOLE = json.dumps({"choices": [{"index": 0, "message": _MESSAGE, "finish_reason": "stop"}]}).encode()  # for probes


class ShakyEngine:
    """Listens on a free loopback port. A prompt `FAULT TIMES …` is answered with that fault so many times.

    Faults: `error` (500), `length` (the answer is cut by its budget), `empty` (no text), `cut` (the stream breaks off),
    `hang` (nothing comes until the caller hangs up).
    """

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def fault_of(self, prompt: str) -> str:
        """The fault of this call, or "" once all is well."""
        with self._lock:
            self.asked[prompt] += 1
            words = prompt.split()
            wrong = len(words) > 2 and words[1].isdigit() and self.asked[prompt] <= int(words[1])
        return words[0] if wrong else ""

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


def _handler(engine: ShakyEngine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(json.dumps({"object": "list", "data": []}).encode(), "application/json")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fault = engine.fault_of(str(body["messages"][-1]["content"]))
            if fault == "hang":
                engine.closing.wait(30)
                return
            if fault == "error":
                self._send(b'{"error": {"message": "broken", "type": "server_error"}}', "application/json", 500)
                return
            if body.get("stream"):
                self._send(_stream(fault), "text/event-stream", cut=fault == "cut")
            else:
                self._send(_WHOLE, "application/json")

        def _send(self, content: bytes, kind: str, status: int = 200, *, cut: bool = False) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content) + (1000 if cut else 0)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the signature is the library's
            """Say nothing."""

    return Handler


def _stream(fault: str) -> bytes:
    words = [] if fault == "empty" else GOOD.split(" ")[: 1 if fault in {"length", "cut"} else None]
    events = [_chunk({"content": word if n == 0 else f" {word}"}) for n, word in enumerate(words)]
    if fault == "cut":
        return b"".join(events)
    usage = {"prompt_tokens": 3, "completion_tokens": len(words), "total_tokens": 3 + len(words)}
    end = _chunk({}, finish="length" if fault == "length" else "stop")
    return b"".join([*events, end, _event({"choices": [], "usage": usage}), b"data: [DONE]\n\n"])


def _chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    return _event(
        {
            "id": "x",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "far",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }
    )


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"
