"""Name to addresses, in bounded time.

The system's resolver blocks and has no timeout of its own, so it runs in a few threads. Under gevent's monkey patching
these are greenlets and `getaddrinfo` uses the hub's own resolver: the hub goes on either way.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError

Lookup = Callable[[str, int], tuple[str, ...]]
"""`(host, port) -> addresses`, each in its standard spelling; raises OSError when the name leads nowhere."""


class SystemLookup:
    """The system's resolver (hosts file included) with a time limit."""

    def __init__(self, *, timeout: float = 2.0, threads: int = 8) -> None:
        self._timeout = timeout
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lookup")

    def __call__(self, host: str, port: int) -> tuple[str, ...]:
        """Addresses of `host`, without duplicates, in the resolver's order.

        Raises:
            OSError: no such name, the resolver failed, or `timeout` seconds passed (then TimeoutError).
        """
        future = self._pool.submit(_system_addresses, host, port)
        try:
            return future.result(self._timeout)
        except FutureTimeoutError:
            future.cancel()
            raise TimeoutError(f"no answer from the resolver within {self._timeout:g} s") from None


def _system_addresses(host: str, port: int) -> tuple[str, ...]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except UnicodeError as error:  # a label that the resolver's codec cannot carry
        raise OSError(str(error)) from None
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
