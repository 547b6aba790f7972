"""Gunicorn's gevent worker, which on SIGTERM closes idle keep-alive connections instead of waiting for them.

Gunicorn counts a client that holds its connection open as a request under way: one such client (the OpenAI SDK keeps a
pool of them) makes a stop last until the keep-alive time or the grace is over.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import gevent
from gunicorn.http.errors import ParseException
from gunicorn.workers.ggevent import GeventWorker

from app.api import raw_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_AT_ONCE = 0.001
_LINGER_SECONDS, _LINGER_READS = 0.5, 16


class DrainingWorker(GeventWorker):  # type: ignore[misc]  # gunicorn is untyped
    """Knows which of its greenlets wait for a next request."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: dict[Any, gevent.Timeout] = {}

    @contextmanager
    def timeout_ctx(self) -> Iterator[None]:
        """Around the wait for a request's head: the keep-alive time, or no time at all once we are leaving."""
        current = gevent.getcurrent()
        with gevent.Timeout(self.cfg.keepalive if self.alive else _AT_ONCE, False) as timeout:
            self._waiting[current] = timeout
            try:
                yield
            finally:
                del self._waiting[current]

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:  # noqa: ARG002
        """Answer what is no HTTP, or what broke below the application: as JSON, like everything else."""
        if not isinstance(exc, ParseException):
            self.log.error("Error handling request", exc_info=exc)
        with suppress(OSError):
            client.sendall(raw_errors.answer_to(exc))
            _linger(client)

    def handle_exit(self, sig: int, frame: Any) -> None:
        super().handle_exit(sig, frame)
        gevent.spawn(self._hang_up)  # not in the signal handler itself: closing may switch greenlets

    def _hang_up(self) -> None:
        for greenlet, timeout in list(self._waiting.items()):
            gevent.kill(greenlet, timeout)  # its time is up now


def _linger(client: Any) -> None:
    """Read a little of what is still coming: closing over unread bytes resets the connection, answer and all."""
    client.shutdown(socket.SHUT_WR)
    with gevent.Timeout(_LINGER_SECONDS, False):
        for _ in range(_LINGER_READS):
            if not client.recv(65_536):
                return
