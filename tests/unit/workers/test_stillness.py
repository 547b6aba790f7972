"""A worker that is connected but no longer consumes is noticed; one that has nothing to do is not."""

from __future__ import annotations

from workers.consuming import Stillness


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_messages_that_lie_too_long_beside_free_places_are_noticed() -> None:
    clock = Clock()
    stillness = Stillness(10, clock)
    assert not stillness.look(waiting=3, able=True)
    clock.now = 10.5
    assert stillness.look(waiting=3, able=True)


def test_a_received_task_proves_consuming() -> None:
    clock = Clock()
    stillness = Stillness(10, clock)
    stillness.look(waiting=3, able=True)
    clock.now = 9
    stillness.received()
    clock.now = 11
    assert not stillness.look(waiting=3, able=True)


def test_an_empty_queue_or_a_busy_worker_proves_nothing() -> None:
    clock = Clock()
    stillness = Stillness(10, clock)
    stillness.look(waiting=3, able=True)
    clock.now = 20
    assert not stillness.look(waiting=0, able=True)
    assert not stillness.look(waiting=3, able=False)
    clock.now = 29
    assert not stillness.look(waiting=3, able=True)
