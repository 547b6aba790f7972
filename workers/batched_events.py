"""Task events leave in batches: what happens within a moment goes out in one message.

Celery publishes its buffer at the next turn of its loop, which for tasks that wait for something else means one
message for nearly every event: a third of the time of Celery's thread when jobs are short. Who watches Flower does not
see a tenth of a second.
"""

from __future__ import annotations

from typing import Any

from celery import bootsteps
from vine import promise

_SECONDS = 0.1


class BatchedEvents(bootsteps.StartStopStep):  # type: ignore[misc]
    """A step of Celery's consumer that stands between its event dispatcher and the flush.

    Events are buffered by any thread; the flush is planned and done by the consumer's own loop.
    """

    requires = ("celery.worker.consumer.events:Events",)  # so that it shuts down before it

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._consumer = consumer
        self._planned = False
        self._plan_soon = promise(self._plan)
        consumer.on_send_event_buffered = self._buffered

    def start(self, consumer: Any) -> None:  # noqa: ARG002 -- the signature is Celery's
        """A new connection: what was planned on the old one may be forgotten."""
        self._planned = False

    def shutdown(self, consumer: Any) -> None:  # noqa: ARG002
        """What the last moment has brought goes out before the process ends."""
        self._flush()

    def _buffered(self) -> None:
        if not self._planned:
            self._planned = True
            self._consumer.hub.call_soon(self._plan_soon)

    def _plan(self) -> None:
        self._consumer.hub.call_later(_SECONDS, self._flush)

    def _flush(self) -> None:
        self._planned = False  # first: an event that comes now plans its own flush
        dispatcher = self._consumer.event_dispatcher
        if dispatcher is not None:
            dispatcher.flush()
