"""The live tail of generations' event logs, and resume: one pub/sub connection a process, however many streams.

Events are published in the same Lua step that logs them, so a reader subscribes, reads the log from where it wants to
begin, and goes on with live messages: an overlap is cut, and a gap (or a reconnect, or a full buffer) sends it back to
the log. Nothing is buffered beyond a limit; the log is the buffer.

Works with threads and, under monkey patching, with greenlets.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import structlog

from app.jobs.events import Event
from app.jobs.messages import parse
from app.jobs.tail import Tail
from app.redis import REDIS_AWAY

CHANNEL = "ph:live:"
_PING_SECONDS = 2.0
_CHUNK = 500
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0

_log = structlog.get_logger(__name__)


class Link(Protocol):
    """One pub/sub connection (see `app.redis.PubSubLink`)."""

    def send(self, *command: str) -> None: ...
    def read(self, timeout: float) -> list[Any] | None: ...
    def close(self) -> None: ...


class LogReader(Protocol):
    """Reads a page of a generation's log (see `JobStore.log`)."""

    def __call__(self, generation: str, *, start: int, count: int) -> list[Event]: ...


class Feed:
    """Hands live events to any number of tails.

    Args:
        connect: makes a connected link; raises what `REDIS_AWAY` names.
        read_log: raises `QueueUnavailable` while Redis is away.
    """

    def __init__(self, connect: Callable[[], Link], read_log: LogReader) -> None:
        self._connect = connect
        self._read_log = read_log
        self._lock = threading.Lock()
        self._tails: dict[str, tuple[Tail, ...]] = {}
        self._acks_due: dict[str, int] = {}
        self._link: Link | None = None
        self._reader: threading.Thread | None = None
        self._closed = False

    @property
    def connected(self) -> bool:
        return self._link is not None

    @property
    def streams(self) -> int:
        """Tails that are open now."""
        return sum(map(len, self._tails.values()))

    def follows(self, generation: str) -> bool:
        """Whether any tail of this generation is open."""
        return generation in self._tails

    def open(self, generation: str, *, start: int | None = 0, fresh: bool = False) -> Tail:
        """Subscribe to a generation. Use the tail as a context manager: the last one to close unsubscribes.

        Args:
            generation: whose events.
            start: the first sequence number wanted; None: only what happens from now on, without reading the log.
            fresh: the generation is about to be submitted by the caller, so everything will come live and the log
                need not be read unless something is missing.
        """
        tail = Tail(generation, start, fresh=fresh, read_log=self._read_log, on_close=self._forget)
        with self._lock:
            self._start_reader()
            others = self._tails.get(generation, ())
            self._tails[generation] = (*others, tail)
            if not others:
                self._send("SUBSCRIBE", generation)
            elif self._link is not None and not self._acks_due.get(generation):
                tail.subscribed(from_the_start=True)
        return tail

    def close(self) -> None:
        """End the reader; open tails see no more live events."""
        with self._lock:
            self._closed = True
            if self._link is not None:
                self._link.close()

    def _forget(self, tail: Tail) -> None:
        with self._lock:
            left = tuple(t for t in self._tails.get(tail.generation, ()) if t is not tail)
            if left:
                self._tails[tail.generation] = left
            elif self._tails.pop(tail.generation, None) is not None:
                self._send("UNSUBSCRIBE", tail.generation)

    def _send(self, command: str, *generations: str) -> None:
        """Under the lock. A failure is the reader's to notice: it reconnects and subscribes to everything again."""
        if self._link is None:
            return
        if command == "SUBSCRIBE":
            for generation in generations:
                self._acks_due[generation] = self._acks_due.get(generation, 0) + 1
        try:
            self._link.send(command, *(CHANNEL + g for g in generations))
        except REDIS_AWAY:
            self._link.close()

    def _start_reader(self) -> None:
        if self._reader is None:
            self._reader = threading.Thread(target=self._run, name="feed", daemon=True)
            self._reader.start()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._closed:
            try:
                link = self._connect()
                self._take(link)
                pause = _FIRST_PAUSE
                self._read(link)
            except REDIS_AWAY as error:
                _log.info("feed_disconnected", error=type(error).__name__)
            except Exception:  # noqa: BLE001 -- whatever it was, streams need their reader
                _log.exception("feed_failed")
            finally:
                self._lose()
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _take(self, link: Link) -> None:
        with self._lock:
            self._link = link
            self._acks_due.clear()
            wanted = list(self._tails)
            for at in range(0, len(wanted), _CHUNK):
                self._send("SUBSCRIBE", *wanted[at : at + _CHUNK])

    def _lose(self) -> None:
        with self._lock:
            link, self._link = self._link, None
            for tails in self._tails.values():
                for tail in tails:
                    tail.unsubscribed()
        if link is not None:
            link.close()

    def _read(self, link: Link) -> None:
        """Until the link breaks, or answers neither with messages nor to a ping."""
        asked = False
        while not self._closed:
            found = link.read(_PING_SECONDS)
            if found is not None:
                asked = False
                self._dispatch(found)
            elif asked:
                raise ConnectionError("no answer to a ping")
            else:
                asked = True
                link.send("PING")

    def _dispatch(self, reply: list[Any]) -> None:
        match reply:
            case ["message", str(channel), str(data)]:
                tails = self._tails.get(channel[len(CHANNEL) :])
                if tails:
                    message = parse(data)
                    for tail in tails:
                        tail.put(message)
            case ["subscribe", str(channel), _]:
                self._acknowledge(channel[len(CHANNEL) :])

    def _acknowledge(self, generation: str) -> None:
        with self._lock:
            due = self._acks_due.pop(generation, 1) - 1
            if due > 0:
                self._acks_due[generation] = due
                return
            for tail in self._tails.get(generation, ()):
                tail.subscribed()
