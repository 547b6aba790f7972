"""Pausing and resuming a consumer whose loop runs what is planned for one turn in any order."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from workers.consuming import Consuming

QUEUES = ("gpu.m.0", "gpu.m")


class Consumer:
    """Celery's consumer, whose loop is turned by hand; kombu's hub keeps what is planned in a set."""

    def __init__(self, order: Callable[[list[Any]], Any]) -> None:
        self._order = order
        self._planned: list[Callable[[], None]] = []
        self.consumed = set(QUEUES)
        self.app = SimpleNamespace(amqp=SimpleNamespace(queues=SimpleNamespace(select_add=lambda _: None)))

    def call_soon(self, call: Callable[..., None], *args: Any) -> None:
        self._planned.append(lambda: call(*args))

    def turn(self) -> None:
        planned, self._planned = self._planned, []
        for call in self._order(planned):
            call()

    def cancel_task_queue(self, name: str) -> None:
        self.consumed.discard(name)

    def add_task_queue(self, name: str) -> None:
        self.consumed.add(name)


@pytest.mark.parametrize("order", [list, reversed], ids=["in order", "reversed"])
@pytest.mark.parametrize("wishes", ["pr", "prp", "prpr", "p", "rprp"])
def test_the_last_wish_of_a_turn_counts_whatever_the_order(order: Callable[[list[Any]], Any], wishes: str) -> None:
    consumer = Consumer(order)
    consuming = Consuming(consumer, QUEUES)
    for wish in wishes:
        (consuming.pause if wish == "p" else consuming.resume)()
    consumer.turn()
    assert consumer.consumed == (set() if wishes.endswith("p") else set(QUEUES))
    assert consuming.paused is wishes.endswith("p")


def test_wishes_of_different_turns_follow_each_other() -> None:
    consumer = Consumer(list)
    consuming = Consuming(consumer, QUEUES)
    for _ in range(3):
        consuming.pause()
        consumer.turn()
        assert not consumer.consumed
        consuming.resume()
        consumer.turn()
        assert consumer.consumed == set(QUEUES)
