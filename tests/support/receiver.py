"""A real HTTP receiver of webhooks for tests: keeps what came, answers as told, hangs on request."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """What to answer. `hang` waits until the receiver closes before the status, `trickle` after the first body byte."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    hang: bool = False
    trickle: bool = False


Behaviour = Callable[[int], Reply]
"""Number of the request, from 0, to the reply."""


def always(reply: Reply) -> Behaviour:
    return lambda _number: reply


ALWAYS_OK = always(Reply())


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Callers that hang up are part of the tests."""


class Receiver:
    """Listens on a free loopback port from construction to `close`."""

    def __init__(self, behaviour: Behaviour = ALWAYS_OK, tls: ssl.SSLContext | None = None) -> None:
        self.received: list[Received] = []
        self.closing = threading.Event()
        self.behaviour = behaviour
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def url(self, path: str = "/hook", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def take(self, received: Received) -> Reply:
        with self._lock:
            number = len(self.received)
            self.received.append(received)
        return self.behaviour(number)

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = receiver.take(Received(self.path, headers, body))
            if reply.hang:
                receiver.closing.wait(60)
            self._answer(reply)

        def _answer(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body) + (1000 if reply.trickle else 0)))
            self.end_headers()
            self.wfile.write(reply.body)
            if reply.trickle:
                self.wfile.flush()
                receiver.closing.wait(60)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the signature is the library's
            """Say nothing."""

    return Handler


class Listener:
    """A bare TCP listener that counts who connects: what must never be reached."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.port = int(self._socket.getsockname()[1])

    def connections(self) -> int:
        """How many have connected since the last call."""
        count = 0
        while True:
            try:
                self._socket.accept()[0].close()
            except BlockingIOError:
                return count
            count += 1

    def close(self) -> None:
        self._socket.close()
