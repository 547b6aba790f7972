"""What a process remembers for a moment instead of asking Redis each time; bounded in size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")


class Remembered(Generic[V]):
    """Values by name, each for a few seconds. Full, it forgets everything: asking again is cheap.

    Args:
        seconds: the longest that a value is remembered.
        most: values.
        monotonic: seconds.
    """

    def __init__(self, seconds: float, most: int, monotonic: Callable[[], float]) -> None:
        self._seconds = seconds
        self._most = most
        self._monotonic = monotonic
        self._values: dict[str, tuple[V, float]] = {}

    def get(self, name: str) -> V | None:
        """The value, or None when it is not (or no longer) remembered."""
        known = self._values.get(name)
        return known[0] if known is not None and known[1] > self._monotonic() else None

    def put(self, name: str, value: V, *, at_most: float | None = None) -> None:
        """Remember a value, at most for `at_most` seconds."""
        if len(self._values) >= self._most:
            self._values.clear()
        seconds = self._seconds if at_most is None else min(self._seconds, at_most)
        self._values[name] = (value, self._monotonic() + seconds)

    def forget(self, name: str) -> None:
        self._values.pop(name, None)
