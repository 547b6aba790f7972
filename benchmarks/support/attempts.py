"""Every attempt at a generation, as the workers tell it in Celery's events: where it ran, since when, how it ended.

The records keep only the last attempt; the events, which Flower shows, tell all.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from celery import Celery

_RESULT = re.compile(r"ran=(gen_\w+) attempt=\d+ outcome=(\S+?) seconds=([\d.]+)")
_WORKER = re.compile(r"gpu-(.+)-(\d+)@")


@dataclass(frozen=True)
class Attempt:
    """One run of a generation on an instance; `began` in Unix seconds of this machine's clock."""

    generation: str
    instance: str
    began: float
    outcome: str

    @property
    def completed(self) -> bool:
        return self.outcome in {"completed", "incomplete"}


def attempt_from(event: Mapping[str, Any]) -> Attempt | None:
    """What a `task-succeeded` event tells; None where the task has run nothing."""
    ran = _RESULT.search(str(event.get("result", "")))
    worker = _WORKER.match(str(event.get("hostname", "")))
    if ran is None or worker is None:
        return None
    generation, outcome, seconds = ran.groups()
    return Attempt(generation, ".".join(worker.groups()), event["timestamp"] - float(seconds), outcome)


class Attempts:
    """A context in which all attempts are noted."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._seen: list[Attempt] = []
        self._listening, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._listening.wait(10):
            raise RuntimeError("the workers' events cannot be read")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def seen(self) -> list[Attempt]:
        return list(self._seen)

    def _listen(self) -> None:
        app = Celery("bench", broker=self._broker, set_as_current=False)
        with app.connection_for_read() as connection:
            receiver = app.events.Receiver(connection, handlers={"task-succeeded": self._note})
            with receiver.consumer_context() as (consuming, _, _):
                self._listening.set()
                while not self._over.is_set():
                    with suppress(TimeoutError):
                        consuming.drain_events(timeout=0.2)

    def _note(self, event: Mapping[str, Any]) -> None:
        attempt = attempt_from(event)
        if attempt is not None:
            self._seen.append(attempt)
