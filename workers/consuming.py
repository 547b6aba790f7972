"""Whether this worker takes messages: paused while its instance is unhealthy, watched so that it never just stops.

A Celery worker can lose its broker connection and look alive while it consumes nothing. The proof of consuming is a
task received while messages lie in our queues; without it for too long the process ends, and its supervisor starts
a fresh one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from app.queueing import queue

_log = structlog.get_logger(__name__)


class Consuming:
    """Pauses and resumes Celery's consumer, from any thread.

    Args:
        consumer: Celery's `Consumer`; its `call_soon` runs things on its own loop.
        queues: what this worker consumes.
    """

    def __init__(self, consumer: Any, queues: Sequence[str]) -> None:
        self._consumer = consumer
        self._queues = tuple(queues)
        self.paused = False
        self._settled = False  # what Celery was told last; read and written on its loop only

    @property
    def queues(self) -> tuple[str, ...]:
        return self._queues

    def pause(self) -> None:
        """Take no new messages. What is prefetched already goes back to the queue when the worker ends."""
        self._want(paused=True)

    def resume(self) -> None:
        self._want(paused=False)

    def _want(self, *, paused: bool) -> None:
        if self.paused is paused:
            return
        self.paused = paused
        _log.info("consuming_paused" if paused else "consuming_resumed")
        # What is planned for one turn of Celery's loop runs in any order (kombu's hub keeps it in a set), so each call
        # settles what is wanted by then: a cancel that came after its resume would leave the worker deaf.
        self._consumer.call_soon(self._settle)

    def _settle(self) -> None:
        paused = self.paused
        if self._settled is paused:
            return
        self._settled = paused
        for name in self._queues:
            if paused:
                self._consumer.cancel_task_queue(name)
            else:
                self._add(name)

    def _add(self, name: str) -> None:
        # Selected again first: a queue that is only added is forgotten at the next reconnection.
        self._consumer.app.amqp.queues.select_add(queue(name))
        self._consumer.add_task_queue(name)


class Stillness:
    """Says when a worker that should consume has not for too long.

    Args:
        limit: seconds in which messages lay in the queues, places were free, and none was received.
    """

    def __init__(self, limit: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self._since: float | None = None

    def received(self) -> None:
        """A task came in: we do consume."""
        self._since = None

    def look(self, *, waiting: int, able: bool) -> bool:
        """One look at the queues. True when the worker must be replaced.

        Args:
            waiting: messages in our queues.
            able: the instance is ready, not draining, not paused, and has a free place.
        """
        if not (waiting and able):
            self._since = None
            return False
        now = self._monotonic()
        if self._since is None:
            self._since = now
        return now - self._since > self._limit
