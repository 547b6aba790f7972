"""One reader of one generation's events: log first, then live, without gap or repetition."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Self

from app.errors import QueueUnavailable
from app.jobs.events import Event
from app.jobs.messages import Left, Message

if TYPE_CHECKING:
    from app.jobs.feed import LogReader

BUFFERED_MESSAGES = 256
_PAGE = 256
_FRESH_SECONDS = 0.25


class Sign(Enum):
    """What a tail says besides events."""

    TICK = "nothing happened for a while"
    RESYNCED = "messages may have been missed; the log has been read since, so look at the job itself"


Item = list[Event] | Left | Sign


class Tail:
    """Made by `Feed.open`. `follow` is called by one reader; `put` and the notices come from the feed's reader."""

    def __init__(
        self,
        generation: str,
        start: int | None,
        *,
        fresh: bool,
        read_log: LogReader,
        on_close: Callable[[Tail], None],
    ) -> None:
        self.generation = generation
        self._next = start
        self._read_log = read_log
        self._on_close = on_close
        self._messages: deque[Message] = deque()
        self._wake = threading.Event()
        self._subscribed = threading.Event()
        self._stale = not fresh
        self._heard = not fresh

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def next(self) -> int | None:
        """The sequence number that is wanted next."""
        return self._next

    def close(self) -> None:
        self._on_close(self)

    def put(self, message: Message) -> None:
        """A live message. A reader that is too slow is sent back to the log."""
        if len(self._messages) >= BUFFERED_MESSAGES:
            self._stale = True
        else:
            self._messages.append(message)
        self._wake.set()

    def subscribed(self, *, from_the_start: bool = False) -> None:
        """Everything that is published from now on will be put; `from_the_start`: since the tail was opened."""
        self._heard = self._heard or from_the_start
        self._subscribed.set()

    def unsubscribed(self) -> None:
        """The connection is lost, and messages with it."""
        self._subscribed.clear()
        self._stale = True
        self._wake.set()

    def follow(self, *, tick: float) -> Iterator[Item]:
        """Events in batches, in order, each once; `Sign.TICK` whenever nothing happened for `tick` seconds.

        Never ends by itself: the caller knows what the end is. While Redis is away only ticks come.
        """
        while True:
            if self._stale:
                yield from self._catch_up(tick)
            elif self._messages:
                yield from self._live()
            else:
                yield from self._wait(tick)

    def _wait(self, tick: float) -> Iterator[Item]:
        self._wake.clear()
        if self._messages or self._stale:
            return
        if self._wake.wait(tick if self._heard else min(tick, _FRESH_SECONDS)):
            return
        if self._heard:
            yield Sign.TICK
        else:  # the first message is overdue: it may have been published before the subscription
            self._heard = self._stale = True

    def _live(self) -> Iterator[Item]:
        batch: list[Event] = []
        while self._messages and not self._stale:
            message = self._messages.popleft()
            self._heard = True
            if isinstance(message, Left):
                if batch:
                    yield batch
                    batch = []
                yield message
            else:
                batch += self._wanted(message)
        if batch:
            yield batch

    def _wanted(self, events: list[Event]) -> list[Event]:
        """Cut what was seen; on a gap nothing is taken and the log is read."""
        if self._next is None or not events:
            return events
        first = events[0].sequence
        if first > self._next:
            self._stale = True
            return []
        fresh = events[self._next - first :]
        self._next = max(self._next, first + len(events))
        return fresh

    def _catch_up(self, tick: float) -> Iterator[Item]:
        if not self._subscribed.wait(tick):
            yield Sign.TICK
            return
        self._stale = False  # first: whatever is missed while the log is read makes it stale again
        self._heard = True
        if self._next is not None:
            try:
                yield from self._pages(self._next)
            except QueueUnavailable:
                self._stale = True
                yield Sign.TICK
                time.sleep(min(tick, 0.5))  # what is away is not asked in a tight loop
                return
        yield Sign.RESYNCED

    def _pages(self, start: int) -> Iterator[Item]:
        while page := self._read_log(self.generation, start=start, count=_PAGE):
            start = self._next = page[-1].sequence + 1
            yield page
            if len(page) < _PAGE:
                return
