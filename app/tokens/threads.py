"""Work that would hold up every other stream of this process goes to a few threads of the operating system.

Under gevent `threading` makes greenlets, which all share one thread; gevent's own pool has real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gevent import monkey
from gevent.threadpool import ThreadPool

from app.errors import QueueUnavailable

T = TypeVar("T")


class Threads:
    """At most `size` pieces of work at once; `waiting` more may wait for their turn.

    Without monkey patching the caller has a thread of its own already, and works in it.
    """

    def __init__(self, size: int = 2, waiting: int = 64) -> None:
        self._size = size
        self._most = size + waiting
        self._pool: ThreadPool | None = None
        self._under_way = 0

    def run(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises. Other greenlets go on meanwhile.

        Raises:
            QueueUnavailable: too many wait already.
        """
        if not monkey.is_module_patched("threading"):
            return work()
        if self._under_way >= self._most:
            raise QueueUnavailable("too many long prompts are being counted; try again in a moment", retry_after=1)
        self._under_way += 1
        try:
            value, error = self._threads().apply(_caught, (work,))
        finally:
            self._under_way -= 1
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return]

    def _threads(self) -> ThreadPool:
        """Made at the first use, in the process that uses it: threads do not survive a fork."""
        if self._pool is None:
            self._pool = ThreadPool(self._size)
        return self._pool


def _caught(work: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """Gevent prints the traceback of what a thread raises, and with it perhaps a prompt."""
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001 -- it is raised again on the caller's side
        return None, error
