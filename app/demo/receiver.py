"""A tiny webhook receiver on loopback: keeps what came and answers 204."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Queue


@dataclass(frozen=True)
class Delivery:
    """One webhook request as it came."""

    headers: dict[str, str]
    body: str


class Receiver:
    """Listens on a free port from construction to `close`."""

    def __init__(self) -> None:
        self._deliveries: Queue[Delivery] = Queue()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._deliveries))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/webhook"

    def next(self, timeout: float) -> Delivery | None:
        """The next delivery, waiting up to `timeout` seconds."""
        try:
            return self._deliveries.get(timeout=timeout)
        except Empty:
            return None

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(deliveries: Queue[Delivery]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            deliveries.put(Delivery(dict(self.headers.items()), body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """The story tells what came."""

    return Handler
