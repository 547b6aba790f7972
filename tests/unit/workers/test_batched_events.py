"""Events that come together leave together, and none is left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workers.batched_events import BatchedEvents


class Hub:
    """Celery's loop, turned by hand."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], Any]] = []
        self.later: list[Callable[[], Any]] = []

    def call_soon(self, call: Callable[[], Any]) -> None:
        self.soon.append(call)

    def call_later(self, seconds: float, call: Callable[[], Any]) -> None:
        assert seconds > 0
        self.later.append(call)

    def turn(self) -> None:
        """What is due now, then what was planned."""
        for calls in (self.soon, self.later):
            due = calls[:]
            calls.clear()
            for call in due:
                call()


class Dispatcher:
    def __init__(self) -> None:
        self.flushes = 0
        self.on_flush: Callable[[], None] = lambda: None

    def flush(self) -> None:
        self.flushes += 1
        self.on_flush()


class Consumer:
    def __init__(self) -> None:
        self.hub = Hub()
        self.event_dispatcher: Dispatcher | None = Dispatcher()
        self.steps: list[Any] = []


def of(consumer: Consumer) -> Callable[[], None]:
    """Put the step in; returns what the dispatcher calls after it has buffered an event."""
    BatchedEvents(consumer)
    return consumer.on_send_event_buffered  # type: ignore[attr-defined,no-any-return]


def test_many_events_of_a_moment_are_flushed_once() -> None:
    consumer = Consumer()
    buffered = of(consumer)
    for _ in range(10):
        buffered()
    assert len(consumer.hub.soon) == 1  # the loop is woken once
    consumer.hub.turn()
    assert consumer.event_dispatcher is not None
    assert consumer.event_dispatcher.flushes == 1


def test_an_event_that_comes_while_others_are_flushed_plans_its_own_flush() -> None:
    consumer = Consumer()
    buffered = of(consumer)
    assert consumer.event_dispatcher is not None
    consumer.event_dispatcher.on_flush = lambda: None if consumer.hub.soon else buffered()
    buffered()
    consumer.hub.turn()
    assert len(consumer.hub.soon) == 1


def test_a_new_connection_plans_anew_and_an_absent_dispatcher_is_survived() -> None:
    consumer = Consumer()
    step = BatchedEvents(consumer)
    buffered = consumer.on_send_event_buffered  # type: ignore[attr-defined]
    buffered()
    consumer.hub.soon.clear()  # lost with the old connection
    step.start(consumer)
    consumer.event_dispatcher = None
    buffered()
    consumer.hub.turn()
    assert not consumer.hub.soon


def test_the_last_events_leave_at_shutdown() -> None:
    consumer = Consumer()
    step = BatchedEvents(consumer)
    step.shutdown(consumer)
    assert consumer.event_dispatcher is not None
    assert consumer.event_dispatcher.flushes == 1
