"""Server-sent events out of a byte stream (WHATWG HTML, section 9.2), as far as engines send them.

Only `data` is of interest: comments, `event`, `id` and `retry` are passed over. Lines end with LF or CRLF.
"""

from __future__ import annotations

LARGEST_EVENT = 8 * 1024 * 1024


class EventTooLargeError(Exception):
    """An event exceeds the limit: the stream is no stream of tokens."""


class EventSplitter:
    """Cuts chunks of bytes, split anywhere, into the data of whole events.

    Args:
        limit: bytes that one event may have.
    """

    def __init__(self, limit: int = LARGEST_EVENT) -> None:
        self._limit = limit
        self._rest = b""
        self._data: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that `chunk` completes, in order.

        Raises:
            EventTooLargeError: what is held of an unfinished event exceeds the limit.
        """
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        events: list[bytes] = []
        for line in lines:
            self._take(line[:-1] if line.endswith(b"\r") else line, events)
        if self._held + len(self._rest) > self._limit:
            raise EventTooLargeError
        return events

    def _take(self, line: bytes, events: list[bytes]) -> None:
        if line.startswith(b"data:"):
            value = line[6:] if line[5:6] == b" " else line[5:]
            self._data.append(value)
            self._held += len(value)
        elif not line and self._data:
            events.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
            self._data = []
            self._held = 0
