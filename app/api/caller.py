"""Whether the caller is still there. WSGI does not tell, so the socket is looked at."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

_LOOK_SECONDS = 0.5


class CallerGone(Exception):
    """The caller hung up; nobody reads the answer."""


class Caller:
    """The other end of a request's connection. Without a socket (in tests without a server) it is always there.

    Args:
        environ: of the request; gunicorn puts its socket there.
        monotonic: seconds.
    """

    def __init__(self, environ: Mapping[str, Any], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._socket: socket.socket | None = environ.get("gunicorn.socket")
        self._monotonic = monotonic
        self._look_at = monotonic() + _LOOK_SECONDS

    def check(self) -> None:
        """Look at the socket, at most twice a second.

        Raises:
            CallerGone: the other end has closed.
        """
        if self._socket is None or self._monotonic() < self._look_at:
            return
        self._look_at = self._monotonic() + _LOOK_SECONDS
        if _closed(self._socket):
            raise CallerGone


def _closed(connection: socket.socket) -> bool:
    """Peek without waiting: nothing to read means alive, an end of file means closed, bytes are a next request."""
    before = connection.gettimeout()
    connection.settimeout(0)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.settimeout(before)
